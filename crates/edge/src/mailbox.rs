//! How other threads reach a shard's tenant.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;
use vocab::ShardId;

use crate::counters::EdgeCounters;

/// The sending end of one shard's bounded queue of mail.
///
/// Mail from one sender arrives in the order it was sent. It holds at most `mailbox_len_max`.
pub struct Mailbox<M> {
    shard: ShardId,
    sender: mpsc::Sender<M>,
    counters: Arc<EdgeCounters>,
}

impl<M> Mailbox<M> {
    pub(crate) fn new(
        shard: ShardId,
        len_max: usize,
        counters: Arc<EdgeCounters>,
    ) -> (Self, mpsc::Receiver<M>) {
        let (sender, receiver) = mpsc::channel(len_max.max(1));
        (Mailbox { shard, sender, counters }, receiver)
    }

    /// The shard at the other end.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Put mail into the queue and wake the shard. A full queue, or the queue of a shard that has
    /// ended, gives the mail back; the drop is counted.
    pub fn send(&self, mail: M) -> Result<(), MailboxFull<M>> {
        self.sender.try_send(mail).map_err(|refused| {
            self.counters.shard(self.shard).mailbox_drops.add_one_from_anywhere();
            MailboxFull(refused.into_inner())
        })
    }
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Mailbox { shard: self.shard, sender: self.sender.clone(), counters: self.counters.clone() }
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mailbox of shard {}", self.shard.0)
    }
}

/// The mail that a full queue did not take.
pub struct MailboxFull<M>(pub M);

impl<M> fmt::Debug for MailboxFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MailboxFull")
    }
}

impl<M> fmt::Display for MailboxFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the shard's mailbox is full, or the shard has ended")
    }
}

impl<M> std::error::Error for MailboxFull<M> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_mailbox_gives_the_mail_back_and_counts_it() {
        let counters = Arc::new(EdgeCounters::new(1));
        let (mailbox, _receiver) = Mailbox::new(ShardId(0), 1, counters.clone());
        assert!(mailbox.send("first").is_ok());
        assert_eq!(mailbox.send("second").unwrap_err().0, "second");
        assert_eq!(counters.totals().mailbox_drops, 1);
    }

    #[test]
    fn a_shard_that_ended_takes_no_mail() {
        let (mailbox, receiver) = Mailbox::new(ShardId(0), 1, Arc::new(EdgeCounters::new(1)));
        drop(receiver);
        assert_eq!(mailbox.send(7).unwrap_err().0, 7);
    }
}
