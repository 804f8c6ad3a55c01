//! The parts that every server has. Their modules do not know the trait, which is made of them.

use std::sync::Arc;

use watchfire_types::Instant;

use crate::addresses::Addresses;
use crate::channel_api::Endpoint;
use crate::cluster::{Cluster, ClusterPart, Reporter};
use crate::feature::Part;
use crate::history::History;
use crate::metrics::{MetricSource, MetricWriter, Metrics};
use crate::presence::ReplicatedPresence;

/// The version of the server.
pub(super) struct BuildInfo;

impl Part for BuildInfo {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        let labels = [("version", env!("CARGO_PKG_VERSION"))];
        writer.info("build_info", "The version of the server", &[labels]);
    }
}

#[doc(hidden)]
impl Part for Metrics {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        MetricSource::write_metrics(self, writer);
    }
}

#[doc(hidden)]
impl Part for Cluster {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        MetricSource::write_metrics(self, writer);
    }
}

#[doc(hidden)]
impl Part for Endpoint {
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self]
    }
}

#[doc(hidden)]
impl Part for ReplicatedPresence {
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self]
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        writer.gauge("hub_presences", "Presences of this server's clients", self.len() as u64);
        writer.memory("presence", self.memory_bytes());
    }
}

#[doc(hidden)]
impl Part for Addresses {
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self]
    }

    fn reporter(self: Arc<Self>) -> Option<Arc<dyn Reporter>> {
        Some(self)
    }
}

#[doc(hidden)]
impl Part for History {
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self]
    }

    fn handle_tick(&self, _now: Instant) {
        self.tick();
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        MetricSource::write_metrics(self, writer);
    }
}

/// A source of metrics that is no more than that.
pub(super) struct OfSource(pub Arc<dyn MetricSource>);

impl Part for OfSource {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        self.0.write_metrics(writer);
    }
}
