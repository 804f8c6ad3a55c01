//! `GET /metrics`: the counts of all processes.

mod exposition;
mod memory;
mod process;

use std::sync::{Arc, OnceLock, Weak};

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{HeaderMap, header};
use watchfire::feature::{ClusterPart, MetricWriter, Part, PartLink, PendingResponse};
use watchfire_metrics::Snapshot;
use watchfire_types::{MetricsFormat, NodeId};

pub(crate) use self::memory::FreeBytes;
use self::memory::Memory;

/// Everything that `/metrics` shows, collected when it is requested.
pub(crate) struct MetricsPage {
    /// All parts of the server. One of them owns this page.
    parts: OnceLock<Vec<Weak<dyn Part>>>,
    link: PartLink,
    memory: Memory,
}

impl MetricsPage {
    /// `free_bytes` returns the free memory that the allocator of the program keeps.
    pub fn new(link: PartLink, free_bytes: Option<FreeBytes>) -> Self {
        MetricsPage { parts: OnceLock::new(), link, memory: Memory::new(free_bytes) }
    }

    /// Sets the parts with metrics, before another process can ask.
    pub fn set_parts(&self, parts: &[Arc<dyn Part>]) {
        self.parts.set(parts.iter().map(Arc::downgrade).collect()).ok();
    }

    pub fn routes(self: Arc<Self>) -> Router {
        Router::new().route("/metrics", get(show)).with_state(self)
    }

    /// The metrics of each process of this machine. A process that does not answer in time is missing,
    /// which `watchfire_processes` shows.
    pub async fn collect(&self) -> Vec<(NodeId, Snapshot)> {
        let own = (self.link.cluster().me(), self.snapshot());
        let others: Vec<NodeId> = self.link.cluster().near_others().map(|(node, _)| node).collect();
        let asked = self.link.request_each(others, &()).await.into_iter();
        let mut snapshots: Vec<_> =
            asked.filter_map(|(node, snapshot)| Some((node, snapshot.ok()?))).collect();
        snapshots.push(own);
        snapshots.sort_by_key(|(node, _)| *node);
        snapshots
    }

    /// Takes the events of the parts of this process.
    pub fn take_events(&self) -> Vec<(&'static str, String)> {
        let parts = self.parts.get().into_iter().flatten().filter_map(Weak::upgrade);
        parts.flat_map(|part| part.take_events()).collect()
    }

    fn snapshot(&self) -> Snapshot {
        let mut writer = MetricWriter::default();
        let parts = self.parts.get().into_iter().flatten();
        parts.filter_map(Weak::upgrade).for_each(|part| part.write_metrics(&mut writer));
        let mut snapshot = writer.into_snapshot();
        let mut rest = MetricWriter::default();
        self.memory.write(&snapshot, self.link.cluster().is_first_of_machine(), &mut rest);
        snapshot.merge(rest.into_snapshot());
        snapshot.families.extend(process::metrics());
        snapshot
    }
}

impl ClusterPart for MetricsPage {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, _: &[u8]) -> Result<(), postcard::Error> {
        Ok(()) // There are requests only.
    }

    fn take_request(&self, _: &[u8], response: PendingResponse) {
        response.send(&self.snapshot());
    }
}

async fn show(State(page): State<Arc<MetricsPage>>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = MetricsFormat::preferred(accept);
    let mut merged = Snapshot::default();
    page.collect().await.into_iter().for_each(|(_, snapshot)| merged.merge(snapshot));
    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    (headers, format.write(exposition::text(merged)))
}

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::message_samples as samples;
    use watchfire_metrics::{Buckets, Family, Kind, Merge, Value};
    let buckets = Buckets { counts: vec![(0.5, 1)], sum: 0.25 };
    let values = [Value::Count(1), Value::Number(2.5), Value::Histogram(buckets)];
    let labels = vec![("l".to_owned(), "v".to_owned())];
    let series = values.clone().map(|value| (labels.clone(), value));
    let (name, help) = ("n".to_owned(), "h".to_owned());
    let (kind, merge) = (Kind::Gauge, Merge::Largest);
    let family = Family { name, help, kind, merge, series: series.into() };
    let [count, number, histogram] = values;
    vec![
        samples!(Snapshot: Snapshot { families: vec![family] }),
        samples!(enum Value: count, number, histogram),
        samples!(enum Kind: Kind::Counter, Kind::Gauge, Kind::Histogram),
        samples!(enum Merge: Merge::Sum, Merge::Largest, Merge::Smallest),
    ]
}
