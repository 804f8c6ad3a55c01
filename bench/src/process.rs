//! Memory and CPU time of a process, read from `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
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
    }
}
