//! Rooms: topics that any client may join and send to. `channels.open_rooms` turns them on.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use watchfire::feature::{Part, Registry};
use watchfire::{Channel, HandleIn, Joined, Members, Outcome, Payload, Refusal, Reply, Socket};

pub(crate) struct RoomFeature(pub Members);

impl Part for RoomFeature {
    fn register_channels(self: Arc<Self>, registry: &mut Registry) {
        registry.add("rooms:*", Rooms(self.0.clone())).expect("the pattern is valid");
    }
}

/// `rooms:*`: any client may join, and `new_msg` goes to every subscriber. A client that gives its name is a member.
struct Rooms(Members);

/// The payload of a join, or of `enter`, with a name.
#[derive(Deserialize)]
struct Entry {
    user: String,
}

impl Channel for Rooms {
    type State = ();

    fn join(&self, socket: &mut Socket<'_>, payload: Payload<'_>) -> Result<Joined<()>, Refusal> {
        let joined = Joined::with(());
        Ok(match payload.json() {
            Ok(Entry { user }) => joined.response(self.0.enter(socket, &user)),
            Err(_) => joined,
        })
    }

    fn handle_in(
        &self,
        (): &mut (),
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        // The reply confirms to the sender that the message was accepted.
        Ok(Outcome::Reply(match event {
            "new_msg" => {
                socket.broadcast("new_msg", payload)?;
                Reply::ok(json!({}))
            }
            "enter" => match payload.json() {
                Ok(Entry { user }) => Reply::ok(self.0.enter(socket, &user)),
                Err(_) => Reply::because("no user"),
            },
            _ => Reply::because("unknown event"),
        }))
    }

    fn leave(&self, (): (), socket: &mut Socket<'_>) {
        self.0.leave(socket);
    }
}
