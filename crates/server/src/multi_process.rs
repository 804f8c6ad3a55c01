//! A server of several processes: what each of them does.
//!
//! The process that is started opens the listeners and supervises; it serves nobody. It starts
//! the same program again for each part of the server, and gives it the settings, a secret that
//! all parts share, and its listeners. See the crates `workers` (who lives) and `bus` (what they
//! tell one another).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use watchfire_bus::{BusLimits, LocalBus};
use watchfire_sockets::{Listeners, SocketLimits};
use watchfire_types::NodeId;
use watchfire_workers::{
    Link, Order, Plan, SuperviseError, SupervisorEvent, SupervisorLimits, WorkerSetup,
    join_supervisor, supervise,
};

use crate::cluster::{Balancer, Cluster, PROCESSES_MAX, Receiver, receive_connections};
use crate::server::{
    ProcessRole, RunningServer, Server, StartError, random_secret, socket_settings,
};
use crate::settings::Settings;

/// Descriptors of a process that are no clients: listeners, links to the others, files.
const DESCRIPTORS_RESERVED: u64 = 512;
/// How much more than its even share of sockets a process may have, as one in so many.
const UNEVENNESS: u32 = 16;
/// Beyond its drain, how long a process may take to end.
const END_GRACE: Duration = Duration::from_secs(10);

/// Why a server did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its processes could not be started.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    /// More processes than there can be.
    #[error("server.processes: at most {PROCESSES_MAX} are possible, {processes} are asked for")]
    TooManyProcesses {
        /// How many.
        processes: usize,
    },
    /// The supervisor that started this process is not understood.
    #[error("this process was started as one of several: {0}")]
    JoinSupervisor(io::Error),
    /// The system refused something.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A server that can be reached.
#[derive(Clone, Debug)]
pub struct Started {
    /// The first address it listens on.
    pub address: SocketAddr,
    /// All addresses it listens on, in the order of the settings.
    pub addresses: Vec<SocketAddr>,
    /// How many processes serve.
    pub processes: usize,
}

/// What a supervisor tells the parts of its server.
#[derive(Serialize, Deserialize)]
struct StartupData {
    settings: Settings,
    secret: [u8; 32],
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Run until `stop` is through, then drain; in as many processes as `server.processes` says.
    ///
    /// `started` is called once, when the server can be reached. With several processes the
    /// program that calls this is started again for each, with the same arguments: there, this
    /// call serves, `started` is not called, and `stop` is not waited for.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        started: impl FnOnce(&Started),
    ) -> Result<(), RunError> {
        match join_supervisor() {
            Ok(None) => {}
            Ok(Some(setup)) => return serve_part(self, setup).await,
            // The stop came while this process started.
            Err(error) if is_stop(&error) => return Ok(()),
            Err(error) => return Err(RunError::JoinSupervisor(error)),
        }
        match processes(self.settings()) {
            1 => {
                let server = self.start()?;
                let addresses = server.addresses().to_vec();
                started(&Started { address: addresses[0], addresses, processes: 1 });
                stop.await;
                server.drain().await;
                Ok(())
            }
            processes if processes > PROCESSES_MAX => Err(RunError::TooManyProcesses { processes }),
            processes => supervise_all(self.settings(), processes, stop, started).await,
        }
    }
}

fn is_stop(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof)
}

/// How many processes a server is to have.
fn processes(settings: &Settings) -> usize {
    if settings.server.processes > 0 {
        return usize::from(settings.server.processes);
    }
    let each = sockets_of_one_process();
    let wanted = u64::from(settings.limits.sockets_max);
    let room = wanted + wanted / u64::from(UNEVENNESS);
    usize::try_from(room.div_ceil(each)).unwrap_or(usize::MAX).max(1)
}

/// How many sockets the open-file limit leaves one of several processes.
fn sockets_of_one_process() -> u64 {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.unwrap_or(u64::MAX).saturating_sub(DESCRIPTORS_RESERVED).max(1)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What each of several processes does with the settings of all.
fn settings_of_part(settings: &Settings, processes: usize) -> Settings {
    let mut settings = settings.clone();
    let processes = u32::try_from(processes).expect("there are few processes");
    let cores = cores() as u32;
    let shards = match u32::from(settings.server.shards) {
        0 => cores.div_ceil(processes),
        shards => shards,
    };
    settings.server.shards = u16::try_from(shards).unwrap_or(u16::MAX);
    settings.server.processes = u16::try_from(processes).unwrap_or(u16::MAX);
    let room = u32::try_from(sockets_of_one_process()).unwrap_or(u32::MAX);
    let share = settings.limits.sockets_max.div_ceil(processes);
    settings.limits.sockets_max = match share {
        0 => room,
        share => room.min(share.saturating_add(share / UNEVENNESS)),
    };
    settings
}

async fn supervise_all(
    settings: &Settings,
    processes: usize,
    stop: impl Future<Output = ()>,
    started: impl FnOnce(&Started),
) -> Result<(), RunError> {
    let settings = settings_of_part(settings, processes);
    let socket_settings = socket_settings(&settings)?;
    let sockets_each = usize::from(settings.server.shards) * processes;
    let listeners =
        Listeners::open(&socket_settings.listen, sockets_each, true, &SocketLimits::default())
            .map_err(|error| StartError::Sockets(error.into()))?;
    let addresses = listeners.addresses().to_vec();
    let drain_period = settings.server.drain_period;
    let secret = random_secret().map_err(StartError::NoRandomness)?;
    let startup_data = StartupData { settings, secret, addresses: addresses.clone() };
    let startup_data = serde_json::to_vec(&startup_data).expect("settings have a JSON form");
    let shares = listeners.split(processes).into_iter().map(|share| share.into_parts().1);
    let mut started = Some((started, Started { address: addresses[0], addresses, processes }));
    let (ready, mut all_ready) = mpsc::unbounded_channel();
    let plan = Plan {
        workers: u16::try_from(processes).expect("there are few processes"),
        listeners: shares.collect(),
        startup_data,
        command: Box::new(|_| again()),
        events: Box::new(move |event| {
            log(&event);
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
    // Asked a second time, nobody waits for a drain.
    let kill = async {
        stopped.notified().await;
        if crate::stop_signal().await.is_err() {
            std::future::pending().await
        }
    };
    let supervising = supervise(plan, stop, kill);
    tokio::pin!(supervising);
    loop {
        tokio::select! {
            ended = &mut supervising => return Ok(ended.map(|_| ())?),
            Some(()) = all_ready.recv() => {
                if let Some((started, with)) = started.take() {
                    started(&with);
                }
            }
        }
    }
}

/// This program once more, as it was started.
fn again() -> Command {
    // The program that runs, even when its file was replaced.
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
            tracing::error!(%slot, %status, ?pause, "a process ended, and is started again");
        }
        SupervisorEvent::Killed { slot } => tracing::warn!(%slot, "killed: it did not end in time"),
        SupervisorEvent::NotReady { slot } => tracing::error!(%slot, "killed: it did not serve"),
        SupervisorEvent::NotStarted { slot, error, .. } => {
            tracing::error!(%slot, %error, "a process cannot be started");
        }
        event => tracing::debug!(?event),
    }
}

/// Serve as one of several processes, until the supervisor says otherwise.
async fn serve_part(mut server: Server, setup: WorkerSetup) -> Result<(), RunError> {
    let WorkerSetup { slot, startup_data, listeners, links, control, .. } = setup;
    let startup_data: StartupData = serde_json::from_slice(&startup_data).map_err(|error| {
        RunError::JoinSupervisor(io::Error::new(io::ErrorKind::InvalidData, error))
    })?;
    // A terminal's Ctrl-C goes to all processes at once: the supervisor says what follows from it.
    let _interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;

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
        take_from(&mut receivers, &server, to, handoff);
    }
    control.ready()?;
    loop {
        tokio::select! {
            order = control.next_order() => match order {
                Order::Link(Link { to, bus: stream, handoff }) => {
                    link(&bus, to, stream);
                    take_from(&mut receivers, &server, to, Arc::new(handoff));
                }
                Order::Drain => break,
            },
            Some(node) = lost_links.recv() => {
                if let Err(error) = control.link_lost(node) {
                    tracing::warn!(%error, "the supervisor cannot be told of a lost link");
                }
            }
            _ = terminated.recv() => break,
        }
    }
    server.drain().await;
    Ok(())
}

/// What steers newcomers. Without it the kernel spreads them, which is good enough to serve.
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
        tracing::error!(%to, %error, "no link to another process");
    }
}

fn take_from(
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
    // Tasks that have ended are dropped.
    while receivers.try_join_next().is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_share_of_shards_and_sockets() {
        let mut settings = Settings::default();
        settings.limits.sockets_max = 1_000;
        settings.server.shards = 2;
        let part = settings_of_part(&settings, 50);
        assert_eq!(part.server.shards, 2);
        assert_eq!(part.limits.sockets_max, 21);
        let room = u32::try_from(sockets_of_one_process()).unwrap_or(u32::MAX);
        assert_eq!(settings_of_part(&Settings::default(), 3).limits.sockets_max, room);
        settings.limits.sockets_max = u32::MAX;
        assert_eq!(settings_of_part(&settings, 1).limits.sockets_max, room);
    }

    #[test]
    fn one_process_is_the_default_and_auto_follows_the_sockets() {
        assert_eq!(processes(&Settings::default()), 1);
        let mut settings = Settings::default();
        settings.server.processes = 0;
        assert_eq!(processes(&settings), 1);
        settings.limits.sockets_max = u32::MAX;
        assert_eq!(processes(&settings) > 1, sockets_of_one_process() < u64::from(u32::MAX));
    }
}
