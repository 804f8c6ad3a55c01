//! The progress of a run on a terminal: a bar for each node where there is room, and one line for all otherwise.

use std::io;
use std::time::{Duration, Instant};

use watchfire_lab::{NodeProgress, NodeState, Progress, Turn};

use crate::live_lines::{LiveLines, rows_of_terminal};
use crate::progress::ProgressLine;

/// Most nodes with a bar of their own.
const NODES_MAX: usize = 20;
/// Rows beside those of the nodes: the line about the run, and one below.
const OTHER_ROWS: usize = 3;
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
const NAME_CHARS: usize = 20;
const BAR_CHARS: usize = 30;
/// Cells of the bar of a run.
const LINE_CHARS: usize = 32;

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
            return self.line.show_text(|_| text(turn, progress, LINE_CHARS));
        }
        if self.drawn_at.is_some_and(|at| at.elapsed() < REDRAW_INTERVAL) {
            return;
        }
        self.line.clear();
        self.drawn_at = Some(Instant::now());
        let mut lines = vec![text(turn, progress, LINE_CHARS)];
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

/// The progress of a run in one line, with a bar of so many cells.
pub fn text(turn: Turn<'_>, progress: Progress<'_>, cell_count: usize) -> String {
    let Turn { trial, done, runs, is_warm_up, .. } = turn;
    let run = done + 1;
    let warm_up = if is_warm_up { ", warm-up" } else { "" };
    let head = format!("{run} of {runs}{warm_up}: {trial}, {}  ", progress.phase);
    let Progress { now, part, finished, awaited, .. } = progress;
    let (bar, percent, at) = (cells(part, cell_count), part * 100.0, now.as_secs_f64());
    format!("{head}{bar} {percent:>5.1} %  at {at:.2} s  {finished} of {awaited} have it all")
}

fn cells(part: f64, count: usize) -> String {
    let full = (part.clamp(0.0, 1.0) * count as f64) as usize;
    "█".repeat(full) + &"░".repeat(count - full)
}

fn bar(node: &NodeProgress<'_>) -> String {
    let name: String = node.name.chars().take(NAME_CHARS).collect();
    let bar = cells(node.part, BAR_CHARS);
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
    fn a_line_shows_the_progress_of_a_run() {
        let results = &watchfire_lab::Results::default();
        let turn = Turn { trial: "a run", repeat: 0, is_warm_up: false, done: 0, runs: 2, results };
        let now = Duration::from_millis(2500);
        let nodes = &[];
        let progress =
            Progress { phase: "simulates", now, part: 0.5, finished: 3, awaited: 8, nodes };
        let line = text(turn, progress, LINE_CHARS);
        assert!(line.starts_with("1 of 2: a run, simulates  █"), "{line}");
        assert_eq!(line.matches('█').count(), LINE_CHARS / 2);
        assert!(line.ends_with(" 50.0 %  at 2.50 s  3 of 8 have it all"), "{line}");
    }

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
