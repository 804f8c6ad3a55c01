//! What handling messages costs processors.

use std::time::Duration;

use watchfire_types::Instant;

use super::time;

/// What the processors of a machine can do. Without them nothing but links takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors {
    /// Of each machine.
    pub cores: u32,
    /// Whether all hosts run on one machine, as in a test on one's desk; else each has its own.
    pub are_shared: bool,
    /// What a message costs its sender, and again its receiver, however short it is.
    pub message: Duration,
    /// Bytes a second that one core encrypts and sends.
    pub send: u64,
    /// Bytes a second that one core receives, decrypts, hashes and stores.
    pub receive: u64,
}

/// The cores of all machines.
#[derive(Debug)]
pub(super) struct Machines {
    processors: Processors,
    /// When each core has done what it was given, by machine.
    free_at: Vec<Vec<Instant>>,
}

impl Machines {
    pub(super) const fn new(processors: Processors) -> Self {
        Machines { processors, free_at: Vec::new() }
    }

    /// How many connections a host may send on at a time. Where many share a machine, each has one at a time.
    pub(super) fn sends_at_once(&self) -> u32 {
        if self.processors.are_shared { 1 } else { self.processors.cores.max(1) }
    }

    /// When work that a host has from `now` on is done, on the core that is free first.
    fn work(&mut self, now: Instant, host: u32, takes: Duration) -> Instant {
        let machine = if self.processors.are_shared { 0 } else { host as usize };
        if machine >= self.free_at.len() {
            let cores = vec![Instant::ZERO; self.processors.cores.max(1) as usize];
            self.free_at.resize(machine + 1, cores);
        }
        let core = self.free_at[machine].iter_mut().min().expect("a machine has a core");
        *core = now.max(*core) + takes;
        *core
    }

    /// When a host has sent so many bytes, which end so many messages.
    pub(super) fn send(&mut self, now: Instant, host: u32, bytes: u64, messages: u32) -> Instant {
        let takes = time(bytes, self.processors.send) + self.processors.message * messages;
        self.work(now, host, takes)
    }

    /// When a host has received so many bytes, which end so many messages.
    pub(super) fn receive(&mut self, at: Instant, host: u32, bytes: u64, messages: u32) -> Instant {
        let takes = time(bytes, self.processors.receive) + self.processors.message * messages;
        self.work(at, host, takes)
    }
}
