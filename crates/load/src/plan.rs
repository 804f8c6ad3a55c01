//! How the arrivals of a load are divided among its workers, and changed while it runs: a pause, another rate, workers that
//! come and go.
//!
//! All changes are of one kind: from a time of the schedule on, each worker follows another [`Plan`]. The time is
//! [`LEAD`] ahead, so that every worker knows the plan before the time has come, and the workers agree on each user
//! without a message to each other. A worker that gets the plan too late has already started users that belong to
//! another worker now. It starts its own users late, and the results show that as lateness.
//!
//! The schedule has a time of its own. It stands still while the load pauses, so a phase keeps its length.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arrivals::{Arrivals, Beginning, phase_at};
use crate::scenario::Scenario;

/// The time from a decision until it takes effect. It is long for a message, and short for a person.
const LEAD: Duration = Duration::from_secs(1);

/// The users of the load that belong to one worker: every `count`-th, beginning with `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    pub(crate) index: usize,
    pub(crate) count: usize,
}

impl Share {
    /// The part of a number that belongs to this worker.
    pub(crate) fn of(self, all: u64) -> u64 {
        let (index, count) = (self.index as u64, self.count as u64);
        all / count + u64::from(index < all % count)
    }
}

/// The arrivals that one worker starts, from a time of the schedule on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) beginning: Beginning,
    /// `None`: the worker leaves at that time.
    pub(crate) share: Option<Share>,
    /// How far the schedule is behind the clock.
    pub(crate) paused: Duration,
    /// Whether the schedule stands still from that time on.
    pub(crate) is_paused: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            beginning: Beginning::default(),
            share: Some(Share { index: 0, count: 1 }),
            paused: Duration::ZERO,
            is_paused: false,
        }
    }
}

/// The plan of the whole load. Its times of the clock count from the begin of the load.
pub(crate) struct Planner<'a> {
    scenario: &'a Scenario,
    /// The plan in force; the share in it has no meaning.
    plan: Plan,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Planner<'a> {
        Planner { scenario, plan: Plan::default() }
    }

    /// The plan of a worker. `None`: it leaves.
    pub(crate) fn plan_for(&self, share: Option<Share>) -> Plan {
        Plan { share, ..self.plan }
    }

    pub(crate) fn scale(&self) -> f64 {
        self.plan.beginning.scale
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.plan.is_paused
    }

    /// How far the schedule is behind the clock.
    pub(crate) fn paused(&self, now: Duration) -> Duration {
        let stands_for = now.saturating_sub(self.plan.beginning.at);
        self.plan.paused.max(if self.plan.is_paused { stands_for } else { Duration::ZERO })
    }

    /// The time of the schedule.
    pub(crate) fn time(&self, now: Duration) -> Duration {
        now.saturating_sub(self.paused(now))
    }

    /// The index of the present phase; `None` after the last one.
    pub(crate) fn phase(&self, now: Duration) -> Option<usize> {
        let (phase, _) = phase_at(&self.scenario.phases, self.time(now));
        Some(phase).filter(|phase| *phase < self.scenario.phases.len())
    }

    /// Begins another plan, for other workers or at another scale.
    pub(crate) fn change(&mut self, now: Duration, scale: f64) {
        let before = self.plan.beginning;
        // In a pause, the schedule stands at the time of its plan.
        let ahead = if self.plan.is_paused { Duration::ZERO } else { self.time(now) + LEAD };
        let arrivals = Arrivals::new(&self.scenario.phases, self.scenario.seed, before);
        let fixed = &self.scenario.fixed_arrivals;
        self.plan.beginning = arrivals.beginning_at(ahead.max(before.at), scale, fixed);
    }

    /// Pauses the schedule, or lets it go on.
    pub(crate) fn set_paused(&mut self, now: Duration, is_paused: bool) {
        if is_paused && !self.plan.is_paused {
            self.change(now, self.scale());
        } else if !is_paused && self.plan.is_paused {
            let stood = (now + LEAD).saturating_sub(self.plan.beginning.at);
            self.plan.paused = self.plan.paused.max(stood);
        }
        self.plan.is_paused = is_paused;
    }

    /// The arrivals of a worker with these plans, one after another, from a time of the clock until the plan in force begins.
    pub(crate) fn users_between(&self, plans: &[Plan], from: Duration) -> u64 {
        let ends = plans.iter().skip(1).chain([&self.plan]).map(|plan| plan.beginning.at);
        plans.iter().zip(ends).map(|(plan, end)| self.users_of(plan, from, end)).sum()
    }

    fn users_of(&self, plan: &Plan, from: Duration, end: Duration) -> u64 {
        let Some(Share { index, count }) = plan.share else { return 0 };
        let Scenario { phases, seed, fixed_arrivals, .. } = self.scenario;
        let arrivals = Arrivals::new(phases, *seed, plan.beginning);
        let share = arrivals.share(index, count, self.scenario.block(count), fixed_arrivals);
        let from = from.saturating_sub(plan.paused);
        let due = share.map(|arrival| Duration::from_nanos(arrival.at.as_nanos()));
        due.skip_while(|at| *at < from).take_while(|at| *at < end).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: &str = r#"
        targets = [{ url = "ws://127.0.0.1:1" }]
        phases = [{ name = "first", duration = "10s", rate = 10 }, { duration = "10s", rate = 20 }]
        sessions = [{ steps = [{ connect = { path = "/" } }] }]
    "#;
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_phase_keeps_its_length_in_spite_of_a_pause() {
        let scenario = Scenario::parse("steady.toml", STEADY).unwrap();
        let mut planner = Planner::new(&scenario);
        planner.set_paused(4 * SECOND, true);
        assert_eq!(planner.time(4 * SECOND), 4 * SECOND, "it stands after the lead");
        assert_eq!(planner.time(30 * SECOND), 4 * SECOND + LEAD);
        // Other workers in a pause: the schedule still stands at the same time.
        planner.change(20 * SECOND, 1.0);
        planner.set_paused(24 * SECOND, false);
        assert_eq!(planner.paused(24 * SECOND), 20 * SECOND);
        assert_eq!(planner.time(25 * SECOND), 5 * SECOND);
        assert_eq!((planner.phase(29 * SECOND), planner.phase(30 * SECOND)), (Some(0), Some(1)));
        assert_eq!(planner.phase(40 * SECOND), None);
        assert_eq!(planner.plan_for(None).beginning.number, 50);
    }

    #[test]
    fn the_users_of_a_lost_worker_are_counted_until_the_next_plan() {
        let scenario = Scenario::parse("steady.toml", STEADY).unwrap();
        let mut planner = Planner::new(&scenario);
        let plan = planner.plan_for(Some(Share { index: 1, count: 2 }));
        planner.change(3 * SECOND, 2.0);
        // Of the users between the seconds 3 and 4, this worker had every second one.
        assert_eq!(planner.users_between(&[plan], 3 * SECOND), 5);
        // The worker had heard of twice the rate from second 4 on when it was lost.
        let next = planner.plan_for(plan.share);
        planner.change(4 * SECOND, 2.0);
        assert_eq!(planner.users_between(&[plan, next], 3 * SECOND), 5 + 10);
        assert_eq!(planner.users_between(&[plan, planner.plan_for(None)], 3 * SECOND), 10);
        assert_eq!(planner.scale(), 2.0);
    }

    #[test]
    fn shares_of_a_number_add_up_to_it() {
        let parts: Vec<u64> = (0..3).map(|index| Share { index, count: 3 }.of(11)).collect();
        assert_eq!(parts, [4, 4, 3]);
    }
}
