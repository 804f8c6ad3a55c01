//! A progress line at the bottom of a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use watchfire_report::units::binary_bytes;

/// Delay before the line is drawn for the first time.
const FIRST_DRAW: Duration = Duration::from_millis(400);
/// Shortest time between two changes of the line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Characters of the bar itself.
const BAR_CHARS: usize = 24;

#[derive(Clone, Debug, Default)]
pub struct Step {
    pub bytes: u64,
    /// All bytes; `None` while the number is unknown.
    pub total_bytes: Option<u64>,
    /// Bytes per second; `None` shows the average since the start.
    pub bytes_per_second: Option<f64>,
    /// More text at the end of the line.
    pub note: String,
}

/// The line on stderr; it is drawn only on a terminal.
pub struct ProgressLine {
    is_terminal: bool,
    started_at: Instant,
    drawn_at: Option<Instant>,
}

impl ProgressLine {
    /// A line that is drawn after a delay; never if `is_quiet`.
    pub fn start(is_quiet: bool) -> Self {
        let is_terminal = !is_quiet && io::stderr().is_terminal();
        ProgressLine { is_terminal, started_at: Instant::now(), drawn_at: None }
    }

    /// Whether the line is ever drawn.
    pub fn is_seen(&self) -> bool {
        self.is_terminal
    }

    /// Draws the line, unless it was drawn a moment ago.
    pub fn show(&mut self, step: &Step) {
        self.show_text(|elapsed| line(step, elapsed));
    }

    /// Draws any text, which may tell the time since the start, in the same way.
    pub fn show_text(&mut self, text: impl FnOnce(Duration) -> String) {
        let now = Instant::now();
        let elapsed = now - self.started_at;
        let is_early = match self.drawn_at {
            Some(drawn_at) => now - drawn_at < REDRAW_INTERVAL,
            None => elapsed < FIRST_DRAW,
        };
        if !self.is_terminal || is_early {
            return;
        }
        self.drawn_at = Some(now);
        // The work continues when the terminal is closed.
        let _ = write!(io::stderr(), "\r\x1b[K{}", text(elapsed));
        let _ = io::stderr().flush();
    }

    /// Removes the line, so that something else can be printed.
    pub fn clear(&mut self) {
        if self.drawn_at.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

pub fn line(step: &Step, elapsed: Duration) -> String {
    let average = step.bytes as f64 / elapsed.as_secs_f64().max(0.001);
    let speed = step.bytes_per_second.unwrap_or(average);
    let mut parts = Vec::new();
    match step.total_bytes {
        Some(total) => {
            // The size in a root node can be too small.
            let share = (step.bytes as f64 / total.max(1) as f64).min(1.0);
            let full = (share * BAR_CHARS as f64) as usize;
            let bar = "━".repeat(full) + &"─".repeat(BAR_CHARS - full);
            parts.push(format!("{bar} {:3.0} %", (share * 100.0).floor()));
            parts.push(format!("{} of {}", binary_bytes(step.bytes), binary_bytes(total)));
        }
        None => parts.push(binary_bytes(step.bytes)),
    }
    parts.push(format!("{}/s", binary_bytes(speed as u64)));
    if let Some(total) = step.total_bytes.filter(|total| *total > step.bytes && speed >= 1.0) {
        parts.push(format!("{} left", show_seconds((total - step.bytes) as f64 / speed)));
    }
    if !step.note.is_empty() {
        parts.push(step.note.clone());
    }
    parts.join("  ")
}

/// `9 s`, `3:07`, `2:00:00`.
pub fn show_seconds(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_bytes_speed_and_remaining_time() {
        let step = Step {
            bytes: 75 << 20,
            total_bytes: Some(300 << 20),
            bytes_per_second: Some(25.0 * 1024.0 * 1024.0),
            note: "3 peers".into(),
        };
        let expected = "━━━━━━──────────────────  25 %  75.0 MiB of 300.0 MiB  25.0 MiB/s  9 s left  \
                        3 peers";
        assert_eq!(line(&step, Duration::from_secs(3)), expected);
    }

    #[test]
    fn unknown_values_are_left_out() {
        let step = Step { bytes: 2048, ..Step::default() };
        assert_eq!(line(&step, Duration::from_secs(2)), "2.0 KiB  1.0 KiB/s");
    }

    #[test]
    fn more_than_all_bytes_is_shown_as_all() {
        let step = Step { bytes: 300, total_bytes: Some(100), ..Step::default() };
        assert!(line(&step, Duration::from_secs(1)).contains("━ 100 %  300 B of 100 B"));
    }

    #[test]
    fn times_are_written_short() {
        let shown = [0.2, 59.0, 187.0, 7200.0].map(show_seconds);
        assert_eq!(shown, ["1 s", "59 s", "3:07", "2:00:00"]);
    }
}
