//! Replacing the running server by the program that is on disk now: SIGUSR2.
//!
//! The new program takes over the listeners themselves, so no connection is refused or lost in a
//! queue. The old one stops accepting when the new one is ready, and then drains. `workers` has the
//! hand-over itself.

use std::env;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use watchfire_cluster::workers::{
    Inheritance, Predecessor, SuccessorError, join_predecessor, start_successor,
};
use watchfire_sockets::{InheritedListener, ListenError, Listeners, SocketLimits};

use crate::history::{HandOverSockets, LogKeeper};
use crate::service_manager;

/// How long the new program may take until all its processes serve.
const READY_TIMEOUT: Duration = Duration::from_secs(90);

/// The meaning of the descriptors of a hand-over. Another release may read it, so fields are only
/// added, with a default.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct HandOver {
    /// For each descriptor, the configured address of the listener.
    listeners: Vec<SocketAddr>,
    /// Whether the service manager opened the listeners. Then they replace `server.listen`.
    is_from_service_manager: bool,
    /// Whether the last two descriptors are the sockets over which the histories are handed over.
    has_histories: bool,
}

/// The listeners that this process did not open itself.
#[derive(Default)]
pub(crate) struct Inherited {
    listeners: Vec<InheritedListener>,
    is_from_service_manager: bool,
    predecessor: Option<Predecessor>,
    histories: Option<HandOverSockets>,
}

impl Inherited {
    /// Receives listeners from the server that this process replaces, or from the service manager.
    ///
    /// Call it once, before there are threads.
    pub fn receive() -> io::Result<Self> {
        let Some((inheritance, predecessor)) = join_predecessor()? else {
            let listeners = service_manager::inherited_listeners()?;
            let is_from_service_manager = !listeners.is_empty();
            return Ok(Inherited { listeners, is_from_service_manager, ..Inherited::default() });
        };
        let Inheritance { data, mut descriptors } = inheritance;
        let hand_over: HandOver = serde_json::from_slice(&data)?;
        let of_histories = match hand_over.has_histories {
            true => descriptors.split_off(descriptors.len().saturating_sub(2)),
            false => Vec::new(),
        };
        let pairs = hand_over.listeners.into_iter().zip(descriptors);
        Ok(Inherited {
            listeners: pairs.map(|(wanted, socket)| InheritedListener { wanted, socket }).collect(),
            is_from_service_manager: hand_over.is_from_service_manager,
            predecessor: Some(predecessor),
            histories: of_histories.try_into().ok().map(HandOverSockets::from_descriptors),
        })
    }

    /// Whether this process replaces a running server.
    pub fn is_successor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// The listeners for `shards` event loops: the inherited ones, and new ones for the addresses
    /// that have none. Returns what is needed for the end of this process, too.
    pub fn open(self, listen: &[SocketAddr], shards: usize) -> Result<Opened, OpenError> {
        let Inherited { listeners, is_from_service_manager, predecessor, histories } = self;
        let listen = match is_from_service_manager {
            true => {
                let mut addresses = Vec::new();
                for listener in &listeners {
                    if !addresses.contains(&listener.wanted) {
                        addresses.push(listener.wanted);
                    }
                }
                tracing::info!(?addresses, "listening on the sockets of the service manager");
                addresses
            }
            false => listen.to_vec(),
        };
        let limits = SocketLimits::default();
        let listeners = Listeners::open_with(listeners, &listen, shards, &limits)?;
        let copies = listeners.copies(&listen).map_err(OpenError::Copy)?;
        let restarts = Restarts {
            signals: signal(SignalKind::user_defined2()).map_err(OpenError::Copy)?,
            program: Program::running(),
            copies,
            is_from_service_manager,
            histories: None,
        };
        Ok(Opened { listeners, listen, restarts, predecessor, histories })
    }
}

/// Open listeners, and how they are handed over.
pub(crate) struct Opened {
    pub listeners: Listeners,
    /// Their addresses as they were wanted: those of the settings, or of the service manager.
    pub listen: Vec<SocketAddr>,
    pub restarts: Restarts,
    pub predecessor: Option<Predecessor>,
    /// The way to the histories of the predecessor.
    pub histories: Option<HandOverSockets>,
}

/// Why the listeners cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot copy the listeners: {0}")]
    Copy(io::Error),
}

/// Reports that this process serves: to the service manager, and to the server that it replaces.
pub(crate) fn report_ready(predecessor: Option<Predecessor>) {
    if let Some(Err(error)) = predecessor.map(Predecessor::ready) {
        tracing::warn!(%error, "the server that this one replaces has ended already");
    }
    service_manager::notify_ready();
}

/// Restarts a server on SIGUSR2, and reports to the service manager until the server ends.
pub(crate) struct Restarts {
    signals: Signal,
    program: Program,
    /// While these are open, connections wait in the listeners. They are closed when a drain begins.
    copies: Vec<InheritedListener>,
    is_from_service_manager: bool,
    /// The histories to hand over, if they are in this process.
    pub histories: Option<LogKeeper>,
}

impl Restarts {
    /// Waits until the server should drain: after `stop`, or when another process has replaced it.
    ///
    /// Until then the service manager's watchdog is served while `is_alive`.
    pub async fn until_end(
        mut self,
        stop: impl Future<Output = ()>,
        is_alive: impl FnMut() -> bool,
    ) {
        let watchdog = pin!(serve_watchdog(is_alive));
        tokio::select! {
            () = self.until_replaced(stop) => {}
            () = watchdog => unreachable!("the watchdog is served for ever"),
        }
    }

    async fn until_replaced(&mut self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return service_manager::notify_stopping(),
                _ = self.signals.recv() => {}
            }
            tracing::info!(program = %self.program.path.display(), "starting the new program");
            let outcome = tokio::select! {
                () = &mut stop => return service_manager::notify_stopping(),
                outcome = self.replace() => outcome,
            };
            match outcome {
                Ok(pid) => {
                    tracing::info!(pid, "the new program serves; closing all connections");
                    return service_manager::notify_main_process(pid);
                }
                Err(error) => tracing::error!(%error, "the server continues unchanged"),
            }
        }
    }

    async fn replace(&self) -> Result<u32, SuccessorError> {
        let hand_over = HandOver {
            listeners: self.copies.iter().map(|copy| copy.wanted).collect(),
            is_from_service_manager: self.is_from_service_manager,
            has_histories: self.histories.is_some(),
        };
        let descriptors = self.copies.iter().map(|copy| copy.socket.try_clone());
        let mut descriptors = descriptors.collect::<Result<Vec<_>, _>>()?;
        if let Some(keeper) = &self.histories {
            let (ours, of_successor) = HandOverSockets::pair()?;
            let keeper = keeper.clone();
            ours.give(move |link| keeper.give(link))?;
            descriptors.extend(of_successor.into_descriptors());
        }
        let data = serde_json::to_vec(&hand_over).expect("addresses have a JSON form");
        let inheritance = Inheritance { data, descriptors };
        start_successor(self.program.command(), inheritance, READY_TIMEOUT).await
    }
}

/// Reports to the service manager while the server is alive. Waits for ever.
async fn serve_watchdog(mut is_alive: impl FnMut() -> bool) {
    let Some(period) = service_manager::watchdog_period() else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        match is_alive() {
            true => service_manager::notify_alive(),
            false => tracing::error!("an event loop does not run; the watchdog is not served"),
        }
    }
}

/// The program to start at a restart.
struct Program {
    /// The path that was used at the start. It may be a link that points to another file by now.
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The running program. The path must be found at the start: later, another file may be there.
    fn running() -> Self {
        let arguments: Vec<OsString> = env::args_os().collect();
        let file = env::current_exe().unwrap_or_default();
        let name = arguments.first().map(PathBuf::from).unwrap_or_default();
        let path = invoked_path(&name, &file).unwrap_or(file);
        Program { path, arguments }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some((name, arguments)) = self.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        service_manager::pass_to(&mut command);
        command
    }
}

/// The path by which the program `file` was started as `name`. `None` if the name leads elsewhere.
fn invoked_path(name: &Path, file: &Path) -> Option<PathBuf> {
    let folders = match name.components().count() {
        0 => return None,
        // A name without a folder was found in PATH.
        1 if !name.is_absolute() => env::split_paths(&env::var_os("PATH")?).collect(),
        _ => vec![env::current_dir().ok()?],
    };
    let mut paths = folders.into_iter().map(|folder| folder.join(name));
    paths.find(|path| path.canonicalize().is_ok_and(|found| found == file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_restart_is_the_one_of_the_start_with_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (file, link) = (folder.join("program-1"), folder.join("program"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(invoked_path(&link, &file), Some(link.clone()));
        assert_eq!(invoked_path(&file, &file), Some(file.clone()));
        for other in ["", "sh", "/bin/sh", "no/such/file"] {
            assert_eq!(invoked_path(Path::new(other), &file), None, "{other}");
        }
    }

    #[test]
    fn data_of_another_release_is_read() {
        let hand_over: HandOver =
            serde_json::from_str(r#"{"listeners":["[::1]:1"],"new":7}"#).unwrap();
        assert_eq!(hand_over.listeners, ["[::1]:1".parse().unwrap()]);
        assert!(!hand_over.is_from_service_manager);
    }
}
