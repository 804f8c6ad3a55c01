//! Parsing of scenario files in TOML. Errors name the line, the key and a similar known key.

use std::fmt;

use serde::de::DeserializeOwned;

/// Least similarity of a suggested name, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.75;

/// Why a scenario is invalid, and the position in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    file: String,
    /// From 1; 0 if the error is about the whole file.
    line: usize,
    key: String,
    problem: String,
}

impl ScenarioError {
    /// An error at a line, from 1; 0 if it is about the whole file.
    pub fn new(file: &str, line: usize, key: &str, problem: impl fmt::Display) -> Self {
        let (file, key, problem) = (file.to_owned(), key.to_owned(), problem.to_string());
        ScenarioError { file, line, key, problem }
    }

    /// The line of the error, from 1; 0 if it is about the whole file.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The key, element or attribute; empty if the error is about the whole file.
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

/// The text of a scenario file, and its name.
///
/// ```
/// use watchfire_report::scenario::SourceText;
///
/// #[derive(Debug, serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Scenario { rate: f64 }
///
/// let source = SourceText { name: "lobby.toml", text: "# hello\nrat = 5" };
/// let error = source.parse::<Scenario>().unwrap_err();
/// assert_eq!((error.line(), error.key()), (2, "rat"));
/// assert!(error.to_string().contains("expected `rate`"));
/// ```
pub struct SourceText<'a> {
    /// The name of the file in errors.
    pub name: &'a str,
    pub text: &'a str,
}

impl SourceText<'_> {
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ScenarioError> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = if error.span().is_some() { self.line(at) } else { 0 };
            let problem = error.message();
            match suggestion(problem) {
                Some(known) => {
                    let problem = format!("{problem}; did you mean `{known}`?");
                    ScenarioError::new(self.name, line, &self.key(at), problem)
                }
                None => ScenarioError::new(self.name, line, &self.key(at), problem),
            }
        })
    }

    /// An error at a byte offset of the text.
    pub fn error(&self, at: usize, key: &str, problem: impl fmt::Display) -> ScenarioError {
        ScenarioError::new(self.name, self.line(at), key, problem)
    }

    /// An error about the whole file.
    pub fn error_in_file(&self, key: &str, problem: impl fmt::Display) -> ScenarioError {
        ScenarioError::new(self.name, 0, key, problem)
    }

    /// The line of a byte offset, from 1.
    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    /// The key at a byte offset, or the last one before it on the same line.
    fn key(&self, at: usize) -> String {
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
}

/// The known word that is most similar to the unknown one, if serde lists several.
fn suggestion(problem: &str) -> Option<&str> {
    let (unknown, known) = problem.split_once(", expected ")?;
    let unknown = unknown.strip_prefix("unknown ")?.split('`').nth(1)?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    if known.len() < 2 {
        return None;
    }
    similar(unknown, known, 1).pop()
}

/// At most `count` known names that are similar to an unknown one, the most similar first.
pub fn similar<'a>(
    unknown: &str,
    known: impl IntoIterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let scored = known.into_iter().map(|name| (strsim::jaro_winkler(unknown, name), name));
    let mut close: Vec<_> = scored.filter(|(score, _)| *score >= SIMILARITY_MIN).collect();
    close.sort_by(|one, other| other.0.total_cmp(&one.0));
    close.into_iter().take(count).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsing is tested")]
    struct Network {
        latency: Option<String>,
        loss: Option<f64>,
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_line_and_a_suggestion() {
        let source = SourceText { name: "x.toml", text: "\nlatncy = \"5ms\"\n" };
        let error = source.parse::<Network>().unwrap_err();
        assert_eq!((error.line(), error.key()), (2, "latncy"));
        assert!(error.to_string().ends_with("did you mean `latency`?"), "{error}");
    }

    #[test]
    fn an_unknown_key_without_a_similar_one_gets_no_suggestion() {
        let source = SourceText { name: "x.toml", text: "zzz = 1" };
        let error = source.parse::<Network>().unwrap_err().to_string();
        assert!(error.starts_with("x.toml:1: zzz: unknown field `zzz`"), "{error}");
        assert!(!error.contains("did you mean"), "{error}");
    }
}
