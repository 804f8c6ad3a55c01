//! Completion over time, a line for every peer, as SVG.

use std::fmt::Write as _;

use super::Report;
use super::html::escape;
use crate::scenario::Published;
use crate::swarm::{Outcome, PeerOutcome};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 28.0;
/// Points that all lines of a chart share between them; more would show nothing more.
const POINTS: usize = 60_000;
const POINTS_PER_LINE: std::ops::RangeInclusive<usize> = 24..=200;
/// What a picture beside a text shows of it.
const SKETCHED_LINES: usize = 64;
const SKETCHED_POINTS: usize = 48;
/// Above each chart of such a picture, for its title.
const SKETCH_HEAD: f64 = 24.0;

/// One run's chart, from 0 to `end` seconds.
pub(super) fn svg(title: &str, outcome: &Outcome, published: &[Published], end: f64) -> String {
    let lines: Vec<&PeerOutcome> = lines(outcome).collect();
    let points =
        (POINTS / lines.len().max(1)).clamp(*POINTS_PER_LINE.start(), *POINTS_PER_LINE.end());
    let title = escape(title);
    let body = body(&lines, points, outcome, published, end);
    format!(
        "<figure><figcaption>{title}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}: part of the file that each peer has, over time\">{body}</svg></figure>"
    )
}

/// The charts of all runs, one below the other, as the inside of an SVG; and its size.
pub(super) fn sketches(report: &Report, end: f64) -> (String, f64, f64) {
    let mut all = String::new();
    let mut top = 0.0;
    for (run, outcome) in &report.runs {
        let lines: Vec<&PeerOutcome> = lines(outcome).collect();
        let every = lines.len().div_ceil(SKETCHED_LINES).max(1);
        let some: Vec<&PeerOutcome> = lines.iter().copied().step_by(every).collect();
        let body = body(&some, SKETCHED_POINTS, outcome, &report.scenario.published, end);
        let title = escape(&run.name);
        write!(
            all,
            "<g transform=\"translate(0 {top})\"><text class=\"title\" x=\"{LEFT}\" y=\"16\">{title}</text>\
             <g transform=\"translate(0 {SKETCH_HEAD})\">{body}</g></g>"
        )
        .expect("it is a text");
        top += SKETCH_HEAD + HEIGHT;
    }
    (all, WIDTH, top)
}

fn lines(outcome: &Outcome) -> impl Iterator<Item = &PeerOutcome> {
    outcome.peers.iter().filter(|peer| !peer.is_seeder && !peer.came.is_empty())
}

/// A chart without what is around it.
fn body(
    lines: &[&PeerOutcome],
    points: usize,
    outcome: &Outcome,
    published: &[Published],
    end: f64,
) -> String {
    let x = |time: f64| LEFT + time / end * (WIDTH - LEFT - RIGHT);
    let y = |part: f64| HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
    let mut svg = String::new();
    let mut draw = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("it is a text");
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (at, percent) = (y(part), part * 100.0);
        draw(format_args!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        ));
    }
    let step = nice_step(end);
    for tick in (0..).map(|tick| f64::from(tick) * step).take_while(|time| *time <= end) {
        let label = (tick * 1000.0).round() / 1000.0;
        draw(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label} s</text>",
            x(tick),
            HEIGHT - 8.0
        ));
    }
    // So that a thousand lines are not one blot.
    let opacity = (8.0 / lines.len().max(1) as f64).sqrt().clamp(0.08, 0.8);
    for peer in lines {
        let class = if peer.is_awaited { "peer" } else { "peer other" };
        let path = path(peer, outcome.blocks, points, x, y);
        draw(format_args!("<path class=\"{class}\" opacity=\"{opacity:.2}\" d=\"{path}\"/>"));
    }
    let path = uses(outcome, x, y);
    draw(format_args!("<path class=\"use\" d=\"{path}\"/>"));
    let mut mark = |class: &str, time: f64, name: &str, line: usize| {
        if time > end {
            return;
        }
        let at = x(time);
        let is_left = at < WIDTH * 0.6;
        let (text_at, anchor) = if is_left { (at + 4.0, "start") } else { (at - 4.0, "end") };
        draw(format_args!(
            "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <text x=\"{text_at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            y(1.0) - 8.0,
            y(0.0),
            TOP - 10.0 + 12.0 * line as f64,
            escape(name)
        ));
    };
    mark("bound", outcome.bound.seconds(), "bound", 0);
    for (line, one) in published.iter().enumerate() {
        let name = format!("published: {}", one.name);
        mark("published", one.time.as_secs_f64(), &name, line + 2);
    }
    svg
}

fn path(
    peer: &PeerOutcome,
    blocks: u32,
    points: usize,
    x: impl Fn(f64) -> f64,
    y: impl Fn(f64) -> f64,
) -> String {
    let mut path = format!("M{:.1} {:.1}", x(peer.arrived_at.as_secs_f64()), y(0.0));
    let every = peer.came.len().div_ceil(points).max(1);
    let last = peer.came.len() - 1;
    for (at, came) in peer.came.iter().enumerate() {
        if at % every == 0 || at == last {
            let part = (at + 1) as f64 / f64::from(blocks);
            let (x, y) = (x(came.as_secs_f64()), y(part));
            write!(path, "L{x:.1} {y:.1}").expect("it is a text");
        }
    }
    path
}

/// The part of all uplinks that is in use, over time.
fn uses(outcome: &Outcome, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = format!("M{:.1} {:.1}", x(0.0), y(0.0));
    for one in &outcome.uses {
        let bytes = (one.seeder_bytes + one.other_bytes) as f64;
        let max = (one.seeder_bytes_max + one.other_bytes_max).max(1) as f64;
        // What was handed over in the stretch before may leave in this one.
        let part = (bytes / max).min(1.0);
        let (x, y) = (x(one.until.as_secs_f64()), y(part));
        write!(path, "L{x:.1} {y:.1}").expect("it is a text");
    }
    path
}

/// 1, 2 or 5 times a power of ten, so that about eight of them reach the end.
fn nice_step(end: f64) -> f64 {
    let mut power = 1e-6;
    loop {
        let fits = [1.0, 2.0, 5.0].into_iter().map(|f| f * power).find(|step| end / step <= 8.0);
        if let Some(step) = fits {
            return step;
        }
        power *= 10.0;
    }
}
