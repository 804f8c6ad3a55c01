//! `watchfire lab calibrate`: the simulator beside real processes.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use watchfire_lab::machine::commit;
use watchfire_lab::{
    Calibration, Driver, Experiment, Results, Simulated, calibration_page, run_all,
};

use super::exit_code_of;
use super::experiment::{processes_driver, read, report_problems};
use super::run_progress::RunProgress;
use crate::output::ResultFile;

/// Arguments of `watchfire lab calibrate`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Experiment files. Each trial runs in the simulator and on processes.
    #[arg(value_name = "EXPERIMENT", required = true)]
    experiments: Vec<PathBuf>,
    /// How often each trial runs, in place of the number in the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// The folder of runs, while they last, and of programs that were built.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Write the page to this file.
    #[arg(long, value_name = "FILE.md")]
    output: PathBuf,
}

/// Runs experiments in both drivers, and writes the error of each figure.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let output = ResultFile::open(&arguments.output)?;
    let mut processes = processes_driver(arguments.folder.as_deref(), std::env::current_exe()?)?;
    let mut calibrations = Vec::new();
    let mut is_healthy = true;
    for path in &arguments.experiments {
        let mut experiment = read(path, Experiment::parse)?;
        experiment.repeat = arguments.repeat.unwrap_or(experiment.repeat);
        for trial in &experiment.trials {
            let run = |driver: &mut dyn Driver| -> Results {
                let mut shown = RunProgress::start();
                run_all(&experiment, &[trial], driver, &mut |turn, progress| {
                    shown.show(turn, progress);
                })
            };
            let [simulated, real] = [run(&mut Simulated), run(&mut processes)];
            for results in [&simulated, &real] {
                is_healthy &= report_problems(results);
            }
            let name = match experiment.trials.len() {
                1 => experiment.name.clone(),
                _ => format!("{}: {}", experiment.name, trial.name),
            };
            calibrations.push(Calibration {
                name,
                notes: experiment.notes.clone(),
                simulated: simulated.runs,
                processes: real.runs,
            });
        }
    }
    output.write(&calibration_page(&calibrations, &machine()?))?;
    Ok(exit_code_of(is_healthy))
}

/// A sentence about this machine and how busy it is.
fn machine() -> anyhow::Result<String> {
    let read = |path: &str| std::fs::read_to_string(path).with_context(|| path.to_owned());
    let load = read("/proc/loadavg")?;
    let load = load.split(' ').nth(1).unwrap_or("unknown");
    let release = read("/proc/sys/kernel/osrelease")?;
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "The programs were built from commit {}.\nThe machine had {cores} cores, Linux {}, and on average {load} runnable threads in the last five minutes, those of the nodes included.",
        commit(),
        release.trim()
    ))
}
