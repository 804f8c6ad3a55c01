//! Everything about pages, as a feature: [`Pages`].

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Router;
use axum::middleware::from_fn_with_state;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use watchfire::feature::{
    ClusterPart, Feature, FeatureError, Figure, Foundation, Gate, MetricWriter, OwnTopics, Part,
    PartName, Running, SectionType, Started, Table, Trouble, Verdict, section_limits,
};
use watchfire::internal::{MetricSource, Metrics, OwnClientKey, TokenKey};
use watchfire::{Members, Settings};
use watchfire_sockets::RequestHead;

use crate::figures::{FIGURES, TABLES, TROUBLES};
use crate::format::part_name;
use crate::gateway::{self, Gateway, GatewayError, HostMetrics, SocketPairConnector};
use crate::neighbours::{self, GuestFeature, NeighbourError, Neighbours};
use crate::page::{
    Availability, DenyCalls, DenyFileError, DenyList, DenyListWatcher, Elsewhere, PageFeature,
    PageRules, ReplicatedPages,
};
use crate::page_loads::PageLoads;
use crate::rooms::RoomFeature;
use crate::settings::{
    NeighbourSettings, P2pSettings, PageLimits, PageSettings, RoomSettings, SitesSettings,
    SpriteSettings, StunSettings,
};
use crate::sites::{self, RequestTarget, SiteHosts, SiteShell, SitesError, restrict_site_hosts};
use crate::sprites::SpriteFeature;
use crate::stun::{self, Announced, StunError, StunMetrics};
use crate::visitors::VisitorFeature;

/// Why a server with pages cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagesError {
    #[error(transparent)]
    Sites(#[from] SitesError),
    #[error(transparent)]
    Stun(#[from] StunError),
    #[error("p2p: {0}")]
    Gateway(GatewayError),
    #[error(transparent)]
    Neighbour(#[from] NeighbourError),
    #[error("pages.deny_file: {0}")]
    DenyFile(DenyFileError),
    /// `pages.report` is not an address that a browser can open.
    #[error("cannot use pages.report {report:?}: it must begin with https://, http:// or mailto:")]
    Report { report: String },
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The web client, and the topics `page:*`, `sprites:*` and `site`; with `channels.open_rooms`, also
/// `rooms:*`; the gateway to libp2p peers, and STUN.
#[derive(Debug, Default)]
pub struct Pages;

impl Pages {
    /// The feature, which reads the settings of the sections `pages`, `sites`, `p2p`, `neighbours` and `stun`, and
    /// some of `limits`, `socket` and `channels`.
    pub fn new() -> Self {
        Pages
    }
}

impl Feature for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn sections(&self) -> Vec<SectionType> {
        vec![
            SectionType::of::<StunSettings>(),
            SectionType::of::<SitesSettings>(),
            SectionType::of::<P2pSettings>(),
            SectionType::of::<NeighbourSettings>(),
            SectionType::of::<PageSettings>(),
            SectionType::of::<PageLimits>(),
            SectionType::of::<SpriteSettings>(),
            SectionType::of::<RoomSettings>(),
        ]
    }

    fn topics(&self, settings: &Settings) -> Vec<OwnTopics> {
        let own = |pattern| OwnTopics { pattern, setting: None };
        let mut topics = ["page:*", "sprites:*", "site"].map(own).to_vec();
        if settings.section::<RoomSettings>().open_rooms {
            let setting = Some("channels.open_rooms");
            topics.push(OwnTopics { pattern: "rooms:*", setting });
        }
        topics
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn tables(&self) -> &'static [Table] {
        TABLES
    }

    fn troubles(&self) -> &'static [Trouble] {
        TROUBLES
    }

    /// The domain of sites.
    fn domain(&self, settings: &Settings) -> Option<String> {
        let SitesSettings { domain, .. } = settings.section();
        Some(domain).filter(|domain| !domain.is_empty())
    }

    fn check(&self, settings: &Settings) -> Result<Vec<String>, FeatureError> {
        Ok(vec![check(settings)?])
    }

    fn build(&self, foundation: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, FeatureError> {
        Ok(build(foundation)?)
    }
}

/// Checks the settings, without starting anything. Returns what the server would do about STUN.
fn check(settings: &Settings) -> Result<String, PagesError> {
    let stun: StunSettings = settings.section();
    let pages: PageSettings = settings.section();
    check_report(&pages)?;
    stun::announced(&stun)?;
    DenyList::open(&pages.deny_file).map_err(PagesError::DenyFile)?;
    SiteHosts::new(&settings.section())?;
    gateway::check(&settings.section()).map_err(PagesError::Gateway)?;
    neighbours::origins(&settings.section())?;
    Ok(stun::describe(&stun, &settings.server.listen))
}

/// Checks that `pages.report` is empty, or an address that a browser may open.
fn check_report(PageSettings { report, .. }: &PageSettings) -> Result<(), PagesError> {
    let schemes = ["https://", "http://", "mailto:"];
    match report.is_empty() || schemes.iter().any(|scheme| report.starts_with(scheme)) {
        true => Ok(()),
        false => Err(PagesError::Report { report: report.clone() }),
    }
}

/// Builds the parts of pages: the state of pages, and everything that stands on it.
fn build(foundation: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, PagesError> {
    let shared = Shared::new(foundation)?;
    let mut parts: Vec<Arc<dyn Part>> = vec![
        Arc::new(shared.services()?),
        shared.loads.clone(),
        Arc::new(shared.page_feature()),
        Arc::new(shared.sprite_feature()),
    ];
    parts.extend(shared.neighbour_parts());
    if shared.has_rooms() {
        let members = Members::new("rooms");
        parts.push(members.part(foundation));
        parts.push(Arc::new(RoomFeature(members)));
    }
    parts.push(Arc::new(shared.visitor_feature()));
    Ok(parts)
}

/// The foundation of a process, and the state that several parts of pages share.
struct Shared<'a> {
    foundation: &'a Foundation<'a>,
    /// The neighbours of the settings.
    named: Vec<String>,
    /// `None` without a gateway and neighbours.
    availability: Option<Arc<Availability>>,
    deny_list: Arc<DenyList>,
    pages: Arc<ReplicatedPages>,
    elsewhere: Arc<Elsewhere>,
    loads: Arc<PageLoads>,
    /// Where browsers reach STUN; empty while nothing answers there.
    stun_address: Arc<OnceLock<Announced>>,
}

impl<'a> Shared<'a> {
    fn new(foundation: &'a Foundation<'a>) -> Result<Self, PagesError> {
        let PageSettings { deny_file, count_referrers, .. } = foundation.settings.section();
        let deny_list = Arc::new(DenyList::open(&deny_file).map_err(PagesError::DenyFile)?);
        let named = neighbours::origins(&foundation.settings.section())?;
        let availability = availability(foundation, !named.is_empty());
        let pages = ReplicatedPages::new(
            PageRules::from(foundation.settings),
            foundation.seed,
            Arc::new(foundation.endpoint.clone()),
            foundation.link(part_name("pages")),
            availability.clone(),
            deny_list.clone(),
            foundation.report_waker.clone(),
        );
        Ok(Shared {
            foundation,
            named,
            availability,
            deny_list,
            pages: Arc::new(pages),
            elsewhere: Arc::default(),
            loads: Arc::new(PageLoads::new(
                foundation.link(PartName::new("page_loads", 1)),
                foundation.secret,
                count_referrers,
            )),
            stun_address: Arc::default(),
        })
    }

    fn has_rooms(&self) -> bool {
        self.foundation.settings.section::<RoomSettings>().open_rooms
    }

    fn services(&self) -> Result<PageServices, PagesError> {
        let Foundation { settings, metrics, own_client_key, .. } = self.foundation;
        let p2p: P2pSettings = settings.section();
        gateway::check_addresses(&p2p).map_err(PagesError::Gateway)?;
        let page_settings: PageSettings = settings.section();
        check_report(&page_settings)?;
        Ok(PageServices {
            limits: section_limits(&settings.section::<PageLimits>()),
            deny_calls: Arc::new(DenyCalls {
                deny_list: self.deny_list.clone(),
                pages: self.pages.clone(),
                link: self.foundation.link(part_name("deny_list")),
            }),
            availability: self.availability.clone(),
            elsewhere: (!self.named.is_empty()).then(|| self.elsewhere.clone()),
            own_client_key: (*own_client_key).clone(),
            host_metrics: is_gateway(self.foundation).then(HostMetrics::default),
            announced: stun::announced(&settings.section())?,
            stun_address: self.stun_address.clone(),
            stun_metrics: StunMetrics::default(),
            warns_of_local_stun: AtomicBool::new(false),
            metrics: (*metrics).clone(),
            sites: Arc::new(SiteHosts::new(&settings.section())?),
            loads: self.loads.clone(),
            public_url: settings.server.public_url.clone(),
            report: page_settings.report,
            has_rooms: self.has_rooms(),
            p2p: gateway_limits(&p2p),
        })
    }

    fn page_feature(&self) -> PageFeature {
        PageFeature {
            pages: self.pages.clone(),
            availability: self.availability.clone(),
            metrics: self.foundation.metrics.clone(),
            limits: self.foundation.settings.section(),
            counts: Arc::default(),
            stun: self.stun_address.clone(),
            own_client_key: self.foundation.own_client_key.clone(),
            elsewhere: self.elsewhere.clone(),
        }
    }

    fn sprite_feature(&self) -> SpriteFeature {
        let Foundation { settings, secret, seed, addresses, metrics, .. } = self.foundation;
        SpriteFeature::new(
            settings,
            TokenKey::new(*secret),
            *seed,
            Arc::new(self.foundation.endpoint.clone()),
            self.foundation.link(part_name("sprites")),
            (*addresses).clone(),
            (*metrics).clone(),
        )
    }

    /// The neighbours, if the settings name any, and their guests.
    fn neighbour_parts(&self) -> Vec<Arc<dyn Part>> {
        let settings: NeighbourSettings = self.foundation.settings.section();
        let availability = self.availability.clone().filter(|_| !self.named.is_empty());
        let neighbours = availability.map(|availability| {
            Arc::new(Neighbours::new(
                settings.depth,
                self.named.clone(),
                self.foundation.seed,
                availability,
                self.elsewhere.clone(),
                Arc::new(self.foundation.endpoint.clone()),
                self.foundation.link(part_name("neighbours")),
            ))
        });
        let known = neighbours.as_ref().map(|neighbours| neighbours.known().clone());
        let guests = GuestFeature::new(settings, self.named.clone(), known.unwrap_or_default());
        let mut parts: Vec<Arc<dyn Part>> = vec![Arc::new(guests)];
        parts.extend(neighbours.map(|neighbours| neighbours as Arc<dyn Part>));
        parts
    }

    fn visitor_feature(&self) -> VisitorFeature {
        let PageSettings { status_page, .. } = self.foundation.settings.section();
        VisitorFeature {
            metrics: self.foundation.metrics.clone(),
            cluster: self.foundation.cluster.clone(),
            sender: Arc::new(self.foundation.endpoint.clone()),
            state: Mutex::default(),
            has_status_page: status_page,
            pages: self.pages.clone(),
            started_at: Instant::now(),
        }
    }
}

/// Whether this process has the gateway: of several processes of a machine, the first.
fn is_gateway(foundation: &Foundation<'_>) -> bool {
    let p2p: P2pSettings = foundation.settings.section();
    p2p.is_on() && foundation.cluster.is_first_of_machine()
}

/// The availability of pages, if any process asks for it. The processes without the gateway send theirs to the one
/// that has it. So do the processes of machines without one: another machine may have it.
fn availability(foundation: &Foundation<'_>, has_neighbours: bool) -> Option<Arc<Availability>> {
    let Foundation { settings, .. } = foundation;
    let p2p: P2pSettings = settings.section();
    let may_be_asked = p2p.is_on() || has_neighbours || settings.cluster.is_on();
    let knows_all = is_gateway(foundation) || has_neighbours;
    let link = || foundation.link(part_name("availability"));
    may_be_asked.then(|| Arc::new(Availability::new(link(), knows_all)))
}

/// The web client, the hosts of sites, the deny-list, the gateway and STUN.
struct PageServices {
    /// The rows of pages and sprites for `GET /limits`.
    limits: Value,
    deny_calls: Arc<DenyCalls>,
    availability: Option<Arc<Availability>>,
    /// `None` without neighbours.
    elsewhere: Option<Arc<Elsewhere>>,
    own_client_key: OwnClientKey,
    /// `None`: this process has no gateway.
    host_metrics: Option<HostMetrics>,
    announced: Option<Announced>,
    stun_address: Arc<OnceLock<Announced>>,
    stun_metrics: StunMetrics,
    /// Whether to log that a client cannot reach STUN, which is answered on loopback addresses only.
    warns_of_local_stun: AtomicBool,
    metrics: Arc<Metrics>,
    sites: Arc<SiteHosts>,
    loads: Arc<PageLoads>,
    public_url: String,
    report: String,
    has_rooms: bool,
    /// The limits of the gateway; `None` without one.
    p2p: Option<Value>,
}

impl Part for PageServices {
    fn routes(self: Arc<Self>) -> Router {
        sites::app_routes(self.sites.clone(), &self.public_url, self.loads.clone())
    }

    /// Answers the hosts of sites with their shell only.
    fn layer(self: Arc<Self>, routes: Router) -> Router {
        let shell = SiteShell { hosts: self.sites.clone(), metrics: self.metrics.clone() };
        routes.layer(from_fn_with_state(shell, restrict_site_hosts))
    }

    fn gate(self: Arc<Self>) -> Option<Arc<dyn Gate>> {
        Some(self)
    }

    fn describe_limits(&self, host: Option<&str>, response: &mut Map<String, Value>) {
        let report = Some(self.report.as_str()).filter(|report| !report.is_empty());
        // `null` when this client has no sites.
        let sites = host.and_then(|host| self.sites.site_authority(host));
        for (name, value) in [
            ("p2p", self.p2p.clone().into()),
            ("report", report.into()),
            ("rooms", self.has_rooms.into()),
            ("sites", sites.into()),
        ] {
            response.insert(name.to_owned(), value);
        }
        if let (Some(Value::Object(all)), Value::Object(own)) =
            (response.get_mut("limits"), &self.limits)
        {
            all.extend(own.clone());
        }
    }

    fn operator_routes(self: Arc<Self>) -> Router {
        self.deny_calls.clone().routes()
    }

    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self.deny_calls.clone()]
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        self.stun_metrics.write_metrics(writer);
        if let Some(metrics) = &self.host_metrics {
            metrics.write_metrics(writer);
        }
    }

    fn start(
        self: Arc<Self>,
        started: &Started<'_>,
    ) -> Result<Option<Box<dyn Running>>, FeatureError> {
        Ok(Some(Box::new(self.start_threads(started)?)))
    }
}

impl PageServices {
    /// Starts the responder of STUN, the gateway, and the watch over the deny-list.
    fn start_threads(&self, started: &Started<'_>) -> Result<RunningPages, PagesError> {
        let stun = self.start_stun(started)?;
        let gateway = self.availability.clone().zip(self.host_metrics.clone());
        let gateway = gateway.map(|(availability, host_metrics)| {
            availability.subscribe();
            let connector = SocketPairConnector {
                adopter: started.adopter.clone(),
                websocket_path: started.websocket_path.to_owned(),
                key: self.own_client_key.clone(),
            };
            Gateway::start(
                &started.settings.section(),
                connector,
                availability,
                self.elsewhere.clone(),
                host_metrics,
                started.is_successor,
            )
        });
        let pages = self.deny_calls.pages.clone();
        let deny_watch =
            DenyListWatcher::start(&self.deny_calls.deny_list, move || pages.end_denied());
        Ok(RunningPages {
            gateway: gateway.transpose().map_err(PagesError::Gateway)?,
            _stun: stun,
            _deny_watch: deny_watch.map_err(PagesError::Thread)?,
        })
    }

    fn start_stun(&self, started: &Started<'_>) -> Result<Option<stun::Responder>, PagesError> {
        let Started { addresses, is_shared, processes, .. } = *started;
        let settings: StunSettings = started.settings.section();
        let announced = self.announced.clone();
        let opened = stun::open(&settings, announced, addresses, is_shared, processes)?;
        let Some((responder, address)) = opened else { return Ok(None) };
        self.stun_metrics.0.set(responder.counters()).ok();
        let is_local = responder.addresses().iter().all(|at| at.ip().is_loopback());
        if is_local && settings.announce.is_empty() && started.is_first {
            tracing::info!(
                "STUN is answered on this machine only; for browsers elsewhere, set stun.listen \
                 and stun.announce to a public address"
            );
            self.warns_of_local_stun.store(true, Ordering::Relaxed);
        }
        self.stun_address.set(address).ok();
        Ok(Some(responder))
    }
}

/// The threads of pages, which end when this is dropped.
pub struct RunningPages {
    gateway: Option<Gateway>,
    _stun: Option<stun::Responder>,
    _deny_watch: Option<DenyListWatcher>,
}

impl RunningPages {
    /// The addresses on which the gateway to libp2p peers listens, each with its peer id at the end. None
    /// without a gateway, in a process that does not have it, and while it waits for a port in use.
    pub fn gateway_addresses(&self) -> Vec<String> {
        let addresses = self.gateway.iter().flat_map(|gateway| gateway.addresses());
        addresses.map(ToString::to_string).collect()
    }
}

impl Running for RunningPages {
    /// Ends the gateway, whose page clients are clients of the event loops.
    fn drain(&mut self) {
        self.gateway.take();
    }
}

/// A request to the host of a site goes to the router, because such a host has no sockets. The first client that
/// cannot reach STUN is logged.
impl Gate for PageServices {
    fn judge(&self, head: &RequestHead<'_>, client: &dyn Fn() -> IpAddr) -> Verdict {
        if is_first_outside(&self.warns_of_local_stun, client) {
            tracing::warn!(
                client = %client(),
                "browsers behind a proxy cannot reach STUN, because the server answers it only on \
                 loopback addresses; they use the relay. Set stun.listen and stun.announce to a \
                 public address, or stun.enabled = false"
            );
        }
        match self.sites.target_of(head.headers("host"), head.authority()) {
            RequestTarget::App => Verdict::Pass,
            _ => Verdict::HttpOnly,
        }
    }
}

/// Whether to log that this client cannot reach STUN; true for one client.
fn is_first_outside(warns: &AtomicBool, client: &dyn Fn() -> IpAddr) -> bool {
    warns.load(Ordering::Relaxed)
        && !client().to_canonical().is_loopback()
        && warns.swap(false, Ordering::Relaxed)
}

/// The limits of the gateway; `None` without one.
fn gateway_limits(settings: &P2pSettings) -> Option<Value> {
    settings.is_on().then(|| section_limits(settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_stun_is_logged_once() {
        let warns = AtomicBool::new(false);
        let is_first = |client: &str| is_first_outside(&warns, &|| client.parse().unwrap());
        assert!(!is_first("192.0.2.1"), "STUN may be reachable");
        warns.store(true, Ordering::Relaxed);
        assert!(!is_first("::ffff:127.0.0.1"));
        assert!(is_first("192.0.2.1"));
        assert!(!is_first("192.0.2.1"));
    }

    #[test]
    fn every_limit_of_pages_is_listed() {
        let listed = section_limits(&PageLimits::default());
        assert_eq!(listed.as_object().unwrap().len(), 16);
        for (name, limit) in listed.as_object().unwrap() {
            assert!(limit["when_reached"].is_string(), "limits.{name}");
        }
    }

    #[test]
    fn every_limit_of_the_gateway_is_listed_when_there_is_one() {
        let listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
        let settings = P2pSettings { listen, ..P2pSettings::default() };
        let listed = gateway_limits(&settings).unwrap();
        for (name, value) in toml::Table::try_from(settings).unwrap() {
            if value.is_integer() {
                assert!(listed[&name]["value"].is_u64(), "{name} is not listed");
                assert!(listed[&name]["when_reached"].is_string(), "{name}");
            }
        }
    }
}
