//! A slot over a channel on a WebSocket.

use std::collections::HashMap;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};
use tokio_tungstenite::tungstenite::{self, Message};
use watchfire_page_client::open_websocket;

use super::super::physics::Crossing;
use super::{Event, Grid, Slot, edges};

/// How long connecting and a write may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const HEARTBEAT: Duration = Duration::from_secs(30);
/// The references of the join and of heartbeats. Throws have greater ones.
const JOIN: u64 = 1;
const ALIVE: u64 = 2;

/// A frame: the reference of the join, its own one, the topic, the event and the payload.
type Frame = (Option<String>, Option<String>, String, String, Value);

/// The part of a connection that its end does not lose.
#[derive(Default)]
struct Progress {
    has_joined: bool,
    /// Throws without a reply.
    thrown: HashMap<u64, Crossing>,
}

impl Grid {
    /// Joins the channel until it ends. Returns whether it joined, and the reason.
    pub(super) async fn run_channel(
        &self,
        throws: &mut mpsc::Receiver<Crossing>,
    ) -> (bool, String) {
        let mut progress = Progress::default();
        let reason = match self.run_connection(throws, &mut progress).await {
            Ok(reason) => reason,
            Err(error) => error.to_string(),
        };
        for crossing in progress.thrown.into_values() {
            self.wrap(crossing).await;
        }
        (progress.has_joined, reason)
    }

    async fn run_connection(
        &self,
        throws: &mut mpsc::Receiver<Crossing>,
        progress: &mut Progress,
    ) -> anyhow::Result<String> {
        let connecting = async {
            let stream = self.connector.connect().await?;
            anyhow::Ok(open_websocket(&*self.connector, stream).await?)
        };
        let mut socket = timeout(CONNECT_TIMEOUT, connecting).await??;
        let topic = format!("sprites:{}", self.name);
        let frame = |reference: u64, topic: &str, event: &str, payload: Value| {
            let join = (topic != "phoenix").then(|| JOIN.to_string());
            let text = json!([join, reference.to_string(), topic, event, payload]).to_string();
            Message::text(text)
        };
        socket.send(frame(JOIN, &topic, "phx_join", self.join_payload())).await?;
        let mut heartbeats = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        let (mut next, mut is_alive) = (ALIVE + 1, true);
        loop {
            tokio::select! {
                message = socket.next() => match message {
                    None => return Ok("the server closed the connection".to_owned()),
                    Some(message) => {
                        is_alive = true;
                        if let Message::Text(text) = message?
                            && let Some(reason) = self.receive(&text, progress).await?
                        {
                            return Ok(reason);
                        }
                    }
                },
                Some(crossing) = throws.recv() => {
                    let message = frame(next, &topic, "throw", json!(crossing));
                    progress.thrown.insert(next, crossing);
                    next += 1;
                    written(socket.send(message)).await?;
                }
                _ = heartbeats.tick() => {
                    if !std::mem::take(&mut is_alive) {
                        return Ok("the server does not answer".to_owned());
                    }
                    written(socket.send(frame(ALIVE, "phoenix", "heartbeat", json!({})))).await?;
                }
            }
        }
    }

    /// Handles a frame. Returns why the channel has ended, if it has.
    async fn receive(&self, text: &str, progress: &mut Progress) -> anyhow::Result<Option<String>> {
        let (_, reference, topic, event, mut payload): Frame = serde_json::from_str(text)?;
        if topic == "phoenix" {
            return Ok(None);
        }
        let reference = reference.and_then(|reference| reference.parse().ok()).unwrap_or_default();
        match &*event {
            "arrive" => self.send(Event::Arrived(serde_json::from_value(payload)?)).await,
            "neighbours" => self.send(Event::Neighbours(edges(&payload))).await,
            "moved" => {
                *self.token() = None;
                return Ok(Some("another program took the slot".to_owned()));
            }
            "phx_close" | "phx_error" => {
                return Ok(Some("the server closed the channel".to_owned()));
            }
            "phx_reply" if reference == JOIN => {
                let response = payload["response"].take();
                if payload["status"] != "ok" {
                    // A slot that another program has is not given back.
                    *self.token() = None;
                    return Ok(Some(format!("the server refused the join: {response}")));
                }
                progress.has_joined = true;
                self.joined(serde_json::from_value::<Slot>(response)?).await;
            }
            "phx_reply" => {
                let Some(crossing) = progress.thrown.remove(&reference) else { return Ok(None) };
                if payload["status"] != "ok" || payload["response"]["wrapped"] == true {
                    self.wrap(crossing).await;
                }
            }
            _ => {}
        }
        Ok(None)
    }
}

async fn written(
    writing: impl Future<Output = Result<(), tungstenite::Error>>,
) -> anyhow::Result<()> {
    let does_not_read = |_| anyhow::anyhow!("the server does not read");
    Ok(timeout(CONNECT_TIMEOUT, writing).await.map_err(does_not_read)??)
}
