use std::fs;
use std::path::Path;

/// How much of a failed program's log is shown, in lines.
const LINES_SHOWN: usize = 8;

/// The end of a log, to be put after an error.
pub fn last_words(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
    let heading = if shown.is_empty() { "" } else { "; its log ends:" };
    shown.iter().fold(heading.to_owned(), |text, line| text + "\n    " + line)
}
