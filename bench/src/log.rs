use std::fs;
use std::path::Path;

/// Lines of a failed program's log that are shown.
const LINES_SHOWN: usize = 8;

/// The last lines of a log, to append to an error.
pub fn log_tail(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
    let heading = if shown.is_empty() { "" } else { "; last lines of the log:" };
    shown.iter().fold(heading.to_owned(), |text, line| text + "\n    " + line)
}
