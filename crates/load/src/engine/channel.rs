//! The Phoenix side of a user: the refs of its messages, its heartbeats, and the kinds of messages that it receives.

use std::borrow::Cow;
use std::io::Write as _;
use std::time::Duration;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::NEVER;
use crate::scenario::{Serializer, Text, TextContext};

/// Refs below this belong to joins.
const FIRST_REFERENCE: u32 = 100_000;
const HEARTBEAT_REFERENCE: u32 = 0;

/// The state of a user's messages and heartbeats. Times are in milliseconds since the load began.
pub(super) struct Channel {
    next_reference: u32,
    /// The ref of the reply that the current step waits for.
    awaited: u32,
    heartbeat_at: u32,
    heartbeat_seconds: u16,
    serializer: Serializer,
    is_heartbeat_unanswered: bool,
}

impl Channel {
    pub(super) fn new() -> Channel {
        Channel {
            next_reference: FIRST_REFERENCE,
            awaited: 0,
            heartbeat_at: NEVER,
            heartbeat_seconds: 0,
            serializer: Serializer::Raw,
            is_heartbeat_unanswered: false,
        }
    }

    /// A websocket is connected next.
    pub(super) fn prepare(&mut self, serializer: Serializer, heartbeat: Option<Duration>) {
        let seconds = |period: Duration| u16::try_from(period.as_secs().max(1)).unwrap_or(u16::MAX);
        self.serializer = serializer;
        self.heartbeat_seconds = heartbeat.map_or(0, seconds);
    }

    /// The websocket is open.
    pub(super) fn open(&mut self, now: u32) {
        let period = u32::from(self.heartbeat_seconds) * 1000;
        self.heartbeat_at = if period > 0 { now + period } else { NEVER };
    }

    /// No further heartbeats are sent.
    pub(super) fn close(&mut self) {
        self.heartbeat_at = NEVER;
        self.is_heartbeat_unanswered = false;
    }

    pub(super) fn is_heartbeat_due(&self, now: u32) -> bool {
        self.heartbeat_at <= now
    }

    /// The next heartbeat; `None` if the last one was not answered.
    pub(super) fn heartbeat(&mut self, now: u32) -> Option<String> {
        if std::mem::replace(&mut self.is_heartbeat_unanswered, true) {
            return None;
        }
        self.heartbeat_at = now + u32::from(self.heartbeat_seconds) * 1000;
        Some(match self.serializer {
            Serializer::V1 => format!(
                "{{\"topic\":\"phoenix\",\"event\":\"heartbeat\",\"payload\":{{}},\"ref\":\"{HEARTBEAT_REFERENCE}\"}}"
            ),
            Serializer::V2 | Serializer::Raw | Serializer::Events => {
                format!("[null,\"{HEARTBEAT_REFERENCE}\",\"phoenix\",\"heartbeat\",{{}}]")
            }
        })
    }

    /// The ref of the next message, whose reply is awaited. A join has its own.
    pub(super) fn next_reference(&mut self, join_ref: u32, is_join: bool) -> u32 {
        self.awaited = if is_join { join_ref } else { self.next_reference };
        self.next_reference += u32::from(!is_join);
        self.awaited
    }

    /// Writes a push. The references are those of the join and of the message.
    pub(super) fn write_push(
        &self,
        [join_ref, reference]: [u32; 2],
        [topic, event, payload]: [&Text; 3],
        context: &TextContext<'_>,
        out: &mut Vec<u8>,
    ) {
        let is_v1 = self.serializer == Serializer::V1;
        let [to_event, to_payload] = match is_v1 {
            true => ["\",\"event\":\"", "\",\"payload\":"],
            false => ["\",\"", "\","],
        };
        let begun = match is_v1 {
            true => write!(out, "{{\"topic\":\""),
            false => write!(out, "[\"{join_ref}\",\"{reference}\",\""),
        };
        topic.write(context, out);
        out.extend_from_slice(to_event.as_bytes());
        event.write(context, out);
        out.extend_from_slice(to_payload.as_bytes());
        payload.write(context, out);
        let ended = match is_v1 {
            true => write!(out, ",\"ref\":\"{reference}\",\"join_ref\":\"{join_ref}\"}}"),
            false => write!(out, "]"),
        };
        begun.and(ended).expect("writing to a vector cannot fail");
    }

    /// The serializer of a received message. Binary ones are not read.
    pub(super) fn serializer(&self, is_text: bool) -> Serializer {
        if is_text { self.serializer } else { Serializer::Raw }
    }

    /// Classifies a received message, and notes the reply to a heartbeat.
    pub(super) fn read(&mut self, is_text: bool, message: &[u8]) -> Received {
        let received = Received::read(self.serializer(is_text), message);
        self.is_heartbeat_unanswered &= received != Received::Heartbeat;
        received
    }

    /// Whether the current step waits for the reply with this ref.
    pub(super) fn awaits(&self, reference: Option<u32>) -> bool {
        reference == Some(self.awaited)
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Received {
    /// The reply to the message with this ref; `None` for a ref that this user did not send.
    Reply {
        reference: Option<u32>,
        is_ok: bool,
    },
    /// The reply to a heartbeat.
    Heartbeat,
    ChannelError,
    ChannelClose,
    /// A broadcast or push.
    Other,
}

#[derive(Deserialize)]
struct V1<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(borrow, rename = "ref")]
    reference: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
}

impl Received {
    /// Classifies a text message. Unknown messages are [`Received::Other`].
    pub(super) fn read(serializer: Serializer, message: &[u8]) -> Received {
        if serializer == Serializer::Events {
            return match message.strip_prefix(b"event: phx_") {
                // To the join. The status of the response has said so.
                Some(rest) if rest.starts_with(b"reply\n") => {
                    Received::Reply { reference: None, is_ok: true }
                }
                Some(rest) if rest.starts_with(b"error\n") => Received::ChannelError,
                Some(rest) if rest.starts_with(b"close\n") => Received::ChannelClose,
                _ => Received::Other,
            };
        }
        // This check alone distinguishes nearly every broadcast from a reply.
        if memmem::find(message, b"\"phx_").is_none() {
            return Received::Other;
        }
        match serializer {
            Serializer::Raw | Serializer::Events => Received::Other,
            Serializer::V1 => match serde_json::from_slice::<V1<'_>>(message) {
                Ok(V1 { event, payload, reference }) => Received::of(&event, reference, payload),
                Err(_) => Received::Other,
            },
            Serializer::V2 => match serde_json::from_slice::<Five<'_>>(message) {
                Ok(Five(_, reference, _, event, payload)) => {
                    Received::of(&event, reference, payload)
                }
                Err(_) => Received::Other,
            },
        }
    }

    fn of(event: &str, reference: Option<&RawValue>, payload: &RawValue) -> Received {
        match event {
            "phx_reply" => {
                let outcome = serde_json::from_str::<Outcome<'_>>(payload.get());
                let is_ok = outcome.is_ok_and(|outcome| outcome.status == "ok");
                let reference = reference.and_then(|raw| raw.get().trim_matches('"').parse().ok());
                match reference {
                    Some(HEARTBEAT_REFERENCE) => Received::Heartbeat,
                    reference => Received::Reply { reference, is_ok },
                }
            }
            "phx_error" => Received::ChannelError,
            "phx_close" => Received::ChannelClose,
            _ => Received::Other,
        }
    }
}

/// The `response` of a reply, as JSON.
pub(super) fn response_of(serializer: Serializer, message: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Reply<'a> {
        #[serde(borrow)]
        response: &'a RawValue,
    }
    let payload = match serializer {
        Serializer::V1 => serde_json::from_slice::<V1<'_>>(message).ok()?.payload,
        Serializer::V2 | Serializer::Raw | Serializer::Events => {
            let Five(_, _, _, _, payload) = serde_json::from_slice(message).ok()?;
            payload
        }
    };
    Some(serde_json::from_str::<Reply<'_>>(payload.get()).ok()?.response.get())
}

/// `[join_ref, ref, topic, event, payload]`
#[derive(Deserialize)]
struct Five<'a>(
    serde::de::IgnoredAny,
    #[serde(borrow)] Option<&'a RawValue>,
    serde::de::IgnoredAny,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] &'a RawValue,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_recognized_by_their_ref_in_both_serializers() {
        let v2 = br#"["1","7","rooms:lobby","phx_reply",{"status":"ok","response":{}}]"#;
        let v1 = br#"{"topic":"t","event":"phx_reply","payload":{"status":"ok"},"ref":"7"}"#;
        let reply = Received::Reply { reference: Some(7), is_ok: true };
        assert_eq!(Received::read(Serializer::V2, v2), reply);
        assert_eq!(Received::read(Serializer::V1, v1), reply);
        let refused = br#"["1","7","t","phx_reply",{"response":{},"status":"error"}]"#;
        let reply = Received::Reply { reference: Some(7), is_ok: false };
        assert_eq!(Received::read(Serializer::V2, refused), reply);
    }

    #[test]
    fn a_reply_has_a_response() {
        let v2 = br#"["1","7","t","phx_reply",{"status":"ok","response":{"a": 1}}]"#;
        let v1 = br#"{"topic":"t","event":"phx_reply","payload":{"response":{"a": 1}},"ref":"7"}"#;
        assert_eq!(response_of(Serializer::V2, v2), Some(r#"{"a": 1}"#));
        assert_eq!(response_of(Serializer::V1, v1), Some(r#"{"a": 1}"#));
        assert_eq!(response_of(Serializer::V2, br#"["1","7","t","phx_reply",7]"#), None);
    }

    #[test]
    fn a_heartbeat_that_is_not_answered_is_the_last_one() {
        let mut channel = Channel::new();
        channel.prepare(Serializer::V2, Some(Duration::from_secs(30)));
        channel.open(1_000);
        assert!(!channel.is_heartbeat_due(30_999) && channel.is_heartbeat_due(31_000));
        assert_eq!(channel.heartbeat(31_000).unwrap(), r#"[null,"0","phoenix","heartbeat",{}]"#);
        let reply = br#"[null,"0","phoenix","phx_reply",{"status":"ok","response":{}}]"#;
        assert_eq!(channel.read(true, reply), Received::Heartbeat);
        assert!(channel.heartbeat(61_000).is_some() && channel.heartbeat(91_000).is_none());
        channel.close();
        assert!(!channel.is_heartbeat_due(u32::MAX - 1));
    }

    #[test]
    fn other_messages_are_not_replies() {
        let cases: [(&[u8], Received); 6] = [
            (br#"[null,null,"t","new_msg",{"body":"phx_reply"}]"#, Received::Other),
            (br#"[null,null,"t","new_msg",{"body":"\"phx_reply\""}]"#, Received::Other),
            (br#"["1","1","t","phx_error",{}]"#, Received::ChannelError),
            (br#"["1","1","t","phx_close",{}]"#, Received::ChannelClose),
            (
                br#"["1",{"x":1},"t","phx_reply",7]"#,
                Received::Reply { reference: None, is_ok: false },
            ),
            (br#""phx_reply"#, Received::Other),
        ];
        for (message, expected) in cases {
            assert_eq!(
                Received::read(Serializer::V2, message),
                expected,
                "{}",
                message.escape_ascii()
            );
        }
    }
}
