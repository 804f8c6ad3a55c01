//! The system limits on the number of sockets, compared with a demand.

use super::snapshot::Snapshot;

/// Open files of a server besides the sockets of its clients.
const FILES_SPARE: u64 = 64;
/// Kernel memory of one end of an idle connection: socket, inode, file, dentry, epoll.
const KERNEL_BYTES_PER_SOCKET: u64 = 4_100;
/// Memory of the server for a socket that has joined one topic.
const SERVER_BYTES_PER_SOCKET: u64 = 300;
/// Memory of the load generator for a simulated user.
const USER_BYTES_PER_SOCKET: u64 = 200;
/// Kernel memory of one message that a client has not read yet.
const UNREAD_BYTES_PER_SOCKET: u64 = 1_024;
const PAGE_BYTES: u64 = 4_096;
/// Length of the accept queue for a busy event loop.
const ACCEPT_QUEUE: u64 = 4_096;
/// Connections in one bucket of the TCP hash table before lookups get slow.
const SOCKETS_PER_BUCKET: u64 = 1;

/// The sockets that the machine should hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) sockets: u64,
    /// The clients run on the same machine, so each connection needs two sockets.
    pub(super) has_both_ends: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    /// `"bytes"`, or empty for a count.
    pub(super) unit: &'static str,
    pub(super) now: Option<u64>,
    pub(super) needed: u64,
    /// Number of sockets that it allows; `None` if the system does not report the limit.
    pub(super) holds: Option<u64>,
    /// Sockets above the limit fail. Otherwise they only become slower.
    pub(super) is_hard: bool,
    pub(super) reason: &'static str,
    /// The command or the line of configuration that raises it.
    pub(super) raise: String,
    wanted: u64,
}

impl Limit {
    /// Whether some of the sockets would fail.
    pub(super) fn is_too_low(&self) -> bool {
        self.is_hard && self.holds.is_some_and(|holds| holds < self.wanted)
    }
}

/// All limits, in a fixed order.
pub(super) fn limits_of(snapshot: &Snapshot, demand: &Demand) -> Vec<Limit> {
    let ends = if demand.has_both_ends { 2 } else { 1 };
    let sockets = demand.sockets;
    let files = sockets + FILES_SPARE;
    let limit = |name, now: Option<u64>, needed, holds: &dyn Fn(u64) -> u64| Limit {
        name,
        unit: "",
        now,
        needed,
        holds: now.map(holds),
        is_hard: true,
        reason: "",
        raise: String::new(),
        wanted: sockets,
    };
    let files_all = snapshot.files_in_use.unwrap_or(0) + (sockets + FILES_SPARE) * ends;
    let mut limits = vec![
        Limit {
            reason: "each socket is an open file (the load generator starts more processes by itself)",
            raise: format!(
                "echo '* - nofile {files}' >> /etc/security/limits.conf   # or LimitNOFILE={files} in the systemd unit; then log in again\n    \
                 watchfire serve --processes auto --set limits.sockets_max={sockets}   # if you cannot raise it"
            ),
            ..limit("open files of one process", snapshot.files_hard, files, &|now| {
                now.saturating_sub(FILES_SPARE)
            })
        },
        Limit {
            reason: "no process can have more open files than this",
            raise: format!("sysctl -w fs.nr_open={files}"),
            ..limit("fs.nr_open", snapshot.nr_open, files, &|now| now.saturating_sub(FILES_SPARE))
        },
        Limit {
            reason: "all processes together can have this many open files",
            raise: format!("sysctl -w fs.file-max={files_all}"),
            ..limit("fs.file-max", snapshot.file_max, files_all, &|now| {
                now.saturating_sub(snapshot.files_in_use.unwrap_or(0)) / ends
                    - FILES_SPARE.min(now / ends)
            })
        },
    ];
    if demand.has_both_ends {
        limits.push(ports(snapshot, demand, &limit));
    }
    let pages = |sockets: u64| (sockets * ends * UNREAD_BYTES_PER_SOCKET).div_ceil(PAGE_BYTES);
    let pages_needed = snapshot.tcp_pages_in_use.unwrap_or(0) + pages(sockets);
    limits.push(Limit {
        reason: "memory pages for unread and unsent data, counted with one short message per socket",
        raise: format!(
            "sysctl -w net.ipv4.tcp_mem='{} {} {pages_needed}'",
            pages_needed / 2,
            pages_needed / 4 * 3
        ),
        ..limit(
            "net.ipv4.tcp_mem, the third number",
            snapshot.tcp_pages_max,
            pages_needed,
            &|now| {
                let free = now.saturating_sub(snapshot.tcp_pages_in_use.unwrap_or(0));
                free.saturating_mul(PAGE_BYTES / UNREAD_BYTES_PER_SOCKET) / ends
            },
        )
    });
    let queue = sockets.min(ACCEPT_QUEUE);
    limits.push(Limit {
        reason: "connections that arrive while the accept queue is full are retried after a second",
        raise: format!("sysctl -w net.core.somaxconn={queue}"),
        is_hard: false,
        ..limit("net.core.somaxconn", snapshot.somaxconn, queue, &|now| {
            if now >= queue { u64::MAX } else { now }
        })
    });
    limits.push(buckets(snapshot, demand, ends, &limit));
    let tracked = snapshot.tracked.filter(|(in_use, _)| *in_use > 0);
    if let Some((in_use, max)) = tracked {
        let needed = in_use + sockets;
        limits.push(Limit {
            reason: "a firewall rule tracks connections, and drops those above this number",
            raise: format!("sysctl -w net.netfilter.nf_conntrack_max={needed}"),
            ..limit("nf_conntrack_max", Some(max), needed, &|now| now.saturating_sub(in_use))
        });
    }
    limits.push(memory(snapshot, demand, &limit));
    limits
}

type Make<'a> = dyn Fn(&'static str, Option<u64>, u64, &dyn Fn(u64) -> u64) -> Limit + 'a;

/// With explicit source addresses the load generator uses every port from 1024. Without them the
/// kernel chooses ports from its range.
fn ports(snapshot: &Snapshot, demand: &Demand, limit: &Make<'_>) -> Limit {
    let ports = snapshot.ports.map(|(first, last)| last.saturating_sub(first) + 1);
    let addresses = demand.sockets.div_ceil(65_536 - 1_024);
    let last = format!("127.0.{}.{}", 1 + (addresses - 1) / 250, 1 + (addresses - 1) % 250);
    Limit {
        reason: "one source address has this many ports for one server; give the scenario more addresses",
        raise: format!("[sources] addresses = [\"127.0.1.1-{last}\"]   # in the scenario"),
        is_hard: false,
        ..limit("ports of one source address", ports, demand.sockets, &|now| now)
    }
}

fn buckets(snapshot: &Snapshot, demand: &Demand, ends: u64, limit: &Make<'_>) -> Limit {
    let needed = (demand.sockets * ends).div_ceil(SOCKETS_PER_BUCKET).next_power_of_two();
    Limit {
        reason: "the TCP hash table has too few buckets: with eight connections in each, a broadcast costs half as much again",
        raise: format!("thash_entries={needed}   # on the kernel command line, then reboot"),
        is_hard: false,
        ..limit("buckets of the TCP hash table", snapshot.tcp_buckets, needed, &|now| {
            now.saturating_mul(SOCKETS_PER_BUCKET) / ends
        })
    }
}

fn memory(snapshot: &Snapshot, demand: &Demand, limit: &Make<'_>) -> Limit {
    let mut each = KERNEL_BYTES_PER_SOCKET + SERVER_BYTES_PER_SOCKET;
    if demand.has_both_ends {
        each += KERNEL_BYTES_PER_SOCKET + USER_BYTES_PER_SOCKET;
    }
    let needed = demand.sockets * each;
    let now = snapshot.memory_available_bytes;
    Limit {
        unit: "bytes",
        reason: "kernel and server need this for idle sockets",
        raise: "add memory, or stop other programs".into(),
        ..limit("available memory", now, needed, &|now| now / each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: Demand = Demand { sockets: 1_000_000, has_both_ends: false };
    const BOTH: Demand = Demand { sockets: 1_000_000, has_both_ends: true };

    fn too_low(snapshot: &Snapshot, demand: &Demand) -> Vec<(&'static str, u64)> {
        let limits = limits_of(snapshot, demand);
        let found = limits.iter().filter(|limit| limit.is_too_low());
        found.map(|limit| (limit.name, limit.holds.unwrap())).collect()
    }

    #[test]
    fn a_machine_with_high_limits_has_no_limit_that_is_too_low() {
        assert_eq!(too_low(&Snapshot::roomy(), &MILLION), []);
        assert_eq!(too_low(&Snapshot::roomy(), &BOTH), []);
    }

    #[test]
    fn each_limit_is_found_when_it_alone_is_low() {
        let roomy = Snapshot::roomy();
        let cases = [
            (
                Snapshot { files_hard: Some(20_000), ..roomy.clone() },
                "open files of one process",
                19_936,
            ),
            (Snapshot { nr_open: Some(524_288), ..roomy.clone() }, "fs.nr_open", 524_224),
            (Snapshot { file_max: Some(101_064), ..roomy.clone() }, "fs.file-max", 100_000),
            (
                Snapshot { tcp_pages_max: Some(100_000), ..roomy.clone() },
                "net.ipv4.tcp_mem, the third number",
                400_000,
            ),
            (
                Snapshot { tracked: Some((144, 262_144)), ..roomy.clone() },
                "nf_conntrack_max",
                262_000,
            ),
            (
                Snapshot { memory_available_bytes: Some(440_000_000), ..roomy.clone() },
                "available memory",
                100_000,
            ),
        ];
        for (snapshot, name, holds) in cases {
            assert_eq!(too_low(&snapshot, &MILLION), [(name, holds)]);
        }
    }

    #[test]
    fn both_ends_on_one_machine_need_twice_the_kernel_memory() {
        let tight = Snapshot { memory_available_bytes: Some(8_000_000_000), ..Snapshot::roomy() };
        assert_eq!(too_low(&tight, &MILLION), []);
        assert_eq!(too_low(&tight, &BOTH), [("available memory", 919_540)]);
    }

    #[test]
    fn a_limit_that_only_slows_sockets_down_is_not_too_low() {
        let snapshot =
            Snapshot { somaxconn: Some(128), tcp_buckets: Some(262_144), ..Snapshot::roomy() };
        assert_eq!(too_low(&snapshot, &BOTH), []);
        let limits = limits_of(&snapshot, &BOTH);
        let slow = limits.iter().filter(|limit| limit.holds.unwrap() < BOTH.sockets);
        let slow: Vec<_> = slow.map(|limit| limit.raise.as_str()).collect();
        assert_eq!(
            slow,
            [
                "[sources] addresses = [\"127.0.1.1-127.0.1.16\"]   # in the scenario",
                "sysctl -w net.core.somaxconn=4096",
                "thash_entries=2097152   # on the kernel command line, then reboot",
            ]
        );
    }

    #[test]
    fn a_limit_that_the_system_does_not_report_is_unknown_and_nothing_overflows() {
        assert_eq!(too_low(&Snapshot::default(), &MILLION), []);
        let most = Demand { sockets: 1_000_000_000, has_both_ends: true };
        assert!(limits_of(&Snapshot::roomy(), &most).iter().any(Limit::is_too_low));
        let none = Snapshot { file_max: Some(0), files_hard: Some(0), ..Snapshot::roomy() };
        assert!(too_low(&none, &MILLION).contains(&("fs.file-max", 0)));
    }
}
