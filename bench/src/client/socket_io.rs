use std::sync::LazyLock;

use anyhow::{Result, bail, ensure};

use super::event::Event;
use crate::message::{self, TOPIC, padded};

/// The client side of Socket.IO 4 over one websocket.
///
/// A text frame begins with the packet type of Engine.IO. In a message (`4`), the second character
/// is the packet type of Socket.IO: `40` connects, `42` is an event, `420` an event that requests
/// acknowledgement 0, `430` that acknowledgement.
#[derive(Default)]
pub struct SocketIo {
    stage: Stage,
}

#[derive(Clone, Copy, Default)]
enum Stage {
    #[default]
    Opening,
    Connecting,
    Joining,
    Joined,
}

const PING: &str = "2";
const PONG: &str = "3";
const CONNECT: &str = "40";
const JOINED: &str = "430[]";

/// The broadcast, as long as that of Phoenix.
static BROADCAST: LazyLock<String> =
    LazyLock::new(|| padded(|body| format!(r#"42["new_msg",{{"body":"{body}"}}]"#)));

/// The push that causes the broadcast: the room, then the payload.
pub static PUSH: LazyLock<String> =
    LazyLock::new(|| BROADCAST.replacen(',', &format!(",{TOPIC:?},"), 1));

impl SocketIo {
    /// The event of a frame; `None` for a frame that does not count.
    pub fn receive(&mut self, text: &str, out: &mut Vec<u8>) -> Result<Option<Event>> {
        if text == *BROADCAST {
            return Ok(Some(Event::Message));
        }
        match (self.stage, text) {
            (_, PING) => message::put_client_text(PONG, out),
            (Stage::Opening, text) if text.starts_with("0{") => {
                self.stage = Stage::Connecting;
                message::put_client_text(CONNECT, out);
            }
            (Stage::Connecting, text) if text.starts_with("40{") => {
                self.stage = Stage::Joining;
                message::put_client_text(&format!(r#"420["join",{TOPIC:?}]"#), out);
            }
            (Stage::Joining, JOINED) => {
                self.stage = Stage::Joined;
                return Ok(Some(Event::Joined));
            }
            (_, text) => {
                ensure!(!text.contains("new_msg"), "the message has {} bytes: {text}", text.len());
                bail!("unexpected Socket.IO frame: {text}");
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::BROADCAST_BYTES;

    fn response(socket: &mut SocketIo, text: &str) -> (String, Option<Event>) {
        let mut out = Vec::new();
        let event = socket.receive(text, &mut out).unwrap();
        let sent = message::frame(&out).map_or(Vec::new(), |frame| {
            let mut payload = frame.payload.to_vec();
            message::mask(frame.mask.unwrap(), &mut payload);
            payload
        });
        (String::from_utf8(sent).unwrap(), event)
    }

    #[test]
    fn a_socket_opens_connects_joins_receives_the_message_and_answers_pings() {
        let mut socket = SocketIo::default();
        let open = r#"0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#;
        for (text, sent, event) in [
            (open, "40", None),
            (r#"40{"sid":"b"}"#, r#"420["join","rooms:lobby"]"#, None),
            ("2", "3", None),
            ("430[]", "", Some(Event::Joined)),
            (&BROADCAST, "", Some(Event::Message)),
            ("2", "3", None),
        ] {
            assert_eq!(response(&mut socket, text), (sent.into(), event), "{text}");
        }
    }

    #[test]
    fn the_broadcast_is_a_hundred_bytes_and_the_push_names_the_room() {
        assert_eq!(BROADCAST.len(), BROADCAST_BYTES);
        assert!(PUSH.starts_with(r#"42["new_msg","rooms:lobby",{"body":"w"#), "{}", *PUSH);
    }

    #[test]
    fn a_refused_connect_fails_the_run() {
        let mut socket = SocketIo { stage: Stage::Connecting };
        let refused = socket.receive(r#"44{"message":"Invalid namespace"}"#, &mut Vec::new());
        assert!(refused.unwrap_err().to_string().contains("Invalid namespace"));
    }
}
