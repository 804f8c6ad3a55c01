//! `GET /metrics`: the counts of all processes.

mod merge;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use watchfire_types::NodeId;

use crate::cluster::{ClusterPart, PartLink};
use crate::metrics::{Exporter, MetricSource, ProcessMetrics};

/// Everything that `/metrics` shows, collected when it is requested.
pub(crate) struct MetricsPage {
    /// Metrics whose names begin with `watchfire_`, and those of the process.
    registries: [Registry; 2],
    link: PartLink,
}

impl MetricsPage {
    pub fn new(sources: Vec<Arc<dyn MetricSource>>, link: PartLink) -> Self {
        let (mut own, mut process) = (Registry::with_prefix("watchfire"), Registry::default());
        own.register_collector(Box::new(Exporter(sources)));
        process.register_collector(Box::new(ProcessMetrics));
        MetricsPage { registries: [own, process], link }
    }

    pub fn routes(self: Arc<Self>) -> Router {
        Router::new().route("/metrics", get(show)).with_state(self)
    }

    /// The metrics of each process of this machine. A process that does not answer in time is missing,
    /// which `watchfire_processes` shows.
    pub async fn collect(&self) -> Vec<(NodeId, String)> {
        let mut requests = JoinSet::new();
        for (node, _) in self.link.cluster().near_others() {
            let link = self.link.clone();
            requests.spawn(async move { Some((node, link.request(node, &()).await?)) });
        }
        let own = (self.link.cluster().me(), self.render_here());
        let mut texts = requests.join_all().await;
        texts.push(Some(own));
        texts.sort_by_key(|answer| answer.as_ref().map(|(node, _)| *node));
        texts.into_iter().flatten().collect()
    }

    /// The metrics of all processes, merged.
    async fn render(&self) -> String {
        let mut texts: Vec<String> =
            self.collect().await.into_iter().map(|(_, text)| text).collect();
        if texts.len() == 1 { texts.remove(0) } else { merge::merge(&texts) }
    }

    /// The counts of this process.
    fn render_here(&self) -> String {
        let mut text = String::new();
        for registry in &self.registries {
            encode_registry(&mut text, registry).expect("writing into a String cannot fail");
        }
        encode_eof(&mut text).expect("writing into a String cannot fail");
        text
    }
}

impl ClusterPart for MetricsPage {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, _: &[u8]) -> Result<(), postcard::Error> {
        Ok(()) // There are requests only.
    }

    fn answer(&self, _: &[u8]) -> Option<String> {
        Some(self.render_here())
    }
}

async fn show(State(page): State<Arc<MetricsPage>>) -> impl IntoResponse {
    let openmetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, openmetrics)], page.render().await)
}
