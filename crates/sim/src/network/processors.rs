//! The CPU time of sending and receiving.

use std::time::Duration;

use watchfire_types::Instant;

use super::transfer_time;

/// The processors of a machine. Without them, sending and receiving take no CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors {
    pub cores: u32,
    /// Whether all hosts run on one machine, or each on its own.
    pub are_shared: bool,
    /// CPU time of a message of any length at its sender, and again at its receiver.
    pub message: Duration,
    /// Bytes per second that one core encrypts and sends.
    pub send: u64,
    /// Bytes per second that one core receives, decrypts, hashes and stores.
    pub receive: u64,
}

#[derive(Debug)]
pub(super) struct Machines {
    processors: Processors,
    /// When each core becomes free, by machine.
    free_at: Vec<Vec<Instant>>,
}

impl Machines {
    pub(super) const fn new(processors: Processors) -> Self {
        Machines { processors, free_at: Vec::new() }
    }

    /// On how many connections a host sends at a time. A host on a shared machine uses one core.
    pub(super) fn chunks_at_once(&self) -> u32 {
        if self.processors.are_shared { 1 } else { self.processors.cores.max(1) }
    }

    /// Gives work to the core that is free first. Returns when it is done.
    fn process(&mut self, now: Instant, host: u32, time: Duration) -> Instant {
        let machine = if self.processors.are_shared { 0 } else { host as usize };
        if machine >= self.free_at.len() {
            let cores = vec![Instant::ZERO; self.processors.cores.max(1) as usize];
            self.free_at.resize(machine + 1, cores);
        }
        let core = self.free_at[machine].iter_mut().min().expect("a machine has a core");
        *core = now.max(*core) + time;
        *core
    }

    /// When a host has processed outgoing `bytes`, in which `messages` end.
    pub(super) fn send(&mut self, now: Instant, host: u32, bytes: u64, messages: u32) -> Instant {
        let time = transfer_time(bytes, self.processors.send) + self.processors.message * messages;
        self.process(now, host, time)
    }

    /// When a host has processed incoming `bytes`, in which `messages` end.
    pub(super) fn receive(&mut self, at: Instant, host: u32, bytes: u64, messages: u32) -> Instant {
        let time =
            transfer_time(bytes, self.processors.receive) + self.processors.message * messages;
        self.process(at, host, time)
    }
}
