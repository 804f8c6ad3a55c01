//! Counts connections that are outside the slab.

use std::sync::Arc;

use watchfire_types::ShardId;

use crate::counters::SocketCounters;

/// A connection that counts in `connections_now` while it is outside the slab: in a TLS handshake,
/// or lent to hyper. Dropping it ends the count.
pub(crate) struct CountedConnection {
    counters: Arc<SocketCounters>,
    shard: ShardId,
    is_in_slab: bool,
}

impl CountedConnection {
    /// Add a connection to the count.
    pub(crate) fn new(counters: Arc<SocketCounters>, shard: ShardId) -> Self {
        counters.shard(shard).connections_now.add(1);
        CountedConnection { counters, shard, is_in_slab: false }
    }

    /// For a connection that leaves the slab, where it was already counted.
    pub(crate) fn already_counted(counters: Arc<SocketCounters>, shard: ShardId) -> Self {
        CountedConnection { counters, shard, is_in_slab: false }
    }

    /// The slab counts the connection from now on.
    pub(crate) fn pass_to_slab(mut self) {
        self.is_in_slab = true;
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        if !self.is_in_slab {
            self.counters.shard(self.shard).connections_now.sub(1);
        }
    }
}
