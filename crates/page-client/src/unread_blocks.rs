//! The messages with blocks that a peer has not read, as far as this client knows.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct UnreadBlocks {
    /// How many messages with blocks were sent to the peer.
    sent: u64,
    /// The numbers of those that the peer has not read, in the order in which they were sent. The
    /// host bounds what it sends.
    unread: VecDeque<u32>,
}

impl UnreadBlocks {
    pub(crate) fn note_sent(&mut self, message: u32) {
        self.sent += 1;
        self.unread.push_back(message);
    }

    /// Returns how many messages the peer has read, if there are more than before. A peer reads long
    /// messages in order, so one before these was lost if it was not read.
    pub(crate) fn update(&mut self, is_unread: impl Fn(u32) -> bool) -> Option<u64> {
        let last = self.unread.iter().rposition(|message| !is_unread(*message))?;
        self.unread.drain(..=last);
        Some(self.sent - self.unread.len() as u64)
    }
}
