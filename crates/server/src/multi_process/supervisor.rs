//! The supervisor: opens the listeners, starts a worker for each process, and serves no clients.

use std::collections::BTreeSet;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use watchfire_cluster::workers::{
    Plan, Predecessor, SupervisorEvent, SupervisorLimits, SupervisorLinks, supervise,
};
use watchfire_types::NodeId;

use super::sighup::SighupForwarding;
use super::{RunError, Started, StartupData, worker_settings};
use crate::cluster::PROCESSES_MAX;
use crate::history::{HandOverSockets, LogKeeper};
use crate::machines::{self, ClusterError, Machine};
use crate::process::outlived_signals;
use crate::restart::{Inherited, Opened, Restarts, report_ready};
use crate::server::{Server, StartError, random_secret};
use crate::service_manager;
use crate::tls;

/// How long a process may take to end after its drain.
const END_GRACE: Duration = Duration::from_secs(10);
/// The time between two checks of the histories that the supervisor keeps.
const KEEPER_TICK: Duration = Duration::from_millis(100);

/// The listeners and the rest that the supervisor has opened for its workers.
struct OpenServer {
    workers: u16,
    /// The listeners of each worker.
    shares: Vec<Vec<OwnedFd>>,
    startup_data: Vec<u8>,
    started: Started,
    drain_period: Duration,
    machine: Option<Machine>,
    restarts: Restarts,
    predecessor: Option<Predecessor>,
    histories: Option<HandOverSockets>,
}

impl OpenServer {
    /// Checks what the workers will need, opens all listeners, and joins the cluster.
    async fn open(
        server: &Server,
        processes: usize,
        inherited: Inherited,
    ) -> Result<Self, RunError> {
        let mut settings = worker_settings(server.settings(), processes);
        let is_successor = inherited.is_successor();
        tls::check(&settings, &server.domains()).map_err(StartError::Tls)?;
        if !is_successor {
            tls::check_redirect_addresses(&settings).map_err(StartError::Tls)?;
        }
        server.check_features()?;
        let all_shards = usize::from(settings.server.shards) * processes;
        let Opened { listeners, listen, restarts, predecessor, histories } =
            inherited.open(&settings.server.listen, all_shards)?;
        settings.server.listen = listen;
        let addresses = listeners.addresses().to_vec();
        let drain_period = settings.server.drain_period;
        let workers = u16::try_from(processes).expect("there are few processes");
        machines::check_histories(&settings, true).await?;
        let machine = machines::join(&settings.cluster, workers).await?;
        let secret = match &machine {
            Some(machine) => machine.secret,
            None => random_secret().map_err(StartError::NoRandomness)?,
        };
        let shared_listeners = server.listen(is_successor)?;
        let sections = settings.of_features.to_json().expect("settings have a JSON form");
        let startup_data = StartupData {
            settings,
            sections,
            secret,
            first: machine.as_ref().map_or(0, |machine| machine.first.0),
            cluster: machine.as_ref().map_or(0, |machine| machine.cluster),
            addresses: addresses.clone(),
            feature_listeners: shared_listeners.counts(),
            sockets_per_shard: listeners.sockets_per_shard(),
            numbered: listeners.numbered(),
            is_successor,
        };
        let mut shares = Vec::new();
        for share in listeners.split(processes) {
            let mut share = share.into_parts().1;
            share.extend(shared_listeners.descriptors()?);
            shares.push(share);
        }
        let feature_addresses = server.addresses_of(&shared_listeners);
        let started = Started { address: addresses[0], addresses, feature_addresses, processes };
        Ok(OpenServer {
            workers,
            shares,
            startup_data: serde_json::to_vec(&startup_data).expect("settings have a JSON form"),
            started,
            drain_period,
            machine,
            restarts,
            predecessor,
            histories,
        })
    }
}

/// The notes of the supervisor about its workers.
#[derive(Clone, Default)]
struct Noted {
    sighup: Arc<Mutex<SighupForwarding>>,
    unresponsive: Arc<Mutex<BTreeSet<NodeId>>>,
}

impl Noted {
    /// The plan of the workers, whose events are noted. `ready` is told when all serve.
    fn plan(
        &self,
        workers: u16,
        listeners: Vec<Vec<OwnedFd>>,
        startup_data: Vec<u8>,
        drain_period: Duration,
        keeper: Option<LogKeeper>,
        ready: mpsc::UnboundedSender<()>,
    ) -> Plan {
        let noted = self.clone();
        Plan {
            workers,
            listeners,
            startup_data,
            command: Box::new(|_| same_command()),
            events: Box::new(move |event| {
                log(&event);
                noted.sighup.lock().note(&event);
                note_unresponsive(&mut noted.unresponsive.lock(), &event);
                if let SupervisorEvent::AllReady = event {
                    ready.send(()).ok();
                }
            }),
            links: keeper.map(|keeper| -> SupervisorLinks {
                Box::new(move |slot, stream| keeper.link(slot, stream))
            }),
            limits: SupervisorLimits {
                drain_timeout: drain_period + END_GRACE,
                ..SupervisorLimits::default()
            },
        }
    }
}

/// Supervises the processes of a server until it ends.
pub(crate) async fn supervise_all(
    server: &Server,
    processes: usize,
    inherited: Inherited,
    stop: impl Future<Output = ()>,
    started: impl FnOnce(&Started),
) -> Result<(), RunError> {
    if processes > PROCESSES_MAX {
        return Err(RunError::TooManyProcesses { processes });
    }
    let _outlived = outlived_signals()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let open = OpenServer::open(server, processes, inherited).await?;
    let OpenServer { workers, shares, startup_data, drain_period, mut restarts, .. } = open;
    let OpenServer { mut machine, mut predecessor, histories, .. } = open;
    let mut started = Some((started, open.started));
    let noted = Noted::default();
    let (ready, mut all_ready) = mpsc::unbounded_channel();
    let keeper = LogKeeper::of_supervisor(server.settings(), histories)?;
    restarts.histories = keeper.clone();
    let mut ticks = tokio::time::interval(KEEPER_TICK);
    let plan = noted.plan(workers, shares, startup_data, drain_period, keeper.clone(), ready);
    let (stopped, is_ready, place_lost) = (Notify::new(), Notify::new(), Notify::new());
    let stop = async {
        let is_alive = || noted.unresponsive.lock().len() < processes;
        until_stop(stop, &place_lost, &is_ready, restarts, is_alive).await;
        stopped.notify_one();
    };
    let mut supervision = pin!(supervise(plan, stop, second_signal(&stopped)));
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
            _ = ticks.tick(), if keeper.is_some() => drop(keeper.as_ref().map(|it| it.tick())),
            Some(()) = hangup.recv() => noted.sighup.lock().pass_on(),
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

/// Waits for the end of the server: `stop`, a lost place in the cluster, or a successor. A restart
/// before all processes serve would find a server that is half started.
async fn until_stop(
    stop: impl Future<Output = ()>,
    place_lost: &Notify,
    is_ready: &Notify,
    restarts: Restarts,
    is_alive: impl FnMut() -> bool,
) {
    let stop = async {
        tokio::select! {
            () = stop => {}
            () = place_lost.notified() => {}
        }
    };
    let mut stop = pin!(stop);
    tokio::select! {
        () = &mut stop => {}
        () = is_ready.notified() => restarts.until_end(stop, is_alive).await,
    }
}

/// A second signal, which kills the workers without a drain.
async fn second_signal(stopped: &Notify) {
    stopped.notified().await;
    if crate::stop_signal().await.is_err() {
        std::future::pending().await
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
