//! Figures of the machine that are in no metric.

use std::fs;
use std::path::Path;

use rustix::fs::StatVfs;

/// Figures of the machine. `None`: the system does not tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemFigures {
    /// Connections that the kernel has dropped because a queue of new connections was full.
    pub backlog_overflows: Option<u64>,
    /// Memory that the server can still get: of the machine, or of its memory group.
    pub memory_available_bytes: Option<u64>,
    /// All memory that the server may use.
    pub memory_max_bytes: Option<u64>,
    /// Space on the disk of the state folder.
    pub disk_available_bytes: Option<u64>,
    pub disk_max_bytes: Option<u64>,
}

impl SystemFigures {
    /// Reads them. `folder` is on the disk to look at; empty for none.
    pub fn read(folder: &Path) -> Self {
        let has_folder = !folder.as_os_str().is_empty();
        let disk = has_folder.then(|| rustix::fs::statvfs(folder).ok()).flatten();
        let of_disk = |blocks: fn(&StatVfs) -> u64| {
            disk.as_ref().map(|disk| blocks(disk).saturating_mul(disk.f_frsize))
        };
        let machine = memory_of_machine();
        let group = memory_of_group();
        let least = |of_machine: Option<u64>, of_group: Option<u64>| {
            of_machine.into_iter().chain(of_group).min()
        };
        SystemFigures {
            backlog_overflows: backlog_overflows(),
            memory_available_bytes: least(
                machine.map(|(available, _)| available),
                group.map(|(available, _)| available),
            ),
            memory_max_bytes: least(machine.map(|(_, all)| all), group.map(|(_, all)| all)),
            disk_available_bytes: of_disk(|disk| disk.f_bavail),
            disk_max_bytes: of_disk(|disk| disk.f_blocks),
        }
    }
}

fn memory_of_machine() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim_start_matches(':').split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Some((bytes("MemAvailable")?, bytes("MemTotal")?))
}

/// The same of the memory group of a container or a unit, if it has a limit.
fn memory_of_group() -> Option<(u64, u64)> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    // A file of version 2 has the text "max" without a limit, and is missing in the root.
    let max = number("/sys/fs/cgroup/memory.max")?;
    let used = number("/sys/fs/cgroup/memory.current")?;
    Some((max.saturating_sub(used), max))
}

/// The kernel's count of `ListenOverflows`.
fn backlog_overflows() -> Option<u64> {
    overflows_in(&fs::read_to_string("/proc/net/netstat").ok()?)
}

fn overflows_in(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let position = names.split(' ').position(|name| name == "ListenOverflows")?;
    values.split(' ').nth(position)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_the_kernel_is_found_by_its_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 23 4\nIpExt: A\nIpExt: 9\n";
        assert_eq!(overflows_in(text), Some(23));
        assert_eq!(overflows_in("TcpExt: A\nTcpExt: 1\n"), None);
        assert_eq!(overflows_in(""), None);
    }

    #[test]
    fn this_machine_has_figures() {
        let figures = SystemFigures::read(Path::new("/tmp"));
        let (available, all) =
            (figures.memory_available_bytes.unwrap(), figures.memory_max_bytes.unwrap());
        assert!(0 < available && available <= all, "{figures:?}");
        assert!(figures.disk_available_bytes.unwrap() <= figures.disk_max_bytes.unwrap());
        assert!(figures.backlog_overflows.is_some());
        assert_eq!(SystemFigures::read(Path::new("")).disk_max_bytes, None);
    }
}
