use std::path::PathBuf;
use std::time::Duration;

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, StreamProtocol};

use crate::error::StartError;
use crate::identity;
use crate::requests::RequestSettings;

/// The role of a host in the DHT (Kademlia).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dht {
    /// The host does not take part.
    #[default]
    Off,
    /// The host sends queries and announcements, but answers no queries.
    Client,
    /// The host also stores records and answers queries. It should be publicly reachable.
    Server,
}

/// The settings of a host.
///
/// ```
/// let settings = watchfire_p2p::HostSettings::default();
/// assert_eq!(settings.dht, watchfire_p2p::Dht::Off);
/// assert!(settings.bootstrap.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Addresses to listen on. Port 0 selects a free port. With an empty list the host accepts no
    /// connections.
    pub listen: Vec<Multiaddr>,
    /// Peers to stay connected to. They are dialled at the start, and again after a disconnect. An
    /// address without `/p2p/<id>` at its end accepts any peer.
    pub bootstrap: Vec<Multiaddr>,
    /// Well-known peers of the DHT, with `/p2p/<id>` at their ends. Through them the host finds others.
    /// It keeps no connection to them.
    pub dht_peers: Vec<Multiaddr>,
    /// The key of a private network. Handshakes with peers that lack it fail. Private networks use
    /// TCP only, so QUIC addresses are rejected.
    pub swarm_key: Option<[u8; 32]>,
    /// The key of a network whose members are all Watchfire hosts. Peers prove that they have it in
    /// their handshakes, which fail otherwise. It costs no second encryption, as a swarm key does.
    /// Such networks use TCP only, so QUIC addresses are rejected.
    pub network_key: Option<[u8; 32]>,
    /// The key that `network_key` replaces. A peer with only one of the two is a member too, so the
    /// hosts of a network can get a new key one after the other.
    pub network_key_before: Option<[u8; 32]>,
    /// The file of the host's key pair, which is created at the first start. With `None` the host
    /// has a new identity at each start.
    pub identity: Option<PathBuf>,
    pub dht: Dht,
    /// The protocol name of the DHT: `/ipfs/kad/1.0.0` is the public network, `/ipfs/lan/kad/1.0.0`
    /// the network of private addresses. It must begin with a slash.
    pub dht_protocol: String,
    /// Whether to search the DHT for providers of blocks that no connected peer has. Off for a host
    /// whose caller connects it to the peers that have the blocks.
    pub searches_providers: bool,
    /// Whether to discover peers of the local network by mDNS, and to connect to some of them. It needs
    /// an address in `listen` that is not a loopback address.
    #[cfg(feature = "mdns")]
    pub local_discovery: bool,
    /// Further addresses to announce, such as the address of a router.
    pub announce: Vec<Multiaddr>,
    pub limits: HostLimits,
    pub exchange: watchfire_bitswap::Limits,
    /// A protocol for requests to peers, and their requests. `None`: the host has none.
    pub requests: Option<RequestSettings>,
    /// Whether to use [`watchfire_bitswap::leaves`] with peers that support it.
    pub leaves: bool,
    /// Threads for connections. One thread is cheapest and transfers several hundred megabytes
    /// per second. More threads share the encryption of many connections.
    pub threads: usize,
    /// The agent version that the host sends to its peers.
    pub agent: String,
}

impl Default for HostSettings {
    fn default() -> Self {
        HostSettings {
            listen: Vec::new(),
            bootstrap: Vec::new(),
            dht_peers: Vec::new(),
            swarm_key: None,
            network_key: None,
            network_key_before: None,
            identity: None,
            dht: Dht::Off,
            dht_protocol: "/ipfs/kad/1.0.0".to_owned(),
            searches_providers: true,
            #[cfg(feature = "mdns")]
            local_discovery: false,
            announce: Vec::new(),
            limits: HostLimits::default(),
            exchange: watchfire_bitswap::Limits::default(),
            requests: None,
            leaves: true,
            threads: 1,
            agent: concat!("watchfire/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl HostSettings {
    /// Checks the settings and the identity file, without starting anything.
    ///
    /// ```
    /// use watchfire_p2p::HostSettings;
    ///
    /// let listen = vec!["/ip4/127.0.0.1".parse().unwrap()];
    /// let error = HostSettings { listen, ..HostSettings::default() }.check().unwrap_err();
    /// assert!(error.to_string().starts_with("cannot listen on /ip4/127.0.0.1: "));
    /// ```
    pub fn check(&self) -> Result<(), StartError> {
        identity::check(self.identity.as_deref())?;
        dht_protocol(&self.dht_protocol)?;
        match self.listen.iter().find(|address| !can_listen(address)) {
            None => Ok(()),
            Some(address) => Err(StartError::Listen {
                address: address.clone(),
                error: "write one such as /ip4/0.0.0.0/tcp/4001 or /ip4/0.0.0.0/udp/4001/quic-v1"
                    .to_owned(),
            }),
        }
    }
}

pub(crate) fn dht_protocol(name: &str) -> Result<StreamProtocol, StartError> {
    let protocol = StreamProtocol::try_from_owned(name.to_owned());
    protocol.map_err(|_| StartError::DhtProtocol(name.to_owned()))
}

/// Whether an address is an IP address with a TCP port, or with a UDP port for QUIC.
fn can_listen(address: &Multiaddr) -> bool {
    let parts: Vec<_> = address.iter().collect();
    let is_ip = matches!(parts.first(), Some(Protocol::Ip4(_) | Protocol::Ip6(_)));
    let is_port = matches!(
        parts.get(1..),
        Some(
            [Protocol::Tcp(_)]
                | [Protocol::Tcp(_), Protocol::P2p(_)]
                | [Protocol::Udp(_), Protocol::QuicV1]
                | [Protocol::Udp(_), Protocol::QuicV1, Protocol::P2p(_)]
        )
    );
    is_ip && is_port
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Largest number of connections. Further ones are rejected. Above seven eighths of the limit,
    /// the connections without block transfers for the longest time are closed, down to three
    /// quarters.
    pub connections_max: u32,
    /// How long a connection without block transfers is protected from that.
    pub trim_grace_period: Duration,
    /// Largest number of connections with one peer. Further ones are rejected.
    pub connections_per_peer_max: u32,
    /// Largest number of pending handshakes in each direction. Further ones are rejected.
    pub handshakes_max: u32,
    /// How long a connection without streams is kept open.
    pub idle_timeout: Duration,
    /// How long a dial may take.
    pub dial_timeout: Duration,
    /// Largest total size of messages that are being received or wait to be processed, in bytes, on
    /// all connections. Without room, a message waits in its stream, and messages that arrive too
    /// slowly are aborted with their streams.
    pub receiving_bytes_max: usize,
    pub streams: StreamLimits,
    /// Largest number of running fetches. Further ones fail.
    pub fetches_max: usize,
    /// Largest number of bytes that wait for the disk. Beyond it the host reads nothing from the
    /// network until some are written.
    pub unwritten_bytes_max: usize,
    pub fetch: FetchLimits,
}

impl Default for HostLimits {
    fn default() -> Self {
        HostLimits {
            connections_max: 256,
            trim_grace_period: Duration::from_secs(20),
            connections_per_peer_max: 4,
            handshakes_max: 64,
            idle_timeout: Duration::from_secs(60),
            dial_timeout: Duration::from_secs(15),
            receiving_bytes_max: 64 * 1024 * 1024,
            streams: StreamLimits::default(),
            fetches_max: 64,
            unwritten_bytes_max: 4 * 1024 * 1024,
            fetch: FetchLimits::default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Largest number of receiving streams that are read at the same time. Further ones wait.
    pub inbound_streams_max: usize,
    /// Largest number of receiving streams that wait. Further ones are reset.
    pub unread_streams_max: usize,
    /// Largest total size of messages that are being received or wait to be processed, in bytes.
    /// Without room, a message waits in its stream.
    pub receiving_bytes_max: usize,
    /// Largest message in bytes. A longer message resets its stream only.
    pub message_bytes_max: usize,
    /// Largest send queue of one peer in bytes. The exchange sends no more than there is room.
    pub send_queue_bytes_max: usize,
    /// Largest number of malformed messages on one connection. Beyond it the peer is dropped.
    pub malformed_messages_max: u32,
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits {
            inbound_streams_max: 128,
            unread_streams_max: 256,
            receiving_bytes_max: 8 * 1024 * 1024,
            message_bytes_max: 4 * 1024 * 1024,
            send_queue_bytes_max: 2 * 1024 * 1024,
            malformed_messages_max: 16,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// Largest number of blocks that are requested at the same time. Further ones wait.
    pub wants_max: usize,
    /// Largest number of nodes with links. A fetch of more nodes fails.
    pub nodes_max: usize,
    /// Largest depth of the DAG. A fetch of a deeper DAG fails.
    pub depth_max: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        FetchLimits { wants_max: 2048, nodes_max: 1_000_000, depth_max: 64 }
    }
}
