//! The client side of the compared protocols: the texts that a member sends, and what the server's
//! texts mean. Connections, retries and counts are the same for all of them.

use crate::scale::orders::Wire;

/// Bytes of the JSON payload of a message.
pub const PAYLOAD_BYTES: usize = 256;
const NUMBER: &[u8] = br#""n":""#;
const NUMBER_DIGITS: usize = 10;

/// The meaning of one text of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server waits for this text.
    Answer(&'static str),
    /// The socket may join topics.
    Opened,
    /// The join was accepted.
    Joined,
    /// A message, with its number.
    Message(u32),
    /// A text that does not count.
    Other,
    /// An error.
    Wrong,
}

impl Wire {
    /// The path of the websocket.
    pub const fn path(self) -> &'static str {
        match self {
            Wire::Phoenix => "/socket/websocket?vsn=2.0.0",
            Wire::Centrifugo => "/connection/websocket",
            Wire::SocketIo => "/socket.io/?EIO=4&transport=websocket",
        }
    }

    /// The first text of the client; `None` if the server sends first.
    pub const fn greeting(self) -> Option<&'static str> {
        match self {
            Wire::Phoenix | Wire::SocketIo => None,
            Wire::Centrifugo => Some(r#"{"id":1,"connect":{}}"#),
        }
    }

    /// Whether topics can be joined at once, without a greeting.
    pub const fn joins_at_once(self) -> bool {
        matches!(self, Wire::Phoenix)
    }

    pub fn join(self, topic: &str) -> String {
        match self {
            Wire::Phoenix => format!(r#"["1","1","{topic}","phx_join",{{}}]"#),
            Wire::Centrifugo => format!(r#"{{"id":2,"subscribe":{{"channel":"{topic}"}}}}"#),
            Wire::SocketIo => format!(r#"420["join","{topic}"]"#),
        }
    }

    /// A push of a message with this number to a topic.
    pub fn push(self, topic: &str, number: u32) -> String {
        let payload = payload(number);
        match self {
            Wire::Phoenix => format!(r#"["1","3","{topic}","note",{payload}]"#),
            Wire::Centrifugo => {
                format!(r#"{{"id":3,"publish":{{"channel":"{topic}","data":{payload}}}}}"#)
            }
            Wire::SocketIo => format!(r#"42["note","{topic}",{payload}]"#),
        }
    }

    /// The events of a frame; Centrifugo puts several texts into one.
    pub fn read(self, frame: &[u8]) -> impl Iterator<Item = Event> + use<'_> {
        let texts = frame.split(move |byte| self == Wire::Centrifugo && *byte == b'\n');
        texts.map(move |text| match self {
            Wire::Phoenix => phoenix(text),
            Wire::Centrifugo => centrifugo(text),
            Wire::SocketIo => socket_io(text),
        })
    }
}

fn phoenix(text: &[u8]) -> Event {
    if text.starts_with(br#"["1","1","#) {
        let is_ok = contains(text, br#""status":"ok""#);
        return if is_ok { Event::Joined } else { Event::Wrong };
    }
    if contains(text, br#""note""#) {
        return number(text).map_or(Event::Wrong, Event::Message);
    }
    let is_wrong = contains(text, br#""status":"error""#) || contains(text, b"\"phx_error\"");
    if is_wrong { Event::Wrong } else { Event::Other }
}

fn centrifugo(text: &[u8]) -> Event {
    if text == b"{}" {
        return Event::Answer("{}");
    }
    if text.starts_with(br#"{"push""#) {
        return match contains(text, br#""pub":"#) {
            true => number(text).map_or(Event::Wrong, Event::Message),
            false => Event::Other, // joins and leaves
        };
    }
    if contains(text, br#""error":"#) {
        return Event::Wrong;
    }
    if text.starts_with(br#"{"id":1,"#) {
        return Event::Opened;
    }
    if text.starts_with(br#"{"id":2,"#) { Event::Joined } else { Event::Other }
}

/// A text begins with the packet types of Engine.IO and Socket.IO: `0` opens, `2` pings, `40`
/// connects, `42` is an event, `430` an acknowledgement.
fn socket_io(text: &[u8]) -> Event {
    match text {
        b"2" => Event::Answer("3"),
        [b'0', b'{', ..] => Event::Answer("40"),
        [b'4', b'0', ..] => Event::Opened,
        [b'4', b'3', b'0', ..] => Event::Joined,
        [b'4', b'2', ..] => number(text).map_or(Event::Wrong, Event::Message),
        _ => Event::Wrong,
    }
}

/// A JSON object of [`PAYLOAD_BYTES`] with a number.
fn payload(number: u32) -> String {
    let mut payload = format!(r#"{{"n":"{number:0NUMBER_DIGITS$}","body":""#);
    let rest = PAYLOAD_BYTES - payload.len() - r#""}"#.len();
    payload.extend(std::iter::repeat_n('w', rest));
    payload + r#""}"#
}

/// The number of the message in a text.
fn number(text: &[u8]) -> Option<u32> {
    let at = text.windows(NUMBER.len()).position(|window| window == NUMBER)? + NUMBER.len();
    std::str::from_utf8(text.get(at..at + NUMBER_DIGITS)?).ok()?.parse().ok()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(wire: Wire, text: &str) -> Event {
        let events: Vec<_> = wire.read(text.as_bytes()).collect();
        assert_eq!(events.len(), 1, "{text}");
        events[0]
    }

    #[test]
    fn a_payload_has_256_bytes_and_its_number() {
        let payload = payload(1_234);
        assert_eq!(payload.len(), PAYLOAD_BYTES);
        assert!(serde_json::from_str::<serde_json::Value>(&payload).is_ok());
        assert_eq!(number(payload.as_bytes()), Some(1_234));
    }

    #[test]
    fn the_same_events_are_found_in_each_protocol() {
        let payload = payload(7);
        for (wire, joined, message, wrong) in [
            (
                Wire::Phoenix,
                r#"["1","1","t:1","phx_reply",{"status":"ok","response":{}}]"#,
                format!(r#"[null,null,"t:1","note",{payload}]"#),
                r#"["1","1","t:1","phx_reply",{"status":"error","response":{}}]"#,
            ),
            (
                Wire::Centrifugo,
                r#"{"id":2,"subscribe":{}}"#,
                format!(r#"{{"push":{{"channel":"t:1","pub":{{"data":{payload}}}}}}}"#),
                r#"{"id":2,"error":{"code":103,"message":"permission denied"}}"#,
            ),
            (Wire::SocketIo, "430[]", format!(r#"42["note",{payload}]"#), r#"42["note",{}]"#),
        ] {
            assert_eq!(only(wire, joined), Event::Joined);
            assert_eq!(only(wire, &message), Event::Message(7));
            assert_eq!(only(wire, wrong), Event::Wrong);
        }
    }

    #[test]
    fn centrifugo_texts_in_one_frame_are_read_one_by_one() {
        let frame = "{}\n{\"id\":3,\"publish\":{}}\n{\"id\":1,\"connect\":{\"ping\":25}}";
        let events: Vec<_> = Wire::Centrifugo.read(frame.as_bytes()).collect();
        assert_eq!(events, [Event::Answer("{}"), Event::Other, Event::Opened]);
    }

    #[test]
    fn socket_io_is_opened_and_pinged() {
        assert_eq!(only(Wire::SocketIo, r#"0{"sid":"a"}"#), Event::Answer("40"));
        assert_eq!(only(Wire::SocketIo, r#"40{"sid":"b"}"#), Event::Opened);
        assert_eq!(only(Wire::SocketIo, "2"), Event::Answer("3"));
    }
}
