//! Notices event loops that no longer run.

use std::sync::Arc;

use watchfire_types::ShardId;

use crate::counters::SocketCounters;

/// Notices event loops that do not run: a handler blocks, or the shard's thread has ended.
///
/// An event loop ticks ten times a second, between events and messages. So a loop without a tick
/// in a much longer time serves no client.
pub struct LoopWatch {
    counters: Arc<SocketCounters>,
    /// The ticks of each shard at the last call.
    seen: Vec<u64>,
}

impl LoopWatch {
    pub(crate) fn new(counters: Arc<SocketCounters>) -> Self {
        // No shard has this number of ticks, so the first call reports none.
        let seen = counters.ticks().map(|_| u64::MAX).collect();
        LoopWatch { counters, seen }
    }

    /// The shards whose event loop has not ticked since the last call.
    pub fn stalled(&mut self) -> Vec<ShardId> {
        let mut stalled = Vec::new();
        for ((ticks, seen), shard) in self.counters.ticks().zip(&mut self.seen).zip(0..) {
            if std::mem::replace(seen, ticks) == ticks {
                stalled.push(ShardId(shard));
            }
        }
        stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_without_a_tick_since_the_last_call_is_stalled() {
        let counters = Arc::new(SocketCounters::new(2));
        let mut watch = LoopWatch::new(counters.clone());
        assert_eq!(watch.stalled(), []);
        counters.shard(ShardId(0)).ticks.add(1);
        assert_eq!(watch.stalled(), [ShardId(1)]);
        counters.shard(ShardId(1)).ticks.add(5);
        assert_eq!(watch.stalled(), [ShardId(0)]);
    }
}
