//! How much the uplinks carry, over time.

use std::time::Duration;

use super::outcome::UplinkUse;

/// Stretches of time that are told apart; beyond, two become one.
const UPLINK_USES_MAX: usize = 400;

/// What left over all uplinks so far.
#[derive(Debug)]
pub(super) struct UplinkUseLog {
    uplink_use: Vec<UplinkUse>,
    every: Duration,
    /// Bytes that seeders and others have sent until the last of them.
    before: (u64, u64),
}

impl UplinkUseLog {
    pub(super) const fn new(every: Duration) -> Self {
        UplinkUseLog { uplink_use: Vec::new(), every, before: (0, 0) }
    }

    fn last(&self) -> Duration {
        self.uplink_use.last().map_or(Duration::ZERO, |one| one.until)
    }

    /// When to look next.
    pub(super) fn due_at(&self) -> Duration {
        self.last() + self.every
    }

    /// What seeders and others have sent by now, and what they could send in a second.
    pub(super) fn look(&mut self, now: Duration, sent: (u64, u64), rates: (u64, u64)) {
        let took = now.saturating_sub(self.last()).as_secs_f64();
        if took <= 0.0 {
            return;
        }
        let max = |rate: u64| (rate as f64 * took) as u64;
        self.uplink_use.push(UplinkUse {
            until: now,
            seeder_bytes: sent.0 - self.before.0,
            other_bytes: sent.1 - self.before.1,
            seeder_bytes_max: max(rates.0),
            other_bytes_max: max(rates.1),
        });
        self.before = sent;
        if self.uplink_use.len() >= UPLINK_USES_MAX {
            let pairs = self.uplink_use.chunks(2);
            self.uplink_use = pairs
                .map(|pair| pair[1..].iter().fold(pair[0], |one, next| one.and(*next)))
                .collect();
            self.every *= 2;
        }
    }

    pub(super) fn into_all(self) -> Vec<UplinkUse> {
        self.uplink_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_told_more_coarsely_and_nothing_is_lost() {
        let mut uplink_use = UplinkUseLog::new(Duration::from_millis(10));
        for look in 1..=1000 {
            let at = uplink_use.due_at();
            uplink_use.look(at, (look * 3, look * 5), (300, 500));
        }
        let all = uplink_use.into_all();
        assert!(all.len() < UPLINK_USES_MAX && all.is_sorted_by_key(|one| one.until));
        let sums = all.iter().copied().reduce(UplinkUse::and).expect("there are some");
        assert_eq!((sums.seeder_bytes, sums.other_bytes), (3000, 5000));
        assert!(sums.other_bytes_max > sums.seeder_bytes_max);
    }
}
