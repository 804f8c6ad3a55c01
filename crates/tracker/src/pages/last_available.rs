use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use watchfire_types::Instant;

/// Pages that are remembered. At the limit, the page that became unavailable first is forgotten.
const PAGES_MAX: usize = 100_000;

/// Remembers for a while when each page became unavailable.
///
/// It is all that the server stores about a page that no peer has open.
#[derive(Debug)]
pub struct LastAvailable {
    kept_for: Duration,
    unavailable_since: BTreeMap<Arc<str>, Instant>,
    /// The same in order of time. An entry that differs from `unavailable_since` is outdated.
    order: VecDeque<(Instant, Arc<str>)>,
}

impl LastAvailable {
    /// Remembers each page for `kept_for`; zero turns it off.
    pub fn new(kept_for: Duration) -> Self {
        LastAvailable { kept_for, unavailable_since: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Whether pages are remembered at all.
    pub fn is_on(&self) -> bool {
        !self.kept_for.is_zero()
    }

    /// Records that a page became unavailable.
    pub fn note(&mut self, now: Instant, page: &str) {
        if !self.is_on() {
            return;
        }
        let page: Arc<str> = page.into();
        self.unavailable_since.insert(page.clone(), now);
        self.order.push_back((now, page));
        while let Some((at, page)) = self.order.front()
            && (self.order.len() > PAGES_MAX || now.since(*at) > self.kept_for)
        {
            if self.unavailable_since.get(page) == Some(at) {
                self.unavailable_since.remove(page);
            }
            self.order.pop_front();
        }
    }

    /// How long ago a page was available; `None` when that is unknown or longer ago than `kept_for`.
    pub fn ago(&self, now: Instant, page: &str) -> Option<Duration> {
        let ago = now.since(*self.unavailable_since.get(page)?);
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
        let mut last_available = LastAvailable::new(HOUR);
        last_available.note(at(10), "bafy");
        assert_eq!(last_available.ago(at(70), "bafy"), Some(Duration::from_secs(60)));
        assert_eq!(last_available.ago(at(70), "bafk"), None);
        assert_eq!(last_available.ago(at(10) + HOUR + HOUR, "bafy"), None);
        last_available.note(at(100), "bafy");
        assert_eq!(last_available.ago(at(160), "bafy"), Some(Duration::from_secs(60)));
    }

    #[test]
    fn no_page_is_remembered_when_it_is_turned_off() {
        let mut last_available = LastAvailable::new(Duration::ZERO);
        last_available.note(at(10), "bafy");
        assert_eq!(last_available.ago(at(10), "bafy"), None);
        assert!(last_available.order.is_empty());
    }

    #[test]
    fn at_most_pages_max_pages_are_remembered() {
        let mut last_available = LastAvailable::new(HOUR);
        for n in 0..PAGES_MAX + 10 {
            last_available.note(at(1), &n.to_string());
        }
        assert_eq!(
            (last_available.order.len(), last_available.unavailable_since.len()),
            (PAGES_MAX, PAGES_MAX)
        );
        assert_eq!(last_available.ago(at(1), "9"), None);
        assert!(last_available.ago(at(1), "10").is_some());
        // The same page many times is one page.
        for second in 0..3 * PAGES_MAX as u64 {
            last_available.note(at(1) + Duration::from_millis(second), "again");
        }
        assert!(last_available.order.len() <= PAGES_MAX);
    }
}
