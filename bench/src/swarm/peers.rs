//! The seeder and leechers of any program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::testbed::Node;
use crate::log::log_tail;
use crate::parent_death_guard::GuardedChild;
use crate::process::Watched;

/// Interval of memory samples. The kernel records the peak, so only growth at the very end is
/// missed.
const MEMORY_SAMPLE_INTERVAL: Duration = Duration::from_millis(40);
const PAUSE: Duration = Duration::from_millis(10);

/// A process with the file.
pub trait Seeder {
    fn name(&self) -> &str;
    fn address(&self) -> &str;
    fn watched(&self) -> Watched;
    /// Ends the process. Returns the bytes of the file that it sent.
    fn end(self: Box<Self>) -> Result<u64>;
}

/// The processes that fetch the file.
pub trait Leechers {
    fn start(&mut self) -> Result<()>;
    /// Records leechers that have finished; `after` is the time since the start. Fails if one
    /// failed.
    fn poll(&mut self, after: Duration) -> Result<()>;
    /// Times at which leechers finished, in any order.
    fn finishes(&self) -> &[Duration];
    /// CPU time since the start.
    fn cpu(&self) -> Result<Duration>;
    /// Ends the leechers after all have finished, and returns their totals.
    fn end(self: Box<Self>) -> Result<LeecherTotals>;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LeecherTotals {
    /// Peak memory of the leecher with the highest peak.
    pub peak_bytes: u64,
    /// Duplicate bytes that the leechers received.
    pub duplicate_bytes: u64,
}

/// A program with a log, which ends when this is dropped.
pub struct Logged {
    process: GuardedChild,
    out: PathBuf,
    err: PathBuf,
}

impl Logged {
    /// Its output goes to `<stem>.out` and `<stem>.err`.
    pub fn spawn(command: &mut Command, stem: &Path) -> Result<Self> {
        let (out, err) = (stem.with_extension("out"), stem.with_extension("err"));
        let create = |path: &Path| {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))
        };
        command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
        Ok(Logged { process: GuardedChild::spawn(command)?, out, err })
    }

    pub fn watched(&self) -> Watched {
        Watched::new(self.process.id())
    }

    pub fn output(&self) -> Result<String> {
        fs::read_to_string(&self.out).with_context(|| self.out.display().to_string())
    }

    pub fn error_output(&self) -> Result<String> {
        fs::read_to_string(&self.err).with_context(|| self.err.display().to_string())
    }

    /// The last lines of its error output, to append to an error.
    pub fn log_tail(&self) -> String {
        log_tail(&self.err)
    }

    /// Waits until `find` returns a value for its output.
    pub fn wait_for<T>(
        &mut self,
        name: &str,
        timeout: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let started_at = Instant::now();
        loop {
            if let Some(found) = find(&self.output()?) {
                return Ok(found);
            }
            if let Some(status) = self.process.child().try_wait()? {
                bail!("the process ended with {status} before {name}{}", self.log_tail());
            }
            ensure!(
                started_at.elapsed() < timeout,
                "no {name} after {} s{}",
                timeout.as_secs(),
                self.log_tail()
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until it has ended by itself with success.
    pub fn wait(&mut self, timeout: Duration) -> Result<()> {
        let started_at = Instant::now();
        while !self.watched().has_ended()? {
            ensure!(started_at.elapsed() < timeout, "the process does not end{}", self.log_tail());
            std::thread::sleep(PAUSE);
        }
        self.check_status()
    }

    /// Fails if the ended process reported an error.
    pub fn check_status(&mut self) -> Result<()> {
        let status = self.process.child().wait()?;
        ensure!(status.success(), "the process ended with {status}{}", self.log_tail());
        Ok(())
    }
}

/// Leechers that are one process each, which ends when it has the file.
#[derive(Default)]
pub struct Fetchers {
    fetchers: Vec<Fetcher>,
    finishes: Vec<Duration>,
    memory_sampled_at: Option<Instant>,
}

struct Fetcher {
    process: Logged,
    peak_bytes: u64,
    /// Its total CPU time, once it has ended.
    used: Option<Duration>,
}

impl Fetchers {
    pub fn add(&mut self, process: Logged) {
        self.fetchers.push(Fetcher { process, peak_bytes: 0, used: None });
    }

    pub fn poll(&mut self, after: Duration) -> Result<()> {
        let is_due = |at: Instant| at.elapsed() >= MEMORY_SAMPLE_INTERVAL;
        let samples_memory = self.memory_sampled_at.is_none_or(is_due);
        if samples_memory {
            self.memory_sampled_at = Some(Instant::now());
        }
        for (index, fetcher) in self.fetchers.iter_mut().enumerate() {
            let watched = fetcher.process.watched();
            if fetcher.used.is_none() && watched.has_ended()? {
                fetcher.used = Some(watched.cpu_with_children()?);
                self.finishes.push(after);
                let ended = fetcher.process.check_status();
                ended.with_context(|| format!("leecher {index}"))?;
            } else if fetcher.used.is_none() && samples_memory {
                // The kernel reports no memory while the process ends.
                let peak_bytes = watched.peak_bytes().unwrap_or(0);
                fetcher.peak_bytes = fetcher.peak_bytes.max(peak_bytes);
            }
        }
        Ok(())
    }

    pub fn finishes(&self) -> &[Duration] {
        &self.finishes
    }

    pub fn cpu(&self) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        for fetcher in &self.fetchers {
            sum += match fetcher.used {
                Some(used) => used,
                None => fetcher.process.watched().cpu_with_children()?,
            };
        }
        Ok(sum)
    }

    pub fn peak_bytes(&self) -> u64 {
        self.fetchers.iter().map(|fetcher| fetcher.peak_bytes).max().unwrap_or(0)
    }

    /// The output of each, once all have ended.
    pub fn outputs(&self) -> Result<Vec<String>> {
        self.fetchers.iter().map(|fetcher| fetcher.process.output()).collect()
    }
}

/// Leechers of a program that writes the file to a path, and does not report duplicates.
pub struct Commands<'a> {
    name: &'static str,
    nodes: &'a [Node],
    folder: PathBuf,
    /// The command that fetches a copy at a node.
    command: Box<CommandOf<'a>>,
    fetchers: Fetchers,
}

type CommandOf<'a> = dyn Fn(&Node, &Path) -> Result<Command> + 'a;

impl<'a> Commands<'a> {
    pub fn prepare(
        name: &'static str,
        nodes: &'a [Node],
        folder: &Path,
        command: impl Fn(&Node, &Path) -> Result<Command> + 'a,
    ) -> Self {
        let (folder, command) = (folder.to_owned(), Box::new(command));
        Commands { name, nodes, folder, command, fetchers: Fetchers::default() }
    }
}

impl Leechers for Commands<'_> {
    fn start(&mut self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            let copy = copy_of(&self.folder, index);
            fs::create_dir_all(copy.parent().expect("a copy has a parent folder"))?;
            let stem = self.folder.join(format!("{}-{index}", self.name));
            self.fetchers.add(Logged::spawn(&mut (self.command)(node, &copy)?, &stem)?);
        }
        Ok(())
    }

    fn poll(&mut self, after: Duration) -> Result<()> {
        self.fetchers.poll(after)
    }

    fn finishes(&self) -> &[Duration] {
        self.fetchers.finishes()
    }

    fn cpu(&self) -> Result<Duration> {
        self.fetchers.cpu()
    }

    fn end(self: Box<Self>) -> Result<LeecherTotals> {
        Ok(LeecherTotals { peak_bytes: self.fetchers.peak_bytes(), duplicate_bytes: 0 })
    }
}

pub fn copy_of(folder: &Path, leecher: usize) -> PathBuf {
    folder.join(format!("{leecher}")).join("copy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_fetchers_are_counted_with_their_cpu_time() {
        let folder = std::env::temp_dir().join(format!("bench-fetchers-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut fetchers = Fetchers::default();
        let spawn = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            Logged::spawn(command.args(["-c", script]), &folder.join(name)).unwrap()
        };
        fetchers.add(spawn("works", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $i"));
        let started_at = Instant::now();
        while fetchers.finishes().is_empty() {
            fetchers.poll(started_at.elapsed()).unwrap();
            assert!(started_at.elapsed() < Duration::from_secs(60));
        }
        assert!(fetchers.cpu().unwrap() > Duration::ZERO && fetchers.peak_bytes() > 0);
        assert_eq!(fetchers.outputs().unwrap(), ["100000\n"]);

        fetchers.add(spawn("fails", "echo why >&2; exit 3"));
        let failed = loop {
            if let Err(error) = fetchers.poll(started_at.elapsed()) {
                break format!("{error:#}");
            }
            assert!(started_at.elapsed() < Duration::from_secs(60));
        };
        fs::remove_dir_all(&folder).unwrap();
        assert!(failed.contains("leecher 1") && failed.contains("why"), "{failed}");
    }
}
