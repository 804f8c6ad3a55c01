//! `watchfire lab`: experiments.

#[cfg(feature = "lab")]
mod calibrate;
#[cfg(feature = "lab")]
mod experiment;
#[cfg(feature = "lab")]
mod import;
#[cfg(not(feature = "lab"))]
mod not_built;
#[cfg(feature = "lab")]
mod run_progress;
#[cfg(feature = "lab")]
mod simulation;
#[cfg(feature = "lab")]
mod standing;

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
    /// Check experiment files, and show their trials.
    #[cfg(feature = "lab")]
    Check(experiment::CheckArguments),
    /// Run the trials of an experiment, simulated or on real processes.
    #[cfg(feature = "lab")]
    Run(experiment::RunArguments),
    /// Run an experiment with two programs in turns, and judge the difference; the exit code is 4 if
    /// a figure is worse.
    #[cfg(feature = "lab")]
    Compare(experiment::CompareArguments),
    /// Run experiments in the simulator and on processes, and write the error of each figure.
    #[cfg(feature = "lab")]
    Calibrate(calibrate::Arguments),
    /// Turn p2plab's definitions into an experiment file.
    #[cfg(feature = "lab")]
    Import(import::Arguments),
    /// Start the nodes of a cluster that stays.
    #[cfg(feature = "lab")]
    Up(standing::UpArguments),
    /// List the nodes of standing clusters with their programs, memory and CPU time.
    #[cfg(feature = "lab")]
    Ps(standing::PsArguments),
    /// Replace the program of some nodes of a standing cluster, while the others run on.
    #[cfg(feature = "lab")]
    Swap(standing::SwapArguments),
    /// End a standing cluster, and remove all that it stored.
    #[cfg(feature = "lab")]
    Down(standing::DownArguments),
    /// Simulate a swarm: how fast a file reaches every peer, compared with the least possible time.
    Swarm(simulation::SwarmArguments),
    /// Simulate a fleet of image mirrors: how often the registry sends an image, and how fast every
    /// host has it.
    Fleet(simulation::FleetArguments),
}

/// The usual folder of runs.
#[cfg(feature = "lab")]
pub fn runs() -> anyhow::Result<std::path::PathBuf> {
    experiment::runs(None)
}

/// Run an experiment.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "lab")]
    experiment::sweep()?;
    match arguments.experiment {
        #[cfg(feature = "lab")]
        Experiment::Check(arguments) => experiment::check(&arguments),
        #[cfg(feature = "lab")]
        Experiment::Run(arguments) => experiment::run(&arguments),
        #[cfg(feature = "lab")]
        Experiment::Compare(arguments) => experiment::compare(&arguments),
        #[cfg(feature = "lab")]
        Experiment::Calibrate(arguments) => calibrate::run(&arguments),
        #[cfg(feature = "lab")]
        Experiment::Import(arguments) => import::run(&arguments),
        #[cfg(feature = "lab")]
        Experiment::Up(arguments) => standing::up(&arguments),
        #[cfg(feature = "lab")]
        Experiment::Ps(arguments) => standing::ps(&arguments),
        #[cfg(feature = "lab")]
        Experiment::Swap(arguments) => standing::swap(&arguments),
        #[cfg(feature = "lab")]
        Experiment::Down(arguments) => standing::down(&arguments),
        Experiment::Swarm(arguments) => simulation::run_swarm(&arguments),
        Experiment::Fleet(arguments) => simulation::run_fleet(&arguments),
    }
}
