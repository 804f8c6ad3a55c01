//! The process that starts the others, and does what its [`Crew`] decides.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use vocab::{Instant, NodeId};

use crate::crew::{Crew, Failure, Input, Output, Told};
use crate::packet;
use crate::plan::{
    Ended, HELLO_BYTES_MAX, Plan, SuperviseError, SupervisorEvent, SupervisorLimits, WORKERS_MAX,
};
use crate::tend::{self, Listeners, News, Post, Posted, Provisions};

/// News of all workers that wait to be looked at. A full queue makes their tasks wait.
const NEWS_MAX: usize = 256;

/// Runs workers until `stop`, and returns when the last of them has ended.
///
/// A worker that ends before is started again in its place, after a pause that grows while its
/// lives are short. At the first start, a worker that cannot serve ends everything. `stop` tells
/// all to drain; `kill`, or a drain that takes too long, kills the rest. When the supervisor is
/// itself killed, or this future dropped, the workers see it and drain.
///
/// Needs a tokio runtime with I/O and time; one thread is enough.
pub async fn supervise(
    plan: Plan,
    stop: impl Future,
    kill: impl Future,
) -> Result<Ended, SuperviseError> {
    let (mut supervisor, mut news) = Supervisor::new(plan)?;
    let (mut stop, mut kill) = (pin!(stop), pin!(kill));
    let (mut is_stopped, mut is_killed) = (false, false);
    loop {
        supervisor.act();
        if supervisor.crew.is_over() {
            break;
        }
        let wake = supervisor.crew.next_wake().map(|at| at.since(supervisor.now()));
        let input = tokio::select! {
            Some((slot, news)) = news.recv() => supervisor.heard(slot, news),
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
        supervisor.crew.handle_input(supervisor.now(), input);
    }
    supervisor.over().await
}

struct Supervisor {
    crew: Crew,
    limits: SupervisorLimits,
    provisions: Arc<Provisions>,
    /// By place; closed at the stop.
    listeners: Vec<Listeners>,
    command: Box<dyn Fn(NodeId) -> std::process::Command + Send + Sync>,
    events: Box<dyn FnMut(SupervisorEvent) + Send>,
    born: std::time::Instant,
    news: mpsc::Sender<(u16, News)>,
    tasks: JoinSet<()>,
    posts: Vec<Option<Post>>,
    /// How the last process of each place ended.
    statuses: Vec<ExitStatus>,
    /// Why the last process of a place could not be started.
    refusals: Vec<Option<io::Error>>,
    failure: Option<SuperviseError>,
}

impl Supervisor {
    fn new(plan: Plan) -> Result<(Supervisor, mpsc::Receiver<(u16, News)>), SuperviseError> {
        let Plan { workers, listeners, hello, command, events, limits } = plan;
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(SuperviseError::Workers { workers });
        }
        if listeners.len() != usize::from(workers) {
            return Err(SuperviseError::Listeners { lists: listeners.len(), workers });
        }
        if hello.len() > HELLO_BYTES_MAX {
            return Err(SuperviseError::HelloTooLong { len: hello.len() });
        }
        for listener in listeners.iter().flatten() {
            // A worker gets its own over the line, and none of the others'.
            rustix::io::fcntl_setfd(listener, FdFlags::CLOEXEC).map_err(|error| {
                SuperviseError::System { what: "a listener", source: error.into() }
            })?;
        }
        let (news_in, news) = mpsc::channel(NEWS_MAX);
        let places = usize::from(workers);
        let supervisor = Supervisor {
            crew: Crew::new(workers, limits.clone()),
            limits,
            provisions: Arc::new(Provisions { workers, hello }),
            listeners: listeners
                .into_iter()
                .map(|some| some.into_iter().map(Arc::new).collect())
                .collect(),
            command,
            events,
            born: std::time::Instant::now(),
            news: news_in,
            tasks: JoinSet::new(),
            posts: (0..places).map(|_| None).collect(),
            statuses: vec![ExitStatus::default(); places],
            refusals: (0..places).map(|_| None).collect(),
            failure: None,
        };
        Ok((supervisor, news))
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.born.elapsed()
    }

    fn post(&self, slot: u16, message: Posted) {
        if let Some(post) = &self.posts[usize::from(slot)] {
            post.post(message);
        }
    }

    fn heard(&mut self, slot: u16, news: News) -> Input {
        match news {
            News::Ready => Input::Ready(slot),
            News::LinkLost { to, number } => Input::LinkLost { slot, to, number },
            News::Sent => Input::Sent(slot),
            News::Ended(status) => {
                self.posts[usize::from(slot)] = None;
                self.statuses[usize::from(slot)] = status;
                // Its task is over, or about to be: forget those that are.
                while self.tasks.try_join_next().is_some() {}
                Input::Ended(slot)
            }
        }
    }

    /// Does all that the crew wants done.
    fn act(&mut self) {
        while let Some(output) = self.crew.poll_output() {
            match output {
                Output::Start(slot) => self.start(slot),
                Output::Pair { one, other, number } => self.pair(one, other, number),
                Output::Begin(slot) => self.post(slot, Posted::Begin),
                Output::Drain(slot) => self.post(slot, Posted::Drain),
                Output::Kill(slot) => {
                    if let Some(post) = &self.posts[usize::from(slot)] {
                        post.kill();
                    }
                }
                Output::Told(told) => self.tell(told),
            }
        }
    }

    fn start(&mut self, slot: u16) {
        let command = (self.command)(NodeId(slot));
        let (provisions, news) = (self.provisions.clone(), self.news.clone());
        let listeners = &self.listeners[usize::from(slot)];
        let input = match tend::start(slot, command, provisions, listeners, news) {
            Ok((post, tended)) => {
                let pid = post.pid;
                self.posts[usize::from(slot)] = Some(post);
                self.tasks.spawn(tended.tend());
                self.crew.handle_input(self.now(), Input::Started(slot));
                let restarts = self.crew.lives_before(slot);
                (self.events)(SupervisorEvent::Started { slot: NodeId(slot), pid, restarts });
                return;
            }
            Err(error) => {
                self.refusals[usize::from(slot)] = Some(error);
                Input::NotStarted(slot)
            }
        };
        self.crew.handle_input(self.now(), input);
    }

    fn pair(&mut self, one: u16, other: u16, number: u64) {
        let Ok((bus, hand_over)) = link() else {
            return self.crew.handle_input(self.now(), Input::NotPaired { one, other });
        };
        let ends = [(one, other, bus.0, hand_over.0), (other, one, bus.1, hand_over.1)];
        for (slot, to, bus, hand_over) in ends {
            self.post(slot, Posted::Link { to, number, bus, hand_over });
        }
    }

    fn tell(&mut self, told: Told) {
        let event = match told {
            Told::Ready { slot, after } => SupervisorEvent::Ready { slot: NodeId(slot), after },
            Told::AllReady => SupervisorEvent::AllReady,
            Told::Ended { slot, after, restart_in } => {
                let status = self.statuses[usize::from(slot)];
                SupervisorEvent::Ended { slot: NodeId(slot), status, after, restart_in }
            }
            Told::NotStarted { slot, restart_in } => {
                let error = self.refusal(slot);
                SupervisorEvent::NotStarted { slot: NodeId(slot), error, restart_in }
            }
            Told::NotReady { slot } => SupervisorEvent::NotReady { slot: NodeId(slot) },
            Told::Relinked { one, other } => {
                SupervisorEvent::Relinked { one: NodeId(one), other: NodeId(other) }
            }
            Told::Draining => {
                // From here on nobody would ever serve who waits in their backlog.
                self.listeners.iter_mut().for_each(Vec::clear);
                SupervisorEvent::Draining
            }
            Told::Killed { slot } => SupervisorEvent::Killed { slot: NodeId(slot) },
            Told::Failed { slot, how } => return self.failed(slot, how),
        };
        (self.events)(event);
    }

    fn refusal(&mut self, slot: u16) -> io::Error {
        self.refusals[usize::from(slot)].take().expect("a refused start has its reason")
    }

    fn failed(&mut self, slot: u16, how: Failure) {
        let at = NodeId(slot);
        self.failure = Some(match how {
            Failure::NotStarted => SuperviseError::Spawn { slot: at, source: self.refusal(slot) },
            Failure::EndedBeforeReady => SuperviseError::EndedBeforeReady {
                slot: at,
                status: self.statuses[usize::from(slot)],
            },
            Failure::NotReady => {
                SuperviseError::NotReady { slot: at, within: self.limits.ready_timeout }
            }
        });
    }

    async fn over(mut self) -> Result<Ended, SuperviseError> {
        // Each has told of its end already.
        while self.tasks.join_next().await.is_some() {}
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(Ended { restarts: self.crew.restarts(), killed: self.crew.killed() }),
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
