//! The plan of a supervisor, its events and its errors.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use thiserror::Error;
use watchfire_types::NodeId;

/// Most workers of one supervisor. Each has two descriptors for every other.
pub const WORKERS_MAX: u16 = 256;

/// Longest [`Plan::startup_data`], in bytes.
pub const STARTUP_DATA_BYTES_MAX: usize = 64 << 20;

/// Which workers to run, and with what.
pub struct Plan {
    /// How many.
    pub workers: u16,
    /// The listeners of each worker. The supervisor keeps them open until the stop, so that
    /// connections wait while a worker is started anew.
    pub listeners: Vec<Vec<OwnedFd>>,
    /// Bytes that every worker receives; this crate does not read them.
    pub startup_data: Vec<u8>,
    /// Makes the command of a worker. Its standard input, [`CONTROL_VARIABLE`] and process group
    /// are set by the supervisor.
    ///
    /// `/proc/self/exe` as a program stays the one that runs, when it is replaced on disk.
    ///
    /// [`CONTROL_VARIABLE`]: crate::CONTROL_VARIABLE
    pub command: Box<dyn Fn(NodeId) -> Command + Send + Sync>,
    /// Called with each event on the supervisor's task. It must not wait.
    pub events: Box<dyn FnMut(SupervisorEvent) + Send>,
    /// How long things may take.
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

/// How long things may take.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorLimits {
    /// From the start of a worker to its [`ready`](crate::Control::ready). A worker that takes
    /// longer is killed; at the first start that ends all workers.
    pub ready_timeout: Duration,
    /// From the stop to the end of the last worker; the rest is killed.
    pub drain_timeout: Duration,
    /// Before the first restart of a worker. Doubles with each further one.
    pub restart_pause: Duration,
    /// Longest pause before a restart.
    pub restart_pause_max: Duration,
    /// After so long a life the pause begins anew.
    pub settled_after: Duration,
    /// Shortest time between two links of the same two workers.
    pub relink_pause: Duration,
}

impl Default for SupervisorLimits {
    fn default() -> SupervisorLimits {
        SupervisorLimits {
            ready_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(60),
            restart_pause: Duration::from_millis(100),
            restart_pause_max: Duration::from_secs(5),
            settled_after: Duration::from_secs(30),
            relink_pause: Duration::from_secs(1),
        }
    }
}

/// An event of the supervisor.
#[derive(Debug)]
#[non_exhaustive]
pub enum SupervisorEvent {
    /// A worker's process runs.
    Started {
        /// Its place.
        slot: NodeId,
        /// Its process.
        pid: u32,
        /// How many held the place before; above 0 this is a restart.
        restarts: u64,
    },
    /// A worker serves.
    Ready {
        /// Its place.
        slot: NodeId,
        /// How long that took.
        after: Duration,
    },
    /// For the first time all workers serve.
    AllReady,
    /// A worker ended.
    Ended {
        /// Its place.
        slot: NodeId,
        /// How.
        status: ExitStatus,
        /// How long it lived.
        after: Duration,
        /// When the next one comes; `None` after the stop.
        restart_in: Option<Duration>,
    },
    /// A worker's process could not be started; it is tried again.
    NotStarted {
        /// Its place.
        slot: NodeId,
        /// Why.
        error: io::Error,
        /// When it is tried again.
        restart_in: Duration,
    },
    /// A worker was not ready in time, and is killed.
    NotReady {
        /// Its place.
        slot: NodeId,
    },
    /// Two workers get a new link, because one of them lost theirs.
    Relinked {
        /// One.
        one: NodeId,
        /// The other.
        other: NodeId,
    },
    /// The stop: every worker is ordered to drain.
    Draining,
    /// A worker did not end in time after the stop, or a second stop came.
    Killed {
        /// Its place.
        slot: NodeId,
    },
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
                    Some(pause) => write!(f, "; it is restarted in {pause:?}"),
                    None => Ok(()),
                }
            }
            Event::NotStarted { slot, error, restart_in } => {
                let slot = slot.0;
                write!(f, "worker {slot} cannot be started: {error}; again in {restart_in:?}")
            }
            Event::NotReady { slot } => {
                write!(f, "worker {} is not ready in time, and killed", slot.0)
            }
            Event::Relinked { one, other } => {
                write!(f, "workers {} and {} get a new link", one.0, other.0)
            }
            Event::Draining => f.write_str("all workers drain"),
            Event::Killed { slot } => write!(f, "worker {} did not end, and is killed", slot.0),
        }
    }
}

/// How it ended, after a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Workers that were started in a place of another.
    pub restarts: u64,
    /// Workers that had to be killed.
    pub killed: u16,
}

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum SuperviseError {
    /// No workers, or more than [`WORKERS_MAX`].
    #[error("{workers} workers: between 1 and {WORKERS_MAX} are possible")]
    Workers {
        /// How many were asked for.
        workers: u16,
    },
    /// The listeners are for another number of workers.
    #[error("listeners for {lists} workers were given to {workers}")]
    Listeners {
        /// For how many workers there are listeners.
        lists: usize,
        /// How many workers there are.
        workers: u16,
    },
    /// A startup_data of more than [`STARTUP_DATA_BYTES_MAX`].
    #[error("a startup_data of {len} bytes: {STARTUP_DATA_BYTES_MAX} are possible")]
    StartupDataTooLong {
        /// Its length.
        len: usize,
    },
    /// A process could not be started.
    #[error("worker {} cannot be started: {source}", slot.0)]
    Spawn {
        /// Its place.
        slot: NodeId,
        /// Why.
        source: io::Error,
    },
    /// At the first start, a worker ended before it served.
    #[error("worker {} ended before it was ready: {status}", slot.0)]
    EndedBeforeReady {
        /// Its place.
        slot: NodeId,
        /// How.
        status: ExitStatus,
    },
    /// At the first start, a worker did not serve in time.
    #[error("worker {} was not ready within {within:?}", slot.0)]
    NotReady {
        /// The first of them.
        slot: NodeId,
        /// The limit.
        within: Duration,
    },
    /// The system refused what all workers need.
    #[error("{what}: {source}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
