//! The arrival times of the simulated users: an open loop.
//!
//! # The reason
//!
//! In a closed loop, a fixed number of users send, wait for the answer, and send again. When the server
//! gets slower, such users send less, so the load falls exactly when the server is in trouble. Real
//! users do not know each other: they arrive at their own rate, whether or not others were answered.
//!
//! So arrivals here are a function of the scenario and its seed alone. The k-th user of a phase is due
//! when the phase has planned k users, which is the area under its rate. No answer of the server
//! changes a due time. The engine compares the schedule with its clock (`engine/mod.rs`).
//!
//! # Example
//!
//! A phase of 10 s rises from 0 to 10 users per second. Its area is 50, so 50 users arrive; after 5 s
//! the area is 12.5, so 13 have arrived. If the server stands still from second 4 to second 8, these
//! users arrive nevertheless, and 24 of them (from 8 to 32) find it standing still. A closed loop with
//! ten users would have noticed only ten slow answers.
//!
//! # Several workers
//!
//! Each of n workers computes the whole schedule and takes every n-th user (`ArrivalShare`). So the
//! union is the same for any n, without a message between them. Evenly spaced arrivals of others are
//! skipped by arithmetic; random ones must be drawn, since each depends on the one before.
//!
//! With more than 16 workers, each takes 64 consecutive users instead of one. With 25,000 users a second and
//! 101 workers, each would otherwise wake every 4 ms for one user, and again for each of its answers: 75,000 switches
//! between processes a second on a few cores. So each works for 2.6 ms, and then rests. A worker starts 64 users
//! in about 4 ms, so they are at most that late.
//!
//! # Workers that come and go, and other rates
//!
//! The controller may change the number of workers, or the rates, from a time of the schedule on ([`Beginning`]). It counts
//! the arrivals before that time; each worker then computes the schedule anew from there. Example: of 100 users per
//! second, two workers take 50 each. A third one joins, and from second 10 on each of the three takes every third user, beginning
//! with number 1,000. The users before second 10 keep their workers, so nobody is started twice or left out.
//!
//! # The bounds
//!
//! A load has at most 2^32 users, and a phase ten million arrivals per second. `users_max` bounds the
//! users at the same time: a further user is turned away and counted, never delayed. If the generator
//! itself is late, `lateness` in the results says by how much.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_types::{Instant, Rng};

use crate::sampling::{exponential, seed_for};
use crate::scenario::{Phase, Spacing};

/// Part of the seed of random arrivals after a [`Beginning`].
const ARRIVALS: u64 = u64::MAX - 2;

/// The point from which a schedule is computed: its start, or where rates or workers change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Beginning {
    /// The time of the schedule.
    pub(crate) at: Duration,
    /// The factor of all rates from then on.
    pub(crate) scale: f64,
    /// Arrivals of phases before it, and those of its phase among them.
    pub(crate) number: u32,
    arrived_in_phase: u64,
    /// Users to plan until the first arrival; `None` at the start of the load.
    planned: Option<f64>,
    /// Arrivals at a fixed time before it.
    fixed: usize,
}

impl Default for Beginning {
    fn default() -> Beginning {
        Beginning {
            at: Duration::ZERO,
            scale: 1.0,
            number: 0,
            arrived_in_phase: 0,
            planned: None,
            fixed: 0,
        }
    }
}

/// The times at which users are due, in order.
pub(crate) struct Arrivals {
    /// The phases at their scaled rates. The one of the beginning has only its rest.
    phases: Vec<Phase>,
    beginning: Beginning,
    phase: usize,
    phase_begins_at: Instant,
    /// Users planned in the phase so far; a whole number if arrivals are evenly spaced.
    planned: f64,
    arrived_in_phase: u64,
    rng: Rng,
}

impl Arrivals {
    pub(crate) fn new(phases: &[Phase], seed: u64, beginning: Beginning) -> Arrivals {
        let mut phases = phases.to_vec();
        for phase in &mut phases {
            phase.rate *= beginning.scale;
            phase.rate_end *= beginning.scale;
        }
        let (phase, passed) = phase_at(&phases, beginning.at);
        if let Some(phase) = phases.get_mut(phase) {
            phase.rate += (phase.rate_end - phase.rate) * passed.div_duration_f64(phase.duration);
            phase.duration -= passed;
        }
        let seed = match beginning.planned {
            None => seed,
            Some(_) => seed_for(seed, u64::from(beginning.number), ARRIVALS),
        };
        let mut arrivals = Arrivals {
            phases,
            beginning,
            phase,
            phase_begins_at: Instant::ZERO + beginning.at,
            planned: 0.0,
            arrived_in_phase: beginning.arrived_in_phase,
            rng: Rng::from_seed(seed),
        };
        arrivals.planned = beginning.planned.unwrap_or_else(|| arrivals.first_planned());
        arrivals
    }

    /// The point of this schedule at a time, from which it goes on with another scale or among other workers.
    pub(crate) fn beginning_at(
        mut self,
        at: Duration,
        scale: f64,
        fixed: &[(Duration, u16)],
    ) -> Beginning {
        let mut number = self.beginning.number;
        let end = Instant::ZERO + at;
        let mut planned = 0.0;
        while let Some(phase) = self.phases.get(self.phase) {
            match self.due() {
                Some(due) if due < end => {
                    // Even arrivals are skipped in one step, as in `nth`. Rounding decides about the last two.
                    let passed = end.since(self.phase_begins_at).min(phase.duration);
                    let left = (phase.users_within(passed) - self.planned).max(0.0) as u64;
                    let room = phase.users_max.map_or(u64::MAX, |max| max - self.arrived_in_phase);
                    if phase.spacing == Spacing::Even && left.min(room) > 2 {
                        let skipped = left.min(room) - 2;
                        self.planned += skipped as f64;
                        self.arrived_in_phase += skipped;
                        number += skipped as u32;
                    } else {
                        self.note_arrival();
                        number += 1;
                    }
                }
                None if self.phase_begins_at + phase.duration <= end => self.begin_next_phase(),
                _ => {
                    let passed = end.since(self.phase_begins_at);
                    planned = (self.planned - phase.users_within(passed)).max(0.0);
                    break;
                }
            }
        }
        let fixed = fixed.partition_point(|(due, _)| *due < at);
        let arrived_in_phase = self.arrived_in_phase;
        Beginning { at, scale, number, arrived_in_phase, planned: Some(planned), fixed }
    }

    /// The next arrival of the present phase; `None`: the phase has no more.
    fn due(&self) -> Option<Instant> {
        let phase = self.phases.get(self.phase)?;
        let is_full = phase.users_max.is_some_and(|max| self.arrived_in_phase >= max);
        let offset = phase.moment(self.planned).filter(|_| !is_full)?;
        Some(self.phase_begins_at + offset)
    }

    fn note_arrival(&mut self) {
        self.planned += match self.phases[self.phase].spacing {
            Spacing::Even => 1.0,
            Spacing::Random => exponential(&mut self.rng),
        };
        self.arrived_in_phase += 1;
    }

    fn begin_next_phase(&mut self) {
        self.phase_begins_at += self.phases[self.phase].duration;
        self.phase += 1;
        self.arrived_in_phase = 0;
        self.planned = self.first_planned();
    }

    /// Every `count`-th block of `block` arrivals, beginning with block `index`. Arrivals at a fixed time have the first
    /// numbers; of them it is every `count`-th one.
    pub(crate) fn share(
        self,
        index: usize,
        count: usize,
        block: usize,
        fixed: &[(Duration, u16)],
    ) -> ArrivalShare<'_> {
        let Beginning { number, fixed: fixed_before, .. } = self.beginning;
        ArrivalShare {
            arrivals: self,
            next: number + (fixed.len() + index * block) as u32,
            skipped: index * block,
            count,
            block,
            taken: 0,
            fixed,
            next_fixed: fixed_before + index,
            planned: None,
        }
    }

    fn first_planned(&mut self) -> f64 {
        match self.phases.get(self.phase).map(|phase| phase.spacing) {
            Some(Spacing::Random) => exponential(&mut self.rng),
            Some(Spacing::Even) | None => 0.0,
        }
    }
}

/// The phase at a time of the schedule, and the time that has passed in it. After all phases it is their number.
pub(crate) fn phase_at(phases: &[Phase], at: Duration) -> (usize, Duration) {
    let mut passed = at;
    for (index, phase) in phases.iter().enumerate() {
        match passed.checked_sub(phase.duration) {
            Some(rest) => passed = rest,
            None => return (index, passed),
        }
    }
    (phases.len(), passed)
}

impl Iterator for Arrivals {
    /// The phase, and the arrival time.
    type Item = (usize, Instant);

    fn next(&mut self) -> Option<(usize, Instant)> {
        while self.phase < self.phases.len() {
            if let Some(due) = self.due() {
                self.note_arrival();
                return Some((self.phase, due));
            }
            self.begin_next_phase();
        }
        None
    }

    /// Skips even arrivals in one step: otherwise each of sixty workers would step through all of
    /// them.
    fn nth(&mut self, n: usize) -> Option<(usize, Instant)> {
        for skipped in 0..n {
            let left = (n - skipped) as u64;
            let phase = self.phases.get(self.phase)?;
            // Rounding can add or remove the last arrival of a phase.
            if phase.spacing == Spacing::Even && self.arrived_in_phase + left + 2 < phase.users() {
                self.planned += left as f64;
                self.arrived_in_phase += left;
                break;
            }
            self.next()?;
        }
        self.next()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    /// The number of the user in the whole load, from 0.
    pub(crate) number: u32,
    pub(crate) phase: usize,
    pub(crate) at: Instant,
    /// The session of a user that arrives at a fixed time.
    pub(crate) session: Option<u16>,
}

pub(crate) struct ArrivalShare<'a> {
    arrivals: Arrivals,
    next: u32,
    /// Arrivals of other workers before the next one of this worker.
    skipped: usize,
    count: usize,
    /// Arrivals that a worker takes one after another, and those that this one has taken of its present block.
    block: usize,
    taken: usize,
    /// The arrivals at a fixed time, and the next one of this worker.
    fixed: &'a [(Duration, u16)],
    next_fixed: usize,
    /// The next arrival of a phase, which was drawn but is not due first.
    planned: Option<(usize, Instant)>,
}

impl ArrivalShare<'_> {
    fn plan(&mut self) -> Option<(usize, Instant)> {
        if self.planned.is_none() {
            self.planned = self.arrivals.nth(self.skipped);
        }
        self.planned
    }
}

impl Iterator for ArrivalShare<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let planned = self.plan();
        let fixed = self.fixed.get(self.next_fixed);
        let fixed = fixed.map(|(at, session)| (Instant::ZERO + *at, *session));
        if let Some((at, session)) =
            fixed.filter(|(at, _)| planned.is_none_or(|(_, next)| *at <= next))
        {
            let number = self.next_fixed as u32;
            self.next_fixed += self.count;
            return Some(Arrival { number, phase: 0, at, session: Some(session) });
        }
        let (phase, at) = self.planned.take()?;
        let number = self.next;
        self.taken = (self.taken + 1) % self.block;
        let is_last = self.taken == 0;
        self.skipped = if is_last { (self.count - 1) * self.block } else { 0 };
        self.next += 1 + self.skipped as u32;
        Some(Arrival { number, phase, at, session: None })
    }
}

impl Phase {
    /// Users of the whole phase if arrivals are evenly spaced.
    pub fn users(&self) -> u64 {
        let mean = (self.rate + self.rate_end) / 2.0;
        // Rounding must not turn a whole number into the one below.
        let users = (mean * self.duration.as_secs_f64() - 1e-6).ceil().max(0.0) as u64;
        users.min(self.users_max.unwrap_or(u64::MAX))
    }

    /// Users planned in this time after the start of the phase: the area under its rate.
    fn users_within(&self, passed: Duration) -> f64 {
        let (seconds, duration) = (passed.as_secs_f64(), self.duration.as_secs_f64());
        (self.rate + (self.rate_end - self.rate) * seconds / duration / 2.0) * seconds
    }

    /// The time in the phase at which this many users are planned; `None` if it ends earlier.
    fn moment(&self, users: f64) -> Option<Duration> {
        let duration = self.duration.as_secs_f64();
        // The rate changes evenly: rate * t + slope * t * t / 2 = users, solved without dividing by
        // the slope, which may be zero.
        let slope = (self.rate_end - self.rate) / duration;
        let root = (self.rate * self.rate + 2.0 * slope * users).max(0.0).sqrt();
        let seconds = if users == 0.0 { 0.0 } else { 2.0 * users / (self.rate + root) };
        let is_within = seconds + 1e-9 < duration && self.rate.max(self.rate_end) > 0.0;
        is_within.then(|| Duration::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(seconds: u64, rate: f64, rate_end: f64, spacing: Spacing) -> Phase {
        let duration = Duration::from_secs(seconds);
        Phase {
            name: String::new(),
            duration,
            rate,
            rate_end,
            spacing,
            users_max: None,
            weights: None,
            waits_for_users: false,
        }
    }

    fn whole(phases: &[Phase]) -> Arrivals {
        Arrivals::new(phases, 1, Beginning::default())
    }

    fn millis(phases: &[Phase]) -> Vec<u64> {
        whole(phases).map(|(_, at)| (at.as_nanos() + 500_000) / 1_000_000).collect()
    }

    #[test]
    fn even_arrivals_have_equal_distances() {
        let phases = [phase(1, 4.0, 4.0, Spacing::Even), phase(2, 1.0, 1.0, Spacing::Even)];
        assert_eq!(millis(&phases), [0, 250, 500, 750, 1000, 2000]);
    }

    #[test]
    fn a_ramp_has_the_mean_rate_of_its_ends() {
        let phases = [phase(10, 0.0, 10.0, Spacing::Even)];
        let at = millis(&phases);
        assert_eq!(at.len() as u64, phases[0].users());
        assert_eq!(at.len(), 50);
        assert!(at.windows(2).all(|pair| pair[0] < pair[1]), "{at:?}");
        let first_half = at.iter().filter(|at| **at < 5000).count();
        assert!(
            (12..=14).contains(&first_half),
            "a quarter arrives in the first half: {first_half}"
        );
    }

    #[test]
    fn the_shares_of_all_workers_are_all_arrivals() {
        let mut full = phase(1, 30.0, 90.0, Spacing::Even);
        full.users_max = Some(37);
        let phases = [
            phase(2, 0.0, 100.0, Spacing::Even),
            full,
            phase(1, 50.0, 50.0, Spacing::Random),
            phase(1, 0.0, 0.0, Spacing::Even),
            phase(3, 100.0, 7.3, Spacing::Even),
        ];
        let all: Vec<_> = whole(&phases).collect();
        for (count, block) in [(1, 1), (2, 1), (7, 1), (60, 1), (20, 64), (2, 64), (5, 3)] {
            let mut found = vec![None; all.len()];
            for index in 0..count {
                for arrival in whole(&phases).share(index, count, block, &[]) {
                    let slot = &mut found[arrival.number as usize];
                    assert_eq!(slot.replace((arrival.phase, arrival.at)), None);
                }
            }
            assert_eq!(found, all.iter().copied().map(Some).collect::<Vec<_>>(), "{count}");
        }
    }

    #[test]
    fn a_schedule_that_goes_on_among_other_workers_has_the_same_arrivals() {
        let mut full = phase(1, 30.0, 90.0, Spacing::Even);
        full.users_max = Some(37);
        let phases =
            [phase(2, 7.3, 100.0, Spacing::Even), full, phase(3, 50.0, 50.0, Spacing::Even)];
        let fixed = [500, 1_500, 4_700].map(|at| (Duration::from_millis(at), 7));
        let of_workers = |beginning, count| {
            let share = |index| Arrivals::new(&phases, 1, beginning).share(index, count, 1, &fixed);
            (0..count).flat_map(share).collect::<Vec<_>>()
        };
        let mut expected = of_workers(Beginning::default(), 1);
        // The first change is within the ramp, the second after the phase that is full.
        let mut beginning = Beginning::default();
        let mut found = Vec::new();
        for (millis, count) in [(1_234, 2), (2_800, 3), (4_000, 1)] {
            let next = Arrivals::new(&phases, 1, beginning);
            let next = next.beginning_at(Duration::from_millis(millis), 1.0, &fixed);
            let before = of_workers(beginning, count).into_iter();
            found.extend(before.filter(|one| one.at < Instant::ZERO + next.at));
            beginning = next;
        }
        found.extend(of_workers(beginning, 5));
        for all in [&mut found, &mut expected] {
            all.sort_by_key(|one| one.number);
            // Rounding may move an arrival by some nanoseconds.
            let micros = |at: Instant| Instant::from_nanos((at.as_nanos() + 500) / 1_000);
            all.iter_mut().for_each(|one| one.at = micros(one.at));
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn a_scaled_schedule_has_the_same_phases_with_more_arrivals() {
        for spacing in [Spacing::Even, Spacing::Random] {
            let phases = [phase(100, 10.0, 10.0, spacing), phase(100, 5.0, 5.0, spacing)];
            let at = Duration::from_secs(50);
            let beginning = whole(&phases).beginning_at(at, 3.0, &[]);
            let rest: Vec<_> = Arrivals::new(&phases, 1, beginning).collect();
            assert!((450..=550).contains(&beginning.number), "{beginning:?}");
            let in_phase = |index| rest.iter().filter(|(phase, _)| *phase == index).count();
            assert!((1_350..=1_650).contains(&in_phase(0)), "{}", in_phase(0));
            assert!((1_350..=1_650).contains(&in_phase(1)), "{}", in_phase(1));
        }
    }

    #[test]
    fn users_at_a_fixed_time_arrive_among_the_others() {
        let phases = [phase(2, 1.0, 1.0, Spacing::Even)];
        let fixed = [(0, 7), (1500, 8), (9000, 9)]
            .map(|(at, session)| (Duration::from_millis(at), session));
        let arrivals = |index, count| {
            let share = whole(&phases).share(index, count, 1, &fixed);
            let millis = |at: Instant| at.as_nanos() / 1_000_000;
            share.map(|one| (one.number, millis(one.at), one.session)).collect::<Vec<_>>()
        };
        let all = [
            (0, 0, Some(7)),
            (3, 0, None),
            (4, 1000, None),
            (1, 1500, Some(8)),
            (2, 9000, Some(9)),
        ];
        assert_eq!(arrivals(0, 1), all);
        let mut shared = [arrivals(0, 2), arrivals(1, 2)].concat();
        shared.sort_by_key(|(number, at, _)| (*at, *number));
        assert_eq!(shared, all);
    }

    #[test]
    fn a_falling_rate_may_end_at_zero() {
        let at = millis(&[phase(10, 10.0, 0.0, Spacing::Even)]);
        assert_eq!(at.len(), 50);
        assert!(at.iter().filter(|at| **at < 5000).count() >= 37);
    }

    #[test]
    fn random_arrivals_have_the_mean_rate_and_are_the_same_for_a_seed() {
        let phases = [phase(100, 50.0, 50.0, Spacing::Random)];
        let at = millis(&phases);
        assert!((4700..5300).contains(&at.len()), "{}", at.len());
        assert_eq!(at, millis(&phases));
    }

    #[test]
    fn a_phase_that_has_all_its_users_waits_for_its_end() {
        let mut full = phase(10, 100.0, 100.0, Spacing::Even);
        full.users_max = Some(2);
        let phases = [full, phase(1, 1.0, 1.0, Spacing::Even)];
        assert_eq!(millis(&phases), [0, 10, 10_000]);
    }

    #[test]
    fn a_random_phase_continues_until_it_has_its_users() {
        let mut phases = [phase(5, 40.0, 40.0, Spacing::Random)];
        phases[0].users_max = Some(40);
        for seed in 0..20 {
            assert_eq!(Arrivals::new(&phases, seed, Beginning::default()).count(), 40);
        }
    }

    #[test]
    fn a_phase_without_arrivals_is_a_pause() {
        let phases = [phase(5, 0.0, 0.0, Spacing::Even), phase(1, 1.0, 1.0, Spacing::Even)];
        assert_eq!(millis(&phases), [5000]);
    }
}
