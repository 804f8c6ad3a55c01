//! Questions to peers, whether they have a block now. They request nothing.
//!
//! A session learns that a peer lacks a block only when it requests the block. A node that has the
//! block already, and must know whether a peer still has it, asks with a want-have outside of all
//! sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use watchfire_content::Cid;
use watchfire_types::Instant;

use super::Exchange;
use crate::{Output, Payload, WantEntry, WantKind};

/// Questions that one peer has not answered. Further ones are refused.
const QUESTIONS_PER_PEER_MAX: usize = 256;

/// The questions that have no answer yet. A peer without any has no entry.
#[derive(Debug)]
pub(super) struct Questions<P> {
    asked: BTreeMap<P, BTreeSet<Cid>>,
    unsent: BTreeMap<P, Vec<Entry>>,
    /// Peers with messages to send.
    pub peers_to_update: BTreeSet<P>,
}

#[derive(Debug)]
enum Entry {
    Question(Cid),
    /// The peer said that it lacks the block. Without a cancel it would send the block later.
    Cancel(Cid),
}

impl Entry {
    const fn cid(&self) -> &Cid {
        match self {
            Entry::Question(cid) | Entry::Cancel(cid) => cid,
        }
    }
}

impl<P: Copy + Ord> Questions<P> {
    pub(super) const fn new() -> Self {
        Questions {
            asked: BTreeMap::new(),
            unsent: BTreeMap::new(),
            peers_to_update: BTreeSet::new(),
        }
    }

    pub(super) fn has_unsent(&self, peer: P) -> bool {
        self.unsent.contains_key(&peer)
    }

    /// Queues an entry. It replaces an unsent one about the same block.
    fn queue(&mut self, peer: P, entry: Entry) {
        let unsent = self.unsent.entry(peer).or_default();
        unsent.retain(|other| other.cid() != entry.cid());
        if unsent.len() < 2 * QUESTIONS_PER_PEER_MAX {
            unsent.push(entry);
        }
        self.peers_to_update.insert(peer);
    }

    /// Removes a question. Returns whether it was asked.
    fn take(&mut self, peer: P, cid: &Cid) -> bool {
        let Some(asked) = self.asked.get_mut(&peer) else { return false };
        let was_asked = asked.remove(cid);
        if asked.is_empty() {
            self.asked.remove(&peer);
        }
        was_asked
    }
}

impl<P: Copy + Ord + Debug, B: Payload> Exchange<P, B> {
    /// Asks a peer whether it has a block now. The answer is [`Output::Answered`], also when the peer
    /// disconnects. Returns false if the peer is not connected, if its protocol has no such question,
    /// or if it has left too many questions unanswered.
    pub fn ask(&mut self, now: Instant, peer: P, cid: &Cid) -> bool {
        self.begin_input(now);
        let can_answer = self
            .send_buffers
            .get(&peer)
            .is_some_and(|send_buffer| send_buffer.protocol.has_presences());
        let asked = self.questions.asked.get(&peer);
        let is_open = asked.is_some_and(|asked| asked.contains(cid));
        let is_full = asked.is_some_and(|asked| asked.len() >= QUESTIONS_PER_PEER_MAX);
        if !can_answer || (is_full && !is_open) {
            return false;
        }
        self.questions.asked.entry(peer).or_default().insert(cid.clone());
        // An answer may be lost with its stream, so an open question is sent again.
        self.questions.queue(peer, Entry::Question(cid.clone()));
        true
    }

    /// Handles HAVE, DONT_HAVE, or a block. Returns whether it answers a question.
    pub(super) fn answer_question(&mut self, peer: P, cid: &Cid, has_block: bool) -> bool {
        if !self.questions.take(peer, cid) {
            return false;
        }
        if !has_block {
            self.questions.queue(peer, Entry::Cancel(cid.clone()));
        }
        self.outputs.push_back(Output::Answered { peer, cid: cid.clone(), has_block });
        true
    }

    /// Adds the unsent questions to the wants of a message.
    pub(super) fn add_questions(&mut self, peer: P, wants: &mut Vec<WantEntry>) {
        for entry in self.questions.unsent.remove(&peer).unwrap_or_default() {
            let is_in_message = wants.iter().any(|want| want.cid == *entry.cid());
            let (cid, cancel) = match entry {
                Entry::Question(cid) => (cid, false),
                Entry::Cancel(cid) => (cid, true),
            };
            // The cancel would end the want of a session. A want in this message is a question too.
            if is_in_message || (cancel && self.requester.wants().find(&cid).is_some()) {
                continue;
            }
            wants.push(WantEntry {
                cid,
                priority: 1,
                cancel,
                kind: WantKind::Have,
                send_dont_have: !cancel,
            });
        }
    }

    /// A peer is gone, and with it its answers.
    pub(super) fn forget_questions(&mut self, peer: P) {
        self.questions.unsent.remove(&peer);
        self.questions.peers_to_update.remove(&peer);
        for cid in self.questions.asked.remove(&peer).unwrap_or_default() {
            self.outputs.push_back(Output::Answered { peer, cid, has_block: false });
        }
    }
}
