use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use watchfire_sim::FleetScenario;

use super::bar::Bar;

/// The exit code when a host did not get the image, or a rule was broken; other failures end with 1.
const FAILED: u8 = 3;

/// Arguments of `watchfire lab fleet`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The scenario file: hosts, links and the image; see docs/reference/swarm-scenarios.md.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Use this seed for random numbers instead of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write all results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the chart to this file.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

/// Simulate a fleet. The exit code is 3 if a host that stays did not get the image.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let name = arguments.scenario.display().to_string();
    let text = std::fs::read_to_string(&arguments.scenario).with_context(|| name.clone())?;
    let mut scenario = FleetScenario::parse(&name, &text)?;
    scenario.seed = arguments.seed.unwrap_or(scenario.seed);

    let mut bar = Bar::default();
    let report = scenario.simulate(&mut |progress| bar.draw(&scenario.name, progress));
    bar.clear();

    print!("{}", watchfire_sim::fleet_table(&report));
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&watchfire_sim::fleet_json(&report))?;
        std::fs::write(file, text + "\n").with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &arguments.picture {
        let picture = watchfire_sim::fleet_picture(&report);
        std::fs::write(file, picture).with_context(|| file.display().to_string())?;
    }
    let is_healthy = report.outcome.unfinished() == 0 && report.outcome.violations.is_empty();
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
