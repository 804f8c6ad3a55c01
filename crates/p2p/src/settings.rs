use std::path::PathBuf;
use std::time::Duration;

use libp2p::Multiaddr;

/// Whom a host is to the Kademlia network of content routing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dht {
    /// It neither asks nor answers.
    #[default]
    Off,
    /// It asks for providers and tells what it provides, and answers nobody.
    Client,
    /// It keeps records for others too: for hosts that everyone can reach.
    Server,
}

/// Where a host listens, whom it knows, and what it may cost.
///
/// ```
/// let settings = p2p::HostSettings::default();
/// assert_eq!(settings.dht, p2p::Dht::Off);
/// assert!(settings.bootstrap.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Addresses to listen on. A port 0 is any free one; an empty list hears nobody.
    pub listen: Vec<Multiaddr>,
    /// Peers to stay connected to: dialled at the start, and again when they are lost. An address
    /// without `/p2p/<id>` at its end is dialled for whoever answers there.
    pub bootstrap: Vec<Multiaddr>,
    /// The key of a private network: whoever has another one, or none, cannot even shake hands.
    /// TCP alone carries private networks, so QUIC addresses are then refused.
    pub swarm_key: Option<[u8; 32]>,
    /// Where the host's own key is kept, made at the first start; `None`: a new one at each start.
    pub identity: Option<PathBuf>,
    /// Whom it is to content routing.
    pub dht: Dht,
    /// The Kademlia network, by the name of its protocol: `/ipfs/kad/1.0.0` is everyone's,
    /// `/ipfs/lan/kad/1.0.0` that of private addresses. It must begin with a slash.
    pub dht_protocol: String,
    /// Addresses besides its own under which others reach it, such as that of a router in front.
    pub announce: Vec<Multiaddr>,
    /// What it may cost.
    pub limits: HostLimits,
    /// How it exchanges blocks.
    pub exchange: bitswap::Limits,
    /// Whether it speaks [`bitswap::leaves`] to those who do; else Bitswap alone.
    pub leaves: bool,
    /// Threads that carry connections. One is cheapest and passes several hundred megabytes a
    /// second; more share the encryption of many connections.
    pub threads: usize,
    /// How it introduces itself.
    pub agent: String,
}

impl Default for HostSettings {
    fn default() -> Self {
        HostSettings {
            listen: Vec::new(),
            bootstrap: Vec::new(),
            swarm_key: None,
            identity: None,
            dht: Dht::Off,
            dht_protocol: "/ipfs/kad/1.0.0".to_owned(),
            announce: Vec::new(),
            limits: HostLimits::default(),
            exchange: bitswap::Limits::default(),
            leaves: true,
            threads: 1,
            agent: concat!("watchfire/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// What a host may cost, and what becomes of the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Most connections. Further ones are refused, ours and theirs. When seven eighths of them are
    /// open, those on which no block moved for longest are closed, down to three quarters.
    pub connections_max: u32,
    /// How long a connection on which no block moves is safe from that.
    pub unused_grace: Duration,
    /// Most connections with one peer. Further ones are refused.
    pub connections_per_peer_max: u32,
    /// Most handshakes under way, each way. Further ones are refused.
    pub handshakes_max: u32,
    /// How long a connection without any stream is kept.
    pub idle_timeout: Duration,
    /// How long a dial may take.
    pub dial_timeout: Duration,
    /// Most bytes of messages that have begun to arrive and were not taken in yet, on all
    /// connections together. A message that finds no room waits in its stream; meanwhile those that
    /// come too slowly lose theirs, and their stream.
    pub arriving_bytes_max: usize,
    /// What one connection may cost.
    pub streams: StreamLimits,
    /// Most fetches at once. Further ones are refused.
    pub fetches_max: usize,
    /// Most bytes that wait for the disk. Beyond them nothing is read from the network until some
    /// are written.
    pub unwritten_bytes_max: usize,
    /// What one fetch may know and ask for.
    pub fetch: FetchLimits,
}

impl Default for HostLimits {
    fn default() -> Self {
        HostLimits {
            connections_max: 256,
            unused_grace: Duration::from_secs(20),
            connections_per_peer_max: 4,
            handshakes_max: 64,
            idle_timeout: Duration::from_secs(60),
            dial_timeout: Duration::from_secs(15),
            arriving_bytes_max: 64 * 1024 * 1024,
            streams: StreamLimits::default(),
            fetches_max: 64,
            unwritten_bytes_max: 4 * 1024 * 1024,
            fetch: FetchLimits::default(),
        }
    }
}

/// What the Bitswap streams of one connection may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Most streams of the other side that are read at a time. Further ones wait.
    pub inbound_max: usize,
    /// Most streams of the other side that wait to be read. The newest beyond it are reset.
    pub unread_max: usize,
    /// Most bytes of messages that have begun to arrive and were not taken in yet. A message that
    /// finds no room waits in its stream.
    pub arriving_bytes_max: usize,
    /// Most bytes of one message. A longer one resets its stream, and that stream alone.
    pub message_bytes_max: usize,
    /// Most bytes that wait to be sent to one peer. The exchange is told how much is left, and
    /// holds back the rest.
    pub outbox_bytes_max: usize,
    /// Most messages of one connection that cannot be read; then the connection is closed.
    pub malformed_max: u32,
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits {
            inbound_max: 128,
            unread_max: 256,
            arriving_bytes_max: 8 * 1024 * 1024,
            message_bytes_max: 4 * 1024 * 1024,
            outbox_bytes_max: 2 * 1024 * 1024,
            malformed_max: 16,
        }
    }
}

/// What one fetch may know and ask for at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// Most blocks asked for at once; the rest of a node's links wait in the node.
    pub wants_max: usize,
    /// Most nodes with links in one fetch; with more of them it fails.
    pub nodes_max: usize,
    /// Deepest chain of nodes; a deeper one fails the fetch.
    pub depth_max: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        FetchLimits { wants_max: 2048, nodes_max: 1_000_000, depth_max: 64 }
    }
}
