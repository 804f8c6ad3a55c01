//! One worker's process and the socket to it, run by one task.

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
use tokio::sync::{Notify, mpsc};

use crate::join::{CONTROL_VALUE, CONTROL_VARIABLE};
use crate::packet::{self, DESCRIPTORS_MAX, Wait};
use crate::protocol::{PROTOCOL, STARTUP_DATA_PIECE_BYTES, SupervisorMessage, WorkerReport};
use crate::supervisor::QUEUED_LINKS_MAX;

/// MessageSocket that wait for one worker: its links, a begin, a drain.
const OUTGOING_MAX: usize = QUEUED_LINKS_MAX as usize + 2;

/// Until a message is tried again while too many descriptors are under way.
const CROWDED_PAUSE: Duration = Duration::from_millis(2);

/// Setup that all workers share.
pub(crate) struct CommonSetup {
    pub workers: u16,
    pub startup_data: Vec<u8>,
}

/// The listeners of one worker.
pub(crate) type Listeners = Vec<Arc<OwnedFd>>;

/// A message to a worker, not yet written. Its descriptors are closed once it is sent.
pub(crate) enum OutgoingMessage {
    Start { listeners: u32 },
    StartupData(Range<usize>),
    Listeners(Listeners),
    Link { to: u16, number: u64, bus: OwnedFd, handoff: OwnedFd },
    Begin,
    Drain,
}

/// An event of a worker.
pub(crate) enum WorkerEvent {
    Ready,
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
    /// Queues a message. It is dropped when the worker has just ended.
    pub fn post(&self, message: OutgoingMessage) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.outgoing.try_send(message) {
            panic!("more was outgoing to a worker than the supervisor allows");
        }
    }

    /// Kills it, now or as soon as its task looks.
    pub fn kill(&self) {
        self.kill.notify_one();
    }
}

/// A worker's process, and its end of the line.
pub(crate) struct WorkerTask {
    slot: u16,
    child: Child,
    line: UnixDatagram,
    common_setup: Arc<CommonSetup>,
    /// All that it gets before its links.
    first: VecDeque<OutgoingMessage>,
    outgoing: mpsc::Receiver<OutgoingMessage>,
    kill: Arc<Notify>,
    news: mpsc::Sender<(u16, WorkerEvent)>,
}

/// Starts a process.
pub(crate) fn start(
    slot: u16,
    command: std::process::Command,
    common_setup: Arc<CommonSetup>,
    listeners: &Listeners,
    news: mpsc::Sender<(u16, WorkerEvent)>,
) -> io::Result<(WorkerHandle, WorkerTask)> {
    let (ours, theirs) = packet::pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let line = UnixDatagram::from_std(net::UnixDatagram::from(ours))?;
    let mut command = Command::from(command);
    // A group of its own: the terminal's ^C goes to the supervisor alone, which then drains.
    command.stdin(Stdio::from(theirs)).env(CONTROL_VARIABLE, CONTROL_VALUE).process_group(0);
    let child = command.spawn()?;
    // The command holds their end; while it does, the line does not end with the worker.
    drop(command);
    let (outgoing_sender, outgoing) = mpsc::channel(OUTGOING_MAX);
    let kill = Arc::new(Notify::new());
    let post = WorkerHandle {
        pid: child.id().unwrap_or(0),
        outgoing: outgoing_sender,
        kill: kill.clone(),
    };
    let first = common_setup.first_messages(listeners);
    Ok((post, WorkerTask { slot, child, line, common_setup, first, outgoing, kill, news }))
}

impl WorkerTask {
    /// Until the process has ended.
    pub async fn run(mut self) {
        let mut next = None;
        let mut is_open = true;
        let status = loop {
            next = next.or_else(|| self.first.pop_front());
            tokio::select! {
                status = self.child.wait() => break status,
                () = self.kill.notified() => {
                    // It fails only when the process has ended, and then the wait says so.
                    let _ = self.child.start_kill();
                }
                Some(message) = self.outgoing.recv(), if next.is_none() => next = Some(message),
                // The result does not matter: a worker that cannot be written to has ended.
                _ = deliver(&self.line, self.slot, &self.common_setup, next.as_ref()),
                    if next.is_some() =>
                {
                    if let Some(OutgoingMessage::Link { .. }) = next.take() {
                        self.tell(WorkerEvent::Sent).await;
                    }
                }
                report = self.line.async_io(Interest::READABLE, || receive(self.line.as_fd())),
                    if is_open =>
                {
                    match report {
                        Ok(Some(report)) => self.tell(report).await,
                        Ok(None) | Err(_) => is_open = false,
                    }
                }
            }
        };
        while is_open {
            match receive(self.line.as_fd()) {
                Ok(Some(report)) => self.tell(report).await,
                Ok(None) | Err(_) => is_open = false,
            }
        }
        self.tell(WorkerEvent::Ended(status.unwrap_or_default())).await;
    }

    async fn tell(&self, news: WorkerEvent) {
        // Nobody listens any more when the supervisor was dropped.
        let _ = self.news.send((self.slot, news)).await;
    }
}

/// The next thing that the worker says; `None` when it says no more.
fn receive(line: BorrowedFd<'_>) -> io::Result<Option<WorkerEvent>> {
    loop {
        let mut buffer = [0; 64];
        let packet = packet::recv(line, &mut [IoSliceMut::new(&mut buffer)], Wait::No)?;
        if packet.is_end() {
            return Ok(None);
        }
        match postcard::from_bytes(&buffer[..packet.len]) {
            Ok(WorkerReport::Ready) => return Ok(Some(WorkerEvent::Ready)),
            Ok(WorkerReport::LinkLost { to, number }) => {
                return Ok(Some(WorkerEvent::LinkLost { to, number }));
            }
            Err(error) => tracing::warn!(%error, "cannot decode a message of a worker"),
        }
    }
}

async fn deliver(
    line: &UnixDatagram,
    slot: u16,
    common_setup: &CommonSetup,
    message: Option<&OutgoingMessage>,
) -> io::Result<()> {
    let Some(message) = message else { return Ok(()) };
    let (message, descriptors) = common_setup.written(slot, message);
    let bytes = postcard::to_stdvec(&message).expect("a message is plain data");
    loop {
        let attempt = || packet::send(line, &[IoSlice::new(&bytes)], &descriptors);
        match line.async_io(Interest::WRITABLE, attempt).await {
            Err(error) if packet::is_crowded(&error) => tokio::time::sleep(CROWDED_PAUSE).await,
            outcome => return outcome,
        }
    }
}

impl CommonSetup {
    fn first_messages(&self, listeners: &Listeners) -> VecDeque<OutgoingMessage> {
        let mut messages =
            VecDeque::from([OutgoingMessage::Start { listeners: listeners.len() as u32 }]);
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

    fn written<'a>(
        &'a self,
        slot: u16,
        message: &'a OutgoingMessage,
    ) -> (SupervisorMessage<'a>, Vec<BorrowedFd<'a>>) {
        match message {
            OutgoingMessage::Start { listeners } => {
                let message = SupervisorMessage::Start {
                    protocol: PROTOCOL,
                    slot,
                    workers: self.workers,
                    startup_data_bytes: self.startup_data.len() as u32,
                    listeners: *listeners,
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
            OutgoingMessage::Drain => (SupervisorMessage::Drain, Vec::new()),
        }
    }
}
