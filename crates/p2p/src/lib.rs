//! A libp2p host whose Bitswap streams are our own.
//!
//! It lets [`bitswap::Exchange`] talk to peers: over TCP with TLS, Noise and yamux, or over QUIC;
//! with a swarm key inside a private network. Blocks are served from the stores it is given, and
//! what is fetched goes into one of them, verified. Roots are provided and found through Kademlia.
//!
//! ```
//! use std::sync::Arc;
//! use p2p::{Host, HostSettings};
//! use store::{Memory, Stores};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let settings = || HostSettings { listen: vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()], ..Default::default() };
//! let block = content::Block::raw("hi".into()).unwrap();
//! let kept = Arc::new(Memory::new(1024));
//! store::WriteBlocks::put(&kept, &block).unwrap();
//! let one = Host::start(settings(), Stores::default(), kept).await?;
//!
//! let fetched = Arc::new(Memory::new(1024));
//! let other = Host::start(settings(), Stores::default(), fetched.clone()).await?;
//! other.connect(one.addresses()[0].clone()).await?;
//! other.fetch(block.cid().clone()).await?.finished().await?;
//! assert!(store::ReadBlocks::has(&fetched, block.cid()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Peers that are not libp2p's take part through a [`Carrier`]; blocks that are in no store, and can be
//! had nevertheless, through [`Elsewhere`].
//!
//! Absent on purpose: relays and hole punching, local discovery, HTTP.

mod behaviour;
mod carrier;
mod elsewhere;
mod fetch;
mod host;
mod identity;
mod settings;
mod stats;
mod streams;
mod swarm_key;
mod transport;
mod wire;

pub use carrier::{Carrier, Errand, Guest, Scope};
pub use elsewhere::{Asker, Elsewhere, Seeker, Sought};
pub use fetch::{DagError, Fetch, FetchError, Fetched, Progress};
pub use host::{ConnectError, Host, RoutingError, StartError, Stopped};
pub use libp2p::multiaddr::Protocol as AddressPart;
pub use libp2p::{Multiaddr, PeerId};
pub use settings::{Dht, FetchLimits, HostLimits, HostSettings, StreamLimits};
pub use stats::{HostStats, PeerStats};
pub use swarm_key::{SwarmKeyError, read_swarm_key};
