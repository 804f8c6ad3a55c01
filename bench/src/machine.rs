use std::fs;
use std::io;
use std::process::Command;
use std::thread;

use serde::Serialize;

use crate::process::kibibytes;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Runnable tasks over the last minute when the run began.
    pub load_before: f64,
}

impl Machine {
    pub fn read() -> io::Result<Self> {
        let cpus = fs::read_to_string("/proc/cpuinfo")?;
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        Ok(Machine {
            cores: thread::available_parallelism()?.get(),
            processor: model.map_or("unknown", |m| m.trim_start_matches([' ', '\t', ':'])).into(),
            memory_bytes: kibibytes(&fs::read_to_string("/proc/meminfo")?, "MemTotal:")? * 1024,
            kernel: release.trim().split('-').next().unwrap_or_default().into(),
            load_before: load_average(),
        })
    }

    /// Describes the machine in one line.
    pub fn sentence(&self) -> String {
        format!(
            "{} cores ({}), {:.1} GiB of memory, Linux {}, load {:.1} before the run",
            self.cores,
            self.processor,
            self.memory_bytes as f64 / f64::from(1 << 30),
            self.kernel,
            self.load_before
        )
    }
}

/// Runnable tasks over the last minute; 0 if the system does not report it.
pub fn load_average() -> f64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// The commit of the working folder, such as `3f2a1b0c`, and whether files outside of `docs` differ
/// from it. Results of an earlier benchmark are not a change of the code.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        // The run may belong to root, and the folder to another user.
        let output = Command::new("git").args(["-c", "safe.directory=*"]).args(arguments).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=8", "HEAD"]) else { return "unknown".into() };
    match git(&["status", "--porcelain", "--untracked-files=no", "--", ":(top,exclude)docs"]) {
        Some(changes) if !changes.is_empty() => format!("{commit} with local changes"),
        _ => commit,
    }
}

/// Measures how much of the machine other programs use during a run.
pub struct OtherPrograms {
    before: Ticks,
}

/// Clock ticks since the machine started.
struct Ticks {
    all: u64,
    /// Used by all programs; without interrupts, which belong to no program.
    programs: u64,
    /// Used by this program and its children that have ended.
    ours: u64,
}

impl OtherPrograms {
    pub fn start() -> io::Result<Self> {
        Ok(OtherPrograms { before: Ticks::now()? })
    }

    /// The share of all cores that other programs used since the start, from 0 to 1. Call it after
    /// all children have ended.
    pub fn share(&self) -> io::Result<f64> {
        let now = Ticks::now()?;
        let ours = now.ours - self.before.ours;
        let others = (now.programs - self.before.programs).saturating_sub(ours);
        Ok(others as f64 / (now.all - self.before.all).max(1) as f64)
    }
}

impl Ticks {
    fn now() -> io::Result<Self> {
        let machine = fs::read_to_string("/proc/stat")?;
        let own = fs::read_to_string("/proc/self/stat")?;
        let numbers = |text: &str| -> Vec<u64> {
            text.split_whitespace().map_while(|word| word.parse().ok()).collect()
        };
        // user nice system idle iowait irq softirq steal
        let all = numbers(machine.lines().next().unwrap_or_default().trim_start_matches("cpu"));
        // After the name in brackets and the state, utime is the 11th, with stime cutime cstime.
        let own = own.rsplit(") ").next().and_then(|rest| rest.get(2..)).unwrap_or_default();
        let own: Vec<i64> =
            own.split_whitespace().map_while(|word| word.parse().ok()).skip(10).take(4).collect();
        Ok(Ticks {
            all: all.iter().take(8).sum(),
            programs: all.iter().take(3).sum(),
            ours: own.iter().sum::<i64>().unsigned_abs(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_other_programs_is_between_0_and_1() {
        let share = OtherPrograms::start().unwrap().share().unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
