//! Messages between the processes of one server.
//!
//! A [`Bus`] carries messages to the nodes that are interested in their topic, and tells its
//! [`Handler`] what comes from them. [`LocalBus`] is the engine for the processes of one machine;
//! the trait knows of no sockets and no processes, so that an engine between machines can stand
//! behind it.
//!
//! # Interest
//!
//! A node that has its first subscriber on a topic announces that to all others, and they
//! acknowledge it. A broadcast goes to those that announced its topic, and to no other. From this
//! follow two promises:
//!
//! - **A subscribe that is ready misses nothing later**: by then every node has acknowledged, and
//!   an acknowledgement comes on the same ordered link, after all that [`Handler::interested`]
//!   had to say of the topic. So what others knew of it is here, too.
//! - **A link that is new begins with nothing**: both sides tell all their topics again, and who
//!   subscribes meanwhile waits for the new node as for the old ones.
//!
//! No wait is longer than [`BusLimits::ack_timeout`]: a node that hangs makes a join late, not
//! impossible. The last subscriber's end is announced after [`BusLimits::linger`], within twice
//! that.
//!
//! # When a node is slow
//!
//! Its queue grows, alone and to a bound. What may be lost ([`Loss::Drop`]) is dropped and counted
//! from [`BusLimits::droppable_bytes_max`] on. What may not ([`Loss::Cut`]) cuts the link at
//! [`BusLimits::queue_bytes_max`]: both sides hear [`Handler::down`], and a new link tells
//! everything anew. There is no back pressure: two nodes that wait for each other would wait for
//! ever.
//!
//! # Cost
//!
//! Measured by `examples/hop.rs` on two cores that others were using too, so the times are rough.
//! Messages have 256 bytes; processor time is that of both ends and of the kernel.
//!
//! | | |
//! |---|---|
//! | a hop when many are under way | 0.2 us of processor; 6 million a second |
//! | a hop of a single message | 14 us of processor at 51 nodes, 50 at one: the waking |
//! | the call of `publish`, to 51 nodes | 4 to 12 us |
//! | until the last of 51 nodes has it | 0.5 ms, on those two cores |
//! | there and back | 24 to 48 us |
//! | a topic that others have subscribers on | 36 bytes, however many they are: 12 for each of 3 |
//! | a topic with subscribers here | 105 bytes |
//! | a new link announces 100,000 topics | 26 ms, 21 of them processor |
//! | 100,000 subscribes until ready at 3 nodes | 120 to 210 ms |
//!
//! A new link and the end of one go over all topics under the lock: calls that came meanwhile took
//! up to 16 ms with 100,000.
//!
//! Absent on purpose: authentication and encryption (a link is a socket pair that a
//! supervisor made), routing over other nodes, and delivery after a link is gone.

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

pub use bus::{Bus, BusTotals, Handler, Loss, Readiness, Undelivered};
pub use limits::BusLimits;
pub use local::LocalBus;

/// How many nodes a bus can have: their ids are below this.
pub const NODES_MAX: u16 = 128;

/// The longest topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 4096;
