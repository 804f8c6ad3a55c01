//! The decision of the backend.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use watchfire_hub::PresenceLimits;

use crate::channel_api::Body;
use crate::settings::OnFailure;

/// The reason for a client when the backend gave none.
const DENIED: &str = "denied";
/// The reason for a client when the backend cannot answer.
const UNAVAILABLE: &str = "backend_unavailable";

/// The decision about a join or a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Allowed(Allowed),
    /// The client gets this reason.
    Denied(Box<str>),
}

/// A join or a message that is allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Allowed {
    /// Of a join: the client's presence meta, which replaces the meta of its token.
    pub meta: Option<Value>,
    /// The response of the client's `ok` reply.
    pub reply: Option<Body>,
    /// Of a message: the payload for the subscribers, instead of the client's.
    pub payload: Option<Body>,
    /// Of a message: the subscribers do not get it.
    pub is_silent: bool,
}

impl Verdict {
    /// The decision when the backend cannot answer.
    pub fn without_backend(on_failure: OnFailure) -> Self {
        match on_failure {
            OnFailure::Deny => Verdict::Denied(UNAVAILABLE.into()),
            OnFailure::Allow => Verdict::Allowed(Allowed::default()),
        }
    }

    /// Reads the body of an answer.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let answer: Answer<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if !answer.allow {
            return Ok(Verdict::Denied(answer.reason.unwrap_or_else(|| DENIED.into()).into()));
        }
        let meta = answer.meta.map(Value::Object);
        let meta_bytes_max = PresenceLimits::default().meta_bytes_max;
        if meta.as_ref().is_some_and(|meta| meta.to_string().len() > meta_bytes_max) {
            return Err(format!("meta has more than {meta_bytes_max} bytes"));
        }
        Ok(Verdict::Allowed(Allowed {
            meta,
            reply: answer.reply.map(|reply| object("reply", reply)).transpose()?,
            payload: answer.payload.map(|payload| object("payload", payload)).transpose()?,
            is_silent: answer.broadcast == Some(false),
        }))
    }
}

fn object(name: &str, value: &RawValue) -> Result<Body, String> {
    let body = Body::Json(value.get().to_owned().into());
    body.checked_object().map_err(|_| format!("{name} is not an object"))
}

/// The members of an answer that the server reads. It ignores others.
#[derive(Deserialize)]
struct Answer<'a> {
    allow: bool,
    reason: Option<String>,
    meta: Option<Map<String, Value>>,
    #[serde(borrow)]
    reply: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    broadcast: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(answer: &Value) -> Result<Verdict, String> {
        Verdict::parse(answer.to_string().as_bytes())
    }

    #[test]
    fn an_answer_allows_or_denies() {
        assert_eq!(parse(&json!({ "allow": true })), Ok(Verdict::Allowed(Allowed::default())));
        assert_eq!(parse(&json!({ "allow": false })), Ok(Verdict::Denied("denied".into())));
        let denied = parse(&json!({ "allow": false, "reason": "full", "payload": 7 }));
        assert_eq!(denied, Ok(Verdict::Denied("full".into())));
        let all = json!({
            "allow": true, "meta": { "name": "Ada" }, "reply": { "n": 1 }, "payload": { "n": 2 },
            "broadcast": false, "later": "ignored",
        });
        let allowed = Allowed {
            meta: Some(json!({ "name": "Ada" })),
            reply: Some(json!({ "n": 1 }).into()),
            payload: Some(json!({ "n": 2 }).into()),
            is_silent: true,
        };
        assert_eq!(parse(&all), Ok(Verdict::Allowed(allowed)));
    }

    #[test]
    fn anything_else_is_a_failure() {
        for bad in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "allow": "true" }),
            json!({ "allow": 1 }),
            json!({ "allow": true, "meta": [] }),
            json!({ "allow": true, "meta": { "long": "x".repeat(5_000) } }),
            json!({ "allow": true, "reply": "text" }),
            json!({ "allow": true, "payload": [1] }),
            json!({ "allow": true, "broadcast": "no" }),
            json!({ "allow": false, "reason": 7 }),
        ] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
        for bad in [&b""[..], b"\xff", b"{\"allow\":true", b"{\"allow\":true}x"] {
            assert!(Verdict::parse(bad).is_err());
        }
    }
}
