//! Which user arrives next, with which session and at which server.

use std::iter::Peekable;
use std::time::Duration;

use watchfire_types::{Instant, Rng};

use super::{Share, User};
use crate::arrivals::{Arrival, ArrivalShare, Arrivals};
use crate::sampling::{seed_for, weighted};
use crate::scenario::Scenario;

/// Part of the seed of a user's session and server.
const USER: u64 = u64::MAX - 1;

pub(super) struct Schedule<'a> {
    scenario: &'a Scenario,
    arrivals: Peekable<ArrivalShare<'a>>,
    /// The phase that users arrive in, and how much later than planned its users are due, because
    /// phases have waited for their users.
    phase: usize,
    delay: Duration,
}

impl<'a> Schedule<'a> {
    pub(super) fn new(scenario: &'a Scenario, share: Share) -> Schedule<'a> {
        let arrivals = Arrivals::new(&scenario.phases, scenario.seed);
        let block = scenario.block(share.count);
        let arrivals = arrivals.share(share.index, share.count, block, &scenario.fixed_arrivals);
        Schedule { scenario, arrivals: arrivals.peekable(), phase: 0, delay: Duration::ZERO }
    }

    /// How much later than planned the last phase ends.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn is_done(&mut self) -> bool {
        self.arrivals.peek().is_none()
    }

    /// When the next user is due; `None` while a phase waits for its users.
    pub(super) fn next_at(&mut self, now: Instant, has_users: bool) -> Option<Instant> {
        let arrival = *self.arrivals.peek()?;
        if arrival.session.is_some() {
            return Some(arrival.at);
        }
        let phases = &self.scenario.phases;
        if phases[self.phase..arrival.phase].iter().any(|phase| phase.waits_for_users) {
            let planned: Duration =
                phases[..arrival.phase].iter().map(|phase| phase.duration).sum();
            let begins_at = Instant::ZERO + planned + self.delay;
            if has_users || now < begins_at {
                return (now < begins_at).then_some(begins_at);
            }
            self.delay += now.since(begins_at);
        }
        self.phase = arrival.phase;
        Some(arrival.at + self.delay)
    }

    /// The next user, which was due at this time.
    pub(super) fn take(&mut self, at: Instant) -> Option<User> {
        let Arrival { number, phase, session, .. } = self.arrivals.next()?;
        let mut rng = Rng::from_seed(seed_for(self.scenario.seed, u64::from(number), USER));
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
        Some(User::new(number, session as u16, target, at))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_that_waits_for_its_users_delays_the_next_one() {
        let text = "targets = [{ url = 'ws://127.0.0.1:1' }]\n\
                    phases = [{ duration = '1s', rate = 1 }, { duration = '1s', rate = 1 }]\n\
                    sessions = [{ steps = [{ connect = { path = '/' } }] }]";
        let mut scenario = Scenario::parse("schedule.toml", text).unwrap();
        scenario.phases[0].waits_for_users = true;
        let mut schedule = Schedule::new(&scenario, Share { index: 0, count: 1 });
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!(schedule.next_at(at(0), false), Some(at(0)));
        assert_eq!(schedule.take(at(0)).map(|user| user.number), Some(0));
        assert_eq!(schedule.next_at(at(0), true), Some(at(1)));
        assert_eq!(schedule.next_at(at(3), true), None);
        assert_eq!(schedule.next_at(at(4), false), Some(at(4)));
        assert_eq!(schedule.delay(), Duration::from_secs(3));
        assert!(schedule.take(at(4)).is_some() && schedule.is_done());
    }
}
