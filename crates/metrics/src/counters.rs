//! Counts that any thread may change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use watchfire_sockets::HistogramTotals;

/// A count that only goes up.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters that differ by their labels. The values of labels come from closed sets.
#[derive(Debug)]
pub struct CountersBy<const N: usize> {
    names: [&'static str; N],
    counters: RwLock<BTreeMap<[&'static str; N], Counter>>,
}

impl<const N: usize> CountersBy<N> {
    /// Counters with labels of these names.
    pub fn new(names: [&'static str; N]) -> Self {
        CountersBy { names, counters: RwLock::default() }
    }

    /// Counts one of these labels.
    pub fn inc(&self, labels: [&'static str; N]) {
        if let Some(counter) = self.counters.read().get(&labels) {
            return counter.inc();
        }
        self.counters.write().entry(labels).or_default().inc();
    }

    /// The names and values of the labels, and the count, of each counter that was changed.
    pub fn counts(&self) -> Vec<([(&'static str, &'static str); N], u64)> {
        let counters = self.counters.read();
        let counts = counters.iter().map(|(labels, counter)| {
            (std::array::from_fn(|at| (self.names[at], labels[at])), counter.get())
        });
        counts.collect()
    }
}

/// Bounds of the histograms of times, in nanoseconds: from 0.1 ms to 10 s.
pub const TIMES: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];

/// A histogram of times, in nanoseconds. A thread that counts waits for no other, because the event loops count each message that they
/// forward.
#[derive(Debug, Default)]
pub struct Times {
    counts: [Counter; TIMES.len() + 1],
    sum: Counter,
}

impl Times {
    /// Counts a time.
    pub fn observe(&self, time: Duration) {
        let nanos = nanos(time);
        self.counts[bucket(TIMES, nanos)].inc();
        self.sum.add(nanos);
    }

    pub(crate) fn totals(&self) -> HistogramTotals {
        let counts = self.counts.iter().map(Counter::get).collect();
        HistogramTotals { bounds: TIMES, counts, sum: self.sum.get() }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The first bucket whose bound is not below the value.
fn bucket(bounds: &[u64], nanos: u64) -> usize {
    bounds.partition_point(|bound| *bound < nanos)
}

/// Histograms of times that differ by one label. Its values come from a closed set.
#[derive(Debug)]
pub struct TimesBy {
    name: &'static str,
    /// In nanoseconds.
    bounds: &'static [u64],
    times: Mutex<BTreeMap<&'static str, HistogramTotals>>,
}

impl TimesBy {
    /// Histograms with a label of this name, and these bounds in nanoseconds.
    pub fn new(name: &'static str, bounds: &'static [u64]) -> Self {
        TimesBy { name, bounds, times: Mutex::default() }
    }

    /// Counts a time.
    pub fn observe(&self, label: &'static str, time: Duration) {
        let mut times = self.times.lock();
        let totals = times
            .entry(label)
            .or_insert_with(|| HistogramTotals::of(self.bounds, std::iter::empty()));
        let nanos = nanos(time);
        totals.counts[bucket(self.bounds, nanos)] += 1;
        totals.sum = totals.sum.saturating_add(nanos);
    }

    /// The name and value of the label, and the values, of each histogram that has some.
    pub(crate) fn totals(&self) -> Vec<([(&'static str, &'static str); 1], HistogramTotals)> {
        let times = self.times.lock();
        times.iter().map(|(label, totals)| ([(self.name, *label)], totals.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn times_of_several_threads_are_all_counted_in_their_buckets() {
        let times = Times::default();
        thread::scope(|scope| {
            for micros in [100, 101, 20_000_000, 0] {
                let times = &times;
                scope.spawn(move || {
                    (0..1_000).for_each(|_| times.observe(Duration::from_micros(micros)));
                });
            }
        });
        let HistogramTotals { bounds, counts, sum } = times.totals();
        assert_eq!((bounds, counts.iter().sum()), (TIMES, 4_000_u64));
        assert_eq!((counts[0], counts[1], counts[TIMES.len()]), (2_000, 1_000, 1_000));
        assert_eq!(sum, (100 + 101 + 20_000_000) * 1_000 * 1_000);
    }
}
