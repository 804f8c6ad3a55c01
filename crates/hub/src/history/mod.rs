//! The recent messages of topics, by epoch and offset, replicated between processes.
//!
//! [`Log`] keeps the messages of one topic. [`Replicas`] is one process's part of the replication: one
//! process owns each topic and writes its log, and every process with subscribers has a copy.
//!
//! [`Followers`] takes their place on several machines: there the messages are stored in streams of NATS
//! JetStream, which each process follows.
//!
//! Absent on purpose: clocks, I/O and subscribers.

mod followers;
mod log;
mod packet;
mod position;
mod replicas;

pub use followers::{FollowerOutput, FollowerTotals, Followers, ReadRequest, ReadTopic, Stored};
pub use log::{Bounds, Comparison, Log, LogImage, Message, Origin, Positioned};
pub use packet::Packet;
pub use position::{InvalidPosition, Position};
pub use replicas::{Environment, Output, Replicas, Totals};
