//! Notices workers whose process runs but no longer serves.

use watchfire_types::Instant;

use crate::workers::plan::SupervisorLimits;

/// A change of a worker's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// No heartbeat for `unresponsive_after`.
    Unresponsive(u16),
    /// No heartbeat for `hung_after`. Later heartbeats are ignored.
    Hung(u16),
}

/// The last heartbeat of each worker.
///
/// Silence counts only while the supervisor itself runs regularly. After a pause of the supervisor,
/// all workers get the full time again: the whole process group was stopped, or the machine had no
/// time for any of them.
#[derive(Debug)]
pub(super) struct Heartbeats {
    limits: SupervisorLimits,
    /// By slot; `None` while the worker is not watched.
    workers: Vec<Option<Heard>>,
    next_check: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Responsive,
    Unresponsive,
    Hung,
}

impl Heartbeats {
    pub fn new(workers: u16, limits: &SupervisorLimits) -> Heartbeats {
        let workers = (0..workers).map(|_| None).collect();
        Heartbeats { limits: limits.clone(), workers, next_check: None }
    }

    pub fn watch(&mut self, now: Instant, slot: u16) {
        self.workers[usize::from(slot)] = Some(Heard { at: now, state: State::Responsive });
        self.next_check.get_or_insert(now + self.limits.heartbeat_period / 2);
    }

    /// Forgets a worker; true if it did not respond.
    pub fn forget(&mut self, slot: u16) -> bool {
        let worker = self.workers[usize::from(slot)].take();
        worker.is_some_and(|heard| heard.state != State::Responsive)
    }

    pub fn forget_all(&mut self) {
        self.workers.fill(None);
        self.next_check = None;
    }

    /// Notes a heartbeat; true if the worker was unresponsive.
    pub fn heard(&mut self, now: Instant, slot: u16) -> bool {
        let Some(Some(heard)) = self.workers.get_mut(usize::from(slot)) else { return false };
        if heard.state == State::Hung {
            return false;
        }
        heard.at = now;
        std::mem::replace(&mut heard.state, State::Responsive) == State::Unresponsive
    }

    /// The slots of workers that do not respond, hung ones included.
    pub fn unresponsive(&self) -> impl Iterator<Item = u16> {
        let slots = self.workers.iter().zip(0..);
        slots.filter_map(|(worker, slot)| {
            worker.filter(|heard| heard.state != State::Responsive).map(|_| slot)
        })
    }

    /// When to call [`Heartbeats::check`].
    pub fn next_check(&self) -> Option<Instant> {
        self.next_check
    }

    pub fn check(&mut self, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        let Some(expected) = self.next_check.filter(|at| *at <= now) else { return changes };
        self.next_check = Some(now + self.limits.heartbeat_period / 2);
        let was_paused = now.since(expected) > self.limits.heartbeat_period;
        for (worker, slot) in self.workers.iter_mut().zip(0..) {
            let Some(heard) = worker.as_mut().filter(|heard| heard.state != State::Hung) else {
                continue;
            };
            if was_paused {
                heard.at = now;
            }
            let silence = now.since(heard.at);
            if silence >= self.limits.hung_after {
                heard.state = State::Hung;
                changes.push(Change::Hung(slot));
            } else if silence >= self.limits.unresponsive_after && heard.state == State::Responsive
            {
                heard.state = State::Unresponsive;
                changes.push(Change::Unresponsive(slot));
            }
        }
        changes
    }
}
