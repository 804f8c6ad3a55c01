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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_order() {
        let mut unread_blocks = UnreadBlocks::default();
        assert_eq!(unread_blocks.update(|_| false), None);
        [7, 9, 4].into_iter().for_each(|message| unread_blocks.note_sent(message));
        assert_eq!(unread_blocks.update(|_| true), None);
        assert_eq!(unread_blocks.update(|message| message != 9), Some(2), "7 was lost");
        assert_eq!(unread_blocks.update(|message| message != 9), None);
        unread_blocks.note_sent(5);
        assert_eq!(unread_blocks.update(|_| false), Some(4));
    }
}
