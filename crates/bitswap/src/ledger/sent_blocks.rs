use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use watchfire_content::Cid;
use watchfire_types::Instant;

/// What was sent lately, and how often. Beyond its bound, the oldest is forgotten.
#[derive(Debug)]
pub(super) struct SentBlocks {
    blocks: BTreeMap<Cid, Times>,
    order: VecDeque<Cid>,
    /// Since when, and until when, blocks were sent that nobody had been sent before.
    fresh: Option<(Instant, Instant)>,
    outcomes: WantOutcomes,
}

/// What became of wants for what others had been sent.
#[derive(Clone, Copy, Debug, Default)]
struct WantOutcomes {
    /// Taken back while they waited: who wanted it had it of others.
    had_elsewhere: u32,
    /// It had to be sent again.
    sent_again: u32,
}

/// What others do with what they were sent, as far as that is seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Unknown,
    ServeOneAnother,
    DoNotServe,
}

#[derive(Debug)]
struct Times {
    count: u32,
    last: Instant,
}

const CIDS_MAX: usize = 16 * 1024;

/// Longest time that a block is left to those who were sent it.
const HELD_MAX: Duration = Duration::from_secs(3);

/// Longest time between two blocks that nobody was sent, at least, until it is over that there are such.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Blocks that were sent again before nothing is left to others any more.
const AGAIN_MIN: u32 = 32;

/// WantOutcomes of wants from which is learned whether others serve them. Beyond, those before count half.
const OUTCOMES_MAX: u32 = 256;

impl SentBlocks {
    pub(super) const fn new() -> Self {
        SentBlocks {
            blocks: BTreeMap::new(),
            order: VecDeque::new(),
            fresh: None,
            outcomes: WantOutcomes { had_elsewhere: 0, sent_again: 0 },
        }
    }

    pub(super) fn count(&self, cid: &Cid) -> u32 {
        self.blocks.get(cid).map_or(0, |times| times.count)
    }

    pub(super) fn add(&mut self, now: Instant, cid: &Cid) {
        if let Some(times) = self.blocks.get_mut(cid) {
            times.count = times.count.saturating_add(1);
            times.last = now;
            self.outcomes.sent_again += 1;
            self.outcomes.age();
            return;
        }
        let is_on = |(_, until): &(Instant, Instant)| now.since(*until) <= HELD_MAX;
        let from = self.fresh.filter(is_on).map_or(now, |(from, _)| from);
        self.fresh = Some((from, now));
        self.blocks.insert(cid.clone(), Times { count: 1, last: now });
        self.order.push_back(cid.clone());
        if self.order.len() > CIDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.blocks.remove(&oldest);
        }
    }

    /// Until when who has everything leaves a block to those who were sent it. While it still sends what nobody has,
    /// others are about to hear that they can have the rest from one another: the longer that takes, the later.
    /// Where they do, there is no hurry as long as it goes on.
    pub(super) fn held_back_until(&self, cid: &Cid) -> Option<Instant> {
        let times = self.blocks.get(cid)?;
        let (from, until) = self.fresh?;
        let fresh = until.since(from);
        let usual = times.last.min(until) + (fresh / 5).min(HELD_MAX);
        let goes_on = until + (fresh / 8).max(PAUSE_MAX.min(fresh));
        match self.outcomes.others() {
            Others::Unknown => Some(usual),
            Others::ServeOneAnother => Some(usual.max((times.last + HELD_MAX).min(goes_on))),
            Others::DoNotServe => None,
        }
    }

    /// A block that waited to be sent is not wanted any more.
    pub(super) fn taken_back(&mut self, cid: &Cid) {
        if self.blocks.contains_key(cid) {
            self.outcomes.had_elsewhere += 1;
            self.outcomes.age();
        }
    }
}

impl WantOutcomes {
    const fn others(self) -> Others {
        if self.had_elsewhere > self.sent_again / 8 {
            Others::ServeOneAnother
        } else if self.sent_again < AGAIN_MIN {
            Others::Unknown
        } else {
            Others::DoNotServe
        }
    }

    const fn age(&mut self) {
        if self.had_elsewhere + self.sent_again > OUTCOMES_MAX {
            self.had_elsewhere /= 2;
            self.sent_again /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_do_shows_in_what_became_of_earlier_wants() {
        let mut outcomes = WantOutcomes::default();
        assert_eq!(outcomes.others(), Others::Unknown);
        outcomes.sent_again = AGAIN_MIN;
        assert_eq!(outcomes.others(), Others::DoNotServe);
        outcomes.had_elsewhere = AGAIN_MIN / 8 + 1;
        assert_eq!(outcomes.others(), Others::ServeOneAnother);
        // What was long ago counts less.
        for _ in 0..4 * OUTCOMES_MAX {
            outcomes.sent_again += 1;
            outcomes.age();
        }
        assert_eq!(outcomes.others(), Others::DoNotServe);
    }
}
