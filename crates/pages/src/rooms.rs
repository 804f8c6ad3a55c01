//! Rooms: topics that any client may join and send to. `channels.open_rooms` turns them on.

use std::sync::Arc;

use serde_json::json;
use watchfire::feature::{Part, Registry};
use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};

pub(crate) struct RoomFeature;

impl Part for RoomFeature {
    fn register_channels(self: Arc<Self>, registry: &mut Registry) {
        registry.add("rooms:*", Rooms).expect("the pattern is valid");
    }
}

/// `rooms:*`: any client may join, and `new_msg` goes to every subscriber.
struct Rooms;

impl Channel for Rooms {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn handle_in(
        &self,
        (): &mut (),
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        if event != "new_msg" {
            return Ok(Outcome::Reply(Reply::because("unknown event")));
        }
        socket.broadcast("new_msg", payload)?;
        // The reply confirms to the sender that the message was accepted.
        Ok(Outcome::Reply(Reply::ok(json!({}))))
    }
}
