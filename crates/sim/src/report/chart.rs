//! Completion over time: one line for each peer.

use watchfire_report::{Axis, Chart, Colour, Line, Marker, Panel, TickFormat};

use super::Report;
use crate::scenario::{Published, Run};
use crate::swarm::{Outcome, PeerOutcome};

/// Most lines of one panel. Of more peers, every n-th is drawn.
const LINES_MAX: usize = 64;
const POINTS_MAX: usize = 48;

/// The chart of all runs, with one panel for each.
pub(super) fn chart(report: &Report) -> Chart {
    let end = end(report);
    let panels = report.runs.iter().map(|run| panel(run, &report.scenario.published, end));
    Chart {
        label: format!("{}: share of the file that each peer has, over time", report.scenario.name),
        panels: panels.collect(),
        notes: vec!["Grey: the share of all uplinks that is in use.".to_owned()],
    }
}

fn panel((run, outcome): &(Run, Outcome), published: &[Published], end: f64) -> Panel {
    let is_drawn = |peer: &&PeerOutcome| !peer.is_seeder && !peer.received_at.is_empty();
    let peers: Vec<&PeerOutcome> = outcome.peers.iter().filter(is_drawn).collect();
    let step = peers.len().div_ceil(LINES_MAX).max(1);
    let drawn: Vec<&PeerOutcome> = peers.into_iter().step_by(step).collect();
    // More lines are more transparent, so that they stay visible where they overlap.
    let opacity = (8.0 / drawn.len().max(1) as f64).sqrt().clamp(0.2, 0.8);
    let mut lines: Vec<Line> = drawn
        .iter()
        .map(|peer| {
            let colour = if peer.is_awaited { Colour::Orange } else { Colour::Purple };
            Line { opacity, ..Line::left("", colour, completion(peer, outcome.blocks)) }
        })
        .collect();
    lines.push(Line::left("", Colour::Grey, uplink_use(outcome)));
    let marker = |name: String, colour, at| Marker { name, colour, is_on_x: true, at };
    let mut markers = vec![marker("bound".to_owned(), Colour::Green, outcome.bound.seconds())];
    markers.extend(published.iter().map(|one| {
        marker(format!("published: {}", one.name), Colour::Blue, one.time.as_secs_f64())
    }));
    Panel::Lines {
        title: run.name.clone(),
        x: Axis::up_to("seconds", end),
        left: Axis { step: Some(0.25), ..Axis::up_to("share of the file", 1.0) }
            .with_format(TickFormat::Percent),
        right: None,
        lines,
        markers,
    }
}

/// The share of the file that a peer has, each time that a block arrived.
fn completion(peer: &PeerOutcome, blocks: u32) -> Vec<(f64, f64)> {
    let step = peer.received_at.len().div_ceil(POINTS_MAX).max(1);
    let last = peer.received_at.len() - 1;
    let kept = peer.received_at.iter().enumerate().filter(|(at, _)| at % step == 0 || *at == last);
    let share = |at: usize| (at + 1) as f64 / f64::from(blocks);
    let start = (peer.arrived_at.as_secs_f64(), 0.0);
    let points = kept.map(|(at, received_at)| (received_at.as_secs_f64(), share(at)));
    std::iter::once(start).chain(points).collect()
}

fn uplink_use(outcome: &Outcome) -> Vec<(f64, f64)> {
    let uses = outcome.uplink_use.iter().map(|one| {
        let bytes = (one.seeder_bytes + one.other_bytes) as f64;
        let max = (one.seeder_bytes_max + one.other_bytes_max).max(1) as f64;
        // A chunk counts when it is given to the uplink, and may leave in the next interval.
        (one.until.as_secs_f64(), (bytes / max).min(1.0))
    });
    std::iter::once((0.0, 0.0)).chain(uses).collect()
}

/// The end of the time axis. It is the same in all panels, so that they can be compared.
fn end(report: &Report) -> f64 {
    let ends = report
        .runs
        .iter()
        .flat_map(|(_, outcome)| [outcome.ended_at.as_secs_f64(), outcome.bound.seconds()]);
    let published = report.scenario.published.iter().map(|one| one.time.as_secs_f64());
    ends.chain(published).fold(0.001, f64::max) * 1.03
}
