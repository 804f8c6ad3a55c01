use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use watchfire_sim::{Progress, Run, Scenario};

/// The exit code when an awaited peer did not get the whole file, or the exchange broke a rule;
/// other failures end with 1.
const FAILED: u8 = 3;

/// Shortest time between two drawings.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Cells of the progress bar.
const BAR_CELLS: usize = 32;

/// Arguments of `watchfire lab swarm`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The scenario file: peers, links and the shared file; see docs/reference/swarm-scenarios.md.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Use this seed for random numbers instead of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write all results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with charts to this file: one HTML page that needs no other file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write only the charts to this file.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

/// Simulate a swarm. The exit code is 3 if an awaited peer did not get the file.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let name = arguments.scenario.display().to_string();
    let text = std::fs::read_to_string(&arguments.scenario).with_context(|| name.clone())?;
    let mut scenario = Scenario::parse(&name, &text)?;
    scenario.seed = arguments.seed.unwrap_or(scenario.seed);

    let mut bar = Bar::default();
    let report = scenario.simulate(&mut |run, progress| bar.draw(run, progress));
    bar.clear();

    print!("{}", watchfire_sim::table(&report));
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&watchfire_sim::json(&report))?;
        std::fs::write(file, text + "\n").with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &arguments.report {
        let page = watchfire_sim::html(&report);
        std::fs::write(file, page).with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &arguments.picture {
        let picture = watchfire_sim::picture(&report);
        std::fs::write(file, picture).with_context(|| file.display().to_string())?;
    }
    let is_healthy = |(_, outcome): &(Run, watchfire_sim::Outcome)| {
        outcome.unfinished() == 0 && outcome.violations.is_empty()
    };
    let is_healthy = report.runs.iter().all(is_healthy);
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// A progress bar in one line; it is drawn only on a terminal.
#[derive(Default)]
struct Bar {
    drawn_at: Option<Instant>,
}

impl Bar {
    fn draw(&mut self, run: &Run, progress: Progress) {
        if self.drawn_at.is_some_and(|at| at.elapsed() < DRAW_INTERVAL)
            || !io::stderr().is_terminal()
        {
            return;
        }
        self.drawn_at = Some(Instant::now());
        // The simulation continues when its output is closed.
        let _ = write!(io::stderr(), "\r\x1b[2K{}", line(run, progress));
    }

    fn clear(&self) {
        if self.drawn_at.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

fn line(run: &Run, progress: Progress) -> String {
    let Progress { now, part, finished, awaited } = progress;
    let full = (part.clamp(0.0, 1.0) * BAR_CELLS as f64) as usize;
    let mut line = format!("{}  ", run.name);
    line.extend(std::iter::repeat_n('█', full));
    line.extend(std::iter::repeat_n('░', BAR_CELLS - full));
    let (percent, at) = (part * 100.0, now.as_secs_f64());
    write!(line, " {percent:>5.1} %  at {at:.2} s  {finished} of {awaited} have it all")
        .expect("writing to a string cannot fail");
    line
}

#[cfg(test)]
mod tests {
    use watchfire_sim::Scenario;

    use super::*;

    #[test]
    fn the_bar_shows_the_progress_of_a_run() {
        let text = "[file]\nsize='1kB'\n[[peers]]\nrole='seeder'\nup='1MB'\ndown='1MB'\n\
                    [[peers]]\nrole='leecher'\nup='1MB'\ndown='1MB'\n";
        let run = Scenario::parse("two.toml", text).unwrap().runs.remove(0);
        let now = Duration::from_millis(2500);
        let line = line(&run, Progress { now, part: 0.5, finished: 3, awaited: 8 });
        assert_eq!(line.matches('█').count(), BAR_CELLS / 2);
        assert!(line.ends_with(" 50.0 %  at 2.50 s  3 of 8 have it all"), "{line}");
    }
}
