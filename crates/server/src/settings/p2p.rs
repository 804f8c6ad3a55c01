use std::path::PathBuf;

use serde::{Deserialize, Serialize};
#[cfg(feature = "pages")]
use watchfire_p2p::{Dht, Multiaddr};

/// Without a gateway, nobody parses addresses.
#[cfg(not(feature = "pages"))]
type Multiaddr = String;

/// The gateway to libp2p peers, such as kubo. It is off while `listen` and `bootstrap` are empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct P2pSettings {
    /// Addresses to listen on, such as `/ip4/0.0.0.0/tcp/4001`.
    pub listen: Vec<Multiaddr>,
    /// Peers to stay connected to.
    pub bootstrap: Vec<Multiaddr>,
    /// Further addresses at which peers reach the server.
    pub announce: Vec<Multiaddr>,
    /// File of the server's key pair, created at the first start; empty for a new key each time.
    pub identity: PathBuf,
    /// Key file of a private network; empty for none.
    pub swarm_key: PathBuf,
    /// DHT mode.
    pub dht: DhtRole,
    /// Protocol name of the DHT.
    pub dht_protocol: String,
    /// Bytes of blocks that are kept in memory for further requests.
    pub cache_bytes_max: u64,
    /// Page transfers at once, in each direction.
    pub pages_max: u32,
    /// Wants of one peer.
    pub wants_per_peer_max: u32,
    /// Connections with peers.
    pub connections_max: u32,
}

/// DHT mode: off, client or server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DhtRole {
    /// The server does not use the DHT.
    #[default]
    Off,
    /// The server finds providers of requested content, and announces available pages.
    Client,
    /// The server also stores records for other peers.
    Server,
}

#[cfg(feature = "pages")]
impl DhtRole {
    /// The setting of the libp2p host. Not a `From`, which would be a part of the library's API.
    pub(crate) fn of_host(self) -> Dht {
        match self {
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
    /// Whether the gateway runs.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty() || !self.bootstrap.is_empty()
    }
}
