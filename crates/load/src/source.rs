//! The text of a scenario, and the overrides from the command line.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::scenario::{Scenario, ScenarioError};

/// Larger scenario files are rejected.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// A scenario as text, so that it can be sent to workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Source {
    /// The file's name, for errors.
    pub name: String,
    pub text: String,
    /// The server to use instead of the scenario's.
    pub target: Option<String>,
    /// The seed to use instead of the scenario's.
    pub seed: Option<u64>,
}

impl Source {
    pub fn read(path: &Path) -> anyhow::Result<Source> {
        let name = path.display().to_string();
        let len = std::fs::metadata(path).with_context(|| name.clone())?.len();
        anyhow::ensure!(
            len <= TEXT_BYTES_MAX,
            "cannot read {name}: it has {len} bytes, but at most 64 MiB are allowed"
        );
        let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
        Ok(Source { name, text, target: None, seed: None })
    }

    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::parse(&self.name, &self.text)?;
        if let Some(url) = &self.target {
            scenario.set_target(url)?;
        }
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.prepare(&self.name)?;
        Ok(scenario)
    }
}
