//! Other processes.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program. Another process writes it: a child that another thread starts in the meantime would inherit the
/// open file, and the system runs no file that is open for writing.
#[track_caller]
pub fn write_program(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let mut install = Command::new("install");
    install.args(["-D", "-m", "755", "/dev/stdin"]).arg(path.as_ref()).stdin(Stdio::piped());
    let mut install = install.spawn().expect("there is `install`");
    let mut input = install.stdin.take().expect("it is a pipe");
    input.write_all(content.as_ref()).expect("`install` reads");
    drop(input);
    let installed = install.wait().expect("it can be waited for");
    assert!(installed.success(), "{}", path.as_ref().display());
}

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
