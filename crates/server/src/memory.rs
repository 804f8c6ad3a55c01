//! Returns free memory to the operating system after a crowd has left.
//!
//! The slabs free the memory of clients that have left, but an allocator keeps free memory for later
//! allocations. So the program can give the server a function that returns it. The server calls it
//! once after a crowd has left, on a thread of its own, never while clients arrive.

use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use watchfire_types::Instant;

/// Returns the allocator's free memory to the operating system.
pub(crate) type ReturnMemory = fn();

/// A crowd is at least as many connections, and at least half of those that were open.
const CROWD_MIN: u64 = 1_000;
/// Time without further leavers before memory is returned.
const QUIET_PERIOD: Duration = Duration::from_secs(5);

/// Notices when a crowd has left.
pub(crate) struct MemoryReturn {
    act: Option<ReturnMemory>,
    crowd: Mutex<Crowd>,
}

#[derive(Debug, Default)]
struct Crowd {
    /// The most connections since memory was last returned.
    most: u64,
    /// The fewest connections since the crowd began to leave, and when there were as few first.
    fewest: Option<(u64, Instant)>,
}

impl MemoryReturn {
    pub fn new(act: Option<ReturnMemory>) -> Self {
        MemoryReturn { act, crowd: Mutex::default() }
    }

    /// Takes the number of open connections. Called at each tick.
    pub fn handle_tick(&self, now: Instant, connections: u64) {
        let Some(act) = self.act else { return };
        if self.crowd.lock().has_left(now, connections)
            && let Err(error) = thread::Builder::new().name("memory".into()).spawn(act)
        {
            tracing::debug!(%error, "cannot return memory: no thread");
        }
    }
}

impl Crowd {
    /// Whether a crowd has left, and nobody has left since the quiet period began. Once per crowd.
    fn has_left(&mut self, now: Instant, connections: u64) -> bool {
        self.most = self.most.max(connections);
        if self.most - connections < CROWD_MIN.max(self.most / 2) {
            self.fewest = None;
            return false;
        }
        let since = match self.fewest {
            Some((fewest, since)) if fewest <= connections => since,
            _ => {
                self.fewest = Some((connections, now));
                return false;
            }
        };
        if now.since(since) < QUIET_PERIOD {
            return false;
        }
        *self = Crowd { most: connections, fewest: None };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn memory_is_returned_once_when_nobody_has_left_for_a_while() {
        let mut crowd = Crowd::default();
        assert!(!crowd.has_left(at(0), 18_000));
        assert!(!crowd.has_left(at(1), 4_000), "more may leave");
        assert!(!crowd.has_left(at(2), 30));
        assert!(!crowd.has_left(at(6), 40));
        assert!(crowd.has_left(at(7), 35));
        assert!(!crowd.has_left(at(60), 0));
    }

    #[test]
    fn a_few_leavers_are_no_crowd() {
        let mut crowd = Crowd::default();
        assert!(!crowd.has_left(at(0), 900));
        assert!(!crowd.has_left(at(10), 0) && !crowd.has_left(at(20), 0));
        assert!(!crowd.has_left(at(30), 18_000));
        assert!(!crowd.has_left(at(40), 10_000) && !crowd.has_left(at(50), 10_000));
    }

    #[test]
    fn a_crowd_that_comes_back_is_waited_for() {
        let mut crowd = Crowd::default();
        assert!(!crowd.has_left(at(0), 18_000) && !crowd.has_left(at(1), 0));
        assert!(!crowd.has_left(at(4), 15_000));
        assert!(!crowd.has_left(at(9), 0) && !crowd.has_left(at(13), 0));
        assert!(crowd.has_left(at(14), 0));
    }
}
