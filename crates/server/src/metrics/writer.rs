//! Writes the counts that parts of the server keep for themselves.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;

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
