//! The text of `GET /metrics`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::fleet::RegionStatus;

use super::{RequestTotals, SourceTotals, StatusReport};

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
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let StatusReport { requests, store, downloads, running, fleet, image_count, .. } = &self.0;
        encode_requests(&mut encoder, requests)?;
        // The name of a counter gets the suffix `_total`.
        let mut put = |kind: MetricType, name: &str, help: &str, value: u64| match kind {
            MetricType::Counter => encode(&mut encoder, name, help, &ConstCounter::new(value)),
            _ => {
                let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                encode(&mut encoder, name, help, &gauge)
            }
        };
        let running = running.len() as u64;
        put(Gauge, "images", "Images that clients have pulled.", *image_count)?;
        put(Gauge, "store_blobs", "Blobs in the store, complete or not.", store.blobs)?;
        put(Gauge, "store_bytes", "The bytes that blobs and manifests take on disk.", store.bytes)?;
        put(Gauge, "store_max_bytes", "The size at which the store is full.", store.bytes_max)?;
        put(Counter, "evicted_blobs", "Blobs that were removed to make room.", store.evicted)?;
        put(Gauge, "running_downloads", "Blobs that are being fetched.", running)?;
        let help = "Blobs that were fetched completely.";
        put(Counter, "completed_downloads", help, downloads.completed)?;
        let help = "Blobs that could not be fetched.";
        put(Counter, "failed_downloads", help, downloads.failed)?;
        let help = "Bytes of blobs that registries sent.";
        put(Counter, "registry_bytes", help, downloads.registry_bytes)?;
        let Some(fleet) = fleet else { return Ok(()) };
        let help = "Other hosts of the fleet that this one knows.";
        put(Gauge, "fleet_known_hosts", help, fleet.known_hosts as u64)?;
        let help = "Hosts of the fleet that this one is connected to.";
        put(Gauge, "fleet_connections", help, fleet.connections as u64)?;
        let help = "Blobs of which this host coordinates the download.";
        put(Gauge, "fleet_coordinated_blobs", help, fleet.coordinated_blobs as u64)?;
        let help = "Bytes of blobs that other hosts sent.";
        put(Counter, "fleet_received_bytes", help, fleet.received_bytes)?;
        let help = "Bytes of blobs that this host sent to others.";
        put(Counter, "fleet_sent_bytes", help, fleet.sent_bytes)?;
        let help = "Bytes of blobs that arrived twice.";
        put(Counter, "fleet_duplicate_bytes", help, fleet.duplicate_bytes)?;
        let help = "Bytes of blobs that hosts of another region sent to this host.";
        let name = "region_received_bytes";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for RegionStatus { name, received_bytes, .. } in &fleet.regions {
            let labels = [("region", name.as_str())];
            ConstCounter::new(*received_bytes).encode(family.encode_family(&labels)?)?;
        }
        let Some(region) = &fleet.region else { return Ok(()) };
        // The name gets the suffix `_info`.
        let region = Info::new([("name", region.as_str())]);
        encode(&mut encoder, "region", "The region of this host.", &region)
    }
}

fn encode_requests(encoder: &mut DescriptorEncoder<'_>, requests: &RequestTotals) -> fmt::Result {
    let help = "Answered requests by the kind of content and the source of the answer.";
    let mut family = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
    let RequestTotals { manifests, blobs, files } = requests;
    for (kind, totals) in [("manifest", manifests), ("blob", blobs), ("file", files)] {
        let SourceTotals { store, fleet, registry, error } = *totals;
        for (source, count) in
            [("store", store), ("fleet", fleet), ("registry", registry), ("error", error)]
        {
            let labels = [("kind", kind), ("source", source)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}
