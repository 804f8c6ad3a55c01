use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use vocab::PeerId;

use crate::app::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
use crate::metrics::Metrics;
use crate::planes::{Newcomer, Planes, TOPIC_PREFIX, Throw, check_plane};
use crate::token::{Place, TokenKey};

/// `sprites:<plane>`: a place on a plane, and throws to and from its neighbours.
pub(crate) struct Sprites {
    pub planes: Arc<Planes>,
    pub metrics: Arc<Metrics>,
    pub places: TokenKey,
    pub throw_bytes_max: u32,
}

#[derive(Default, Deserialize)]
struct Coming {
    token: Option<String>,
}

impl Channel for Sprites {
    /// The peer that this client is on the plane.
    type State = PeerId;

    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<PeerId>, Refusal> {
        let plane = plane_of(socket.topic());
        check_plane(plane).map_err(Refusal::with)?;
        let Ok(Coming { token }) = payload.json() else {
            return Err(Refusal::with(json!({
                "reason": "bad join",
                "message": "the join takes {\"token\": text}, or {}",
            })));
        };
        let before = token.and_then(|token| self.places.open_place(&token));
        let fresh = self.planes.new_peer().map_err(|_| Refusal::because("no randomness"))?;
        let newcomer = Newcomer::Channel(socket.address());
        let welcome = self
            .planes
            .join(socket.now(), plane, before.map(|place| place.peer), fresh, newcomer)
            .map_err(|error| Refusal::with(error.to_json()))?;
        Ok(Joined::with(welcome.peer).response(json!({
            "token": self.places.seal_place(Place { peer: welcome.peer, node: self.planes.node() }),
            "peer": welcome.peer.to_string(),
            "neighbours": welcome.neighbours,
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
            Ok(throw) => match self.planes.throw_from(*peer, socket.address(), &throw) {
                Ok(thrown) => {
                    self.metrics.throws.inc();
                    Reply::ok(thrown.to_json())
                }
                Err(_) => Reply::because("place taken"),
            },
        };
        Ok(Outcome::Reply(reply))
    }

    fn leave(&self, peer: PeerId, socket: &mut Socket<'_>) {
        self.planes.vacate(socket.now(), peer, socket.address());
    }
}

fn plane_of(topic: &str) -> &str {
    topic.strip_prefix(TOPIC_PREFIX).expect("this channel answers for sprites' topics only")
}
