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
    sender: mpsc::Sender<(u64, M)>,
    counters: Arc<SocketCounters>,
}

/// The receiving end. It notes how old the messages are.
pub(crate) struct ShardReceiver<M> {
    shard: ShardId,
    receiver: mpsc::Receiver<(u64, M)>,
    counters: Arc<SocketCounters>,
}

impl<M> ShardSender<M> {
    pub(crate) fn new(
        shard: ShardId,
        len_max: usize,
        counters: Arc<SocketCounters>,
    ) -> (Self, ShardReceiver<M>) {
        let (sender, receiver) = mpsc::channel(len_max.max(1));
        let receiver = ShardReceiver { shard, receiver, counters: counters.clone() };
        (ShardSender { shard, sender, counters }, receiver)
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Queues a message and wakes the shard. If the queue is full or the shard has ended, the
    /// message is returned and counted as dropped.
    pub fn send(&self, message: M) -> Result<(), ShardQueueFull<M>> {
        let counters = self.counters.shard(self.shard);
        let now = self.counters.nanos();
        if let Err(refused) = self.sender.try_send((now, message)) {
            counters.shard_queue_drops.add_one_from_anywhere();
            return Err(ShardQueueFull(refused.into_inner().1));
        }
        let sent = counters.shard_queue_sent.add_one_from_anywhere();
        if sent <= counters.shard_queue_taken.get() {
            counters.shard_queue_since.set(now);
        }
        Ok(())
    }
}

impl<M> ShardReceiver<M> {
    /// Waits for the next message. `None`: there are no senders.
    pub async fn recv(&mut self) -> Option<M> {
        let sent = self.receiver.recv().await?;
        Some(self.take(sent))
    }

    /// The next message, if there is one now.
    pub fn try_recv(&mut self) -> Option<M> {
        let sent = self.receiver.try_recv().ok()?;
        Some(self.take(sent))
    }

    pub fn is_closed(&self) -> bool {
        self.receiver.is_closed()
    }

    fn take(&self, (sent_at, message): (u64, M)) -> M {
        let counters = self.counters.shard(self.shard);
        counters.shard_queue_taken.add(1);
        counters.shard_queue_since.set(sent_at);
        message
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
    use crate::counters::ShardQueue;

    #[test]
    fn a_full_queue_returns_the_message_and_counts_it() {
        let counters = Arc::new(SocketCounters::new(1));
        let (shard_sender, mut receiver) = ShardSender::new(ShardId(0), 1, counters.clone());
        let queue = || counters.shard_queues().next().unwrap();
        assert_eq!(queue(), ShardQueue { messages: 0, oldest: None, drops: 0 });
        assert!(shard_sender.send("first").is_ok());
        assert_eq!(shard_sender.send("second").unwrap_err().0, "second");
        assert_eq!((queue().messages, queue().drops), (1, 1));
        let (age, later) = (queue().oldest, queue().oldest);
        assert!(age.is_some() && later >= age, "{age:?} {later:?}");
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Some("first"), None));
        assert_eq!(queue(), ShardQueue { messages: 0, oldest: None, drops: 1 });
    }

    #[test]
    fn a_shard_that_has_ended_accepts_no_message() {
        let (shard_sender, receiver) =
            ShardSender::new(ShardId(0), 1, Arc::new(SocketCounters::new(1)));
        drop(receiver);
        assert_eq!(shard_sender.send(7).unwrap_err().0, 7);
    }
}
