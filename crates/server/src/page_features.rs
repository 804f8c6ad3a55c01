//! The features that [`Server::with_pages`](crate::Server::with_pages) adds to a server: pages,
//! sprites, rooms, the count of visitors, the deny-list, the gateway and STUN.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Router;
use parking_lot::Mutex;

use crate::cluster::{ClusterPart, PartLink, PartName, Reporter};
use crate::feature::{Feature, Foundation, Started};
use crate::gateway::{self, Gateway, GatewayError, HostMetrics};
use crate::metrics::MetricSource;
use crate::operator::{Access, DenyCalls};
use crate::own_client::OwnClientKey;
use crate::pages::{
    Availability, DenyFileError, DenyList, DenyListWatcher, PageFeature, PageRules, ReplicatedPages,
};
use crate::rooms::RoomFeature;
use crate::settings::Settings;
use crate::sites::{SiteHosts, SitesError};
use crate::sprites::SpriteFeature;
use crate::stun::{self, Announced, StunError, StunMetrics};
use crate::token::TokenKey;
use crate::visitors::VisitorFeature;

/// Why a server with pages cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagesError {
    /// The settings of sites are invalid.
    #[error(transparent)]
    Sites(#[from] SitesError),
    /// STUN cannot be answered.
    #[error(transparent)]
    Stun(#[from] StunError),
    /// The gateway cannot start.
    #[error("p2p: {0}")]
    Gateway(#[from] GatewayError),
    /// The deny-list cannot be used.
    #[error("pages.deny_file: {0}")]
    DenyFile(#[from] DenyFileError),
    /// The thread that watches the deny-list cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The hosts of sites.
pub(crate) fn site_hosts(settings: &Settings) -> Result<SiteHosts, PagesError> {
    Ok(SiteHosts::new(&settings.sites)?)
}

/// The features of pages, before the server has started.
pub(crate) struct PageFeatures {
    pages: Arc<ReplicatedPages>,
    availability: Option<Arc<Availability>>,
    deny_list: Arc<DenyList>,
    deny_calls: Arc<DenyCalls>,
    own_client_key: OwnClientKey,
    /// `None`: this process has no gateway.
    host_metrics: Option<HostMetrics>,
    announced: Option<Announced>,
    stun_address: Arc<OnceLock<Announced>>,
    stun_metrics: StunMetrics,
    features: Vec<Arc<dyn Feature>>,
}

impl PageFeatures {
    /// Checks the settings, without starting anything. Returns what the server would do, a line for
    /// each part.
    pub fn check(settings: &Settings) -> Result<Vec<String>, PagesError> {
        stun::announced(&settings.stun)?;
        DenyList::open(&settings.pages.deny_file)?;
        site_hosts(settings)?;
        gateway::check(&settings.p2p)?;
        Ok(vec![stun::describe(&settings.stun, &settings.server.listen)])
    }

    pub fn new(foundation: Foundation<'_>) -> Result<Self, PagesError> {
        let Foundation {
            settings,
            secret,
            seed,
            sender,
            cluster,
            addresses,
            metrics,
            own_client_key,
            report_waker,
        } = foundation;
        let link = |name| PartLink::new(cluster, name);
        let announced = stun::announced(&settings.stun)?;
        let deny_list = Arc::new(DenyList::open(&settings.pages.deny_file)?);
        // One of several processes has the gateway; the others send it the state of their pages. So
        // do the processes of machines without one: another machine may have it.
        let has_gateway = settings.p2p.is_on();
        let is_gateway = has_gateway && cluster.is_first_of_machine();
        let may_be_asked = has_gateway || settings.cluster.is_on();
        let availability = may_be_asked
            .then(|| Arc::new(Availability::new(link(PartName::Availability), is_gateway)));
        let pages = Arc::new(ReplicatedPages::new(
            PageRules::from(settings),
            seed,
            sender.clone(),
            link(PartName::Pages),
            availability.clone(),
            deny_list.clone(),
            report_waker,
        ));
        let stun_address = Arc::<OnceLock<_>>::default();
        let mut features: Vec<Arc<dyn Feature>> = vec![
            Arc::new(PageFeature {
                pages: pages.clone(),
                availability: availability.clone(),
                metrics: metrics.clone(),
                limits: settings.limits.clone(),
                stun: stun_address.clone(),
                own_client_key: own_client_key.clone(),
            }),
            Arc::new(SpriteFeature::new(
                settings,
                TokenKey::new(secret),
                seed,
                sender.clone(),
                link(PartName::Sprites),
                addresses.clone(),
                metrics.clone(),
            )),
        ];
        if settings.channels.open_rooms {
            features.push(Arc::new(RoomFeature));
        }
        features.push(Arc::new(VisitorFeature {
            metrics: metrics.clone(),
            cluster: cluster.clone(),
            sender: sender.clone(),
            state: Mutex::default(),
            has_status_page: settings.pages.status_page,
            pages: pages.clone(),
            started_at: Instant::now(),
        }));
        Ok(PageFeatures {
            availability,
            deny_calls: Arc::new(DenyCalls {
                deny_list: deny_list.clone(),
                pages: pages.clone(),
                access: Access::new(&settings.admin.token, metrics),
                link: link(PartName::DenyList),
            }),
            pages,
            deny_list,
            own_client_key: own_client_key.clone(),
            host_metrics: is_gateway.then(HostMetrics::default),
            announced,
            stun_address,
            stun_metrics: StunMetrics::default(),
            features,
        })
    }

    pub fn features(&self) -> &[Arc<dyn Feature>] {
        &self.features
    }

    /// The part that reports what changed to the other processes.
    pub fn reporter(&self) -> Arc<dyn Reporter> {
        self.pages.clone()
    }

    pub fn metric_sources(&self) -> Vec<Arc<dyn MetricSource>> {
        let mut sources: Vec<Arc<dyn MetricSource>> = vec![Arc::new(self.stun_metrics.clone())];
        if let Some(host_metrics) = &self.host_metrics {
            sources.push(Arc::new(host_metrics.clone()));
        }
        sources
    }

    /// The replicated state beside that of the features.
    pub fn cluster_part(&self) -> Arc<dyn ClusterPart> {
        self.deny_calls.clone()
    }

    /// The operator's calls about pages.
    pub fn admin_routes(&self) -> Router {
        self.deny_calls.clone().routes()
    }

    /// Starts the responder of STUN, the gateway, and the watch over the deny-list.
    pub fn start(self, started: &Started<'_>) -> Result<RunningPages, PagesError> {
        let stun = self.start_stun(started)?;
        let PageFeatures { pages, availability, deny_list, own_client_key, host_metrics, .. } =
            self;
        let gateway = availability.zip(host_metrics).map(|(availability, host_metrics)| {
            availability.subscribe();
            Gateway::start(
                &started.settings.p2p,
                started.websocket_path.to_owned(),
                own_client_key,
                availability,
                started.sockets.adopter(),
                host_metrics,
                started.is_successor,
            )
        });
        let deny_watch = DenyListWatcher::start(&deny_list, move || pages.end_denied());
        Ok(RunningPages {
            gateway: gateway.transpose()?,
            _stun: stun,
            _deny_watch: deny_watch.map_err(PagesError::Thread)?,
        })
    }

    fn start_stun(
        &self,
        started: &Started<'_>,
    ) -> Result<Option<watchfire_stun::Responder>, PagesError> {
        let Started { settings, sockets, .. } = started;
        let serving = sockets.local_addrs();
        let announced = self.announced.clone();
        let opened =
            stun::open(&settings.stun, announced, serving, started.is_shared, started.processes)?;
        let Some((responder, address)) = opened else { return Ok(None) };
        self.stun_metrics.0.set(responder.counters()).ok();
        let is_local = responder.addresses().iter().all(|at| at.ip().is_loopback());
        if is_local && settings.stun.announce.is_empty() && started.is_first {
            tracing::info!(
                "STUN is answered on this machine only; for browsers elsewhere, set stun.listen \
                 and stun.announce to a public address"
            );
            started.proxies.note_local_stun();
        }
        self.stun_address.set(address).ok();
        Ok(Some(responder))
    }
}

/// The threads of pages, which end when this is dropped.
pub(crate) struct RunningPages {
    gateway: Option<Gateway>,
    _stun: Option<watchfire_stun::Responder>,
    _deny_watch: Option<DenyListWatcher>,
}

impl RunningPages {
    /// The addresses of the gateway, as text.
    pub fn gateway_addresses(&self) -> Vec<String> {
        let addresses = self.gateway.iter().flat_map(|gateway| gateway.addresses());
        addresses.map(ToString::to_string).collect()
    }

    /// Ends the gateway, whose page clients are clients of the event loops.
    pub fn stop_gateway(&mut self) {
        self.gateway.take();
    }
}
