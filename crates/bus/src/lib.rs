//! Messages between the processes of one server.
//!
//! A [`Bus`] carries messages to the nodes that are interested in their topic, and passes received
//! messages to its [`Handler`]. [`LocalBus`] implements it for the processes of one machine. The
//! trait contains no sockets or processes, so a bus between machines could implement it too.
//!
//! # Interest
//!
//! A node with its first subscriber on a topic announces it to all others, and they acknowledge.
//! A broadcast goes only to nodes that announced its topic. This gives two guarantees:
//!
//! - **A ready subscription misses no later message.** By then, every node has acknowledged it. The
//!   acknowledgement follows, on the same ordered link, all messages sent in
//!   [`Handler::interested`]. So the other nodes' state of the topic has arrived too.
//! - **A new link starts without state.** Both sides announce all their topics again, and new
//!   subscriptions wait for the new node too.
//!
//! No wait is longer than [`BusLimits::ack_timeout`]: a node that hangs delays joins, but does not
//! prevent them. When the last subscriber leaves, the topic is withdrawn after
//! [`BusLimits::linger`], and within twice that time.
//!
//! # When a node is slow
//!
//! Only its own queue grows, up to a bound. From [`BusLimits::droppable_bytes_max`] on, messages
//! with [`Loss::Drop`] are dropped and counted. At [`BusLimits::queue_bytes_max`], a message with
//! [`Loss::Cut`] cuts the link: both sides get [`Handler::down`], and a new link sends all state
//! again. There is no back pressure, because two nodes that wait for each other would deadlock.
//!
//! # Cost
//!
//! Measured by `examples/hop.rs` on two cores with other load, so times are approximate. Messages
//! have 256 bytes. Processor time includes both ends and the kernel.
//!
//! | | |
//! |---|---|
//! | one message, many in flight | 0.2 us of processor; 6 million a second |
//! | a single message | 14 us of processor at 51 nodes, 50 at one, mostly for waking |
//! | the call of `publish`, to 51 nodes | 4 to 12 us |
//! | until the last of 51 nodes has received it | 0.5 ms |
//! | round trip | 24 to 48 us |
//! | a topic with subscribers on other nodes | 36 bytes for any number of nodes: 12 each for 3 |
//! | a topic with local subscribers | 105 bytes |
//! | a new link announces 100,000 topics | 26 ms, of which 21 ms processor |
//! | 100,000 subscriptions until ready at 3 nodes | 120 to 210 ms |
//!
//! Opening and closing a link walks all topics under the lock: with 100,000 topics, concurrent
//! calls took up to 16 ms.
//!
//! Absent on purpose: authentication and encryption (a link is a socket pair made by a
//! supervisor), routing through other nodes, and delivery after a link has ended.

mod bus;
mod driver;
pub mod frame;
mod interest;
mod limits;
mod link;
mod local;
mod nodes;
mod outbox;
mod shared;

pub use bus::{Bus, BusTotals, Handler, Loss, Readiness, SendError};
pub use limits::BusLimits;
pub use local::LocalBus;

/// The maximum number of nodes; ids are below it.
pub const NODES_MAX: u16 = 128;

/// The longest topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 4096;
