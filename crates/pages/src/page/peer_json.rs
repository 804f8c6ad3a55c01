//! The description of a peer for other peers of the page, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchfire_tracker::{Counts, Have, NodeCounts};
use watchfire_types::PeerId;

/// The kind that a peer declares. The server does not check it; other peers rely on it at their own
/// risk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PeerKind {
    #[default]
    Tab,
    /// A process of Watchfire: the command line, or the gateway of a server. It shows the page to
    /// no person, and has no WebRTC.
    Node,
}

#[derive(Clone, Copy)]
pub(super) struct KnownPeer {
    pub peer: PeerId,
    pub have: Have,
    pub kind: PeerKind,
}

impl KnownPeer {
    pub fn to_json(self) -> Value {
        let have = match self.have {
            Have::Nothing => "none",
            Have::Some => "some",
            Have::All => "all",
        };
        let mut json = json!({ "peer": self.peer.to_string(), "have": have });
        // Most peers are tabs, so that kind is left out.
        if self.kind == PeerKind::Node {
            json["kind"] = "node".into();
        }
        json
    }
}

pub(super) fn counts_json(counts: Counts) -> Value {
    let Counts { watching, holders, partial, nodes } = counts;
    let mut json = json!({ "watching": watching, "holders": holders, "partial": partial });
    // Most pages have no nodes, so their counts are left out.
    if nodes.watching > 0 {
        let NodeCounts { watching, holders, partial } = nodes;
        json["nodes"] = json!({ "watching": watching, "holders": holders, "partial": partial });
    }
    json
}
