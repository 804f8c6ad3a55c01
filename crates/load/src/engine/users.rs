//! The records of all users, and when they continue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut, Range};
use std::time::Duration;

use slab::Slab;
use watchfire_types::Instant;

use super::User;
use super::progress::Waiting;
use super::reports::Gauge;
use crate::tally::Delta;

/// Interval between checks of all users.
const CHECK_PERIOD: Duration = Duration::from_millis(200);

/// A wake-up of one user. The number detects a user that has ended meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wake {
    at: Instant,
    index: u32,
    number: u32,
}

/// A slab of users, and of polls in the background, which have records of their own.
#[derive(Default)]
pub(super) struct Users {
    records: Slab<User>,
    active: Gauge,
    wakes: BinaryHeap<Reverse<Wake>>,
    /// The next slot to check, and when the next check of all begins.
    checked: Option<usize>,
    check_at: Instant,
    /// After the end of the load: idle users before this slot have been disconnected.
    closed_before: Option<usize>,
}

impl Index<usize> for Users {
    type Output = User;

    fn index(&self, index: usize) -> &User {
        &self.records[index]
    }
}

impl IndexMut<usize> for Users {
    fn index_mut(&mut self, index: usize) -> &mut User {
        &mut self.records[index]
    }
}

impl Users {
    pub(super) fn insert(&mut self, user: User) -> usize {
        self.active.add();
        self.records.insert(user)
    }

    pub(super) fn insert_background_poll(&mut self, poll: User) -> usize {
        self.records.insert(poll)
    }

    pub(super) fn remove(&mut self, index: usize) -> User {
        self.active.remove();
        self.records.remove(index)
    }

    pub(super) fn remove_background_poll(&mut self, index: usize) {
        self.records.remove(index);
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut User> {
        self.records.get_mut(index)
    }

    /// Whether this user is still in its slot.
    pub(super) fn has(&self, index: usize, number: u32) -> bool {
        self.records.get(index).is_some_and(|user| user.number == number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &User> {
        self.records.iter().map(|(_, user)| user)
    }

    /// Whether no record is left, also of a poll.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How many users are active. A poll in the background belongs to one of them.
    pub(super) fn active(&self) -> u64 {
        self.active.now()
    }

    pub(super) fn clear(&mut self) {
        self.records.clear();
    }

    /// Moves the figures since the last report.
    pub(super) fn report(&mut self, delta: &mut Delta) {
        delta.users = self.active.take_most();
    }

    pub(super) fn wake_at(&mut self, index: usize, at: Instant) {
        let user = &mut self.records[index];
        user.progress.wait_for(Waiting::Time);
        self.wakes.push(Reverse(Wake { at, index: index as u32, number: user.number }));
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.wakes.peek().map(|Reverse(wake)| wake.at)
    }

    /// The next user whose time has come. `None`: no more are due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(usize, u32)> {
        self.next_wake().filter(|at| *at <= now)?;
        self.wakes.pop().map(|Reverse(wake)| (wake.index as usize, wake.number))
    }

    /// The slot at which a check of all users begins or continues; `None` until the next check.
    pub(super) fn next_to_check(&mut self, now: Instant) -> Option<usize> {
        if now >= self.check_at && self.checked.is_none() {
            self.checked = Some(0);
            self.check_at = now + CHECK_PERIOD;
        }
        self.checked
    }

    pub(super) fn check_continues_at(&mut self, slot: usize) {
        self.checked = Some(slot).filter(|slot| *slot < self.records.capacity());
    }

    pub(super) fn check_at(&self) -> Instant {
        self.check_at
    }

    /// Whether the load is over: users that only stay end.
    pub(super) fn is_over(&self) -> bool {
        self.closed_before.is_some()
    }

    /// The load is over. Returns the slot before which idle users have been disconnected.
    pub(super) fn end_load(&mut self) -> usize {
        *self.closed_before.get_or_insert(0)
    }

    pub(super) fn closing_continues_at(&mut self, slot: usize) {
        self.closed_before = Some(slot);
    }

    /// Whether a check of all users is in progress, and whether idle ones are being disconnected.
    pub(super) fn searches(&self) -> (bool, bool) {
        let closes = self.closed_before.is_some_and(|slot| slot < self.records.capacity());
        (self.checked.is_some(), closes)
    }

    /// At most this many slots, beginning with the first one.
    pub(super) fn slots_from(&self, first: usize, max: usize) -> Range<usize> {
        first..(first + max).min(self.records.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_user_needs_at_most_400_bytes_even_while_its_slab_grows() {
        // A slab entry adds nothing or one word to the record.
        let entry = size_of::<User>() + 8;
        assert!(size_of::<User>() <= 168, "{}", size_of::<User>());
        assert!(entry * 2 + size_of::<Wake>() * 2 <= 400, "doubling included");
    }

    #[test]
    fn users_wake_in_the_order_of_their_times_and_polls_do_not_count() {
        let at = |nanos| Instant::from_nanos(nanos);
        let mut users = Users::default();
        let slots = [7, 8].map(|number| users.insert(User::new(number, 0, 0, at(0))));
        let poll = users.insert_background_poll(User::new(8, 0, 0, at(0)));
        users.wake_at(slots[1], at(20));
        users.wake_at(slots[0], at(30));
        assert_eq!((users.pop_due(at(19)), users.next_wake()), (None, Some(at(20))));
        assert_eq!(users.pop_due(at(40)), Some((slots[1], 8)));
        assert_eq!(users[slots[1]].progress.waiting(), Waiting::Time);
        users.remove(slots[0]);
        assert!(users.active() == 1 && !users.has(slots[0], 7) && users.has(poll, 8));
        let mut delta = Delta::default();
        users.report(&mut delta);
        assert_eq!(delta.users, 2);
    }
}
