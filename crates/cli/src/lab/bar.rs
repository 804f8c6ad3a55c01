//! The progress of a simulation.

use std::fmt::Write as _;

use watchfire_sim::Progress;

const BAR_CELLS: usize = 32;

/// The line about a run of a simulation.
pub(super) fn line(name: &str, progress: Progress) -> String {
    let Progress { now, part, finished, awaited } = progress;
    let full = (part.clamp(0.0, 1.0) * BAR_CELLS as f64) as usize;
    let mut line = format!("{name}  ");
    line.extend(std::iter::repeat_n('█', full));
    line.extend(std::iter::repeat_n('░', BAR_CELLS - full));
    let (percent, at) = (part * 100.0, now.as_secs_f64());
    write!(line, " {percent:>5.1} %  at {at:.2} s  {finished} of {awaited} have it all")
        .expect("writing to a string cannot fail");
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_bar_shows_the_progress_of_a_run() {
        let now = Duration::from_millis(2500);
        let line = line("a run", Progress { now, part: 0.5, finished: 3, awaited: 8 });
        assert_eq!(line.matches('█').count(), BAR_CELLS / 2);
        assert!(line.ends_with(" 50.0 %  at 2.50 s  3 of 8 have it all"), "{line}");
    }
}
