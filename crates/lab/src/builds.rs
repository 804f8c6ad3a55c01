//! Programs built from a git reference, each once.
//!
//! The cache has one clone of the repository and one folder of compiled crates for all builds, so that the
//! second commit compiles only what differs. The clone shares the objects of the repository: it sees each
//! commit, also a new one, and writes nothing to the repository. A built program is stored under its
//! commit, and at most [`BUILDS_MAX`] are kept.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Most programs in the cache. The one that was used least recently is removed first.
const BUILDS_MAX: usize = 8;
/// The end of the compiler's output that an error contains.
const LOG_BYTES: usize = 2000;
const PROGRAM: &str = "watchfire";

/// Builds the program of a repository.
#[derive(Clone, Debug)]
pub struct Builds {
    repository: PathBuf,
    cache: PathBuf,
    /// The arguments of cargo.
    arguments: Vec<String>,
}

/// Why a program cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("unknown git reference {reference:?}: {problem}")]
    Reference { reference: String, problem: String },
    #[error("{reference} does not build: {log}")]
    Failed { reference: String, log: String },
    #[error("cannot run {program}")]
    Run { program: &'static str, source: io::Error },
    #[error("cannot use the cache of builds {path}")]
    Cache { path: PathBuf, source: io::Error },
}

impl Builds {
    /// Builds of the repository that contains `folder`, in a cache that is created when it is needed.
    pub fn new(folder: PathBuf, cache: PathBuf) -> Self {
        let arguments = ["build", "--release", "--locked", "-p", "watchfire-cli", "--bin", PROGRAM];
        Builds { repository: folder, cache, arguments: arguments.map(str::to_owned).to_vec() }
    }

    /// The commit of a reference.
    pub fn commit(&self, reference: &str) -> Result<String, BuildError> {
        let named = format!("{reference}^{{commit}}");
        let found =
            self.git(&self.repository, &["rev-parse", "--verify", "--end-of-options", &named])?;
        found.map_err(|problem| BuildError::Reference { reference: reference.to_owned(), problem })
    }

    /// The program at a reference. It is built unless the cache has it.
    pub fn program(&self, reference: &str) -> Result<PathBuf, BuildError> {
        let commit = self.commit(reference)?;
        let program = self.cache.join("programs").join(&commit).join(PROGRAM);
        let cache = |source| BuildError::Cache { path: self.cache.clone(), source };
        fs::create_dir_all(self.cache.join("programs")).map_err(cache)?;
        let lock = File::create(self.cache.join("lock")).map_err(cache)?;
        lock.lock().map_err(cache)?;
        if !program.exists() {
            self.build(reference, &commit)?;
            self.keep(&program).map_err(cache)?;
        }
        let used = File::open(&program).and_then(|file| file.set_modified(SystemTime::now()));
        used.map_err(cache)?;
        self.remove_old().map_err(cache)?;
        Ok(program)
    }

    fn source(&self) -> PathBuf {
        self.cache.join("source")
    }

    fn build(&self, reference: &str, commit: &str) -> Result<(), BuildError> {
        let failed = |log: String| BuildError::Failed { reference: reference.to_owned(), log };
        let source = self.source();
        if !source.join(".git").exists() {
            let top =
                self.git(&self.repository, &["rev-parse", "--show-toplevel"])?.map_err(&failed)?;
            let clone = ["clone", "--quiet", "--shared", "--no-checkout", &top, "source"];
            self.git(&self.cache, &clone)?.map_err(&failed)?;
        }
        let checkout = ["checkout", "--quiet", "--force", "--detach", commit];
        self.git(&source, &checkout)?.map_err(&failed)?;
        let mut cargo = Command::new("cargo");
        cargo.args(&self.arguments).current_dir(&source);
        cargo.env("CARGO_TARGET_DIR", self.cache.join("target")).stdin(Stdio::null());
        let output =
            cargo.output().map_err(|source| BuildError::Run { program: "cargo", source })?;
        if output.status.success() { Ok(()) } else { Err(failed(end_of(&output.stderr))) }
    }

    /// Copies the program that was just built to its place.
    fn keep(&self, program: &Path) -> io::Result<()> {
        let profile =
            if self.arguments.iter().any(|one| one == "--release") { "release" } else { "debug" };
        let built = self.cache.join("target").join(profile).join(PROGRAM);
        let folder = program.parent().expect("a program has a folder");
        fs::create_dir_all(folder)?;
        let part = folder.join("part");
        fs::copy(built, &part)?;
        fs::rename(part, program)
    }

    fn remove_old(&self) -> io::Result<()> {
        let mut programs = Vec::new();
        for entry in fs::read_dir(self.cache.join("programs"))? {
            let folder = entry?.path();
            let used = fs::metadata(folder.join(PROGRAM)).and_then(|metadata| metadata.modified());
            programs.push((used.unwrap_or(SystemTime::UNIX_EPOCH), folder));
        }
        programs.sort();
        let old = programs.len().saturating_sub(BUILDS_MAX);
        programs.into_iter().take(old).try_for_each(|(_, folder)| fs::remove_dir_all(folder))
    }

    /// The output of git, or its error.
    fn git(&self, folder: &Path, arguments: &[&str]) -> Result<Result<String, String>, BuildError> {
        let mut git = Command::new("git");
        git.current_dir(folder).args(arguments).stdin(Stdio::null());
        let output = git.output().map_err(|source| BuildError::Run { program: "git", source })?;
        Ok(match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(end_of(&output.stderr)),
        })
    }
}

/// The last lines of an output.
fn end_of(output: &[u8]) -> String {
    let end = &output[output.len().saturating_sub(LOG_BYTES)..];
    String::from_utf8_lossy(end).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with a program that prints a number, in two commits, and a third that is broken.
    fn repository(folder: &Path) -> Builds {
        fs::create_dir_all(folder.join("repository/src")).unwrap();
        let repository = folder.join("repository");
        let manifest = "[package]\nname = \"watchfire-cli\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                        [[bin]]\nname = \"watchfire\"\npath = \"src/main.rs\"\n[workspace]\n";
        fs::write(repository.join("Cargo.toml"), manifest).unwrap();
        let lock = "version = 4\n[[package]]\nname = \"watchfire-cli\"\nversion = \"0.1.0\"\n";
        fs::write(repository.join("Cargo.lock"), lock).unwrap();
        let git = |arguments: &[&str]| {
            let status = Command::new("git")
                .current_dir(&repository)
                .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
                .args(arguments)
                .status();
            assert!(status.unwrap().success(), "{arguments:?}");
        };
        git(&["init", "--quiet"]);
        for (tag, body) in
            [("one", "println!(\"1\")"), ("two", "println!(\"2\")"), ("broken", "oops")]
        {
            fs::write(repository.join("src/main.rs"), format!("fn main() {{ {body} }}\n")).unwrap();
            git(&["add", "."]);
            git(&["commit", "--quiet", "-m", tag]);
            git(&["tag", tag]);
        }
        let mut builds = Builds::new(repository, folder.join("cache"));
        builds.arguments.retain(|one| one != "--release");
        builds
    }

    #[test]
    fn each_reference_is_built_once_and_one_that_does_not_build_shows_why() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let builds = repository(folder);
        let output = |program: &Path| Command::new(program).output().unwrap().stdout;
        let one = builds.program("one").unwrap();
        let two = builds.program("two").unwrap();
        assert_eq!((output(&one), output(&two)), (b"1\n".to_vec(), b"2\n".to_vec()));
        let stamp = fs::metadata(one.parent().unwrap()).unwrap().modified().unwrap();
        assert_eq!(builds.program("two~1").unwrap(), one);
        assert_eq!(fs::metadata(one.parent().unwrap()).unwrap().modified().unwrap(), stamp);

        let error = builds.program("broken").unwrap_err().to_string();
        assert!(error.starts_with("broken does not build: ") && error.contains("oops"), "{error}");
        let error = builds.program("nowhere").unwrap_err().to_string();
        assert!(error.starts_with("unknown git reference \"nowhere\""), "{error}");
    }
}
