//! CPU time of a process, read from `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A process that is observed from outside.
#[derive(Clone, Copy)]
pub struct Watched {
    id: u32,
}

impl Watched {
    pub fn new(id: u32) -> Self {
        Watched { id }
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
}

fn number(word: Option<&str>) -> io::Result<u64> {
    let number = word.and_then(|word| word.parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected format in /proc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_this_process_is_read() {
        let own = Watched::new(std::process::id());
        assert!(own.cpu().unwrap() > Duration::ZERO);
    }
}
