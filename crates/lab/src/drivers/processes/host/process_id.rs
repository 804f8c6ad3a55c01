//! A process, also after its number was given to another one.

use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::process_tree::{PEAK, Usage, cpu, memory};

/// The number of a process, and when it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pid: u32,
    /// When it started, in ticks since the boot.
    started: u64,
    boot: String,
}

impl ProcessId {
    pub fn of(pid: u32) -> io::Result<ProcessId> {
        let started = started(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(ProcessId { pid, started, boot: boot()? })
    }

    pub fn is_running(&self) -> bool {
        started(self.pid) == Some(self.started) && boot().is_ok_and(|boot| boot == self.boot)
    }

    /// CPU time and peak memory, and the memory that it uses now. `None` if it has ended.
    pub fn usage(&self) -> Option<(Usage, u64)> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.pid)).ok();
        let (status, stat) = (read("status")?, read("stat")?);
        let usage = Usage { cpu: cpu(&stat)?, peak_memory: memory(&status, PEAK)? };
        let memory = memory(&status, "VmRSS:")?;
        self.is_running().then_some((usage, memory))
    }

    /// Lets its peak memory begin again at the memory that it uses now.
    pub fn reset_peak_memory(&self) {
        if self.is_running() {
            let _ = fs::write(format!("/proc/{}/clear_refs", self.pid), "5");
        }
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid.cast_signed());
        let opened = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The descriptor was opened before the check, so it is that of the process that is checked.
        if let Some(descriptor) = opened.filter(|_| self.is_running()) {
            let _ = pidfd_send_signal(descriptor, signal);
        }
    }
}

/// When a process started; `None` if it has ended, also when nobody has waited for it.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split_whitespace();
    if matches!(words.next()?, "Z" | "X") {
        return None;
    }
    words.nth(18)?.parse().ok()
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_known_until_it_ends_and_not_after() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        assert!(id.is_running() && id.usage().unwrap().1 > 0);
        let earlier = ProcessId { started: id.started - 1, ..id.clone() };
        assert!(!earlier.is_running() && earlier.usage().is_none());
        earlier.signal(Signal::KILL);
        assert!(id.is_running(), "a process with the number of an earlier one gets no signal");
        id.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!id.is_running() && id.usage().is_none());
        let before_boot = ProcessId { boot: "another".to_owned(), ..id };
        assert!(!before_boot.is_running());
    }
}
