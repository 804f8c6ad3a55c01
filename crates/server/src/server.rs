//! Puts the server together: settings, features, an application's channels and routes, and the
//! shards that run them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::Uri;
use ::http::uri::Authority;
use axum::Router;
use tokio::time::timeout;
use watchfire_channels::PatternError;
use watchfire_channels::handshake::{OriginPattern, OriginPatternError, OriginPolicy};
use watchfire_channels::longpoll::LongPollLimits;
use watchfire_sockets::{
    Adopter, Listeners, LoopPanic, LoopWatch, ProxyProtocol, SocketLimits, SocketServerSettings,
};

use crate::addresses::Addresses;
use crate::api::{AnswersFeature, ApiFeature, ApiKeyError, AskedParts, Keys};
use crate::auth::{self, Auth, AuthError, FetchGuard};
use crate::channel_api::{Channel, Connect, Connected, Endpoint, Refused, Registry, ShardMessage};
use crate::cluster::{Cluster, ClusterPart, PartLink, PartName, ReportWaker, Reporter};
use crate::feature::{Feature, Foundation, Started};
use crate::history::{History, HistorySource};
use crate::hooks::{self, HookError, HookThread};
use crate::http;
use crate::machines::{self, ClusterError};
use crate::memory::{MemoryReturn, ReturnMemory};
use crate::metrics::{MetricSource, MetricWriter, Metrics};
use crate::operator::{
    self, Access, AdminError, AdminListeners, AdminServer, DeniedAddresses, MetricsPage,
    OperatorParts, OperatorView, ProfileCalls, RecorderThread, TroubleMetrics,
};
use crate::own_client::OwnClientKey;
use crate::page_features::{PageFeatures, PagesError, RunningPages, site_hosts};
use crate::presence::ReplicatedPresence;
use crate::proxies::{NetworkError, TrustedProxies};
use crate::rules::RuleFeature;
use crate::seed::Seed;
use crate::service_manager;
use crate::settings::{RuleError, ServerSettings, Settings, TOKEN_BYTES_MIN};
use crate::shard::{ConnectHook, ConnectRules, RefusedOrigins, Shard, Shared};
use crate::sites::SiteHosts;
use crate::tls::{TlsPlan, TlsStartError, TlsThread, TlsThreadSetup};
use crate::token::TokenKey;
use crate::traces::{self, TracesError};

/// The longest time that a drain spends on each client.
const DRAIN_PACE: Duration = Duration::from_millis(50);

/// How long event loops may take after a drain that follows a panic. Then the process ends anyway.
const PANIC_GRACE: Duration = Duration::from_secs(3);

/// How long a new server waits for the keys of tokens before it takes over.
const PREPARATION: Duration = Duration::from_secs(10);

/// The file of the operator's history, in the service's state folder.
const HISTORY_FILE: &str = "operator-history";

/// An application's action once clients can connect.
type OnStart = Box<dyn FnOnce(&Endpoint)>;

/// A server that has not started.
///
/// ```
/// use watchfire::{Server, Settings};
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
    return_memory: Option<ReturnMemory>,
    /// The first channel with an invalid pattern, which [`Server::start`] reports.
    bad_pattern: Option<StartError>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A listener or a system limit.
    #[error(transparent)]
    Sockets(#[from] watchfire_sockets::StartError),
    /// `server.listen` is empty.
    #[error("cannot start without an address: set server.listen")]
    NoAddress,
    /// Two addresses to listen on exclude each other.
    #[error(
        "cannot listen on {address}: {earlier} has its port; remove one of them from server.listen or admin.listen, or choose another port"
    )]
    TakenAddress {
        /// The later address.
        address: SocketAddr,
        /// The address before it.
        earlier: SocketAddr,
    },
    /// An embedded server has settings for a listener of its own.
    #[error(
        "cannot embed a server with {setting}: the application has the listener, and decides about it"
    )]
    Embedded {
        /// The setting, or the section of settings.
        setting: &'static str,
    },
    /// An entry of `socket.check_origin` is not an origin.
    #[error("socket.check_origin: {0}")]
    Origin(#[from] OriginPatternError),
    /// An entry of `server.trusted_proxies` is not a network.
    #[error("server.trusted_proxies: {0}")]
    Network(#[from] NetworkError),
    /// `server.public_url` is not a URL.
    #[error("cannot use server.public_url {url:?}: write an address such as https://example.org")]
    PublicUrl {
        /// The value of the setting.
        url: String,
    },
    /// An entry of `server.proxy_protocol` is not among the addresses to listen on.
    #[error(
        "cannot use server.proxy_protocol {address}: the server does not listen there; add the address to server.listen"
    )]
    ProxyProtocol {
        /// The entry.
        address: SocketAddr,
    },
    /// TLS cannot start.
    #[error(transparent)]
    Tls(#[from] TlsStartError),
    /// `socket.mount` is not a valid path.
    #[error(
        "cannot use socket.mount {mount:?}: it must be a path such as /socket, without a / at its end, spaces, ?, #, braces or dots as a part"
    )]
    Mount {
        /// The value of the setting.
        mount: String,
    },
    /// The topic pattern of a channel is invalid.
    #[error("cannot register the channel {pattern:?}: {source}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why it is invalid.
        source: PatternError,
    },
    /// A rule of `channels.rules` is invalid.
    #[error("channels.rules: {0}")]
    Rule(#[from] RuleError),
    /// The keys of clients' tokens cannot be used.
    #[error("auth: {0}")]
    Auth(#[from] AuthError),
    /// The backend of hooks cannot be used.
    #[error("hooks: {0}")]
    Hooks(#[from] HookError),
    /// The features of pages cannot start.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// An entry of `log.request_paths` is not the beginning of a path.
    #[error("cannot use log.request_paths {path:?}: a path begins with /, such as /api/")]
    RequestPath {
        /// The entry.
        path: String,
    },
    /// A setting is zero, and the server could serve no client.
    #[error(
        "cannot use {setting} = 0: the server could serve no client; remove it to use its default"
    )]
    Zero {
        /// The name of the setting.
        setting: &'static str,
    },
    /// `pages.report` is not an address that a browser can open.
    #[error("cannot use pages.report {report:?}: it must begin with https://, http:// or mailto:")]
    Report {
        /// The value of the setting.
        report: String,
    },
    /// The settings of the cluster are invalid.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The operator's listener cannot start.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// `admin.token` is too short.
    #[error("cannot use admin.token: it must have at least {TOKEN_BYTES_MIN} bytes")]
    ShortToken,
    /// The keys of the HTTP API cannot be used.
    #[error(transparent)]
    Api(#[from] ApiKeyError),
    /// Traces cannot be sent.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The operating system returned no random bytes.
    #[error("cannot generate a key: the operating system returned no random bytes: {0}")]
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
            return_memory: None,
            bad_pattern: None,
        }
    }

    /// Adds a channel for the topics of a pattern: an exact topic, or a prefix with one `*` at the
    /// end. The first pattern that matches a topic wins.
    pub fn channel(mut self, pattern: &str, channel: impl Channel) -> Self {
        if let Err(source) = self.registry.add(pattern, channel) {
            let pattern = pattern.to_owned();
            self.bad_pattern.get_or_insert(StartError::Pattern { pattern, source });
        }
        self
    }

    /// Sets the rule that accepts or refuses sockets. Without a rule, all are accepted.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use watchfire::{Connected, Refused, Server, Settings};
    ///
    /// let server = Server::new(Settings::default()).on_connect(|connect| {
    ///     let name = connect.params.text("name").ok_or(Refused)?;
    ///     let id = Some(format!("users:{name}"));
    ///     Ok(Connected { id, assigns: Some(Arc::new(name.to_owned())) })
    /// });
    /// ```
    pub fn on_connect(
        mut self,
        rule: impl Fn(&Connect<'_>) -> Result<Connected, Refused> + Send + Sync + 'static,
    ) -> Self {
        self.registry.on_connect = Arc::new(rule);
        self
    }

    /// Adds an action for the start of the server, in each process that serves clients. With the
    /// handle, an application's own tasks can broadcast and push.
    ///
    /// ```
    /// use watchfire::{Server, Settings};
    ///
    /// let mut settings = Settings::default();
    /// settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    /// let (sender, handles) = std::sync::mpsc::channel();
    /// let server = Server::new(settings)
    ///     .on_start(move |endpoint| sender.send(endpoint.clone()).unwrap())
    ///     .start()
    ///     .unwrap();
    /// let note = serde_json::json!({ "from": "a task" });
    /// handles.recv().unwrap().broadcast("orders:42", "note", note).unwrap();
    /// ```
    pub fn on_start(mut self, act: impl FnOnce(&Endpoint) + 'static) -> Self {
        self.on_start.push(Box::new(act));
        self
    }

    /// Sets the function that returns the allocator's free memory to the operating system. It is
    /// called after a crowd of clients has left, on a thread of its own. Which function does that
    /// depends on the allocator of the program; with glibc it is `malloc_trim`.
    pub fn return_memory_with(mut self, act: fn()) -> Self {
        self.return_memory = Some(act);
        self
    }

    /// Adds an application's own HTTP routes.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use watchfire::{Server, Settings};
    ///
    /// let routes = Router::new().route("/hello", get(async || "hello"));
    /// let server = Server::new(Settings::default()).routes(routes);
    /// ```
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Serves the web client, and the topics `page:*`, `sprites:*` and `site`; with
    /// `channels.open_rooms`, also `rooms:*`.
    #[cfg(feature = "pages")]
    pub fn with_pages(mut self) -> Self {
        self.has_pages = true;
        self
    }

    /// Opens the listeners and starts the shards, in this process only: see [`Server::run`].
    pub fn start(self) -> Result<RunningServer, StartError> {
        check_listen(&self.settings)?;
        self.start_as(ProcessRole::alone()?)
    }

    /// Checks the settings and the files that they name, without starting anything. Returns what the
    /// server would do about STUN and TLS, a line for each part.
    ///
    /// ```
    /// use watchfire::{Server, Settings};
    ///
    /// let mut settings = Settings::default();
    /// assert!(Server::new(settings.clone()).check().is_ok());
    /// settings.server.public_url = "example.org".into();
    /// let error = Server::new(settings).check().unwrap_err();
    /// assert!(error.to_string().starts_with("cannot use server.public_url"));
    /// ```
    pub fn check(&self) -> Result<Vec<String>, StartError> {
        let settings = &self.settings;
        check_listen(settings)?;
        check(settings)?;
        let mut lines = match self.has_pages {
            true => PageFeatures::check(settings)?,
            false => Vec::new(),
        };
        auth::open(&settings.auth)?;
        hooks::open(&settings.hooks)?;
        origins(&settings.socket.check_origin)?;
        public_host(&settings.server.public_url)?;
        proxy_protocol(&settings.server, &trusted_proxies(&settings.server)?)?;
        lines.extend(TlsPlan::check(settings)?);
        Ok(lines)
    }

    /// Starts this process of the server.
    pub(crate) fn start_as(self, role: ProcessRole) -> Result<RunningServer, StartError> {
        let ProcessRole { cluster, secret, inherited, admin_listeners, is_successor, on_parts } =
            role;
        let Server {
            settings,
            mut registry,
            routes,
            has_pages,
            on_start,
            return_memory,
            bad_pattern,
        } = self;
        bad_pattern.map_or(Ok(()), Err)?;
        check(&settings)?;
        let auth = auth::open(&settings.auth)?;
        let hooks = hooks::open(&settings.hooks)?;
        let sites = if has_pages { site_hosts(&settings)? } else { SiteHosts::none() };
        let origins = origins(&settings.socket.check_origin)?;
        let public_host = public_host(&settings.server.public_url)?;
        let proxies = trusted_proxies(&settings.server)?;
        let inherits_listeners = inherited.is_some();
        let tls = match TlsPlan::new(&settings)? {
            Some(plan) => {
                let setup = TlsThreadSetup::open(&plan, inherits_listeners)?;
                Some((plan.open()?, plan, setup))
            }
            None => None,
        };
        let certificates = tls.as_ref().map(|(open, ..)| open.certificates.clone());
        let socket_settings = SocketServerSettings {
            inherited,
            tls: certificates,
            ..socket_settings(&settings, &proxies)?
        };
        let random_seed = getrandom::u64()?;
        let seed = Seed::from(&secret);
        let mount = &settings.socket.mount;
        let (websocket_path, longpoll_path) =
            (format!("{mount}/websocket"), format!("{mount}/longpoll"));

        let cluster = Arc::new(cluster);
        let has_history = settings.channels.rules.iter().any(|rule| rule.history.is_some());
        // Another machine may have other rules, and topics whose messages this one has to write.
        let history = (has_history || settings.cluster.is_on()).then(|| {
            let memory_bytes_max = settings.channels.history_bytes_max;
            let memory_bytes_max = usize::try_from(memory_bytes_max).unwrap_or(usize::MAX);
            let link = PartLink::new(&cluster, PartName::History);
            Arc::new(History::new(link, random_seed, memory_bytes_max))
        });
        let link = PartLink::new(&cluster, PartName::Endpoint);
        let endpoint = Endpoint::unconnected(link, history.clone());
        let sender = Arc::new(endpoint.clone());
        let metrics = Arc::new(Metrics::default());
        let link = PartLink::new(&cluster, PartName::Presence);
        let presence = Arc::new(ReplicatedPresence::new(random_seed, link, metrics.clone()));
        let (report_waker, report_wakes) = ReportWaker::new();
        let processes = match cluster.is_alone() {
            true => 1,
            false => u32::from(settings.server.processes.max(1)),
        };
        let link = PartLink::new(&cluster, PartName::Addresses);
        let waker = report_waker.clone();
        let addresses = Arc::new(Addresses::new(&settings.limits, processes, seed, link, waker));
        let own_client_key = OwnClientKey::new(&secret);
        let connect_hook = hooks.clone().filter(|hooks| hooks.decides_connects());
        let connect_hook =
            connect_hook.map(|hooks| ConnectHook { hooks, own_client_key: own_client_key.clone() });
        let page_features = has_pages.then(|| {
            PageFeatures::new(Foundation {
                settings: &settings,
                secret,
                seed,
                sender: &sender,
                cluster: &cluster,
                addresses: &addresses,
                metrics: &metrics,
                own_client_key: &own_client_key,
                report_waker,
            })
        });
        let page_features = page_features.transpose()?;
        if !cluster.is_alone() {
            let mut reporters: Vec<Arc<dyn Reporter>> = vec![addresses.clone()];
            reporters.extend(page_features.as_ref().map(PageFeatures::reporter));
            report_wakes.start(&reporters).map_err(StartError::Thread)?;
        }
        let mut features: Vec<Arc<dyn Feature>> = Vec::new();
        features.extend(page_features.iter().flat_map(PageFeatures::features).cloned());
        // Last, so that a topic of an application or of another feature stays theirs.
        let rules = settings.channels.rules.clone();
        features.push(Arc::new(RuleFeature::new(rules, auth.clone(), hooks.clone(), sender)));

        // A process without keys answers the questions of others, too.
        let answers = Arc::new(AnswersFeature::new(
            &settings,
            has_pages,
            AskedParts {
                endpoint: endpoint.clone(),
                presence: presence.clone(),
                metrics: metrics.clone(),
                history: history.clone(),
            },
            PartLink::new(&cluster, PartName::Api),
        ));
        let api = Keys::new(&settings)?;
        let api = api.map(|keys| Arc::new(ApiFeature::new(&settings, keys, &answers)));
        if api.is_some() || !cluster.is_alone() {
            features.push(answers);
        }
        features.extend(api.clone().map(|api| api as Arc<dyn Feature>));

        let mut sources: Vec<Arc<dyn MetricSource>> = vec![
            Arc::new(BuildInfo),
            metrics.clone(),
            Arc::new(cluster.clone()),
            Arc::new(PresenceMetrics(presence.clone())),
        ];
        if let Some((open, ..)) = &tls {
            sources.push(open.metrics(cluster.is_first_of_machine()));
        }
        sources.extend(page_features.iter().flat_map(PageFeatures::metric_sources));
        let mut added_routes = routes;
        let mut parts: Vec<Arc<dyn ClusterPart>> =
            vec![Arc::new(endpoint.clone()), presence.clone(), addresses.clone()];
        if let Some(history) = &history {
            parts.push(history.clone());
            sources.push(Arc::new(HistorySource(history.clone())));
        }
        for feature in &features {
            feature.clone().register_channels(&mut registry);
            added_routes = added_routes.merge(feature.clone().routes());
            sources.push(Arc::new(FeatureMetrics(feature.clone())));
            parts.extend(feature.cluster_parts());
        }
        if let Some(history) = &history {
            history.set_topics(registry.histories());
        }
        let troubles = Arc::new(TroubleMetrics::default());
        sources.push(troubles.clone());
        let link = |name| PartLink::new(&cluster, name);
        let metrics_page = Arc::new(MetricsPage::new(sources, link(PartName::Metrics)));
        parts.push(metrics_page.clone());
        let denied_addresses = Arc::new(DeniedAddresses::new(link(PartName::DeniedAddresses)));
        parts.push(denied_addresses.clone());
        let view = Arc::new(OperatorView::new(OperatorParts {
            link: link(PartName::Operator),
            endpoint: endpoint.clone(),
            metrics_page: metrics_page.clone(),
            troubles,
            denied_addresses: denied_addresses.clone(),
            limits: settings.limits.clone(),
            history_bytes_max: settings.channels.history_bytes_max,
            is_successor,
        }));
        parts.push(view.clone());
        let access = Arc::new(Access::new(&settings.admin.token, &metrics));
        parts.extend(page_features.as_ref().map(PageFeatures::cluster_part));
        let page_calls = page_features.as_ref().map(PageFeatures::admin_routes);
        let profiles = Arc::new(ProfileCalls::new(link(PartName::Profiles)));
        parts.push(profiles.clone());
        let calls = page_calls.unwrap_or_default().merge(view.clone().routes(access.clone()));
        let calls = calls.merge(profiles.routes(access.clone()));
        let admin_routes = operator::routes(metrics_page, calls);
        let admin_routes = match &api {
            Some(api) => admin_routes.merge(api.admin_routes()),
            None => admin_routes,
        };
        let admin_routes = http::log_requests(admin_routes, &settings.log);
        let serves_api = api.is_some_and(|api| api.is_on_admin());

        let shared = Arc::new(Shared {
            limits: settings.limits.clone(),
            longpoll: LongPollLimits {
                window: settings.socket.longpoll_window,
                queued_messages_max: settings.limits.longpoll_frames_max,
                queued_bytes_max: settings.limits.longpoll_bytes_max,
            },
            connect_rules: ConnectRules {
                origins,
                public_host,
                refused_origins: RefusedOrigins::default(),
                on_connect: registry.on_connect.clone(),
                hook: connect_hook,
                addresses: addresses.clone(),
                metrics: metrics.clone(),
            },
            proxies,
            registry,
            sites: Arc::new(sites),
            cluster: cluster.clone(),
            endpoint: endpoint.clone(),
            presence,
            history,
            metrics,
            addresses,
            denied_addresses,
            memory: MemoryReturn::new(return_memory),
            sessions: TokenKey::new(random_secret()?),
            websocket_path: websocket_path.clone(),
            longpoll_path,
            parking: features.iter().find_map(|feature| feature.parking()),
            features,
        });
        // Receives from the other processes before the first client connects.
        on_parts(&cluster, parts);
        let router = http::router(&shared, &settings, has_pages, auth.clone(), added_routes);
        let of_shards = shared.clone();
        let sockets = watchfire_sockets::start(socket_settings, router, move |id, shards| {
            of_shards.endpoint.connect(shards);
            Shard::new(id, of_shards.clone(), random_seed ^ u64::from(id.0))
        })?;
        shared.metrics.sockets.set(
            cluster.me().0,
            sockets.counters(),
            sockets.limits().sockets_max as u64,
        );
        let admin_listeners = match admin_listeners {
            Some(inherited) => inherited,
            None => AdminListeners::open(&settings.admin, is_successor)?,
        };
        let admin = AdminServer::start(admin_listeners, admin_routes, &access, serves_api)?;
        let recorder = match view.records() && !admin.addresses().is_empty() {
            true => {
                let file = service_manager::state_file(&settings.admin.history_file, HISTORY_FILE);
                Some(RecorderThread::start(view, file).map_err(StartError::Thread)?)
            }
            false => None,
        };
        let started = Started {
            settings: &settings,
            sockets: &sockets,
            proxies: &shared.proxies,
            websocket_path: &websocket_path,
            processes,
            is_first: cluster.is_first_of_machine(),
            is_shared: inherits_listeners,
            is_successor,
        };
        let pages = page_features.map(|features| features.start(&started)).transpose()?;
        let tls = tls.map(|(open, plan, setup)| {
            // One process orders certificates, like the gateway.
            let orders = cluster.is_first_of_machine();
            TlsThread::start(setup, plan, open, sockets.local_addr(), orders)
        });
        let tls = tls.transpose()?;
        let jwks = match &auth {
            Some(auth) => auth.start_fetching()?,
            None => None,
        };
        let hooks = hooks.map(|hooks| HookThread::start(&hooks, &endpoint)).transpose()?;
        for act in on_start {
            act(&endpoint);
        }
        Ok(RunningServer {
            pages,
            sockets,
            endpoint,
            cluster,
            metrics: shared.metrics.clone(),
            drain_period: settings.server.drain_period,
            admin,
            _recorder: recorder,
            auth,
            _jwks: jwks,
            hooks,
            tls,
            #[cfg(test)]
            shared,
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }
}

/// Receives the parts of this process, before clients connect.
type OnParts = Box<dyn FnOnce(&Arc<Cluster>, Vec<Arc<dyn ClusterPart>>)>;

/// The role of a process in its server.
pub(crate) struct ProcessRole {
    pub cluster: Cluster,
    /// Known only to the processes of the server.
    pub secret: [u8; 32],
    pub inherited: Option<Listeners>,
    /// `None`: the process opens them itself.
    pub admin_listeners: Option<AdminListeners>,
    /// Whether another server runs until this one is ready. It may use the same ports.
    pub is_successor: bool,
    pub on_parts: OnParts,
}

impl ProcessRole {
    /// The role of the only process.
    pub fn alone() -> Result<Self, getrandom::Error> {
        Ok(ProcessRole {
            cluster: Cluster::alone(),
            secret: random_secret()?,
            inherited: None,
            admin_listeners: None,
            is_successor: false,
            on_parts: Box::new(|_, _| {}),
        })
    }
}

/// The counts of a feature.
struct FeatureMetrics(Arc<dyn Feature>);

impl MetricSource for FeatureMetrics {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        self.0.write_metrics(writer);
    }
}

/// The version of the server.
struct BuildInfo;

impl MetricSource for BuildInfo {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        let labels = [("version", env!("CARGO_PKG_VERSION"))];
        writer.info("build_info", "The version of the server", &labels);
    }
}

/// The counts of presences.
struct PresenceMetrics(Arc<ReplicatedPresence>);

impl MetricSource for PresenceMetrics {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        writer.gauge("hub_presences", "Presences of this server's clients", self.0.len() as u64);
    }
}

/// Thirty-two random bytes for a key.
pub(crate) fn random_secret() -> Result<[u8; 32], getrandom::Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    Ok(secret)
}

/// A running server, which stops when it is dropped.
pub struct RunningServer {
    /// Dropped before the event loops, through which the page clients of its gateway connect.
    pages: Option<RunningPages>,
    pub(crate) sockets: watchfire_sockets::SocketServer<ShardMessage>,
    endpoint: Endpoint,
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    drain_period: Duration,
    /// Answers the operator until it is dropped.
    admin: AdminServer,
    /// Records what the operator sees, until it is dropped.
    _recorder: Option<RecorderThread>,
    /// `None`: the server reads no tokens.
    auth: Option<Arc<dyn Auth>>,
    /// Fetches the keys of clients' tokens until it is dropped.
    _jwks: Option<FetchGuard>,
    /// Sends requests to the backend until it is dropped.
    hooks: Option<HookThread>,
    /// Watches and orders certificates until it is dropped.
    tls: Option<TlsThread>,
    /// The state that event loops share, for the model of the server.
    #[cfg(test)]
    pub(crate) shared: Arc<Shared>,
}

impl RunningServer {
    /// The first address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.sockets.local_addr()
    }

    /// The addresses on which the server listens, in the order of the settings.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.sockets.local_addrs()
    }

    /// The addresses on which the operator is answered; none if the default one was in use.
    pub fn admin_addresses(&self) -> &[SocketAddr] {
        self.admin.addresses()
    }

    /// The addresses of `tls.redirect_listen`, with the ports that were bound.
    pub fn redirect_addresses(&self) -> &[SocketAddr] {
        self.tls.as_ref().map_or(&[], TlsThread::redirect_addresses)
    }

    /// The addresses on which the gateway to libp2p peers listens, each with its peer id at the end. None
    /// without a gateway, in a process that does not have it, and while it waits for a port in use.
    pub fn gateway_addresses(&self) -> Vec<String> {
        self.pages.as_ref().map(RunningPages::gateway_addresses).unwrap_or_default()
    }

    /// A handle for broadcasts and pushes from any thread.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// WebSockets and long-poll sessions that are open now.
    pub fn clients(&self) -> u64 {
        self.metrics.clients()
    }

    /// Accepts connections from another process.
    pub(crate) fn adopter(&self) -> Adopter {
        self.sockets.adopter()
    }

    /// A watch over the event loops of this process.
    pub(crate) fn loop_watch(&self) -> LoopWatch {
        self.sockets.loop_watch()
    }

    /// Returns when the server can take over from another one: it can verify tokens, or cannot
    /// fetch their keys at the moment.
    pub(crate) async fn prepared(&self) {
        if let Some(auth) = &self.auth
            && timeout(PREPARATION, auth.first_fetch()).await.is_err()
        {
            tracing::warn!("the JWK set was not fetched in time; the server starts without it");
        }
    }

    /// Returns when an event loop of this process has ended by a panic.
    pub(crate) fn panicked(&self) -> impl Future<Output = LoopPanic> + use<> {
        self.sockets.panicked()
    }

    /// Ends this process's part after a panic of an event loop: drains the other loops, for a
    /// bounded time, because a panic may have left anything behind.
    pub(crate) async fn end_after_panic(self) {
        let longest = self.drain_period() + PANIC_GRACE;
        if timeout(longest, self.drain()).await.is_err() {
            tracing::warn!("the event loops did not end in time after a panic");
        }
    }

    /// The processes of the server.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Stops accepting, and closes every socket with 1012, spread over
    /// [`RunningServer::drain_period`].
    pub async fn drain(mut self) {
        self.cluster.begin_drain();
        if let Some(pages) = &mut self.pages {
            pages.stop_gateway();
        }
        // Its address is free for the next server at once, as those of the public listeners are.
        self.admin.stop();
        self.sockets.drain(self.drain_period()).await;
        if let Some(hooks) = self.hooks.take() {
            hooks.finish().await;
        }
    }

    /// The period over which a drain spreads its closes: `server.drain_period`, or less for few
    /// clients.
    pub fn drain_period(&self) -> Duration {
        let clients = u32::try_from(self.clients()).unwrap_or(u32::MAX);
        self.drain_period.min(DRAIN_PACE.saturating_mul(clients))
    }
}

pub(crate) fn check_listen(settings: &Settings) -> Result<(), StartError> {
    let public = &settings.server.listen;
    if public.is_empty() {
        return Err(StartError::NoAddress);
    }
    let all: Vec<SocketAddr> = public.iter().chain(&settings.admin.listen).copied().collect();
    let taken = all.iter().enumerate().find_map(|(at, address)| {
        let earlier = all[..at].iter().find(|earlier| excludes(**earlier, *address))?;
        Some(StartError::TakenAddress { address: *address, earlier: *earlier })
    });
    taken.map_or(Ok(()), Err)
}

/// Whether no second socket can listen on `other` beside one on `one`: it has the same port, and the
/// same address, or one of them is all addresses of its family. Port 0 is a port of the system's choice.
fn excludes(one: SocketAddr, other: SocketAddr) -> bool {
    let is_same_family = one.is_ipv4() == other.is_ipv4();
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let is_same_port = one.port() == other.port() && one.port() != 0;
    is_same_port && (one == other || (is_same_family && is_any))
}

/// Whether clients can request paths below this one. They send other characters than these in
/// another form, and resolve `.` and `..` themselves (RFC 3986, 3.3).
fn is_mount(path: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte);
    path.starts_with('/')
        && !path.ends_with('/')
        && path.bytes().all(is_part)
        && !path.split('/').any(|segment| matches!(segment, "." | ".."))
}

/// Checks settings that are not checked where they are used.
fn check(settings: &Settings) -> Result<(), StartError> {
    let mount = &settings.socket.mount;
    if let Some(setting) = settings.zero() {
        return Err(StartError::Zero { setting });
    }
    if !is_mount(mount) {
        return Err(StartError::Mount { mount: mount.clone() });
    }
    if !settings.pages.report_is_address() {
        return Err(StartError::Report { report: settings.pages.report.clone() });
    }
    if let Some(path) = settings.log.request_paths.iter().find(|path| !path.starts_with('/')) {
        return Err(StartError::RequestPath { path: path.clone() });
    }
    if (1..TOKEN_BYTES_MIN).contains(&settings.admin.token.len()) {
        return Err(StartError::ShortToken);
    }
    settings.channels.check(settings.auth.is_on() || settings.hooks.connect)?;
    for rule in &settings.channels.rules {
        rule.check_hooks(settings.hooks.is_on())?;
    }
    Keys::new(settings)?;
    machines::nats_settings(&settings.cluster)?;
    operator::check_listen(&settings.admin)?;
    traces::check(&settings.traces)?;
    Ok(())
}

/// The host and port of `server.public_url`; `None` if it is empty.
fn public_host(url: &str) -> Result<Option<String>, StartError> {
    if url.is_empty() {
        return Ok(None);
    }
    let uri = url.parse::<Uri>().ok();
    let has_scheme = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.filter(has_scheme).and_then(|uri| uri.into_parts().authority);
    // An origin of a browser has neither a user nor a star.
    let is_origin = |authority: &Authority| {
        let text = authority.as_str();
        !text.contains('*') && format!("//{text}").parse::<OriginPattern>().is_ok()
    };
    match authority.filter(is_origin) {
        Some(authority) => Ok(Some(authority.to_string())),
        None => Err(StartError::PublicUrl { url: url.to_owned() }),
    }
}

fn origins(entries: &[String]) -> Result<OriginPolicy, OriginPatternError> {
    match entries {
        [entry] if entry == "any" => Ok(OriginPolicy::Any),
        [entry] if entry == "same" => Ok(OriginPolicy::SameHost),
        entries => {
            let others = entries.iter().filter(|entry| *entry != "same");
            let patterns = others.map(|entry| entry.parse::<OriginPattern>());
            let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
            Ok(match patterns.len() == entries.len() {
                true => OriginPolicy::List(patterns),
                false => OriginPolicy::SameHostOr(patterns),
            })
        }
    }
}

fn trusted_proxies(server: &ServerSettings) -> Result<Arc<TrustedProxies>, NetworkError> {
    Ok(Arc::new(TrustedProxies::new(&server.trusted_proxies, server.proxy_header)?))
}

/// The addresses at which proxies name clients with the PROXY protocol.
fn proxy_protocol(
    server: &ServerSettings,
    proxies: &Arc<TrustedProxies>,
) -> Result<ProxyProtocol, StartError> {
    if let Some(&address) = server.proxy_protocol.iter().find(|at| !server.listen.contains(at)) {
        return Err(StartError::ProxyProtocol { address });
    }
    let listen = server.listen.iter().enumerate();
    let listeners = listen.filter(|(_, at)| server.proxy_protocol.contains(at));
    let proxies = proxies.clone();
    Ok(ProxyProtocol {
        listeners: listeners.map(|(index, _)| index).collect(),
        trusts: Arc::new(move |address| proxies.trusts(address)),
    })
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number of event loops of one process.
pub(crate) fn shards(settings: &Settings) -> usize {
    match usize::from(settings.server.shards) {
        0 => cores(),
        shards => shards,
    }
}

/// The settings of the socket server, without certificates.
fn socket_settings(
    settings: &Settings,
    proxies: &Arc<TrustedProxies>,
) -> Result<SocketServerSettings, StartError> {
    let Settings { server, socket, limits, .. } = settings;
    let proxy_protocol = proxy_protocol(server, proxies)?;
    Ok(SocketServerSettings {
        listen: server.listen.clone(),
        shards: usize::from(server.shards),
        limits: SocketLimits {
            message_bytes_max: limits.frame_bytes_max as usize,
            partial_bytes_max: limits.partial_bytes_max as usize,
            queued_bytes_max: limits.queued_bytes_max as usize,
            idle_timeout: socket.idle_timeout,
            slow_timeout: socket.slow_timeout,
            sockets_max: limits.sockets_max as usize,
            ..SocketLimits::default()
        },
        tls: None,
        proxy_protocol,
        inherited: None,
    })
}
