//! A server of several processes: the supervisor, and each worker.
//!
//! The first process opens the listeners and supervises; it serves no clients. It starts the same
//! program again for each worker, and sends it the settings, a common secret and its listeners. In
//! the crate `cluster`, `workers` has the supervision, and `bus` the messages between workers.

mod sighup;
mod supervisor;
mod worker;

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use watchfire_cluster::workers::SuperviseError;
use watchfire_sockets::LoopPanic;

use crate::cluster::PROCESSES_MAX;
use crate::machines::ClusterError;
use crate::restart::OpenError;
use crate::server::{FeatureAddresses, Panicked, StartError, cores};
use crate::settings::Settings;

pub(crate) use self::supervisor::supervise_all;
pub(crate) use self::worker::serve_as_worker;

/// Open files of a process besides its clients: listeners, links to the other processes, files.
const DESCRIPTORS_RESERVED: u64 = 512;
// A process has two links to each other one: for messages, and for connections.
const _: () = assert!(DESCRIPTORS_RESERVED >= 3 * PROCESSES_MAX as u64);
/// A process may have its even share of sockets, and one in so many of the share in addition.
const EXTRA_SHARE: u32 = 16;
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
    EventLoop(LoopPanic),
    /// A thread of this process beside the event loops panicked.
    #[error("the server has ended: the thread {0} panicked")]
    Thread(String),
    /// A call to the operating system failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Panicked> for RunError {
    fn from(panic: Panicked) -> Self {
        match panic {
            Panicked::EventLoop(panic) => RunError::EventLoop(panic),
            Panicked::Thread(name) => RunError::Thread(name.into()),
        }
    }
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
    pub(crate) feature_addresses: FeatureAddresses,
    /// The number of processes that serve clients.
    pub processes: usize,
}

impl Started {
    /// The addresses on which a feature listens for itself; none if there is no such feature.
    pub fn addresses_of(&self, feature: &str) -> &[SocketAddr] {
        self.feature_addresses.of(feature)
    }
}

/// The data that a supervisor sends to each worker.
#[derive(Serialize, Deserialize)]
struct StartupData {
    settings: Settings,
    /// The sections that features read.
    sections: Map<String, Value>,
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
    fn two_million_sockets_fit_the_processes_of_a_server_with_20000_files_each() {
        let each = 20_000 - DESCRIPTORS_RESERVED;
        let sockets = 2_000_000_u64;
        let processes = (sockets + sockets / u64::from(EXTRA_SHARE)).div_ceil(each);
        assert!(processes as usize <= PROCESSES_MAX, "{processes}");
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
