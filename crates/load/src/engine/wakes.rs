//! The wake-up times of users.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use watchfire_types::Instant;

/// A wake-up of one user. The number detects a user that has ended meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wake {
    pub(super) at: Instant,
    pub(super) index: u32,
    pub(super) number: u32,
}

#[derive(Default)]
pub(super) struct Wakes(BinaryHeap<Reverse<Wake>>);

impl Wakes {
    pub(super) fn push(&mut self, wake: Wake) {
        self.0.push(Reverse(wake));
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse(wake)| wake.at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Wake> {
        let is_due = self.next_at().is_some_and(|at| at <= now);
        if is_due { self.0.pop().map(|Reverse(wake)| wake) } else { None }
    }
}
