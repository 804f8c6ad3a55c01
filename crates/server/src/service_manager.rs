//! systemd, or another service manager with the same protocol: readiness, the watchdog, and sockets
//! that it opened for the server.
//!
//! Every function does nothing when no service manager started the server.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use watchfire_sockets::InheritedListener;

/// Variables that are meant for the main process of a service only.
const VARIABLES: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
];

/// The path of a file that survives restarts: the one of a setting, or if that is empty, a file in the
/// state folder that the service manager made for the service. Empty: there is neither.
pub fn state_file(setting: &Path, name: &str) -> PathBuf {
    if !setting.as_os_str().is_empty() {
        return setting.to_owned();
    }
    let folders = env::var_os("STATE_DIRECTORY").unwrap_or_default();
    let first = env::split_paths(&folders).next().filter(|folder| folder.is_absolute());
    first.map(|folder| folder.join(name)).unwrap_or_default()
}

/// Reports that the server accepts connections, with all its processes.
pub(crate) fn notify_ready() {
    notify(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// Reports that the server drains and then ends.
pub(crate) fn notify_stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("closing all connections")]);
}

/// Reports that another process is the main process of the service from now on.
pub(crate) fn notify_main_process(pid: u32) {
    // The new main process sends its first sign of life only after a part of the period.
    notify(&[NotifyState::MainPid(pid), NotifyState::Watchdog]);
}

/// Reports that the server is alive.
pub(crate) fn notify_alive() {
    notify(&[NotifyState::Watchdog]);
}

/// How often to report that the server is alive; `None` if the service has no watchdog.
pub(crate) fn watchdog_period() -> Option<Duration> {
    // Twice in the time after which the service manager acts.
    sd_notify::watchdog_enabled().map(|timeout| timeout / 2)
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = try_notify(env::var_os("NOTIFY_SOCKET").as_deref(), states) {
        tracing::warn!(%error, ?states, "cannot notify the service manager");
    }
}

/// `sd_notify` takes a name in the abstract namespace for a path. It begins with `@` (sd_notify(3)).
fn try_notify(socket: Option<&OsStr>, states: &[NotifyState<'_>]) -> io::Result<()> {
    let Some(name) = socket.and_then(|socket| socket.as_bytes().strip_prefix(b"@")) else {
        return sd_notify::notify(states);
    };
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    let address = SocketAddr::from_abstract_name(name)?;
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}

/// The listeners that the service manager opened, in its order.
///
/// Call it once, before there are threads: it removes variables from the environment.
pub(crate) fn inherited_listeners() -> io::Result<Vec<InheritedListener>> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut descriptors = ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..descriptors.len() {
        let name = names.next().unwrap_or_default();
        let failed = |error: io::Error| {
            let what = format!(
                "cannot use the socket {index} ({name}) of the service manager: {error}; it must \
                 be a TCP listener: set ListenStream to an address and a port"
            );
            io::Error::new(error.kind(), what)
        };
        if let Some(listener) = descriptors.take_tcp_listener(index).map_err(failed)? {
            listeners.push(InheritedListener::new(listener.into()).map_err(failed)?);
        }
    }
    Ok(listeners)
}

/// Removes the service manager's variables from a command that is not the main process.
pub(crate) fn hide_from(command: &mut Command) {
    for variable in VARIABLES {
        command.env_remove(variable);
    }
}

/// Prepares the command of the next main process. It has the same watchdog, with another pid.
pub(crate) fn pass_to(command: &mut Command) {
    for variable in ["WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"] {
        command.env_remove(variable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_with_a_socket_in_the_abstract_namespace_is_notified() {
        let name = format!("watchfire-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let states = [NotifyState::Ready, NotifyState::Status("serving")];
        try_notify(Some(OsStr::new(&format!("@{name}"))), &states).unwrap();
        let mut received = [0; 100];
        let len = manager.recv(&mut received).unwrap();
        assert_eq!(&received[..len], b"READY=1\nSTATUS=serving\n");
    }
}
