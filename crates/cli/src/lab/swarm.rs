use std::path::PathBuf;
use std::process::ExitCode;

use watchfire_sim::{Run, Scenario};

use super::bar;
use super::simulation;
use crate::progress::ProgressLine;

/// Arguments of `watchfire lab swarm`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    simulation: simulation::SimulationArguments,
    /// Write a report with charts to this file: one HTML page that needs no other file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// Simulate a swarm. The exit code is 3 if an awaited peer did not get the file.
pub fn run(Arguments { simulation, report: page }: &Arguments) -> anyhow::Result<ExitCode> {
    let (name, text) = simulation.read()?;
    let mut scenario = Scenario::parse(&name, &text)?;
    scenario.seed = simulation.seed.unwrap_or(scenario.seed);

    let mut progress_line = ProgressLine::start(false);
    let report = scenario.simulate(&mut |run, progress| {
        progress_line.show_text(|_| bar::line(&run.name, progress));
    });
    drop(progress_line);

    print!("{}", watchfire_sim::table(&report));
    let json = || watchfire_sim::json(&report);
    simulation.write(json, || watchfire_sim::picture(&report))?;
    if let Some(file) = page {
        simulation::write(file, &watchfire_sim::html(&report))?;
    }
    let is_healthy = |(_, outcome): &(Run, watchfire_sim::Outcome)| {
        outcome.unfinished() == 0 && outcome.violations.is_empty()
    };
    Ok(simulation::exit_code(report.runs.iter().all(is_healthy)))
}
