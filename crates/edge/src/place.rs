//! The count of connections, kept right whoever holds one.

use std::sync::Arc;

use vocab::ShardId;

use crate::counters::EdgeCounters;

/// One connection's place in `connections_now`, while the connection is outside the slab: in a TLS
/// handshake, or lent to hyper. Dropping it gives the place up.
pub(crate) struct Place {
    counters: Arc<EdgeCounters>,
    shard: ShardId,
    is_slabs: bool,
}

impl Place {
    /// Count one connection more.
    pub(crate) fn take(counters: Arc<EdgeCounters>, shard: ShardId) -> Self {
        counters.shard(shard).connections_now.add(1);
        Place { counters, shard, is_slabs: false }
    }

    /// The place of a connection that the slab had, and that is counted already.
    pub(crate) fn of_slab(counters: Arc<EdgeCounters>, shard: ShardId) -> Self {
        Place { counters, shard, is_slabs: false }
    }

    /// Leave the connection counted: the slab has it now.
    pub(crate) fn pass_to_slab(mut self) {
        self.is_slabs = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_slabs {
            self.counters.shard(self.shard).connections_now.sub(1);
        }
    }
}
