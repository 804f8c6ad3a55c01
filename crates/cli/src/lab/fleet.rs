use std::process::ExitCode;

use watchfire_sim::FleetScenario;

use super::bar::Bar;
use super::simulation;

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

    let mut bar = Bar::default();
    let report = scenario.simulate(&mut |progress| bar.draw(&scenario.name, progress));
    bar.clear();

    print!("{}", watchfire_sim::fleet_table(&report));
    let json = || watchfire_sim::fleet_json(&report);
    simulation.write(json, || watchfire_sim::fleet_picture(&report))?;
    let is_healthy = report.outcome.unfinished() == 0 && report.outcome.violations.is_empty();
    Ok(simulation::exit_code(is_healthy))
}
