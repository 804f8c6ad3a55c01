//! What all shards share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use channels::handshake::OriginPolicy;

use crate::addresses::Addresses;
use crate::app::Registry;
use crate::cluster::Cluster;
use crate::denied::Denied;
use crate::endpoint::Endpoint;
use crate::metrics::Metrics;
use crate::page_board::PageBoard;
use crate::planes::Planes;
use crate::presence::PresenceBoard;
use crate::settings::Settings;
use crate::sites::SiteHosts;
use crate::token::TokenKey;
use crate::worlds::{Standings, VisitKey};

/// What all shards share: settings, the application, and the boards behind locks.
pub(crate) struct World {
    pub settings: Settings,
    pub registry: Registry,
    pub origins: OriginPolicy,
    /// The hosts that are none of ours, but of pages.
    pub sites: SiteHosts,
    pub cluster: Arc<Cluster>,
    pub endpoint: Endpoint,
    pub presence: Arc<PresenceBoard>,
    pub pages: Arc<PageBoard>,
    pub denied: Arc<Denied>,
    /// Present on a watchfire only.
    pub planes: Option<Arc<Planes>>,
    pub metrics: Arc<Metrics>,
    /// Present when other worlds are met.
    pub standings: Option<Arc<Standings>>,
    /// By which our own visits are known.
    pub visit_key: VisitKey,
    /// How often the number of visitors was read, see [`crate::builtin::Site`].
    pub site_reads: Arc<AtomicU64>,
    pub addresses: Arc<Addresses>,
    /// For long-poll sessions: known to this process alone, as these are.
    pub sessions: TokenKey,
    /// For places on planes: known to all processes of the server.
    pub places: TokenKey,
    /// `<mount>/websocket`
    pub websocket_path: String,
    /// `<mount>/longpoll`
    pub longpoll_path: String,
}

impl World {
    /// Websockets and long-poll sessions of all processes.
    pub fn clients(&self) -> u64 {
        self.metrics.clients() + self.cluster.clients_elsewhere()
    }
}
