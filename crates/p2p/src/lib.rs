//! A libp2p host that exchanges blocks over Bitswap.
//!
//! It connects [`watchfire_bitswap::Exchange`] to peers over TCP with TLS, Noise and yamux, or over
//! QUIC. A swarm key restricts it to a private network. It serves blocks from stores, and writes
//! fetched and verified blocks to one of them. It announces and finds roots through Kademlia.
//!
//! ```
//! use std::sync::Arc;
//! use watchfire_p2p::{Host, HostSettings};
//! use watchfire_store::{LockedMemoryStore, Stores};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let settings = || HostSettings { listen: vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()], ..Default::default() };
//! let block = watchfire_content::Block::raw("hi".into()).unwrap();
//! let provided = Arc::new(LockedMemoryStore::new(1024));
//! watchfire_store::WriteBlocks::put(&provided, &block).unwrap();
//! let provider = Host::start(settings(), Stores::default(), provided).await?;
//!
//! let fetched = Arc::new(LockedMemoryStore::new(1024));
//! let host = Host::start(settings(), Stores::default(), fetched.clone()).await?;
//! host.connect(provider.addresses()[0].clone()).await?;
//! host.fetch(block.cid().clone()).await?.finished().await?;
//! assert!(watchfire_store::ReadBlocks::has(&fetched, block.cid()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Peers that are not on libp2p take part through an [`ExternalTransport`]. A [`FallbackSource`]
//! obtains blocks that no store has. With the feature `mdns`, a host can discover the peers of its
//! local network.
//!
//! Absent on purpose: relays and hole punching, HTTP.

mod behaviour;
mod command;
mod error;
mod external;
mod fallback;
mod fetch;
mod host;
mod identity;
mod requests;
mod session;
mod settings;
mod stats;
mod streams;
mod swarm_key;
mod transport;

pub use command::{RoutedPeer, SessionEvent};
pub use error::{ConnectError, RoutingError, StartError, Stopped};
pub use external::{ExternalPeer, ExternalTransport, RequestFilter, TransportCommand};
pub use fallback::{FallbackSource, RequestOrigin};
pub use fetch::{DagError, Fetch, FetchError, Fetched, Progress};
pub use host::Host;
pub use libp2p::multiaddr::Protocol as AddressPart;
pub use libp2p::{Multiaddr, PeerId};
pub use requests::{InboundRequest, RequestError, RequestSettings};
pub use session::BlockSession;
pub use settings::{Dht, FetchLimits, HostLimits, HostSettings, StreamLimits};
pub use stats::{HostStats, PeerStats};
pub use swarm_key::{SwarmKeyError, read_swarm_key};
