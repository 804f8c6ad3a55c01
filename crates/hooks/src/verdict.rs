//! The decisions of the backend.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use watchfire_auth::{self as auth, Grant, Identity, SocketToken};
use watchfire_hub::PresenceLimits;

use crate::settings::OnFailure;

/// The reason for a client when the backend gave none.
const DENIED: &str = "denied";
/// The reason for a client when the backend cannot answer.
const UNAVAILABLE: &str = "backend_unavailable";

/// The decision about a join or a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Allowed(Allowed),
    /// The client gets this reason.
    Denied(Box<str>),
}

/// A join or a message that is allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowed {
    /// Of a join: the client's presence meta, which replaces the meta of its token.
    pub meta: Option<Value>,
    /// The response of the client's `ok` reply, a JSON object.
    pub reply: Option<String>,
    /// Of a message: the payload for the subscribers instead of the client's, a JSON object.
    pub payload: Option<String>,
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
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let answer: Answer<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if !answer.allow {
            let reason = answer.reason.filter(|reason| !reason.is_empty());
            return Ok(Verdict::Denied(reason.unwrap_or_else(|| DENIED.into()).into()));
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

fn object(name: &str, value: &RawValue) -> Result<String, String> {
    match value.get() {
        // As PHP writes an empty object.
        "[]" => Ok("{}".into()),
        text if text.starts_with('{') => Ok(text.into()),
        _ => Err(format!("{name} is not an object")),
    }
}

/// The members of an answer about a join or a message. Others are ignored.
#[derive(Deserialize)]
struct Answer<'a> {
    allow: bool,
    reason: Option<String>,
    #[serde(default, deserialize_with = "auth::object")]
    meta: Option<Map<String, Value>>,
    #[serde(borrow)]
    reply: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    broadcast: Option<bool>,
}

/// The decision about a client that connects.
pub enum ConnectVerdict {
    /// It may connect; with the identity that the backend gave it.
    Allowed(Option<Arc<SocketToken>>),
    Denied,
    /// The backend cannot answer, and `hooks.on_failure` denies.
    Unavailable,
}

impl ConnectVerdict {
    /// The decision when the backend cannot answer.
    pub fn without_backend(on_failure: OnFailure) -> Self {
        match on_failure {
            OnFailure::Deny => ConnectVerdict::Unavailable,
            OnFailure::Allow => ConnectVerdict::Allowed(None),
        }
    }

    /// Reads the body of an answer.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let answer: ConnectAnswer =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if !answer.allow {
            return Ok(ConnectVerdict::Denied);
        }
        let grant = Grant::of_backend(answer.identity, auth::now())?;
        Ok(ConnectVerdict::Allowed(grant.map(|grant| Arc::new(SocketToken::new(grant)))))
    }
}

/// The members of an answer about a client that connects. Others are ignored.
#[derive(Deserialize)]
struct ConnectAnswer {
    allow: bool,
    #[serde(flatten)]
    identity: Identity,
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
            reply: Some(r#"{"n":1}"#.into()),
            payload: Some(r#"{"n":2}"#.into()),
            is_silent: true,
        };
        assert_eq!(parse(&all), Ok(Verdict::Allowed(allowed)));
    }

    #[test]
    fn what_a_backend_has_not_set_is_absent_as_go_and_php_write_it() {
        let unset = json!({
            "allow": true, "reason": "", "meta": null, "reply": null, "payload": null, "broadcast": null,
        });
        assert_eq!(parse(&unset), Ok(Verdict::Allowed(Allowed::default())));
        let denied = parse(&json!({ "allow": false, "reason": "" }));
        assert_eq!(denied, Ok(Verdict::Denied("denied".into())));
        let empty = parse(&json!({ "allow": true, "meta": [], "reply": [], "payload": [] }));
        let [reply, payload] = [(); 2].map(|()| Some("{}".into()));
        let meta = Some(json!({}));
        assert_eq!(empty, Ok(Verdict::Allowed(Allowed { meta, reply, payload, is_silent: false })));

        let go = json!({ "id": null, "channels": null, "meta": null, "exp": null });
        let with = |name: &str, value: Value| {
            let mut answer = go.clone();
            (answer["allow"], answer[name]) = (true.into(), value);
            answer
        };
        assert_eq!(grant(&with("user", Value::Null)), None);
        assert!(grant(&with("user", json!("ada"))).is_some());
        let php = json!({ "allow": true, "user": "ada", "channels": [], "meta": [] });
        assert_eq!(grant(&php).expect("an identity").meta, json!({}));
        let long = "x".repeat(128);
        assert!(grant(&with("user", json!(long))).is_some(), "the longest user has an id");
    }

    #[test]
    fn anything_else_is_a_failure() {
        for bad in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "allow": "true" }),
            json!({ "allow": 1 }),
            json!({ "allow": true, "meta": [1] }),
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

    fn parse_connect(answer: &Value) -> Result<ConnectVerdict, String> {
        ConnectVerdict::parse(answer.to_string().as_bytes())
    }

    fn grant(answer: &Value) -> Option<Arc<Grant>> {
        match parse_connect(answer) {
            Ok(ConnectVerdict::Allowed(token)) => token.map(|token| token.grant()),
            _ => panic!("not allowed: {answer}"),
        }
    }

    #[test]
    fn an_answer_about_a_client_allows_or_denies() {
        assert_eq!(grant(&json!({ "allow": true, "later": "ignored" })), None);
        let denied = parse_connect(&json!({ "allow": false, "reason": "banned" }));
        assert!(matches!(denied, Ok(ConnectVerdict::Denied)));
    }

    #[test]
    fn an_identity_is_that_of_a_token() {
        let ada = grant(&json!({
            "allow": true, "user": "ada", "meta": { "name": "Ada" },
            "channels": { "join": ["rooms:*"], "publish": ["rooms:1"] },
        }));
        let ada = ada.expect("an identity");
        assert_eq!((&*ada.subject, &*ada.id), ("ada", "users:ada"));
        assert_eq!(ada.meta, json!({ "name": "Ada" }));
        assert!(ada.may_join("rooms:2") && ada.may_publish("rooms:1"));
        assert!(!ada.may_join("plain:1") && !ada.may_publish("rooms:2"));
        let century = std::time::Duration::from_secs(100 * 365 * 86_400);
        assert!(ada.remaining(auth::now()) > century);
        let exp = auth::now().as_secs() + 60;
        let bob = grant(&json!({ "allow": true, "user": "bob", "id": "b", "exp": exp })).unwrap();
        assert_eq!(&*bob.id, "b");
        assert!(bob.remaining(auth::now()).as_secs() <= 60 && !bob.may_join("rooms:1"));
    }

    #[test]
    fn anything_else_about_a_client_is_a_failure() {
        for bad in [
            json!(null),
            json!({}),
            json!({ "allow": 1 }),
            json!({ "allow": true, "user": "" }),
            json!({ "allow": true, "user": "a\n" }),
            json!({ "allow": true, "user": ["ada"] }),
            json!({ "allow": true, "user": "ada", "id": "x".repeat(200) }),
            json!({ "allow": true, "user": "ada", "exp": 1 }),
            json!({ "allow": true, "user": "ada", "exp": "soon" }),
            json!({ "allow": true, "user": "ada", "channels": { "joins": [] } }),
            json!({ "allow": true, "user": "ada", "channels": { "join": ["a*b"] } }),
            json!({ "allow": true, "user": "ada", "meta": { "long": "x".repeat(5_000) } }),
            // Nobody would have these.
            json!({ "allow": true, "id": "b" }),
            json!({ "allow": true, "meta": {} }),
            json!({ "allow": true, "channels": { "join": ["rooms:*"] } }),
        ] {
            assert!(parse_connect(&bad).is_err(), "{bad}");
        }
        for bad in [&b""[..], b"\xff", b"{\"allow\":true", b"{\"allow\":true}x"] {
            assert!(ConnectVerdict::parse(bad).is_err());
        }
    }
}
