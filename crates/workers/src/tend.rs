//! One worker's process and the line to it, tended by one task.

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

use crate::crew::QUEUED_LINKS_MAX;
use crate::enlist::{CONTROL_VALUE, CONTROL_VARIABLE};
use crate::packet::{self, DESCRIPTORS_MAX, Wait};
use crate::words::{HELLO_PIECE_BYTES, PROTOCOL, Report, Word};

/// Messages that wait for one worker: its links, a begin, a drain.
const POSTED_MAX: usize = QUEUED_LINKS_MAX as usize + 2;

/// Until a message is tried again while too many descriptors are under way.
const CROWDED_PAUSE: Duration = Duration::from_millis(2);

/// What all workers are given.
pub(crate) struct Provisions {
    pub workers: u16,
    pub hello: Vec<u8>,
}

/// The listeners of one worker.
pub(crate) type Listeners = Vec<Arc<OwnedFd>>;

/// A message to a worker, not yet written. Its descriptors are closed once it is sent.
pub(crate) enum Posted {
    Muster { listeners: u32 },
    Hello(Range<usize>),
    Listeners(Listeners),
    Link { to: u16, number: u64, bus: OwnedFd, hand_over: OwnedFd },
    Begin,
    Drain,
}

/// What became of a worker.
pub(crate) enum News {
    Ready,
    LinkLost { to: u16, number: u64 },
    Sent,
    Ended(ExitStatus),
}

/// What a supervisor holds of a worker that lives.
pub(crate) struct Post {
    pub pid: u32,
    posted: mpsc::Sender<Posted>,
    kill: Arc<Notify>,
}

impl Post {
    /// Puts a message in line. What is posted to one that just ended is dropped.
    pub fn post(&self, message: Posted) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.posted.try_send(message) {
            panic!("more was posted to a worker than the crew allows");
        }
    }

    /// Kills it, now or as soon as its task looks.
    pub fn kill(&self) {
        self.kill.notify_one();
    }
}

/// A worker's process, and its end of the line.
pub(crate) struct Tended {
    slot: u16,
    child: Child,
    line: UnixDatagram,
    provisions: Arc<Provisions>,
    /// All that it gets before its links.
    first: VecDeque<Posted>,
    posted: mpsc::Receiver<Posted>,
    kill: Arc<Notify>,
    news: mpsc::Sender<(u16, News)>,
}

/// Starts a process.
pub(crate) fn start(
    slot: u16,
    command: std::process::Command,
    provisions: Arc<Provisions>,
    listeners: &Listeners,
    news: mpsc::Sender<(u16, News)>,
) -> io::Result<(Post, Tended)> {
    let (ours, theirs) = packet::pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let line = UnixDatagram::from_std(net::UnixDatagram::from(ours))?;
    let mut command = Command::from(command);
    // A group of its own: the terminal's ^C is for the supervisor, who then drains.
    command.stdin(Stdio::from(theirs)).env(CONTROL_VARIABLE, CONTROL_VALUE).process_group(0);
    let child = command.spawn()?;
    // The command holds their end; while it does, the line does not end with the worker.
    drop(command);
    let (posted_in, posted) = mpsc::channel(POSTED_MAX);
    let kill = Arc::new(Notify::new());
    let post = Post { pid: child.id().unwrap_or(0), posted: posted_in, kill: kill.clone() };
    let first = provisions.first_messages(listeners);
    Ok((post, Tended { slot, child, line, provisions, first, posted, kill, news }))
}

impl Tended {
    /// Until the process has ended.
    pub async fn tend(mut self) {
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
                Some(message) = self.posted.recv(), if next.is_none() => next = Some(message),
                // Whatever came of it: who cannot be written to has ended, or will.
                _ = deliver(&self.line, self.slot, &self.provisions, next.as_ref()),
                    if next.is_some() =>
                {
                    if let Some(Posted::Link { .. }) = next.take() {
                        self.tell(News::Sent).await;
                    }
                }
                report = self.line.async_io(Interest::READABLE, || hear(self.line.as_fd())),
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
            match hear(self.line.as_fd()) {
                Ok(Some(report)) => self.tell(report).await,
                Ok(None) | Err(_) => is_open = false,
            }
        }
        self.tell(News::Ended(status.unwrap_or_default())).await;
    }

    async fn tell(&self, news: News) {
        // Nobody listens any more when the supervisor was dropped.
        let _ = self.news.send((self.slot, news)).await;
    }
}

/// The next thing that the worker says; `None` when it says no more.
fn hear(line: BorrowedFd<'_>) -> io::Result<Option<News>> {
    loop {
        let mut buffer = [0; 64];
        let packet = packet::recv(line, &mut [IoSliceMut::new(&mut buffer)], Wait::No)?;
        if packet.is_end() {
            return Ok(None);
        }
        match postcard::from_bytes(&buffer[..packet.len]) {
            Ok(Report::Ready) => return Ok(Some(News::Ready)),
            Ok(Report::LinkLost { to, number }) => return Ok(Some(News::LinkLost { to, number })),
            Err(error) => tracing::warn!(%error, "a worker is not understood"),
        }
    }
}

async fn deliver(
    line: &UnixDatagram,
    slot: u16,
    provisions: &Provisions,
    message: Option<&Posted>,
) -> io::Result<()> {
    let Some(message) = message else { return Ok(()) };
    let (word, descriptors) = provisions.written(slot, message);
    let bytes = postcard::to_stdvec(&word).expect("a word is plain data");
    loop {
        let attempt = || packet::send(line, &[IoSlice::new(&bytes)], &descriptors);
        match line.async_io(Interest::WRITABLE, attempt).await {
            Err(error) if packet::is_crowded(&error) => tokio::time::sleep(CROWDED_PAUSE).await,
            outcome => return outcome,
        }
    }
}

impl Provisions {
    fn first_messages(&self, listeners: &Listeners) -> VecDeque<Posted> {
        let mut messages = VecDeque::from([Posted::Muster { listeners: listeners.len() as u32 }]);
        let len = self.hello.len();
        let pieces = (0..len).step_by(HELLO_PIECE_BYTES);
        messages.extend(pieces.map(|at| Posted::Hello(at..len.min(at + HELLO_PIECE_BYTES))));
        let some = listeners.chunks(DESCRIPTORS_MAX);
        messages.extend(some.map(|some| Posted::Listeners(some.to_vec())));
        messages
    }

    fn written<'a>(&'a self, slot: u16, message: &'a Posted) -> (Word<'a>, Vec<BorrowedFd<'a>>) {
        match message {
            Posted::Muster { listeners } => {
                let word = Word::Muster {
                    protocol: PROTOCOL,
                    slot,
                    workers: self.workers,
                    hello_bytes: self.hello.len() as u32,
                    listeners: *listeners,
                };
                (word, Vec::new())
            }
            Posted::Hello(piece) => (Word::Hello(&self.hello[piece.clone()]), Vec::new()),
            Posted::Listeners(some) => (Word::Listeners, some.iter().map(AsFd::as_fd).collect()),
            Posted::Link { to, number, bus, hand_over } => {
                (Word::Link { to: *to, number: *number }, vec![bus.as_fd(), hand_over.as_fd()])
            }
            Posted::Begin => (Word::Begin, Vec::new()),
            Posted::Drain => (Word::Drain, Vec::new()),
        }
    }
}
