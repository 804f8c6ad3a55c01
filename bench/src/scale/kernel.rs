//! What the kernel keeps for sockets, and what it does on nobody's report.

use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process::{Watched, kibibytes};

/// Memory of the whole machine at a moment, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MachineMemory {
    /// What the kernel cannot give back, with the inodes and names of open sockets: these count as
    /// reclaimable, though nothing can reclaim them.
    pub pinned: u64,
    pub slab: u64,
    pub available: u64,
}

impl MachineMemory {
    pub fn look() -> Result<Self> {
        let memory = fs::read_to_string("/proc/meminfo")?;
        // Only root may read it.
        let slabs = fs::read_to_string("/proc/slabinfo").unwrap_or_default();
        Ok(MachineMemory {
            pinned: kibibytes(&memory, "SUnreclaim:")? * 1024 + sockets_in(&slabs),
            slab: kibibytes(&memory, "Slab:")? * 1024,
            available: kibibytes(&memory, "MemAvailable:")? * 1024,
        })
    }
}

/// Bytes of sockets' inodes and names, one of each for a socket.
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

/// Proportional set size of processes together: pages they share count once.
pub fn pss(processes: &[u32]) -> Result<u64> {
    let mut bytes = 0;
    for id in processes {
        let path = format!("/proc/{id}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| path)?;
        bytes += kibibytes(&text, "Pss:")? * 1024;
    }
    Ok(bytes)
}

/// CPU time at a moment; the difference of two is what was used between them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cpu {
    pub server: Duration,
    pub clients: Duration,
    pub ksoftirqd: Duration,
}

impl Cpu {
    pub fn look(server: &[u32], clients: &[u32], daemons: &[u32]) -> Result<Self> {
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

    /// Without a load that goes on beside what is measured: `idle` is what it used in so long.
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

/// The kernel's threads that do network work which nobody's time could be taken for.
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
    word.and_then(|word| word.parse().ok()).context("/proc/net/sockstat has another format")
}

/// TCP segments that this network namespace has received, acknowledgements among them.
pub fn tcp_segments() -> Result<u64> {
    segments_in(&fs::read_to_string("/proc/self/net/snmp")?)
        .context("/proc/net/snmp has another format")
}

/// The file has a line of names and below it one of numbers.
fn segments_in(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let mut names = lines.next()?.split(' ');
    lines.next()?.split(' ').nth(names.position(|name| name == "InSegs")?)?.parse().ok()
}

/// The processes below one, itself first.
pub fn family(of: u32) -> Vec<u32> {
    let mut family = vec![of];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            // A thread may have ended meanwhile; its children then belong to another one.
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_an_inode_and_a_name() {
        let text = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> …\n\
                    sock_inode_cache 100 110 832 14 8 : tunables 0 0 0\n\
                    dentry 5000 5000 192 21 1 : tunables 0\n";
        assert_eq!(sockets_in(text), 100 * (832 + 192));
        assert_eq!(sockets_in(""), 0);
    }

    #[test]
    fn segments_are_counted_by_their_name() {
        let text = "Ip: InReceives\nIp: 9\nTcp: MaxConn InSegs OutSegs\nTcp: -1 12 13\n";
        assert_eq!(segments_in(text), Some(12));
        assert_eq!(segments_in("Tcp: MaxConn\nTcp: -1\n"), None);
        assert!(tcp_segments().is_ok());
    }

    #[test]
    fn a_child_belongs_to_the_family() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let family = family(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(family.contains(&child.id()), "{family:?} is without {}", child.id());
    }

    #[test]
    fn the_machine_has_memory() {
        assert!(MachineMemory::look().unwrap().available > 0);
        assert!(pss(&[std::process::id()]).unwrap() > 0);
    }
}
