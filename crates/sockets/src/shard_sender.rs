//! How other threads reach a shard's handler.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;
use watchfire_types::ShardId;

use crate::counters::SocketCounters;

/// The sending end of one shard's bounded queue of message.
///
/// Mail from one sender arrives in the order it was sent. It holds at most `shard_queue_len_max`.
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

    /// The shard at the other end.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Put message into the queue and wake the shard. A full queue, or the queue of a shard that has
    /// ended, gives the message back; the drop is counted.
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
        write!(f, "shard_sender of shard {}", self.shard.0)
    }
}

/// The message that a full queue did not take.
pub struct ShardQueueFull<M>(pub M);

impl<M> fmt::Debug for ShardQueueFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShardQueueFull")
    }
}

impl<M> fmt::Display for ShardQueueFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the shard's shard_sender is full, or the shard has ended")
    }
}

impl<M> std::error::Error for ShardQueueFull<M> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_mailbox_gives_the_mail_back_and_counts_it() {
        let counters = Arc::new(SocketCounters::new(1));
        let (shard_sender, _receiver) = ShardSender::new(ShardId(0), 1, counters.clone());
        assert!(shard_sender.send("first").is_ok());
        assert_eq!(shard_sender.send("second").unwrap_err().0, "second");
        assert_eq!(counters.totals().shard_queue_drops, 1);
    }

    #[test]
    fn a_shard_that_ended_takes_no_mail() {
        let (shard_sender, receiver) =
            ShardSender::new(ShardId(0), 1, Arc::new(SocketCounters::new(1)));
        drop(receiver);
        assert_eq!(shard_sender.send(7).unwrap_err().0, 7);
    }
}
