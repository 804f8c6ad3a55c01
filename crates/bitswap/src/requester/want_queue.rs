use watchfire_content::Cid;

use crate::bit_set::{BitSet, ones};

/// The wants that a peer has from this node, and those to send it next.
#[derive(Debug, Default)]
pub(crate) struct WantQueue {
    /// Want-haves that the peer remembers.
    pub sent_want_haves: BitSet,
    pub cancels: Vec<Cid>,
    /// Wants among those just cancelled. They may be sent again only in a later message.
    pub just_cancelled: BitSet,
    /// Want-blocks to send.
    pub requests: Vec<u32>,
    /// Cancels to send that apply only while the block is queued.
    pub cancels_if_queued: Vec<u32>,
    /// Whether a pending entry cannot wait.
    pub is_urgent: bool,
}

impl WantQueue {
    pub(crate) fn push_request(&mut self, at: u32) {
        self.requests.push(at);
        self.is_urgent = true;
    }

    /// Forgets that want-haves were sent that the peer has not answered. Returns how many.
    pub(crate) fn forget_unanswered(&mut self, lacks: &BitSet) -> usize {
        let words = self.sent_want_haves.words();
        let unanswered = ones(words, |at| self.sent_want_haves.word(at) & !lacks.word(at));
        let unanswered: Vec<u32> = unanswered.collect();
        for at in &unanswered {
            self.sent_want_haves.remove(*at);
        }
        unanswered.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_want_haves_without_an_answer_are_forgotten() {
        let sent_want_haves = BitSet::from_iter([1, 2, 70]);
        let mut queue = WantQueue { sent_want_haves, ..WantQueue::default() };
        assert_eq!(queue.forget_unanswered(&BitSet::from_iter([2])), 2);
        assert_eq!(queue.sent_want_haves.iter().collect::<Vec<_>>(), [2]);
        assert_eq!(queue.forget_unanswered(&BitSet::from_iter([2])), 0);
    }
}
