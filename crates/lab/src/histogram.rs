//! How long things took: a recorder while they happen, and a list of buckets to send and to keep.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Within one in a hundred; 36 KiB each.
const SIGNIFICANT_DIGITS: u8 = 2;
/// Shorter than anything a network does.
const NANOS_MIN: u64 = 1_000;
/// Longer times are recorded as one hour.
const NANOS_MAX: u64 = 3_600_000_000_000;

/// Counts durations as they are measured.
pub(crate) struct Recorder(hdrhistogram::Histogram<u32>);

impl Recorder {
    pub(crate) fn new() -> Recorder {
        let histogram =
            hdrhistogram::Histogram::new_with_bounds(NANOS_MIN, NANOS_MAX, SIGNIFICANT_DIGITS);
        Recorder(histogram.expect("the bounds are in order"))
    }

    pub(crate) fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos);
    }

    /// What was counted since the last call.
    pub(crate) fn take(&mut self) -> Buckets {
        if self.0.is_empty() {
            return Buckets::default();
        }
        let counted = self.0.iter_recorded();
        let buckets = counted.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()));
        let buckets = Buckets(buckets.map(|(nanos, count)| (nanos, u64::from(count))).collect());
        self.0.reset();
        buckets
    }
}

/// Durations by bucket: the longest of each in nanoseconds, and how many. Empty ones are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Buckets(BTreeMap<u64, u64>);

impl From<Vec<(u64, u64)>> for Buckets {
    fn from(pairs: Vec<(u64, u64)>) -> Buckets {
        Buckets(pairs.into_iter().collect())
    }
}

impl From<Buckets> for Vec<(u64, u64)> {
    fn from(buckets: Buckets) -> Self {
        buckets.0.into_iter().collect()
    }
}

impl Buckets {
    /// Add one duration, where a recorder would be too large.
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(NANOS_MAX);
        let nanos = nanos.clamp(NANOS_MIN, NANOS_MAX);
        // The upper seven bits tell it within two in a hundred; the bucket is named by its end.
        let dropped = (u64::BITS - nanos.leading_zeros()).saturating_sub(7);
        *self.0.entry(nanos | ((1 << dropped) - 1)).or_default() += 1;
    }

    /// Add what another recorder counted.
    pub fn merge(&mut self, other: &Buckets) {
        for (nanos, count) in &other.0 {
            *self.0.entry(*nanos).or_default() += count;
        }
    }

    /// How many durations were measured.
    pub fn len(&self) -> u64 {
        self.0.values().sum()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The duration that a share of all, such as 0.99, did not exceed; zero when there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = ((self.len() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (nanos, count) in &self.0 {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(*nanos);
            }
        }
        Duration::ZERO
    }

    /// The mean; zero when there are none.
    pub fn mean(&self) -> Duration {
        let sum: f64 = self.0.iter().map(|(nanos, count)| *nanos as f64 * *count as f64).sum();
        Duration::from_nanos((sum / self.len().max(1) as f64) as u64)
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.last_key_value().map_or(0, |(nanos, _)| *nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_true_within_one_in_a_hundred() {
        let mut recorder = Recorder::new();
        for micros in 1..=10_000 {
            recorder.record(Duration::from_micros(micros));
        }
        let buckets = recorder.take();
        assert_eq!(buckets.len(), 10_000);
        for (share, truth) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let told = buckets.quantile(share).as_secs_f64() * 1e6;
            assert!((told / truth - 1.0).abs() < 0.01, "{share}: {told} of {truth}");
        }
        let mean = buckets.mean().as_secs_f64() * 1e6;
        assert!((mean / 5000.5 - 1.0).abs() < 0.01, "{mean}");
        assert!(recorder.take().is_empty());
    }

    #[test]
    fn a_few_durations_are_as_true_without_a_recorder() {
        let mut buckets = Buckets::default();
        for micros in 1..=10_000 {
            buckets.record(Duration::from_micros(micros));
        }
        for (share, truth) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let told = buckets.quantile(share).as_secs_f64() * 1e6;
            assert!((0.999..1.016).contains(&(told / truth)), "{share}: {told} of {truth}");
        }
        assert!(Vec::from(buckets).len() < 1000);
    }

    #[test]
    fn merged_buckets_are_as_if_one_had_counted_all() {
        let record = |range: std::ops::Range<u64>| {
            let mut recorder = Recorder::new();
            range.for_each(|millis| recorder.record(Duration::from_millis(millis)));
            recorder.take()
        };
        let mut merged = record(0..700);
        merged.merge(&record(700..1000));
        assert_eq!(merged, record(0..1000));
        let sent = serde_json::to_string(&merged).unwrap();
        assert_eq!(serde_json::from_str::<Buckets>(&sent).unwrap(), merged);
    }

    #[test]
    fn nothing_measured_and_measured_for_ever_are_both_told() {
        assert_eq!(Buckets::default().quantile(0.99), Duration::ZERO);
        assert_eq!(Buckets::default().mean(), Duration::ZERO);
        let mut recorder = Recorder::new();
        recorder.record(Duration::MAX);
        let max = recorder.take().max().as_secs_f64();
        assert!((3599.0..3650.0).contains(&max), "{max}");
    }
}
