//! How far the code has moved since a page was measured.
//!
//! A figure that nobody measures again slowly becomes a false statement about the program. So each page names its
//! commit, and its experiment names the folders that it measures. The age of a page is the number of commits between
//! the two states of these folders; other commits do not count. With `stale_after = 60`, a page about the exchange may
//! be a year old if nobody touched the exchange, and is refused after a busy week.
//!
//! The measured commit can be unknown: a run often happens before a rebase, and the rebased commit has another name.
//! Then the count begins at the commit that brought this name into the page, which is never earlier than the
//! measured one by more than the commits of that rebase. A shallow clone has no history to count: the age is then
//! unknown, and the caller warns.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// The rows of a page's first table that are read again.
pub const EXPERIMENT: &str = "experiment";
pub const COMMIT: &str = "commit";

/// The experiment file and the commit of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHead {
    pub experiment: String,
    /// The commit, without a remark about local changes.
    pub commit: String,
}

/// The age of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    Commits(u32),
    /// The clone is shallow, so commits cannot be counted.
    Unknown,
}

/// Why the age of a page cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgeError {
    #[error("cannot run git")]
    Run { source: io::Error },
    #[error("git {arguments}: {problem}")]
    Git { arguments: String, problem: String },
    #[error("{page} names commit {commit}, which is unknown, and no commit added it to the page")]
    UnknownCommit { page: String, commit: String },
}

impl PageHead {
    /// The head of a page that the lab has written; `None` for any other document.
    pub fn read(markdown: &str) -> Option<PageHead> {
        let row = |name: &str| {
            let start = format!("| {name} | ");
            let line = markdown.lines().find_map(|line| line.strip_prefix(&start))?;
            line.strip_suffix(" |")
        };
        let (file, _) = row(EXPERIMENT)?.strip_prefix('[')?.split_once("](")?;
        let commit = row(COMMIT)?.split_whitespace().next()?;
        Some(PageHead { experiment: file.to_owned(), commit: commit.to_owned() })
    }

    /// The number of commits in `measures` since the page was measured. `page` is its path in the repository.
    pub fn age(&self, repository: &Path, page: &str, measures: &[String]) -> Result<Age, AgeError> {
        let git = |arguments: &[&str]| git(repository, arguments);
        if git(&["rev-parse", "--is-shallow-repository"])? == "true" {
            return Ok(Age::Unknown);
        }
        let named = format!("{}^{{commit}}", self.commit);
        // A rebase gives the measured commit another id. Then the commit of the page counts.
        let is_ancestor = git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &named])
            .is_ok_and(|commit| git(&["merge-base", "--is-ancestor", &commit, "HEAD"]).is_ok());
        let from = match is_ancestor {
            true => self.commit.clone(),
            false => self.brought_by(repository, page)?,
        };
        let range = format!("{from}..HEAD");
        let mut arguments = vec!["rev-list", "--count", &range, "--"];
        arguments.extend(measures.iter().map(String::as_str));
        let count = git(&arguments)?;
        let problem = |_| AgeError::Git { arguments: arguments.join(" "), problem: count.clone() };
        count.parse().map(Age::Commits).map_err(problem)
    }

    /// The commit that brought the name of the measured commit into the page.
    fn brought_by(&self, repository: &Path, page: &str) -> Result<String, AgeError> {
        let text = format!("-S{}", self.commit);
        let found = git(repository, &["log", "--format=%H", &text, "--", page])?;
        found.lines().last().map(str::to_owned).ok_or_else(|| AgeError::UnknownCommit {
            page: page.to_owned(),
            commit: self.commit.clone(),
        })
    }
}

fn git(repository: &Path, arguments: &[&str]) -> Result<String, AgeError> {
    let mut git = Command::new("git");
    // A test may belong to another user than the folder.
    git.current_dir(repository).args(["-c", "safe.directory=*"]).args(arguments);
    let output = git.stdin(Stdio::null()).output().map_err(|source| AgeError::Run { source })?;
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(AgeError::Git { arguments: arguments.join(" "), problem });
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A repository with a measured folder `code`, and a page.
    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new() -> Self {
            let repository = Repository(tempfile::tempdir().unwrap());
            repository.git(&["init", "--quiet"]);
            repository
        }

        fn git(&self, arguments: &[&str]) -> String {
            let author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
            git(self.0.path(), &[&author, arguments].concat()).unwrap()
        }

        /// Commits a change of a file. Returns the commit.
        fn commit(&self, file: &str, text: &str) -> String {
            fs::create_dir_all(self.0.path().join(file).parent().unwrap()).unwrap();
            fs::write(self.0.path().join(file), text).unwrap();
            self.git(&["add", "."]);
            self.git(&["commit", "--quiet", "-m", text]);
            self.git(&["rev-parse", "HEAD"])
        }

        fn age(&self, commit: &str) -> Result<Age, AgeError> {
            let head = PageHead { experiment: "one.toml".to_owned(), commit: commit.to_owned() };
            head.age(self.0.path(), "page.md", &["code".to_owned()])
        }
    }

    #[test]
    fn only_commits_in_the_measured_folders_count() {
        let repository = Repository::new();
        let measured = repository.commit("code/a.rs", "1");
        repository.commit("other.rs", "2");
        assert_eq!(repository.age(&measured).unwrap(), Age::Commits(0));
        repository.commit("code/a.rs", "3");
        repository.commit("code/b.rs", "4");
        assert_eq!(repository.age(&measured[..8]).unwrap(), Age::Commits(2));
    }

    #[test]
    fn an_unknown_commit_counts_since_it_was_added_to_the_page() {
        let repository = Repository::new();
        repository.commit("code/a.rs", "1");
        let error = repository.age("deadbeef").unwrap_err().to_string();
        assert!(error.contains("page.md names commit deadbeef"), "{error}");
        repository.commit("page.md", "| commit | deadbeef |");
        repository.commit("code/a.rs", "2");
        repository.commit("page.md", "another word, | commit | deadbeef |");
        assert_eq!(repository.age("deadbeef").unwrap(), Age::Commits(1));
    }

    #[test]
    fn the_age_is_unknown_in_a_shallow_clone() {
        let origin = Repository::new();
        let first = origin.commit("code/a.rs", "1");
        origin.commit("code/a.rs", "2");
        let shallow = Repository(tempfile::tempdir().unwrap());
        let url = format!("file://{}", origin.0.path().display());
        let path = shallow.0.path().display().to_string();
        origin.git(&["clone", "--quiet", "--depth", "1", &url, &path]);
        assert_eq!(shallow.age(&first).unwrap(), Age::Unknown);
    }

    #[test]
    fn other_documents_have_no_head() {
        assert_eq!(PageHead::read("# Title\n| experiment | none |\n| commit | a |\n"), None);
        let page = "| experiment | [a.toml](../a.toml) |\n| commit | 12ab with local changes |\n";
        let head = PageHead::read(page).unwrap();
        assert_eq!((head.experiment.as_str(), head.commit.as_str()), ("a.toml", "12ab"));
    }
}
