use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem;

use watchfire_content::Cid;

use crate::requester::URGENT_MAX;
use crate::{Limits, Payload, Presence, WantEntry, WantKind};

/// The wants of a peer, and the blocks and presences queued for it.
#[derive(Debug)]
pub(super) struct Account<B> {
    pub has_presences: bool,
    /// A random key that decides the peer's place in the order of turns.
    pub turn_key: u64,
    pub wants: BTreeMap<Cid, Wanted>,
    /// Blocks to send, by priority and then by age.
    queue: BTreeMap<(Reverse<i32>, u64), Cid>,
    next_place: u64,
    pub queued_bytes: usize,
    /// How often the first block of the queue was passed over.
    overtaken: u32,
    /// How often another peer was served in this peer's turn.
    pub passed_over: u32,
    /// Whether the peer was last served before its turn.
    pub is_favoured: bool,
    presences: Vec<Presence>,
    /// Whether a queued presence cannot wait.
    pub is_urgent: bool,
    pub batch: Batch<B>,
}

#[derive(Debug)]
pub(super) struct Wanted {
    priority: i32,
    pub kind: WantKind,
    send_dont_have: bool,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The store is looking the block up.
    LookingUp,
    /// The store lacks the block. The peer receives it when it is stored.
    Absent,
    Queued {
        place: u64,
        len: usize,
    },
    /// The block is being read, or was read and goes with the next message.
    Reading,
}

/// The blocks of one message.
#[derive(Debug)]
pub(super) struct Batch<B> {
    /// Blocks that are being read, with their lengths.
    pub reading: BTreeMap<Cid, usize>,
    /// Blocks that were read: the CID in the want, the block, and the length from the lookup.
    blocks: Vec<(Cid, B, usize)>,
    /// Bytes of both, by the lengths from the lookups.
    pub bytes: usize,
}

impl<B> Batch<B> {
    const fn new() -> Self {
        Batch { reading: BTreeMap::new(), blocks: Vec::new(), bytes: 0 }
    }

    fn is_idle(&self) -> bool {
        self.reading.is_empty() && self.blocks.is_empty()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.reading.is_empty() && !self.blocks.is_empty()
    }
}

/// Blocks at the front of a queue that are compared with each other.
const COMPARED_MAX: usize = 16;

/// Blocks at the front of a queue that are checked when the next peer is chosen.
const FRESH_COMPARED_MAX: usize = 4;

/// How often the first block of a queue may be passed over.
const OVERTAKEN_MAX: u32 = 8;

/// Most bytes that a block takes in a message besides its data.
const BLOCK_OVERHEAD_BYTES_MAX: usize = 32;

/// Blocks up to this length are sent before longer ones, however often they were sent: the inner
/// nodes of a DAG are short, and many blocks wait for them.
const SHORT_BYTES: usize = 64 << 10;

/// A want with a higher priority is urgent for the peer.
const URGENT_ABOVE: i32 = i32::MAX - URGENT_MAX as i32;

impl<B: Payload> Account<B> {
    pub(super) fn new(has_presences: bool, turn_key: u64) -> Self {
        Account {
            has_presences,
            turn_key,
            wants: BTreeMap::new(),
            queue: BTreeMap::new(),
            next_place: 0,
            queued_bytes: 0,
            overtaken: 0,
            passed_over: 0,
            is_favoured: false,
            presences: Vec::new(),
            is_urgent: false,
            batch: Batch::new(),
        }
    }

    /// Adds or changes a want. Returns whether to look the block up.
    pub(super) fn want(&mut self, entry: &WantEntry) -> bool {
        let new = Wanted {
            priority: entry.priority,
            kind: entry.kind,
            send_dont_have: entry.send_dont_have,
            state: State::LookingUp,
        };
        let Some(wanted) = self.wants.get_mut(&entry.cid) else {
            self.wants.insert(entry.cid.clone(), new);
            return true;
        };
        wanted.kind = wanted.kind.max(entry.kind);
        wanted.send_dont_have |= entry.send_dont_have;
        let before = mem::replace(&mut wanted.priority, entry.priority);
        match wanted.state {
            State::Queued { place, .. } if before != entry.priority => {
                if let Some(cid) = self.queue.remove(&(Reverse(before), place)) {
                    self.queue.insert((Reverse(entry.priority), place), cid);
                }
                false
            }
            State::Absent => {
                wanted.state = State::LookingUp;
                true
            }
            State::LookingUp | State::Queued { .. } | State::Reading => false,
        }
    }

    pub(super) fn is_queued(&self, cid: &Cid) -> bool {
        self.wants.get(cid).is_some_and(|wanted| matches!(wanted.state, State::Queued { .. }))
    }

    /// Removes a want. Returns whether there was one. A block that is being read may still be sent.
    pub(super) fn forget(&mut self, cid: &Cid) -> bool {
        let Some(wanted) = self.wants.remove(cid) else { return false };
        if let State::Queued { place, len } = wanted.state {
            self.queue.remove(&(Reverse(wanted.priority), place));
            self.queued_bytes -= len;
        }
        true
    }

    pub(super) fn queue(&mut self, cid: &Cid, len: usize) {
        let Some(wanted) = self.wants.get_mut(cid) else { return };
        let place = self.next_place;
        self.next_place += 1;
        wanted.state = State::Queued { place, len };
        self.queued_bytes += len;
        self.queue.insert((Reverse(wanted.priority), place), cid.clone());
    }

    /// The store lacks the block. Returns whether the want requests DONT_HAVE.
    pub(super) fn mark_absent(&mut self, cid: &Cid, limits: &Limits) -> bool {
        let Some(wanted) = self.wants.get_mut(cid) else { return false };
        wanted.state = State::Absent;
        let is_reported = wanted.send_dont_have;
        if is_reported {
            self.queue_presence(cid, false, limits);
        }
        is_reported
    }

    /// Queues a presence for the next message. For a peer that does not read, the queue holds at
    /// most two presences per want; further ones are dropped.
    pub(super) fn queue_presence(&mut self, cid: &Cid, has_block: bool, limits: &Limits) {
        if self.has_presences && self.presences.len() < limits.wants_per_peer_max * 2 {
            self.presences.push(Presence { cid: cid.clone(), has_block });
            self.is_urgent |= !has_block;
        }
    }

    pub(super) fn take_presences(&mut self, max: usize) -> Vec<Presence> {
        self.is_urgent = false;
        if self.presences.len() <= max {
            return mem::take(&mut self.presences);
        }
        self.presences.drain(..max).collect()
    }

    pub(super) fn has_presences_left(&self) -> bool {
        !self.presences.is_empty()
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.queue.is_empty() && self.batch.is_idle()
    }

    /// Whether the first blocks of the queue include one that no peer was sent, or a short one.
    pub(super) fn has_fresh(&self, was_sent: impl Fn(&Cid) -> bool) -> bool {
        self.queue.values().take(FRESH_COMPARED_MAX).any(|cid| self.is_short(cid) || !was_sent(cid))
    }

    fn is_short(&self, cid: &Cid) -> bool {
        let state = self.wants.get(cid).map(|wanted| wanted.state);
        !matches!(state, Some(State::Queued { len, .. }) if len > SHORT_BYTES)
    }

    /// Length of the first block of the next batch.
    pub(super) fn next_len(&self, sent: impl Fn(&Cid) -> u32) -> usize {
        let next = self.choose(sent).and_then(|(key, _)| self.queue.get(&key));
        match next.and_then(|cid| self.wants.get(cid)).map(|wanted| wanted.state) {
            Some(State::Queued { len, .. }) => len,
            _ => 0,
        }
    }

    /// The first block of the next batch, unless it is urgent or short.
    pub(super) fn next_deferrable(&self, sent: impl Fn(&Cid) -> u32) -> Option<&Cid> {
        let (key, _) = self.choose(sent)?;
        let cid = self.queue.get(&key)?;
        (key.0.0 <= URGENT_ABOVE && !self.is_short(cid)).then_some(cid)
    }

    /// Begins a batch of at most `bytes_max`, or of one block. Blocks that were sent the least
    /// often come first. A turn that was earned by a new block sends no others, except short ones.
    pub(super) fn next_batch(&mut self, bytes_max: usize, sent: impl Fn(&Cid) -> u32) -> Vec<Cid> {
        let mut cids = Vec::new();
        let mut has_fresh = false;
        while let Some((key, is_first)) = self.choose(&sent) {
            let Some(cid) = self.queue.get(&key).cloned() else { break };
            let is_short = self.is_short(&cid);
            let Some(wanted) = self.wants.get_mut(&cid) else { break };
            let State::Queued { len, .. } = wanted.state else { break };
            if !cids.is_empty() && self.batch.bytes + len > bytes_max {
                break;
            }
            let is_fresh = sent(&cid) == 0;
            if has_fresh && !is_fresh && !is_short {
                break;
            }
            has_fresh |= is_fresh && !is_short;
            self.overtaken = if is_first { 0 } else { self.overtaken + 1 };
            wanted.state = State::Reading;
            self.queue.remove(&key);
            self.queued_bytes -= len;
            self.batch.bytes += len;
            self.batch.reading.insert(cid.clone(), len);
            cids.push(cid);
        }
        cids
    }

    /// The key of the next block in the queue, and whether it is the first.
    fn choose(&self, sent: impl Fn(&Cid) -> u32) -> Option<((Reverse<i32>, u64), bool)> {
        let (&first, _) = self.queue.first_key_value()?;
        if self.overtaken >= OVERTAKEN_MAX || first.0.0 > URGENT_ABOVE {
            return Some((first, true));
        }
        let rank = |cid: &Cid| if self.is_short(cid) { 0 } else { 1 + sent(cid) };
        let compared = self.queue.iter().take(COMPARED_MAX);
        let (&best, _) = compared.min_by_key(|(_, cid)| rank(cid))?;
        Some((best, best == first))
    }

    /// A read ended. Returns the bytes that it no longer holds; `None` if it was not requested.
    pub(super) fn read(&mut self, cid: &Cid, block: Option<B>, limits: &Limits) -> Option<usize> {
        let len = self.batch.reading.remove(cid)?;
        match block {
            // The want may have been cancelled in the meantime.
            Some(block) if self.wants.contains_key(cid) => {
                self.batch.blocks.push((cid.clone(), block, len));
                return Some(0);
            }
            Some(_) => {}
            None => drop(self.mark_absent(cid, limits)),
        }
        self.batch.bytes -= len;
        Some(len)
    }

    /// Takes blocks of a complete batch: at most `bytes_max` with their framing, or one block.
    pub(super) fn take_blocks(&mut self, bytes_max: usize) -> Vec<(Cid, B)> {
        if !self.batch.is_complete() {
            return Vec::new();
        }
        let (mut count, mut bytes) = (0, 0);
        for (_, block, _) in &self.batch.blocks {
            bytes += block.len() + BLOCK_OVERHEAD_BYTES_MAX;
            if count > 0 && bytes > bytes_max {
                break;
            }
            count += 1;
        }
        let taken = self.batch.blocks.drain(..count);
        let taken: Vec<_> = taken.collect();
        self.batch.bytes -= taken.iter().map(|(_, _, len)| len).sum::<usize>();
        taken.into_iter().map(|(cid, block, _)| (cid, block)).collect()
    }
}
