//! Small types that many Watchfire crates share. They contain no decisions of a protocol.
//!
//! ```
//! use std::time::Duration;
//! use watchfire_types::{Instant, Topic};
//!
//! let later = Instant::ZERO + Duration::from_secs(60);
//! assert_eq!(later.since(Instant::ZERO), Duration::from_secs(60));
//! assert_eq!(Topic::parse("rooms:lobby").unwrap().as_str(), "rooms:lobby");
//! ```

mod fixed_hash;
mod heap;
mod instant;
mod metrics_format;
mod node_id;
mod peer_id;
mod rng;
mod slab;
mod socket_id;
mod topic;
mod trace_context;
mod user_agent;
mod vital_thread;

pub use fixed_hash::FixedHash;
pub use heap::heap_bytes;
pub use instant::Instant;
pub use metrics_format::MetricsFormat;
pub use node_id::NodeId;
pub use peer_id::{PeerId, PeerIdError};
pub use rng::Rng;
pub use slab::Slab;
pub use socket_id::{ShardId, SocketId};
pub use topic::{TOPIC_BYTES_MAX, Topic, TopicError};
pub use trace_context::TraceContext;
pub use user_agent::USER_AGENT;
pub use vital_thread::VitalThread;
