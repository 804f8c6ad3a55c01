//! The bodies of requests to the backend.

use std::fmt;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use watchfire_channels::Payload;

use crate::settings::Hook;

/// The id of one joined channel, which the backend gets with each request about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelId(u128);

impl ChannelId {
    /// A new id. `None`: the operating system returned no random bytes.
    pub fn new() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(ChannelId(u128::from_le_bytes(bytes)))
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A question or a notice about one channel.
pub struct HookRequest<'a> {
    pub hook: Hook,
    pub topic: &'a str,
    pub channel: ChannelId,
    /// The subject of the client's token.
    pub user: Option<&'a str>,
    pub socket_id: Option<&'a str>,
    pub address: Option<IpAddr>,
    /// The event of a client's message.
    pub event: Option<&'a str>,
    /// The payload of a join or a message.
    pub payload: Option<Payload<'a>>,
}

impl HookRequest<'_> {
    /// The request as JSON.
    pub fn to_json(&self) -> String {
        let (payload, payload_base64) = match self.payload {
            // The decoder has parsed it.
            Some(Payload::Json(text)) => (serde_json::from_str(text).ok(), None),
            Some(Payload::Binary(bytes)) => (None, Some(STANDARD.encode(bytes))),
            None => (None, None),
        };
        let body = Body {
            hook: self.hook,
            topic: self.topic,
            channel: self.channel.to_string(),
            user: self.user,
            socket: SocketBody { id: self.socket_id, address: self.address },
            event: self.event,
            payload,
            payload_base64,
        };
        serde_json::to_string(&body).expect("a request has a JSON form")
    }
}

#[derive(Serialize)]
struct Body<'a> {
    hook: Hook,
    topic: &'a str,
    channel: String,
    user: Option<&'a str>,
    socket: SocketBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// A question about a client that connects.
pub struct ConnectBody<'a> {
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
        let body = ConnectJson { hook, transport, params, auth_token, origin, user, socket };
        serde_json::to_string(&body).expect("a request has a JSON form")
    }
}

#[derive(Serialize)]
struct ConnectJson<'a> {
    hook: Hook,
    transport: &'static str,
    params: &'a Map<String, Value>,
    auth_token: Option<&'a str>,
    origin: Option<&'a str>,
    user: Option<&'a str>,
    socket: SocketBody<'a>,
}

#[derive(Serialize)]
struct SocketBody<'a> {
    id: Option<&'a str>,
    address: Option<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: Payload<'_>) -> String {
        let request = HookRequest {
            hook: Hook::Publish,
            topic: "rooms:1",
            channel: ChannelId(0xab),
            user: Some("ada"),
            socket_id: None,
            address: "192.0.2.7".parse().ok(),
            event: Some("note"),
            payload: Some(payload),
        };
        request.to_json()
    }

    #[test]
    fn a_request_has_the_payload_as_the_client_sent_it() {
        let start = r#"{"hook":"publish","topic":"rooms:1","channel":"000000000000000000000000000000ab","user":"ada","socket":{"id":null,"address":"192.0.2.7"},"event":"note","#;
        let json = message(Payload::Json(r#"{"n": 1.50}"#));
        assert_eq!(json, format!(r#"{start}"payload":{{"n": 1.50}}}}"#));
        let binary = message(Payload::Binary(b"\x00\xff"));
        assert_eq!(binary, format!(r#"{start}"payload_base64":"AP8="}}"#));
    }

    #[test]
    fn ids_differ() {
        assert_ne!(ChannelId::new(), ChannelId::new());
    }
}
