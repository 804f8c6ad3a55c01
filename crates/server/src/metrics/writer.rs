//! Writes the counts that parts of the server keep for themselves.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use watchfire_sockets::HistogramTotals;

/// The divisor of histograms of times, which count nanoseconds.
pub(super) const NANOS_PER_SECOND: f64 = 1e9;

/// A part of the server with counts of its own.
pub(crate) trait MetricSource: Send + Sync {
    /// Writes the current counts. Called for each request of `/metrics`.
    fn write_metrics(&self, writer: &mut MetricWriter<'_>) -> fmt::Result;
}

/// Writes counts into the text of `/metrics`. Names get the prefix `watchfire_`.
pub(crate) struct MetricWriter<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl MetricWriter<'_> {
    /// Writes a value that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        let kind = gauge.metric_type();
        gauge.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }

    /// Writes a value that only goes up. The name gets the suffix `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        let kind = counter.metric_type();
        counter.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }

    /// Writes gauges with one label.
    pub fn gauges(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: &[(&'static str, u64)],
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (of_label, value) in values {
            let gauge = ConstGauge::new(i64::try_from(*value).unwrap_or(i64::MAX));
            gauge.encode(metric.encode_family(&[(label, *of_label)])?)?;
        }
        Ok(())
    }

    /// Writes counters with one label. The name gets the suffix `_total`.
    pub fn counters_by(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: &[(&'static str, u64)],
    ) -> fmt::Result {
        let none = Family::<[(&str, &str); 1], Counter>::default();
        self.counters_and(name, help, label, values, &none)
    }

    /// Writes counters with one label, and a family that has the same label.
    pub fn counters_and<L>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: &[(&'static str, u64)],
        family: &Family<L, Counter>,
    ) -> fmt::Result
    where
        L: Clone + Eq + Hash + EncodeLabelSet,
    {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (of_label, value) in values {
            ConstCounter::new(*value).encode(metric.encode_family(&[(label, *of_label)])?)?;
        }
        family.encode(metric)
    }

    /// Writes counters of seconds with labels. The name gets the suffix `_total`.
    pub fn seconds_by<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: &[([(&'static str, String); N], f64)],
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            ConstCounter::new(*value).encode(metric.encode_family(labels)?)?;
        }
        Ok(())
    }

    /// Writes a histogram whose bounds and sum are divided by `divisor`.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        totals: &HistogramTotals,
        divisor: f64,
    ) -> fmt::Result {
        let bounds = totals.bounds.iter().map(|bound| *bound as f64 / divisor);
        let buckets: Vec<(f64, u64)> =
            bounds.chain([f64::INFINITY]).zip(totals.counts.iter().copied()).collect();
        let count = totals.counts.iter().sum();
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let sum = totals.sum as f64 / divisor;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    /// Writes 1 with labels that describe something.
    pub fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(1i64).encode(metric.encode_family(&labels)?)
    }

    /// Writes a metric with labels.
    pub fn family<L, M, C>(
        &mut self,
        name: &str,
        help: &str,
        family: &Family<L, M, C>,
    ) -> fmt::Result
    where
        Family<L, M, C>: EncodeMetric,
    {
        let kind = family.metric_type();
        family.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }

    /// Writes counters with labels. The name gets the suffix `_total`.
    pub fn counters<L>(
        &mut self,
        name: &str,
        help: &str,
        counters: &Family<L, Counter>,
    ) -> fmt::Result
    where
        L: Clone + Eq + Hash + EncodeLabelSet,
    {
        let kind = counters.metric_type();
        counters.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }
}

/// Writes all sources for the Prometheus client library.
pub(crate) struct Exporter(pub Vec<Arc<dyn MetricSource>>);

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exporter of {} sources", self.0.len())
    }
}

impl Collector for Exporter {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = MetricWriter { encoder };
        self.0.iter().try_for_each(|source| source.write_metrics(&mut writer))
    }
}
