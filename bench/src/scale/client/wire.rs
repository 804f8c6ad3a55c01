//! The client side of the compared protocols: the texts that a member sends, and what the server's
//! texts mean. Connections, retries and counts are the same for all of them.

use crate::scale::orders::Wire;

/// Bytes of the JSON payload of a message.
pub const PAYLOAD_BYTES: usize = 256;
const NUMBER: &[u8] = br#""n":""#;
const NUMBER_DIGITS: usize = 10;
const OFFSET: &[u8] = br#""offset":"#;
/// A join has recovered all missed messages, in the protocols that can do that.
const RECOVERED: &[u8] = br#""recovered":true"#;

/// A place in the history of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// `None`: that of the join.
    pub epoch: Option<&'a str>,
    pub offset: u64,
}

/// The meaning of one text of the server, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The server waits for this text.
    Answer(&'static str),
    /// The socket may join topics.
    Opened,
    /// The join was accepted. `recovered`: all messages after the requested position follow.
    /// `position`: the last one of the topic, if it has a history.
    Joined {
        recovered: bool,
        position: Option<Position<'a>>,
    },
    /// A message, with its number, and its position if the topic has a history.
    Message(u32, Option<Position<'a>>),
    /// A text that does not count.
    Other,
    Wrong,
}

impl Wire {
    pub const fn path(self) -> &'static str {
        match self {
            Wire::Phoenix => "/socket/websocket?vsn=2.0.0",
            Wire::Centrifugo => "/connection/websocket",
        }
    }

    /// The first text of the client; `None` if the server sends first.
    pub const fn greeting(self) -> Option<&'static str> {
        match self {
            Wire::Phoenix => None,
            Wire::Centrifugo => Some(r#"{"id":1,"connect":{}}"#),
        }
    }

    /// Whether topics can be joined at once, without a greeting.
    pub const fn joins_at_once(self) -> bool {
        matches!(self, Wire::Phoenix)
    }

    /// A join of a topic. `after`: the client has the messages up to this epoch and offset, and asks
    /// for those after it.
    pub fn join(self, topic: &str, after: Option<(&str, u64)>) -> String {
        match (self, after) {
            (Wire::Phoenix, None) => format!(r#"["1","1","{topic}","phx_join",{{}}]"#),
            (Wire::Phoenix, Some((epoch, offset))) => {
                let history = format!(r#"{{"history":{{"after":"{epoch}:{offset}"}}}}"#);
                format!(r#"["1","1","{topic}","phx_join",{history}]"#)
            }
            (Wire::Centrifugo, None) => {
                format!(r#"{{"id":2,"subscribe":{{"channel":"{topic}"}}}}"#)
            }
            (Wire::Centrifugo, Some((epoch, offset))) => {
                let after = format!(r#""recover":true,"epoch":"{epoch}","offset":{offset}"#);
                format!(r#"{{"id":2,"subscribe":{{"channel":"{topic}",{after}}}}}"#)
            }
        }
    }

    pub fn push(self, topic: &str, number: u32) -> String {
        let payload = payload(number);
        match self {
            Wire::Phoenix => format!(r#"["1","3","{topic}","note",{payload}]"#),
            Wire::Centrifugo => {
                format!(r#"{{"id":3,"publish":{{"channel":"{topic}","data":{payload}}}}}"#)
            }
        }
    }

    /// Calls `each` with the events of a frame. Centrifugo puts several texts into one.
    pub fn read<'a>(self, frame: &'a [u8], mut each: impl FnMut(Event<'a>)) {
        match self {
            Wire::Phoenix => each(phoenix(frame)),
            Wire::Centrifugo => {
                frame.split(|byte| *byte == b'\n').for_each(|text| centrifugo(text, &mut each));
            }
        }
    }
}

fn phoenix(text: &[u8]) -> Event<'_> {
    if text.starts_with(br#"["1","1","#) {
        if !contains(text, br#""status":"ok""#) {
            return Event::Wrong;
        }
        let position = text_after(text, br#""position":""#).and_then(phoenix_position);
        return Event::Joined { recovered: contains(text, RECOVERED), position };
    }
    if contains(text, br#""note""#) {
        let reference = text.strip_prefix(br#"[null,""#);
        let position = reference.and_then(until_quote).and_then(phoenix_position);
        return number(text).map_or(Event::Wrong, |number| Event::Message(number, position));
    }
    let is_wrong = contains(text, br#""status":"error""#) || contains(text, b"\"phx_error\"");
    if is_wrong { Event::Wrong } else { Event::Other }
}

fn phoenix_position(text: &str) -> Option<Position<'_>> {
    let (epoch, offset) = text.split_once(':')?;
    Some(Position { epoch: Some(epoch), offset: offset.parse().ok()? })
}

fn centrifugo<'a>(text: &'a [u8], each: &mut impl FnMut(Event<'a>)) {
    if text == b"{}" {
        return each(Event::Answer("{}"));
    }
    if text.starts_with(br#"{"push""#) {
        return match contains(text, br#""pub":"#) {
            true => centrifugo_messages(text, each),
            false => each(Event::Other), // joins and leaves
        };
    }
    if contains(text, br#""error":"#) {
        return each(Event::Wrong);
    }
    if text.starts_with(br#"{"id":1,"#) {
        return each(Event::Opened);
    }
    if !text.starts_with(br#"{"id":2,"#) {
        return each(Event::Other);
    }
    // The offset of the topic is the last one; those of the missed messages come before it.
    let offset = text.windows(OFFSET.len()).rposition(|window| window == OFFSET);
    let offset = offset.and_then(|at| offset_in(&text[at..])).unwrap_or(0);
    let epoch = text_after(text, br#""epoch":""#);
    let position = epoch.map(|epoch| Position { epoch: Some(epoch), offset });
    each(Event::Joined { recovered: contains(text, RECOVERED), position });
    centrifugo_messages(text, each);
}

/// The messages in a text. The offset of each follows its data.
fn centrifugo_messages<'a>(text: &'a [u8], each: &mut impl FnMut(Event<'a>)) {
    let mut rest = text;
    while let Some(at) = position_of(rest, NUMBER) {
        rest = &rest[at..];
        let Some(number) = number(rest) else { return each(Event::Wrong) };
        let offset = position_of(rest, OFFSET).and_then(|at| offset_in(&rest[at..]));
        each(Event::Message(number, offset.map(|offset| Position { epoch: None, offset })));
        rest = &rest[NUMBER.len()..];
    }
}

/// The number in a text that begins with [`OFFSET`].
fn offset_in(text: &[u8]) -> Option<u64> {
    let digits = &text[OFFSET.len()..];
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..len]).ok()?.parse().ok()
}

/// The text between a start and the next quotation mark.
fn text_after<'a>(text: &'a [u8], start: &[u8]) -> Option<&'a str> {
    until_quote(&text[position_of(text, start)? + start.len()..])
}

fn until_quote(text: &[u8]) -> Option<&str> {
    let len = text.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&text[..len]).ok()
}

fn position_of(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// A JSON object of [`PAYLOAD_BYTES`] with a number.
fn payload(number: u32) -> String {
    let mut payload = format!(r#"{{"n":"{number:0NUMBER_DIGITS$}","body":""#);
    let rest = PAYLOAD_BYTES - payload.len() - r#""}"#.len();
    payload.extend(std::iter::repeat_n('w', rest));
    payload + r#""}"#
}

fn number(text: &[u8]) -> Option<u32> {
    let at = position_of(text, NUMBER)? + NUMBER.len();
    std::str::from_utf8(text.get(at..at + NUMBER_DIGITS)?).ok()?.parse().ok()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    position_of(bytes, wanted).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(wire: Wire, text: &str) -> Vec<Event<'_>> {
        let mut events = Vec::new();
        wire.read(text.as_bytes(), |event| events.push(event));
        events
    }

    fn only(wire: Wire, text: &str) -> Event<'_> {
        let events = events(wire, text);
        assert_eq!(events.len(), 1, "{text}");
        events[0]
    }

    fn position(epoch: &str, offset: u64) -> Option<Position<'_>> {
        Some(Position { epoch: Some(epoch), offset })
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
        ] {
            assert_eq!(only(wire, joined), Event::Joined { recovered: false, position: None });
            assert_eq!(only(wire, &message), Event::Message(7, None));
            assert_eq!(only(wire, wrong), Event::Wrong);
        }
    }

    #[test]
    fn positions_are_read_and_sent() {
        let (first, second) = (payload(7), payload(8));
        let joined = r#"["1","1","t:1","phx_reply",{"status":"ok","response":{"position":"k3:9","recovered":true}}]"#;
        let expected = Event::Joined { recovered: true, position: position("k3", 9) };
        assert_eq!(only(Wire::Phoenix, joined), expected);
        let message = format!(r#"[null,"k3:10","t:1","note",{first}]"#);
        assert_eq!(only(Wire::Phoenix, &message), Event::Message(7, position("k3", 10)));
        let join = Wire::Phoenix.join("t:1", Some(("k3", 10)));
        assert_eq!(join, r#"["1","1","t:1","phx_join",{"history":{"after":"k3:10"}}]"#);

        let publications = format!(
            r#"[{{"data":{first},"info":{{"client":"a"}},"offset":4}},{{"data":{second},"offset":5}}]"#
        );
        let joined = format!(
            r#"{{"id":2,"subscribe":{{"recoverable":true,"epoch":"xY","publications":{publications},"recovered":true,"offset":5}}}}"#
        );
        let at = |offset| Some(Position { epoch: None, offset });
        let expected = [
            Event::Joined { recovered: true, position: position("xY", 5) },
            Event::Message(7, at(4)),
            Event::Message(8, at(5)),
        ];
        assert_eq!(events(Wire::Centrifugo, &joined), expected);
        let first_join = r#"{"id":2,"subscribe":{"recoverable":true,"epoch":"xY"}}"#;
        let expected = Event::Joined { recovered: false, position: position("xY", 0) };
        assert_eq!(only(Wire::Centrifugo, first_join), expected);
    }

    #[test]
    fn centrifugo_texts_in_one_frame_are_read_one_by_one() {
        let frame = "{}\n{\"id\":3,\"publish\":{}}\n{\"id\":1,\"connect\":{\"ping\":25}}";
        let expected = [Event::Answer("{}"), Event::Other, Event::Opened];
        assert_eq!(events(Wire::Centrifugo, frame), expected);
    }
}
