//! Memory of the kernel for sockets, and CPU time of the kernel's own threads.

use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process::{Watched, kibibytes};

/// Memory of the whole machine at a moment, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MachineMemory {
    /// Unreclaimable memory, with the inodes and dentries of open sockets. The kernel counts those
    /// as reclaimable, although it cannot reclaim them.
    pub pinned: u64,
    pub slab: u64,
    pub available: u64,
}

impl MachineMemory {
    pub fn read() -> Result<Self> {
        let memory = fs::read_to_string("/proc/meminfo")?;
        // Readable only by root.
        let slabs = fs::read_to_string("/proc/slabinfo").unwrap_or_default();
        Ok(MachineMemory {
            pinned: kibibytes(&memory, "SUnreclaim:")? * 1024 + sockets_in(&slabs),
            slab: kibibytes(&memory, "Slab:")? * 1024,
            available: kibibytes(&memory, "MemAvailable:")? * 1024,
        })
    }
}

/// Bytes of the inodes and dentries of sockets: one of each per socket.
fn sockets_in(slabinfo: &str) -> u64 {
    let cache = |name: &str| -> Option<(u64, u64)> {
        let mut lines = slabinfo.lines().map(str::split_whitespace);
        let mut words = lines.find_map(|mut words| (words.next()? == name).then_some(words))?;
        Some((words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?))
    };
    let (sockets, inode_bytes) = cache("sock_inode_cache").unwrap_or_default();
    let (_, name_bytes) = cache("dentry").unwrap_or_default();
    sockets * (inode_bytes + name_bytes)
}

/// Proportional set size of several processes: pages that they share count once.
pub fn pss(processes: &[u32]) -> Result<u64> {
    let mut bytes = 0;
    for id in processes {
        let path = format!("/proc/{id}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| path)?;
        bytes += kibibytes(&text, "Pss:")? * 1024;
    }
    Ok(bytes)
}

/// CPU time at a moment; the difference between two is the time used between them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cpu {
    pub server: Duration,
    pub clients: Duration,
    pub ksoftirqd: Duration,
}

impl Cpu {
    pub fn read(server: &[u32], clients: &[u32], daemons: &[u32]) -> Result<Self> {
        let sum = |processes: &[u32]| -> io::Result<Duration> {
            processes.iter().map(|id| Watched::new(*id).cpu()).sum()
        };
        Ok(Cpu { server: sum(server)?, clients: sum(clients)?, ksoftirqd: sum(daemons)? })
    }

    pub fn since(self, before: Cpu) -> Cpu {
        Cpu {
            server: self.server.saturating_sub(before.server),
            clients: self.clients.saturating_sub(before.clients),
            ksoftirqd: self.ksoftirqd.saturating_sub(before.ksoftirqd),
        }
    }

    pub fn all(self) -> Duration {
        self.server + self.clients + self.ksoftirqd
    }

    /// Subtracts a background load, which used `idle` during `idle_lasted`.
    pub fn without(self, idle: Cpu, idle_lasted: Duration, lasted: Duration) -> Cpu {
        let factor = lasted.as_secs_f64() / idle_lasted.as_secs_f64().max(f64::MIN_POSITIVE);
        let share = |part: Duration| part.mul_f64(factor);
        self.since(Cpu {
            server: share(idle.server),
            clients: share(idle.clients),
            ksoftirqd: share(idle.ksoftirqd),
        })
    }
}

/// The kernel threads `ksoftirqd`, which do network work that is not charged to a process.
pub fn softirq_daemons() -> Result<Vec<u32>> {
    let mut daemons = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let comm = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        if comm.starts_with("ksoftirqd/") {
            daemons.push(id);
        }
    }
    Ok(daemons)
}

/// TCP sockets of this network namespace in use, both ends of loopback connections among them.
pub fn tcp_sockets() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/net/sockstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("TCP: inuse "));
    let word = line.and_then(|rest| rest.split(' ').next());
    word.and_then(|word| word.parse().ok()).context("/proc/net/sockstat has an unexpected format")
}

/// TCP segments that this network namespace has received, acknowledgements among them.
pub fn tcp_segments() -> Result<u64> {
    segments_in(&fs::read_to_string("/proc/self/net/snmp")?)
        .context("/proc/net/snmp has an unexpected format")
}

/// The file has a line of names, followed by a line of numbers.
fn segments_in(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let mut names = lines.next()?.split(' ');
    lines.next()?.split(' ').nth(names.position(|name| name == "InSegs")?)?.parse().ok()
}

/// A process and its descendants; the process is first.
pub fn process_tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            // A thread may have ended meanwhile; its children then belong to another thread.
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            tree.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_sockets_is_that_of_inodes_and_dentries() {
        let text = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> …\n\
                    sock_inode_cache 100 110 832 14 8 : tunables 0 0 0\n\
                    dentry 5000 5000 192 21 1 : tunables 0\n";
        assert_eq!(sockets_in(text), 100 * (832 + 192));
        assert_eq!(sockets_in(""), 0);
    }

    #[test]
    fn received_segments_are_found_by_name() {
        let text = "Ip: InReceives\nIp: 9\nTcp: MaxConn InSegs OutSegs\nTcp: -1 12 13\n";
        assert_eq!(segments_in(text), Some(12));
        assert_eq!(segments_in("Tcp: MaxConn\nTcp: -1\n"), None);
        assert!(tcp_segments().is_ok());
    }

    #[test]
    fn a_process_tree_contains_the_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = process_tree(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(tree.contains(&child.id()), "{tree:?} is without {}", child.id());
    }

    #[test]
    fn memory_of_the_machine_is_read() {
        assert!(MachineMemory::read().unwrap().available > 0);
        assert!(pss(&[std::process::id()]).unwrap() > 0);
    }
}
