//! The text of a scenario, the files that it names, and the overrides from the command line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::overrides::with_values;
use crate::scenario::{Scenario, ScenarioError};

/// Larger scenario files, and larger files that they name, are rejected.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// A scenario as text, so that it can be sent to workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// The file's name, for errors.
    pub name: String,
    pub text: String,
    /// The texts of the files that the scenario names, by the names that it uses.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The servers to use instead of the scenario's.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The seed to use instead of the scenario's.
    pub seed: Option<u64>,
}

impl Source {
    /// Read a scenario, and all files that it names. Their paths are relative to its folder.
    pub fn read(path: &Path) -> anyhow::Result<Source> {
        let name = path.display().to_string();
        let text = read_text(path).with_context(|| format!("cannot read {name}"))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut files = BTreeMap::new();
        Scenario::parse_with(&name, &text, &mut |file| {
            let text = read_text(&folder.join(file)).map_err(|error| error.to_string())?;
            files.insert(file.to_owned(), text.clone());
            Ok(text)
        })?;
        Ok(Source { name, text, files, ..Source::default() })
    }

    /// Use other values in place of those in the scenario. A key is a path such as `phases.join.rate`, in which a
    /// phase or a session has its name.
    pub fn set(&mut self, values: &[(String, String)]) -> anyhow::Result<()> {
        if !values.is_empty() {
            self.text = with_values(&self.text, values).with_context(|| self.name.clone())?;
            // Its lines are not those of the file.
            self.name += " with --set";
        }
        Ok(())
    }

    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::parse_with(&self.name, &self.text, &mut |file| {
            self.files.get(file).cloned().ok_or_else(|| "the file is missing".to_owned())
        })?;
        scenario.set_targets(&self.targets)?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.prepare(&self.name)?;
        Ok(scenario)
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    // The length of a device or a pipe is not known before its end.
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text)?;
    anyhow::ensure!(text.len() as u64 <= TEXT_BYTES_MAX, "it has more than 64 MiB");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_rejected() {
        let error = Source::read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(format!("{error:#}"), "cannot read /dev/zero: it has more than 64 MiB");
    }
}
