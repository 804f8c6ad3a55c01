//! Broadcasts of `@supabase/realtime-js` to a channel that its caller has not joined, as calls of `batch` and `publish`.
//!
//! A subscriber with that client has joined `realtime:<topic>`, and hears the event `broadcast` with the application's
//! event inside. The topic's rules, and no parameter, say who may join and what a history keeps, so `private` and `persist`
//! are left out.

use std::iter;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use watchfire::internal::realtime::{BINARY_ENCODING, BROADCAST, BroadcastPayload, TOPIC_PREFIX};

use super::error::{CallError, Code};
use super::params::parse;

/// The topic and the event that the path of `httpSend` names.
pub type Target = (String, String);

/// The messages of such a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Translated {
    /// The body of a `batch`.
    Batch(Vec<u8>),
    Bytes {
        topic: String,
        body: Vec<u8>,
    },
}

/// The body of `send`, before the client has subscribed. The first field of the API's own form ends its reading.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Messages<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    topic: String,
    event: String,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Batch<'a> {
    calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Call<'a> {
    Publish { topic: String, event: &'static str, payload: BroadcastPayload<'a> },
}

/// Translates the body of `send`. `None`: it is a call of another form.
pub fn of_messages(body: &[u8]) -> Option<Translated> {
    let Messages { messages } = serde_json::from_slice(body).ok()?;
    let empty: &RawValue = serde_json::from_str("{}").expect("an object");
    Some(batch(
        messages
            .iter()
            .map(|message| (&*message.topic, &*message.event, message.payload.unwrap_or(empty))),
    ))
}

/// Translates the body of `httpSend`.
pub fn of_event(
    (topic, event): &Target,
    is_binary: bool,
    body: &[u8],
) -> Result<Translated, CallError> {
    if !is_binary {
        return Ok(batch(iter::once((&**topic, &**event, parse(body)?))));
    }
    let Ok(event_len) = u8::try_from(event.len()) else {
        let message = format!("an event has at most 255 bytes, not {}", event.len());
        return Err(CallError::new(Code::EventInvalid, message));
    };
    // As `crates/channels` reads the same broadcast from a socket.
    let body = [&[event_len, 0, BINARY_ENCODING], event.as_bytes(), body].concat();
    Ok(Translated::Bytes { topic: format!("{TOPIC_PREFIX}{topic}"), body })
}

fn batch<'a>(messages: impl Iterator<Item = (&'a str, &'a str, &'a RawValue)>) -> Translated {
    let call = |(topic, event, payload)| Call::Publish {
        topic: format!("{TOPIC_PREFIX}{topic}"),
        event: BROADCAST,
        payload: BroadcastPayload::new(event, payload),
    };
    let batch = Batch { calls: messages.map(call).collect() };
    Translated::Batch(serde_json::to_vec(&batch).expect("texts and JSON can be written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(translated: Translated) -> String {
        let Translated::Batch(body) = translated else { panic!("a batch") };
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn a_message_is_published_as_the_channels_of_the_client_hear_it() {
        let body = br#"{"messages":[{"topic":"room","event":"shout","payload":{"n":1e999},"private":false}]}"#;
        let call = r#"{"publish":{"topic":"realtime:room","event":"broadcast","payload":{"type":"broadcast","event":"shout","payload":{"n":1e999}}}}"#;
        assert_eq!(json(of_messages(body).unwrap()), format!(r#"{{"calls":[{call}]}}"#));
        let target = ("room".to_owned(), "shout".to_owned());
        let of_path = of_event(&target, false, br#"{"n":1e999}"#).unwrap();
        assert_eq!(json(of_path), format!(r#"{{"calls":[{call}]}}"#));
        let bytes = of_event(&target, true, &[0, 255]).unwrap();
        let body = b"\x05\0\0shout\0\xff".to_vec();
        assert_eq!(bytes, Translated::Bytes { topic: "realtime:room".into(), body });
        assert_eq!(of_event(&target, false, b"{").unwrap_err().code, Code::BadRequest);
        let long = (target.0, "e".repeat(256));
        assert_eq!(of_event(&long, true, b"").unwrap_err().code, Code::EventInvalid);
        assert_eq!(of_messages(br#"{"topics":["room"],"event":"shout","payload":{}}"#), None);
    }
}
