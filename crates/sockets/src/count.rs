//! Counts and histograms that one shard's thread writes, and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter, or a gauge.
///
/// Any thread may read it. Only its shard's thread writes it, so a plain store is enough. A locked
/// addition would cost as much as twenty other instructions.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    pub fn sub(&self, n: u64) {
        self.0.store(self.get().wrapping_sub(n), Ordering::Relaxed);
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds 1 from any thread, and returns the value before. A count that uses this must not use `add` or `sub`.
    pub(crate) fn add_one_from_anywhere(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of values by fixed upper bounds. Any thread may read it; only one thread writes it.
#[derive(Debug)]
pub struct Histogram {
    /// In rising order, in the unit of the values.
    bounds: &'static [u64],
    /// One for each bound, and one for larger values.
    counts: Box<[Count]>,
    sum: Count,
}

impl Histogram {
    pub fn new(bounds: &'static [u64]) -> Self {
        debug_assert!(bounds.is_sorted(), "the bounds of a histogram rise");
        Histogram {
            bounds,
            counts: (0..=bounds.len()).map(|_| Count::default()).collect(),
            sum: Count::default(),
        }
    }

    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].add(1);
        self.sum.add(value);
    }
}

/// The sum of the histograms of several shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramTotals {
    /// In rising order, in the unit of the values.
    pub bounds: &'static [u64],
    /// The values of each bucket, without the values of smaller buckets: one count for each bound, and
    /// one for larger values.
    pub counts: Vec<u64>,
    pub sum: u64,
}

impl HistogramTotals {
    /// Adds up histograms with these bounds.
    pub fn of<'a>(
        bounds: &'static [u64],
        histograms: impl IntoIterator<Item = &'a Histogram>,
    ) -> Self {
        let mut totals = HistogramTotals { bounds, counts: vec![0; bounds.len() + 1], sum: 0 };
        for histogram in histograms {
            for (total, count) in totals.counts.iter_mut().zip(&histogram.counts) {
                *total += count.get();
            }
            totals.sum = totals.sum.wrapping_add(histogram.sum.get());
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_a_bound_is_in_its_bucket_and_a_larger_one_in_the_last() {
        let (first, second) = (Histogram::new(&[10, 20]), Histogram::new(&[10, 20]));
        for value in [0, 10, 11] {
            first.observe(value);
        }
        second.observe(20);
        second.observe(21);
        let totals = HistogramTotals::of(&[10, 20], [&first, &second]);
        assert_eq!((totals.counts, totals.sum), (vec![2, 2, 1], 62));
    }
}
