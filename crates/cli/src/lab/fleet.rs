use std::process::ExitCode;

use watchfire_sim::FleetScenario;

use super::bar;
use super::simulation;
use crate::progress::ProgressLine;

/// Arguments of `watchfire lab fleet`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    simulation: simulation::SimulationArguments,
}

/// Simulate a fleet. The exit code is 3 if a host that stays did not get the image.
pub fn run(Arguments { simulation }: &Arguments) -> anyhow::Result<ExitCode> {
    let (name, text) = simulation.read()?;
    let mut scenario = FleetScenario::parse(&name, &text)?;
    scenario.seed = simulation.seed.unwrap_or(scenario.seed);

    let mut progress_line = ProgressLine::start(false);
    let report = scenario.simulate(&mut |progress| {
        progress_line.show_text(|_| bar::line(&scenario.name, progress));
    });
    drop(progress_line);

    print!("{}", watchfire_sim::fleet_table(&report));
    let json = || watchfire_sim::fleet_json(&report);
    simulation.write(json, || watchfire_sim::fleet_picture(&report))?;
    let is_healthy = report.outcome.unfinished() == 0 && report.outcome.violations.is_empty();
    Ok(simulation::exit_code(is_healthy))
}
