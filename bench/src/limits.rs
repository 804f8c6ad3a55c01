use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files of a process besides its sockets: its program, pipes, epoll, listener.
const OTHER_FILES: u64 = 200;

/// Raise the soft limit of open files to the hard one; children inherit it. Returns the limit.
pub fn raise_open_files() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Fails before the run if a server process cannot open that many sockets.
pub fn check_sockets(sockets: usize, open_files_max: u64) -> Result<()> {
    let room = open_files_max.saturating_sub(OTHER_FILES);
    if sockets as u64 > room {
        bail!(
            "{sockets} sockets exceed the open-file limit of a process, {open_files_max} (ulimit -Hn); \
             run with --sockets {room} or raise the limit"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_sockets_than_a_process_may_open_fail_with_the_number_that_fits() {
        assert!(check_sockets(18_000, 20_000).is_ok());
        let error = check_sockets(20_000, 20_000).unwrap_err().to_string();
        assert!(error.contains("--sockets 19800"), "{error}");
    }
}
