//! What a number of sockets needs, and which limits are below it.

use super::snapshot::Snapshot;

/// Open files of a server that are no sockets of clients.
const FILES_SPARE: u64 = 64;
/// Kernel memory of one end of an idle connection: socket, inode, file, dentry, epoll.
const KERNEL_BYTES_A_SOCKET: u64 = 4_100;
/// Memory of the server for a socket on one topic, and of the load generator for a user.
const SERVER_BYTES_A_SOCKET: u64 = 300;
const USER_BYTES_A_SOCKET: u64 = 200;
/// Kernel memory of one message that a client has not read yet.
const UNREAD_BYTES_A_SOCKET: u64 = 1_024;
const PAGE_BYTES: u64 = 4_096;
/// Connections that can wait to be accepted while a loop is busy elsewhere.
const ACCEPT_QUEUE: u64 = 4_096;
/// Connections in one bucket of the kernel's table before looking them up gets slow.
const SOCKETS_A_BUCKET: u64 = 1;

/// What is asked of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) sockets: u64,
    /// Clients are here too: each socket is two.
    pub(super) has_both_ends: bool,
}

/// One limit, seen in the light of a wish.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    /// "bytes", or nothing for a count.
    pub(super) unit: &'static str,
    pub(super) now: Option<u64>,
    pub(super) needed: u64,
    /// How many sockets it lets through; `None` when that cannot be told.
    pub(super) holds: Option<u64>,
    /// Sockets over it fail; otherwise all only gets slower.
    pub(super) is_hard: bool,
    pub(super) reason: &'static str,
    /// The line that raises it.
    pub(super) raise: String,
    wanted: u64,
}

impl Finding {
    /// It stops some of the sockets.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.is_hard && self.holds.is_some_and(|holds| holds < self.wanted)
    }
}

/// Every limit there is a rule for.
pub(super) fn judge(snapshot: &Snapshot, wish: &Wish) -> Vec<Finding> {
    let ends = if wish.has_both_ends { 2 } else { 1 };
    let sockets = wish.sockets;
    let files = sockets + FILES_SPARE;
    let finding = |name, now: Option<u64>, needed, holds: &dyn Fn(u64) -> u64| Finding {
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
    let mut findings = vec![
        Finding {
            reason: "each socket is an open file (the load generator takes more processes by itself)",
            raise: format!(
                "echo '* - nofile {files}' >> /etc/security/limits.conf   # or LimitNOFILE={files} in the systemd unit; then log in anew\n    \
                 watchfire serve --processes auto --set limits.sockets_max={sockets}   # where it cannot be raised"
            ),
            ..finding("open files of one process", snapshot.files_hard, files, &|now| {
                now.saturating_sub(FILES_SPARE)
            })
        },
        Finding {
            reason: "no process may be allowed more open files than this",
            raise: format!("sysctl -w fs.nr_open={files}"),
            ..finding("fs.nr_open", snapshot.nr_open, files, &|now| now.saturating_sub(FILES_SPARE))
        },
        Finding {
            reason: "all processes together may have so many open files",
            raise: format!("sysctl -w fs.file-max={files_all}"),
            ..finding("fs.file-max", snapshot.file_max, files_all, &|now| {
                now.saturating_sub(snapshot.files_in_use.unwrap_or(0)) / ends
                    - FILES_SPARE.min(now / ends)
            })
        },
    ];
    if wish.has_both_ends {
        findings.push(ports(snapshot, wish, &finding));
    }
    let pages = |sockets: u64| (sockets * ends * UNREAD_BYTES_A_SOCKET).div_ceil(PAGE_BYTES);
    let pages_needed = snapshot.tcp_pages_in_use.unwrap_or(0) + pages(sockets);
    findings.push(Finding {
        reason: "pages for what sockets have not read or sent yet, at one short message each",
        raise: format!(
            "sysctl -w net.ipv4.tcp_mem='{} {} {pages_needed}'",
            pages_needed / 2,
            pages_needed / 4 * 3
        ),
        ..finding(
            "net.ipv4.tcp_mem, the third number",
            snapshot.tcp_pages_max,
            pages_needed,
            &|now| {
                let free = now.saturating_sub(snapshot.tcp_pages_in_use.unwrap_or(0));
                free.saturating_mul(PAGE_BYTES / UNREAD_BYTES_A_SOCKET) / ends
            },
        )
    });
    let queue = sockets.min(ACCEPT_QUEUE);
    findings.push(Finding {
        reason: "connections that arrive at one moment and find the queue full are tried again after a second",
        raise: format!("sysctl -w net.core.somaxconn={queue}"),
        is_hard: false,
        ..finding("net.core.somaxconn", snapshot.somaxconn, queue, &|now| {
            if now >= queue { u64::MAX } else { now }
        })
    });
    findings.push(buckets(snapshot, wish, ends, &finding));
    let tracked = snapshot.tracked.filter(|(in_use, _)| *in_use > 0);
    if let Some((in_use, max)) = tracked {
        let needed = in_use + sockets;
        findings.push(Finding {
            reason: "a firewall rule tracks connections, and forgets those over this",
            raise: format!("sysctl -w net.netfilter.nf_conntrack_max={needed}"),
            ..finding("nf_conntrack_max", Some(max), needed, &|now| now.saturating_sub(in_use))
        });
    }
    findings.push(memory(snapshot, wish, &finding));
    findings
}

type Make<'a> = dyn Fn(&'static str, Option<u64>, u64, &dyn Fn(u64) -> u64) -> Finding + 'a;

/// With explicit source addresses the load generator takes every port from 1024 on, whatever the
/// range; without, the kernel takes those of its range.
fn ports(snapshot: &Snapshot, wish: &Wish, finding: &Make<'_>) -> Finding {
    let ports = snapshot.ports.map(|(first, last)| last.saturating_sub(first) + 1);
    let addresses = wish.sockets.div_ceil(65_536 - 1_024);
    let last = format!("127.0.{}.{}", 1 + (addresses - 1) / 250, 1 + (addresses - 1) % 250);
    Finding {
        reason: "one source address has so many ports for one server; give the scenario more addresses",
        raise: format!("[sources] addresses = [\"127.0.1.1-{last}\"]   # in the scenario"),
        is_hard: false,
        ..finding("ports of one source address", ports, wish.sockets, &|now| now)
    }
}

fn buckets(snapshot: &Snapshot, wish: &Wish, ends: u64, finding: &Make<'_>) -> Finding {
    let needed = (wish.sockets * ends).div_ceil(SOCKETS_A_BUCKET).next_power_of_two();
    Finding {
        reason: "the kernel looks connections up in too few buckets: at eight in each, a broadcast costs half as much again",
        raise: format!("thash_entries={needed}   # on the kernel's command line, then boot"),
        is_hard: false,
        ..finding("buckets of TCP's table", snapshot.tcp_buckets, needed, &|now| {
            now.saturating_mul(SOCKETS_A_BUCKET) / ends
        })
    }
}

fn memory(snapshot: &Snapshot, wish: &Wish, finding: &Make<'_>) -> Finding {
    let mut each = KERNEL_BYTES_A_SOCKET + SERVER_BYTES_A_SOCKET;
    if wish.has_both_ends {
        each += KERNEL_BYTES_A_SOCKET + USER_BYTES_A_SOCKET;
    }
    let needed = wish.sockets * each;
    let now = snapshot.memory_available_bytes;
    Finding {
        unit: "bytes",
        reason: "idle sockets alone take this, kernel and server together",
        raise: "more memory in the machine, or less of it in other hands".into(),
        ..finding("memory that is available", now, needed, &|now| now / each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: Wish = Wish { sockets: 1_000_000, has_both_ends: false };
    const BOTH: Wish = Wish { sockets: 1_000_000, has_both_ends: true };

    fn in_the_way(snapshot: &Snapshot, wish: &Wish) -> Vec<(&'static str, u64)> {
        let findings = judge(snapshot, wish);
        let found = findings.iter().filter(|finding| finding.is_in_the_way());
        found.map(|finding| (finding.name, finding.holds.unwrap())).collect()
    }

    #[test]
    fn a_roomy_machine_has_nothing_in_the_way() {
        assert_eq!(in_the_way(&Snapshot::roomy(), &MILLION), []);
        assert_eq!(in_the_way(&Snapshot::roomy(), &BOTH), []);
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
                "memory that is available",
                100_000,
            ),
        ];
        for (snapshot, name, holds) in cases {
            assert_eq!(in_the_way(&snapshot, &MILLION), [(name, holds)]);
        }
    }

    #[test]
    fn both_ends_on_one_machine_take_twice_the_kernel() {
        let tight = Snapshot { memory_available_bytes: Some(8_000_000_000), ..Snapshot::roomy() };
        assert_eq!(in_the_way(&tight, &MILLION), []);
        assert_eq!(in_the_way(&tight, &BOTH), [("memory that is available", 919_540)]);
    }

    #[test]
    fn what_only_slows_down_is_told_but_not_in_the_way() {
        let snapshot =
            Snapshot { somaxconn: Some(128), tcp_buckets: Some(262_144), ..Snapshot::roomy() };
        assert_eq!(in_the_way(&snapshot, &BOTH), []);
        let findings = judge(&snapshot, &BOTH);
        let slow = findings.iter().filter(|finding| finding.holds.unwrap() < BOTH.sockets);
        let slow: Vec<_> = slow.map(|finding| finding.raise.as_str()).collect();
        assert_eq!(
            slow,
            [
                "[sources] addresses = [\"127.0.1.1-127.0.1.16\"]   # in the scenario",
                "sysctl -w net.core.somaxconn=4096",
                "thash_entries=2097152   # on the kernel's command line, then boot",
            ]
        );
    }

    #[test]
    fn what_the_machine_does_not_tell_is_unknown_and_nothing_overflows() {
        assert_eq!(in_the_way(&Snapshot::default(), &MILLION), []);
        let most = Wish { sockets: 1_000_000_000, has_both_ends: true };
        assert!(judge(&Snapshot::roomy(), &most).iter().any(Finding::is_in_the_way));
        let none = Snapshot { file_max: Some(0), files_hard: Some(0), ..Snapshot::roomy() };
        assert!(in_the_way(&none, &MILLION).contains(&("fs.file-max", 0)));
    }
}
