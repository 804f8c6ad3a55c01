//! Classifies the Phoenix messages that a client receives: replies, errors and others.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::scenario::Serializer;

#[derive(Debug, PartialEq)]
pub(super) enum Received {
    /// The reply to the message with this ref; `None` for a ref that this user did not send.
    Reply {
        reference: Option<u32>,
        is_ok: bool,
    },
    ChannelError,
    ChannelClose,
    /// A broadcast or push.
    Other,
}

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

impl Received {
    /// Classifies a text message. Unknown messages are [`Received::Other`].
    pub(super) fn read(serializer: Serializer, message: &[u8]) -> Received {
        // This check alone distinguishes nearly every broadcast from a reply.
        if memmem::find(message, b"\"phx_").is_none() {
            return Received::Other;
        }
        match serializer {
            Serializer::Raw => Received::Other,
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
                Received::Reply { reference, is_ok }
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
        Serializer::V2 | Serializer::Raw => {
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
