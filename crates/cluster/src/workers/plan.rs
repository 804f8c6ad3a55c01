//! The plan of a supervisor, its events and its errors.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use thiserror::Error;
use watchfire_types::NodeId;

/// Maximum workers of one supervisor. Each has two descriptors for every other.
pub const WORKERS_MAX: u16 = 256;

/// Longest [`Plan::startup_data`], in bytes.
pub const STARTUP_DATA_BYTES_MAX: usize = 64 << 20;

/// The supervisor's place in the link of a worker to it. No worker has this slot.
pub const SUPERVISOR: NodeId = NodeId(u16::MAX);

/// Takes the supervisor's ends of links to workers.
pub type SupervisorLinks = Box<dyn FnMut(NodeId, UnixStream) + Send>;

/// The workers to run, and their setup.
pub struct Plan {
    pub workers: u16,
    /// The listeners of each worker. The supervisor keeps them open until the stop, so that
    /// connections wait while a worker is restarted.
    pub listeners: Vec<Vec<OwnedFd>>,
    /// Bytes that every worker receives; this crate does not read them.
    pub startup_data: Vec<u8>,
    /// Makes the command of a worker. The supervisor sets its standard input, [`CONTROL_VARIABLE`]
    /// and process group.
    ///
    /// As a program, `/proc/self/exe` is the running one, even if the file on disk is replaced.
    ///
    /// [`CONTROL_VARIABLE`]: crate::workers::CONTROL_VARIABLE
    pub command: Box<dyn Fn(NodeId) -> Command + Send + Sync>,
    /// Called with each event on the supervisor's task. It must not block.
    pub events: Box<dyn FnMut(SupervisorEvent) + Send>,
    /// Called with one end of a socket to each worker that starts; the worker has the other end as its
    /// [`Link`](crate::workers::Link) to [`SUPERVISOR`]. Called again when the worker has lost it. `None`:
    /// workers have no such link.
    pub links: Option<SupervisorLinks>,
    /// Timeouts and pauses.
    pub limits: SupervisorLimits,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("workers", &self.workers)
            .field("startup_data_bytes", &self.startup_data.len())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Timeouts and pauses.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorLimits {
    /// From the start of a worker to its [`ready`](crate::workers::Control::ready). A slower worker is
    /// killed; at the first start, this ends all workers.
    pub ready_timeout: Duration,
    /// From the stop to the end of the last worker. The remaining ones are killed.
    pub drain_timeout: Duration,
    /// Before the first restart of a worker. Doubles with each further restart.
    pub restart_pause: Duration,
    /// Longest pause before a restart.
    pub restart_pause_max: Duration,
    /// After running for this time, a worker's next pause is the first one again.
    pub restart_pause_reset_after: Duration,
    /// Shortest time between two links of the same two workers.
    pub relink_pause: Duration,
    /// How often a ready worker reports that it serves: see
    /// [`Control::heartbeat`](crate::workers::Control::heartbeat).
    pub heartbeat_period: Duration,
    /// After this silence a worker is unresponsive. The other workers are notified and should send
    /// it no clients. At least two periods, because a busy machine delays heartbeats.
    pub unresponsive_after: Duration,
    /// After this silence a worker is hung. It is killed and restarted.
    pub hung_after: Duration,
}

impl Default for SupervisorLimits {
    fn default() -> SupervisorLimits {
        SupervisorLimits {
            ready_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(60),
            restart_pause: Duration::from_millis(100),
            restart_pause_max: Duration::from_secs(5),
            restart_pause_reset_after: Duration::from_secs(30),
            relink_pause: Duration::from_secs(1),
            heartbeat_period: Duration::from_secs(2),
            unresponsive_after: Duration::from_secs(5),
            hung_after: Duration::from_secs(8),
        }
    }
}

#[derive(Debug)]
#[non_exhaustive]
pub enum SupervisorEvent {
    /// A worker's process has started.
    Started { slot: NodeId, pid: u32, restarts: u64 },
    /// A worker serves its listeners.
    Ready {
        slot: NodeId,
        /// The time since its start.
        after: Duration,
    },
    /// All workers serve, for the first time.
    AllReady,
    Ended {
        slot: NodeId,
        status: ExitStatus,
        /// The time since its start.
        after: Duration,
        /// The pause before its restart; `None` after the stop.
        restart_in: Option<Duration>,
    },
    /// A worker's process could not be started; the start is retried.
    StartFailed {
        slot: NodeId,
        error: io::Error,
        /// The pause before the retry.
        restart_in: Duration,
    },
    /// A worker was not ready in time and is killed.
    NotReady { slot: NodeId },
    /// A worker sent no heartbeat for [`SupervisorLimits::unresponsive_after`].
    Unresponsive { slot: NodeId },
    /// An unresponsive worker sends heartbeats again.
    Responsive { slot: NodeId },
    /// A worker sent no heartbeat for [`SupervisorLimits::hung_after`] and is killed.
    Hung { slot: NodeId },
    /// Two workers get a new link, because one of them lost it.
    Relinked { one: NodeId, other: NodeId },
    /// The supervisor was stopped; all workers drain.
    Draining,
    /// A worker did not end in time after the stop, or a second stop came.
    Killed { slot: NodeId },
}

impl fmt::Display for SupervisorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use SupervisorEvent as Event;
        match self {
            Event::Started { slot, pid, restarts: 0 } => {
                write!(f, "worker {} started as process {pid}", slot.0)
            }
            Event::Started { slot, pid, restarts } => {
                write!(f, "worker {} restarted as process {pid}, restart {restarts}", slot.0)
            }
            Event::Ready { slot, after } => write!(f, "worker {} is ready after {after:?}", slot.0),
            Event::AllReady => f.write_str("all workers are ready"),
            Event::Ended { slot, status, after, restart_in } => {
                write!(f, "worker {} ended after {after:?}: {status}", slot.0)?;
                match restart_in {
                    Some(pause) => write!(f, "; restart in {pause:?}"),
                    None => Ok(()),
                }
            }
            Event::StartFailed { slot, error, restart_in } => {
                let slot = slot.0;
                write!(f, "cannot start worker {slot}: {error}; retry in {restart_in:?}")
            }
            Event::NotReady { slot } => {
                write!(f, "worker {} was not ready in time and is killed", slot.0)
            }
            Event::Unresponsive { slot } => write!(f, "worker {} does not respond", slot.0),
            Event::Responsive { slot } => write!(f, "worker {} responds again", slot.0),
            Event::Hung { slot } => {
                write!(f, "worker {} does not respond and is killed", slot.0)
            }
            Event::Relinked { one, other } => {
                write!(f, "workers {} and {} get a new link", one.0, other.0)
            }
            Event::Draining => f.write_str("draining all workers"),
            Event::Killed { slot } => {
                write!(f, "worker {} did not end in time and is killed", slot.0)
            }
        }
    }
}

/// The result of a supervisor that was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub restarts: u64,
    /// The number of workers that had to be killed.
    pub killed: u16,
}

/// The reason why a supervisor failed.
#[derive(Debug, Error)]
pub enum SuperviseError {
    #[error("cannot start {workers} workers: the number must be between 1 and {WORKERS_MAX}")]
    Workers { workers: u16 },
    #[error("{workers} workers need {workers} lists of listeners, not {lists}")]
    Listeners { lists: usize, workers: u16 },
    #[error("the startup data has {len} bytes, the maximum is {STARTUP_DATA_BYTES_MAX}")]
    StartupDataTooLong {
        /// Its length in bytes.
        len: usize,
    },
    #[error("cannot start worker {}: {cause}", slot.0)]
    Spawn { slot: NodeId, cause: io::Error },
    /// At the first start, a worker ended before it was ready.
    #[error("worker {} ended before it was ready: {status}", slot.0)]
    EndedBeforeReady { slot: NodeId, status: ExitStatus },
    /// At the first start, a worker was not ready in time.
    #[error("worker {} was not ready within {within:?}", slot.0)]
    NotReady { slot: NodeId, within: Duration },
    #[error("{what}: {cause}")]
    System { what: &'static str, cause: io::Error },
}
