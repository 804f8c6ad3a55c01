//! The guard: a small shell script that runs on a host as long as the lab is connected.
//!
//! **Without it**, a lab that is killed, or a network that breaks, leaves nodes running on machines that nobody
//! looks at, with a copy of each program and object. A killed lab cannot clean up, and neither can one that has
//! no connection. So each host cleans up for itself.
//!
//! The guard is the first command of a connection. It makes a folder for all that the lab copies, prints its
//! name, and reads its standard input. Every node on the host has the folder's name in the variable [`MARK`]
//! of its environment, and so have its own children. When the input ends, the guard sends TERM to every process with
//! the mark, KILL a second later to those that are left, and removes the folder.
//!
//! The input ends when the lab closes it, when the lab is killed (its end of the pipe closes, `ssh` tells the
//! host), and when `ssh` or the host's `sshd` ends. A network that drops every packet ends nothing: for an hour
//! or two, the host's kernel believes in the connection. So the lab writes a line every [`BEAT`], and a second process
//! of the guard does the same as the first when a whole minute passed without a line. With a line just after the begin
//! of a minute, that is noticed at the end of the next one: nodes of a lost lab run on for two minutes at most.
//!
//! The guard needs a POSIX shell, `mktemp`, `grep` and Linux's `/proc`.

use std::time::Duration;

/// The variable that every process of the lab on a host has, with the lab's folder there.
pub const MARK: &str = "LAB_FOLDER_OF_WATCHFIRE";
/// The interval in which the lab tells that it is there.
pub const BEAT: Duration = Duration::from_secs(5);
/// How the first line of the guard begins; the machine and the folder follow.
pub const GREETING: &str = "watchfire-lab";

/// The script. A login shell can print lines before its first one.
pub fn script() -> String {
    with_pause("5")
}

/// The script that looks for lines of the lab after each twelve pauses, in seconds.
fn with_pause(pause: &str) -> String {
    format!(
        r#"umask 077
folder=$(mktemp -d "${{TMPDIR:-/tmp}}/watchfire-lab.XXXXXX") || exit 1
trap '' HUP INT TERM PIPE
clean() {{
  for signal in TERM KILL; do
    processes=$(grep -lF "{MARK}=$folder" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3)
    [ -n "$processes" ] || break
    kill -$signal $processes 2>/dev/null
    sleep 1
  done
  rm -rf "$folder" || {{ sleep 1; rm -rf "$folder"; }}
}}
beats() {{ cat "$folder/beats" 2>/dev/null | wc -c; }}
{{
  while :; do
    before=$(beats)
    for second in 1 2 3 4 5 6 7 8 9 10 11 12; do
      sleep {pause}
      [ -d "$folder" ] || exit 0
    done
    [ "$(beats)" -gt "$before" ] || {{ clean; kill -KILL $$; exit 0; }}
  done
}} </dev/null >/dev/null 2>&1 &
echo "{GREETING} $(uname -m) $folder"
while read -r beat; do echo >> "$folder/beats"; done
clean
"#,
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A guard, the folder that it made, and a process with its mark.
    fn guard(pause: &str) -> (Child, PathBuf, Child) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &with_pause(pause)]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(guard.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let folder = line.trim_end().rsplit(' ').next().unwrap().to_owned();
        assert!(line.starts_with("watchfire-lab ") && PathBuf::from(&folder).is_dir(), "{line}");
        let node = Command::new("sleep").arg("600").env(MARK, &folder).spawn().unwrap();
        (guard, folder.into(), node)
    }

    #[test]
    fn a_guard_ends_its_processes_when_its_input_ends() {
        let (mut guard, folder, mut node) = guard("5");
        drop(guard.stdin.take());
        assert!(!node.wait().unwrap().success());
        guard.wait().unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn a_guard_ends_its_processes_when_the_lab_is_silent() {
        let (mut guard, folder, mut node) = guard("0.01");
        let _silent = guard.stdin.take();
        assert!(!node.wait().unwrap().success());
        guard.wait().unwrap();
        assert!(!folder.exists());
    }
}
