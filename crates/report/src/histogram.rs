//! Histograms of durations.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram as HdrHistogram;
use serde::{Deserialize, Serialize};

/// A quantile has an error of at most 1 %.
const SIGNIFICANT_DIGITS: u8 = 2;
/// Shorter durations are recorded as one microsecond.
const NANOS_MIN: u64 = 1_000;
/// Longer durations are recorded as one hour.
const NANOS_MAX: u64 = 3_600_000_000_000;

/// A histogram of durations, with an error of at most 1 %.
///
/// It needs 1 KiB for each octave between the shortest and the longest duration: 15 KiB up to a
/// second. Store many of them as [`Snapshot`].
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(HdrHistogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty histogram; it grows with the longest duration.
    pub fn new() -> Self {
        let bounds = (NANOS_MIN, 2 * NANOS_MIN, SIGNIFICANT_DIGITS);
        let mut histogram = HdrHistogram::new_with_bounds(bounds.0, bounds.1, bounds.2)
            .expect("the bounds are in order");
        histogram.auto(true);
        Histogram(histogram)
    }

    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(NANOS_MAX);
        self.record_many(nanos, 1);
    }

    fn record_many(&mut self, nanos: u64, count: u64) {
        let nanos = nanos.clamp(NANOS_MIN, NANOS_MAX);
        self.0.record_n(nanos, count).expect("the histogram grows as far as an hour");
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Snapshot) {
        for (nanos, count) in &other.0 {
            self.record_many(*nanos, *count);
        }
    }

    pub fn len(&self) -> u64 {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The duration that a share of all, such as 0.99, did not exceed; zero if the histogram is
    /// empty.
    pub fn quantile(&self, share: f64) -> Duration {
        if self.is_empty() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// The mean; zero if the histogram is empty.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    /// The longest duration; zero if the histogram is empty.
    pub fn max(&self) -> Duration {
        self.quantile(1.0)
    }

    /// Each recorded duration, with the share of all that was at most as long.
    pub fn cumulative(&self) -> Vec<(Duration, f64)> {
        let all = self.len().max(1) as f64;
        let mut seen = 0;
        let counted = self.0.iter_recorded().map(|bucket| {
            seen += bucket.count_since_last_iteration();
            (Duration::from_nanos(bucket.value_iterated_to()), seen as f64 / all)
        });
        counted.collect()
    }

    /// The counts so far, for storing or sending.
    pub fn snapshot(&self) -> Snapshot {
        let counted = self.0.iter_recorded();
        Snapshot(counted.map(|one| (one.value_iterated_to(), one.count_at_value())).collect())
    }

    /// The counts since the last call.
    pub fn take(&mut self) -> Snapshot {
        let snapshot = self.snapshot();
        self.0.reset();
        snapshot
    }
}

/// The nonzero counts of a histogram, for storing or sending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Snapshot(BTreeMap<u64, u64>);

impl From<Vec<(u64, u64)>> for Snapshot {
    fn from(pairs: Vec<(u64, u64)>) -> Self {
        Snapshot(pairs.into_iter().collect())
    }
}

impl From<Snapshot> for Vec<(u64, u64)> {
    fn from(snapshot: Snapshot) -> Self {
        snapshot.0.into_iter().collect()
    }
}

impl From<&Snapshot> for Histogram {
    fn from(snapshot: &Snapshot) -> Self {
        let mut histogram = Histogram::new();
        histogram.merge(snapshot);
        histogram
    }
}

impl Snapshot {
    /// Adds the counts of another snapshot.
    pub fn merge(&mut self, other: &Snapshot) {
        for (nanos, count) in &other.0 {
            *self.0.entry(*nanos).or_default() += count;
        }
    }

    pub fn len(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(millis: std::ops::Range<u64>) -> Histogram {
        let mut histogram = Histogram::new();
        millis.for_each(|millis| histogram.record(Duration::from_millis(millis)));
        histogram
    }

    #[test]
    fn quantiles_have_an_error_of_at_most_1_percent() {
        let mut histogram = Histogram::new();
        for micros in 1..=10_000 {
            histogram.record(Duration::from_micros(micros));
        }
        assert_eq!(histogram.len(), 10_000);
        for (share, truth) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let micros = histogram.quantile(share).as_secs_f64() * 1e6;
            assert!((micros / truth - 1.0).abs() < 0.01, "{share}: {micros} of {truth}");
        }
        let mean = histogram.mean().as_secs_f64() * 1e6;
        assert!((mean / 5000.5 - 1.0).abs() < 0.01, "{mean}");
        assert_eq!(histogram.cumulative().last().unwrap().1, 1.0);
    }

    #[test]
    fn merged_snapshots_equal_one_histogram_of_all_durations() {
        let mut merged = counted(0..700).take();
        merged.merge(&counted(700..1000).take());
        let text = serde_json::to_string(&merged).unwrap();
        let sent: Snapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(sent, counted(0..1000).snapshot());
        assert_eq!(Histogram::from(&sent).quantile(0.5), counted(0..1000).quantile(0.5));
    }

    #[test]
    fn a_taken_histogram_is_empty() {
        let mut histogram = counted(0..10);
        assert_eq!(histogram.take().len(), 10);
        assert!(histogram.is_empty() && histogram.take().is_empty());
        assert_eq!((histogram.quantile(0.99), histogram.mean()), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn more_than_an_hour_is_recorded_as_an_hour() {
        let mut histogram = Histogram::new();
        histogram.record(Duration::MAX);
        assert!((3599.0..3650.0).contains(&histogram.max().as_secs_f64()));
    }
}
