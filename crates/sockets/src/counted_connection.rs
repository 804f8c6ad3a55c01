//! Keeps the count of connections right while a connection is outside the slab.

use std::sync::Arc;

use watchfire_types::ShardId;

use crate::counters::SocketCounters;

/// One connection's place in `connections_now`, while the connection is outside the slab: in a TLS
/// handshake, or lent to hyper. Dropping it gives the place up.
pub(crate) struct CountedConnection {
    counters: Arc<SocketCounters>,
    shard: ShardId,
    is_slabs: bool,
}

impl CountedConnection {
    /// Count one connection more.
    pub(crate) fn take(counters: Arc<SocketCounters>, shard: ShardId) -> Self {
        counters.shard(shard).connections_now.add(1);
        CountedConnection { counters, shard, is_slabs: false }
    }

    /// The place of a connection that the slab had, and that is counted already.
    pub(crate) fn of_slab(counters: Arc<SocketCounters>, shard: ShardId) -> Self {
        CountedConnection { counters, shard, is_slabs: false }
    }

    /// Leave the connection counted: the slab has it now.
    pub(crate) fn pass_to_slab(mut self) {
        self.is_slabs = true;
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        if !self.is_slabs {
            self.counters.shard(self.shard).connections_now.sub(1);
        }
    }
}
