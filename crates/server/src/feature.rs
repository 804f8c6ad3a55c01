//! The trait that every feature of the server implements.
//!
//! A feature is a folder with its own state, channel, routes and metrics. `server.rs` creates each
//! feature with one line and hands it to the shards, the router and the cluster through
//! [`Feature`]. Features import the API for applications, not the shards. They do not import each
//! other, with two exceptions: the picture of a sprite is a page, and the gateway transfers pages.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use watchfire_types::Instant;

use crate::app::{Parking, Registry};
use crate::cluster::ClusterPart;
use crate::metrics::MetricWriter;

/// One feature of the server. Each method has a default that adds nothing.
pub(crate) trait Feature: Send + Sync {
    /// Adds the feature's channels.
    fn register_channels(self: Arc<Self>, _registry: &mut Registry) {}

    /// The feature's HTTP routes.
    fn routes(self: Arc<Self>) -> Router {
        Router::new()
    }

    /// The feature's state that is replicated between processes.
    fn cluster_parts(&self) -> Vec<Arc<dyn ClusterPart>> {
        Vec::new()
    }

    /// The feature's HTTP requests that wait in a shard. At most one feature has them.
    fn parking(&self) -> Option<Arc<dyn Parking>> {
        None
    }

    /// Does what is due. The first shard of a process calls this at each tick, ten times a second.
    fn handle_tick(&self, _now: Instant) {}

    /// Writes the feature's own counts.
    fn write_metrics(&self, _writer: &mut MetricWriter<'_>) -> fmt::Result {
        Ok(())
    }
}
