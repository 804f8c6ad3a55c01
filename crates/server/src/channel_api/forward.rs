//! Data that one client sends to another through the server.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::connect::Guest;

/// A kind of data that a client sends to one other client of its topic, through the server. The sender
/// gets a reply when the queue of the destination has taken or refused the data.
pub struct Forward {
    /// The event of the push to the destination.
    pub event: &'static str,
    /// How much of `limits.queued_bytes_max` may wait for the destination, in quarters. Beyond it, the data
    /// is refused.
    pub queue_quarters: usize,
    /// The reason in `watchfire_refusals_total` when the destination is gone.
    pub gone: &'static str,
    /// The reason in `watchfire_refusals_total` when its queue is full.
    pub busy: &'static str,
    /// Counts data of this many bytes that a queue took, this long after it arrived, and the destination if it
    /// is a guest. The time of data from another process is not known.
    pub count: Box<Count>,
}

type Count = dyn Fn(usize, Option<Duration>, Option<&dyn Guest>) + Send + Sync;

/// The number of a [`Forward`] in a registry. All processes of a server add the same ones, in the same
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardKind(pub(crate) u8);
