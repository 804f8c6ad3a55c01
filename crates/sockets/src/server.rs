//! Starts and stops the shards.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use tokio::sync::{mpsc, watch};
use watchfire_types::ShardId;

use crate::counters::SocketCounters;
use crate::handler::SocketHandler;
use crate::handoff::Adopter;
use crate::limits::SocketLimits;
use crate::listen::{ListenError, Listeners};
use crate::loop_health::{LoopPanic, LoopPanics, LoopWatch};
use crate::settings::SocketServerSettings;
use crate::shard::{EventLoop, Lifecycle, Threads, TrustedProxies};
use crate::shard_sender::ShardSender;
use crate::shard_sockets::Clock;
use crate::tls;

/// Connections in transit to one shard from other shards and processes. When the limit is reached,
/// the request is answered 503, or [`Adopter::adopt`] tries the next shard.
const MOVES_LEN_MAX: usize = 1024;

/// Largest size to which the descriptor table grows at the start, at 8 bytes of kernel memory per
/// descriptor. More descriptors cost a few more pauses later.
const TABLE_DESCRIPTORS_MAX: usize = 1 << 17;

/// Descriptors that are left to the rest of the process if `sockets_max` is derived.
const DESCRIPTORS_RESERVED: usize = 128;

/// A running socket server. Dropping it ends all shards and connections immediately;
/// [`SocketServer::drain`] ends them gracefully.
pub struct SocketServer<M> {
    addresses: Vec<SocketAddr>,
    shard_senders: Vec<ShardSender<M>>,
    adopter: Adopter,
    counters: Arc<SocketCounters>,
    lifecycle: watch::Sender<Lifecycle>,
    ended: watch::Receiver<()>,
    panics: LoopPanics,
    limits: Arc<SocketLimits>,
}

/// The reason why a socket server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the listeners of another process hold no socket")]
    NoListener,
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[cfg(feature = "tls")]
    #[error("cannot configure TLS: {0}")]
    Tls(rustls::Error),
    #[error("cannot start a shard: {0}")]
    System(io::Error),
}

impl From<io::Error> for StartError {
    fn from(cause: io::Error) -> Self {
        StartError::System(cause)
    }
}

#[cfg(feature = "tls")]
impl From<rustls::Error> for StartError {
    fn from(cause: rustls::Error) -> Self {
        StartError::Tls(cause)
    }
}

/// Listens, and starts the shards.
///
/// `router` answers the requests that [`SocketHandler::route`] leaves to HTTP. The client's address
/// is in [`axum::extract::ConnectInfo`]. `make` is called once on each shard's thread, with the
/// senders of all shards.
///
/// This function does not raise the open-file limit; the caller must.
pub fn start<T: SocketHandler>(
    settings: SocketServerSettings,
    router: Router,
    make: impl Fn(ShardId, &[ShardSender<T::Message>]) -> T + Send + Sync + Clone + 'static,
) -> Result<SocketServer<T::Message>, StartError> {
    let acceptor = settings.tls.map(tls::acceptor).transpose()?;
    let limits = Arc::new(resolve(settings.limits, acceptor.is_some()));
    let listeners = match settings.inherited {
        Some(listeners) => listeners,
        None => listen(&settings.listen, settings.shards, &limits)?,
    };
    let (addresses, listeners) = listeners.into_shards();
    let shards = listeners.len();
    if shards == 0 {
        return Err(StartError::NoListener);
    }

    // Before the threads exist, because it would pause them.
    if let Some(listener) = listeners[0].first() {
        grow_descriptor_table(listener.as_fd(), limits.sockets_max);
    }
    let counters = Arc::new(SocketCounters::new(shards));
    let ids = (0..shards).map(|shard| ShardId(shard as u16));
    let (shard_senders, message_receivers): (Vec<_>, Vec<_>) = ids
        .clone()
        .map(|id| ShardSender::new(id, limits.shard_queue_len_max, counters.clone()))
        .unzip();
    let (movers, moves): (Vec<_>, Vec<_>) =
        ids.clone().map(|_| mpsc::channel(MOVES_LEN_MAX)).unzip();
    let (lifecycle, stages) = watch::channel(match settings.is_paused {
        true => Lifecycle::Paused,
        false => Lifecycle::Running,
    });
    let (ended_sender, ended) = watch::channel(());
    let (panic_sender, panics) = watch::channel(None);
    let clock = Clock::start();
    let proxies = Arc::new(TrustedProxies::new(settings.proxy_protocol));

    for (((id, listeners), messages), moves) in ids.zip(listeners).zip(message_receivers).zip(moves)
    {
        let threads = Threads {
            shard: id,
            clock,
            limits: limits.clone(),
            counters: counters.clone(),
            movers: movers.clone(),
            moves,
            lifecycle: stages.clone(),
        };
        let shard = {
            let (acceptor, proxies) = (acceptor.clone(), proxies.clone());
            EventLoop::<T>::prepare(threads, listeners, acceptor, proxies, messages)?
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        counters.set_runtime(id, runtime.metrics());
        let (router, make, shard_senders) = (router.clone(), make.clone(), shard_senders.clone());
        let (ended, panic_sender) = (ended_sender.clone(), panic_sender.clone());
        let counters = counters.clone();
        thread::Builder::new().name(format!("shard-{}", id.0)).spawn(move || {
            let run = || {
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, shard.run(router, |id| make(id, &shard_senders)));
                // Dropping the tasks ends their connections, before the shard counts as ended.
                drop(local);
            };
            if let Err(thrown) = catch_unwind(AssertUnwindSafe(run)) {
                note_panic(LoopPanic::new(id, &*thrown), &counters, &panic_sender);
            }
            drop(ended);
        })?;
    }
    let adopter = Adopter::new(movers);
    let panics = LoopPanics(panics);
    Ok(SocketServer {
        addresses,
        shard_senders,
        adopter,
        counters,
        lifecycle,
        ended,
        panics,
        limits,
    })
}

/// Counts and reports the panic that ended an event loop. Runs on the loop's own thread.
fn note_panic(
    panic: LoopPanic,
    counters: &SocketCounters,
    first: &watch::Sender<Option<LoopPanic>>,
) {
    let LoopPanic { shard, reason } = &panic;
    tracing::error!(shard = shard.0, reason, "an event loop panicked; its connections are gone");
    counters.shard(*shard).loop_panics.add(1);
    first.send_if_modified(|noted| {
        let is_first = noted.is_none();
        noted.get_or_insert(panic);
        is_first
    });
}

/// Listens on each address with one socket per shard.
fn listen(
    addresses: &[SocketAddr],
    shards: usize,
    limits: &SocketLimits,
) -> Result<Listeners, StartError> {
    let shards = match shards {
        0 => thread::available_parallelism().map_or(1, usize::from),
        shards => shards,
    };
    let shards = shards.min(usize::from(u16::MAX));
    Ok(Listeners::open(addresses, shards, false, limits)?)
}

impl<M> SocketServer<M> {
    /// The first address of the settings, with the port that was bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The addresses with the ports that were bound, in the order of the settings.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn shard_senders(&self) -> &[ShardSender<M>] {
        &self.shard_senders
    }

    /// The receiver for connections that another process hands over.
    pub fn adopter(&self) -> Adopter {
        self.adopter.clone()
    }

    pub fn counters(&self) -> Arc<SocketCounters> {
        self.counters.clone()
    }

    /// A watch over the event loops of the shards.
    pub fn loop_watch(&self) -> LoopWatch {
        LoopWatch::new(self.counters())
    }

    /// Returns when an event loop has ended by a panic; pending while none has. The other event
    /// loops still run. A copy of the ended loop's listener in this or another process still takes
    /// connections that no one serves, so the process should end.
    pub fn panicked(&self) -> impl Future<Output = LoopPanic> + use<M> {
        self.panics.clone().first()
    }

    /// The limits in force; `sockets_max` is never 0 here.
    pub fn limits(&self) -> &SocketLimits {
        &self.limits
    }

    /// Begins to accept connections, if the settings said to wait for this.
    pub fn accept_clients(&self) {
        self.lifecycle.send_if_modified(|stage| {
            let is_paused = *stage == Lifecycle::Paused;
            if is_paused {
                *stage = Lifecycle::Running;
            }
            is_paused
        });
    }

    /// Stops listening, lets requests finish, and closes the WebSockets with 1012, spread evenly
    /// over `period` so that clients do not reconnect all at the same time. Returns when all shards
    /// have ended: after `period`, plus at most `close_timeout` for clients that do not answer.
    ///
    /// Only this process's copies of inherited listeners are closed. While another process keeps a
    /// copy, new clients wait in the kernel for the server that replaces this one.
    pub async fn drain(&self, period: Duration) {
        let _ = self.lifecycle.send(Lifecycle::Draining { period });
        let mut ended = self.ended.clone();
        // No value is ever sent. An error means that the last shard has dropped its sender.
        let _ = ended.changed().await;
    }
}

/// Grows the kernel's table of descriptors in one step. Otherwise the kernel doubles it repeatedly
/// while connections arrive, and each time pauses every thread of the process for 10 to 20 ms.
fn grow_descriptor_table(any: BorrowedFd<'_>, sockets_max: usize) {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let last = files.map_or(TABLE_DESCRIPTORS_MAX, |files| {
        usize::try_from(files).unwrap_or(TABLE_DESCRIPTORS_MAX)
    });
    let wanted =
        sockets_max.saturating_add(DESCRIPTORS_RESERVED).min(last).min(TABLE_DESCRIPTORS_MAX);
    let number = RawFd::try_from(wanted.saturating_sub(1)).unwrap_or(0);
    // The table keeps its size after the close. A failure is harmless: the table grows later.
    drop(rustix::io::fcntl_dupfd_cloexec(any, number));
}

/// Derives `sockets_max` from the open-file limit if it is 0.
fn resolve(mut limits: SocketLimits, is_tls: bool) -> SocketLimits {
    if limits.sockets_max == 0 {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
        let each = if is_tls { tls::DESCRIPTORS_EACH } else { 1 };
        limits.sockets_max = (files.saturating_sub(DESCRIPTORS_RESERVED) / each).max(1);
    }
    limits
}
