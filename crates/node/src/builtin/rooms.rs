use serde_json::json;

use crate::app::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};

/// `rooms:*`: anyone may join, and `new_msg` goes to everyone there.
pub(crate) struct Rooms;

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
        // Answered, so that whoever spoke knows that it was heard.
        Ok(Outcome::Reply(Reply::ok(json!({}))))
    }
}
