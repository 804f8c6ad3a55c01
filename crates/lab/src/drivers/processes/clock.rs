//! The clock of a run: all that happens to its nodes while it runs.

use std::time::{Duration, Instant, SystemTime};

use super::live::Live;
use super::load::Load;
use super::network::Network;
use super::programs::Program;
use super::{NodeProgress, Progress};
use crate::definition::TrialPlan;
use crate::interruption::is_interrupted;
use crate::machine::OtherPrograms;

/// The interval in which the nodes are looked at.
const INTERVAL: Duration = Duration::from_millis(10);

/// The clock of a run.
pub struct Clock {
    /// The order in which nodes begin.
    order: Vec<usize>,
    started_at: Instant,
    pub started_at_unix: SystemTime,
    /// `None` where the kernel has no such counters.
    other_programs: Option<OtherPrograms>,
    time_max: Duration,
}

impl Clock {
    pub fn start(plan: &TrialPlan, order: Vec<usize>, nodes: &mut [Live<'_>]) -> Clock {
        for live in nodes.iter_mut() {
            live.cpu_before = live.usage().cpu;
            live.parts_before = live.parts();
        }
        let other_programs = OtherPrograms::start().ok();
        let (started_at, started_at_unix) = (Instant::now(), SystemTime::now());
        Clock { order, started_at, started_at_unix, other_programs, time_max: plan.time_max }
    }

    /// The share of the machine's CPU time that other programs have used since the start.
    pub fn noise(&self) -> Option<f64> {
        self.other_programs.as_ref()?.share_of_run()
    }

    /// Times before the clock started, in its seconds.
    pub fn before(&self, (from, to): (Instant, Instant)) -> [f64; 2] {
        [from, to].map(|at| -self.started_at.saturating_duration_since(at).as_secs_f64())
    }

    /// Runs until no awaited node is pending, or until the time limit. Returns the time that it took.
    pub fn run(
        &self,
        nodes: &mut [Live<'_>],
        programs: &[Box<dyn Program>],
        network: &Network,
        mut load: Option<&mut Load>,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Duration {
        let phase = if load.is_some() { "runs users" } else { "fetches" };
        loop {
            let now = self.started_at.elapsed();
            for index in &self.order {
                nodes[*index].change_link(network, now);
                step(nodes, *index, programs[*index].as_ref(), now);
            }
            let awaited = nodes.iter().filter(|live| live.result.is_awaited);
            let (mut part, mut finished, mut count) = (0.0, 0, 0);
            for live in awaited {
                count += 1;
                finished += usize::from(live.result.finished_at.is_some());
                part += live.result.progress.last().map_or(0.0, |(_, share)| *share);
            }
            let part = part / count.max(1) as f64;
            let each: Vec<NodeProgress<'_>> = nodes.iter().map(Live::progress).collect();
            watch(Progress { phase, now, part, finished, awaited: count, nodes: &each });
            let has_users = load.as_mut().is_some_and(|load| load.is_pending());
            let is_over = now >= self.time_max || is_interrupted();
            if is_over || !(has_users || nodes.iter().any(Live::is_pending)) {
                return now;
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Does all that is due for one node.
fn step(nodes: &mut [Live<'_>], index: usize, program: &dyn Program, now: Duration) {
    let live = &mut nodes[index];
    let leaves = live.plan.leaves_at.is_some_and(|at| at <= now);
    if leaves && !live.has_left && !live.has_returned {
        live.has_left = true;
        live.result.left_at = Some(now.as_secs_f64());
        if let Some(node) = &mut live.node {
            node.kill();
        }
    }
    let returns = live.plan.returns_at.is_some_and(|at| at <= now);
    // A busy machine may notice only now that it left and should be back, before it has arrived.
    if live.has_left && returns && !live.tickets.is_empty() {
        live.has_left = false;
        live.has_returned = true;
        live.result.left_at = None;
        live.has_arrived = false;
        live.is_starting = true;
        live.prepare(program);
    }
    if (live.has_left && !returns) || live.result.failure.is_some() {
        return;
    }
    if live.is_starting {
        live.is_starting = !live.is_ready();
    }
    if live.is_starting {
        return;
    }
    let is_due = live.plan.arrives_at <= now || live.plan.returns_at.is_some_and(|at| at <= now);
    if !live.has_arrived && is_due {
        live.has_arrived = true;
        let dials: Vec<String> = nodes[index]
            .dials
            .iter()
            .filter(|other| !nodes[**other].has_left)
            .filter_map(|other| nodes[*other].node.as_ref()?.address())
            .collect();
        let live = &mut nodes[index];
        if let Some(Err(error)) = live.node.as_mut().map(|node| node.fetch(&dials)) {
            live.fail(&error);
        }
    }
    let live = &mut nodes[index];
    if live.result.failure.is_some() || (live.result.finished_at.is_some() && live.has_left) {
        return;
    }
    let total_bytes = live.tickets.iter().map(|ticket| ticket.bytes).sum();
    match live.node.as_mut().filter(|_| live.has_arrived).map(|node| node.poll()) {
        Some(Ok(status)) if !live.tickets.is_empty() => {
            live.note_progress(now, status, total_bytes)
        }
        Some(Err(error)) => live.fail(&error),
        _ => {}
    }
}
