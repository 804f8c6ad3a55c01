//! The simulator of another program: each commit simulates with its own exchange.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::driver::{Driver, DriverError, Progress, SIMULATED};
use super::simulated::Simulated;
use crate::definition::TrialPlan;
use crate::results::RunResult;

/// Simulates trials with `watchfire lab run` of another program.
#[derive(Clone, Debug)]
pub struct SimulatedBy {
    program: PathBuf,
    experiment: PathBuf,
    /// A folder for the results of each run.
    folder: PathBuf,
}

impl SimulatedBy {
    /// Simulates the trials of an experiment file with a program.
    pub fn new(program: PathBuf, experiment: &Path, folder: PathBuf) -> Self {
        SimulatedBy { program, experiment: experiment.to_owned(), folder }
    }
}

#[derive(Deserialize)]
struct Output {
    runs: Vec<RunResult>,
}

impl Driver for SimulatedBy {
    fn name(&self) -> &'static str {
        SIMULATED
    }

    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
        Simulated.check(plan)
    }

    fn run(
        &mut self,
        plan: &TrialPlan,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunResult, DriverError> {
        watch(Progress::before("simulates", plan));
        let failed = |problem: String| DriverError::Program {
            program: self.program.clone(),
            trial: plan.name.clone(),
            problem,
        };
        let folder = |source| DriverError::Folder { path: self.folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(folder)?;
        let json = self.folder.join(format!("simulated-{}.json", std::process::id()));
        let mut command = Command::new(&self.program);
        command.args(["lab", "run"]).arg(&self.experiment).args(["--trial", &plan.name]);
        command.args(["--repeat", "1", "--warm-up", "0", "--seed", &plan.seed.to_string()]);
        command.arg("--json").arg(&json).stdin(Stdio::null());
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        let text = fs::read_to_string(&json);
        let _ = fs::remove_file(&json);
        // A run whose nodes did not finish ends with an error, and has a result.
        let Ok(text) = text else {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        };
        let output: Output =
            serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        output.runs.into_iter().next().ok_or_else(|| failed("it has no result".to_owned()))
    }
}
