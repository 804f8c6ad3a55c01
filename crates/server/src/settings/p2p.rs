use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use watchfire_settings::section;

section! {
    "p2p";
    /// The gateway to libp2p peers, such as kubo. It is off while `listen` and `bootstrap` are empty.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct P2pSettings {
        /// The gateway between browsers and libp2p peers, such as kubo, is off while both listen
        /// and bootstrap are empty. With several processes, one of them runs it. Addresses to
        /// listen on, such as `"/ip4/0.0.0.0/tcp/4001"` or `"/ip4/0.0.0.0/udp/4001/quic-v1"`.
        listen: Vec<String> = Vec::new();
        /// Peers to stay connected to, such as `"/ip4/192.0.2.1/tcp/4001/p2p/12D3…"`.
        bootstrap: Vec<String> = Vec::new();
        /// Further addresses at which peers reach the server, such as the address of a router in front.
        announce: Vec<String> = Vec::new();
        /// The file of the server's key pair, created at the first start. Empty: a new key at each
        /// start.
        identity: PathBuf = PathBuf::new();
        /// The key file of a private network. Peers without this key cannot connect. Empty: no
        /// private network.
        swarm_key: PathBuf = PathBuf::new();
        /// DHT mode: `"off"`; `"client"` finds providers of the content that browsers request, and
        /// announces available pages; `"server"` also stores records for other peers, and must be
        /// publicly reachable.
        dht: DhtRole = DhtRole::Off;
        /// The protocol name of the DHT: the public network, or `"/ipfs/lan/kad/1.0.0"`.
        dht_protocol: String = "/ipfs/kad/1.0.0".into();
        /// Memory for blocks that may be requested again. When it is full, the least recently read
        /// block is dropped. No block of a page stays when its last holder has left. 0: no block
        /// stays after the last request for its page. Blocks in transfer take at most 32 MiB more.
        cache_bytes_max: u64 = 64 << 20, "bytes",
            "The least recently read block is dropped, and fetched again for the next request.";
        /// Pages whose content is transferred to libp2p peers at the same time. The other direction
        /// has the same bound. When the limit is reached, peers get DONT_HAVE, and browsers wait until the
        /// transfer of another page ends.
        #[serde(skip)]
        #[doc(hidden)]
        pages_max: u32 = 64, "pages",
            "The page waits until the transfer of another page ends.";
        /// Wants of one peer. Further wants are answered with DONT_HAVE if the peer asked for such
        /// answers, and ignored otherwise.
        #[serde(skip)]
        #[doc(hidden)]
        wants_per_peer_max: u32 = 256, "blocks",
            "The want is answered with DONT_HAVE if the peer requested that, or else ignored.";
        /// Connections with peers. Further connections are refused.
        #[serde(skip)]
        #[doc(hidden)]
        connections_max: u32 = 256, "connections",
            "The connection is refused. Near the limit, connections without recent blocks are closed.";
    }
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

impl P2pSettings {
    /// Whether the gateway runs.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty() || !self.bootstrap.is_empty()
    }
}
