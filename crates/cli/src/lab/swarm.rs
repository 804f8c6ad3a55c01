use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use watchfire_sim::{Run, Scenario};

use super::bar::Bar;

/// The exit code when an awaited peer did not get the whole file, or the exchange broke a rule;
/// other failures end with 1.
const FAILED: u8 = 3;

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
    let report = scenario.simulate(&mut |run, progress| bar.draw(&run.name, progress));
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
