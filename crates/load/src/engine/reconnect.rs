//! Users that connect again when their connection breaks, as a client library does.
//!
//! Such a user waits, and continues at its last `connect`, at another server if the load has several. The step
//! `return` measures the time from the break until the user waits or stays again: it is connected, and has joined
//! its topics. All pauses but the last are used once for each break, so a user does not try faster and faster.

use watchfire_types::Instant;

use super::Engine;
use super::user::{NEVER, User};
use crate::failure::Failure;
use crate::scenario::Op;

/// The name of the event in the counters of the results.
const RECONNECT: &str = "reconnect";

/// When the connection of a user broke, and how often it has tried to connect since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Break {
    pub(super) at: Instant,
    attempts: u32,
}

impl Engine<'_> {
    /// Lets the user connect again after a pause. `false` if its session does not ask for it, if a
    /// limit of this machine is the cause, or if the load is over.
    pub(super) fn connects_again(&mut self, index: usize, failure: Failure) -> bool {
        let User { session, position, number, target, .. } = self.users[index];
        let session = &self.scenario.sessions[usize::from(session)];
        let Some(reconnect) = &session.reconnect else { return false };
        if failure.limit().is_some() || self.is_over() {
            return false;
        }
        let done = &session.ops[..session.ops.len().min(usize::from(position) + 1)];
        let Some(connect) = done.iter().rposition(|op| matches!(op, Op::Connect(_))) else {
            return false;
        };
        self.drop_socket(index);
        self.tally.count(RECONNECT);
        let now = self.clock.now();
        let broken = self.memory(index).broken.get_or_insert(Break { at: now, attempts: 0 });
        let attempt = broken.attempts;
        broken.attempts = attempt.saturating_add(1);
        let pauses = &reconnect.pauses;
        let at = now + pauses[pauses.len().min(attempt as usize + 1) - 1];
        let target = self.another_target(target, number, attempt);
        let user = &mut self.users[index];
        user.target = target;
        user.position = connect as u16;
        (user.anchor, user.due) = (at, at);
        user.times_out_at = NEVER;
        self.wake_at(index, at);
        true
    }

    /// Another server than the present one, so that its users are spread over all others.
    fn another_target(&self, target: u16, number: u32, attempt: u32) -> u16 {
        let targets = self.scenario.targets.iter().enumerate();
        let others =
            targets.filter(|(index, other)| other.weight > 0.0 && *index != usize::from(target));
        let others: Vec<u16> = others.map(|(index, _)| index as u16).collect();
        // Users take turns at the servers, so those of one server differ by the number of servers.
        let turn = number / (others.len() as u32 + 1);
        let chosen = turn.wrapping_add(attempt).checked_rem(others.len() as u32);
        chosen.map_or(target, |chosen| others[chosen as usize])
    }

    /// A user that has connected again does its next wait, so it has returned.
    pub(super) fn note_returned(&mut self, index: usize) {
        let user = &mut self.users[index];
        let Some(broken) = user.memory.as_mut().and_then(|memory| memory.broken.take()) else {
            return;
        };
        let session = &self.scenario.sessions[usize::from(user.session)];
        if let Some(reconnect) = &session.reconnect {
            self.tally.step(reconnect.step, broken.at, broken.at, self.clock.now());
        }
    }

    /// At the end of the load, record the users that have not returned.
    pub(super) fn measure_unreturned(&mut self) {
        let now = self.clock.now();
        for (_, user) in &self.users {
            let broken = user.memory.as_ref().and_then(|memory| memory.broken);
            let session = &self.scenario.sessions[usize::from(user.session)];
            if let (Some(broken), Some(reconnect)) = (broken, &session.reconnect) {
                let since = now.since(broken.at);
                self.tally.unanswered(reconnect.step, since, since);
            }
        }
    }
}
