use std::io::{self, Write};

use watchfire_report::units::{binary_bytes, duration};

use crate::results::{Results, Second};

/// Cells of the progress bar.
const BAR_CELLS: usize = 40;
/// Steps and workers shown while the load runs; the report and the JSON have all.
const STEPS_SHOWN: usize = 12;
const WORKERS_SHOWN: usize = 20;

/// A view of a running load that rewrites itself on a terminal.
#[derive(Debug, Default)]
pub struct Live {
    lines_drawn: usize,
    seconds_seen: usize,
}

impl Live {
    /// Redraws the view in place; does nothing until another second has passed.
    pub fn draw(&mut self, results: &Results, out: &mut impl Write) -> io::Result<()> {
        if results.seconds_whole() <= self.seconds_seen {
            return Ok(());
        }
        self.seconds_seen = results.seconds_whole();
        let lines = view(results);
        if self.lines_drawn > 0 {
            write!(out, "\x1b[{}A", self.lines_drawn)?;
        }
        for line in &lines {
            writeln!(out, "\r\x1b[2K{line}")?;
        }
        write!(out, "\x1b[J")?;
        self.lines_drawn = lines.len();
        out.flush()
    }
}

/// One log line about the last complete second; `None` during the first second.
pub fn line(results: &Results) -> Option<String> {
    let at = results.seconds_whole().checked_sub(1)?;
    let second = last(results);
    let line = format!(
        "{:>5} s  users {:>7}  websockets {:>7}  +{}/s  deliveries {}/s  errors {}",
        at + 1,
        second.users,
        second.connected,
        second.counts.started,
        second.counts.deliveries,
        results.errors_total(),
    );
    Some(line)
}

/// The last complete second, or the incomplete first one.
fn last(results: &Results) -> Second {
    let at = results.seconds_whole().saturating_sub(1);
    results.seconds.get(at).cloned().unwrap_or_default()
}

/// The share of a load that is done; and its progress and its last complete second in words.
pub fn status(results: &Results) -> (f64, Vec<String>) {
    let second = last(results);
    let counts = &second.counts;
    let total = (results.duration + results.schedule.paused).as_secs_f64().max(1.0);
    let done = (results.seconds.len() as f64 / total).min(1.0);
    let mut lines = vec![
        format!("{:>3.0} %  {} s of {total:.0} s", done * 100.0, results.seconds.len()),
        format!(
            "users {}, websockets {}, errors {}",
            second.users,
            second.connected,
            results.errors_total()
        ),
        format!(
            "a second: {} started, {} finished, {} deliveries, {} in, {} out",
            counts.started,
            counts.finished,
            counts.deliveries,
            binary_bytes(counts.bytes_in),
            binary_bytes(counts.bytes_out)
        ),
        schedule(results),
        format!(
            "start lateness p99 {}, controller p99 {}, max {}",
            duration(results.lateness.quantile(0.99)),
            duration(results.controller_lateness.quantile(0.99)),
            duration(results.controller_lateness.quantile(1.0)),
        ),
    ];
    if results.workers > 1 || !results.events.is_empty() {
        lines.extend(workers(results));
    }
    (done, lines)
}

/// The phase, and how the schedule was changed.
fn schedule(results: &Results) -> String {
    let schedule = &results.schedule;
    let mut line = match &schedule.phase {
        Some((name, number, of)) => format!("phase {number} of {of}: {name}"),
        None if results.seconds.is_empty() => "the load has not begun".to_owned(),
        None => "after the last phase".to_owned(),
    };
    if schedule.scale != 1.0 {
        line += &format!(", rates x {}", schedule.scale);
    }
    let is_alone = !results.by_worker.iter().any(|worker| worker.state.is_active());
    line += match (schedule.is_paused, is_alone) {
        (true, true) => ", waiting for agents",
        (true, false) => ", paused",
        (false, _) => "",
    };
    line
}

/// A line for each worker, those that run first.
fn workers(results: &Results) -> Vec<String> {
    let mut workers: Vec<_> = results.by_worker.iter().collect();
    workers.sort_by_key(|worker| !worker.state.is_active());
    let lines = workers.iter().take(WORKERS_SHOWN).map(|worker| {
        format!(
            "{:<24.24} {:<8} users {:>6}  CPU {:>5.2}  {:>9}  late p99 {}",
            worker.name,
            worker.state.name(),
            if worker.state.is_active() { worker.users } else { 0 },
            if worker.state.is_active() { worker.cores } else { 0.0 },
            binary_bytes(worker.resident_bytes),
            duration(worker.late),
        )
    });
    let mut lines: Vec<_> = lines.collect();
    if workers.len() > WORKERS_SHOWN {
        lines.push(format!("and {} more workers", workers.len() - WORKERS_SHOWN));
    }
    lines
}

fn view(results: &Results) -> Vec<String> {
    let (done, mut lines) = status(results);
    let full = (done * BAR_CELLS as f64) as usize;
    let bar = "█".repeat(full) + &"░".repeat(BAR_CELLS - full);
    lines[0] = format!("{bar} {}", lines[0]);
    let [step, done, p50, p99, max] = ["step, since due", "done", "p50", "p99", "max"];
    lines.push(format!("{step:<30} {done:>9} {p50:>9} {p99:>9} {max:>9}"));
    let steps = results.steps.iter().filter(|step| !step.due.is_empty());
    lines.extend(steps.take(STEPS_SHOWN).map(|step| {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| duration(step.due.quantile(share)));
        let name: String = step.name.chars().take(30).collect();
        format!("{name:<30} {:>9} {p50:>9} {p99:>9} {max:>9}", step.done())
    }));
    lines
}
