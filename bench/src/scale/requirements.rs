//! What the machine allows, looked at before anything is started.

use std::fs;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit};

use super::kernel::MachineMemory;

/// Both ends of an idle connection in the kernel, and both programs' share of it.
const PAIR_BYTES: u64 = 9_000;
/// Of a process before anybody comes, with its links to the others.
const PROCESS_BYTES: u64 = 4 << 20;
/// What is to stay free.
const SPARE_BYTES: u64 = 1 << 30;
/// Open files of a process that are no sockets of clients: links to other processes among them.
const OTHER_FILES: u64 = 500;
/// A process is given at most this many sockets, with room for the uneven hand of the kernel.
const SOCKETS_EACH_MAX: u64 = 18_200;

/// What a benchmark needs.
#[derive(Clone, Debug)]
pub struct Requirements {
    pub benchmark: String,
    /// Connections at one time, both of whose ends are here.
    pub connections: u64,
    /// Of the server and of the clients together.
    pub processes: u64,
}

/// How many sockets a process is given: what its limit of open files leaves.
pub fn sockets_each() -> u64 {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    files.saturating_sub(OTHER_FILES).clamp(1, SOCKETS_EACH_MAX)
}

/// Refuse, in words, what would not fit.
pub fn check(needs: &Requirements) -> Result<()> {
    let available = MachineMemory::look()?.available;
    check_memory(needs, available)?;
    let files = fs::read_to_string("/proc/sys/fs/file-nr")?;
    let mut numbers = files.split_whitespace().map(str::parse::<u64>);
    let in_use = numbers.next().context("/proc/sys/fs/file-nr is empty")??;
    let max = numbers.nth(1).context("/proc/sys/fs/file-nr has another format")??;
    let wanted = needs.connections * 2 + needs.processes * OTHER_FILES;
    ensure!(
        in_use + wanted <= max,
        "{} needs {wanted} more open files on the whole machine and fs.file-max allows {}; raise \
         it with sysctl -w fs.file-max={}, or scale down with --percent",
        needs.benchmark,
        max.saturating_sub(in_use),
        in_use + wanted
    );
    Ok(())
}

fn check_memory(needs: &Requirements, available: u64) -> Result<()> {
    let wanted = needs.connections * PAIR_BYTES + needs.processes * PROCESS_BYTES + SPARE_BYTES;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let fits = available.saturating_sub(SPARE_BYTES + needs.processes * PROCESS_BYTES) / PAIR_BYTES;
    ensure!(
        wanted <= available,
        "{} needs {:.1} GiB of memory for {} connections, both ends here, and {:.1} GiB are \
         available, enough for {fits}; free some, or scale down with --percent",
        needs.benchmark,
        gib(wanted),
        needs.connections,
        gib(available)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_is_refused_on_four_gibibytes_with_the_number_that_fits() {
        let needs =
            Requirements { benchmark: "million".into(), connections: 1_000_000, processes: 110 };
        assert!(check_memory(&needs, 16 << 30).is_ok());
        let error = check_memory(&needs, 4 << 30).unwrap_err().to_string();
        assert!(error.contains("--percent") && error.contains("enough for 30"), "{error}");
    }
}
