//! No program outlives its network.
//!
//! A program that a peer runs holds its namespace, so namespaces vanish when the programs end. Three things end them:
//!
//! - [`Watchdog`], a shell in a process group of its own. It reads the names of the namespaces from a pipe until the pipe
//!   closes, which happens when [`crate::Wire`] is dropped and when its process dies, even by SIGKILL. Then the shell
//!   kills every process that is in one of the namespaces, and looks again until there is none. So it also finds
//!   children of the programs, and programs that have become daemons.
//! - [`remove_leftovers`] is for the case that somebody killed the watchdog too. Each program has the network's id in its
//!   environment: the process id of the program that made the network, the time at which that started, and the PID
//!   namespace that counts it so. The next start of a network kills all programs whose maker no longer runs. The time
//!   tells a process apart from a later one with the same id, and programs of another PID namespace (a container's) are
//!   left alone, because their makers cannot be seen.
//! - The end of the machine.

use rustix::process::{Pid, Signal, kill_process};
use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The environment variable that names a program's network. Its name does not begin with WATCHFIRE_: the server reads
/// those as settings.
pub(crate) const NETWORK_VARIABLE: &str = "WIRE_OF_WATCHFIRE";

const SCRIPT: &str = r#"
names=
while read -r name; do names="$names $name"; done
rounds=0
while [ "$rounds" -lt 200 ]; do
  found=$(ls -l /proc/[0-9]*/ns/net 2>/dev/null | while read -r line; do
    case "$names " in *" ${line##* } "*) pid=${line##*/proc/}; echo "${pid%%/*}";; esac
  done)
  [ -n "$found" ] || exit 0
  kill -9 $found 2>/dev/null
  rounds=$((rounds + 1))
done
exit 1
"#;

/// Ends all programs of a network when its maker ends.
pub(crate) struct Watchdog {
    shell: Child,
    names: Option<ChildStdin>,
}

impl Watchdog {
    pub fn start() -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SCRIPT]).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
        // Not in the terminal's foreground group: Ctrl-C must not end it before its work.
        let mut shell = shell.stderr(Stdio::null()).process_group(0).spawn()?;
        let names = shell.stdin.take();
        Ok(Watchdog { shell, names })
    }

    /// Programs in the namespace of this name end with the network.
    pub fn watch(&mut self, namespace: &str) -> io::Result<()> {
        let names = self.names.as_mut().expect("the pipe is open until the network ends");
        writeln!(names, "{namespace}")
    }
}

impl Drop for Watchdog {
    /// Ends all programs, and waits until they have ended.
    fn drop(&mut self) {
        drop(self.names.take());
        let _ = self.shell.wait();
    }
}

/// The id of networks that this process makes.
pub(crate) fn own_id() -> io::Result<String> {
    Maker::own().map(|Maker { pid, started, namespace }| format!("{pid}-{started}-{namespace}"))
}

/// Kills the programs of networks whose makers no longer run; how many.
pub fn remove_leftovers() -> io::Result<usize> {
    let own = Maker::own()?;
    let mut killed = 0;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        // Processes of other users, and those that have just ended, cannot be read.
        let Ok(environment) = fs::read(Path::new("/proc").join(&name).join("environ")) else {
            continue;
        };
        let maker = Maker::of(&environment);
        let has_ended = maker.is_some_and(|maker| maker.has_ended(&own));
        if has_ended && kill_process(pid, Signal::KILL).is_ok() {
            killed += 1;
        }
    }
    Ok(killed)
}

/// The process that made a network.
struct Maker<'a> {
    pid: Cow<'a, str>,
    /// When it started, in ticks since the machine did.
    started: Cow<'a, str>,
    /// The PID namespace.
    namespace: Cow<'a, str>,
}

impl Maker<'_> {
    fn own() -> io::Result<Maker<'static>> {
        let pid = std::process::id().to_string();
        let started =
            started_at(&pid).ok_or_else(|| io::Error::other("cannot read /proc/self/stat"))?;
        let namespace = fs::metadata("/proc/self/ns/pid")?.ino().to_string();
        Ok(Maker { pid: pid.into(), started: started.into(), namespace: namespace.into() })
    }

    /// The maker of the network that a program with this environment belongs to.
    fn of(environment: &[u8]) -> Option<Maker<'_>> {
        let mut variables = environment.split(|byte| *byte == 0);
        let prefix = format!("{NETWORK_VARIABLE}=");
        let id = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
        let (pid, rest) = std::str::from_utf8(id).ok()?.split_once('-')?;
        let (started, namespace) = rest.split_once('-')?;
        Some(Maker { pid: pid.into(), started: started.into(), namespace: namespace.into() })
    }

    fn has_ended(&self, own: &Maker<'_>) -> bool {
        self.namespace == own.namespace && started_at(&self.pid).is_none_or(|at| at != self.started)
    }
}

/// When a process started.
fn started_at(pid: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may have spaces and parentheses. The start is the 22nd.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maker_is_a_process_with_its_start_in_its_namespace() {
        let own = Maker::own().unwrap();
        let has_ended = |id: &str| {
            let environment = format!("HOME=/\0{NETWORK_VARIABLE}={id}\0TERM=dumb\0");
            Maker::of(environment.as_bytes()).unwrap().has_ended(&own)
        };
        let Maker { pid, started, namespace } = &own;
        assert!(!has_ended(&own_id().unwrap()));
        assert!(
            has_ended(&format!("{pid}-{started}0-{namespace}")),
            "a later process with the same id"
        );
        assert!(
            !has_ended(&format!("{pid}-{started}0-{namespace}0")),
            "a container's maker is not seen"
        );
        assert!(Maker::of(b"HOME=/\0WIRE_OF_WATCHFIRES=1-2-3\0").is_none());
    }
}
