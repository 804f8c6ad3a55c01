//! A server of several processes: the supervisor, and each worker.
//!
//! The first process opens the listeners and supervises; it serves no clients. It starts the same
//! program again for each worker, and sends it the settings, a common secret and its listeners. The
//! crate `workers` has the supervision, and `bus` the messages between workers.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use watchfire_bus::{BusLimits, LocalBus};
use watchfire_sockets::{Listeners, SocketLimits};
use watchfire_types::NodeId;
use watchfire_workers::{
    Link, Order, Plan, SuperviseError, SupervisorEvent, SupervisorLimits, WorkerSetup,
    join_supervisor, supervise,
};

use crate::admin::AdminListeners;
use crate::cluster::{Balancer, Cluster, PROCESSES_MAX, Receiver, receive_connections};
use crate::server::{
    ProcessRole, RunningServer, Server, StartError, random_secret, socket_settings,
};
use crate::settings::Settings;
use crate::tls::{Hangups, TlsPlan};

/// Open files of a process besides its clients: listeners, links to the other processes, files.
const DESCRIPTORS_RESERVED: u64 = 512;
/// A process may have its even share of sockets, and one in so many of the share in addition.
const EXTRA_SHARE: u32 = 16;
/// How long a process may take to end after its drain.
const END_GRACE: Duration = Duration::from_secs(10);

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The server cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The processes cannot be supervised.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    /// More processes than a server may have.
    #[error(
        "cannot start {processes} processes: at most {PROCESSES_MAX} are possible; lower server.processes or limits.sockets_max"
    )]
    TooManyProcesses {
        /// The number of processes.
        processes: usize,
    },
    /// This process cannot join the supervisor that started it.
    #[error("cannot join the supervisor that started this process: {0}")]
    JoinSupervisor(io::Error),
    /// A call to the operating system failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A server that accepts connections.
#[derive(Clone, Debug)]
pub struct Started {
    /// The first address on which the server listens.
    pub address: SocketAddr,
    /// All addresses on which the server listens, in the order of the settings.
    pub addresses: Vec<SocketAddr>,
    /// The addresses of `/metrics` and `/admin`; none if the default one was in use.
    pub admin_addresses: Vec<SocketAddr>,
    /// The number of processes that serve clients.
    pub processes: usize,
}

/// The data that a supervisor sends to each worker.
#[derive(Serialize, Deserialize)]
struct StartupData {
    settings: Settings,
    secret: [u8; 32],
    addresses: Vec<SocketAddr>,
    /// The last of the worker's listeners are those of the operator.
    admin_listeners: usize,
}

impl Server {
    /// Runs until `stop` is ready, then drains; in as many processes as `server.processes` says.
    ///
    /// `started` is called once, when the server accepts connections. With several processes, the
    /// program is started again for each, with the same arguments. In those processes this call
    /// serves clients; it does not call `started`, and does not wait for `stop`.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        started: impl FnOnce(&Started),
    ) -> Result<(), RunError> {
        match join_supervisor() {
            Ok(None) => {}
            Ok(Some(setup)) => return serve_as_worker(self, setup).await,
            Err(error) if is_stop_during_start(&error) => return Ok(()),
            Err(error) => return Err(RunError::JoinSupervisor(error)),
        }
        match process_count(self.settings()) {
            1 => {
                let server = self.start()?;
                let addresses = server.addresses().to_vec();
                let admin_addresses = server.admin_addresses().to_vec();
                let address = addresses[0];
                started(&Started { address, addresses, admin_addresses, processes: 1 });
                stop.await;
                server.drain().await;
                Ok(())
            }
            processes if processes > PROCESSES_MAX => Err(RunError::TooManyProcesses { processes }),
            processes => supervise_all(self.settings(), processes, stop, started).await,
        }
    }
}

fn is_stop_during_start(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof)
}

/// The number of processes that the settings require.
fn process_count(settings: &Settings) -> usize {
    if settings.server.processes > 0 {
        return usize::from(settings.server.processes);
    }
    let each = sockets_per_process_max();
    let sockets = u64::from(settings.limits.sockets_max);
    let with_extra = sockets + sockets / u64::from(EXTRA_SHARE);
    usize::try_from(with_extra.div_ceil(each)).unwrap_or(usize::MAX).max(1)
}

/// The sockets that one of several processes may have under the open-file limit.
fn sockets_per_process_max() -> u64 {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.unwrap_or(u64::MAX).saturating_sub(DESCRIPTORS_RESERVED).max(1)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The settings of each worker: its share of the shards and sockets.
fn worker_settings(settings: &Settings, processes: usize) -> Settings {
    let mut settings = settings.clone();
    let processes = u32::try_from(processes).expect("there are few processes");
    let cores = cores() as u32;
    let shards = match u32::from(settings.server.shards) {
        0 => cores.div_ceil(processes),
        shards => shards,
    };
    settings.server.shards = u16::try_from(shards).unwrap_or(u16::MAX);
    settings.server.processes = u16::try_from(processes).unwrap_or(u16::MAX);
    let sockets_max = u32::try_from(sockets_per_process_max()).unwrap_or(u32::MAX);
    let share = settings.limits.sockets_max.div_ceil(processes);
    settings.limits.sockets_max = match share {
        0 => sockets_max,
        share => sockets_max.min(share.saturating_add(share / EXTRA_SHARE)),
    };
    settings
}

async fn supervise_all(
    settings: &Settings,
    processes: usize,
    stop: impl Future<Output = ()>,
    started: impl FnOnce(&Started),
) -> Result<(), RunError> {
    let settings = worker_settings(settings, processes);
    TlsPlan::check(&settings).map_err(StartError::Tls)?;
    TlsPlan::check_redirect_addresses(&settings).map_err(StartError::Tls)?;
    let mut hangup = Hangups::signal(settings.tls.is_on())?;
    let hangups = Arc::new(Mutex::new(Hangups::default()));
    let noted = hangups.clone();
    let socket_settings = socket_settings(&settings)?;
    let listeners_each = usize::from(settings.server.shards) * processes;
    let listeners =
        Listeners::open(&socket_settings.listen, listeners_each, true, &SocketLimits::default())
            .map_err(|error| StartError::Sockets(error.into()))?;
    let addresses = listeners.addresses().to_vec();
    let drain_period = settings.server.drain_period;
    let secret = random_secret().map_err(StartError::NoRandomness)?;
    let admin_listeners = AdminListeners::open(&settings.admin).map_err(StartError::Admin)?;
    let admin_addresses = admin_listeners.addresses();
    let startup_data = StartupData {
        settings,
        secret,
        addresses: addresses.clone(),
        admin_listeners: admin_addresses.len(),
    };
    let startup_data = serde_json::to_vec(&startup_data).expect("settings have a JSON form");
    let mut shares = Vec::new();
    for share in listeners.split(processes) {
        // Every worker has the operator's listeners, so another one answers when one ends.
        let mut share = share.into_parts().1;
        share.extend(admin_listeners.descriptors()?);
        shares.push(share);
    }
    drop(admin_listeners);
    let address = addresses[0];
    let mut started = Some((started, Started { address, addresses, admin_addresses, processes }));
    let (ready, mut all_ready) = mpsc::unbounded_channel();
    let plan = Plan {
        workers: u16::try_from(processes).expect("there are few processes"),
        listeners: shares,
        startup_data,
        command: Box::new(|_| same_command()),
        events: Box::new(move |event| {
            log(&event);
            noted.lock().note(&event);
            if let SupervisorEvent::AllReady = event {
                ready.send(()).ok();
            }
        }),
        limits: SupervisorLimits {
            drain_timeout: drain_period + END_GRACE,
            ..SupervisorLimits::default()
        },
    };
    let stopped = Notify::new();
    let stop = async {
        stop.await;
        stopped.notify_one();
    };
    // A second signal kills the workers without a drain.
    let kill = async {
        stopped.notified().await;
        if crate::stop_signal().await.is_err() {
            std::future::pending().await
        }
    };
    let supervision = supervise(plan, stop, kill);
    tokio::pin!(supervision);
    loop {
        tokio::select! {
            ended = &mut supervision => return Ok(ended.map(|_| ())?),
            () = next_hangup(&mut hangup) => hangups.lock().pass_on(),
            Some(()) = all_ready.recv() => {
                if let Some((started, server)) = started.take() {
                    started(&server);
                }
            }
        }
    }
}

/// Waits for SIGHUP; forever if it ends the process.
async fn next_hangup(hangup: &mut Option<Signal>) {
    let received = match hangup {
        Some(hangup) => hangup.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending().await
    }
}

/// The command that starts this program again with the same arguments.
fn same_command() -> Command {
    // This path names the running program even after its file was replaced.
    let mut command = Command::new("/proc/self/exe");
    let mut arguments = std::env::args_os();
    if let Some(name) = arguments.next() {
        std::os::unix::process::CommandExt::arg0(&mut command, name);
    }
    command.args(arguments);
    command
}

fn log(event: &SupervisorEvent) {
    match event {
        SupervisorEvent::Ended { slot, status, restart_in: Some(pause), .. } => {
            tracing::error!(%slot, %status, ?pause, "a worker process ended; restarting it");
        }
        SupervisorEvent::Killed { slot } => {
            tracing::warn!(%slot, "killed a worker process that did not stop in time");
        }
        SupervisorEvent::NotReady { slot } => {
            tracing::error!(%slot, "killed a worker process that did not start in time");
        }
        SupervisorEvent::StartFailed { slot, error, .. } => {
            tracing::error!(%slot, %error, "cannot start a worker process");
        }
        event => tracing::debug!(?event),
    }
}

/// Serves clients as one of several processes, until the supervisor stops it.
async fn serve_as_worker(mut server: Server, setup: WorkerSetup) -> Result<(), RunError> {
    let WorkerSetup { slot, startup_data, mut listeners, links, control, .. } = setup;
    let startup_data: StartupData = serde_json::from_slice(&startup_data).map_err(|error| {
        RunError::JoinSupervisor(io::Error::new(io::ErrorKind::InvalidData, error))
    })?;
    // A terminal sends Ctrl-C to all processes. Workers ignore it; the supervisor stops them.
    let _interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;

    let public = listeners.len().saturating_sub(startup_data.admin_listeners);
    let admin_listeners =
        AdminListeners::from_descriptors(listeners.split_off(public)).map_err(StartError::Admin)?;
    server.set_settings(startup_data.settings);
    let inherited = Listeners::from_parts(startup_data.addresses, listeners)
        .map_err(|error| RunError::JoinSupervisor(io::Error::other(error)))?;
    let connections_max = server.settings().limits.sockets_max.into();
    let balancer = balancer(server.settings(), &inherited);
    let bus = Arc::new(LocalBus::start(slot, BusLimits::default())?);
    let (lost, mut lost_links) = mpsc::unbounded_channel();
    let (receiving_bus, mut handoffs) = (bus.clone(), Vec::new());
    let buses: Vec<_> = links
        .into_iter()
        .map(|Link { to, bus, handoff }| {
            handoffs.push((to, Arc::new(handoff)));
            (to, bus)
        })
        .collect();
    let role = ProcessRole {
        cluster: Cluster::among(bus.clone(), connections_max, balancer),
        secret: startup_data.secret,
        inherited: Some(inherited),
        admin_listeners: Some(admin_listeners),
        on_parts: Box::new(move |cluster, parts| {
            let cluster = cluster.clone();
            receiving_bus.attach(Arc::new(Receiver { cluster, parts, lost }));
            for (to, stream) in buses {
                link(&receiving_bus, to, stream);
            }
        }),
    };
    let server = server.start_as(role)?;
    let mut receivers = JoinSet::new();
    for (to, handoff) in handoffs {
        receive_from(&mut receivers, &server, to, handoff);
    }
    control.ready()?;
    loop {
        tokio::select! {
            order = control.next_order() => match order {
                Order::Link(Link { to, bus: stream, handoff }) => {
                    link(&bus, to, stream);
                    receive_from(&mut receivers, &server, to, Arc::new(handoff));
                }
                Order::Drain => break,
            },
            Some(node) = lost_links.recv() => {
                if let Err(error) = control.link_lost(node) {
                    tracing::warn!(%error, "cannot report a lost link to the supervisor");
                }
            }
            _ = terminated.recv() => break,
        }
    }
    server.drain().await;
    Ok(())
}

/// The balancer of new connections. `None`: the kernel spreads them over all listeners.
fn balancer(settings: &Settings, listeners: &Listeners) -> Option<Balancer> {
    let kernel = listeners
        .connection_balancer()
        .inspect_err(|error| tracing::warn!(%error, "connection balancing unavailable; falling back to SO_REUSEPORT"))
        .ok()?;
    Some(Balancer {
        kernel,
        processes: settings.server.processes,
        shards: settings.server.shards,
        cores: cores(),
        chosen: Vec::new(),
    })
}

fn link(bus: &LocalBus, to: NodeId, stream: std::os::unix::net::UnixStream) {
    if let Err(error) = bus.link(to, stream) {
        tracing::error!(%to, %error, "cannot link to another process");
    }
}

/// Starts to receive connections from another process.
fn receive_from(
    receivers: &mut JoinSet<()>,
    server: &RunningServer,
    to: NodeId,
    handoff: Arc<watchfire_workers::HandoffSocket>,
) {
    let cluster = server.cluster().clone();
    cluster.hand_off_through(to, handoff.clone());
    let adopter = server.adopter();
    receivers.spawn(async move {
        receive_connections(handoff.clone(), adopter).await;
        cluster.close_handoff(to, &handoff);
    });
    // Drops the tasks that have ended.
    while receivers.try_join_next().is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_its_share_of_shards_and_sockets() {
        let mut settings = Settings::default();
        settings.limits.sockets_max = 1_000;
        settings.server.shards = 2;
        let worker = worker_settings(&settings, 50);
        assert_eq!(worker.server.shards, 2);
        assert_eq!(worker.limits.sockets_max, 21);
        let sockets_max = u32::try_from(sockets_per_process_max()).unwrap_or(u32::MAX);
        assert_eq!(worker_settings(&Settings::default(), 3).limits.sockets_max, sockets_max);
        settings.limits.sockets_max = u32::MAX;
        assert_eq!(worker_settings(&settings, 1).limits.sockets_max, sockets_max);
    }

    #[test]
    fn one_process_is_the_default_and_zero_follows_sockets_max() {
        assert_eq!(process_count(&Settings::default()), 1);
        let mut settings = Settings::default();
        settings.server.processes = 0;
        assert_eq!(process_count(&settings), 1);
        settings.limits.sockets_max = u32::MAX;
        assert_eq!(process_count(&settings) > 1, sockets_per_process_max() < u64::from(u32::MAX));
    }
}
