use std::fmt;

/// A scenario that cannot be run: where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    file: String,
    /// From 1; 0 when it is about the whole.
    line: usize,
    key: String,
    problem: String,
}

impl ScenarioError {
    pub(super) fn new(file: &str, line: usize, key: &str, problem: impl fmt::Display) -> Self {
        let (file, key, problem) = (file.to_owned(), key.to_owned(), problem.to_string());
        ScenarioError { file, line, key, problem }
    }

    /// The line it is about, from 1; 0 when it is about the whole.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The key it is about; empty when it is about the whole.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for ScenarioError {}
