//! The clock of a run: all that happens to its nodes while it runs.

use std::time::{Duration, Instant, SystemTime};

use super::load::Load;
use crate::definition::TrialPlan;
use crate::drivers::driver::{NodeProgress, Progress};
use crate::drivers::processes::host::Network;
use crate::drivers::processes::nodes::{TrialNode, advance};
use crate::drivers::processes::program::Program;
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
    pub fn start(plan: &TrialPlan, order: Vec<usize>, nodes: &mut [TrialNode<'_>]) -> Clock {
        nodes.iter_mut().for_each(TrialNode::note_start);
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
        nodes: &mut [TrialNode<'_>],
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
                advance(nodes, *index, programs[*index].as_ref(), now);
            }
            let awaited: Vec<&TrialNode<'_>> =
                nodes.iter().filter(|node| node.result.is_awaited).collect();
            let finished = awaited.iter().filter(|node| node.result.finished_at.is_some()).count();
            let sum: f64 = awaited.iter().map(|node| node.part()).sum();
            let (part, awaited) = (sum / awaited.len().max(1) as f64, awaited.len());
            let each: Vec<NodeProgress<'_>> = nodes.iter().map(TrialNode::progress).collect();
            watch(Progress { phase, now, part, finished, awaited, nodes: &each });
            let has_users = load.as_mut().is_some_and(|load| load.is_pending());
            let is_over = now >= self.time_max || is_interrupted();
            if is_over || !(has_users || nodes.iter().any(TrialNode::is_pending)) {
                return now;
            }
            std::thread::sleep(INTERVAL);
        }
    }
}
