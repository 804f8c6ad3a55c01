//! Event loops that ended by a panic, or that no longer run.

use std::any::Any;
use std::sync::Arc;

use tokio::sync::watch;
use watchfire_types::ShardId;

use crate::counters::SocketCounters;

/// An event loop that ended by a panic. Its connections ended with it, and no one else serves its
/// listener.
///
/// No input of a client may cause one, so it is a fault of this program or of its handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event loop {} panicked: {reason}", shard.0)]
pub struct LoopPanic {
    /// The shard of the event loop.
    pub shard: ShardId,
    pub reason: String,
}

impl LoopPanic {
    /// A panic with what it threw.
    pub(crate) fn new(shard: ShardId, thrown: &(dyn Any + Send)) -> Self {
        let text = thrown.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let reason = text.or_else(|| thrown.downcast_ref::<String>().cloned());
        LoopPanic { shard, reason: reason.unwrap_or_else(|| "a value without a text".into()) }
    }
}

#[derive(Clone)]
pub(crate) struct LoopPanics(pub watch::Receiver<Option<LoopPanic>>);

impl LoopPanics {
    /// The first panic. Pending while all event loops run, and after they have ended in order.
    pub async fn first(mut self) -> LoopPanic {
        if let Ok(panic) = self.0.wait_for(Option::is_some).await
            && let Some(panic) = &*panic
        {
            return panic.clone();
        }
        std::future::pending().await
    }
}

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
