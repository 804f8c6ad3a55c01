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
        let own_groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut memory = memory_of_groups(Path::new("/sys/fs/cgroup"), &own_groups);
        memory.extend(memory_of_machine());
        SystemFigures {
            backlog_overflows: backlog_overflows(),
            memory_available_bytes: memory.iter().map(|(available, _)| *available).min(),
            memory_max_bytes: memory.iter().map(|(_, all)| *all).min(),
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

/// The same of each memory group with a limit: that of the container or unit, and those around it. `own` is the text of
/// `/proc/self/cgroup`. A container may see its own group as the root, under another path than this text names.
fn memory_of_groups(root: &Path, own: &str) -> Vec<(u64, u64)> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let innermost = root.join(own);
    innermost.ancestors().take_while(|group| group.starts_with(root)).filter_map(of_group).collect()
}

fn of_group(group: &Path) -> Option<(u64, u64)> {
    let number = |file| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    // It is "max" without a limit. The root of the machine has no such file.
    let max = number("memory.max")?;
    // The kernel gives files in memory back as soon as memory is needed.
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
    let used = number("memory.current")?.saturating_sub(files.unwrap_or(0));
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
    fn the_memory_groups_around_the_own_one_count_too() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, max: &str, current: &str, stat: &str| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in [("max", max), ("current", current), ("stat", stat)] {
                fs::write(folder.join(format!("memory.{file}")), text).unwrap();
            }
        };
        group("system.slice/watchfire.service", "1000\n", "900\n", "file 500\ninactive_file 300\n");
        group("system.slice", "max\n", "5000\n", "");
        let of = |own| memory_of_groups(root.path(), own);
        let own = "4:memory:/other\n0::/system.slice/watchfire.service\n";
        assert_eq!(of(own), [(400, 1000)]);
        group("system.slice", "6000\n", "5700\n", "");
        assert_eq!(of(own), [(400, 1000), (300, 6000)]);
        assert_eq!(of(""), [], "the root of a machine has no limit");
        // A container that sees its own group as the root.
        group("", "800\n", "790\n", "");
        assert_eq!(of("0::/../docker/a"), [(10, 800)]);
        assert_eq!(of("0::/"), [(10, 800)]);
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
