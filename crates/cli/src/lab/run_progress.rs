//! The progress of a run on a terminal: a bar for each node where there is room, and one line for all otherwise.

use std::io;
use std::time::{Duration, Instant};

use watchfire_lab::{NodeProgress, NodeState, Progress, Turn};

use super::simulation;
use crate::live_lines::{LiveLines, rows_of_terminal};
use crate::progress::ProgressLine;

/// Most nodes with a bar of their own.
const NODES_MAX: usize = 20;
/// Rows beside those of the nodes: the line about the run, and one below.
const OTHER_ROWS: usize = 3;
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
const NAME_CHARS: usize = 20;
const BAR_CHARS: usize = 30;

/// The progress of runs in the terminal. It is removed when this is dropped.
pub struct RunProgress {
    line: ProgressLine,
    lines: LiveLines,
    drawn_at: Option<Instant>,
}

impl RunProgress {
    pub fn start() -> Self {
        RunProgress {
            line: ProgressLine::start(false),
            lines: LiveLines::default(),
            drawn_at: None,
        }
    }

    pub fn show(&mut self, turn: Turn<'_>, progress: Progress<'_>) {
        if !self.line.is_seen() {
            return;
        }
        let count = progress.nodes.len();
        let has_room = (2..=NODES_MAX).contains(&count) && rows_of_terminal() >= count + OTHER_ROWS;
        if !has_room {
            self.clear_lines();
            return self.line.show_text(|_| text(turn, progress));
        }
        if self.drawn_at.is_some_and(|at| at.elapsed() < REDRAW_INTERVAL) {
            return;
        }
        self.line.clear();
        self.drawn_at = Some(Instant::now());
        let mut lines = vec![text(turn, progress)];
        lines.extend(progress.nodes.iter().map(bar));
        // The runs go on when the terminal is closed.
        let _ = self.lines.draw(&lines, &mut io::stderr());
    }

    fn clear_lines(&mut self) {
        if self.drawn_at.take().is_some() {
            let _ = self.lines.clear(&mut io::stderr());
        }
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        self.clear_lines();
    }
}

fn text(turn: Turn<'_>, progress: Progress<'_>) -> String {
    let Turn { trial, done, runs, is_warm_up, .. } = turn;
    let run = done + 1;
    let warm_up = if is_warm_up { ", warm-up" } else { "" };
    let name = format!("{run} of {runs}{warm_up}: {trial}, {}", progress.phase);
    let Progress { now, part, finished, awaited, .. } = progress;
    simulation::progress_text(&name, watchfire_sim::Progress { now, part, finished, awaited })
}

fn bar(node: &NodeProgress<'_>) -> String {
    let name: String = node.name.chars().take(NAME_CHARS).collect();
    let full = (node.part.clamp(0.0, 1.0) * BAR_CHARS as f64) as usize;
    let bar = "█".repeat(full) + &"░".repeat(BAR_CHARS - full);
    match (node.state, node.failure) {
        (NodeState::Shares, _) => format!("{name:<NAME_CHARS$}  shares"),
        (NodeState::Waits, _) => format!("{name:<NAME_CHARS$}  waits"),
        (NodeState::Fetches, _) => {
            format!("{name:<NAME_CHARS$}  {bar} {:>3.0} %", (node.part * 100.0).floor())
        }
        (NodeState::Done, _) => format!("{name:<NAME_CHARS$}  {bar} done"),
        (NodeState::Left, _) => format!("{name:<NAME_CHARS$}  {bar} left"),
        (NodeState::Failed, failure) => {
            let first = failure.and_then(|text| text.lines().next()).unwrap_or_default();
            format!("{name:<NAME_CHARS$}  {bar} failed: {first}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_the_state_of_a_node() {
        let node =
            NodeProgress { name: "peers-1", state: NodeState::Fetches, part: 0.5, failure: None };
        let line = bar(&node);
        assert_eq!((line.matches('█').count(), line.ends_with(" 50 %")), (BAR_CHARS / 2, true));
        let failed = NodeProgress { state: NodeState::Failed, failure: Some("no\nlog"), ..node };
        assert!(bar(&failed).ends_with(" failed: no"));
        assert_eq!(
            bar(&NodeProgress { state: NodeState::Shares, ..node }).trim_end(),
            "peers-1               shares"
        );
    }
}
