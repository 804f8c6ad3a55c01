//! Samples of the memory and the CPU time of a server while its users are there.

use std::time::{Duration, Instant};

use crate::drivers::processes::host::ProcessTree;
use crate::results::ServerSample;

const PERIOD: Duration = Duration::from_secs(1);
/// Reading the memory of a hundred processes takes a part of a second. Samples take at most this share of the time.
const SHARE_MAX: u32 = 20;
/// With more samples, every second one is dropped, and further ones are taken half as often.
const SAMPLES_MAX: usize = 2_000;

pub struct Samples {
    servers: Vec<u32>,
    period: Duration,
    /// When the load began, and when the next sample is due.
    began: Option<Instant>,
    due: Instant,
    pub taken: Vec<ServerSample>,
}

impl Samples {
    pub fn new(servers: Vec<u32>) -> Samples {
        let now = Instant::now();
        Samples { servers, period: PERIOD, began: None, due: now, taken: Vec::new() }
    }

    /// The load began that many seconds ago.
    pub fn note_began(&mut self, seconds_ago: f64) {
        let ago = Duration::try_from_secs_f64(seconds_ago).unwrap_or_default();
        self.began = self.began.or_else(|| Instant::now().checked_sub(ago));
    }

    /// Takes a sample if one is due.
    pub fn take(&mut self) {
        let now = Instant::now();
        let Some(began) = self.began.filter(|_| now >= self.due && !self.servers.is_empty()) else {
            return;
        };
        let trees: Vec<ProcessTree> = self.servers.iter().map(|id| ProcessTree::of(*id)).collect();
        self.taken.push(ServerSample {
            at: now.duration_since(began).as_secs_f64(),
            cpu_seconds: trees.iter().map(ProcessTree::cpu).sum::<Duration>().as_secs_f64(),
            memory_bytes: trees.iter().map(ProcessTree::memory).sum(),
        });
        if self.taken.len() == SAMPLES_MAX {
            let mut index = 0;
            self.taken.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.period *= 2;
        }
        self.due = now + self.period.max(now.elapsed() * SHARE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_use_of_the_server_since_its_load_began() {
        let mut samples = Samples::new(vec![std::process::id()]);
        samples.take();
        assert!(samples.taken.is_empty(), "the load has not begun");
        samples.note_began(0.0);
        samples.take();
        samples.take();
        assert_eq!(samples.taken.len(), 1, "the next one is due in a second");
        assert!(samples.taken[0].memory_bytes > 0);
    }
}
