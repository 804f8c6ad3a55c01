//! A change of one file, and how it is shown.

use std::path::PathBuf;

use similar::TextDiff;

use super::host::Host;

/// A change of one file. `None` means that the file does not exist.
#[derive(Debug, PartialEq)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

impl Change {
    /// The change as a unified diff.
    pub(super) fn diff(&self, host: &Host) -> String {
        let path = host.path(&self.path).unwrap_or_else(|_| self.path.clone());
        let name = path.display().to_string();
        let header = |text: &Option<String>| match text {
            Some(_) => name.clone(),
            None => "/dev/null".to_owned(),
        };
        let (from, to) = (self.from.as_deref().unwrap_or(""), self.to.as_deref().unwrap_or(""));
        TextDiff::from_lines(from, to)
            .unified_diff()
            .header(&header(&self.from), &header(&self.to))
            .to_string()
    }
}
