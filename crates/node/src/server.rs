//! A server: settings, an application's channels and routes, and the shards that run them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use channels::PatternError;
use channels::handshake::{OriginPattern, OriginPatternError, OriginPolicy};
use edge::{Adopter, EdgeLimits, EdgeSettings, Listeners, TlsFiles};
use pages::{PageLimits, QuotaLimits};
use vocab::NodeId;

use crate::addresses::Addresses;
use crate::app::{Channel, Connect, Connected, Refused, Registry};
use crate::builtin::{PageChannel, Rooms, SITE_TOPIC, Site, Sprites};
use crate::cluster::Cluster;
use crate::denied::{self, Denied, DenyFileError};
use crate::endpoint::Endpoint;
use crate::http;
use crate::metrics::{Exposition, Metrics, Sources};
use crate::page_board::{PageBoard, PageRules};
use crate::planes::{PlaneLimits, Planes};
use crate::presence::PresenceBoard;
use crate::seed::Seed;
use crate::settings::{Settings, TOKEN_BYTES_MIN};
use crate::shard::{Mail, Shard};
use crate::sites::{SiteHosts, SitesError};
use crate::stun_desk;
use crate::token::TokenKey;
use crate::world::World;
use crate::worlds::{Encounters, STANDINGS_TOPIC, Standings, VisitKey, Worlds, WorldsError};

/// A drain is never slower than this for each client.
const DRAIN_PACE: Duration = Duration::from_millis(50);

/// What an application does once clients can come.
type OnStart = Box<dyn FnOnce(&Endpoint)>;

/// A server that does not run yet.
///
/// ```
/// use node::{Server, Settings};
///
/// let mut settings = Settings::default();
/// settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
/// let server = Server::new(settings).with_pages().start().unwrap();
/// assert_ne!(server.address().port(), 0);
/// ```
pub struct Server {
    settings: Settings,
    registry: Registry,
    routes: Router,
    has_pages: bool,
    on_start: Vec<OnStart>,
    /// The first channel that could not be registered: told when the server starts.
    bad_pattern: Option<StartError>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket, certificate or limit of the machine is in the way.
    #[error(transparent)]
    Edge(#[from] edge::StartError),
    /// An entry of `socket.check_origin` is no origin.
    #[error("socket.check_origin: {0}")]
    Origin(#[from] OriginPatternError),
    /// `tls.cert` and `tls.key` go together.
    #[error("tls.cert and tls.key must both be set, or neither")]
    HalfTls,
    /// `socket.mount` is no path.
    #[error("socket.mount must begin with / and end without one, and hold no braces: {mount:?}")]
    Mount {
        /// What it is.
        mount: String,
    },
    /// A channel's topic pattern is wrong.
    #[error("the channel {pattern:?}: {source}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: PatternError,
    },
    /// `stun.announce` is no host and port.
    #[error(
        "stun.announce must be a host and a port, such as \"stun.example.org:3478\": {announce:?}"
    )]
    Announce {
        /// What it is.
        announce: String,
    },
    /// Sites cannot be where the settings want them.
    #[error(transparent)]
    Sites(#[from] SitesError),
    /// STUN cannot be answered where it is asked for.
    #[error("stun.listen: {0}")]
    Stun(#[from] stun::StartError),
    /// Peers of libp2p cannot be met.
    #[error("p2p: {0}")]
    Worlds(#[from] WorldsError),
    /// The deny-list cannot be used.
    #[error("pages.deny_file: {0}")]
    DenyFile(#[from] DenyFileError),
    /// `pages.report` is nothing that a browser could follow.
    #[error("pages.report must begin with https://, http:// or mailto:, not be {report:?}")]
    Report {
        /// What it is.
        report: String,
    },
    /// `admin.token` could be guessed.
    #[error("admin.token must have at least {TOKEN_BYTES_MIN} bytes")]
    ShortToken,
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The system gave no random bytes.
    #[error("the system gave no random bytes: {0}")]
    NoRandomness(#[from] getrandom::Error),
}

impl Server {
    /// A server without channels.
    pub fn new(settings: Settings) -> Self {
        Server {
            settings,
            registry: Registry::default(),
            routes: Router::new(),
            has_pages: false,
            on_start: Vec::new(),
            bad_pattern: None,
        }
    }

    /// Answer for the topics of a pattern: exact, or a prefix and one `*` at the end. The first
    /// pattern that matches a topic wins.
    pub fn channel(mut self, pattern: &str, channel: impl Channel) -> Self {
        if let Err(source) = self.registry.add(pattern, channel) {
            let pattern = pattern.to_owned();
            self.bad_pattern.get_or_insert(StartError::Pattern { pattern, source });
        }
        self
    }

    /// Decide which sockets are let in; without this, all are.
    pub fn on_connect(
        mut self,
        rule: impl Fn(&Connect<'_>) -> Result<Connected, Refused> + Send + Sync + 'static,
    ) -> Self {
        self.registry.on_connect = Arc::new(rule);
        self
    }

    /// Do this once clients can come, in each process that serves them: with the handle, an
    /// application's own tasks can broadcast and push.
    ///
    /// ```
    /// use node::{Server, Settings};
    ///
    /// let mut settings = Settings::default();
    /// settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    /// let (sender, handles) = std::sync::mpsc::channel();
    /// let server = Server::new(settings)
    ///     .on_start(move |endpoint| sender.send(endpoint.clone()).unwrap())
    ///     .start()
    ///     .unwrap();
    /// let shout = serde_json::json!({ "from": "a task" });
    /// handles.recv().unwrap().broadcast("orders:42", "shout", shout).unwrap();
    /// ```
    pub fn on_start(mut self, act: impl FnOnce(&Endpoint) + 'static) -> Self {
        self.on_start.push(Box::new(act));
        self
    }

    /// Serve an application's own HTTP routes too.
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Be a watchfire: serve the web client, and answer for `page:*`, `rooms:*`, `sprites:*`
    /// and `site`.
    pub fn with_pages(mut self) -> Self {
        self.has_pages = true;
        self
    }

    /// Open the listeners and start the shards, in this process alone: see [`Server::run`].
    pub fn start(self) -> Result<RunningServer, StartError> {
        self.start_as(Part::alone()?)
    }

    /// Start what this process is of the server.
    pub(crate) fn start_as(self, part: Part) -> Result<RunningServer, StartError> {
        let Part { cluster, secret, inherited, joined } = part;
        let Server { settings, mut registry, routes, has_pages, on_start, bad_pattern } = self;
        bad_pattern.map_or(Ok(()), Err)?;
        let mount = settings.socket.mount.clone();
        let is_path =
            mount.starts_with('/') && !mount.ends_with('/') && !mount.contains(['{', '}']);
        if !is_path {
            return Err(StartError::Mount { mount });
        }
        let announced = stun_desk::announced(&settings.stun)?;
        if !settings.pages.report_is_address() {
            return Err(StartError::Report { report: settings.pages.report });
        }
        if (1..TOKEN_BYTES_MIN).contains(&settings.admin.token.len()) {
            return Err(StartError::ShortToken);
        }
        let denied = Arc::new(Denied::open(&settings.pages.deny_file)?);
        let sites = if has_pages { SiteHosts::new(&settings.sites)? } else { SiteHosts::none() };
        let is_shared = inherited.is_some();
        let seed = getrandom::u64()?;
        let common = Seed::from(&secret);
        let cluster = Arc::new(cluster);
        let endpoint = Endpoint::unconnected(cluster.clone());
        let metrics = Arc::new(Metrics::default());
        let rules = page_rules(&settings, denied.clone());
        let is_home = cluster.me() == NodeId(0);
        let meets_worlds = has_pages && settings.p2p.is_on();
        let standings = meets_worlds.then(|| Arc::new(Standings::new(cluster.clone(), is_home)));
        // Of several processes, one meets other worlds, and the others tell it of their pages.
        let encounters = (meets_worlds && is_home).then(Encounters::default);
        let visit_key = VisitKey::new()?;
        let pages =
            PageBoard::new(rules, common, endpoint.clone(), cluster.clone(), standings.clone());
        let pages = Arc::new(pages);
        let presence = Arc::new(PresenceBoard::new(seed, &cluster));
        let addresses = Arc::new(Addresses::new(&settings.limits));
        let sessions = TokenKey::new(random_secret()?);
        let places = TokenKey::new(secret);
        let planes = has_pages.then(|| {
            let (limits, addresses) = (plane_limits(&settings), addresses.clone());
            Arc::new(Planes::new(limits, common, endpoint.clone(), cluster.clone(), addresses))
        });
        if let Some(planes) = &planes {
            let sprites = Sprites {
                planes: planes.clone(),
                metrics: metrics.clone(),
                places: places.clone(),
                throw_bytes_max: settings.limits.throw_bytes_max,
            };
            registry.add("sprites:*", sprites).expect("a good pattern");
        }
        let site_reads = Arc::<AtomicU64>::default();
        let stun_announced = Arc::<OnceLock<_>>::default();
        let stun_counters = Arc::<OnceLock<_>>::default();
        if has_pages {
            let page_channel = PageChannel {
                board: pages.clone(),
                metrics: metrics.clone(),
                relay_frame_bytes_max: settings.limits.relay_frame_bytes_max,
                signal_bytes_max: settings.limits.signal_bytes_max,
                stun: stun_announced.clone(),
                visit_key: visit_key.clone(),
            };
            let site = Site {
                metrics: metrics.clone(),
                cluster: cluster.clone(),
                reads: site_reads.clone(),
            };
            registry.add("page:*", page_channel).expect("a good pattern");
            registry.add("rooms:*", Rooms).expect("a good pattern");
            registry.add(SITE_TOPIC, site).expect("a good pattern");
        }
        let edge_settings = EdgeSettings { inherited, ..edge_settings(&settings)? };
        let edge_counters = Arc::new(OnceLock::new());
        let sources = Sources {
            pages: pages.clone(),
            presence: presence.clone(),
            planes: planes.clone(),
            cluster: cluster.clone(),
            edge: edge_counters.clone(),
            stun: stun_counters.clone(),
            encounters: encounters.clone(),
        };
        let exposition = Arc::new(Exposition::new(&metrics, sources));
        let world = Arc::new(World {
            origins: origins(&settings.socket.check_origin)?,
            sites,
            cluster,
            endpoint: endpoint.clone(),
            presence,
            pages,
            denied,
            standings,
            visit_key,
            planes,
            metrics,
            site_reads,
            addresses,
            sessions,
            places,
            websocket_path: format!("{mount}/websocket"),
            longpoll_path: format!("{mount}/longpoll"),
            registry,
            settings,
        });
        // The others are heard before the first client is.
        joined(&world, &exposition);
        let site = http::Site { world: world.clone(), exposition };
        let router = http::router(site, has_pages, routes);
        let shard_world = world.clone();
        let edge = edge::start(edge_settings, router, move |id, mailboxes| {
            shard_world.endpoint.connect(mailboxes);
            Shard::new(id, shard_world.clone(), seed ^ u64::from(id.0))
        })?;
        edge_counters.set(edge.counters()).ok();
        let mut stun = None;
        if has_pages {
            let serving = edge.local_addrs();
            let settings = &world.settings.stun;
            if let Some((responder, told)) =
                stun_desk::open(settings, announced, serving, is_shared)?
            {
                stun_counters.set(responder.counters()).ok();
                stun_announced.set(told).ok();
                stun = Some(responder);
            }
        }
        let worlds = world.standings.clone().zip(encounters).map(|(standings, encounters)| {
            // What the others know is told as soon as they hear of this.
            let _ = world.cluster.subscribe(STANDINGS_TOPIC);
            Worlds::start(&world, standings, edge.adopter(), encounters)
        });
        let worlds = worlds.transpose()?;
        let board = world.pages.clone();
        let deny_watch = denied::Watch::start(&world.denied, move || board.end_denied())
            .map_err(StartError::Thread)?;
        for act in on_start {
            act(&endpoint);
        }
        Ok(RunningServer { worlds, edge, endpoint, world, _stun: stun, _deny_watch: deny_watch })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }
}

/// Called when there is something that can hear the other processes.
type Joined = Box<dyn FnOnce(&Arc<World>, &Arc<Exposition>)>;

/// What a process is of the whole server.
pub(crate) struct Part {
    pub cluster: Cluster,
    /// Known to all processes, and to nobody else.
    pub secret: [u8; 32],
    pub inherited: Option<Listeners>,
    pub joined: Joined,
}

impl Part {
    /// All of it.
    fn alone() -> Result<Self, getrandom::Error> {
        Ok(Part {
            cluster: Cluster::alone(),
            secret: random_secret()?,
            inherited: None,
            joined: Box::new(|_, _| {}),
        })
    }
}

pub(crate) fn random_secret() -> Result<[u8; 32], getrandom::Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    Ok(secret)
}

/// A server that runs, until it is stopped or dropped.
pub struct RunningServer {
    /// Before the event loops, through which its visits go.
    worlds: Option<Worlds>,
    edge: edge::Edge<Mail>,
    endpoint: Endpoint,
    world: Arc<World>,
    /// Answers until it is dropped.
    _stun: Option<stun::Responder>,
    /// Looks at the deny-list until it is dropped.
    _deny_watch: Option<denied::Watch>,
}

impl RunningServer {
    /// The first address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.edge.local_addr()
    }

    /// A handle for broadcasts and pushes from any thread.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Open websockets and long-poll sessions.
    pub fn clients(&self) -> u64 {
        self.world.metrics.clients()
    }

    /// What takes in connections that another process hands over.
    pub(crate) fn adopter(&self) -> Adopter {
        self.edge.adopter()
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Stop accepting, and close every socket with 1012, spread over
    /// [`RunningServer::drain_period`].
    pub async fn drain(mut self) {
        drop(self.worlds.take());
        self.edge.drain(self.drain_period()).await;
    }

    /// How long a drain would spread its closes over: `server.drain_period`, or less for few
    /// clients, whose return is no rush.
    pub fn drain_period(&self) -> Duration {
        let clients = u32::try_from(self.clients()).unwrap_or(u32::MAX);
        self.world.settings.server.drain_period.min(DRAIN_PACE.saturating_mul(clients))
    }
}

fn origins(entries: &[String]) -> Result<OriginPolicy, OriginPatternError> {
    match entries {
        [entry] if entry == "any" => Ok(OriginPolicy::Any),
        [entry] if entry == "same" => Ok(OriginPolicy::SameOrigin),
        entries => {
            let patterns = entries.iter().map(|entry| entry.parse::<OriginPattern>());
            Ok(OriginPolicy::List(patterns.collect::<Result<_, _>>()?))
        }
    }
}

fn page_rules(settings: &Settings, denied: Arc<Denied>) -> PageRules {
    let limits = &settings.limits;
    let last_lit_kept = settings.pages.last_lit_kept;
    let quotas = QuotaLimits {
        pages_max: limits.pages_per_address_max as usize,
        relay_bytes_per_second: limits.relay_bytes_per_second_address,
        relay_burst: PageLimits::default().relay_burst,
        relay_bytes_per_day: limits.relay_bytes_per_day_address,
    };
    let limits = PageLimits {
        peers_per_page_max: limits.peers_per_page_max as usize,
        pages_max: limits.pages_max as usize,
        relay_bytes_per_second_page: limits.relay_bytes_per_second,
        relay_bytes_per_second_peer: limits.relay_bytes_per_second_peer,
        signals_per_second_peer: limits.signals_per_second_max.into(),
        ..PageLimits::default()
    };
    PageRules { limits, quotas, last_lit_kept, denied }
}

fn plane_limits(settings: &Settings) -> PlaneLimits {
    let limits = &settings.limits;
    PlaneLimits {
        planes_max: limits.planes_max as usize,
        peers_max: limits.plane_peers_max as usize,
        arrivals_queued_max: limits.arrivals_queued_max as usize,
        vacancy_period: settings.socket.vacancy_period,
    }
}

pub(crate) fn edge_settings(settings: &Settings) -> Result<EdgeSettings, StartError> {
    let Settings { server, socket, tls, limits, .. } = settings;
    let is_set = |path: &PathBuf| !path.as_os_str().is_empty();
    let tls = match (is_set(&tls.cert), is_set(&tls.key)) {
        (true, true) => Some(TlsFiles { cert: tls.cert.clone(), key: tls.key.clone() }),
        (false, false) => None,
        _ => return Err(StartError::HalfTls),
    };
    Ok(EdgeSettings {
        listen: server.listen.clone(),
        shards: usize::from(server.shards),
        limits: EdgeLimits {
            message_bytes_max: limits.frame_bytes_max as usize,
            partial_bytes_max: limits.partial_bytes_max as usize,
            queued_bytes_max: limits.queued_bytes_max as usize,
            idle_timeout: socket.idle_timeout,
            slow_timeout: socket.slow_timeout,
            sockets_max: limits.sockets_max as usize,
            ..EdgeLimits::default()
        },
        tls,
        inherited: None,
    })
}
