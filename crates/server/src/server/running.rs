//! A server that runs, and how it ends.

use std::any::Any;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use watchfire_types::VitalThread;

use tokio::time::timeout;
use watchfire_auth::{Auth, FetchGuard};
use watchfire_hooks::HookThread;
use watchfire_sockets::{Adopter, LoopPanic, LoopWatch};

use super::definition::FeatureAddresses;
use crate::channel_api::{Endpoint, ShardMessage};
use crate::cluster::Cluster;
use crate::feature::Running;
use crate::machines::ClusterError;
use crate::metrics::Metrics;
#[cfg(test)]
use crate::shard::ProcessState;
use crate::tls::TlsThread;

/// The longest time that a drain spends on each client.
const DRAIN_PACE: Duration = Duration::from_millis(50);

/// How often the threads beside the event loops are looked at.
const PANIC_CHECK_PERIOD: Duration = Duration::from_millis(200);

/// How long event loops may take after a drain that follows a panic. Then the process ends anyway.
const PANIC_GRACE: Duration = Duration::from_secs(3);

/// How long a new server waits for the keys of tokens before it takes over.
const PREPARATION: Duration = Duration::from_secs(10);

/// The end of a thread by a panic, after which the process should end.
pub(crate) enum Panicked {
    EventLoop(LoopPanic),
    /// Another thread, with its name.
    Thread(&'static str),
}

/// A running server, which stops when it is dropped.
pub struct RunningServer {
    /// The threads of features. Dropped before the event loops, through which they may connect.
    pub(super) running: Vec<Box<dyn Running>>,
    pub(crate) sockets: watchfire_sockets::SocketServer<ShardMessage>,
    pub(super) endpoint: Endpoint,
    pub(super) cluster: Arc<Cluster>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) drain_period: Duration,
    /// The listeners of each feature, by its name.
    pub(crate) feature_addresses: FeatureAddresses,
    /// `None`: the server reads no tokens.
    pub(super) auth: Option<Arc<dyn Auth>>,
    /// Fetches the keys of clients' tokens until it is dropped.
    pub(super) _jwks: Option<FetchGuard>,
    /// Sends requests to the backend until it is dropped.
    pub(super) hooks: Option<HookThread>,
    /// Watches and orders certificates until it is dropped.
    pub(super) tls: Option<TlsThread>,
    /// The state that event loops share, for the model of the server.
    #[cfg(test)]
    pub(crate) shared: Arc<ProcessState>,
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

    /// The addresses on which a feature listens for itself; none if there is no such feature.
    pub fn addresses_of(&self, feature: &str) -> &[SocketAddr] {
        self.feature_addresses.of(feature)
    }

    /// The running part of a feature that has this type.
    pub fn running<T: Running>(&self) -> Option<&T> {
        self.running.iter().find_map(|running| (running.as_ref() as &dyn Any).downcast_ref())
    }

    /// The addresses of `tls.redirect_listen`, with the ports that were bound.
    pub fn redirect_addresses(&self) -> &[SocketAddr] {
        self.tls.as_ref().map_or(&[], TlsThread::redirect_addresses)
    }

    /// Connects to the storage of histories, if there is one. Until then messages are not stored.
    pub(crate) async fn start_histories(&self) -> Result<(), ClusterError> {
        self.endpoint.start_histories().await
    }

    /// Replaces the link to the supervisor, which keeps the histories.
    pub(crate) fn link_keeper(&self, stream: UnixStream) {
        self.endpoint.link_keeper(stream);
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

    /// Begins to accept connections, if they wait for this.
    pub(crate) fn accept_clients(&self) {
        self.sockets.accept_clients();
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

    /// Returns when an event loop of this process has ended by a panic, or a thread beside them.
    pub(crate) fn panicked(&self) -> impl Future<Output = Panicked> + use<> {
        let event_loop = self.sockets.panicked();
        async {
            tokio::select! {
                panic = event_loop => Panicked::EventLoop(panic),
                thread = panicked_thread() => Panicked::Thread(thread),
            }
        }
    }

    /// Ends this process's part after a panic of a thread: drains the other loops, for a
    /// bounded time, because a panic may have left anything behind.
    pub(crate) async fn end_after_panic(self) {
        let longest = self.drain_period() + PANIC_GRACE;
        if timeout(longest, self.drain()).await.is_err() {
            tracing::warn!("the event loops did not end in time after a panic");
        }
    }

    /// The processes of the server.
    #[doc(hidden)]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Stops accepting, and closes every socket with 1012, spread over
    /// [`RunningServer::drain_period`].
    pub async fn drain(mut self) {
        self.cluster.begin_drain();
        self.running.iter_mut().for_each(|running| running.drain());
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

/// The name of the first thread that has ended by a panic.
async fn panicked_thread() -> &'static str {
    let mut ticks = tokio::time::interval(PANIC_CHECK_PERIOD);
    loop {
        ticks.tick().await;
        if let Some(name) = VitalThread::panicked().first() {
            return name;
        }
    }
}
