//! The machine on which programs are measured: what it is, how busy others keep it, and which commit is measured.

mod other_programs;

use std::fs;
use std::io;
use std::process::Command;
use std::thread;
use std::time::SystemTime;

use serde::Serialize;

pub use other_programs::OtherPrograms;
pub(crate) use other_programs::cpu_ticks;

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
        let value = |name: &str| {
            let named = cpus.lines().filter_map(|line| line.split_once(':'));
            let mut values = named.filter(|(key, _)| key.trim_end() == name);
            values.next().map_or("unknown", |(_, value)| value.trim())
        };
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        Ok(Machine {
            cores: thread::available_parallelism()?.get(),
            // A virtual machine often tells the maker alone, and each family has its own mitigations.
            processor: format!("{}, family {}", value("model name"), value("cpu family")),
            memory_bytes: meminfo("MemTotal:")?,
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

/// The bytes in a line of `/proc/meminfo`.
pub fn meminfo(name: &str) -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = rest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let kibibytes = kibibytes.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("/proc/meminfo has no {name}"))
    })?;
    Ok(kibibytes * 1024)
}

/// Today's date in UTC, such as `2026-11-24`.
pub fn today() -> String {
    let mut today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    today.truncate("2026-11-24".len());
    today
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
