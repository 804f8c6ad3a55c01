use std::time::Duration;

use vocab::Instant;

use crate::output::Counts;

/// How often a page may be called lit or dark in one period: once each.
const FLIPS_PER_PERIOD: u8 = 2;

/// What a page's peers were told last, and when they may be told again.
///
/// Everyone on the page hears each of it, so one peer that changes its mind all the time must not
/// be heard each time.
#[derive(Debug, Default)]
pub(crate) struct News {
    counts: Counts,
    /// Whether a peer has read other counts in its reply since all were told these.
    is_read_otherwise: bool,
    counts_again_at: Instant,
    is_lit: bool,
    flips: u8,
    flips_again_at: Instant,
}

/// What is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Counts,
    Lit,
    Dark,
}

impl News {
    /// The only peer has read these counts in its own reply.
    pub fn counts_are_known(&mut self, counts: Counts) {
        self.counts = counts;
    }

    /// One peer among others has read these counts in its own reply: it is told again, even if the
    /// counts change back to what the others know.
    pub fn counts_are_read(&mut self, counts: Counts) {
        self.is_read_otherwise |= counts != self.counts;
    }

    /// Whether the page is lit, as its peers were told.
    pub fn is_lit(&self) -> bool {
        self.is_lit
    }

    /// What is to be told now, if anything: then it counts as told.
    pub fn take(&mut self, now: Instant, counts: Counts, period: Duration) -> Option<Item> {
        let due_at = self.light_due_at(counts);
        if due_at.is_some_and(|at| at <= now) {
            if self.flips_again_at <= now {
                self.flips_again_at = now + period;
                self.flips = 0;
            }
            self.flips += 1;
            self.is_lit = counts.is_lit();
            return Some(if self.is_lit { Item::Lit } else { Item::Dark });
        }
        if self.counts_due_at(counts).is_some_and(|at| at <= now) {
            self.counts_again_at = now + period;
            self.counts = counts;
            self.is_read_otherwise = false;
            return Some(Item::Counts);
        }
        None
    }

    /// When the next of it may be told; `None` when there is nothing new.
    pub fn due_at(&self, counts: Counts) -> Option<Instant> {
        let light = self.light_due_at(counts);
        light.into_iter().chain(self.counts_due_at(counts)).min()
    }

    fn light_due_at(&self, counts: Counts) -> Option<Instant> {
        let at_once = self.flips < FLIPS_PER_PERIOD;
        let at = if at_once { Instant::ZERO } else { self.flips_again_at };
        (counts.is_lit() != self.is_lit).then_some(at)
    }

    fn counts_due_at(&self, counts: Counts) -> Option<Instant> {
        (counts != self.counts || self.is_read_otherwise).then_some(self.counts_again_at)
    }
}
