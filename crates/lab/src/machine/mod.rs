//! The machine on which programs are measured: what it is, how busy others keep it, and which commit is measured.

mod other_programs;

use std::fs;
use std::io;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

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
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        Ok(Machine {
            cores: thread::available_parallelism()?.get(),
            processor: model.map_or("unknown", |m| m.trim_start_matches([' ', '\t', ':'])).into(),
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
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let (year, month, day) = date_of(since.map_or(0, |since| since.as_secs() / 86_400));
    format!("{year}-{month:02}-{day:02}")
}

/// The date of a day since 1970. Years begin in March here, so that a leap day ends its year.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since the first of March of the year 0
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, years) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + years, month, of_month)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_since_1970_are_converted_to_dates() {
        assert_eq!(date_of(0), (1970, 1, 1));
        assert_eq!(date_of(11_016), (2000, 2, 29));
        assert_eq!(date_of(20_778), (2026, 11, 21));
    }
}
