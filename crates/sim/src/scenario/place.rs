//! Where in the text something is, for errors that name it.

use std::fmt;

use super::ScenarioError;

/// Where in the text an error is.
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Place<'_> {
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    /// The key that is closest before this place, or at it.
    pub(super) fn key(&self, at: usize) -> String {
        let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default().trim_end();
        let key = line.strip_suffix('=').map(|line| line.trim_end());
        let key = key.and_then(|line| line.rsplit(|c| !is_key(c)).next()).unwrap_or_default();
        if !key.is_empty() {
            return key.to_owned();
        }
        let after = self.text.get(at..).unwrap_or_default().trim_start_matches(['[', '{', ' ']);
        after.split(|c| !is_key(c)).next().unwrap_or_default().to_owned()
    }

    pub(super) fn error(&self, at: usize, key: &str, problem: impl fmt::Display) -> ScenarioError {
        ScenarioError::new(self.name, self.line(at), key, problem)
    }

    pub(super) fn whole(&self, key: &str, problem: impl fmt::Display) -> ScenarioError {
        ScenarioError::new(self.name, 0, key, problem)
    }
}
