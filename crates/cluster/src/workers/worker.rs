//! One worker's process and its socket, run by one task.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc, watch};

use crate::workers::join::{CONTROL_VALUE, CONTROL_VARIABLE};
use crate::workers::packet::{self, DESCRIPTORS_MAX, Wait};
use crate::workers::plan::SUPERVISOR;
use crate::workers::protocol::{
    PROTOCOL, STARTUP_DATA_PIECE_BYTES, SupervisorMessage, WorkerReport,
};
use crate::workers::successor::PREDECESSOR_VARIABLE;
use crate::workers::supervisor::QUEUED_LINKS_MAX;

/// Maximum messages that wait for one worker: links, one to the supervisor, a begin and a drain.
const OUTGOING_MAX: usize = QUEUED_LINKS_MAX as usize + 3;

/// The pause before a retry while too many descriptors are in flight.
const CROWDED_PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct CommonSetup {
    pub workers: u16,
    pub startup_data: Vec<u8>,
    pub heartbeat_period: Duration,
}

/// The setup of one worker's process.
pub(crate) struct OwnSetup {
    pub slot: u16,
    pub listeners: Listeners,
    pub restarts: u64,
    pub hangs: u64,
    pub unresponsive: watch::Receiver<Vec<u16>>,
}

pub(crate) type Listeners = Vec<Arc<OwnedFd>>;

/// A queued message to a worker. Its descriptors are closed once it is sent.
pub(crate) enum OutgoingMessage {
    Start { listeners: u32, restarts: u64, hangs: u64 },
    StartupData(Range<usize>),
    Listeners(Listeners),
    Link { to: u16, number: u64, bus: OwnedFd, handoff: OwnedFd },
    Begin,
    Unresponsive(Vec<u16>),
    Drain,
}

pub(crate) enum WorkerEvent {
    Ready,
    Heartbeat,
    LinkLost { to: u16, number: u64 },
    Sent,
    Ended(ExitStatus),
}

/// The supervisor's handle of a running worker.
pub(crate) struct WorkerHandle {
    pub pid: u32,
    outgoing: mpsc::Sender<OutgoingMessage>,
    kill: Arc<Notify>,
}

impl WorkerHandle {
    /// Queues a message. It is dropped if the worker has just ended.
    pub fn send(&self, message: OutgoingMessage) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.outgoing.try_send(message) {
            panic!("the supervisor queued too many messages for a worker");
        }
    }

    /// Kills the worker, as soon as its task runs.
    pub fn kill(&self) {
        self.kill.notify_one();
    }
}

/// A worker's process, and the socket to it.
pub(crate) struct WorkerTask {
    slot: u16,
    child: Child,
    socket: UnixDatagram,
    common_setup: Arc<CommonSetup>,
    /// The messages before its links.
    first: VecDeque<OutgoingMessage>,
    outgoing: mpsc::Receiver<OutgoingMessage>,
    kill: Arc<Notify>,
    events: mpsc::Sender<(u16, WorkerEvent)>,
    /// Only the newest value is sent, so a stopped worker's queue does not grow.
    unresponsive: watch::Receiver<Vec<u16>>,
    has_begun: bool,
}

pub(crate) fn start(
    command: std::process::Command,
    common_setup: Arc<CommonSetup>,
    own_setup: OwnSetup,
    events: mpsc::Sender<(u16, WorkerEvent)>,
) -> io::Result<(WorkerHandle, WorkerTask)> {
    let (ours, theirs) = packet::pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let socket = UnixDatagram::from_std(net::UnixDatagram::from(ours))?;
    let mut command = Command::from(command);
    // Its own process group, so that a terminal's ^C reaches only the supervisor.
    command.stdin(Stdio::from(theirs)).env(CONTROL_VARIABLE, CONTROL_VALUE).process_group(0);
    command.env_remove(PREDECESSOR_VARIABLE);
    let child = command.spawn()?;
    // The command holds the worker's end: while that is open, the socket does not end.
    drop(command);
    let (outgoing_sender, outgoing) = mpsc::channel(OUTGOING_MAX);
    let kill = Arc::new(Notify::new());
    let handle = WorkerHandle {
        pid: child.id().unwrap_or(0),
        outgoing: outgoing_sender,
        kill: kill.clone(),
    };
    let first = common_setup.first_messages(&own_setup);
    let OwnSetup { slot, mut unresponsive, .. } = own_setup;
    if !unresponsive.borrow().is_empty() {
        unresponsive.mark_changed();
    }
    let task = WorkerTask {
        slot,
        child,
        socket,
        common_setup,
        first,
        outgoing,
        kill,
        events,
        unresponsive,
        has_begun: false,
    };
    Ok((handle, task))
}

impl WorkerTask {
    /// Runs until the process has ended.
    pub async fn run(mut self) {
        let mut next = None;
        let mut is_open = true;
        let status = loop {
            next = next.or_else(|| self.first.pop_front());
            tokio::select! {
                status = self.child.wait() => break status,
                () = self.kill.notified() => {
                    // It fails only when the process has ended, which `wait` reports.
                    let _ = self.child.start_kill();
                }
                Some(message) = self.outgoing.recv(), if next.is_none() => next = Some(message),
                // The result does not matter: a failed write means that the worker has ended.
                _ = deliver(&self.socket, self.slot, &self.common_setup, next.as_ref()),
                    if next.is_some() =>
                {
                    match next.take() {
                        Some(OutgoingMessage::Link { to, .. }) if to != SUPERVISOR.0 => self.report(WorkerEvent::Sent).await,
                        Some(OutgoingMessage::Begin) => self.has_begun = true,
                        _ => {}
                    }
                }
                Ok(()) = self.unresponsive.changed(), if next.is_none() && self.has_begun => {
                    let slots = self.unresponsive.borrow_and_update().clone();
                    next = Some(OutgoingMessage::Unresponsive(slots));
                }
                report = self.socket.async_io(Interest::READABLE, || receive(self.socket.as_fd())),
                    if is_open =>
                {
                    match report {
                        Ok(Some(report)) => self.report(report).await,
                        Ok(None) | Err(_) => is_open = false,
                    }
                }
            }
        };
        while is_open {
            match receive(self.socket.as_fd()) {
                Ok(Some(report)) => self.report(report).await,
                Ok(None) | Err(_) => is_open = false,
            }
        }
        self.report(WorkerEvent::Ended(status.unwrap_or_default())).await;
    }

    async fn report(&self, event: WorkerEvent) {
        // The send fails only when the supervisor was dropped.
        let _ = self.events.send((self.slot, event)).await;
    }
}

/// The worker's next event; `None` at the end of its messages.
fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<WorkerEvent>> {
    loop {
        let mut buffer = [0; 64];
        let packet = packet::recv(socket, &mut [IoSliceMut::new(&mut buffer)], Wait::No)?;
        if packet.is_end() {
            return Ok(None);
        }
        match postcard::from_bytes(&buffer[..packet.len]) {
            Ok(WorkerReport::Ready) => return Ok(Some(WorkerEvent::Ready)),
            Ok(WorkerReport::Heartbeat) => return Ok(Some(WorkerEvent::Heartbeat)),
            Ok(WorkerReport::LinkLost { to, number }) => {
                return Ok(Some(WorkerEvent::LinkLost { to, number }));
            }
            Err(error) => tracing::warn!(%error, "cannot decode a message of a worker"),
        }
    }
}

async fn deliver(
    socket: &UnixDatagram,
    slot: u16,
    common_setup: &CommonSetup,
    message: Option<&OutgoingMessage>,
) -> io::Result<()> {
    let Some(message) = message else { return Ok(()) };
    let (message, descriptors) = common_setup.encode(slot, message);
    let bytes = postcard::to_stdvec(&message).expect("a message can be encoded");
    loop {
        let attempt = || packet::send(socket, &[IoSlice::new(&bytes)], &descriptors);
        match socket.async_io(Interest::WRITABLE, attempt).await {
            Err(error) if packet::is_crowded(&error) => tokio::time::sleep(CROWDED_PAUSE).await,
            outcome => return outcome,
        }
    }
}

impl CommonSetup {
    fn first_messages(&self, own: &OwnSetup) -> VecDeque<OutgoingMessage> {
        let OwnSetup { listeners, restarts, hangs, .. } = own;
        let mut messages = VecDeque::from([OutgoingMessage::Start {
            listeners: listeners.len() as u32,
            restarts: *restarts,
            hangs: *hangs,
        }]);
        let len = self.startup_data.len();
        let pieces = (0..len).step_by(STARTUP_DATA_PIECE_BYTES);
        messages
            .extend(pieces.map(|at| {
                OutgoingMessage::StartupData(at..len.min(at + STARTUP_DATA_PIECE_BYTES))
            }));
        let some = listeners.chunks(DESCRIPTORS_MAX);
        messages.extend(some.map(|some| OutgoingMessage::Listeners(some.to_vec())));
        messages
    }

    fn encode<'a>(
        &'a self,
        slot: u16,
        message: &'a OutgoingMessage,
    ) -> (SupervisorMessage<'a>, Vec<BorrowedFd<'a>>) {
        match message {
            OutgoingMessage::Start { listeners, restarts, hangs } => {
                let message = SupervisorMessage::Start {
                    protocol: PROTOCOL,
                    slot,
                    workers: self.workers,
                    startup_data_bytes: self.startup_data.len() as u32,
                    listeners: *listeners,
                    restarts: *restarts,
                    hangs: *hangs,
                    heartbeat_period: self.heartbeat_period,
                };
                (message, Vec::new())
            }
            OutgoingMessage::StartupData(piece) => {
                (SupervisorMessage::StartupData(&self.startup_data[piece.clone()]), Vec::new())
            }
            OutgoingMessage::Listeners(some) => {
                (SupervisorMessage::Listeners, some.iter().map(AsFd::as_fd).collect())
            }
            OutgoingMessage::Link { to, number, bus, handoff } => (
                SupervisorMessage::Link { to: *to, number: *number },
                vec![bus.as_fd(), handoff.as_fd()],
            ),
            OutgoingMessage::Begin => (SupervisorMessage::Begin, Vec::new()),
            OutgoingMessage::Unresponsive(slots) => {
                (SupervisorMessage::Unresponsive(slots.clone()), Vec::new())
            }
            OutgoingMessage::Drain => (SupervisorMessage::Drain, Vec::new()),
        }
    }
}
