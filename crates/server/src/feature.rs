//! The trait that every feature of the server implements.
//!
//! A feature is a folder with its own state, channel, routes and metrics. `server.rs` creates each
//! feature with one line and hands it to the shards, the router and the cluster through
//! [`Feature`]. Features import the API for applications, not the shards. They do not import each
//! other, with three exceptions: the picture of a sprite is a page, the gateway transfers pages, and the
//! status page counts them.

use std::sync::Arc;

use axum::Router;
use watchfire_sockets::SocketServer;
use watchfire_types::Instant;

use crate::addresses::Addresses;
use crate::channel_api::{Endpoint, Parking, Registry, ShardMessage};
use crate::cluster::{Cluster, ClusterPart, ReportWaker};
use crate::metrics::{MetricWriter, Metrics};
use crate::own_client::OwnClientKey;
use crate::proxies::TrustedProxies;
use crate::seed::Seed;
use crate::settings::Settings;

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
    fn write_metrics(&self, _writer: &mut MetricWriter) {}
}

/// The parts of a server on which the features of pages are built.
pub(crate) struct Foundation<'a> {
    pub settings: &'a Settings,
    /// Known only to the processes of the server.
    pub secret: [u8; 32],
    pub seed: Seed,
    pub sender: &'a Arc<Endpoint>,
    pub cluster: &'a Arc<Cluster>,
    pub addresses: &'a Arc<Addresses>,
    pub metrics: &'a Arc<Metrics>,
    pub own_client_key: &'a OwnClientKey,
    pub report_waker: ReportWaker,
}

/// A server whose event loops run.
pub(crate) struct Started<'a> {
    pub settings: &'a Settings,
    pub sockets: &'a SocketServer<ShardMessage>,
    pub proxies: &'a TrustedProxies,
    pub websocket_path: &'a str,
    /// The processes of the server on this machine.
    pub processes: u32,
    /// Whether this process is the first of its machine.
    pub is_first: bool,
    /// Whether other processes of the server listen on the same addresses.
    pub is_shared: bool,
    /// Whether another server runs until this one is ready.
    pub is_successor: bool,
}
