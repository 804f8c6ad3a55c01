//! The dashboard of `watchfire lab run`.

use std::net::SocketAddr;

use watchfire_lab::{
    Experiment, NodeProgress, NodeResult, NodeState, Progress, Results, RunResult, Turn,
};

use super::{Dashboard, growing};

const PROBLEMS_MAX: usize = 20;
/// Nodes of the run under way that the page shows.
const NODES_MAX: usize = 100;
const POINTS_MAX: usize = 240;

/// Shows the report of the complete runs, and the run that is under way.
pub struct LabDashboard<'a> {
    dashboard: Dashboard,
    experiment: &'a Experiment,
    /// The number of the run under way, and its results so far.
    run: (Option<u32>, RunResult),
}

impl LabDashboard<'_> {
    pub fn start(address: SocketAddr, experiment: &Experiment) -> anyhow::Result<LabDashboard<'_>> {
        let dashboard = Dashboard::start(address, &experiment.name, None)?;
        Ok(LabDashboard { dashboard, experiment, run: (None, RunResult::default()) })
    }

    /// `text` says how far all runs are.
    pub fn show(&mut self, turn: Turn<'_>, progress: Progress<'_>, text: impl FnOnce() -> String) {
        let LabDashboard { dashboard, experiment, run: (number, run) } = self;
        dashboard.show(|| {
            if number.replace(turn.done) != Some(turn.done) {
                *run = RunResult { trial: turn.trial.to_owned(), ..RunResult::default() };
            }
            note(run, &progress);
            let report = turn.results.html(&experiment.name, &experiment.notes, Some(run));
            let part = (f64::from(turn.done) + progress.part) / f64::from(turn.runs.max(1));
            growing(&report, part, &text())
        });
    }

    pub fn end(self, results: &Results) {
        let Experiment { name, notes, .. } = self.experiment;
        self.dashboard.end(results.html(name, notes, None));
    }
}

/// Adds the progress of nodes to a run. Where the driver knows no nodes, all are one.
fn note(run: &mut RunResult, progress: &Progress<'_>) {
    let now = progress.now.as_secs_f64();
    let all = NodeProgress {
        name: "all awaited nodes",
        state: NodeState::Fetches,
        part: progress.part,
        failure: None,
    };
    let nodes = if progress.nodes.is_empty() { &[all][..] } else { progress.nodes };
    if run.nodes.first().is_none_or(|first| first.name != nodes[0].name) {
        let named = |node: &NodeProgress<'_>| NodeResult {
            name: node.name.to_owned(),
            ..NodeResult::default()
        };
        run.nodes = nodes.iter().take(NODES_MAX).map(named).collect();
    }
    for (result, node) in run.nodes.iter_mut().zip(nodes) {
        result.is_seeder = node.state == NodeState::Shares;
        result.is_awaited = !result.is_seeder;
        if result.is_awaited && result.finished_at.is_none() {
            push(&mut result.progress, (now, node.part));
        }
        if node.state == NodeState::Done {
            result.finished_at.get_or_insert(now);
        }
    }
    let failures =
        nodes.iter().filter_map(|node| Some(format!("{}: {}", node.name, node.failure?)));
    run.problems = failures.take(PROBLEMS_MAX).collect();
}

/// Adds a point. A line that is full keeps every second point, so a run of a day has one in six minutes.
fn push(points: &mut Vec<(f64, f64)>, point: (f64, f64)) {
    if points.len() >= POINTS_MAX {
        let mut keeps = false;
        points.retain(|_| {
            keeps = !keeps;
            keeps
        });
    }
    points.push(point);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_that_is_full_keeps_every_second_point() {
        let mut points = Vec::new();
        for second in 0..1000 {
            push(&mut points, (f64::from(second), 1.0));
        }
        assert!(points.len() <= POINTS_MAX, "{}", points.len());
        assert_eq!(points.first(), Some(&(0.0, 1.0)));
        assert_eq!(points.last(), Some(&(999.0, 1.0)));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn the_run_under_way_has_the_progress_and_the_failures_of_its_nodes() {
        let node = |name, state, part| NodeProgress { name, state, part, failure: None };
        let mut run = RunResult::default();
        let mut at = |seconds, nodes: &[NodeProgress<'_>]| {
            let now = Duration::from_secs(seconds);
            let progress =
                Progress { phase: "fetches", now, part: 0.5, finished: 0, awaited: 2, nodes };
            note(&mut run, &progress);
            run.clone()
        };
        let early = at(0, &[]);
        assert_eq!(early.nodes[0].name, "all awaited nodes");
        at(1, &[node("source", NodeState::Shares, 1.0), node("one", NodeState::Fetches, 0.5)]);
        let failed =
            NodeProgress { failure: Some("no log"), ..node("source", NodeState::Failed, 1.0) };
        let last = at(2, &[failed, node("one", NodeState::Done, 1.0)]);
        assert_eq!(last.nodes[1].progress, [(1.0, 0.5), (2.0, 1.0)]);
        assert_eq!(last.nodes[1].finished_at, Some(2.0));
        assert_eq!(last.problems, ["source: no log"]);
    }
}
