use std::io::{self, IsTerminal, Write};
use std::time::Instant;

const BAR_WIDTH: usize = 24;

/// A progress bar on a terminal; plain lines elsewhere.
pub struct Progress {
    started_at: Instant,
    steps: usize,
    steps_done: usize,
    is_terminal: bool,
}

impl Progress {
    pub fn new(steps: usize) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Progress { started_at: Instant::now(), steps, steps_done: 0, is_terminal }
    }

    pub fn show(&self, what: &str) {
        if self.is_terminal {
            let bar = bar(self.steps_done, self.steps);
            let seconds = self.started_at.elapsed().as_secs();
            eprint!("\r\x1b[K{bar} {seconds:>3} s  {what}");
            let _ = io::stderr().flush(); // a missing progress bar is not an error
        }
    }

    pub fn step(&mut self, what: &str) {
        self.steps_done += 1;
        if self.is_terminal {
            self.show(what);
        } else {
            eprintln!("{}/{} {what}", self.steps_done, self.steps);
        }
    }

    /// Print a line that stays.
    pub fn note(&self, what: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
        eprintln!("{what}");
    }

    pub fn finish(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn bar(done: usize, steps: usize) -> String {
    let full = (BAR_WIDTH * done).checked_div(steps).unwrap_or(BAR_WIDTH).min(BAR_WIDTH);
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR_WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_full_when_all_is_done() {
        assert_eq!(bar(0, 3), format!("[{}]", "-".repeat(BAR_WIDTH)));
        assert_eq!(bar(3, 3), format!("[{}]", "#".repeat(BAR_WIDTH)));
    }
}
