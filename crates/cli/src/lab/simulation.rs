//! `watchfire lab swarm` and `watchfire lab fleet`: simulations of a scenario file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use watchfire_sim::{FleetScenario, Progress, Run, Scenario};

use crate::output::ResultFile;
use crate::progress::ProgressLine;

/// The exit code when a node did not get the content, or a rule was broken; other failures end with 1.
pub const FAILED: u8 = 3;

const BAR_CELLS: usize = 32;

/// Arguments of `watchfire lab swarm`.
#[derive(clap::Args)]
pub struct SwarmArguments {
    #[command(flatten)]
    simulation: SimulationArguments,
    /// Write a report with charts to this file: one HTML page that needs no other file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// Simulate a swarm. The exit code is 3 if an awaited peer did not get the file.
pub fn run_swarm(
    SwarmArguments { simulation, report: page }: &SwarmArguments,
) -> anyhow::Result<ExitCode> {
    let page = ResultFile::of(page.as_ref())?;
    let (name, text, files) = simulation.open()?;
    let mut scenario = Scenario::parse(&name, &text)?;
    scenario.seed = simulation.seed.unwrap_or(scenario.seed);

    let mut progress_line = ProgressLine::start(false);
    let report = scenario.simulate(&mut |run, progress| {
        progress_line.show_text(|_| progress_text(&run.name, progress));
    });
    drop(progress_line);

    print!("{}", watchfire_sim::table(&report));
    files.write(|| watchfire_sim::json(&report), || watchfire_sim::picture(&report))?;
    if let Some(file) = page {
        file.write(&watchfire_sim::html(&report))?;
    }
    let is_healthy = |(_, outcome): &(Run, watchfire_sim::Outcome)| {
        outcome.unfinished() == 0 && outcome.violations.is_empty()
    };
    Ok(exit_code(report.runs.iter().all(is_healthy)))
}

/// Arguments of `watchfire lab fleet`.
#[derive(clap::Args)]
pub struct FleetArguments {
    #[command(flatten)]
    simulation: SimulationArguments,
}

/// Simulate a fleet. The exit code is 3 if a host that stays did not get the image.
pub fn run_fleet(FleetArguments { simulation }: &FleetArguments) -> anyhow::Result<ExitCode> {
    let (name, text, files) = simulation.open()?;
    let mut scenario = FleetScenario::parse(&name, &text)?;
    scenario.seed = simulation.seed.unwrap_or(scenario.seed);

    let mut progress_line = ProgressLine::start(false);
    let report = scenario.simulate(&mut |progress| {
        progress_line.show_text(|_| progress_text(&scenario.name, progress));
    });
    drop(progress_line);

    print!("{}", watchfire_sim::fleet_table(&report));
    files.write(|| watchfire_sim::fleet_json(&report), || watchfire_sim::fleet_picture(&report))?;
    let is_healthy = report.outcome.unfinished() == 0 && report.outcome.violations.is_empty();
    Ok(exit_code(is_healthy))
}

/// Arguments of every simulation.
#[derive(clap::Args)]
pub struct SimulationArguments {
    /// The scenario file: nodes, links and the content; see docs/reference/swarm-scenarios.md.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Use this seed for random numbers instead of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write all results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write only the charts to this file.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

impl SimulationArguments {
    /// The name of the scenario file for errors, its text, and the files of the results.
    fn open(&self) -> anyhow::Result<(String, String, Files)> {
        let [json, picture] = [&self.json, &self.picture].map(|path| ResultFile::of(path.as_ref()));
        let (name, text) = read(&self.scenario)?;
        Ok((name, text, Files { json: json?, picture: picture? }))
    }
}

/// The files of the results of a simulation.
struct Files {
    json: Option<ResultFile>,
    picture: Option<ResultFile>,
}

impl Files {
    fn write(
        self,
        json: impl FnOnce() -> serde_json::Value,
        picture: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if let Some(file) = self.json {
            file.write(&(serde_json::to_string_pretty(&json())? + "\n"))?;
        }
        self.picture.map_or(Ok(()), |file| file.write(&picture()))
    }
}

/// Reads a file. Returns its name for errors, and its text.
pub fn read(file: &Path) -> anyhow::Result<(String, String)> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

/// The exit code of a simulation.
pub fn exit_code(is_healthy: bool) -> ExitCode {
    if is_healthy { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// The line about a run of a simulation.
pub fn progress_text(name: &str, progress: Progress) -> String {
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
        let line = progress_text("a run", Progress { now, part: 0.5, finished: 3, awaited: 8 });
        assert_eq!(line.matches('█').count(), BAR_CELLS / 2);
        assert!(line.ends_with(" 50.0 %  at 2.50 s  3 of 8 have it all"), "{line}");
    }
}
