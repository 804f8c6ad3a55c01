//! The parts that both simulations have.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

/// The exit code when a node did not get the content, or a rule was broken; other failures end with 1.
const FAILED: u8 = 3;

/// Arguments of every simulation.
#[derive(clap::Args)]
pub struct SimulationArguments {
    /// The scenario file: nodes, links and the content; see docs/reference/swarm-scenarios.md.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Use this seed for random numbers instead of the scenario's.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write all results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write only the charts to this file.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

impl SimulationArguments {
    /// The name of the scenario file for errors, and its text.
    pub fn read(&self) -> anyhow::Result<(String, String)> {
        let name = self.scenario.display().to_string();
        let text = std::fs::read_to_string(&self.scenario).with_context(|| name.clone())?;
        Ok((name, text))
    }

    /// Writes the files that the arguments name.
    pub fn write(
        &self,
        json: impl FnOnce() -> serde_json::Value,
        picture: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if let Some(file) = &self.json {
            write(file, &(serde_json::to_string_pretty(&json())? + "\n"))?;
        }
        if let Some(file) = &self.picture {
            write(file, &picture())?;
        }
        Ok(())
    }
}

/// Writes a file. An error names it.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

/// The exit code of a simulation.
pub fn exit_code(is_healthy: bool) -> ExitCode {
    if is_healthy { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}
