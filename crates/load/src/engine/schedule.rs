//! Which user arrives next, with which session and at which server.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::Duration;

use watchfire_types::{Instant, Rng};

use super::{Share, User};
use crate::arrivals::{Arrival, ArrivalShare, Arrivals, phase_at};
use crate::plan::Plan;
use crate::sampling::{seed_for, weighted};
use crate::scenario::Scenario;

/// Part of the seed of a user's session and server.
const USER: u64 = u64::MAX - 1;

pub(super) struct Schedule<'a> {
    scenario: &'a Scenario,
    arrivals: Peekable<ArrivalShare<'a>>,
    plan: Plan,
    /// The plans that follow, in the order of their times.
    next_plans: VecDeque<Plan>,
    /// The phase that users arrive in, and how much later than planned its users are due, because
    /// phases have waited for their users.
    phase: usize,
    delay: Duration,
}

impl<'a> Schedule<'a> {
    pub(super) fn new(scenario: &'a Scenario, plan: Plan) -> Schedule<'a> {
        let phase = phase_at(&scenario.phases, plan.beginning.at).0;
        let (arrivals, next_plans) = (arrivals(scenario, &plan), VecDeque::new());
        Schedule { scenario, arrivals, plan, next_plans, phase, delay: Duration::ZERO }
    }

    /// Arrivals from the time of this plan on follow it.
    pub(super) fn add(&mut self, plan: Plan) {
        self.next_plans.push_back(plan);
    }

    /// Takes the next plan up once the arrivals before it have been taken.
    fn follow_plans(&mut self) {
        while let Some(next) = self.next_plans.front() {
            let begins_at = Instant::ZERO + next.beginning.at;
            if self.arrivals.peek().is_some_and(|arrival| arrival.at < begins_at) {
                return;
            }
            self.plan = *next;
            self.arrivals = arrivals(self.scenario, &self.plan);
            self.next_plans.pop_front();
        }
    }

    /// How far the schedule is behind the clock because the load has paused.
    pub(super) fn paused(&self, now: Instant) -> Duration {
        let Plan { beginning, paused, is_paused, .. } = &self.plan;
        let stands_for = now.since(Instant::ZERO + beginning.at);
        if *is_paused { stands_for.max(*paused) } else { *paused }
    }

    /// Whether this worker has left the load.
    pub(super) fn has_left(&mut self, now: Instant) -> bool {
        self.follow_plans();
        self.plan.share.is_none()
            && now >= Instant::ZERO + self.plan.beginning.at + self.plan.paused
    }

    /// How much later than planned the last phase ends.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn is_done(&mut self) -> bool {
        self.follow_plans();
        self.arrivals.peek().is_none()
    }

    /// When the next user is due; `None` while a phase waits for its users, and in a pause.
    pub(super) fn next_at(&mut self, now: Instant, has_users: bool) -> Option<Instant> {
        self.follow_plans();
        let arrival = *self.arrivals.peek().filter(|_| !self.plan.is_paused)?;
        let paused = self.plan.paused;
        if arrival.session.is_some() {
            return Some(arrival.at + paused);
        }
        let phases = &self.scenario.phases;
        if phases[self.phase..arrival.phase].iter().any(|phase| phase.waits_for_users) {
            let planned: Duration =
                phases[..arrival.phase].iter().map(|phase| phase.duration).sum();
            let begins_at = Instant::ZERO + planned + self.delay + paused;
            if has_users || now < begins_at {
                return (now < begins_at).then_some(begins_at);
            }
            self.delay += now.since(begins_at);
        }
        self.phase = arrival.phase;
        Some(arrival.at + self.delay + paused)
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

/// The arrivals of a plan; none for a worker that has left.
fn arrivals<'a>(scenario: &'a Scenario, plan: &Plan) -> Peekable<ArrivalShare<'a>> {
    // The phases of a worker that has left are over.
    let phases = if plan.share.is_some() { &scenario.phases[..] } else { &[] };
    let fixed = if plan.share.is_some() { &scenario.fixed_arrivals[..] } else { &[] };
    let share = plan.share.unwrap_or(Share { index: 0, count: 1 });
    let arrivals = Arrivals::new(phases, scenario.seed, plan.beginning);
    arrivals.share(share.index, share.count, scenario.block(share.count), fixed).peekable()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Beginning;

    #[test]
    fn a_phase_that_waits_for_its_users_delays_the_next_one() {
        let text = "targets = [{ url = 'ws://127.0.0.1:1' }]\n\
                    phases = [{ duration = '1s', rate = 1 }, { duration = '1s', rate = 1 }]\n\
                    sessions = [{ steps = [{ connect = { path = '/' } }] }]";
        let mut scenario = Scenario::parse("schedule.toml", text).unwrap();
        scenario.phases[0].waits_for_users = true;
        let mut schedule = Schedule::new(&scenario, Plan::default());
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!(schedule.next_at(at(0), false), Some(at(0)));
        assert_eq!(schedule.take(at(0)).map(|user| user.number), Some(0));
        assert_eq!(schedule.next_at(at(0), true), Some(at(1)));
        assert_eq!(schedule.next_at(at(3), true), None);
        assert_eq!(schedule.next_at(at(4), false), Some(at(4)));
        assert_eq!(schedule.delay(), Duration::from_secs(3));
        assert!(schedule.take(at(4)).is_some() && schedule.is_done());
    }

    #[test]
    fn a_pause_delays_all_later_users_and_a_worker_that_leaves_starts_no_more() {
        let text = "targets = [{ url = 'ws://127.0.0.1:1' }]\n\
                    phases = [{ duration = '10s', rate = 1 }]\n\
                    sessions = [{ steps = [{ connect = { path = '/' } }] }]";
        let scenario = Scenario::parse("schedule.toml", text).unwrap();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let beginning = |millis| {
            let arrivals = Arrivals::new(&scenario.phases, scenario.seed, Beginning::default());
            arrivals.beginning_at(Duration::from_millis(millis), 1.0, &[])
        };
        let mut schedule = Schedule::new(&scenario, Plan::default());
        let paused = Plan { beginning: beginning(1_500), is_paused: true, ..Plan::default() };
        schedule.add(paused);
        let mut numbers = Vec::new();
        while let Some(due) = schedule.next_at(at(0), false) {
            numbers.extend(schedule.take(due).map(|user| (user.number, due)));
        }
        assert_eq!(numbers, [(0, at(0)), (1, at(1_000))]);
        assert_eq!([1_200, 4_000].map(|now| schedule.paused(at(now)).as_millis()), [0, 2_500]);
        assert!(!schedule.is_done());

        let waited = Duration::from_secs(3);
        schedule.add(Plan { paused: waited, is_paused: false, ..paused });
        assert_eq!(schedule.next_at(at(4_000), false), Some(at(5_000)));
        assert_eq!(schedule.take(at(5_000)).map(|user| user.number), Some(2));
        schedule.add(Plan {
            beginning: beginning(3_500),
            share: None,
            paused: waited,
            is_paused: false,
        });
        assert_eq!(schedule.next_at(at(5_000), false), Some(at(6_000)));
        assert!(!schedule.has_left(at(7_000)), "a user is due before");
        schedule.take(at(6_000)).unwrap();
        assert!(!schedule.has_left(at(6_400)) && schedule.has_left(at(6_500)));
        assert!(schedule.is_done());
    }
}
