//! The dashboard of `watchfire lab run`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use watchfire_lab::{NodeProgress, NodeState, Progress, Turn};
use watchfire_report::units::number;

use super::{Bar, Chart, Dashboard, ERRORS_MAX, Line, State, Tile};

/// The time between two states.
const INTERVAL: Duration = Duration::from_millis(500);
const BARS_MAX: usize = 100;

/// Shows the run that is under way, and the errors of all.
pub struct LabDashboard {
    dashboard: Dashboard,
    name: String,
    errors: Vec<String>,
    run: Run,
    last: State,
    published_at: Option<Instant>,
}

/// The charts of one run.
#[derive(Default)]
struct Run {
    number: Option<u32>,
    part: Line,
    rate: Line,
    finished: Line,
    /// The time and the share of the last point.
    before: (f64, f64),
}

impl Run {
    fn new(number: u32) -> Run {
        Run {
            number: Some(number),
            part: Line::new("all awaited nodes"),
            rate: Line::new("all awaited nodes"),
            finished: Line::new("nodes"),
            before: (0.0, 0.0),
        }
    }

    fn note(&mut self, progress: &Progress<'_>) {
        let (seconds, part) = (progress.now.as_secs_f64(), progress.part);
        let (seconds_before, part_before) = self.before;
        if seconds <= seconds_before {
            return;
        }
        self.part.push(seconds, part);
        self.rate.push(seconds, ((part - part_before) / (seconds - seconds_before)).max(0.0));
        self.finished.push(seconds, progress.finished as f64);
        self.before = (seconds, part);
    }

    fn charts(&self) -> Vec<Chart> {
        vec![
            Chart::new("Share of their objects that nodes have", "share", &[&self.part]),
            Chart::new("Share that arrives in a second", "share", &[&self.rate]),
            Chart::new("Nodes that have everything", "number", &[&self.finished]),
        ]
    }
}

impl LabDashboard {
    pub fn start(address: SocketAddr, name: &str) -> anyhow::Result<LabDashboard> {
        let dashboard = Dashboard::start(address)?;
        Ok(LabDashboard {
            dashboard,
            name: name.to_owned(),
            errors: Vec::new(),
            run: Run::default(),
            last: State::default(),
            published_at: None,
        })
    }

    pub fn show(&mut self, turn: Turn<'_>, progress: Progress<'_>) {
        if self.run.number != Some(turn.done) {
            self.run = Run::new(turn.done);
        } else if self.published_at.is_some_and(|at| at.elapsed() < INTERVAL)
            && progress.finished < progress.awaited
        {
            return;
        }
        self.run.note(&progress);
        for node in progress.nodes {
            let Some(failure) = node.failure else { continue };
            let error = format!("run {}: {}: {failure}", turn.done + 1, node.name);
            if self.errors.len() < ERRORS_MAX && !self.errors.contains(&error) {
                self.errors.push(error);
            }
        }
        self.last = self.state(turn, progress);
        self.dashboard.publish(&self.last);
        self.published_at = Some(Instant::now());
    }

    fn state(&self, turn: Turn<'_>, progress: Progress<'_>) -> State {
        let Progress { phase, now, part, finished, awaited, nodes } = progress;
        let tile = |name, value| Tile { name, value };
        let warm_up = if turn.is_warm_up { " (warm-up)" } else { "" };
        State {
            title: self.name.clone(),
            phase: format!("{}: {phase}{warm_up}", turn.trial),
            part: (f64::from(turn.done) + part) / f64::from(turn.runs.max(1)),
            tiles: vec![
                tile("run", format!("{} of {}", turn.done + 1, turn.runs)),
                tile("time of this run", format!("{} s", number(now.as_secs_f64(), 1))),
                tile("nodes done", format!("{finished} of {awaited}")),
                tile("errors", self.errors.len().to_string()),
            ],
            charts: self.run.charts(),
            bars: nodes.iter().take(BARS_MAX).map(bar).collect(),
            bars_left_out: nodes.len().saturating_sub(BARS_MAX),
            errors: self.errors.clone(),
            is_over: false,
        }
    }

    /// Shows that all runs have ended, with the problems that they had.
    pub fn end(mut self, problems: impl Iterator<Item = String>) {
        self.errors.extend(problems.take(ERRORS_MAX));
        self.errors.truncate(ERRORS_MAX);
        let state = State {
            title: self.name,
            phase: "all runs have ended".to_owned(),
            part: 1.0,
            errors: self.errors,
            is_over: true,
            ..self.last
        };
        self.dashboard.publish(&state);
    }
}

fn bar(node: &NodeProgress<'_>) -> Bar {
    let state = match node.state {
        NodeState::Waits => "waits",
        NodeState::Shares => "shares",
        NodeState::Fetches => "fetches",
        NodeState::Done => "done",
        NodeState::Failed => "failed",
        NodeState::Left => "left",
    };
    let note = match node.state {
        NodeState::Fetches => format!("{} %", number(node.part * 100.0, 0)),
        _ => state.to_owned(),
    };
    Bar { name: node.name.to_owned(), part: node.part, state, note }
}
