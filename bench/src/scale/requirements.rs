//! The limits of the machine, checked before anything is started.

use std::fs;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit};

use super::kernel::MachineMemory;

/// Memory of an idle connection: both ends in the kernel, and in both programs.
const PAIR_BYTES: u64 = 9_000;
/// Memory of a process without clients, with its links to the others.
const PROCESS_BYTES: u64 = 4 << 20;
/// Memory that stays free.
const SPARE_BYTES: u64 = 1 << 30;
/// Open files of a process that are not client sockets, such as links to other processes.
const OTHER_FILES: u64 = 500;
/// Most sockets of a process, with a reserve because the kernel distributes connections unevenly.
const SOCKETS_EACH_MAX: u64 = 18_200;

/// The resources that a benchmark needs.
#[derive(Clone, Debug)]
pub struct Requirements {
    pub benchmark: String,
    /// Connections at the same time; both ends are on this machine.
    pub connections: u64,
    /// Processes of the server and of the clients.
    pub processes: u64,
}

/// Sockets for each process, according to its open-file limit.
pub fn sockets_each() -> u64 {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    files.saturating_sub(OTHER_FILES).clamp(1, SOCKETS_EACH_MAX)
}

/// Fails if the machine has too little memory or too few files, with the numbers.
pub fn check(needs: &Requirements) -> Result<()> {
    let available = MachineMemory::read()?.available;
    check_memory(needs, available)?;
    let files = fs::read_to_string("/proc/sys/fs/file-nr")?;
    let mut numbers = files.split_whitespace().map(str::parse::<u64>);
    let in_use = numbers.next().context("/proc/sys/fs/file-nr is empty")??;
    let max = numbers.nth(1).context("/proc/sys/fs/file-nr has an unexpected format")??;
    let wanted = needs.connections * 2 + needs.processes * OTHER_FILES;
    ensure!(
        in_use + wanted <= max,
        "{} needs {wanted} more open files on the machine, but fs.file-max allows {}; raise it \
         with sysctl -w fs.file-max={}, or scale down with --percent",
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
        "{} needs {:.1} GiB of memory for {} connections, but {:.1} GiB are available, enough for \
         {fits}; free some, or scale down with --percent",
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
    fn a_million_connections_on_4_gib_fail_with_the_number_that_fits() {
        let needs =
            Requirements { benchmark: "million".into(), connections: 1_000_000, processes: 110 };
        assert!(check_memory(&needs, 16 << 30).is_ok());
        let error = check_memory(&needs, 4 << 30).unwrap_err().to_string();
        assert!(error.contains("--percent") && error.contains("enough for 30"), "{error}");
    }
}
