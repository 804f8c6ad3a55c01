//! `watchfire lab`: experiments.

mod calibrate;
mod experiment;
mod import;
mod run_progress;
mod standing;

use std::ffi::OsString;
use std::process::ExitCode;

/// The exit code when a node did not get the content, or a rule was broken; other failures end with 1.
const FAILED: u8 = 3;

/// The exit code of runs.
fn exit_code_of(is_healthy: bool) -> ExitCode {
    if is_healthy { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// Arguments of `watchfire lab`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand)]
enum Experiment {
    /// Check experiment files, and show their trials.
    Check(experiment::CheckArguments),
    /// Run the trials of an experiment, simulated or on real processes.
    Run(experiment::RunArguments),
    /// Run an experiment with two programs in turns, and judge the difference; the exit code is 4 if
    /// a figure is worse.
    Compare(experiment::CompareArguments),
    /// Run experiments in the simulator and on processes, and write the error of each figure.
    Calibrate(calibrate::Arguments),
    /// Turn p2plab's definitions into an experiment file.
    Import(import::Arguments),
    /// Start the nodes of a cluster that stays.
    Up(standing::UpArguments),
    /// List the nodes of standing clusters with their programs, memory and CPU time.
    Ps(standing::PsArguments),
    /// Replace the program of some nodes of a standing cluster, while the others run on.
    Swap(standing::SwapArguments),
    /// End a standing cluster, and remove all that it stored.
    Down(standing::DownArguments),
    /// The two former commands for simulations, whose scenarios are experiments now.
    #[command(hide = true, alias = "fleet")]
    Swarm {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _old: Vec<OsString>,
    },
}

/// The usual folder of runs.
pub fn runs() -> anyhow::Result<std::path::PathBuf> {
    experiment::runs(None)
}

/// Runs an experiment.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    experiment::sweep()?;
    match arguments.experiment {
        Experiment::Check(arguments) => experiment::check(&arguments),
        Experiment::Run(arguments) => experiment::run(&arguments),
        Experiment::Compare(arguments) => experiment::compare(&arguments),
        Experiment::Calibrate(arguments) => calibrate::run(&arguments),
        Experiment::Import(arguments) => import::run(&arguments),
        Experiment::Up(arguments) => standing::up(&arguments),
        Experiment::Ps(arguments) => standing::ps(&arguments),
        Experiment::Swap(arguments) => standing::swap(&arguments),
        Experiment::Down(arguments) => standing::down(&arguments),
        Experiment::Swarm { .. } => anyhow::bail!(
            "use `watchfire lab run`: swarms and fleets are experiments, as in experiments/simulated"
        ),
    }
}
