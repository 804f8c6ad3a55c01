//! `watchfire lab`: experiments.

#[cfg(feature = "lab")]
mod bar;
#[cfg(feature = "lab")]
mod fleet;
#[cfg(not(feature = "lab"))]
mod not_built;
#[cfg(feature = "lab")]
mod simulation;
#[cfg(feature = "lab")]
mod swarm;

use std::process::ExitCode;

#[cfg(not(feature = "lab"))]
use not_built as fleet;
#[cfg(not(feature = "lab"))]
use not_built as swarm;

/// Arguments of `watchfire lab`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand)]
enum Experiment {
    /// Simulate a swarm: how fast a file reaches every peer, compared with the least possible time.
    Swarm(swarm::Arguments),
    /// Simulate a fleet of image mirrors: how often the registry sends an image, and how fast every
    /// host has it.
    Fleet(fleet::Arguments),
}

/// Run an experiment.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.experiment {
        Experiment::Swarm(arguments) => swarm::run(&arguments),
        Experiment::Fleet(arguments) => fleet::run(&arguments),
    }
}
