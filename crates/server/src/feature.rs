//! Features and their parts, of which a server is made.
//!
//! A [`Feature`] is given to a server with [`Server::with`](crate::Server::with). From the
//! [`Foundation`] of a process it builds [`Part`]s. A part has channels, routes, metrics, messages to
//! itself in other processes, or threads; each method of the trait has a default that adds nothing. The
//! server asks every part for these, in one loop for each: it never names a feature.
//!
//! ```
//! use std::sync::Arc;
//! use axum::{Router, routing::get};
//! use watchfire::feature::{Feature, FeatureError, Foundation, Part};
//! use watchfire::{Server, Settings};
//!
//! struct Greeting;
//!
//! impl Feature for Greeting {
//!     fn name(&self) -> &'static str {
//!         "greeting"
//!     }
//!
//!     fn build(&self, _: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, FeatureError> {
//!         Ok(vec![Arc::new(Greeting)])
//!     }
//! }
//!
//! impl Part for Greeting {
//!     fn routes(self: Arc<Self>) -> Router {
//!         Router::new().route("/greeting", get(async || "hello"))
//!     }
//! }
//!
//! let mut settings = Settings::default();
//! settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
//! let server = Server::new(settings).with(Greeting).start().unwrap();
//! ```

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use serde_json::{Map, Value};
use watchfire_sockets::Adopter;
pub use watchfire_sockets::RequestHead;
use watchfire_types::Instant;
pub use watchfire_types::NodeId;

use crate::history::History;
use crate::presence::ReplicatedPresence;
pub use crate::settings::OwnTopics;
use crate::settings::Settings;

use crate::addresses::Addresses;
pub use crate::channel_api::Registry;
#[doc(hidden)]
pub use crate::channel_api::{Direction, Guest, NoGuest};
use crate::channel_api::{Endpoint, Parking};
use crate::cluster::{Cluster, ReportWaker, Reporter};
pub use crate::cluster::{ClusterPart, PartLink, PartName, PendingResponse, SendError};
use crate::metrics::Metrics;
pub use crate::metrics::{Counter, CountersBy, MetricWriter};
use crate::own_client::OwnClientKey;
use crate::seed::Seed;
pub use watchfire_settings::{Section, SectionType, section, section_limits};

/// Why a feature cannot be built or started. Its text names the setting and says what to do.
pub type FeatureError = Box<dyn Error + Send + Sync>;

/// A feature of a server, before the server has started.
pub trait Feature {
    /// The name of the feature, different from those of the others.
    fn name(&self) -> &'static str;

    /// The sections of the settings that the feature reads.
    fn sections(&self) -> Vec<SectionType> {
        Vec::new()
    }

    /// The topics that are the feature's own. A rule of the settings that matches one is an error.
    fn topics(&self, _settings: &Settings) -> Vec<OwnTopics> {
        Vec::new()
    }

    /// The figures over time that an operator sees of the feature.
    fn figures(&self) -> &'static [Figure] {
        &[]
    }

    /// The tables that an operator sees of the feature.
    fn tables(&self) -> &'static [Table] {
        &[]
    }

    /// The kinds of trouble that an operator is told about, the most urgent first.
    fn troubles(&self) -> &'static [Trouble] {
        &[]
    }

    /// The addresses on which the feature listens for itself.
    fn addresses(&self, _settings: &Settings) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// A domain whose subdomains are hosts of this server.
    fn domain(&self, _settings: &Settings) -> Option<String> {
        None
    }

    /// Whether the feature serves the operator's routes of the parts.
    fn serves_operator(&self, _settings: &Settings) -> bool {
        false
    }

    /// Checks what the feature needs of the others. `all` are the features of the server.
    fn check_beside(
        &self,
        _settings: &Settings,
        _all: &[Box<dyn Feature>],
    ) -> Result<(), FeatureError> {
        Ok(())
    }

    /// Checks the settings and the files that they name, without starting anything. Returns what the
    /// feature would do, a line for each part.
    fn check(&self, _settings: &Settings) -> Result<Vec<String>, FeatureError> {
        Ok(Vec::new())
    }

    /// Opens the feature's own listeners, which all processes of the server share. Of several
    /// processes, the supervisor calls this. A successor may share the addresses with the server that
    /// it replaces, until that one ends.
    fn listen(
        &self,
        _settings: &Settings,
        _is_successor: bool,
    ) -> Result<Vec<TcpListener>, FeatureError> {
        Ok(Vec::new())
    }

    /// Builds the parts of the feature, before the process has event loops.
    fn build(&self, foundation: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, FeatureError>;
}

/// A figure over time, which the operator's listener computes from the metrics of all processes.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in the calls of the operator's listener.
    pub name: &'static str,
    /// How it is computed.
    pub kind: FigureKind,
}

/// How a figure is computed.
#[derive(Clone, Copy, Debug)]
pub enum FigureKind {
    /// The sum of the series.
    Sum(Series),
    /// The largest value.
    Largest(Series),
    /// The growth of counters, for each second.
    Rate(Series),
    /// A quantile of the values that the histogram of this name got since the last sample.
    Quantile(&'static str, f64),
}

/// The series of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The full name of the metric, without `_total`.
    pub metric: &'static str,
    /// The label that they have, and its value. `None`: all series.
    pub label: Option<(&'static str, &'static str)>,
}

impl Series {
    /// All series of a metric.
    pub const fn all(metric: &'static str) -> Self {
        Series { metric, label: None }
    }

    /// The series of a metric with this label.
    pub const fn with(metric: &'static str, name: &'static str, value: &'static str) -> Self {
        Series { metric, label: Some((name, value)) }
    }
}

/// A table, which the operator's listener fills from the metrics of all processes of a machine. It has a row for
/// each value of one label.
///
/// ```
/// use watchfire::feature::{Cell, Table, TableColumn};
///
/// // The result of `Feature::tables`.
/// const TABLES: &[Table] = &[Table {
///     title: "Mail servers",
///     label: "server",
///     heading: "Server",
///     columns: &[TableColumn { title: "Mails", metric: "watchfire_mails_sent", cell: Cell::Count }],
/// }];
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its title.
    pub title: &'static str,
    /// The label. Its values are a closed set.
    pub label: &'static str,
    /// The title of the first column, which has the value of the label.
    pub heading: &'static str,
    /// The further columns.
    pub columns: &'static [TableColumn],
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableColumn {
    /// Its title.
    pub title: &'static str,
    /// The full name of the metric, without `_total`. A row shows its series with the value of the label.
    pub metric: &'static str,
    /// How a cell is computed from these.
    pub cell: Cell,
}

/// The content of a cell.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// The sum of the series.
    Count,
    /// The sum of the series, in bytes.
    Bytes,
    /// The largest of the series, in seconds.
    Seconds,
    /// Another label of a series.
    Label(&'static str),
}

/// A kind of trouble, which the operator's listener recognises by figures.
///
/// ```
/// use watchfire::feature::{Figure, FigureKind, Series, Trouble};
///
/// // The results of `Feature::figures` and `Feature::troubles`.
/// const FIGURES: &[Figure] =
///     &[Figure { name: "mails_lost", kind: FigureKind::Rate(Series::all("watchfire_mails_lost")) }];
/// const TROUBLES: &[Trouble] = &[Trouble {
///     kind: "mails_lost",
///     begins_after: 1,
///     ends_after: 30,
///     fix: "Look at the mail server.",
///     see: |figures| {
///         let rate = figures.above("mails_lost", 0.0)?;
///         Some(format!("{rate:.1} mails a second are lost"))
///     },
/// }];
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    /// Its name, and its section in the documentation.
    pub kind: &'static str,
    /// It begins after so many samples in a row that show it. There is one sample a second.
    pub begins_after: u32,
    /// It ends after so many samples in a row that do not.
    pub ends_after: u32,
    /// The remedy, in one sentence.
    pub fix: &'static str,
    /// The fault, in one sentence; `None` when there is none.
    pub see: fn(&Figures<'_>) -> Option<String>,
}

/// The figures of one sample.
pub struct Figures<'a> {
    /// The value of a figure by its name. `None`: it is not known.
    pub get: &'a dyn Fn(&str) -> Option<f64>,
    /// How long the server has run.
    pub uptime: Duration,
}

impl Figures<'_> {
    /// The value of a figure, if it is known and above a threshold.
    pub fn above(&self, name: &str, threshold: f64) -> Option<f64> {
        (self.get)(name).filter(|value| *value > threshold)
    }
}

/// One part of a server. Each method has a default that adds nothing.
pub trait Part: Send + Sync {
    /// Adds the part's channels.
    fn register_channels(self: Arc<Self>, _registry: &mut Registry) {}

    /// Whether only the part itself sends to this topic. Calls of the HTTP API are refused.
    fn reserves(&self, _topic: &str) -> bool {
        false
    }

    /// The part's HTTP routes. At most one part has a fallback.
    fn routes(self: Arc<Self>) -> Router {
        Router::new()
    }

    /// Adds routes of the part that sites of other origins must not request, as those that change something and need neither a token
    /// nor a key. A site that may not connect (`socket.check_origin`) gets 403.
    fn checked_routes(self: Arc<Self>) -> Router {
        Router::new()
    }

    /// Wraps all routes of the server, those of an application included. Requests that a shard answers
    /// ([`Parking`]) pass no layer; a [`Gate`] can send them to the routes with
    /// [`Verdict::HttpOnly`].
    fn layer(self: Arc<Self>, routes: Router) -> Router {
        routes
    }

    /// The part's rows of `GET /limits`, for a client that requested this host. A change is seen within a
    /// second.
    fn describe_limits(&self, _host: Option<&str>, _response: &mut Map<String, Value>) {}

    /// Routes for the operator. Each request has the operator's token.
    fn operator_routes(self: Arc<Self>) -> Router {
        Router::new()
    }

    /// Routes on the operator's listener that check keys of their own.
    fn keyed_operator_routes(self: Arc<Self>) -> Option<Router> {
        None
    }

    /// The part's say about each request, before it is routed.
    fn gate(self: Arc<Self>) -> Option<Arc<dyn Gate>> {
        None
    }

    /// Admits a client as a guest whose site may not connect (`socket.check_origin`). The server asks about
    /// WebSockets only. The application and the backend may refuse a guest as any client.
    #[doc(hidden)]
    fn admit_guest(&self, _origin: &str) -> Result<Box<dyn Guest>, NoGuest> {
        Err(NoGuest::Origin)
    }

    /// The state that the part sends to itself in other processes.
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        Vec::new()
    }

    /// The part's reports to the other processes, which a thread sends when the part wakes it.
    #[doc(hidden)]
    fn reporter(self: Arc<Self>) -> Option<Arc<dyn Reporter>> {
        None
    }

    /// The part's HTTP requests that wait in a shard. At most one part has them.
    #[doc(hidden)]
    fn parking(&self) -> Option<Arc<dyn Parking>> {
        None
    }

    /// Does what is due. The first shard of a process calls this at each tick, ten times a second.
    fn handle_tick(&self, _now: Instant) {}

    /// Writes the part's own counts.
    fn write_metrics(&self, _writer: &mut MetricWriter) {}

    /// Takes what happened since the last call, for the operator's record: kinds of events and their texts. The first
    /// process of a machine calls this once a second.
    #[doc(hidden)]
    fn take_events(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Sees all parts of the server, before any process can send to them.
    #[doc(hidden)]
    fn see_all(&self, _parts: &[Arc<dyn Part>]) {}

    /// Starts the part's threads, when the event loops run. They end when the result is dropped.
    fn start(
        self: Arc<Self>,
        _started: &Started<'_>,
    ) -> Result<Option<Box<dyn Running>>, FeatureError> {
        Ok(None)
    }
}

/// The threads of a part, which end when this is dropped, before the event loops.
pub trait Running: Any + Send + Sync {
    /// Called when the server begins to drain.
    fn drain(&mut self) {}
}

/// A say about each request, from its head.
///
/// ```
/// use std::net::IpAddr;
/// use watchfire::feature::{Gate, RequestHead, Verdict};
///
/// struct OnlyThisMachine;
///
/// impl Gate for OnlyThisMachine {
///     fn judge(&self, _: &RequestHead<'_>, client: &dyn Fn() -> IpAddr) -> Verdict {
///         match client().is_loopback() {
///             true => Verdict::Pass,
///             false => Verdict::Refuse { status: 403, body: "not here\n", reason: "not_here" },
///         }
///     }
/// }
/// ```
pub trait Gate: Send + Sync {
    /// Decides about a request. `client` finds the client's address, behind trusted proxies.
    fn judge(&self, head: &RequestHead<'_>, client: &dyn Fn() -> IpAddr) -> Verdict;
}

/// The decision of a [`Gate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request goes on.
    Pass,
    /// The request is for the HTTP routes only: it opens no socket.
    HttpOnly,
    /// The request is refused with this status and text, and counted under the reason.
    Refuse {
        /// The status of the response.
        status: u16,
        /// The body of the response, a line.
        body: &'static str,
        /// The reason in `watchfire_refusals_total`.
        reason: &'static str,
    },
}

/// The parts of a process on which features build theirs.
pub struct Foundation<'a> {
    /// The settings of this process.
    pub settings: &'a Settings,
    /// Known only to the processes of the server.
    pub secret: [u8; 32],
    /// Seeds that all processes have in common.
    #[doc(hidden)]
    pub seed: Seed,
    /// Sends to clients, of all processes.
    pub endpoint: &'a Endpoint,
    /// The processes of the server.
    #[doc(hidden)]
    pub cluster: &'a Arc<Cluster>,
    /// The sockets of each address.
    #[doc(hidden)]
    pub addresses: &'a Arc<Addresses>,
    /// The counts of the shards.
    #[doc(hidden)]
    pub metrics: &'a Arc<Metrics>,
    /// Recognises the clients that features of the server start.
    #[doc(hidden)]
    pub own_client_key: &'a OwnClientKey,
    /// Wakes the thread that calls [`Part::reporter`].
    #[doc(hidden)]
    pub report_waker: &'a ReportWaker,
    /// Whether another server runs until this one is ready.
    pub is_successor: bool,
    /// The presences that this process knows.
    #[doc(hidden)]
    pub presence: &'a Arc<ReplicatedPresence>,
    /// The logs of topics. `None`: no topic has a history.
    #[doc(hidden)]
    pub history: Option<&'a Arc<History>>,
    /// The figures of all features.
    #[doc(hidden)]
    pub figures: &'a [Figure],
    /// The tables of all features.
    #[doc(hidden)]
    pub tables: &'a [Table],
    /// The troubles of all features.
    #[doc(hidden)]
    pub troubles: &'a [Trouble],
    pub(crate) listeners: RefCell<Vec<TcpListener>>,
}

impl Foundation<'_> {
    /// The link between a part of this name in this process and in the others.
    pub fn link(&self, name: PartName) -> PartLink {
        PartLink::new(self.cluster, name)
    }

    /// Takes the sockets that [`Feature::listen`] opened.
    pub fn take_listeners(&self) -> Vec<TcpListener> {
        self.listeners.take()
    }
}

/// A server whose event loops run.
pub struct Started<'a> {
    /// The settings of this process.
    pub settings: &'a Settings,
    /// The addresses on which the server listens.
    pub addresses: &'a [SocketAddr],
    /// Hands connections to the event loops.
    #[doc(hidden)]
    pub adopter: Adopter,
    /// The path of WebSockets.
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
