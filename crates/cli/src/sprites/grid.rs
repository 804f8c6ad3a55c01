//! A slot on a grid of sprites (`docs/reference/protocols/sprites.md`).

mod channel;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use watchfire_page_client::{Connector, ServerUrl};

use super::physics::{Crossing, Edge};
use crate::http_client::{HttpClient, Request};

/// Longer than `socket.sprites_window`, after which a server answers a poll in any case.
const POLL_TIMEOUT: Duration = Duration::from_secs(180);
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The first pause before another join. It doubles up to [`REJOIN_AFTER_MAX`].
const REJOIN_AFTER: Duration = Duration::from_millis(250);
const REJOIN_AFTER_MAX: Duration = Duration::from_secs(10);

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// A channel over a WebSocket
    Websocket,
    /// Long polls over plain HTTP
    Longpoll,
}

/// A message of the grid to the desktop.
pub enum Event {
    Arrived(Crossing),
    /// The edges with a neighbour.
    Neighbours(Vec<Edge>),
    /// The connection is lost for this reason, and the client tries again.
    Lost(String),
}

pub struct Grid {
    client: HttpClient,
    connector: Arc<dyn Connector>,
    name: String,
    transport: Transport,
    events: mpsc::Sender<Event>,
    /// The secret that gives the slot back.
    token: Mutex<Option<String>>,
}

#[derive(Deserialize)]
struct Slot {
    token: String,
    neighbours: Value,
}

#[derive(Deserialize)]
struct PollAnswer {
    arrivals: Vec<Crossing>,
    neighbours: Value,
}

impl Grid {
    pub fn new(
        server: &ServerUrl,
        name: &str,
        transport: Transport,
        events: mpsc::Sender<Event>,
    ) -> std::io::Result<Arc<Self>> {
        let client = HttpClient::new(server, POLL_TIMEOUT, ANSWER_BYTES_MAX)?;
        let (connector, name) = (server.connector()?, name.to_owned());
        Ok(Arc::new(Grid { client, connector, name, transport, events, token: Mutex::default() }))
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: &'static str,
        call: &str,
        body: Value,
    ) -> Result<T, String> {
        let path = format!("/sprites/{}/{call}", self.name);
        let body = if method == "GET" { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request { method, path, headers: Vec::new(), body };
        let answer = self.client.exchange(&request).await.map_err(|error| error.to_string())?;
        if answer.status != 200 {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(format!("the server answered {}: {text}", answer.status));
        }
        serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
    }

    /// Joins, and joins again when the slot is lost, until `throws` ends.
    pub async fn run(self: Arc<Self>, mut throws: mpsc::Receiver<Crossing>) {
        let mut pause = REJOIN_AFTER;
        while !throws.is_closed() {
            let (has_joined, reason) = match self.transport {
                Transport::Websocket => self.run_channel(&mut throws).await,
                Transport::Longpoll => self.run_polls(&mut throws).await,
            };
            if has_joined {
                pause = REJOIN_AFTER;
            }
            self.send(Event::Neighbours(Vec::new())).await;
            self.send(Event::Lost(reason)).await;
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(REJOIN_AFTER_MAX);
        }
    }

    async fn send(&self, event: Event) {
        // The desktop ends soon when it receives no more.
        let _ = self.events.send(event).await;
    }

    fn join_payload(&self) -> Value {
        self.token().clone().map_or(json!({}), |token| json!({ "token": token }))
    }

    fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.token.lock().expect("no holder of the lock panics")
    }

    async fn joined(&self, slot: Slot) {
        *self.token() = Some(slot.token);
        self.send(Event::Neighbours(edges(&slot.neighbours))).await;
    }

    /// Joins and polls until a request fails. Returns whether it joined, and the reason.
    async fn run_polls(self: &Arc<Self>, throws: &mut mpsc::Receiver<Crossing>) -> (bool, String) {
        let slot: Slot = match self.call("POST", "join", self.join_payload()).await {
            Ok(slot) => slot,
            Err(reason) => return (false, reason),
        };
        let call = format!("poll?token={}", slot.token);
        self.joined(slot).await;
        let polls = async {
            loop {
                let answer: PollAnswer = match self.call("GET", &call, Value::Null).await {
                    Ok(answer) => answer,
                    Err(reason) => break reason,
                };
                self.send(Event::Neighbours(edges(&answer.neighbours))).await;
                for arrival in answer.arrivals {
                    self.send(Event::Arrived(arrival)).await;
                }
            }
        };
        let throwing = async {
            while let Some(crossing) = throws.recv().await {
                tokio::spawn(Arc::clone(self).throw(crossing));
            }
            "the program ends".to_owned()
        };
        tokio::select! {
            reason = polls => (true, reason),
            reason = throwing => (true, reason),
        }
    }

    async fn throw(self: Arc<Self>, crossing: Crossing) {
        let mut body = json!(crossing);
        body["token"] = json!(*self.token());
        let reply = self.call::<Value>("POST", "throw", body).await;
        if !reply.is_ok_and(|reply| reply["wrapped"] != true) {
            self.wrap(crossing).await;
        }
    }

    /// Lets a sprite that no neighbour took come in at the opposite edge.
    async fn wrap(&self, crossing: Crossing) {
        let edge = crossing.edge.opposite();
        self.send(Event::Arrived(Crossing { edge, ..crossing })).await;
    }

    /// Closes the slot immediately.
    pub async fn leave(&self) {
        let body = json!({ "token": *self.token() });
        let leaving = self.call::<Value>("POST", "leave", body);
        let _ = tokio::time::timeout(Duration::from_secs(1), leaving).await;
    }
}

fn edges(neighbours: &Value) -> Vec<Edge> {
    let names =
        [("left", Edge::Left), ("right", Edge::Right), ("up", Edge::Up), ("down", Edge::Down)];
    names
        .into_iter()
        .filter(|(name, _)| neighbours[name].is_string())
        .map(|(_, edge)| edge)
        .collect()
}
