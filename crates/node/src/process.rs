use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Wait until the process is asked to stop: Ctrl-C or SIGTERM.
pub async fn stop_signal() -> io::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    Ok(())
}

/// Raise this process's soft limit of open files to its hard limit; returns what it is then.
/// Every socket is an open file.
pub fn raise_open_file_limit() -> io::Result<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(limit.current.unwrap_or(u64::MAX))
}
