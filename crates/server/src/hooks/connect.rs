//! The question about a client that connects, and the decision.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use watchfire_auth::{self as auth, Grant, Identity, SocketToken};

use super::request::SocketBody;
use crate::settings::{Hook, OnFailure};

/// A question about a client that connects.
pub(crate) struct ConnectBody<'a> {
    /// `websocket` or `longpoll`.
    pub transport: &'static str,
    /// The parameters of the URL.
    pub params: &'a Map<String, Value>,
    /// The token of the subprotocol, or of the header of a long poll.
    pub auth_token: Option<&'a str>,
    pub origin: Option<&'a str>,
    /// The subject of the client's token.
    pub user: Option<&'a str>,
    pub socket_id: Option<&'a str>,
    pub address: IpAddr,
}

impl ConnectBody<'_> {
    /// The request as JSON.
    pub fn to_json(&self) -> String {
        let &ConnectBody { transport, params, auth_token, origin, user, socket_id, address } = self;
        let socket = SocketBody { id: socket_id, address: Some(address) };
        let hook = Hook::Connect;
        let body = Body { hook, transport, params, auth_token, origin, user, socket };
        serde_json::to_string(&body).expect("a request has a JSON form")
    }
}

#[derive(Serialize)]
struct Body<'a> {
    hook: Hook,
    transport: &'static str,
    params: &'a Map<String, Value>,
    auth_token: Option<&'a str>,
    origin: Option<&'a str>,
    user: Option<&'a str>,
    socket: SocketBody<'a>,
}

/// The decision about a client that connects.
pub(crate) enum ConnectVerdict {
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
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let answer: Answer = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if !answer.allow {
            return Ok(ConnectVerdict::Denied);
        }
        let grant = Grant::of_backend(answer.identity, auth::now())?;
        Ok(ConnectVerdict::Allowed(grant.map(|grant| Arc::new(SocketToken::new(grant)))))
    }
}

/// The members of an answer that the server reads. It ignores others.
#[derive(Deserialize)]
struct Answer {
    allow: bool,
    #[serde(flatten)]
    identity: Identity,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(answer: &Value) -> Result<ConnectVerdict, String> {
        ConnectVerdict::parse(answer.to_string().as_bytes())
    }

    fn grant(answer: &Value) -> Option<Arc<Grant>> {
        match parse(answer) {
            Ok(ConnectVerdict::Allowed(token)) => token.map(|token| token.grant()),
            _ => panic!("not allowed: {answer}"),
        }
    }

    #[test]
    fn an_answer_allows_or_denies() {
        assert_eq!(grant(&json!({ "allow": true, "later": "ignored" })), None);
        let denied = parse(&json!({ "allow": false, "reason": "banned" }));
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
    fn anything_else_is_a_failure() {
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
            assert!(parse(&bad).is_err(), "{bad}");
        }
        for bad in [&b""[..], b"\xff", b"{\"allow\":true", b"{\"allow\":true}x"] {
            assert!(ConnectVerdict::parse(bad).is_err());
        }
    }
}
