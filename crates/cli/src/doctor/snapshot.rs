//! The limits of this machine, most of them from /proc.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// The limits at one moment. `None` if the system does not report a limit; only Linux does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    pub(super) files_hard: Option<u64>,
    pub(super) nr_open: Option<u64>,
    pub(super) file_max: Option<u64>,
    pub(super) files_in_use: Option<u64>,
    /// The range that the kernel chooses client ports from.
    pub(super) ports: Option<(u64, u64)>,
    /// The most memory pages that TCP may use.
    pub(super) tcp_pages_max: Option<u64>,
    pub(super) tcp_pages_in_use: Option<u64>,
    pub(super) somaxconn: Option<u64>,
    /// Buckets of the table of established connections.
    pub(super) tcp_buckets: Option<u64>,
    pub(super) memory_available_bytes: Option<u64>,
    /// Connections tracked by the firewall now, and the most that can be.
    pub(super) tracked: Option<(u64, u64)>,
}

impl Snapshot {
    pub(super) fn read() -> Snapshot {
        let read = |path: &str| fs::read_to_string(format!("/proc/{path}")).unwrap_or_default();
        let sysctl = |path: &str| numbers(&read(&format!("sys/{path}")));
        let first = |path: &str| sysctl(path).first().copied();
        let ports = sysctl("net/ipv4/ip_local_port_range");
        let in_use = first("net/netfilter/nf_conntrack_count");
        Snapshot {
            // A process without a limit can have as many as it asks for.
            files_hard: Some(getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)),
            nr_open: first("fs/nr_open"),
            file_max: first("fs/file-max"),
            files_in_use: first("fs/file-nr"),
            ports: ports.first().copied().zip(ports.get(1).copied()),
            tcp_pages_max: sysctl("net/ipv4/tcp_mem").get(2).copied(),
            tcp_pages_in_use: value_after(&read("net/sockstat"), "TCP:", "mem"),
            somaxconn: first("net/core/somaxconn"),
            tcp_buckets: first("net/ipv4/tcp_ehash_entries"),
            memory_available_bytes: value_after(&read("meminfo"), "MemAvailable:", "")
                .map(|kibibytes| kibibytes.saturating_mul(1024)),
            tracked: in_use.zip(first("net/netfilter/nf_conntrack_max")),
        }
    }

    /// A machine whose limits allow a million sockets.
    #[cfg(test)]
    pub(super) fn roomy() -> Snapshot {
        Snapshot {
            files_hard: Some(4_000_000),
            nr_open: Some(4_000_000),
            file_max: Some(u64::MAX),
            files_in_use: Some(1_000),
            ports: Some((1_024, 65_535)),
            tcp_pages_max: Some(4_000_000),
            tcp_pages_in_use: Some(0),
            somaxconn: Some(4_096),
            tcp_buckets: Some(4_194_304),
            memory_available_bytes: Some(64 << 30),
            tracked: Some((0, 262_144)),
        }
    }
}

/// All whole numbers of a file. A minus sign is dropped: the kernel writes one before the size of a
/// table that is shared with another namespace.
fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.trim_start_matches('-').parse().ok()).collect()
}

/// The number after `word` in the line that starts with `begin`; the first number if `word` is
/// empty.
fn value_after(text: &str, begin: &str, word: &str) -> Option<u64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix(begin))?.split_whitespace();
    if !word.is_empty() {
        words.find(|found| *found == word)?;
    }
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_parsed() {
        assert_eq!(numbers("32768\t60999\n"), [32_768, 60_999]);
        assert_eq!(numbers("-262144\n"), [262_144]);
        let sockstat = "sockets: used 100\nTCP: inuse 5 orphan 0 tw 1 alloc 7 mem 3\n";
        assert_eq!(value_after(sockstat, "TCP:", "mem"), Some(3));
        assert_eq!(value_after("MemAvailable:   123 kB\n", "MemAvailable:", ""), Some(123));
    }

    #[test]
    fn this_machine_reports_its_limits() {
        let snapshot = Snapshot::read();
        assert!(snapshot.files_hard.is_some() && snapshot.nr_open.is_some(), "{snapshot:?}");
    }
}
