//! The CPU time that other programs of this machine used during a run, or during a whole benchmark.
//!
//! Without it, a run beside a compiler looks like a slow program. When the compiler takes one of two processors, a
//! transfer that is bound by its CPU takes nearly twice as long, and nothing in the results says why.
//!
//! The kernel counts the busy time of all processors in `/proc/stat`. This process and its descendants used a part of it,
//! and the rest is noise. A process that has ended is in the counters of the process that waited
//! for it. So the sum over this process and its living descendants, each with its ended children, counts every process
//! of the run once. Processors that the hypervisor gave to other machines (steal) are noise too.
//!
//! Example: in 10 s on two processors, 14 s are busy, and the nodes used 8 s. The noise is (14 - 8) / 20 = 30 %.
//!
//! The bound: two passes over `/proc` for each run, before the clock starts and after it stopped. Counters are
//! whole ticks of 10 ms, so the noise of a run of 1 s is right to about 1 %. A run below 0.2 s has no noise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use std::{fs, io};

/// A shorter run has too few ticks.
const TICKS_MIN: u64 = 20;
const RUN_MIN: Duration = Duration::from_millis(200);

/// The CPU time of the machine and of this process with its descendants, since the start.
pub struct OtherPrograms {
    before: Counters,
    started_at: Instant,
}

/// Counters in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    /// Of all processors, idle or not.
    all: u64,
    busy: u64,
    own: u64,
}

impl OtherPrograms {
    pub fn start() -> io::Result<OtherPrograms> {
        Ok(OtherPrograms { before: Counters::read()?, started_at: Instant::now() })
    }

    /// The share of the machine's CPU time that other programs used since the start, from 0 to 1.
    pub fn share(&self) -> io::Result<f64> {
        Ok(self.before.share_until(&Counters::read()?))
    }

    /// The same for one run; `None` after less than a fifth of a second.
    pub fn share_of_run(&self) -> Option<f64> {
        let after = Counters::read().ok()?;
        let has_passed = after.all.saturating_sub(self.before.all) >= TICKS_MIN;
        (has_passed && self.started_at.elapsed() >= RUN_MIN)
            .then(|| self.before.share_until(&after))
    }
}

impl Counters {
    fn read() -> io::Result<Counters> {
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "/proc/stat has no counters");
        let (all, busy) = machine(&fs::read_to_string("/proc/stat")?).ok_or_else(unknown)?;
        let processes = fs::read_dir("/proc")?.filter_map(|entry| {
            let entry = entry.ok()?;
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            // A process that ended meanwhile is in the counters of its parent.
            process(id, &fs::read_to_string(entry.path().join("stat")).ok()?)
        });
        Ok(Counters { all, busy, own: of_descendants(std::process::id(), processes) })
    }

    /// The share of other programs between these counters and later ones.
    fn share_until(&self, later: &Counters) -> f64 {
        let all = later.all.saturating_sub(self.all).max(1);
        let busy = later.busy.saturating_sub(self.busy);
        let own = later.own.saturating_sub(self.own);
        (busy.saturating_sub(own) as f64 / all as f64).min(1.0)
    }
}

/// The ticks of all processors in `/proc/stat`: all, and those in which they were busy.
fn machine(stat: &str) -> Option<(u64, u64)> {
    // user, nice, system, idle, iowait, irq, softirq, steal. Guests are in user and nice.
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> =
        line.split_whitespace().take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let all: u64 = ticks.iter().sum();
    Some((all, all - ticks.get(3)? - ticks.get(4)?))
}

/// A process, its parent, and its ticks.
fn process(id: u32, stat: &str) -> Option<(u32, u32, u64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
    Some((id, parent, cpu_ticks(stat)?))
}

/// User and system time of a process and of its ended children, in `/proc/PID/stat`.
pub(crate) fn cpu_ticks(stat: &str) -> Option<u64> {
    // After the name in brackets and the state, utime is the 11th, with stime, cutime and cstime.
    let (_, rest) = stat.rsplit_once(") ")?;
    let words: Vec<&str> = rest.split_whitespace().skip(11).take(4).collect();
    let ticks = words.iter().map(|word| word.parse::<u64>().ok()).sum::<Option<u64>>()?;
    (words.len() == 4).then_some(ticks)
}

/// The ticks of a process and of all that descend from it.
fn of_descendants(first: u32, processes: impl Iterator<Item = (u32, u32, u64)>) -> u64 {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut ticks = BTreeMap::new();
    for (id, parent, own) in processes {
        children.entry(parent).or_default().push(id);
        ticks.insert(id, own);
    }
    let (mut waiting, mut seen, mut sum) = (vec![first], BTreeSet::new(), 0);
    while let Some(id) = waiting.pop() {
        // The table is not read at one time, so it can have a cycle.
        if seen.insert(id) {
            sum += ticks.get(&id).copied().unwrap_or(0);
            waiting.extend(children.get(&id).into_iter().flatten());
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_the_kernel_are_read() {
        let stat = "cpu  100 10 50 800 30 5 5 20 7 0\ncpu0 1 2 3\n";
        assert_eq!(machine(stat), Some((1020, 190)));
        assert_eq!(machine("cpu  100 x"), None);
        let stat = "12 (a) b) S 7 2 3 4 5 6 7 8 9 10 150 50 7 3 20 0";
        assert_eq!(process(12, stat), Some((12, 7, 210)));
    }

    #[test]
    fn only_the_processes_of_the_run_are_its_own() {
        let table = [(1, 0, 1000), (10, 1, 5), (11, 10, 6), (12, 11, 7), (13, 1, 100), (14, 14, 9)];
        assert_eq!(of_descendants(10, table.into_iter()), 18);
        let cycle = [(10, 11, 5), (11, 10, 6)];
        assert_eq!(of_descendants(10, cycle.into_iter()), 11);
    }

    #[test]
    fn this_machine_tells_its_counters() {
        let counters = Counters::read().unwrap();
        assert!(counters.all >= counters.busy && counters.busy >= counters.own, "{counters:?}");
        let others = OtherPrograms::start().unwrap();
        assert!((0.0..=1.0).contains(&others.share().unwrap()));
        assert_eq!(others.share_of_run(), None, "no time has passed");
    }
}
