//! Which links between workers to make, and when.
//!
//! Each end of a link goes to its worker as descriptors in a message. Until the worker reads the message,
//! the descriptors are in use, and a worker that hangs reads nothing. So at most two links are queued for
//! a worker. Further ones stay *pending* and use no descriptors. 50 workers that start together need
//! 1,225 links, which are 2,450 messages; at most 100 of them are queued at a time.

use watchfire_types::Instant;

use super::{Event, Output, State, Supervisor};

/// Maximum queued links of one worker. Further ones stay pending, which uses no descriptors.
pub(crate) const QUEUED_LINKS_MAX: u8 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Linked {
    pub number: u64,
    at: Instant,
}

impl Supervisor {
    /// Makes this worker's pending links, while both ends have space in their queues.
    pub(super) fn send_pending(&mut self, now: Instant, slot: u16) {
        let pending_links: Vec<u16> =
            self.slots[usize::from(slot)].pending_links.iter().copied().collect();
        for other in pending_links {
            if !self.can_queue_link(slot) {
                break;
            }
            if self.can_queue_link(other) {
                self.pair(now, slot, other);
            }
        }
    }

    fn can_queue_link(&self, slot: u16) -> bool {
        matches!(&self.slots[usize::from(slot)].state, State::Up(up) if up.queued_links < QUEUED_LINKS_MAX)
    }

    fn pair(&mut self, now: Instant, one: u16, other: u16) {
        self.links += 1;
        let number = self.links;
        self.linked.insert(ordered(one, other), Linked { number, at: now });
        self.slots[usize::from(one)].pending_links.remove(&other);
        self.slots[usize::from(other)].pending_links.remove(&one);
        self.outputs.push_back(Output::Pair { one, other, number });
        for (slot, peer) in [(one, other), (other, one)] {
            if let Some(up) = self.up(slot) {
                up.queued_links += 1;
                up.initial.remove(&peer);
            }
            self.begin(slot);
        }
    }

    pub(super) fn add_pending_link(&mut self, one: u16, other: u16) {
        self.slots[usize::from(one)].pending_links.insert(other);
        self.slots[usize::from(other)].pending_links.insert(one);
    }

    pub(super) fn link_lost(&mut self, now: Instant, slot: u16, to: u16, number: u64) {
        if self.is_ending() || slot == to || self.up(slot).is_none() || self.up(to).is_none() {
            return;
        }
        // A report with an older number is about a link that was already replaced.
        let Some(linked) = self.linked.get(&ordered(slot, to)).filter(|it| it.number == number)
        else {
            return;
        };
        let due = linked.at + self.limits.relink_pause;
        if self.slots[usize::from(slot)].pending_links.contains(&to)
            || self.delayed.contains_key(&ordered(slot, to))
        {
            return;
        }
        self.emit(Event::Relinked { one: slot, other: to });
        if due <= now {
            self.add_pending_link(slot, to);
            self.send_pending(now, slot);
        } else {
            self.delayed.insert(ordered(slot, to), due);
        }
    }

    pub(super) fn tick_links(&mut self, now: Instant) {
        let due: Vec<_> =
            self.delayed.iter().filter(|(_, at)| **at <= now).map(|(&pair, _)| pair).collect();
        for (one, other) in due {
            self.delayed.remove(&(one, other));
            if self.up(one).is_some() && self.up(other).is_some() {
                self.add_pending_link(one, other);
                self.send_pending(now, one);
            }
        }
    }
}

/// The key of a pair.
pub(super) fn ordered(one: u16, other: u16) -> (u16, u16) {
    (one.min(other), one.max(other))
}
