//! What a supervisor decides, in pretend time: who is started when, who gets a link, who is killed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use vocab::Instant;

use crate::plan::SupervisorLimits;

/// Links that wait to be sent to one worker. More would only be descriptors that nobody reads:
/// the others stay *owed*, which costs none.
pub(crate) const QUEUED_LINKS_MAX: u8 = 2;

/// Until a pair of sockets is tried again that the system refused.
const PAIR_RETRY_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Input {
    /// What [`Output::Start`] asked for was done.
    Started(u16),
    /// It could not be done.
    NotStarted(u16),
    /// A worker serves.
    Ready(u16),
    /// A worker's process is no more.
    Ended(u16),
    /// A worker lost a link that it knows under this number.
    LinkLost {
        slot: u16,
        to: u16,
        number: u64,
    },
    /// One link less waits to be sent to this worker.
    Sent(u16),
    /// What [`Output::Pair`] asked for could not be done.
    NotPaired {
        one: u16,
        other: u16,
    },
    Stop,
    Kill,
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    Start(u16),
    /// A new link for these two.
    Pair {
        one: u16,
        other: u16,
        number: u64,
    },
    /// It has all that is there at its start.
    Begin(u16),
    Drain(u16),
    Kill(u16),
    Told(Told),
}

/// What happened, for whoever listens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    Ready {
        slot: u16,
        after: Duration,
    },
    AllReady,
    Ended {
        slot: u16,
        after: Duration,
        restart_in: Option<Duration>,
    },
    NotStarted {
        slot: u16,
        restart_in: Duration,
    },
    NotReady {
        slot: u16,
    },
    Relinked {
        one: u16,
        other: u16,
    },
    Draining,
    Killed {
        slot: u16,
    },
    /// The first start failed, by this worker. Everything ends.
    Failed {
        slot: u16,
        how: Failure,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Failure {
    NotStarted,
    EndedBeforeReady,
    NotReady,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Not all were ready yet.
    Starting,
    Serving,
    Draining {
        until: Instant,
    },
    /// All that live have been killed.
    Killing,
}

#[derive(Debug)]
enum State {
    Resting {
        until: Instant,
    },
    /// Asked for, and not there yet.
    Starting,
    Up(Up),
    /// For good.
    Gone,
}

/// A life.
#[derive(Debug)]
struct Up {
    since: Instant,
    /// Links that it gets before it begins.
    initial: BTreeSet<u16>,
    has_begun: bool,
    is_ready: bool,
    is_killed: bool,
    queued_links: u8,
}

#[derive(Debug)]
struct Slot {
    state: State,
    /// Whom it has no link with, though both live.
    owed: BTreeSet<u16>,
    lives: u64,
    /// Lives in a row that were short.
    short_lives: u32,
}

#[derive(Clone, Copy, Debug)]
struct Linked {
    number: u64,
    at: Instant,
}

/// The workers, as their supervisor sees them.
#[derive(Debug)]
pub(crate) struct Crew {
    limits: SupervisorLimits,
    slots: Vec<Slot>,
    phase: Phase,
    /// The newest link of each two, the lower first.
    linked: BTreeMap<(u16, u16), Linked>,
    /// Links that will be owed.
    delayed: BTreeMap<(u16, u16), Instant>,
    links: u64,
    restarts: u64,
    killed: u16,
    outputs: VecDeque<Output>,
}

impl Crew {
    pub fn new(workers: u16, limits: SupervisorLimits) -> Crew {
        let slot =
            || Slot { state: State::Starting, owed: BTreeSet::new(), lives: 0, short_lives: 0 };
        Crew {
            limits,
            slots: (0..workers).map(|_| slot()).collect(),
            phase: Phase::Starting,
            linked: BTreeMap::new(),
            delayed: BTreeMap::new(),
            links: 0,
            restarts: 0,
            killed: 0,
            outputs: (0..workers).map(Output::Start).collect(),
        }
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Restarts so far.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Workers that were killed after the stop.
    pub fn killed(&self) -> u16 {
        self.killed
    }

    /// How many had this place before who has it now.
    pub fn lives_before(&self, slot: u16) -> u64 {
        self.slots[usize::from(slot)].lives.saturating_sub(1)
    }

    /// Whether nobody is left, nor comes back.
    pub fn is_over(&self) -> bool {
        self.is_ending()
            && self
                .slots
                .iter()
                .all(|slot| matches!(slot.state, State::Gone | State::Resting { .. }))
    }

    /// When to send [`Input::Tick`].
    pub fn next_wake(&self) -> Option<Instant> {
        if let Phase::Draining { until } = self.phase {
            return Some(until);
        }
        if self.phase == Phase::Killing {
            return None;
        }
        let of_slots = self.slots.iter().filter_map(|slot| match &slot.state {
            State::Resting { until } => Some(*until),
            State::Up(up) if !up.is_ready && !up.is_killed => {
                Some(up.since + self.limits.ready_timeout)
            }
            State::Up(_) | State::Starting | State::Gone => None,
        });
        of_slots.chain(self.delayed.values().copied()).min()
    }

    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Started(slot) => self.started(now, slot),
            Input::NotStarted(slot) => self.not_started(now, slot),
            Input::Ready(slot) => self.ready(now, slot),
            Input::Ended(slot) => self.ended(now, slot),
            Input::LinkLost { slot, to, number } => self.link_lost(now, slot, to, number),
            Input::Sent(slot) => {
                if let Some(up) = self.up(slot) {
                    up.queued_links = up.queued_links.saturating_sub(1);
                    self.pay(now, slot);
                }
            }
            Input::NotPaired { one, other } => {
                for slot in [one, other] {
                    if let Some(up) = self.up(slot) {
                        up.queued_links = up.queued_links.saturating_sub(1);
                    }
                }
                self.delayed.insert(both(one, other), now + PAIR_RETRY_PAUSE);
            }
            Input::Stop => self.stop(now),
            Input::Kill => self.kill(),
            Input::Tick => self.tick(now),
        }
    }

    fn up(&mut self, slot: u16) -> Option<&mut Up> {
        match &mut self.slots.get_mut(usize::from(slot))?.state {
            State::Up(up) => Some(up),
            State::Resting { .. } | State::Starting | State::Gone => None,
        }
    }

    fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. } | Phase::Killing)
    }

    fn told(&mut self, told: Told) {
        self.outputs.push_back(Output::Told(told));
    }

    fn numbers(&self) -> std::ops::Range<u16> {
        0..self.slots.len() as u16
    }

    fn started(&mut self, now: Instant, slot: u16) {
        let others = self.numbers().filter(|&other| other != slot);
        let is_coming = |state: &State| matches!(state, State::Starting | State::Up(_));
        let initial =
            others.filter(|&other| is_coming(&self.slots[usize::from(other)].state)).collect();
        let this = &mut self.slots[usize::from(slot)];
        this.lives += 1;
        self.restarts += u64::from(this.lives > 1);
        this.state = State::Up(Up {
            since: now,
            initial,
            has_begun: false,
            is_ready: false,
            is_killed: false,
            queued_links: 0,
        });
        for other in self.numbers().filter(|&other| other != slot) {
            if self.up(other).is_some() {
                self.owe(slot, other);
            }
        }
        self.begin(slot);
        self.pay(now, slot);
    }

    fn not_started(&mut self, now: Instant, slot: u16) {
        let is_first = self.slots[usize::from(slot)].lives == 0;
        self.nobody_waits_for(slot);
        if is_first && self.phase == Phase::Starting {
            self.slots[usize::from(slot)].state = State::Gone;
            self.fail(slot, Failure::NotStarted);
        } else {
            let restart_in = self.rest(now, slot, Duration::ZERO);
            self.told(Told::NotStarted { slot, restart_in });
        }
    }

    fn ready(&mut self, now: Instant, slot: u16) {
        let Some(up) = self.up(slot) else { return };
        if std::mem::replace(&mut up.is_ready, true) {
            return;
        }
        let after = now.since(up.since);
        self.told(Told::Ready { slot, after });
        let is_ready = |slot: &Slot| matches!(&slot.state, State::Up(up) if up.is_ready);
        if self.phase == Phase::Starting && self.slots.iter().all(is_ready) {
            self.phase = Phase::Serving;
            self.told(Told::AllReady);
        }
    }

    fn ended(&mut self, now: Instant, slot: u16) {
        let Some(up) = self.up(slot) else { return };
        let (after, was_ready) = (now.since(up.since), up.is_ready);
        let is_first = self.slots[usize::from(slot)].lives == 1;
        self.forget(slot);
        if self.is_ending() {
            self.slots[usize::from(slot)].state = State::Gone;
            self.told(Told::Ended { slot, after, restart_in: None });
        } else if is_first && !was_ready && self.phase == Phase::Starting {
            self.slots[usize::from(slot)].state = State::Gone;
            self.told(Told::Ended { slot, after, restart_in: None });
            self.fail(slot, Failure::EndedBeforeReady);
        } else {
            let restart_in = Some(self.rest(now, slot, after));
            self.told(Told::Ended { slot, after, restart_in });
        }
        self.nobody_waits_for(slot);
    }

    /// What was between this worker and the others goes with it.
    fn forget(&mut self, slot: u16) {
        for other in std::mem::take(&mut self.slots[usize::from(slot)].owed) {
            self.slots[usize::from(other)].owed.remove(&slot);
        }
        self.delayed.retain(|&(one, other), _| one != slot && other != slot);
        self.linked.retain(|&(one, other), _| one != slot && other != slot);
    }

    /// Until the next life; how long that is.
    fn rest(&mut self, now: Instant, slot: u16, lived: Duration) -> Duration {
        let this = &mut self.slots[usize::from(slot)];
        if lived >= self.limits.settled_after {
            this.short_lives = 0;
        }
        let factor = 1u32.checked_shl(this.short_lives).unwrap_or(u32::MAX);
        let pause =
            self.limits.restart_pause.saturating_mul(factor).min(self.limits.restart_pause_max);
        this.short_lives = this.short_lives.saturating_add(1);
        this.state = State::Resting { until: now + pause };
        pause
    }

    fn nobody_waits_for(&mut self, gone: u16) {
        for slot in self.numbers() {
            if let Some(up) = self.up(slot) {
                up.initial.remove(&gone);
                self.begin(slot);
            }
        }
    }

    /// Lets a worker begin that has all its links.
    fn begin(&mut self, slot: u16) {
        if self.is_ending() {
            return;
        }
        let Some(up) = self.up(slot) else { return };
        if up.initial.is_empty() && !std::mem::replace(&mut up.has_begun, true) {
            self.outputs.push_back(Output::Begin(slot));
        }
    }

    fn owe(&mut self, one: u16, other: u16) {
        self.slots[usize::from(one)].owed.insert(other);
        self.slots[usize::from(other)].owed.insert(one);
    }

    /// Makes the links that this worker is owed, as far as both ends can be sent.
    fn pay(&mut self, now: Instant, slot: u16) {
        let owed: Vec<u16> = self.slots[usize::from(slot)].owed.iter().copied().collect();
        for other in owed {
            if !self.has_room(slot) {
                break;
            }
            if self.has_room(other) {
                self.pair(now, slot, other);
            }
        }
    }

    fn has_room(&mut self, slot: u16) -> bool {
        self.up(slot).is_some_and(|up| up.queued_links < QUEUED_LINKS_MAX)
    }

    fn pair(&mut self, now: Instant, one: u16, other: u16) {
        self.links += 1;
        let number = self.links;
        self.linked.insert(both(one, other), Linked { number, at: now });
        self.slots[usize::from(one)].owed.remove(&other);
        self.slots[usize::from(other)].owed.remove(&one);
        self.outputs.push_back(Output::Pair { one, other, number });
        for (slot, peer) in [(one, other), (other, one)] {
            if let Some(up) = self.up(slot) {
                up.queued_links += 1;
                up.initial.remove(&peer);
            }
            self.begin(slot);
        }
    }

    fn link_lost(&mut self, now: Instant, slot: u16, to: u16, number: u64) {
        if self.is_ending() || slot == to || self.up(slot).is_none() || self.up(to).is_none() {
            return;
        }
        // The other end may have told first, and this end means the link before.
        let Some(linked) = self.linked.get(&both(slot, to)).filter(|it| it.number == number) else {
            return;
        };
        let due = linked.at + self.limits.relink_pause;
        if self.slots[usize::from(slot)].owed.contains(&to)
            || self.delayed.contains_key(&both(slot, to))
        {
            return;
        }
        self.told(Told::Relinked { one: slot, other: to });
        if due <= now {
            self.owe(slot, to);
            self.pay(now, slot);
        } else {
            self.delayed.insert(both(slot, to), due);
        }
    }

    fn fail(&mut self, slot: u16, how: Failure) {
        self.told(Told::Failed { slot, how });
        self.kill_all();
    }

    fn stop(&mut self, now: Instant) {
        if self.is_ending() {
            return;
        }
        self.phase = Phase::Draining { until: now + self.limits.drain_timeout };
        self.told(Told::Draining);
        self.start_no_more();
        for slot in self.numbers() {
            self.slots[usize::from(slot)].owed.clear();
            if self.up(slot).is_some() {
                self.outputs.push_back(Output::Drain(slot));
            }
        }
    }

    fn start_no_more(&mut self) {
        self.delayed.clear();
        self.outputs.retain(|output| !matches!(output, Output::Start(_)));
        for slot in &mut self.slots {
            if !matches!(slot.state, State::Up(_)) {
                slot.state = State::Gone;
            }
        }
    }

    fn kill(&mut self) {
        if self.phase == Phase::Killing {
            return;
        }
        for slot in self.kill_all() {
            self.killed += 1;
            self.told(Told::Killed { slot });
        }
    }

    fn kill_all(&mut self) -> Vec<u16> {
        self.phase = Phase::Killing;
        self.start_no_more();
        let mut killed = Vec::new();
        for slot in self.numbers() {
            self.slots[usize::from(slot)].owed.clear();
            if self.up(slot).is_some() {
                self.outputs.push_back(Output::Kill(slot));
                killed.push(slot);
            }
        }
        killed
    }

    fn tick(&mut self, now: Instant) {
        match self.phase {
            Phase::Draining { until } if until <= now => return self.kill(),
            Phase::Draining { .. } | Phase::Killing => return,
            Phase::Starting | Phase::Serving => {}
        }
        for slot in self.numbers() {
            match &self.slots[usize::from(slot)].state {
                State::Resting { until } if *until <= now => {
                    self.slots[usize::from(slot)].state = State::Starting;
                    self.outputs.push_back(Output::Start(slot));
                }
                State::Up(up)
                    if !up.is_ready
                        && !up.is_killed
                        && up.since + self.limits.ready_timeout <= now =>
                {
                    self.late(slot);
                }
                State::Resting { .. } | State::Up(_) | State::Starting | State::Gone => {}
            }
        }
        self.tick_links(now);
    }

    /// Not ready in time.
    fn late(&mut self, slot: u16) {
        if self.is_ending() {
            return;
        }
        self.told(Told::NotReady { slot });
        if self.phase == Phase::Starting && self.slots[usize::from(slot)].lives == 1 {
            return self.fail(slot, Failure::NotReady);
        }
        self.outputs.push_back(Output::Kill(slot));
        if let Some(up) = self.up(slot) {
            up.is_killed = true;
        }
    }

    fn tick_links(&mut self, now: Instant) {
        let due: Vec<_> =
            self.delayed.iter().filter(|(_, at)| **at <= now).map(|(&both, _)| both).collect();
        for (one, other) in due {
            self.delayed.remove(&(one, other));
            if self.up(one).is_some() && self.up(other).is_some() {
                self.owe(one, other);
                self.pay(now, one);
            }
        }
    }
}

fn both(one: u16, other: u16) -> (u16, u16) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests;
