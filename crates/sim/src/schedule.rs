//! The simulated clock: what happens when, and in which order.
//!
//! A test of a swarm on real clocks differs from run to run. Two timers for the same millisecond fire in the
//! order that the operating system chooses, and one swapped message changes every later decision. Then a fault
//! of one run in a thousand cannot be seen a second time, and a change of one per cent is lost in noise. A
//! simulation has one seed and one order: the same plan has the same outcome on every machine.
//!
//! Three rules give that:
//!
//! - **Time jumps.** The clock counts whole nanoseconds and has no speed. A simulation takes the earliest entry
//!   of its two schedules, the network's and its own timers, sets the time to it, and runs it. At equal times
//!   the network is first. Time in which nothing happens costs nothing.
//! - **Equal times have an order.** An entry is `(time, number, what)`, and the number grows with each entry.
//!   If hosts 7 and 3 both wake at 2.000000000 s, the one that was scheduled first wakes first. Without the
//!   number, the order would depend on the kind of the entry and on the number of the host.
//! - **Nothing is removed.** A timer that is out of date fires, and its receiver ignores it. A peer wakes only
//!   at the time that it noted last. An event of an earlier visit of a peer carries the number of that
//!   visit: a peer that leaves at 10 s and returns at 11 s sends no block whose read began at 9 s.
//!
//! All random numbers come from the seed of the plan, with a generator for each purpose, so one more draw in the
//! network does not shift the draws of the peers. The network uses no logarithm, power or root of the standard
//! library, because their last bits differ between machines.
//!
//! The bound: two entries for each chunk in flight, whose bytes the window of its connection bounds, and the
//! timers of each host. A simulation ends at `time_max` of its plan, finished or not. A peer that wakes more than
//! 10,000 times at one time is reported as stuck and loses its timer, so a loop of an exchange cannot stop time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use watchfire_types::Instant;

/// Entries by their time, and in the order of their insertion where the times are equal.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    entries: BinaryHeap<Reverse<(Instant, u64, T)>>,
    pushed: u64,
}

impl<T: Ord> Schedule<T> {
    pub(crate) const fn new() -> Self {
        Schedule { entries: BinaryHeap::new(), pushed: 0 }
    }

    pub(crate) fn push(&mut self, at: Instant, what: T) {
        self.entries.push(Reverse((at, self.pushed, what)));
        self.pushed += 1;
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.entries.peek().map(|Reverse((at, ..))| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Instant, T)> {
        self.entries.pop().map(|Reverse((at, _, what))| (at, what))
    }
}
