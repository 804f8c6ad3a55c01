//! The arrival of users: who is due, with which session and at which server.

use std::time::Duration;

use watchfire_types::{Instant, Rng};

use super::Engine;
use super::user::User;
use crate::arrivals::Arrival;
use crate::sampling::{seed_for, weighted};

/// The most users that are started in one turn of the event loop.
const STARTS_PER_TURN: usize = 8;

impl Engine<'_> {
    pub(super) fn start_due(&mut self) {
        for _ in 0..STARTS_PER_TURN {
            if self.opening >= self.opening_max {
                return;
            }
            let now = self.clock.now();
            let Some(at) = self.next_arrival_at().filter(|at| *at <= now) else { return };
            let Some(Arrival { number, phase, session, .. }) = self.arrivals.next() else { return };
            self.tally.counts.due += 1;
            self.tally.lateness.record(now.since(at));
            if self.users_now() >= self.users_max {
                self.tally.counts.turned_away += 1;
                continue;
            }
            self.tally.counts.started += 1;
            let index = self.users.insert(self.new_user(number, phase, session, at));
            self.users_peak = self.users_peak.max(self.users_now());
            if let Some(rate) = self.scenario.rate {
                self.limit_rate(index, rate);
            }
            self.advance(index);
        }
    }

    /// When the next user is due; `None` while a phase waits for its users.
    pub(super) fn next_arrival_at(&mut self) -> Option<Instant> {
        let arrival = *self.arrivals.peek()?;
        if arrival.session.is_some() {
            return Some(arrival.at);
        }
        let phases = &self.scenario.phases;
        if phases[self.phase..arrival.phase].iter().any(|phase| phase.waits_for_users) {
            let planned: Duration =
                phases[..arrival.phase].iter().map(|phase| phase.duration).sum();
            let begins_at = Instant::ZERO + planned + self.delay;
            let now = self.clock.now();
            if !self.users.is_empty() || now < begins_at {
                return (now < begins_at).then_some(begins_at);
            }
            self.delay += now.since(begins_at);
        }
        self.phase = arrival.phase;
        Some(arrival.at + self.delay)
    }

    fn new_user(&self, number: u32, phase: usize, session: Option<u16>, at: Instant) -> User {
        let mut rng = Rng::from_seed(seed_for(self.scenario.seed, u64::from(number), u64::MAX - 1));
        let weights = self.scenario.phases.get(phase).and_then(|phase| phase.weights.as_ref());
        let session = match (session, weights) {
            (Some(session), _) => usize::from(session),
            (None, Some(weights)) => weighted(&mut rng, weights.iter().copied()),
            (None, None) => {
                weighted(&mut rng, self.scenario.sessions.iter().map(|session| session.weight))
            }
        };
        let target = match self.scenario.sessions[session].server {
            Some(server) => server.min(self.scenario.targets.len() as u16 - 1),
            None => self.target_of(number, &mut rng),
        };
        User::new(number, at, session as u16, target)
    }

    /// The server of a user. Users of servers with the same weight take turns; others are drawn.
    fn target_of(&self, number: u32, rng: &mut Rng) -> u16 {
        let targets = &self.scenario.targets;
        let most = targets.iter().map(|target| target.weight).fold(0.0, f64::max);
        if targets.iter().all(|target| target.weight == most || target.weight == 0.0) {
            let used = || targets.iter().enumerate().filter(|(_, target)| target.weight > 0.0);
            let turn = number as usize % used().count().max(1);
            return used().nth(turn).map_or(0, |(index, _)| index as u16);
        }
        weighted(rng, targets.iter().map(|target| target.weight)) as u16
    }
}
