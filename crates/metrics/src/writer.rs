//! The counts that parts of the server keep for themselves, written into a snapshot.

use watchfire_sockets::HistogramTotals;

use crate::counters::{CountersBy, Times, TimesBy};
use crate::queue::Queue;
use crate::snapshot::{Buckets, Family, Kind, Labels, Merge, Snapshot, Value};

/// The divisor of histograms of times, which count nanoseconds.
pub const NANOS_PER_SECOND: f64 = 1e9;

/// A part of the server with counts of its own.
pub trait MetricSource: Send + Sync {
    /// Writes the current counts. Called for each request of `/metrics`, and once a second while the server
    /// records.
    fn write_metrics(&self, writer: &mut MetricWriter);
}

/// Writes counts into a snapshot. Names get the prefix `watchfire_`.
#[derive(Default)]
pub struct MetricWriter {
    snapshot: Snapshot,
}

impl MetricWriter {
    /// The metrics that were written.
    pub fn into_snapshot(self) -> Snapshot {
        self.snapshot
    }

    /// Writes a value that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, help, Kind::Gauge, Merge::Sum, [(Labels::new(), Value::Count(value))]);
    }

    /// Writes a gauge of which the largest value of all processes counts, and not their sum.
    pub fn largest(&mut self, name: &str, help: &str, value: u64) {
        let series = [(Labels::new(), Value::Count(value))];
        self.family(name, help, Kind::Gauge, Merge::Largest, series);
    }

    /// Writes a value that only goes up. The name gets the suffix `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, help, Kind::Counter, Merge::Sum, [(Labels::new(), Value::Count(value))]);
    }

    /// Writes gauges with one label.
    pub fn gauges(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        self.family(name, help, Kind::Gauge, Merge::Sum, with_label(label, values));
    }

    /// Writes counters with one label. The name gets the suffix `_total`.
    pub fn counters_by(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        self.family(name, help, Kind::Counter, Merge::Sum, with_label(label, values));
    }

    /// Writes counters with labels. The name gets the suffix `_total`.
    pub fn counters<const N: usize>(&mut self, name: &str, help: &str, counters: &CountersBy<N>) {
        let counts = counters.counts().into_iter();
        let series = counts.map(|(labels, count)| (owned(&labels), Value::Count(count)));
        self.family(name, help, Kind::Counter, Merge::Sum, series);
    }

    /// Writes counters of seconds with labels. The name gets the suffix `_total`.
    pub fn seconds_by(&mut self, name: &str, help: &str, values: Vec<(Labels, f64)>) {
        let series = values.into_iter().map(|(labels, seconds)| (labels, Value::Number(seconds)));
        self.family(name, help, Kind::Counter, Merge::Sum, series);
    }

    /// Writes a histogram whose bounds and sum are divided by `divisor`.
    pub fn histogram(&mut self, name: &str, help: &str, totals: &HistogramTotals, divisor: f64) {
        let series = [(Labels::new(), buckets(totals, divisor))];
        self.family(name, help, Kind::Histogram, Merge::Sum, series);
    }

    /// Writes a histogram of times.
    pub fn times(&mut self, name: &str, help: &str, times: &Times) {
        self.histogram(name, help, &times.totals(), NANOS_PER_SECOND);
    }

    /// Writes histograms of times with a label.
    pub fn times_by(&mut self, name: &str, help: &str, times: &TimesBy) {
        let totals = times.totals().into_iter();
        let series =
            totals.map(|(labels, totals)| (owned(&labels), buckets(&totals, NANOS_PER_SECOND)));
        self.family(name, help, Kind::Histogram, Merge::Sum, series);
    }

    /// Writes the state of queues. Several parts may do so.
    pub fn queues(&mut self, queues: &[Queue]) {
        let label = |queue: &Queue| owned(&[("queue", &queue.name)]);
        let counts = |count: fn(&Queue) -> u64| {
            let count = move |queue: &Queue| (label(queue), Value::Count(count(queue)));
            queues.iter().map(count).collect::<Vec<_>>()
        };
        let (messages, drops) = (counts(|queue| queue.messages), counts(|queue| queue.drops));
        let help = "Messages in the queues of the server itself";
        self.family("queue_messages", help, Kind::Gauge, Merge::Sum, messages);
        let help = "Age of the oldest message in a queue";
        let oldest = |queue: &Queue| {
            let seconds = queue.oldest.unwrap_or_default().as_secs_f64();
            (label(queue), Value::Number(seconds))
        };
        let oldest = queues.iter().map(oldest);
        self.family("queue_oldest_seconds", help, Kind::Gauge, Merge::Largest, oldest);
        let help = "Messages that a full queue dropped";
        self.family("queue_drops", help, Kind::Counter, Merge::Sum, drops);
    }

    /// Adds memory of a kind. Several parts may add to the same kind.
    pub fn memory(&mut self, kind: &str, bytes: usize) {
        let help = "Memory by its kind, as the server counts it";
        let series = [(owned(&[("kind", kind)]), Value::Count(bytes as u64))];
        self.family("memory_bytes", help, Kind::Gauge, Merge::Sum, series);
    }

    /// Writes 1 with labels that describe something, for each of several things.
    pub fn info<const N: usize>(&mut self, name: &str, help: &str, all: &[[(&str, &str); N]]) {
        let series = all.iter().map(|labels| (owned(labels), Value::Count(1)));
        self.family(name, help, Kind::Gauge, Merge::Largest, series);
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: Kind,
        merge: Merge,
        series: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        let name = format!("watchfire_{name}");
        let (help, series) = (help.to_owned(), series.into_iter().collect());
        let family = Family { name, help, kind, merge, series };
        self.snapshot.merge(Snapshot { families: vec![family] });
    }
}

fn owned(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn with_label(label: &str, values: &[(&str, u64)]) -> Vec<(Labels, Value)> {
    values
        .iter()
        .map(|(of_label, value)| (owned(&[(label, of_label)]), Value::Count(*value)))
        .collect()
}

fn buckets(totals: &HistogramTotals, divisor: f64) -> Value {
    let bounds = totals.bounds.iter().map(|bound| *bound as f64 / divisor).chain([f64::INFINITY]);
    let counts = bounds.zip(totals.counts.iter().copied()).collect();
    Value::Histogram(Buckets { counts, sum: totals.sum as f64 / divisor })
}
