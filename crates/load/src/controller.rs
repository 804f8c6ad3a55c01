//! A load that runs: divides the arrivals among its workers, collects their results, and obeys the user.
//!
//! # Agents that come and go
//!
//! Agents may join at the controller's port while the load runs, and leave. Each is one worker. From a moment
//! on, all share the arrivals anew (`plan.rs`). The users that an agent has when it leaves are cut off. Those of an agent
//! that is lost are cut off too, and those that it should have started until the others share its arrivals are counted as due:
//! they are missing in the results. While no agent is left, the schedule stands still.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use crate::agent::Arrived;
use crate::clock::{Clock, monotonic};
use crate::engine::{Engine, Inbox, StopFlag};
use crate::phases::Announcer;
use crate::plan::{Plan, Planner, Share};
use crate::results::{Results, WorkerState};
use crate::scenario::Scenario;
use crate::worker::WORKERS_MAX;
use crate::workers::{Link, Worker, WorkerEvent};

/// Delay from the time all workers are ready to the first arrival, so that all begin together.
const BEGIN_DELAY: Duration = Duration::from_millis(20);
/// Additional delay per worker, because each must be scheduled on a core first.
const BEGIN_DELAY_EACH: Duration = Duration::from_millis(2);
/// Longest time until a stopped load ends, and until a change of it is noticed.
const STOP_LATENCY: Duration = Duration::from_millis(100);

/// A change of a load that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// No more users arrive. Active ones go on.
    Pause,
    Resume,
    /// All rates are this many times those of the scenario.
    Scale(f64),
    /// As [`StopFlag::set`].
    End,
}

/// The range of [`Control::Scale`].
const SCALES: RangeInclusive<f64> = 0.01..=100.0;

impl FromStr for Control {
    type Err = String;

    fn from_str(text: &str) -> Result<Control, String> {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("pause", "") => Ok(Control::Pause),
            ("resume", "") => Ok(Control::Resume),
            ("end", "") => Ok(Control::End),
            ("scale", factor) => {
                let scale = factor.parse().ok().filter(|scale| SCALES.contains(scale));
                scale.map(Control::Scale).ok_or_else(|| {
                    format!("cannot scale by {factor:?}: it needs a number from 0.01 to 100")
                })
            }
            _ => Err(format!("unknown control {text:?}: it is pause, resume, scale or end")),
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Control::Pause => f.write_str("pause"),
            Control::Resume => f.write_str("resume"),
            Control::Scale(scale) => write!(f, "scale {scale}"),
            Control::End => f.write_str("end"),
        }
    }
}

/// A load that runs.
pub(crate) struct Controller<'a> {
    scenario: &'a Scenario,
    planner: Planner<'a>,
    announcer: Announcer,
    pub(crate) results: Results,
    workers: Vec<Worker>,
    /// Workers that wait for the begin of the load.
    waiting: Vec<Link>,
    /// When the load began, on the monotonic clock.
    origin: Option<Duration>,
    /// Whether the user has paused the load, and the scale that the user has chosen.
    is_paused: bool,
    scale: f64,
    sender: Sender<(usize, WorkerEvent)>,
    events: Receiver<(usize, WorkerEvent)>,
    /// Agents that join, and how many the load needs to begin. `None`: none can join.
    admission: Option<(Receiver<Arrived>, usize)>,
}

impl<'a> Controller<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        results: Results,
        announcer: Announcer,
        admission: Option<(Receiver<Arrived>, usize)>,
    ) -> Controller<'a> {
        let (sender, events) = channel();
        Controller {
            scenario,
            planner: Planner::new(scenario),
            announcer,
            results,
            workers: Vec::new(),
            waiting: Vec::new(),
            origin: None,
            is_paused: false,
            scale: 1.0,
            sender,
            events,
            admission,
        }
    }

    /// Begins with one worker, a thread of this process.
    pub(crate) fn begin_here<'scope>(&mut self, scope: &'scope Scope<'scope, '_>, stop: &StopFlag)
    where
        'a: 'scope,
    {
        let origin = monotonic() + BEGIN_DELAY;
        let inbox = Inbox { stop: stop.clone(), ..Inbox::default() };
        let (scenario, sender, told) = (self.scenario, self.sender.clone(), inbox.clone());
        scope.spawn(move || {
            let engine = Engine::new(scenario, Plan::default(), Clock::from_origin(origin));
            let report = |delta| sender.send((0, WorkerEvent::Delta(Box::new(delta)))).is_ok();
            if let Err(error) = engine.and_then(|engine| engine.run(&told, report)) {
                // The receiver outlives this thread.
                let _ = sender.send((0, WorkerEvent::Broken(error.to_string())));
            }
        });
        self.results.add_worker("this process", 0);
        self.workers.push(Worker::here(inbox));
        self.origin = Some(origin);
    }

    /// Begins with these workers, and with others that are needed.
    pub(crate) fn wait_with(&mut self, links: Vec<Link>) {
        self.waiting = links;
    }

    /// Begins with the workers that wait, if they are enough.
    fn begin_if_ready(&mut self) {
        let count = self.waiting.len();
        let least = self.admission.as_ref().map_or(1, |(_, least)| (*least).max(1));
        if self.origin.is_some() || count < least {
            return;
        }
        let origin = monotonic() + BEGIN_DELAY + BEGIN_DELAY_EACH * count as u32;
        self.origin = Some(origin);
        for (index, link) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            self.add(link, Share { index, count });
        }
        if self.is_paused || self.scale != self.planner.scale() {
            self.divide(None);
        }
    }

    fn add(&mut self, link: Link, share: Share) {
        let now = self.now();
        let index = self.workers.len();
        self.results.add_worker(link.name(), now.as_secs() as usize);
        if self.admission.is_some() {
            self.results.add_event(now, "agent_joined", format!("{} joined", link.name()));
        }
        let plan = self.planner.plan_for(Some(share));
        let origin = self.origin.unwrap_or_default();
        self.workers.push(link.begin(index, plan, origin, &self.sender));
    }

    /// The time since the load began.
    fn now(&self) -> Duration {
        self.origin.map_or(Duration::ZERO, |origin| monotonic().saturating_sub(origin))
    }

    /// Divides the arrivals anew among the workers that run and this one that joins.
    fn divide(&mut self, joining: Option<Link>) {
        let now = self.now();
        let of_workers = self.results.by_worker.iter().enumerate();
        let running = of_workers.filter(|(_, worker)| worker.state == WorkerState::Running);
        let running: Vec<usize> = running.map(|(index, _)| index).collect();
        let count = running.len() + usize::from(joining.is_some());
        self.planner.change(now, self.scale);
        self.planner.set_paused(now, self.is_paused || count == 0);
        for (index, worker) in running.iter().enumerate() {
            self.workers[*worker].follow(self.planner.plan_for(Some(Share { index, count })));
        }
        if let Some(link) = joining {
            self.add(link, Share { index: running.len(), count });
        }
    }

    /// Collects the reports of all workers until the last one has ended.
    pub(crate) fn collect(
        &mut self,
        stop: &StopFlag,
        controls: Option<&Receiver<Control>>,
        watch: &mut impl FnMut(&Results),
    ) {
        // Agents that are awaited or lost report nothing.
        let mut has_news = self.admission.is_some();
        loop {
            let began = monotonic();
            self.take_arrived();
            controls.into_iter().flat_map(Receiver::try_iter).for_each(|one| self.obey(one, stop));
            self.begin_if_ready();
            if stop.is_set() && self.results.stopped_after.is_none() {
                self.results.stopped_after = Some(self.now());
                self.workers.iter_mut().for_each(Worker::stop);
            }
            self.note_schedule();
            if has_news {
                watch(&self.results);
            }
            self.results.controller_lateness.record(monotonic() - began);
            if self.is_over() {
                return;
            }
            let event = self.events.recv_timeout(self.patience());
            has_news = event.is_ok() || self.admission.is_some();
            if let Ok((worker, event)) = event {
                self.handle(worker, event);
            }
            if self.results.is_aborted {
                // The other workers end too.
                stop.set();
            }
        }
    }

    /// How long to wait for an event.
    fn patience(&self) -> Duration {
        let is_standing = self.planner.is_paused() || self.origin.is_none();
        let next = self.announcer.next_at().filter(|_| !is_standing);
        let left = next.map(|at| at.saturating_sub(self.planner.time(self.now())));
        left.map_or(STOP_LATENCY, |left| left.min(STOP_LATENCY))
    }

    fn is_over(&self) -> bool {
        let mut workers = self.results.by_worker.iter().map(|worker| worker.state);
        let has_ended = workers.clone().any(|state| state == WorkerState::Ended);
        let is_stopped = self.results.stopped_after.is_some();
        let ends = match (self.origin, &self.admission) {
            (None, _) => is_stopped,
            // After the last phase, an agent that joins would have nobody to start.
            (Some(_), Some(_)) => {
                is_stopped || has_ended || self.planner.phase(self.now()).is_none()
            }
            (Some(_), None) => true,
        };
        ends && !workers.any(WorkerState::is_active)
    }

    fn handle(&mut self, worker: usize, event: WorkerEvent) {
        match event {
            WorkerEvent::Delta(delta) => {
                self.results.add(worker, &delta);
                let state = self.results.by_worker[worker].state;
                if delta.is_leaving && state == WorkerState::Running {
                    self.results.by_worker[worker].state = WorkerState::Leaving;
                    self.divide(None);
                    self.workers[worker].follow(self.planner.plan_for(None));
                } else if state == WorkerState::Left {
                    let name = &self.results.by_worker[worker].name;
                    let cut_off = delta.counts.cut_off;
                    let text = format!("{name} left; {cut_off} of its users are cut off");
                    self.results.add_event(self.now(), "agent_left", text);
                }
            }
            WorkerEvent::Broken(cause) if self.admission.is_some() => self.lose(worker, &cause),
            WorkerEvent::Broken(cause) => self.results.add_broken(worker, &cause),
        }
    }

    /// Gives the arrivals of an agent that is gone to the others, and counts the users that are missing.
    fn lose(&mut self, worker: usize, cause: &str) {
        self.workers[worker].disconnect();
        let lost = &mut self.results.by_worker[worker];
        lost.state = WorkerState::Lost;
        let (name, reported, cut_off) = (lost.name.clone(), lost.reported(), lost.users);
        self.divide(None);
        // A load that is stopped starts nobody.
        let missing = match self.results.stopped_after {
            Some(_) => 0,
            None => self.planner.users_between(&self.workers[worker].plans, reported),
        };
        self.results.counts.cut_off += cut_off;
        self.results.counts.due += missing;
        let text =
            format!("{name} is lost ({cause}): {cut_off} users cut off, {missing} not started");
        self.results.add_event(self.now(), "agent_lost", text);
    }

    fn take_arrived(&mut self) {
        while let Some(arrived) =
            self.admission.as_ref().and_then(|(arrived, _)| arrived.try_recv().ok())
        {
            let states = self.results.by_worker.iter().map(|worker| worker.state);
            let has_ended = states.clone().any(|state| state == WorkerState::Ended);
            let is_ending = has_ended || self.results.stopped_after.is_some();
            match arrived {
                Arrived::Refused(cause) => {
                    let text = format!("a connection was refused: {cause}");
                    self.results.add_event(self.now(), "agent_refused", text);
                }
                // The agent reads that the connection has ended.
                Arrived::Joined(_) if is_ending || states.count() >= WORKERS_MAX => {}
                Arrived::Joined(link) if self.origin.is_none() => self.waiting.push(link),
                Arrived::Joined(link) => self.divide(Some(link)),
            }
        }
    }

    fn obey(&mut self, control: Control, stop: &StopFlag) {
        match control {
            Control::Pause => self.is_paused = true,
            Control::Resume => self.is_paused = false,
            Control::Scale(scale) => self.scale = scale,
            Control::End => stop.set(),
        }
        self.results.add_event(self.now(), "controlled", control.to_string());
        if self.origin.is_some() && control != Control::End {
            self.divide(None);
        }
    }

    /// Announces phases, and shows where the schedule is.
    fn note_schedule(&mut self) {
        let Some(now) = self.origin.and_then(|origin| monotonic().checked_sub(origin)) else {
            return;
        };
        let paused = self.planner.paused(now);
        self.announcer.announce(self.planner.time(now), paused);
        let schedule = &mut self.results.schedule;
        let phases = &self.scenario.phases;
        let phase = self.planner.phase(now);
        schedule.phase = phase.map(|at| (phases[at].name.clone(), at + 1, phases.len()));
        (schedule.scale, schedule.paused) = (self.planner.scale(), paused);
        schedule.is_paused = self.planner.is_paused();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_is_one_of_four_words_and_a_scale_has_a_bound() {
        for text in ["pause", "resume", "scale 0.5", "end"] {
            assert_eq!(text.parse::<Control>().unwrap().to_string(), text);
        }
        for text in ["", "stop", "pause 1", "scale", "scale 0", "scale NaN", "scale 101"] {
            assert!(text.parse::<Control>().is_err(), "{text}");
        }
    }
}
