use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use watchfire_p2p::{Dht, Multiaddr};

/// How this server meets peers of libp2p, such as kubo. With nothing to listen on and nobody to
/// dial, it does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct P2pSettings {
    /// Addresses to listen on, such as `/ip4/0.0.0.0/tcp/4001`.
    pub listen: Vec<Multiaddr>,
    /// Peers to stay connected to.
    pub bootstrap: Vec<Multiaddr>,
    /// Addresses besides its own under which others reach it.
    pub announce: Vec<Multiaddr>,
    /// Where the server's own key is kept, made at the first start; empty: a new one at each.
    pub identity: PathBuf,
    /// The key of a private network; empty for none.
    pub swarm_key: PathBuf,
    /// Whom it is to content routing.
    pub dht: DhtRole,
    /// The Kademlia network, by the name of its protocol.
    pub dht_protocol: String,
    /// Bytes of blocks that passed and are kept in memory for whoever asks next.
    pub cache_bytes_max: u64,
    /// Pages that content passes in or out of at once.
    pub pages_max: u32,
    /// Wants of one peer.
    pub wants_per_peer_max: u32,
    /// Connections.
    pub connections_max: u32,
}

/// Whom a server is to content routing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DhtRole {
    /// It neither asks nor tells.
    #[default]
    Off,
    /// It asks who has what is sought, and tells what is lit here.
    Client,
    /// It keeps records for others too.
    Server,
}

impl From<DhtRole> for Dht {
    fn from(role: DhtRole) -> Dht {
        match role {
            DhtRole::Off => Dht::Off,
            DhtRole::Client => Dht::Client,
            DhtRole::Server => Dht::Server,
        }
    }
}

impl Default for P2pSettings {
    fn default() -> Self {
        P2pSettings {
            listen: Vec::new(),
            bootstrap: Vec::new(),
            announce: Vec::new(),
            identity: PathBuf::new(),
            swarm_key: PathBuf::new(),
            dht: DhtRole::Off,
            dht_protocol: "/ipfs/kad/1.0.0".into(),
            cache_bytes_max: 64 << 20,
            pages_max: 64,
            wants_per_peer_max: 256,
            connections_max: 256,
        }
    }
}

impl P2pSettings {
    /// Whether there is anybody to meet.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty() || !self.bootstrap.is_empty()
    }
}
