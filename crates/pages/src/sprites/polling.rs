//! Clients that play over plain HTTP.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use watchfire::internal::{
    Metrics, ParkResponse, ParkRoute, ParkedRequest, Parking, TokenKey, query_token,
};
use watchfire_sockets::RequestHead;
use watchfire_types::{Instant, PeerId};

use super::grids::ReplicatedGrids;
use super::metrics::SpriteMetrics;
use super::name::check_grid_name;
use super::slot::PollResponse;
use super::slot_token::SlotToken;
use super::throw_message::Throw;

/// The bytes of a token and the JSON around it, in the body of a throw.
const TOKEN_BYTES_MAX: u32 = 128;

/// The part of a body that names the client.
#[derive(Default, Deserialize)]
pub(super) struct TokenBody {
    pub token: Option<String>,
}

/// Polls, throws and leaves over plain HTTP.
pub(super) struct Polling {
    pub grids: Arc<ReplicatedGrids>,
    pub slot_tokens: TokenKey,
    pub metrics: Arc<Metrics>,
    pub counts: Arc<SpriteMetrics>,
    pub throw_bytes_max: u32,
    /// How long a poll waits at most.
    pub window: Duration,
}

impl Polling {
    /// The largest body of a request.
    pub fn body_bytes_max(&self) -> u32 {
        self.throw_bytes_max.saturating_add(TOKEN_BYTES_MAX)
    }

    /// Throws for a client with a valid token. `None`: only the process that the token names can.
    pub fn throw(&self, grid: &str, slot: SlotToken, body: &[u8]) -> Option<(StatusCode, Value)> {
        let throw = match Throw::parse(body, self.body_bytes_max()) {
            Ok(throw) => throw,
            Err(error) => {
                self.metrics.refused("throw");
                return Some((StatusCode::BAD_REQUEST, error.to_json()));
            }
        };
        let SlotToken { peer, node } = slot;
        let thrown = match node == self.grids.node() {
            true => self.grids.throw_from_request(grid, peer, &throw),
            false => Ok(self.grids.throw_for(node, grid, peer, &throw)?),
        };
        Some(match thrown {
            Ok(thrown) => {
                self.counts.throws.inc();
                (StatusCode::OK, thrown.to_json())
            }
            Err(_) => stale_token(),
        })
    }

    /// Leaves for a peer whose slot is at this process.
    pub fn leave(&self, grid: &str, peer: PeerId) -> (StatusCode, Value) {
        match self.grids.leave(grid, peer) {
            Ok(()) => (StatusCode::OK, json!({})),
            Err(_) => stale_token(),
        }
    }
}

/// The response to a token that gives no slot.
pub(super) fn stale_token() -> (StatusCode, Value) {
    (StatusCode::GONE, json!({ "reason": "stale token" }))
}

impl Parking for Polling {
    /// A poll waits at the process that its token names, in the shard that receives it. The router
    /// refuses a poll without a valid token.
    ///
    /// A throw is answered by the shard that receives it.
    fn route(&self, head: &RequestHead<'_>) -> Option<ParkRoute> {
        if head.method() == "POST" {
            let grid = grid_in(head.path(), "/throw")?;
            return check_grid_name(grid).is_ok().then(|| ParkRoute::Answer { name: grid.into() });
        }
        let grid = grid_in(head.path(), "/poll").filter(|_| head.method() == "GET")?;
        let token = query_token(head.query())?;
        let SlotToken { peer, node } = SlotToken::open(&self.slot_tokens, token)?;
        let cluster = self.grids.link.cluster();
        if node != cluster.me() {
            return cluster.can_move_to(node).then_some(ParkRoute::HandOff(node));
        }
        Some(ParkRoute::Park { name: grid.into(), client: peer.0 })
    }

    fn answer(&self, grid: &str, body: &[u8]) -> Option<ParkResponse> {
        if body.len() > self.body_bytes_max() as usize {
            return None;
        }
        let TokenBody { token } = serde_json::from_slice(body).ok()?;
        let slot = SlotToken::open(&self.slot_tokens, &token?)?;
        let (status, body) = self.throw(grid, slot, body)?;
        Some(ParkResponse { status: status.as_u16(), body: body.to_string() })
    }

    fn park(&self, now: Instant, name: &str, request: ParkedRequest) -> Option<ParkResponse> {
        self.grids.park(now, name, request).map(PollResponse::into_response)
    }

    fn unpark(&self, now: Instant, request: ParkedRequest) -> ParkResponse {
        self.grids.unpark(now, request).into_response()
    }

    fn request_gone(&self, now: Instant, request: ParkedRequest) {
        self.grids.poll_gone(now, request);
    }

    fn stopping(&self) -> ParkResponse {
        PollResponse::NoSlot.into_response()
    }

    fn window(&self) -> Duration {
        self.window
    }
}

/// The grid in `/sprites/<grid>` with this end.
fn grid_in<'a>(path: &'a str, end: &str) -> Option<&'a str> {
    let grid = path.strip_prefix("/sprites/")?.strip_suffix(end)?;
    (!grid.contains('/')).then_some(grid)
}
