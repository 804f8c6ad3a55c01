//! `sprites:<grid>`: slots and throws over a channel.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use watchfire::internal::{Metrics, TokenKey};
use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
use watchfire_types::PeerId;

use super::grids::ReplicatedGrids;
use super::metrics::SpriteMetrics;
use super::name::{TOPIC_PREFIX, check_grid};
use super::slot::JoiningCarrier;
use super::slot_token::SlotToken;
use super::throw_message::Throw;

/// The channel of the topics `sprites:<grid>`.
pub(super) struct SpriteChannel {
    pub grids: Arc<ReplicatedGrids>,
    pub slot_tokens: TokenKey,
    pub metrics: Arc<Metrics>,
    pub counts: Arc<SpriteMetrics>,
    pub throw_bytes_max: u32,
}

#[derive(Default, Deserialize)]
struct JoinPayload {
    token: Option<String>,
}

impl Channel for SpriteChannel {
    /// The client's peer id on this grid.
    type State = PeerId;

    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<PeerId>, Refusal> {
        let grid = grid_of(socket.topic());
        check_grid(grid).map_err(Refusal::with)?;
        let Ok(JoinPayload { token }) = payload.json() else {
            return Err(Refusal::with(json!({
                "reason": "bad join",
                "message": "the join takes {\"token\": text}, or {}",
            })));
        };
        let before = token.and_then(|token| SlotToken::open(&self.slot_tokens, &token));
        let fresh = self.grids.new_peer().map_err(|_| Refusal::because("no randomness"))?;
        let carrier = JoiningCarrier::Channel(socket.address());
        let joined = self
            .grids
            .join(socket.now(), grid, before.map(|slot| slot.peer), fresh, carrier)
            .map_err(|error| Refusal::with(error.to_json()))?;
        let slot = SlotToken { peer: joined.peer, node: self.grids.node() };
        Ok(Joined::with(joined.peer).response(json!({
            "token": slot.seal(&self.slot_tokens),
            "peer": joined.peer.to_string(),
            "neighbours": joined.neighbours,
        })))
    }

    fn handle_in(
        &self,
        peer: &mut PeerId,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        let (Payload::Json(text), "throw") = (payload, event) else {
            return Ok(Outcome::Reply(Reply::because("unknown event")));
        };
        let reply = match Throw::parse(text.as_bytes(), self.throw_bytes_max) {
            Err(error) => {
                self.metrics.refused("throw");
                Reply::error(error.to_json())
            }
            Ok(throw) => match self.grids.throw_from_channel(*peer, socket.address(), &throw) {
                Ok(thrown) => {
                    self.counts.throws.inc();
                    Reply::ok(thrown.to_json())
                }
                Err(_) => Reply::because("slot taken"),
            },
        };
        Ok(Outcome::Reply(reply))
    }

    fn leave(&self, peer: PeerId, socket: &mut Socket<'_>) {
        self.grids.channel_left(socket.now(), peer, socket.address());
    }
}

fn grid_of(topic: &str) -> &str {
    topic.strip_prefix(TOPIC_PREFIX).expect("this channel handles topics of grids only")
}
