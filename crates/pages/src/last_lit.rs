use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use vocab::Instant;

/// Pages that are remembered. Over it: the one that went dark the longest ago is forgotten.
const PAGES_MAX: usize = 100_000;

/// When pages went dark, for a while: all that is known of a page that nobody has open.
#[derive(Debug)]
pub struct LastLit {
    kept_for: Duration,
    went_dark_at: BTreeMap<Arc<str>, Instant>,
    /// The same in order; what has changed since is passed over.
    order: VecDeque<(Instant, Arc<str>)>,
}

impl LastLit {
    /// Remembers pages for so long; with zero, not at all.
    pub fn new(kept_for: Duration) -> Self {
        LastLit { kept_for, went_dark_at: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Whether anything is remembered.
    pub fn is_on(&self) -> bool {
        !self.kept_for.is_zero()
    }

    /// A page has gone dark.
    pub fn note(&mut self, now: Instant, page: &str) {
        if !self.is_on() {
            return;
        }
        let page: Arc<str> = page.into();
        self.went_dark_at.insert(page.clone(), now);
        self.order.push_back((now, page));
        while let Some((at, page)) = self.order.front()
            && (self.order.len() > PAGES_MAX || now.since(*at) > self.kept_for)
        {
            if self.went_dark_at.get(page) == Some(at) {
                self.went_dark_at.remove(page);
            }
            self.order.pop_front();
        }
    }

    /// How long ago a page was lit, unless that was too long ago.
    pub fn ago(&self, now: Instant, page: &str) -> Option<Duration> {
        let ago = now.since(*self.went_dark_at.get(page)?);
        (ago <= self.kept_for).then_some(ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_page_is_remembered_for_a_while() {
        let mut last_lit = LastLit::new(HOUR);
        last_lit.note(at(10), "bafy");
        assert_eq!(last_lit.ago(at(70), "bafy"), Some(Duration::from_secs(60)));
        assert_eq!(last_lit.ago(at(70), "bafk"), None);
        assert_eq!(last_lit.ago(at(10) + HOUR + HOUR, "bafy"), None);
        last_lit.note(at(100), "bafy");
        assert_eq!(last_lit.ago(at(160), "bafy"), Some(Duration::from_secs(60)));
    }

    #[test]
    fn nothing_is_remembered_unless_it_is_asked_for() {
        let mut last_lit = LastLit::new(Duration::ZERO);
        last_lit.note(at(10), "bafy");
        assert_eq!(last_lit.ago(at(10), "bafy"), None);
        assert!(last_lit.order.is_empty());
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut last_lit = LastLit::new(HOUR);
        for n in 0..PAGES_MAX + 10 {
            last_lit.note(at(1), &n.to_string());
        }
        assert_eq!((last_lit.order.len(), last_lit.went_dark_at.len()), (PAGES_MAX, PAGES_MAX));
        assert_eq!(last_lit.ago(at(1), "9"), None);
        assert!(last_lit.ago(at(1), "10").is_some());
        // The same page over and over.
        for second in 0..3 * PAGES_MAX as u64 {
            last_lit.note(at(1) + Duration::from_millis(second), "again");
        }
        assert!(last_lit.order.len() <= PAGES_MAX);
    }
}
