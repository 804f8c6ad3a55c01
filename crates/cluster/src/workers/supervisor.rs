//! The supervisor's decisions, without I/O: when to start, link and kill workers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use watchfire_types::Instant;

use self::heartbeats::{Change, Heartbeats};
pub(crate) use self::links::QUEUED_LINKS_MAX;
use self::links::{Linked, ordered};
use crate::workers::plan::SupervisorLimits;

mod heartbeats;
mod links;

/// The pause after the system refused a pair of sockets.
const PAIR_RETRY_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Input {
    /// The process of [`Output::Start`] was started.
    Started(u16),
    /// The process could not be started.
    StartFailed(u16),
    Ready(u16),
    /// A worker's event loops run.
    Heartbeat(u16),
    /// A worker's process has ended.
    Ended(u16),
    /// A worker lost the link with this number.
    LinkLost {
        slot: u16,
        to: u16,
        number: u64,
    },
    /// A queued link was sent to this worker.
    Sent(u16),
    /// The sockets of [`Output::Pair`] could not be opened.
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
    /// Make a new link between these two.
    Pair {
        one: u16,
        other: u16,
        number: u64,
    },
    /// The setup of this worker is complete.
    Begin(u16),
    Drain(u16),
    Kill(u16),
    /// Tell all workers which ones do not respond.
    AnnounceUnresponsive,
    Event(Event),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
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
    StartFailed {
        slot: u16,
        restart_in: Duration,
    },
    NotReady {
        slot: u16,
    },
    Unresponsive {
        slot: u16,
    },
    Responsive {
        slot: u16,
    },
    Hung {
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
    /// The first start failed because of this worker. All workers are killed.
    Failed {
        slot: u16,
        how: Failure,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Failure {
    StartFailed,
    EndedBeforeReady,
    NotReady,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Some workers were not ready yet.
    Starting,
    Serving,
    Draining {
        until: Instant,
    },
    /// All running workers have been killed.
    Killing,
}

#[derive(Debug)]
enum State {
    RestartPending {
        until: Instant,
    },
    Starting,
    Up(Up),
    /// It will not be started again.
    Stopped,
}

#[derive(Debug)]
struct Up {
    since: Instant,
    /// Links that it needs before it begins.
    initial: BTreeSet<u16>,
    has_begun: bool,
    is_ready: bool,
    is_killed: bool,
    queued_links: u8,
}

#[derive(Debug)]
struct Slot {
    state: State,
    /// Workers to which it still needs a link; both are running.
    pending_links: BTreeSet<u16>,
    starts: u64,
    /// How often it was killed as hung.
    hangs: u64,
    short_runs: u32,
}

/// The state of all workers.
#[derive(Debug)]
pub(crate) struct Supervisor {
    limits: SupervisorLimits,
    slots: Vec<Slot>,
    phase: Phase,
    /// The newest link of each pair, the lower slot first.
    linked: BTreeMap<(u16, u16), Linked>,
    /// Links that become pending at this time.
    delayed: BTreeMap<(u16, u16), Instant>,
    heartbeats: Heartbeats,
    links: u64,
    restarts: u64,
    killed: u16,
    outputs: VecDeque<Output>,
}

impl Supervisor {
    pub fn new(workers: u16, limits: SupervisorLimits) -> Supervisor {
        let slot = || Slot {
            state: State::Starting,
            pending_links: BTreeSet::new(),
            starts: 0,
            hangs: 0,
            short_runs: 0,
        };
        Supervisor {
            heartbeats: Heartbeats::new(workers, &limits),
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

    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Workers that were killed after the stop.
    pub fn killed(&self) -> u16 {
        self.killed
    }

    pub fn restarts_of(&self, slot: u16) -> u64 {
        self.slots[usize::from(slot)].starts.saturating_sub(1)
    }

    pub fn starts_of(&self, slot: u16) -> u64 {
        self.slots[usize::from(slot)].starts
    }

    /// How often this slot's worker was killed as hung.
    pub fn hangs_of(&self, slot: u16) -> u64 {
        self.slots[usize::from(slot)].hangs
    }

    /// The slots of workers that do not respond.
    pub fn unresponsive(&self) -> impl Iterator<Item = u16> {
        self.heartbeats.unresponsive()
    }

    /// Whether no worker is left and none will be started.
    pub fn is_over(&self) -> bool {
        self.is_ending()
            && self
                .slots
                .iter()
                .all(|slot| matches!(slot.state, State::Stopped | State::RestartPending { .. }))
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
            State::RestartPending { until } => Some(*until),
            State::Up(up) if !up.is_ready && !up.is_killed => {
                Some(up.since + self.limits.ready_timeout)
            }
            State::Up(_) | State::Starting | State::Stopped => None,
        });
        of_slots.chain(self.delayed.values().copied()).chain(self.heartbeats.next_check()).min()
    }

    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Started(slot) => self.started(now, slot),
            Input::StartFailed(slot) => self.not_started(now, slot),
            Input::Ready(slot) => self.ready(now, slot),
            Input::Heartbeat(slot) => self.heartbeat(now, slot),
            Input::Ended(slot) => self.ended(now, slot),
            Input::LinkLost { slot, to, number } => self.link_lost(now, slot, to, number),
            Input::Sent(slot) => {
                if let Some(up) = self.up(slot) {
                    up.queued_links = up.queued_links.saturating_sub(1);
                    self.send_pending(now, slot);
                }
            }
            Input::NotPaired { one, other } => {
                for slot in [one, other] {
                    if let Some(up) = self.up(slot) {
                        up.queued_links = up.queued_links.saturating_sub(1);
                    }
                }
                self.delayed.insert(ordered(one, other), now + PAIR_RETRY_PAUSE);
            }
            Input::Stop => self.stop(now),
            Input::Kill => self.kill(),
            Input::Tick => self.tick(now),
        }
    }

    fn up(&mut self, slot: u16) -> Option<&mut Up> {
        match &mut self.slots.get_mut(usize::from(slot))?.state {
            State::Up(up) => Some(up),
            State::RestartPending { .. } | State::Starting | State::Stopped => None,
        }
    }

    fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. } | Phase::Killing)
    }

    fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
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
        this.starts += 1;
        self.restarts += u64::from(this.starts > 1);
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
                self.add_pending_link(slot, other);
            }
        }
        self.begin(slot);
        self.send_pending(now, slot);
    }

    fn not_started(&mut self, now: Instant, slot: u16) {
        let is_first = self.slots[usize::from(slot)].starts == 0;
        self.stop_waiting_for(slot);
        if is_first && self.phase == Phase::Starting {
            self.slots[usize::from(slot)].state = State::Stopped;
            self.fail(slot, Failure::StartFailed);
        } else {
            let restart_in = self.schedule_restart(now, slot, Duration::ZERO);
            self.emit(Event::StartFailed { slot, restart_in });
        }
    }

    fn ready(&mut self, now: Instant, slot: u16) {
        let Some(up) = self.up(slot) else { return };
        if std::mem::replace(&mut up.is_ready, true) {
            return;
        }
        let after = now.since(up.since);
        if !self.is_ending() {
            self.heartbeats.watch(now, slot);
        }
        self.emit(Event::Ready { slot, after });
        let is_ready = |slot: &Slot| matches!(&slot.state, State::Up(up) if up.is_ready);
        if self.phase == Phase::Starting && self.slots.iter().all(is_ready) {
            self.phase = Phase::Serving;
            self.emit(Event::AllReady);
        }
    }

    fn ended(&mut self, now: Instant, slot: u16) {
        let Some(up) = self.up(slot) else { return };
        let (after, was_ready) = (now.since(up.since), up.is_ready);
        let is_first = self.slots[usize::from(slot)].starts == 1;
        self.forget(slot);
        if self.is_ending() {
            self.slots[usize::from(slot)].state = State::Stopped;
            self.emit(Event::Ended { slot, after, restart_in: None });
        } else if is_first && !was_ready && self.phase == Phase::Starting {
            self.slots[usize::from(slot)].state = State::Stopped;
            self.emit(Event::Ended { slot, after, restart_in: None });
            self.fail(slot, Failure::EndedBeforeReady);
        } else {
            let restart_in = Some(self.schedule_restart(now, slot, after));
            self.emit(Event::Ended { slot, after, restart_in });
        }
        self.stop_waiting_for(slot);
    }

    fn heartbeat(&mut self, now: Instant, slot: u16) {
        if self.heartbeats.heard(now, slot) {
            self.emit(Event::Responsive { slot });
            self.outputs.push_back(Output::AnnounceUnresponsive);
        }
    }

    /// Handles workers that no longer respond.
    fn check_heartbeats(&mut self, now: Instant) {
        for change in self.heartbeats.check(now) {
            match change {
                Change::Unresponsive(slot) => {
                    self.emit(Event::Unresponsive { slot });
                    self.outputs.push_back(Output::AnnounceUnresponsive);
                }
                Change::Hung(slot) => {
                    self.slots[usize::from(slot)].hangs += 1;
                    self.emit(Event::Hung { slot });
                    self.outputs.push_back(Output::AnnounceUnresponsive);
                    self.outputs.push_back(Output::Kill(slot));
                    if let Some(up) = self.up(slot) {
                        up.is_killed = true;
                    }
                }
            }
        }
    }

    /// Forgets the links and heartbeats of a worker that ended.
    fn forget(&mut self, slot: u16) {
        if self.heartbeats.forget(slot) {
            self.outputs.push_back(Output::AnnounceUnresponsive);
        }
        for other in std::mem::take(&mut self.slots[usize::from(slot)].pending_links) {
            self.slots[usize::from(other)].pending_links.remove(&slot);
        }
        self.delayed.retain(|&(one, other), _| one != slot && other != slot);
        self.linked.retain(|&(one, other), _| one != slot && other != slot);
    }

    /// Schedules a restart; returns the pause.
    fn schedule_restart(&mut self, now: Instant, slot: u16, run_time: Duration) -> Duration {
        let this = &mut self.slots[usize::from(slot)];
        if run_time >= self.limits.restart_pause_reset_after {
            this.short_runs = 0;
        }
        let factor = 1u32.checked_shl(this.short_runs).unwrap_or(u32::MAX);
        let pause =
            self.limits.restart_pause.saturating_mul(factor).min(self.limits.restart_pause_max);
        this.short_runs = this.short_runs.saturating_add(1);
        this.state = State::RestartPending { until: now + pause };
        pause
    }

    fn stop_waiting_for(&mut self, gone: u16) {
        for slot in self.numbers() {
            if let Some(up) = self.up(slot) {
                up.initial.remove(&gone);
                self.begin(slot);
            }
        }
    }

    /// Lets a worker begin if it has all its links.
    fn begin(&mut self, slot: u16) {
        if self.is_ending() {
            return;
        }
        let Some(up) = self.up(slot) else { return };
        if up.initial.is_empty() && !std::mem::replace(&mut up.has_begun, true) {
            self.outputs.push_back(Output::Begin(slot));
        }
    }

    fn fail(&mut self, slot: u16, how: Failure) {
        self.emit(Event::Failed { slot, how });
        self.kill_all();
    }

    fn stop(&mut self, now: Instant) {
        if self.is_ending() {
            return;
        }
        self.phase = Phase::Draining { until: now + self.limits.drain_timeout };
        self.emit(Event::Draining);
        self.heartbeats.forget_all();
        self.cancel_starts();
        for slot in self.numbers() {
            self.slots[usize::from(slot)].pending_links.clear();
            if self.up(slot).is_some() {
                self.outputs.push_back(Output::Drain(slot));
            }
        }
    }

    fn cancel_starts(&mut self) {
        self.delayed.clear();
        self.outputs.retain(|output| !matches!(output, Output::Start(_)));
        for slot in &mut self.slots {
            if !matches!(slot.state, State::Up(_)) {
                slot.state = State::Stopped;
            }
        }
    }

    fn kill(&mut self) {
        if self.phase == Phase::Killing {
            return;
        }
        for slot in self.kill_all() {
            self.killed += 1;
            self.emit(Event::Killed { slot });
        }
    }

    fn kill_all(&mut self) -> Vec<u16> {
        self.phase = Phase::Killing;
        self.heartbeats.forget_all();
        self.cancel_starts();
        let mut killed = Vec::new();
        for slot in self.numbers() {
            self.slots[usize::from(slot)].pending_links.clear();
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
                State::RestartPending { until } if *until <= now => {
                    self.slots[usize::from(slot)].state = State::Starting;
                    self.outputs.push_back(Output::Start(slot));
                }
                State::Up(up)
                    if !up.is_ready
                        && !up.is_killed
                        && up.since + self.limits.ready_timeout <= now =>
                {
                    self.not_ready(slot);
                }
                State::RestartPending { .. } | State::Up(_) | State::Starting | State::Stopped => {}
            }
        }
        self.tick_links(now);
        self.check_heartbeats(now);
    }

    /// Handles a worker that was not ready in time.
    fn not_ready(&mut self, slot: u16) {
        if self.is_ending() {
            return;
        }
        self.emit(Event::NotReady { slot });
        if self.phase == Phase::Starting && self.slots[usize::from(slot)].starts == 1 {
            return self.fail(slot, Failure::NotReady);
        }
        self.outputs.push_back(Output::Kill(slot));
        if let Some(up) = self.up(slot) {
            up.is_killed = true;
        }
    }
}

#[cfg(test)]
mod tests;
