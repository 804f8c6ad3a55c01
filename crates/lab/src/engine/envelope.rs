//! What a Phoenix client must know of a message: is it the reply to mine?

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::scenario::Serializer;

/// A message, seen by a client.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// The reply to what this ref was given to; `None` for a ref that is not ours.
    Reply {
        reference: Option<u32>,
        is_ok: bool,
    },
    ChannelError,
    ChannelClose,
    /// A broadcast or push.
    Other,
}

/// The ref of heartbeats.
pub(super) const HEARTBEAT_REFERENCE: u32 = 0;

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

impl Heard {
    /// Look at a text message. What is not understood is [`Heard::Other`].
    pub(super) fn read(serializer: Serializer, message: &[u8]) -> Heard {
        // A broadcast is nearly always told from a reply by this alone.
        if memmem::find(message, b"\"phx_").is_none() {
            return Heard::Other;
        }
        match serializer {
            Serializer::Raw => Heard::Other,
            Serializer::V1 => match serde_json::from_slice::<V1<'_>>(message) {
                Ok(V1 { event, payload, reference }) => Heard::of(&event, reference, payload),
                Err(_) => Heard::Other,
            },
            Serializer::V2 => match serde_json::from_slice::<Five<'_>>(message) {
                Ok(Five(_, reference, _, event, payload)) => Heard::of(&event, reference, payload),
                Err(_) => Heard::Other,
            },
        }
    }

    fn of(event: &str, reference: Option<&RawValue>, payload: &RawValue) -> Heard {
        match event {
            "phx_reply" => {
                let outcome = serde_json::from_str::<Outcome<'_>>(payload.get());
                let is_ok = outcome.is_ok_and(|outcome| outcome.status == "ok");
                let reference = reference.and_then(|raw| raw.get().trim_matches('"').parse().ok());
                Heard::Reply { reference, is_ok }
            }
            "phx_error" => Heard::ChannelError,
            "phx_close" => Heard::ChannelClose,
            _ => Heard::Other,
        }
    }
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
    fn replies_are_known_by_their_ref_in_both_serializers() {
        let v2 = br#"["1","7","rooms:lobby","phx_reply",{"status":"ok","response":{}}]"#;
        let v1 = br#"{"topic":"t","event":"phx_reply","payload":{"status":"ok"},"ref":"7"}"#;
        let reply = Heard::Reply { reference: Some(7), is_ok: true };
        assert_eq!(Heard::read(Serializer::V2, v2), reply);
        assert_eq!(Heard::read(Serializer::V1, v1), reply);
        let refused = br#"["1","7","t","phx_reply",{"response":{},"status":"error"}]"#;
        let reply = Heard::Reply { reference: Some(7), is_ok: false };
        assert_eq!(Heard::read(Serializer::V2, refused), reply);
    }

    #[test]
    fn what_is_no_reply_is_not_taken_for_one() {
        let cases: [(&[u8], Heard); 6] = [
            (br#"[null,null,"t","new_msg",{"body":"phx_reply"}]"#, Heard::Other),
            (br#"[null,null,"t","new_msg",{"body":"\"phx_reply\""}]"#, Heard::Other),
            (br#"["1","1","t","phx_error",{}]"#, Heard::ChannelError),
            (br#"["1","1","t","phx_close",{}]"#, Heard::ChannelClose),
            (br#"["1",{"x":1},"t","phx_reply",7]"#, Heard::Reply { reference: None, is_ok: false }),
            (br#""phx_reply"#, Heard::Other),
        ];
        for (message, heard) in cases {
            assert_eq!(Heard::read(Serializer::V2, message), heard, "{}", message.escape_ascii());
        }
    }
}
