//! The use of all uplinks over time.

use std::time::Duration;

use super::outcome::UplinkUse;

/// Most intervals. When there are more, each two become one.
const INTERVALS_MAX: usize = 400;

/// The bytes that were sent over all uplinks so far, by interval.
#[derive(Debug)]
pub(super) struct UplinkUseLog {
    intervals: Vec<UplinkUse>,
    interval: Duration,
    /// Bytes that seeders and other peers had sent at the end of the last interval.
    sent_before: (u64, u64),
}

impl UplinkUseLog {
    pub(super) const fn new(interval: Duration) -> Self {
        UplinkUseLog { intervals: Vec::new(), interval, sent_before: (0, 0) }
    }

    fn last_end(&self) -> Duration {
        self.intervals.last().map_or(Duration::ZERO, |one| one.until)
    }

    /// When to call [`record`](Self::record) next.
    pub(super) fn due_at(&self) -> Duration {
        self.last_end() + self.interval
    }

    /// Adds an interval. `sent` and `rates` are of seeders and of other peers: all bytes until now,
    /// and bytes per second.
    pub(super) fn record(&mut self, now: Duration, sent: (u64, u64), rates: (u64, u64)) {
        let took = now.saturating_sub(self.last_end()).as_secs_f64();
        if took <= 0.0 {
            return;
        }
        let max = |rate: u64| (rate as f64 * took) as u64;
        self.intervals.push(UplinkUse {
            until: now,
            seeder_bytes: sent.0 - self.sent_before.0,
            other_bytes: sent.1 - self.sent_before.1,
            seeder_bytes_max: max(rates.0),
            other_bytes_max: max(rates.1),
        });
        self.sent_before = sent;
        if self.intervals.len() >= INTERVALS_MAX {
            let pairs = self.intervals.chunks(2);
            self.intervals = pairs
                .map(|pair| pair[1..].iter().fold(pair[0], |one, next| one.merge(*next)))
                .collect();
            self.interval *= 2;
        }
    }

    pub(super) fn into_intervals(self) -> Vec<UplinkUse> {
        self.intervals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_becomes_coarser_and_loses_no_bytes() {
        let mut log = UplinkUseLog::new(Duration::from_millis(10));
        for step in 1..=1000 {
            let at = log.due_at();
            log.record(at, (step * 3, step * 5), (300, 500));
        }
        let all = log.into_intervals();
        assert!(all.len() < INTERVALS_MAX && all.is_sorted_by_key(|one| one.until));
        let sums = all.iter().copied().reduce(UplinkUse::merge).expect("there are some");
        assert_eq!((sums.seeder_bytes, sums.other_bytes), (3000, 5000));
        assert!(sums.other_bytes_max > sums.seeder_bytes_max);
    }
}
