//! The driver of [`Supervisor`]: processes, sockets and timers.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use watchfire_types::{Instant, NodeId};

use crate::workers::packet;
use crate::workers::plan::{
    Ended, Plan, STARTUP_DATA_BYTES_MAX, SUPERVISOR, SuperviseError, SupervisorEvent,
    SupervisorLimits, SupervisorLinks, WORKERS_MAX,
};
use crate::workers::supervisor::{Event, Failure, Input, Output, Supervisor};
use crate::workers::worker::{
    self, CommonSetup, Listeners, OutgoingMessage, OwnSetup, WorkerEvent, WorkerHandle,
};

/// Queued events of all workers. When the queue is full, the workers' tasks wait.
const WORKER_EVENTS_MAX: usize = 256;

/// Runs workers until `stop`, and returns when the last of them has ended.
///
/// A worker that ends earlier is restarted in its slot, after a pause that grows while runs are
/// short. At the first start, a worker that cannot serve ends all workers. `stop` drains all
/// workers. `kill`, or a drain that takes too long, kills the remaining ones. When the supervisor
/// itself is killed, or this future is dropped, the workers notice and drain.
///
/// Needs a tokio runtime with I/O and time; one thread is enough.
pub async fn supervise(
    plan: Plan,
    stop: impl Future,
    kill: impl Future,
) -> Result<Ended, SuperviseError> {
    let (mut supervisor, mut worker_events) = Driver::new(plan)?;
    let (mut stop, mut kill) = (pin!(stop), pin!(kill));
    let (mut is_stopped, mut is_killed) = (false, false);
    loop {
        supervisor.process_outputs();
        if supervisor.supervisor.is_over() {
            break;
        }
        let wake = supervisor.supervisor.next_wake().map(|at| at.since(supervisor.now()));
        let input = tokio::select! {
            Some((slot, event)) = worker_events.recv() => match supervisor.input_of(slot, event) {
                Some(input) => input,
                None => continue,
            },
            _ = &mut stop, if !is_stopped => {
                is_stopped = true;
                Input::Stop
            }
            _ = &mut kill, if !is_killed => {
                is_killed = true;
                Input::Kill
            }
            () = tokio::time::sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() => Input::Tick,
        };
        supervisor.supervisor.handle_input(supervisor.now(), input);
    }
    supervisor.finish().await
}

struct Driver {
    supervisor: Supervisor,
    limits: SupervisorLimits,
    common_setup: Arc<CommonSetup>,
    /// By slot; closed at the stop.
    listeners: Vec<Listeners>,
    command: Box<dyn Fn(NodeId) -> std::process::Command + Send + Sync>,
    events: Box<dyn FnMut(SupervisorEvent) + Send>,
    links: Option<SupervisorLinks>,
    /// The number of each slot's newest link to the supervisor.
    links_to: Vec<u64>,
    started_at: std::time::Instant,
    worker_events: mpsc::Sender<(u16, WorkerEvent)>,
    /// The slots of workers that do not respond.
    unresponsive: watch::Sender<Vec<u16>>,
    tasks: JoinSet<()>,
    workers: Vec<Option<WorkerHandle>>,
    /// The exit status of each slot's last process.
    statuses: Vec<ExitStatus>,
    /// The error of each slot's last failed start.
    start_errors: Vec<Option<io::Error>>,
    failure: Option<SuperviseError>,
}

impl Driver {
    fn new(plan: Plan) -> Result<(Driver, mpsc::Receiver<(u16, WorkerEvent)>), SuperviseError> {
        let Plan { workers, listeners, startup_data, command, events, links, limits } = plan;
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(SuperviseError::Workers { workers });
        }
        if listeners.len() != usize::from(workers) {
            return Err(SuperviseError::Listeners { lists: listeners.len(), workers });
        }
        if startup_data.len() > STARTUP_DATA_BYTES_MAX {
            return Err(SuperviseError::StartupDataTooLong { len: startup_data.len() });
        }
        for listener in listeners.iter().flatten() {
            // A worker gets its own listeners over the socket, and inherits none.
            rustix::io::fcntl_setfd(listener, FdFlags::CLOEXEC).map_err(|error| {
                SuperviseError::System { what: "a listener", cause: error.into() }
            })?;
        }
        let (event_sender, worker_events) = mpsc::channel(WORKER_EVENTS_MAX);
        let slots = usize::from(workers);
        let supervisor = Driver {
            supervisor: Supervisor::new(workers, limits.clone()),
            common_setup: Arc::new(CommonSetup {
                workers,
                startup_data,
                heartbeat_period: limits.heartbeat_period,
            }),
            listeners: listeners
                .into_iter()
                .map(|some| some.into_iter().map(Arc::new).collect())
                .collect(),
            limits,
            command,
            events,
            links,
            links_to: vec![0; slots],
            started_at: std::time::Instant::now(),
            worker_events: event_sender,
            unresponsive: watch::Sender::default(),
            tasks: JoinSet::new(),
            workers: (0..slots).map(|_| None).collect(),
            statuses: vec![ExitStatus::default(); slots],
            start_errors: (0..slots).map(|_| None).collect(),
            failure: None,
        };
        Ok((supervisor, worker_events))
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.started_at.elapsed()
    }

    fn send(&self, slot: u16, message: OutgoingMessage) {
        if let Some(handle) = &self.workers[usize::from(slot)] {
            handle.send(message);
        }
    }

    fn input_of(&mut self, slot: u16, event: WorkerEvent) -> Option<Input> {
        Some(match event {
            WorkerEvent::Ready => Input::Ready(slot),
            WorkerEvent::Heartbeat => Input::Heartbeat(slot),
            WorkerEvent::LinkLost { to, number } if to == SUPERVISOR.0 => {
                // Otherwise another link is on its way to the worker already.
                if number == self.links_to[usize::from(slot)] {
                    self.link(slot);
                }
                return None;
            }
            WorkerEvent::LinkLost { to, number } => Input::LinkLost { slot, to, number },
            WorkerEvent::Sent => Input::Sent(slot),
            WorkerEvent::Ended(status) => {
                self.workers[usize::from(slot)] = None;
                self.statuses[usize::from(slot)] = status;
                // Its task has ended or is about to; remove those that have.
                while self.tasks.try_join_next().is_some() {}
                Input::Ended(slot)
            }
        })
    }

    /// Links a worker to the supervisor, if it has such a link.
    fn link(&mut self, slot: u16) {
        let Some(links) = &mut self.links else { return };
        let Ok((bus, handoff)) = link() else {
            // It cannot follow the supervisor, so it begins again when there are descriptors.
            if let Some(handle) = &self.workers[usize::from(slot)] {
                handle.kill();
            }
            return;
        };
        links(NodeId(slot), bus.0.into());
        let number = &mut self.links_to[usize::from(slot)];
        *number += 1;
        let (to, number) = (SUPERVISOR.0, *number);
        self.send(slot, OutgoingMessage::Link { to, number, bus: bus.1, handoff: handoff.1 });
    }

    /// Carries out all outputs of the supervisor.
    fn process_outputs(&mut self) {
        while let Some(output) = self.supervisor.poll_output() {
            match output {
                Output::Start(slot) => self.start(slot),
                Output::Pair { one, other, number } => self.pair(one, other, number),
                Output::Begin(slot) => self.send(slot, OutgoingMessage::Begin),
                Output::Drain(slot) => self.send(slot, OutgoingMessage::Drain),
                Output::Kill(slot) => {
                    if let Some(handle) = &self.workers[usize::from(slot)] {
                        handle.kill();
                    }
                }
                Output::AnnounceUnresponsive => {
                    let slots = self.supervisor.unresponsive().collect();
                    self.unresponsive.send_replace(slots);
                }
                Output::Event(event) => self.report(event),
            }
        }
    }

    fn start(&mut self, slot: u16) {
        let command = (self.command)(NodeId(slot));
        let (common_setup, worker_events) = (self.common_setup.clone(), self.worker_events.clone());
        let own_setup = OwnSetup {
            slot,
            listeners: self.listeners[usize::from(slot)].clone(),
            // The restart that begins here counts when the process has started.
            restarts: self.supervisor.starts_of(slot),
            hangs: self.supervisor.hangs_of(slot),
            unresponsive: self.unresponsive.subscribe(),
        };
        let input = match worker::start(command, common_setup, own_setup, worker_events) {
            Ok((handle, task)) => {
                let pid = handle.pid;
                self.workers[usize::from(slot)] = Some(handle);
                self.tasks.spawn(task.run());
                self.link(slot);
                self.supervisor.handle_input(self.now(), Input::Started(slot));
                let restarts = self.supervisor.restarts_of(slot);
                (self.events)(SupervisorEvent::Started { slot: NodeId(slot), pid, restarts });
                return;
            }
            Err(error) => {
                self.start_errors[usize::from(slot)] = Some(error);
                Input::StartFailed(slot)
            }
        };
        self.supervisor.handle_input(self.now(), input);
    }

    fn pair(&mut self, one: u16, other: u16, number: u64) {
        let Ok((bus, handoff)) = link() else {
            return self.supervisor.handle_input(self.now(), Input::NotPaired { one, other });
        };
        let ends = [(one, other, bus.0, handoff.0), (other, one, bus.1, handoff.1)];
        for (slot, to, bus, handoff) in ends {
            self.send(slot, OutgoingMessage::Link { to, number, bus, handoff });
        }
    }

    fn report(&mut self, event: Event) {
        let event = match event {
            Event::Ready { slot, after } => SupervisorEvent::Ready { slot: NodeId(slot), after },
            Event::AllReady => SupervisorEvent::AllReady,
            Event::Ended { slot, after, restart_in } => {
                let status = self.statuses[usize::from(slot)];
                SupervisorEvent::Ended { slot: NodeId(slot), status, after, restart_in }
            }
            Event::StartFailed { slot, restart_in } => {
                let error = self.start_error(slot);
                SupervisorEvent::StartFailed { slot: NodeId(slot), error, restart_in }
            }
            Event::NotReady { slot } => SupervisorEvent::NotReady { slot: NodeId(slot) },
            Event::Unresponsive { slot } => SupervisorEvent::Unresponsive { slot: NodeId(slot) },
            Event::Responsive { slot } => SupervisorEvent::Responsive { slot: NodeId(slot) },
            Event::Hung { slot } => SupervisorEvent::Hung { slot: NodeId(slot) },
            Event::Relinked { one, other } => {
                SupervisorEvent::Relinked { one: NodeId(one), other: NodeId(other) }
            }
            Event::Draining => {
                // No process would serve further connections in their backlog.
                self.listeners.iter_mut().for_each(Vec::clear);
                SupervisorEvent::Draining
            }
            Event::Killed { slot } => SupervisorEvent::Killed { slot: NodeId(slot) },
            Event::Failed { slot, how } => return self.failed(slot, how),
        };
        (self.events)(event);
    }

    fn start_error(&mut self, slot: u16) -> io::Error {
        self.start_errors[usize::from(slot)].take().expect("a failed start has an error")
    }

    fn failed(&mut self, slot: u16, how: Failure) {
        let at = NodeId(slot);
        self.failure = Some(match how {
            Failure::StartFailed => {
                SuperviseError::Spawn { slot: at, cause: self.start_error(slot) }
            }
            Failure::EndedBeforeReady => SuperviseError::EndedBeforeReady {
                slot: at,
                status: self.statuses[usize::from(slot)],
            },
            Failure::NotReady => {
                SuperviseError::NotReady { slot: at, within: self.limits.ready_timeout }
            }
        });
    }

    async fn finish(mut self) -> Result<Ended, SuperviseError> {
        // Each task has reported its end already.
        while self.tasks.join_next().await.is_some() {}
        match self.failure {
            Some(failure) => Err(failure),
            None => {
                Ok(Ended { restarts: self.supervisor.restarts(), killed: self.supervisor.killed() })
            }
        }
    }
}

type Pair = (OwnedFd, OwnedFd);

/// Both pairs of sockets between two workers.
fn link() -> io::Result<(Pair, Pair)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let bus = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok((bus, packet::pair()?))
}
