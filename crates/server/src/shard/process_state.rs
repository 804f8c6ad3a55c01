//! State that the shards of a process share.

use std::sync::Arc;
use std::time::Duration;

use watchfire_channels::longpoll::LongPollLimits;

use super::connect_rules::ConnectRules;
use crate::addresses::Addresses;
use crate::channel_api::{Endpoint, Parking, Registry};
use crate::cluster::Cluster;
use crate::feature::{Gate, Part};
use crate::history::History;
use crate::memory::MemoryReturn;
use crate::metrics::Metrics;
use crate::presence::ReplicatedPresence;
use crate::proxies::TrustedProxies;
use crate::settings::Limits;
use crate::token::TokenKey;

/// State that the shards of a process share. The router uses it for long polls.
pub(crate) struct ProcessState {
    pub limits: Limits,
    pub longpoll: LongPollLimits,
    pub registry: Registry,
    pub connect_rules: ConnectRules,
    pub proxies: Arc<TrustedProxies>,
    pub cluster: Arc<Cluster>,
    pub endpoint: Endpoint,
    pub presence: Arc<ReplicatedPresence>,
    /// `None`: no topic has a history.
    pub history: Option<Arc<History>>,
    pub metrics: Arc<Metrics>,
    pub addresses: Arc<Addresses>,
    pub memory: MemoryReturn,
    /// Signs the tokens of long-poll sessions, which are valid in this process only.
    pub sessions: TokenKey,
    /// `<mount>/websocket`
    pub websocket_path: String,
    /// `<mount>/longpoll`
    pub longpoll_path: String,
    pub parts: Vec<Arc<dyn Part>>,
    /// The parts that have a say about each request.
    pub gates: Vec<Arc<dyn Gate>>,
    /// `None` when no part parks requests.
    pub parking: Option<Arc<dyn Parking>>,
    /// The beginnings of paths whose requests are logged.
    pub logged_paths: Box<[String]>,
}

impl ProcessState {
    /// Whether requests to a path are logged or traced, which the router does.
    pub fn is_watched(&self, path: &str) -> bool {
        watchfire_traces::is_on() || self.logged_paths.iter().any(|start| path.starts_with(start))
    }

    /// How long a long poll waits at most.
    pub fn longpoll_window(&self) -> Duration {
        self.longpoll.window
    }
}
