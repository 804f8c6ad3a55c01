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
    /// The files that the scenario names, by the names that it uses.
    #[serde(default, with = "in_base64")]
    pub files: BTreeMap<String, Vec<u8>>,
    /// The servers to use instead of the scenario's.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The seed to use instead of the scenario's.
    pub seed: Option<u64>,
}

impl Source {
    /// Reads a scenario, and all files that it names. Their paths are relative to its folder.
    pub fn read(path: &Path) -> anyhow::Result<Source> {
        let name = path.display().to_string();
        let text = read_text(path).with_context(|| format!("cannot read {name}"))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut files = BTreeMap::new();
        Scenario::parse_with(&name, &text, &mut |file| {
            let bytes = read_bytes(&folder.join(file)).map_err(|error| error.to_string())?;
            files.insert(file.to_owned(), bytes.clone());
            Ok(bytes)
        })?;
        Ok(Source { name, text, files, ..Source::default() })
    }

    /// Uses other values in place of those in the scenario. A key is a path such as
    /// `phases.join.rate`, in which a phase or a session has its name.
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
    String::from_utf8(read_bytes(path)?).map_err(|_| anyhow::anyhow!("it is not text in UTF-8"))
}

fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    // The length of a device or a pipe is not known before its end.
    let mut bytes = Vec::new();
    File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(bytes.len() as u64 <= TEXT_BYTES_MAX, "it has more than 64 MiB");
    Ok(bytes)
}

/// Files in a line of JSON, for a worker.
mod in_base64 {
    use std::collections::BTreeMap;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        files: &BTreeMap<String, Vec<u8>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(files.iter().map(|(name, bytes)| (name, STANDARD.encode(bytes))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
        let files = BTreeMap::<String, String>::deserialize(from)?.into_iter();
        files
            .map(|(name, text)| Ok((name, STANDARD.decode(text).map_err(D::Error::custom)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_rejected() {
        let error = Source::read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(format!("{error:#}"), "cannot read /dev/zero: it has more than 64 MiB");
    }

    #[test]
    fn a_worker_gets_the_same_bytes() {
        let files = BTreeMap::from([("body.gz".to_owned(), vec![0x1f, 0x8b, 0xff, 0])]);
        let source = Source { files: files.clone(), ..Source::default() };
        let line = serde_json::to_string(&source).unwrap();
        assert_eq!(serde_json::from_str::<Source>(&line).unwrap().files, files);
    }
}
