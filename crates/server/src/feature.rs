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

use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::{StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use watchfire_sockets::{Adopter, RequestHead};
use watchfire_types::Instant;
pub use watchfire_types::NodeId;

use crate::history::History;
use crate::presence::ReplicatedPresence;
use crate::settings::Settings;

pub use crate::addresses::Addresses;
pub use crate::channel_api::{
    Address, ClientSender, Endpoint, ParkResponse, ParkRoute, ParkedRequest, Parking, Registry,
    RelayKind, retry_after_ms,
};
pub use crate::cluster::{
    Cluster, ClusterPart, PartLink, PartName, PendingResponse, ProcessStarts, REPORT_ENTRIES_MAX,
    ReportWaker, Reporter, Samples, SendError, Unanswered, format_of,
};
pub use crate::metrics::{Counter, CountersBy, MetricSource, MetricWriter, Metrics};
pub use crate::own_client::OwnClientKey;
pub use crate::proxies::TrustedProxies;
pub use crate::seed::Seed;
pub use crate::token::{SlotToken, TokenKey, query_token};
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

    /// The patterns of the topics that only the feature's parts send to ([`Part::reserves`]). A rule of
    /// the settings that matches one is an error.
    fn topics(&self) -> &'static [&'static str] {
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

    /// Adds routes of the part that pages of other origins must not request, as those that change something and need neither a token
    /// nor a key. A page that may not connect (`socket.check_origin`) gets 403.
    fn checked_routes(self: Arc<Self>) -> Router {
        Router::new()
    }

    /// Wraps all routes of the server, those of an application included. Requests that a shard answers
    /// ([`Parking`]) pass no layer; a [`Gate`] can send them to the routes with
    /// [`Verdict::HttpOnly`].
    fn layer(self: Arc<Self>, routes: Router) -> Router {
        routes
    }

    /// The part's rows of `GET /limits`, for a client that requested this host. They do not change while
    /// the server runs.
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

    /// The state that the part sends to itself in other processes.
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        Vec::new()
    }

    /// The part's reports to the other processes, which a thread sends when the part wakes it.
    fn reporter(self: Arc<Self>) -> Option<Arc<dyn Reporter>> {
        None
    }

    /// The part's HTTP requests that wait in a shard. At most one part has them.
    fn parking(&self) -> Option<Arc<dyn Parking>> {
        None
    }

    /// Does what is due. The first shard of a process calls this at each tick, ten times a second.
    fn handle_tick(&self, _now: Instant) {}

    /// Writes the part's own counts.
    fn write_metrics(&self, _writer: &mut MetricWriter) {}

    /// Sees all parts of the server, before any process can send to them.
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
    pub seed: Seed,
    /// Sends to clients, of all processes.
    pub endpoint: &'a Endpoint,
    /// The processes of the server.
    pub cluster: &'a Arc<Cluster>,
    /// The sockets of each address.
    pub addresses: &'a Arc<Addresses>,
    /// The counts of the shards.
    pub metrics: &'a Arc<Metrics>,
    /// Recognises the server's own page clients.
    pub own_client_key: &'a OwnClientKey,
    /// Wakes the thread that calls [`Part::reporter`].
    pub report_waker: &'a ReportWaker,
    /// Whether another server runs until this one is ready.
    pub is_successor: bool,
    /// The presences that this process knows.
    #[doc(hidden)]
    pub presence: &'a Arc<ReplicatedPresence>,
    /// The logs of topics. `None`: no topic has a history.
    #[doc(hidden)]
    pub history: Option<&'a Arc<History>>,
    pub(crate) listeners: RefCell<Vec<TcpListener>>,
}

impl Foundation<'_> {
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
    pub adopter: Adopter,
    /// The proxies that name clients.
    pub proxies: &'a TrustedProxies,
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

/// Whether the path and the query of a request are UTF-8 once their percent escapes are decoded. A router
/// would replace what is not.
pub fn is_utf8(uri: &Uri) -> bool {
    let all = uri.path_and_query().map_or("", |all| all.as_str());
    percent_decode_str(all).decode_utf8().is_ok()
}

/// The answer to a refused call of the operator: a short reason for programs, and a message for people.
pub fn refuse_call(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, Json(json!({ "reason": reason, "message": message }))).into_response()
}
