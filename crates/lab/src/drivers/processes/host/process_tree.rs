//! A process with all that descend from it: their CPU time and their memory.
//!
//! A server of many processes has a supervisor, whose own CPU time is next to nothing. So the figures of a server are
//! those of its whole tree.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::machine::{cpu_ticks, meminfo};

/// The CPU time of a tick in `/proc/PID/stat`, which Linux fixes for programs.
const TICK: Duration = Duration::from_millis(10);
/// The name of the peak resident memory in `/proc/PID/status`.
pub const PEAK: &str = "VmHWM:";

/// CPU time and peak memory of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    pub peak_memory: u64,
}

impl Usage {
    /// Raises both to those of another reading.
    pub fn raise_to(&mut self, other: Usage) {
        self.cpu = self.cpu.max(other.cpu);
        self.peak_memory = self.peak_memory.max(other.peak_memory);
    }

    /// Adds another program of the same kind: CPU times add up, and the largest peak counts.
    pub fn add(&mut self, other: Usage) {
        self.cpu += other.cpu;
        self.peak_memory = self.peak_memory.max(other.peak_memory);
    }
}

/// The processes of a tree, the root first.
#[derive(Clone, Debug)]
pub struct ProcessTree(Vec<u32>);

impl ProcessTree {
    /// The processes that descend from one now.
    pub fn of(root: u32) -> ProcessTree {
        let mut tree = vec![root];
        let mut next = 0;
        while let Some(parent) = tree.get(next) {
            let tasks = fs::read_dir(format!("/proc/{parent}/task"));
            next += 1;
            for task in tasks.into_iter().flatten().flatten() {
                // The children of a thread that has ended belong to another thread.
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                tree.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
        }
        ProcessTree(tree)
    }

    /// CPU time of all threads that run, to the nanosecond.
    pub fn cpu(&self) -> Duration {
        // A process or a thread that has ended meanwhile has no time.
        let of_thread = |entry: io::Result<fs::DirEntry>| -> Option<u64> {
            let text = fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        let threads = self.0.iter().flat_map(|id| fs::read_dir(format!("/proc/{id}/task")));
        Duration::from_nanos(threads.flatten().filter_map(of_thread).sum())
    }

    /// Memory of their own, such as heaps and stacks; a page of several processes counts once. The code of the program is
    /// not in it: when the users of a load are the same program, each process has a smaller share of that.
    pub fn memory(&self) -> u64 {
        let of_process = |id: &u32| {
            let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
            memory(&text, "Pss_Anon:").unwrap_or(0)
        };
        self.0.iter().map(of_process).sum()
    }

    /// CPU time, with that of processes that have ended, and memory of the processes below the root. Memory that they share
    /// with it, such as the code of the program, is not counted again.
    pub fn usage_below(&self) -> (Duration, u64) {
        let of_process = |id: &u32| {
            let read = |name| fs::read_to_string(format!("/proc/{id}/{name}")).unwrap_or_default();
            let status = read("status");
            let own = ["RssAnon:", "RssShmem:"].map(|name| memory(&status, name).unwrap_or(0));
            (cpu(&read("stat")).unwrap_or_default(), own.iter().sum())
        };
        let add =
            |(cpu, memory): (Duration, u64), more: (Duration, u64)| (cpu + more.0, memory + more.1);
        self.0[1..].iter().map(of_process).fold((Duration::ZERO, 0), add)
    }

    /// Ends the processes without a chance to say anything, the root first.
    pub fn kill(&self) {
        for id in self.0.iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
            // One that has ended already is no error.
            let _ = kill_process(id, Signal::KILL);
        }
    }

    /// The sum of the peaks of resident memory. The pages of files, such as the program, count once.
    pub fn peak_memory(&self) -> u64 {
        let (mut own, mut of_files) = (0, 0);
        for id in &self.0 {
            let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let of = |name: &str| memory(&text, name).unwrap_or(0);
            let files = of("RssFile:") + of("RssShmem:");
            own += of(PEAK).saturating_sub(files);
            of_files = files.max(of_files);
        }
        own + of_files
    }
}

/// A size in `/proc/PID/status`, such as that after `VmHWM:`.
pub fn memory(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

pub fn cpu(stat: &str) -> Option<Duration> {
    cpu_ticks(stat).map(|ticks| TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
}

/// Memory of the kernel that it cannot give to others, in bytes, with the inodes and names of open sockets. The kernel
/// counts those as reclaimable, although it cannot reclaim them.
pub fn pinned_kernel_memory() -> Option<u64> {
    let unreclaimable = meminfo("SUnreclaim:").ok()?;
    // Only root can read it.
    let slabs = fs::read_to_string("/proc/slabinfo").ok()?;
    Some(unreclaimable + of_sockets(&slabs))
}

/// Bytes of the inodes and names of sockets: one of each for a socket.
fn of_sockets(slabinfo: &str) -> u64 {
    let cache = |name: &str| -> Option<(u64, u64)> {
        let mut lines = slabinfo.lines().map(str::split_whitespace);
        let mut words = lines.find_map(|mut words| (words.next()? == name).then_some(words))?;
        Some((words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?))
    };
    let (sockets, inode_bytes) = cache("sock_inode_cache").unwrap_or_default();
    let (_, name_bytes) = cache("dentry").unwrap_or_default();
    sockets * (inode_bytes + name_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_process_are_read() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 7 3 20 0";
        assert_eq!(cpu(stat), Some(Duration::from_millis(2100)));
        assert_eq!(cpu("12 (a) S 1"), None);
        assert_eq!(memory("Name:\ta\nVmHWM:\t  2048 kB\n", PEAK), Some(2 << 20));
        assert_eq!(memory("", PEAK), None);
    }

    #[test]
    fn memory_of_sockets_is_that_of_inodes_and_names() {
        let text = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> ...\n\
                    sock_inode_cache 100 110 832 14 8 : tunables 0 0 0\n\
                    dentry 5000 5000 192 21 1 : tunables 0\n";
        assert_eq!(of_sockets(text), 100 * (832 + 192));
        assert_eq!(of_sockets(""), 0);
    }

    #[test]
    fn a_tree_has_the_children_and_their_use() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = ProcessTree::of(std::process::id());
        assert!(tree.0.contains(&child.id()), "{tree:?} is without {}", child.id());
        // The memory of this process changes between two readings: other tests run beside this one.
        assert!(ProcessTree(vec![child.id()]).memory() > 0 && tree.memory() > 0);
        assert!(tree.peak_memory() > 0 && tree.cpu() > Duration::ZERO);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessTree(vec![child.id()]).memory(), 0, "it has ended");
    }
}
