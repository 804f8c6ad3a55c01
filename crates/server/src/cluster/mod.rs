//! The other processes of this server.
//!
//! One server can run as several processes behind one port. State is replicated by interest: each
//! process owns the state of its own clients (presences, and what its features keep) and sends
//! it to the processes that subscribe to the topic.
//!
//! [`Cluster`] knows which processes are up and how many connections each has. A feature that
//! replicates state has a [`PartLink`] to send with, and implements [`ClusterPart`] to receive.
//! [`Receiver`] hands each message to its part. The cluster knows no feature.

mod balancing;
mod format;
mod handoff;
mod load;
mod message;
mod metrics;
mod part;
mod part_name;
mod processes;
mod receiver;
mod reports;
mod requests;
mod samples;

#[cfg(test)]
pub(crate) use crate::message_samples as samples;
pub use balancing::Balancer;
#[cfg(any(feature = "cluster", test))]
pub(crate) use format::FORMAT;
pub use handoff::receive_connections;
pub use load::ProcessLoad;
pub use part::{ClusterPart, PartLink, PendingResponse, SendError};
pub use part_name::PartName;
pub(crate) use processes::{BoxFuture, FarLinks};
pub use processes::{Cluster, PROCESSES_MAX, ProcessStarts};
pub use receiver::Receiver;
pub use reports::{REPORT_ENTRIES_MAX, ReportWaker, ReportWakes, Reporter};
pub use requests::Unanswered;
pub use samples::{Samples, format_of};
