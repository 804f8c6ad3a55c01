//! Memory and CPU time of a process, read from `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// All resident pages; the targets use this number.
    pub resident_bytes: u64,
    /// The part that is the process's own: heap, stacks.
    pub anonymous_bytes: u64,
}

/// A process that is observed from outside.
#[derive(Clone, Copy)]
pub struct Watched {
    id: u32,
}

impl Watched {
    pub fn new(id: u32) -> Self {
        Watched { id }
    }

    pub fn memory(self) -> io::Result<Memory> {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.id))?;
        let bytes = |name| kibibytes(&text, name).map(|kib| kib * 1024);
        Ok(Memory { resident_bytes: bytes("Rss:")?, anonymous_bytes: bytes("Anonymous:")? })
    }

    /// CPU time of all its running threads, to the nanosecond.
    pub fn cpu(self) -> io::Result<Duration> {
        let mut nanos = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.id))? {
            match fs::read_to_string(thread?.path().join("schedstat")) {
                Ok(text) => nanos += number(text.split_whitespace().next())?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // thread ended
                Err(error) => return Err(error),
            }
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// CPU time of all its threads and children, including ended ones, in steps of 10 ms. It can be
    /// read after the process has ended, until its parent waits for it.
    pub fn cpu_with_children(self) -> io::Result<Duration> {
        ticks(&fs::read_to_string(format!("/proc/{}/stat", self.id))?)
            .map(|ticks| Duration::from_millis(ticks * 10))
    }

    /// Its peak memory. Fails for a process that has ended.
    pub fn peak_bytes(self) -> io::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.id))?;
        kibibytes(&text, "VmHWM:").map(|kib| kib * 1024)
    }

    /// Whether it has ended. It must be a child of this process, and can still be waited for.
    pub fn has_ended(self) -> io::Result<bool> {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(id), options)?.is_some())
    }

    /// Sends a signal; has no effect if the process has ended.
    pub fn signal(self, signal: Signal) {
        if let Some(id) = i32::try_from(self.id).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, signal);
        }
    }

    /// Number of open files. Kernels before 6.2 report 0.
    pub fn open_files(self) -> io::Result<u64> {
        Ok(fs::metadata(format!("/proc/{}/fd", self.id))?.len())
    }
}

/// CPU time in `/proc/PID/stat`, in hundredths of a second: user and system time of the process and
/// of its children.
fn ticks(stat: &str) -> io::Result<u64> {
    // After the name in brackets and the state, utime is the 11th, with stime cutime cstime.
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let words: Vec<&str> = rest.split_whitespace().skip(11).take(4).collect();
    let numbers = words.iter().map(|word| number(Some(word)));
    if words.len() < 4 { number(None) } else { numbers.sum() }
}

/// The number after `name` in a file of `/proc` whose lines end in `kB`.
pub fn kibibytes(text: &str, name: &str) -> io::Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    number(line.and_then(|rest| rest.split_whitespace().next()))
}

fn number(word: Option<&str>) -> io::Result<u64> {
    let number = word.and_then(|word| word.parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected format in /proc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_cpu_time_of_this_process_are_read() {
        let own = Watched::new(std::process::id());
        let memory = own.memory().unwrap();
        assert!(memory.resident_bytes > memory.anonymous_bytes && memory.anonymous_bytes > 0);
        assert!(own.cpu().unwrap() > Duration::ZERO);
        assert!(own.peak_bytes().unwrap() >= memory.resident_bytes);
    }

    #[test]
    fn cpu_time_includes_children() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 90 80 0 0 100 20 3 4 20 0 1 0 5 1 1";
        assert_eq!(ticks(stat).unwrap(), 127);
        assert!(ticks("7 (a) S 1").is_err());
    }

    #[test]
    fn cpu_time_of_an_ended_child_can_be_read_until_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let watched = Watched::new(child.id());
        let started_at = std::time::Instant::now();
        while !watched.has_ended().unwrap() {
            assert!(started_at.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        assert!(watched.cpu_with_children().unwrap() < Duration::from_secs(20));
        assert!(child.wait().unwrap().success());
        assert!(watched.cpu_with_children().is_err());
    }
}
