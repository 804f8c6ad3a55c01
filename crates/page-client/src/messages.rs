//! The server's messages on the topic of a page, parsed from untrusted JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchfire_types::PeerId;

use crate::outgoing::RelayError;
use crate::server_url::ServerUrl;

/// The part of a page that a peer has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Have {
    /// No block.
    #[default]
    None,
    Some,
    All,
}

/// The numbers of peers of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Peers that have the page open, this client included.
    pub watching: u64,
    /// Those with all blocks.
    pub holders: u64,
    /// Those with some blocks.
    pub partial: u64,
    /// Of these, programs such as this one, which are no people.
    #[serde(default)]
    pub nodes: Nodes,
}

/// The programs among the peers of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Nodes {
    pub watching: u64,
}

impl Counts {
    /// The people who have the page open in a browser.
    pub fn people(&self) -> u64 {
        self.watching.saturating_sub(self.nodes.watching)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerInfo {
    pub peer: PeerId,
    pub have: Have,
    /// Whether the peer is not a browser. Such a peer is not called.
    pub is_node: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinReply {
    pub me: PeerId,
    pub peers: Vec<PeerInfo>,
    pub counts: Counts,
    pub stun: Option<StunServer>,
    pub elsewhere: Vec<ServerUrl>,
}

/// The address that answers STUN. Without a host it is the host of the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct StunServer {
    pub host: Option<String>,
    pub port: u16,
}

/// Most peers of one list. Further peers are ignored.
const PEERS_MAX: usize = 64;
/// Most servers of one list. Further servers are ignored.
const SERVERS_MAX: usize = 8;
/// The pause before a retry if the server sends none.
const RETRY_AFTER: Duration = Duration::from_millis(50);

pub(crate) fn peer_info(json: &Value) -> Option<PeerInfo> {
    let have = json.get("have").and_then(|have| Have::deserialize(have).ok());
    let is_node = json.get("kind").is_some_and(|kind| kind == "node");
    Some(PeerInfo { peer: peer_id(json)?, have: have.unwrap_or_default(), is_node })
}

pub(crate) fn peer_id(json: &Value) -> Option<PeerId> {
    json.get("peer")?.as_str()?.parse().ok()
}

pub(crate) fn peers(json: &Value) -> Vec<PeerInfo> {
    let peers = json.get("peers").and_then(Value::as_array);
    peers.into_iter().flatten().take(PEERS_MAX).filter_map(peer_info).collect()
}

pub(crate) fn counts(json: &Value) -> Option<Counts> {
    Counts::deserialize(json).ok()
}

/// The servers of a list. Entries that are not origins are ignored.
pub(crate) fn servers(json: Option<&Value>) -> Vec<ServerUrl> {
    let entries = json.and_then(Value::as_array).into_iter().flatten().take(SERVERS_MAX);
    let origins = entries.filter_map(|entry| {
        let origin = entry.as_str()?;
        origin.parse().ok().filter(|server: &ServerUrl| server.to_string() == origin)
    });
    origins.collect()
}

pub(crate) fn join_reply(json: &Value) -> Option<JoinReply> {
    let counts = json.get("counts").and_then(counts).unwrap_or_default();
    let stun = json.get("stun").and_then(|stun| StunServer::deserialize(stun).ok());
    let elsewhere = servers(json.get("elsewhere"));
    Some(JoinReply { me: peer_id(json)?, peers: peers(json), counts, stun, elsewhere })
}

pub(crate) fn rejection_reason(json: &Value) -> String {
    let json = json.get("message").or(json.get("reason"));
    json.and_then(Value::as_str).unwrap_or("no reason given").to_owned()
}

pub(crate) fn relay_error(json: &Value) -> RelayError {
    let number = |name: &str| json.get(name).and_then(Value::as_u64);
    let wait = number("retry_after_ms").map_or(RETRY_AFTER, Duration::from_millis);
    match json.get("reason").and_then(Value::as_str) {
        Some("peer busy") => RelayError::Busy { wait },
        Some("relay budget") => RelayError::Budget { wait },
        Some("relay frame too large") => {
            let max = number("max").and_then(|max| usize::try_from(max).ok());
            RelayError::TooLarge { max: max.unwrap_or(0) }
        }
        _ => RelayError::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_join_reply_contains_the_id_of_the_client_and_its_peers() {
        let json = json!({
            "peer": "00000000000000ff",
            "peers": [{ "peer": "0000000000000001", "have": "all", "kind": "node" }, { "peer": "me" }, 7],
            "counts": { "watching": 3, "holders": 1, "partial": 0, "nodes": { "watching": 1, "holders": 1, "partial": 0 } },
            "stun": { "port": 3478 },
            "elsewhere": ["https://a.example"],
        });
        let peers = vec![PeerInfo { peer: PeerId(1), have: Have::All, is_node: true }];
        let counts = Counts { watching: 3, holders: 1, partial: 0, nodes: Nodes { watching: 1 } };
        assert_eq!(counts.people(), 2);
        let stun = Some(StunServer { host: None, port: 3478 });
        let elsewhere = vec!["https://a.example".parse().unwrap()];
        let reply = JoinReply { me: PeerId(255), peers, counts, stun, elsewhere };
        assert_eq!(join_reply(&json), Some(reply));
        assert_eq!(join_reply(&json!({ "peer": 1 })), None);
    }

    #[test]
    fn the_first_eight_servers_of_a_list_are_read_if_they_are_origins() {
        let invalid =
            ["a.example", "https://b.example/", "https://b.example/p/x", "ws://c.example"];
        let [first, second] = ["https://a.example", "http://127.0.0.1:4000"];
        let list = json!([
            first,
            invalid[0],
            invalid[1],
            invalid[2],
            invalid[3],
            7,
            second,
            "https://a:0",
            "https://d.example"
        ]);
        let names: Vec<String> = servers(Some(&list)).iter().map(ToString::to_string).collect();
        assert_eq!(names, [first, second]);
        assert_eq!((servers(None), servers(Some(&json!("https://a.example")))), (vec![], vec![]));
    }

    #[test]
    fn a_relay_error_contains_the_retry_delay() {
        let of = |json: Value| relay_error(&json);
        let wait = Duration::from_millis(7);
        assert_eq!(
            of(json!({ "reason": "peer busy", "retry_after_ms": 7 })),
            RelayError::Busy { wait }
        );
        assert_eq!(
            of(json!({ "reason": "relay budget" })),
            RelayError::Budget { wait: RETRY_AFTER }
        );
        let large = json!({ "reason": "relay frame too large", "max": 100 });
        assert_eq!(of(large), RelayError::TooLarge { max: 100 });
        for json in [json!({ "reason": "peer gone" }), json!("?"), json!({ "reason": 1 })] {
            assert_eq!(of(json), RelayError::Unreachable);
        }
        assert_eq!(rejection_reason(&json!({ "reason": "not a CID", "message": "why" })), "why");
    }
}
