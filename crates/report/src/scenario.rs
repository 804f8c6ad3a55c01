//! Parsing of scenario files in TOML. Errors name the line, the key and a similar known key.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use crate::units::{DurationText, Share};

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

/// Most regions of a scenario: each pair of them has a path.
const REGIONS_MAX: usize = 1000;
/// The largest share of packets that a path may lose.
const LOSS_MAX: f64 = 0.5;

/// The path between two regions of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    /// Time from one end to the other.
    pub delay: Duration,
    /// The largest random addition to the delay.
    pub jitter: Duration,
    /// The share of packets that are lost.
    pub loss: f64,
}

/// A path in a scenario file: two regions, or one region twice. Values that it leaves out are those of the other
/// paths.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathText {
    between: [String; 2],
    latency: Option<DurationText>,
    jitter: Option<DurationText>,
    loss: Option<Share>,
}

impl SourceText<'_> {
    /// The paths between all regions, both ways: one row for each region, with one path for each. `members` says in
    /// an error what a region lacks, such as "no peers are".
    pub fn paths(
        &self,
        usual: Path,
        paths: &[Spanned<PathText>],
        regions: &[String],
        members: &str,
    ) -> Result<Vec<Vec<Path>>, ScenarioError> {
        if regions.len() > REGIONS_MAX {
            let problem = format!("{} are more than {REGIONS_MAX}", regions.len());
            return Err(self.error_in_file("region", problem));
        }
        let mut all = vec![vec![usual; regions.len()]; regions.len()];
        for path in paths {
            let (at, path) = (path.span().start, path.get_ref());
            let mut ends = [0; 2];
            for (end, region) in ends.iter_mut().zip(&path.between) {
                let found = regions.iter().position(|known| known == region);
                let problem = || format!("{members} in region {region:?}");
                *end = found.ok_or_else(|| self.error(at, "between", problem()))?;
            }
            let path = Path {
                delay: path.latency.map_or(usual.delay, |span| span.0),
                jitter: path.jitter.map_or(usual.jitter, |span| span.0),
                loss: path.loss.map_or(usual.loss, |part| part.0),
            };
            all[ends[0]][ends[1]] = path;
            all[ends[1]][ends[0]] = path;
        }
        if all.iter().flatten().any(|path| path.loss > LOSS_MAX) {
            return Err(self.error_in_file("loss", "must be at most 0.5"));
        }
        Ok(all)
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
    fn paths_are_both_ways_and_regions_are_bounded() {
        let source = SourceText { name: "x.toml", text: "" };
        let paths = [Spanned::new(
            0..0,
            PathText {
                between: ["eu", "us"].map(str::to_owned),
                latency: Some(DurationText(Duration::from_millis(40))),
                jitter: None,
                loss: None,
            },
        )];
        let regions = ["us", "eu"].map(str::to_owned);
        let usual = Path { loss: 0.1, ..Path::default() };
        let all = source.paths(usual, &paths, &regions, "no peers are").unwrap();
        assert_eq!((all[0][1], all[0][0]), (all[1][0], usual));
        assert_eq!((all[0][1].delay.as_millis(), all[0][1].loss), (40, 0.1));

        let error = source.paths(usual, &paths, &regions[..1], "no peers are").unwrap_err();
        assert!(error.to_string().ends_with("no peers are in region \"eu\""), "{error}");
        let many: Vec<String> = (0..1001).map(|number| number.to_string()).collect();
        let error = source.paths(usual, &[], &many, "no peers are").unwrap_err();
        assert!(error.to_string().ends_with("region: 1001 are more than 1000"), "{error}");
    }

    #[test]
    fn an_unknown_key_without_a_similar_one_gets_no_suggestion() {
        let source = SourceText { name: "x.toml", text: "zzz = 1" };
        let error = source.parse::<Network>().unwrap_err().to_string();
        assert!(error.starts_with("x.toml:1: zzz: unknown field `zzz`"), "{error}");
        assert!(!error.contains("did you mean"), "{error}");
    }
}
