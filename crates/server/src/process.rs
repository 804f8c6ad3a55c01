use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for a signal to stop the process: Ctrl-C or SIGTERM.
///
/// The call itself registers the handlers, inside a tokio runtime, so a signal that arrives before
/// the returned future is polled is not lost.
pub fn stop_signal() -> impl Future<Output = io::Result<()>> {
    let signals = signal(SignalKind::interrupt())
        .and_then(|interrupted| Ok((interrupted, signal(SignalKind::terminate())?)));
    async {
        let (mut interrupted, mut terminated) = signals?;
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
        Ok(())
    }
}

/// Signals that do not end this process while the result lives. The parts that reload something listen for
/// SIGHUP, too. Tools that rotate logs send SIGUSR1, for which there is nothing to do.
pub(crate) fn outlived_signals() -> io::Result<Vec<Signal>> {
    [SignalKind::hangup(), SignalKind::user_defined1()].into_iter().map(signal).collect()
}

/// Raises this process's soft limit of open files to its hard limit, and returns the new limit.
/// Every socket is an open file.
pub fn raise_open_file_limit() -> io::Result<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(limit.current.unwrap_or(u64::MAX))
}
