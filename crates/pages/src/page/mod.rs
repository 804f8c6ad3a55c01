//! Pages: the peers that have a page open, the holders among them, and the relay between peers.
//!
//! [`ReplicatedPages`] is the state, [`PageChannel`](channel::PageChannel) the topics `page:<cid>`.
//! [`Availability`] knows, for the gateway and the neighbours, which pages are available over all processes.
//! [`DenyList`] names the pages that the operator blocked.

mod availability;
mod channel;
mod deny_calls;
mod deny_list;
mod messages;
mod name;
mod peer_json;
mod peer_key;
mod relay_counts;
mod replicated;
mod trace_report;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

pub(crate) use availability::{Availability, Changes};
use channel::PageChannel;
pub(crate) use deny_calls::DenyCalls;
pub use deny_list::DenyFileError;
pub(crate) use deny_list::{DenyList, DenyListWatcher};
pub(crate) use name::{TOPIC_PREFIX, check_cid, topic_of};
use parking_lot::Mutex;
pub(crate) use relay_counts::RelayCounts;
pub(crate) use replicated::{PageRules, ReplicatedPages};
use trace_report::TraceReports;
use watchfire::feature::{ClusterPart, MetricWriter, Part, Registry};
use watchfire::internal::{Metrics, OwnClientKey, Reporter};
use watchfire_types::Instant;

use crate::settings::PageLimits;
use crate::stun::Announced;

/// The origins of other servers on which pages are available that nobody here has in full. At most as many pages as
/// are watched: in the first process of a machine those of the server, in another one those of its own clients.
/// Empty without neighbours.
pub(crate) type Elsewhere = Mutex<HashMap<Box<str>, Vec<String>>>;

pub(crate) struct PageFeature {
    pub pages: Arc<ReplicatedPages>,
    /// `None` without a gateway and neighbours.
    pub availability: Option<Arc<Availability>>,
    pub metrics: Arc<Metrics>,
    pub limits: PageLimits,
    pub counts: Arc<RelayCounts>,
    /// Where browsers reach STUN; empty while nothing answers there.
    pub stun: Arc<OnceLock<Announced>>,
    pub own_client_key: OwnClientKey,
    pub elsewhere: Arc<Elsewhere>,
}

impl Part for PageFeature {
    fn register_channels(self: Arc<Self>, registry: &mut Registry) {
        let (segments, signals) = RelayCounts::register(&self.counts, registry);
        let channel = PageChannel {
            pages: self.pages.clone(),
            metrics: self.metrics.clone(),
            relay_frame_bytes_max: self.limits.relay_frame_bytes_max,
            signal_bytes_max: self.limits.signal_bytes_max,
            segments,
            signals,
            counts: self.counts.clone(),
            stun: self.stun.clone(),
            own_client_key: self.own_client_key.clone(),
            elsewhere: self.elsewhere.clone(),
            trace_reports: TraceReports::default(),
        };
        registry.add_with_own_limits("page:*", channel).expect("the pattern is valid");
    }

    fn reserves(&self, topic: &str) -> bool {
        topic.starts_with("page:")
    }

    fn reporter(self: Arc<Self>) -> Option<Arc<dyn Reporter>> {
        Some(self.pages.clone())
    }

    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        let mut parts: Vec<Arc<dyn ClusterPart>> = vec![self.pages.clone()];
        if let Some(availability) = &self.availability {
            parts.push(availability.clone());
        }
        parts
    }

    fn handle_tick(&self, now: Instant) {
        self.pages.handle_tick(now);
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        let (open, available) = self.pages.len();
        writer.gauge("pages_open", "Pages that a peer has open", open as u64);
        writer.gauge("pages_available", "Pages of which a peer has all blocks", available as u64);
        writer.memory("pages", self.pages.memory_bytes());
        self.counts.write_metrics(writer);
    }
}

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<watchfire::internal::Samples> {
    let mut samples = messages::samples();
    samples.push(availability::samples());
    samples.extend(deny_calls::message_samples());
    samples
}
