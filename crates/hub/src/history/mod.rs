//! The recent messages of topics, by their positions.
//!
//! [`Logs`] has the messages of all topics, in the process that writes them. On one machine that is the only process, or
//! the supervisor of several. On several machines, streams of NATS JetStream store the messages.
//! [`Followers`] is the part of a process that does not write them: it follows the topics of its clients.
//!
//! Absent on purpose: clocks, I/O and subscribers.

mod followers;
mod log;
mod logs;
mod position;
mod sweep;

pub use followers::{FollowerOutput, FollowerTotals, Followers, ReadRequest, ReadTopic, Stored};
pub use log::{Bounds, Message, Positioned};
pub use logs::{LogTotals, Logs, LogsImage, Placed, TopicImage};
pub use position::{InvalidPosition, Position};
