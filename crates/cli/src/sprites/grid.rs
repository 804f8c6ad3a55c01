//! A slot on a grid of sprites, over long polls (`docs/reference/protocols/sprites.md`).

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use watchfire_page_client::ServerUrl;

use super::physics::{Crossing, Edge};
use crate::http_client::{HttpClient, Request};

/// Longer than `socket.sprites_window`, after which a server answers a poll in any case.
const POLL_TIMEOUT: Duration = Duration::from_secs(180);
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The first pause before another join. It doubles up to [`REJOIN_AFTER_MAX`].
const REJOIN_AFTER: Duration = Duration::from_millis(250);
const REJOIN_AFTER_MAX: Duration = Duration::from_secs(10);

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
    name: String,
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
    pub fn new(server: &ServerUrl, name: &str) -> std::io::Result<Arc<Self>> {
        let client = HttpClient::new(server, POLL_TIMEOUT, ANSWER_BYTES_MAX)?;
        Ok(Arc::new(Grid { client, name: name.to_owned() }))
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

    /// Joins and polls until the receiver is dropped. `token` has the token of the slot while it is joined.
    pub async fn run(self: Arc<Self>, events: mpsc::Sender<Event>, token: Token) {
        let mut pause = REJOIN_AFTER;
        loop {
            let before = token.lock().clone();
            let joined = self.join(before, &token, &events).await;
            let reason = match joined {
                Ok(token_text) => {
                    pause = REJOIN_AFTER;
                    self.poll(&token_text, &events).await
                }
                Err(reason) => reason,
            };
            if events.send(Event::Neighbours(Vec::new())).await.is_err() {
                return;
            }
            let _ = events.send(Event::Lost(reason)).await;
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(REJOIN_AFTER_MAX);
        }
    }

    async fn join(
        &self,
        before: Option<String>,
        token: &Token,
        events: &mpsc::Sender<Event>,
    ) -> Result<String, String> {
        let body = before.map_or(json!({}), |token| json!({ "token": token }));
        let slot: Slot = self.call("POST", "join", body).await?;
        *token.lock() = Some(slot.token.clone());
        let _ = events.send(Event::Neighbours(edges(&slot.neighbours))).await;
        Ok(slot.token)
    }

    /// Polls until a poll fails, and returns the reason.
    async fn poll(&self, token: &str, events: &mpsc::Sender<Event>) -> String {
        let call = format!("poll?token={token}");
        loop {
            let answer: PollAnswer = match self.call("GET", &call, Value::Null).await {
                Ok(answer) => answer,
                Err(reason) => return reason,
            };
            let _ = events.send(Event::Neighbours(edges(&answer.neighbours))).await;
            for arrival in answer.arrivals {
                let _ = events.send(Event::Arrived(arrival)).await;
            }
        }
    }

    /// Throws a sprite. If no neighbour takes it, it comes in at the opposite edge.
    pub async fn throw(
        self: Arc<Self>,
        crossing: Crossing,
        token: Token,
        events: mpsc::Sender<Event>,
    ) {
        let mut body = json!(crossing);
        body["token"] = json!(*token.lock());
        let reply = self.call::<Value>("POST", "throw", body).await;
        if !reply.is_ok_and(|reply| reply["wrapped"] != true) {
            let edge = crossing.edge.opposite();
            let _ = events.send(Event::Arrived(Crossing { edge, ..crossing })).await;
        }
    }

    /// Closes the slot immediately.
    pub async fn leave(&self, token: &Token) {
        let body = json!({ "token": *token.lock() });
        let leaving = self.call::<Value>("POST", "leave", body);
        let _ = tokio::time::timeout(Duration::from_secs(1), leaving).await;
    }
}

/// The secret that gives a slot back.
#[derive(Clone, Default)]
pub struct Token(Arc<std::sync::Mutex<Option<String>>>);

impl Token {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.0.lock().expect("no holder of the lock panics")
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
