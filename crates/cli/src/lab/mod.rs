//! `watchfire lab`: experiments.

#[cfg(not(feature = "lab"))]
mod not_built;
#[cfg(feature = "lab")]
mod simulation;

use std::process::ExitCode;

#[cfg(not(feature = "lab"))]
use not_built as simulation;

/// Arguments of `watchfire lab`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand)]
enum Experiment {
    /// Simulate a swarm: how fast a file reaches every peer, compared with the least possible time.
    Swarm(simulation::SwarmArguments),
    /// Simulate a fleet of image mirrors: how often the registry sends an image, and how fast every
    /// host has it.
    Fleet(simulation::FleetArguments),
}

/// Run an experiment.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.experiment {
        Experiment::Swarm(arguments) => simulation::run_swarm(&arguments),
        Experiment::Fleet(arguments) => simulation::run_fleet(&arguments),
    }
}
