//! Other processes.

use std::fs;
use std::process::Command;

/// Sends a signal to a process, such as `-TERM`.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.expect("there is a `kill`").success(), "{name} to {pid}");
}

/// Whether a process runs. One that ended, but that its parent has not noticed, does not.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
