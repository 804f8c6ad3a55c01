//! All output of the commands: text, content, and files of results.
//!
//! **Without it**, `println!` panics when the reader of the output is gone (`| head -1`) or the disk is full, and takes an
//! hour of results with it. And the standard library replaces an output that was closed (`>&-`) by `/dev/null`, so content is
//! lost and the exit code is 0.
//!
//! So the macros here replace those of the standard library in all modules of this crate. Text whose reader is gone is
//! dropped, and the command goes on. Any other failure is told at its end ([`finish`]).
#![allow(unsafe_code)]

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

macro_rules! print {
    ($($part:tt)*) => { $crate::output::print(format_args!($($part)*)) };
}
macro_rules! println {
    ($($part:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($part)*))) };
}
macro_rules! eprintln {
    ($($part:tt)*) => { $crate::output::eprint(format_args!("{}\n", format_args!($($part)*))) };
}

/// Why text could not be written, the first time.
static FAILURE: OnceLock<io::Error> = OnceLock::new();
/// Whether the standard output is a file of results, so that text goes to the standard error.
static HAS_RESULTS: AtomicBool = AtomicBool::new(false);
/// Whether the standard output was closed when the process began.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before the standard library opens `/dev/null` in place of a closed output.
// SAFETY: the loader calls the functions of this section once, with arguments that C functions may ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note_closed;

extern "C" fn note_closed() {
    // SAFETY: it reads the flags of a descriptor, which may be closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Closes the standard output again in a program that replaces this one, if it was closed.
pub fn close_at_exec() {
    if WAS_CLOSED.load(Ordering::Relaxed) {
        // SAFETY: it sets a flag of a descriptor that nothing else uses.
        unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Writes text to the standard output.
pub fn print(text: Arguments<'_>) {
    // A reader that is gone does not come back, and a part of a text could be misread.
    if FAILURE.get().is_some() {
        return;
    }
    let mut out = text_output();
    note(out.write_fmt(text).and_then(|()| out.flush()));
}

/// Notes whether text could be written, for [`finish`].
pub fn note(written: io::Result<()>) {
    written.unwrap_or_else(|error| drop(FAILURE.set(error)));
}

/// Writes text to the standard error, if anyone reads it.
pub fn eprint(text: Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// The output of text.
pub fn text_output() -> Box<dyn Write> {
    match HAS_RESULTS.load(Ordering::Relaxed) {
        true => Box::new(io::stderr()),
        false => Box::new(io::stdout()),
    }
}

/// Whether text is shown on a terminal.
pub fn is_terminal() -> bool {
    match HAS_RESULTS.load(Ordering::Relaxed) {
        true => io::stderr().is_terminal(),
        false => io::stdout().is_terminal(),
    }
}

/// Fails if the standard output was closed when the process began.
pub fn check() -> anyhow::Result<()> {
    let was_closed = WAS_CLOSED.load(Ordering::Relaxed);
    anyhow::ensure!(!was_closed, "cannot write to the standard output: it is closed");
    Ok(())
}

/// The standard output for content, of which no byte may be lost.
pub fn content_output() -> anyhow::Result<File> {
    check()?;
    // Unlike `io::stdout`, a descriptor of our own reports each error.
    let own = io::stdout().as_fd().try_clone_to_owned();
    own.map(File::from).context("cannot write to the standard output")
}

/// The exit code of a command that has ended: failure if its text could not be written. A reader that left early
/// has read what it wanted.
pub fn finish(code: ExitCode) -> ExitCode {
    match FAILURE.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("watchfire: cannot write the standard output: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// A file of results, which is opened before the work of an hour that makes them. `-` is the standard output.
pub struct ResultFile {
    path: PathBuf,
    file: File,
    /// It did not exist, and has no results yet.
    is_new: bool,
}

impl ResultFile {
    /// Opens a file; what it contains stays until [`ResultFile::write`].
    pub fn open(path: &Path) -> anyhow::Result<ResultFile> {
        let cannot = || format!("cannot write {}", path.display());
        if path.as_os_str() == "-" {
            anyhow::ensure!(
                !HAS_RESULTS.swap(true, Ordering::Relaxed),
                "cannot write two results to the standard output; name a file for one of them"
            );
            let file = content_output()?;
            return Ok(ResultFile { path: path.to_owned(), file, is_new: false });
        }
        let is_new = path.symlink_metadata().is_err();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                format!("{}: create its folder first", cannot())
            }
            _ => cannot(),
        })?;
        Ok(ResultFile { path: path.to_owned(), file, is_new })
    }

    /// Opens the file of an option, if it is set.
    pub fn of(path: Option<&PathBuf>) -> anyhow::Result<Option<ResultFile>> {
        path.map(|path| ResultFile::open(path)).transpose()
    }

    pub fn write(mut self, text: &str) -> anyhow::Result<()> {
        self.is_new = false;
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        // The text that another program has appended to the output stays.
        let emptied =
            if is_file && self.path.as_os_str() != "-" { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        if self.is_new {
            // Without results, it leaves nothing.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_results_is_opened_first_and_keeps_what_it_has_until_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        drop(ResultFile::open(&path).unwrap());
        assert!(!path.exists(), "a run that failed leaves no file");
        ResultFile::open(&path).unwrap().write("a long result").unwrap();
        let second = ResultFile::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a long result");
        second.write("short").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
        let error = format!("{:#}", ResultFile::open(&folder.path().join("no/x")).err().unwrap());
        assert!(error.contains("no/x: create its folder first: "), "{error}");
        let full = ResultFile::open(Path::new("/dev/full")).unwrap();
        assert!(
            format!("{:#}", full.write("x").unwrap_err()).starts_with("cannot write /dev/full: ")
        );
    }
}
