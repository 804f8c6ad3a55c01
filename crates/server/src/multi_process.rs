//! A server of several processes: the supervisor, and each worker.
//!
//! The first process opens the listeners and supervises; it serves no clients. It starts the same
//! program again for each worker, and sends it the settings, a common secret and its listeners. In
//! the crate `cluster`, `workers` has the supervision, and `bus` the messages between workers.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use watchfire_cluster::bus::{BusLimits, LocalBus};
use watchfire_cluster::workers::{
    Link, Order, Plan, SuperviseError, SupervisorEvent, SupervisorLimits, WorkerSetup, supervise,
};
use watchfire_sockets::{Listeners, LoopPanic};
use watchfire_types::NodeId;

use crate::cluster::{
    Balancer, Cluster, PROCESSES_MAX, ProcessStarts, Receiver, receive_connections,
};
use crate::hangups::Hangups;
use crate::machines::{self, ClusterError};
use crate::nats::Machine;
use crate::restart::{Inherited, OpenError, Opened, report_ready};
use crate::server::{
    ProcessRole, RunningServer, Server, SharedListeners, StartError, cores, random_secret,
};
use crate::service_manager;
use crate::settings::Settings;
use crate::tls::TlsPlan;

/// Open files of a process besides its clients: listeners, links to the other processes, files.
const DESCRIPTORS_RESERVED: u64 = 512;
/// A process may have its even share of sockets, and one in so many of the share in addition.
const EXTRA_SHARE: u32 = 16;
/// How long a process may take to end after its drain.
const END_GRACE: Duration = Duration::from_secs(10);

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// The listeners of the service manager, or of the server to replace, cannot be used.
    #[error("cannot take over listeners: {0}")]
    Inherit(io::Error),
    /// This machine is not part of the cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An event loop of this process panicked.
    #[error("the server has ended: {0}")]
    EventLoop(#[from] LoopPanic),
    /// A call to the operating system failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<OpenError> for RunError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Listen(error) => RunError::Start(StartError::Sockets(error.into())),
            OpenError::Copy(error) => RunError::System(error),
        }
    }
}

/// A server that accepts connections.
#[derive(Clone, Debug)]
pub struct Started {
    /// The first address on which the server listens.
    pub address: SocketAddr,
    /// All addresses on which the server listens, in the order of the settings.
    pub addresses: Vec<SocketAddr>,
    /// The addresses on which features listen for themselves, by the names of the features.
    pub feature_addresses: Vec<(&'static str, Vec<SocketAddr>)>,
    /// The number of processes that serve clients.
    pub processes: usize,
}

impl Started {
    /// The addresses on which a feature listens for itself; none if there is no such feature.
    pub fn addresses_of(&self, feature: &str) -> &[SocketAddr] {
        let found = self.feature_addresses.iter().find(|(name, _)| *name == feature);
        found.map_or(&[], |(_, addresses)| addresses)
    }
}

/// The data that a supervisor sends to each worker.
#[derive(Serialize, Deserialize)]
struct StartupData {
    settings: Settings,
    secret: [u8; 32],
    /// The node of the first worker; the others follow it.
    first: u16,
    /// The id of the cluster of machines; 0 on a server of one machine.
    cluster: u64,
    addresses: Vec<SocketAddr>,
    /// The last of the worker's listeners are those of features: so many of each.
    feature_listeners: Vec<usize>,
    sockets_per_shard: usize,
    /// See [`Listeners::numbered`].
    numbered: Option<usize>,
    /// Whether another server runs until this one is ready.
    is_successor: bool,
}

pub(crate) fn is_stop_during_start(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof)
}

/// The number of processes that the settings require.
pub(crate) fn process_count(settings: &Settings) -> usize {
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

/// Supervises the processes of a server until it ends.
pub(crate) async fn supervise_all(
    server: &mut Server,
    processes: usize,
    inherited: Inherited,
    stop: impl Future<Output = ()>,
    started: impl FnOnce(&Started),
) -> Result<(), RunError> {
    if processes > PROCESSES_MAX {
        return Err(RunError::TooManyProcesses { processes });
    }
    let mut settings = worker_settings(server.settings(), processes);
    let is_successor = inherited.is_successor();
    TlsPlan::check(&settings).map_err(StartError::Tls)?;
    if !is_successor {
        TlsPlan::check_redirect_addresses(&settings).map_err(StartError::Tls)?;
    }
    let mut hangup = signal(SignalKind::hangup())?;
    let hangups = Arc::new(Mutex::new(Hangups::default()));
    let noted_hangups = hangups.clone();
    let all_shards = usize::from(settings.server.shards) * processes;
    let Opened { listeners, listen, restarts, mut predecessor } =
        inherited.open(&settings.server.listen, all_shards)?;
    settings.server.listen = listen;
    let addresses = listeners.addresses().to_vec();
    let drain_period = settings.server.drain_period;
    let workers = u16::try_from(processes).expect("there are few processes");
    let mut machine = machines::join(&settings.cluster, workers).await?;
    let secret = match &machine {
        Some(machine) => machine.secret(),
        None => random_secret().map_err(StartError::NoRandomness)?,
    };
    let shared_listeners = server.listen(is_successor)?;
    let feature_addresses = server.addresses_of(&shared_listeners);
    let startup_data = StartupData {
        settings,
        secret,
        first: machine.as_ref().map_or(0, |machine| machine.first().0),
        cluster: machine.as_ref().map_or(0, Machine::cluster),
        addresses: addresses.clone(),
        feature_listeners: shared_listeners.counts(),
        sockets_per_shard: listeners.sockets_per_shard(),
        numbered: listeners.numbered(),
        is_successor,
    };
    let startup_data = serde_json::to_vec(&startup_data).expect("settings have a JSON form");
    let mut shares = Vec::new();
    for share in listeners.split(processes) {
        let mut share = share.into_parts().1;
        share.extend(shared_listeners.descriptors()?);
        shares.push(share);
    }
    drop(shared_listeners);
    let address = addresses[0];
    let mut started = Some((started, Started { address, addresses, feature_addresses, processes }));
    let (ready, mut all_ready) = mpsc::unbounded_channel();
    let unresponsive = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = unresponsive.clone();
    let plan = Plan {
        workers,
        listeners: shares,
        startup_data,
        command: Box::new(|_| same_command()),
        events: Box::new(move |event| {
            log(&event);
            noted_hangups.lock().note(&event);
            note_unresponsive(&mut noted.lock(), &event);
            if let SupervisorEvent::AllReady = event {
                ready.send(()).ok();
            }
        }),
        limits: SupervisorLimits {
            drain_timeout: drain_period + END_GRACE,
            ..SupervisorLimits::default()
        },
    };
    let (stopped, is_ready, place_lost) = (Notify::new(), Notify::new(), Notify::new());
    let stop = async {
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = place_lost.notified() => {}
            }
        };
        let mut stop = pin!(stop);
        // A restart before all processes serve would find a server that is half started.
        tokio::select! {
            () = &mut stop => {}
            () = is_ready.notified() => {
                let is_alive = || unresponsive.lock().len() < processes;
                restarts.until_end(stop, is_alive).await;
            }
        }
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
    let mut lost = None;
    loop {
        tokio::select! {
            ended = &mut supervision => {
                if let Some(machine) = machine {
                    machine.leave().await;
                }
                ended?;
                return lost.map_or(Ok(()), |error: ClusterError| Err(error.into()));
            }
            error = machines::place_lost(&mut machine), if lost.is_none() => {
                tracing::error!(%error, "this machine stops");
                lost = Some(error);
                place_lost.notify_one();
            }
            Some(()) = hangup.recv() => hangups.lock().pass_on(),
            Some(()) = all_ready.recv() => {
                if let Some((started, server)) = started.take() {
                    started(&server);
                    report_ready(predecessor.take());
                    is_ready.notify_one();
                }
            }
        }
    }
}

/// Keeps the set of processes that do not respond.
fn note_unresponsive(unresponsive: &mut BTreeSet<NodeId>, event: &SupervisorEvent) {
    match event {
        SupervisorEvent::Unresponsive { slot } => {
            unresponsive.insert(*slot);
        }
        SupervisorEvent::Responsive { slot } | SupervisorEvent::Ended { slot, .. } => {
            unresponsive.remove(slot);
        }
        _ => {}
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
    service_manager::hide_from(&mut command);
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
        SupervisorEvent::Unresponsive { slot } => {
            tracing::warn!(%slot, "a worker process does not respond; it gets no new clients");
        }
        SupervisorEvent::Responsive { slot } => {
            tracing::warn!(%slot, "a worker process responds again");
        }
        SupervisorEvent::Hung { slot } => {
            tracing::error!(%slot, "killed a worker process that did not respond; restarting it");
        }
        SupervisorEvent::StartFailed { slot, error, .. } => {
            tracing::error!(%slot, %error, "cannot start a worker process");
        }
        event => tracing::debug!(?event),
    }
}

/// Serves clients as one of several processes, until the supervisor stops it.
pub(crate) async fn serve_as_worker(
    mut server: Server,
    setup: WorkerSetup,
) -> Result<(), RunError> {
    let WorkerSetup { slot, startup_data, mut listeners, links, control, heartbeat_period, .. } =
        setup;
    let starts = ProcessStarts { restarts: setup.restarts, hangs: setup.hangs };
    let startup_data: StartupData = serde_json::from_slice(&startup_data).map_err(|error| {
        RunError::JoinSupervisor(io::Error::new(io::ErrorKind::InvalidData, error))
    })?;
    // A terminal sends Ctrl-C to all processes, and a service manager may send SIGUSR2 to all.
    // Workers ignore both; the supervisor stops them.
    let _interrupted = signal(SignalKind::interrupt())?;
    let _restarted = signal(SignalKind::user_defined2())?;
    // The parts that reload something listen for it, too. Without them, it must not end the process.
    let _hangup = signal(SignalKind::hangup())?;
    let mut terminated = signal(SignalKind::terminate())?;

    let counts = &startup_data.feature_listeners;
    let public = listeners.len().saturating_sub(counts.iter().sum());
    let shared_listeners = SharedListeners::from_descriptors(counts, listeners.split_off(public));
    server.set_settings(startup_data.settings);
    let StartupData {
        addresses, sockets_per_shard, numbered, is_successor, first, cluster, ..
    } = startup_data;
    let node = |slot: NodeId| NodeId(first + slot.0);
    let me = node(slot);
    let inherited = Listeners::from_parts(addresses, sockets_per_shard, listeners)
        .map_err(|error| RunError::JoinSupervisor(io::Error::other(error)))?;
    let connections_max = server.settings().limits.sockets_max.into();
    let balancer = balancer(server.settings(), NodeId(first), &inherited, numbered);
    let of_machine = first..first + server.settings().server.processes;
    let cluster_settings = server.settings().cluster.clone();
    let bus = Arc::new(LocalBus::start(me, BusLimits::default())?);
    let (lost, mut lost_links) = mpsc::unbounded_channel();
    let (receiving_bus, mut handoffs) = (bus.clone(), Vec::new());
    let buses: Vec<_> = links
        .into_iter()
        .map(|Link { to, bus, handoff }| {
            handoffs.push((node(to), Arc::new(handoff)));
            (node(to), bus)
        })
        .collect();
    let role = ProcessRole {
        cluster: Cluster::among(bus.clone(), of_machine.clone(), connections_max, balancer, starts),
        is_successor,
        secret: startup_data.secret,
        inherited: Some(inherited),
        listeners: Some(shared_listeners),
        on_parts: Box::new(move |cluster, parts| {
            let cluster = cluster.clone();
            receiving_bus.attach(Arc::new(Receiver::new(cluster, parts, lost)));
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
    // Ends after the drain, so that clients hear of each other until then.
    let links = machines::link(&cluster_settings, me, of_machine.clone(), cluster, &bus).await?;
    machines::settle(server.cluster(), links.as_ref()).await;
    server.prepared().await;
    control.ready()?;
    let mut loops = server.loop_watch();
    let mut heartbeats = tokio::time::interval(heartbeat_period);
    let mut panicked = pin!(server.panicked());
    let mut panic = None;
    loop {
        tokio::select! {
            // The supervisor starts another process, as after any other end.
            ended = &mut panicked => {
                panic = Some(ended);
                break;
            }
            _ = heartbeats.tick() => match &loops.stalled()[..] {
                // The end of the supervisor arrives as an order.
                [] => drop(control.heartbeat()),
                stalled => tracing::error!(?stalled, "event loops do not run"),
            },
            order = control.next_order() => match order {
                Order::Link(Link { to, bus: stream, handoff }) => {
                    link(&bus, node(to), stream);
                    receive_from(&mut receivers, &server, node(to), Arc::new(handoff));
                }
                Order::Unresponsive(nodes) => server.cluster().note_unresponsive(&nodes),
                Order::Drain => break,
            },
            Some(lost) = lost_links.recv() => {
                // Links to other machines are opened again without the supervisor.
                if !of_machine.contains(&lost.0) {
                    continue;
                }
                if let Err(error) = control.link_lost(NodeId(lost.0 - first)) {
                    tracing::warn!(%error, "cannot report a lost link to the supervisor");
                }
            }
            _ = terminated.recv() => break,
        }
    }
    // A process that was stopped alone is still supervised.
    let beat = async {
        loop {
            heartbeats.tick().await;
            drop(control.heartbeat());
        }
    };
    let end = async {
        match panic {
            None => {
                server.drain().await;
                Ok(())
            }
            Some(panic) => {
                server.end_after_panic().await;
                Err(panic.into())
            }
        }
    };
    tokio::select! {
        end = end => end,
        () = beat => unreachable!("heartbeats are sent for ever"),
    }
}

/// The balancer of new connections. `None`: the kernel spreads them over all listeners.
fn balancer(
    settings: &Settings,
    first: NodeId,
    listeners: &Listeners,
    numbered: Option<usize>,
) -> Option<Balancer> {
    let Some(sockets) = numbered else {
        tracing::info!("all processes share the inherited sockets; connections are not balanced");
        return None;
    };
    let kernel = listeners
        .connection_balancer()
        .inspect_err(|error| tracing::warn!(%error, "connection balancing unavailable; falling back to SO_REUSEPORT"))
        .ok()?;
    Some(Balancer {
        kernel,
        processes: settings.server.processes,
        first,
        shards: settings.server.shards,
        sockets: u32::try_from(sockets).unwrap_or(u32::MAX),
        cores: cores(),
        chosen: Vec::new(),
        ticks: 0,
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
    handoff: Arc<watchfire_cluster::workers::HandoffSocket>,
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
