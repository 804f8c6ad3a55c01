use std::io::{self, Write};

use watchfire_report::units::{binary_bytes, duration};

use crate::results::{Results, Second};

/// Cells of the progress bar.
const BAR_CELLS: usize = 40;
/// Steps shown while the load runs; the report has all.
const STEPS_SHOWN: usize = 12;

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
pub fn status(results: &Results) -> (f64, [String; 3]) {
    let second = last(results);
    let counts = &second.counts;
    let total = results.duration.as_secs_f64().max(1.0);
    let done = (results.seconds.len() as f64 / total).min(1.0);
    let lines = [
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
    ];
    (done, lines)
}

fn view(results: &Results) -> Vec<String> {
    let (done, lines) = status(results);
    let full = (done * BAR_CELLS as f64) as usize;
    let bar = "█".repeat(full) + &"░".repeat(BAR_CELLS - full);
    let mut lines = lines.to_vec();
    lines[0] = format!("{bar} {}", lines[0]);
    lines.extend([
        format!("start lateness p99 {}", duration(results.lateness.quantile(0.99))),
        format!("{:<30} {:>9} {:>9} {:>9} {:>9}", "step, since due", "done", "p50", "p99", "max"),
    ]);
    let steps = results.steps.iter().filter(|step| !step.due.is_empty());
    lines.extend(steps.take(STEPS_SHOWN).map(|step| {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| duration(step.due.quantile(share)));
        let name: String = step.name.chars().take(30).collect();
        format!("{name:<30} {:>9} {p50:>9} {p99:>9} {max:>9}", step.done())
    }));
    lines
}
