//! What the server tells on a page's topic, read from JSON that could be anything.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vocab::PeerId;

use crate::outgoing::Refusal;

/// How much of a page somebody has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Have {
    /// Nothing.
    #[default]
    None,
    /// Some of it.
    Some,
    /// All of it.
    All,
}

/// How many watch a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Who has it open, ourselves included.
    pub watching: u64,
    /// Who of them has all of it.
    pub holders: u64,
    /// Who has some.
    pub partial: u64,
}

/// A peer that the server names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    pub peer: PeerId,
    pub have: Have,
}

/// The answer to a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub me: PeerId,
    pub peers: Vec<Introduction>,
    pub counts: Counts,
}

/// Peers that are read from one list; the server names a few.
const PEERS_MAX: usize = 64;
/// What to wait when the server does not say how long.
const WAIT: Duration = Duration::from_millis(50);

pub(crate) fn introduction(told: &Value) -> Option<Introduction> {
    let have = told.get("have").and_then(|have| Have::deserialize(have).ok());
    Some(Introduction { peer: peer(told)?, have: have.unwrap_or_default() })
}

pub(crate) fn peer(told: &Value) -> Option<PeerId> {
    told.get("peer")?.as_str()?.parse().ok()
}

pub(crate) fn introductions(told: &Value) -> Vec<Introduction> {
    let peers = told.get("peers").and_then(Value::as_array);
    peers.into_iter().flatten().take(PEERS_MAX).filter_map(introduction).collect()
}

pub(crate) fn counts(told: &Value) -> Option<Counts> {
    Counts::deserialize(told).ok()
}

pub(crate) fn welcome(told: &Value) -> Option<Welcome> {
    let counts = told.get("counts").and_then(counts).unwrap_or_default();
    Some(Welcome { me: peer(told)?, peers: introductions(told), counts })
}

pub(crate) fn reason(told: &Value) -> String {
    let told = told.get("message").or(told.get("reason"));
    told.and_then(Value::as_str).unwrap_or("refused").to_owned()
}

pub(crate) fn refusal(told: &Value) -> Refusal {
    let number = |name: &str| told.get(name).and_then(Value::as_u64);
    let wait = number("retry_after_ms").map_or(WAIT, Duration::from_millis);
    match told.get("reason").and_then(Value::as_str) {
        Some("peer busy") => Refusal::Busy { wait },
        Some("relay budget") => Refusal::Budget { wait },
        Some("relay frame too large") => {
            let max = number("max").and_then(|max| usize::try_from(max).ok());
            Refusal::TooLarge { max: max.unwrap_or(0) }
        }
        _ => Refusal::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_welcome_names_us_and_others() {
        let told = json!({
            "peer": "00000000000000ff",
            "peers": [{ "peer": "0000000000000001", "have": "all" }, { "peer": "me" }, 7],
            "counts": { "watching": 3, "holders": 1, "partial": 0 },
        });
        let peers = vec![Introduction { peer: PeerId(1), have: Have::All }];
        let counts = Counts { watching: 3, holders: 1, partial: 0 };
        assert_eq!(welcome(&told), Some(Welcome { me: PeerId(255), peers, counts }));
        assert_eq!(welcome(&json!({ "peer": 1 })), None);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let of = |told: Value| refusal(&told);
        let wait = Duration::from_millis(7);
        assert_eq!(
            of(json!({ "reason": "peer busy", "retry_after_ms": 7 })),
            Refusal::Busy { wait }
        );
        assert_eq!(of(json!({ "reason": "relay budget" })), Refusal::Budget { wait: WAIT });
        let large = json!({ "reason": "relay frame too large", "max": 100 });
        assert_eq!(of(large), Refusal::TooLarge { max: 100 });
        for told in [json!({ "reason": "peer gone" }), json!("?"), json!({ "reason": 1 })] {
            assert_eq!(of(told), Refusal::Lost);
        }
        assert_eq!(reason(&json!({ "reason": "not a CID", "message": "why" })), "why");
    }
}
