//! Sends messages from other threads to a shard's handler.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;
use watchfire_types::ShardId;

use crate::counters::SocketCounters;

/// The sending end of one shard's message queue, which holds at most `shard_queue_len_max`.
///
/// Messages from one sender arrive in the order in which they were sent.
pub struct ShardSender<M> {
    shard: ShardId,
    sender: mpsc::Sender<M>,
    counters: Arc<SocketCounters>,
}

impl<M> ShardSender<M> {
    pub(crate) fn new(
        shard: ShardId,
        len_max: usize,
        counters: Arc<SocketCounters>,
    ) -> (Self, mpsc::Receiver<M>) {
        let (sender, receiver) = mpsc::channel(len_max.max(1));
        (ShardSender { shard, sender, counters }, receiver)
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Queues a message and wakes the shard. If the queue is full or the shard has ended, the
    /// message is returned and counted as dropped.
    pub fn send(&self, message: M) -> Result<(), ShardQueueFull<M>> {
        self.sender.try_send(message).map_err(|refused| {
            self.counters.shard(self.shard).shard_queue_drops.add_one_from_anywhere();
            ShardQueueFull(refused.into_inner())
        })
    }
}

impl<M> Clone for ShardSender<M> {
    fn clone(&self) -> Self {
        ShardSender {
            shard: self.shard,
            sender: self.sender.clone(),
            counters: self.counters.clone(),
        }
    }
}

impl<M> fmt::Debug for ShardSender<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardSender of shard {}", self.shard.0)
    }
}

/// A message that could not be queued.
pub struct ShardQueueFull<M>(pub M);

impl<M> fmt::Debug for ShardQueueFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShardQueueFull")
    }
}

impl<M> fmt::Display for ShardQueueFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot send to the shard: its queue is full, or the shard has ended")
    }
}

impl<M> std::error::Error for ShardQueueFull<M> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_returns_the_message_and_counts_it() {
        let counters = Arc::new(SocketCounters::new(1));
        let (shard_sender, _receiver) = ShardSender::new(ShardId(0), 1, counters.clone());
        assert!(shard_sender.send("first").is_ok());
        assert_eq!(shard_sender.send("second").unwrap_err().0, "second");
        assert_eq!(counters.totals().shard_queue_drops, 1);
    }

    #[test]
    fn a_shard_that_has_ended_accepts_no_message() {
        let (shard_sender, receiver) =
            ShardSender::new(ShardId(0), 1, Arc::new(SocketCounters::new(1)));
        drop(receiver);
        assert_eq!(shard_sender.send(7).unwrap_err().0, 7);
    }
}
