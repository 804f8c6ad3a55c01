//! The text of `GET /metrics`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::{SourceTotals, StatusReport};

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a mirror in this state, in the OpenMetrics format.
pub(crate) fn render(report: StatusReport) -> String {
    let mut registry = Registry::with_prefix("watchfire_mirror");
    registry.register_collector(Box::new(Exporter(report)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .expect("writing into a String cannot fail");
    text
}

#[derive(Debug)]
struct Exporter(StatusReport);

impl Collector for Exporter {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = Writer { encoder };
        let StatusReport { requests, store, downloads, running, fleet, image_count, .. } = &self.0;
        let family = writer.encoder.encode_descriptor(
            "requests",
            "Answered requests by the kind of content and the source of the answer.",
            None,
            MetricType::Counter,
        )?;
        let kinds =
            [("manifest", requests.manifests), ("blob", requests.blobs), ("file", requests.files)];
        encode_requests(family, &kinds)?;
        writer.gauge("images", "Images that clients have pulled.", *image_count)?;
        writer.gauge("store_blobs", "Blobs in the store, complete or not.", store.blobs)?;
        writer.gauge("store_bytes", "The size of these blobs.", store.bytes)?;
        writer.gauge("store_max_bytes", "The size at which the store is full.", store.bytes_max)?;
        let help = "Blobs that were removed to make room.";
        writer.counter("evicted_blobs", help, store.evicted)?;
        let help = "Blobs that are being fetched.";
        writer.gauge("running_downloads", help, running.len() as u64)?;
        let help = "Blobs that were fetched completely.";
        writer.counter("completed_downloads", help, downloads.completed)?;
        let help = "Blobs that could not be fetched.";
        writer.counter("failed_downloads", help, downloads.failed)?;
        let help = "Bytes of blobs that registries sent.";
        writer.counter("registry_bytes", help, downloads.registry_bytes)?;
        let Some(fleet) = fleet else { return Ok(()) };
        let help = "Other hosts of the fleet that this one knows.";
        writer.gauge("fleet_known_hosts", help, fleet.known_hosts as u64)?;
        let help = "Hosts of the fleet that this one is connected to.";
        writer.gauge("fleet_connections", help, fleet.connections as u64)?;
        let help = "Blobs of which this host coordinates the download.";
        writer.gauge("fleet_coordinated_blobs", help, fleet.coordinated_blobs as u64)?;
        let help = "Bytes of blobs that other hosts sent.";
        writer.counter("fleet_received_bytes", help, fleet.received_bytes)?;
        let help = "Bytes of blobs that this host sent to others.";
        writer.counter("fleet_sent_bytes", help, fleet.sent_bytes)?;
        let help = "Bytes of blobs that arrived twice.";
        writer.counter("fleet_duplicate_bytes", help, fleet.duplicate_bytes)?;
        let Some(region) = &fleet.region else { return Ok(()) };
        writer.info("region", "The region of this host.", ("name", region))
    }
}

fn encode_requests(
    mut family: MetricEncoder<'_>,
    kinds: &[(&'static str, SourceTotals)],
) -> fmt::Result {
    for (kind, totals) in kinds {
        let SourceTotals { store, fleet, registry, error } = *totals;
        let sources =
            [("store", store), ("fleet", fleet), ("registry", registry), ("error", error)];
        for (source, count) in sources {
            let labels = [("kind", *kind), ("source", source)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Writer<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        let kind = gauge.metric_type();
        gauge.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }

    /// The name gets the suffix `_info`.
    fn info(&mut self, name: &str, help: &str, label: (&str, &str)) -> fmt::Result {
        let info = Info::new([label]);
        let kind = info.metric_type();
        info.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }

    /// The name gets the suffix `_total`.
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        let kind = counter.metric_type();
        counter.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }
}
