use std::time::Duration;

use watchfire_types::Instant;

use crate::pages::output::Counts;

/// Maximum availability events of a page in one period: one of each kind.
const AVAILABILITY_CHANGES_PER_PERIOD: u8 = 2;

/// The last events sent to a page's peers, and the time at which the next may be sent.
///
/// Every event is sent to all peers of the page. The limit prevents a peer that changes its state
/// constantly from causing an event for each change.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    counts: Counts,
    /// Whether a join reply contained other counts since `counts` were sent to all peers.
    has_reply_differed: bool,
    next_counts_at: Instant,
    is_available: bool,
    availability_changes: u8,
    availability_period_ends_at: Instant,
}

/// The next event to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Counts,
    Available,
    Unavailable,
}

impl PendingEvents {
    /// The page's only peer has received these counts in its join reply.
    pub fn note_counts_known(&mut self, counts: Counts) {
        self.counts = counts;
    }

    /// One of several peers has received these counts in its join reply. Counts are sent again,
    /// even if they change back to those that the other peers know.
    pub fn note_counts_in_reply(&mut self, counts: Counts) {
        self.has_reply_differed |= counts != self.counts;
    }

    /// Whether the page is available, according to the last event sent.
    pub fn is_available(&self) -> bool {
        self.is_available
    }

    /// The next event to send now, if any. It then counts as sent.
    pub fn take(&mut self, now: Instant, counts: Counts, period: Duration) -> Option<Due> {
        let due_at = self.availability_due_at(counts);
        if due_at.is_some_and(|at| at <= now) {
            if self.availability_period_ends_at <= now {
                self.availability_period_ends_at = now + period;
                self.availability_changes = 0;
            }
            self.availability_changes += 1;
            self.is_available = counts.is_available();
            return Some(if self.is_available { Due::Available } else { Due::Unavailable });
        }
        if self.counts_due_at(counts).is_some_and(|at| at <= now) {
            self.next_counts_at = now + period;
            self.counts = counts;
            self.has_reply_differed = false;
            return Some(Due::Counts);
        }
        None
    }

    /// When the next event may be sent; `None` when nothing has changed.
    pub fn due_at(&self, counts: Counts) -> Option<Instant> {
        let availability = self.availability_due_at(counts);
        availability.into_iter().chain(self.counts_due_at(counts)).min()
    }

    fn availability_due_at(&self, counts: Counts) -> Option<Instant> {
        let at_once = self.availability_changes < AVAILABILITY_CHANGES_PER_PERIOD;
        let at = if at_once { Instant::ZERO } else { self.availability_period_ends_at };
        (counts.is_available() != self.is_available).then_some(at)
    }

    fn counts_due_at(&self, counts: Counts) -> Option<Instant> {
        (counts != self.counts || self.has_reply_differed).then_some(self.next_counts_at)
    }
}
