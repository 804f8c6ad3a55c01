//! Seeders and leechers, whatever program they are.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::testbed::Node;
use crate::log::last_words;
use crate::parent_death_guard::GuardedChild;
use crate::process::Watched;

/// How often memory is looked at; it only ever grows, so what is missed is what grew at the very end.
const LOOK_AT_MEMORY_EVERY: Duration = Duration::from_millis(40);
const PAUSE: Duration = Duration::from_millis(10);

/// A process that has the file.
pub trait Seeder {
    /// The name that leechers request.
    fn name(&self) -> &str;
    /// The address that leechers connect to.
    fn address(&self) -> &str;
    fn watched(&self) -> Watched;
    /// Ends it; how many bytes of the file it sent in all.
    fn end(self: Box<Self>) -> Result<u64>;
}

/// The processes that fetch the file.
pub trait Leechers {
    /// Everyone begins.
    fn go(&mut self) -> Result<()>;
    /// Notes who has finished; `after` the beginning. An error when one failed.
    fn look(&mut self, after: Duration) -> Result<()>;
    /// When each had all of it, in any order; shorter than the crowd until the end.
    fn finishes(&self) -> &[Duration];
    /// CPU time since the beginning.
    fn cpu(&self) -> Result<Duration>;
    /// What else can be told when all have finished; ends them.
    fn end(self: Box<Self>) -> Result<Taken>;
}

/// What leechers tell in the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Of the one that had the most.
    pub peak_bytes: u64,
    /// Bytes of blocks that came when they were no longer wanted.
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

    /// The end of what it complained about, to be put after an error.
    pub fn last_words(&self) -> String {
        last_words(&self.err)
    }

    /// Waits until `find` finds something in its output.
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        patience: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let started_at = Instant::now();
        loop {
            if let Some(found) = find(&self.output()?) {
                return Ok(found);
            }
            if let Some(status) = self.process.child().try_wait()? {
                bail!("it ended with {status} before {what}{}", self.last_words());
            }
            ensure!(
                started_at.elapsed() < patience,
                "no {what} after {} s{}",
                patience.as_secs(),
                self.last_words()
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until it has ended by itself, well.
    pub fn wait(&mut self, patience: Duration) -> Result<()> {
        let started_at = Instant::now();
        while !self.watched().has_ended()? {
            ensure!(started_at.elapsed() < patience, "it does not end{}", self.last_words());
            std::thread::sleep(PAUSE);
        }
        self.ended_well()
    }

    /// It has ended: that it did so well.
    fn ended_well(&mut self) -> Result<()> {
        let status = self.process.child().wait()?;
        ensure!(status.success(), "it ended with {status}{}", self.last_words());
        Ok(())
    }
}

/// Leechers that are a process each, which ends when it has the file.
#[derive(Default)]
pub struct Fetchers {
    fetchers: Vec<Fetcher>,
    finishes: Vec<Duration>,
    memory_seen_at: Option<Instant>,
}

struct Fetcher {
    process: Logged,
    peak_bytes: u64,
    /// What it used in all, once it has ended.
    used: Option<Duration>,
}

impl Fetchers {
    pub fn add(&mut self, process: Logged) {
        self.fetchers.push(Fetcher { process, peak_bytes: 0, used: None });
    }

    pub fn look(&mut self, after: Duration) -> Result<()> {
        let is_due = |at: Instant| at.elapsed() >= LOOK_AT_MEMORY_EVERY;
        let sees_memory = self.memory_seen_at.is_none_or(is_due);
        if sees_memory {
            self.memory_seen_at = Some(Instant::now());
        }
        for (index, fetcher) in self.fetchers.iter_mut().enumerate() {
            let watched = fetcher.process.watched();
            if fetcher.used.is_none() && watched.has_ended()? {
                fetcher.used = Some(watched.cpu_in_all()?);
                self.finishes.push(after);
                let ended = fetcher.process.ended_well();
                ended.with_context(|| format!("leecher {index}"))?;
            } else if fetcher.used.is_none() && sees_memory {
                // None is told while it ends.
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
                None => fetcher.process.watched().cpu_in_all()?,
            };
        }
        Ok(sum)
    }

    pub fn peak_bytes(&self) -> u64 {
        self.fetchers.iter().map(|fetcher| fetcher.peak_bytes).max().unwrap_or(0)
    }

    /// What each said, once all have ended.
    pub fn outputs(&self) -> Result<Vec<String>> {
        self.fetchers.iter().map(|fetcher| fetcher.process.output()).collect()
    }
}

/// Leechers of a program that puts the file where it is told, and says nothing of duplicates.
pub struct Commands<'a> {
    name: &'static str,
    nodes: &'a [Node],
    folder: PathBuf,
    /// What is run at a node to have a copy there.
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
    fn go(&mut self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            let copy = copy_of(&self.folder, index);
            fs::create_dir_all(copy.parent().expect("it has one"))?;
            let stem = self.folder.join(format!("{}-{index}", self.name));
            self.fetchers.add(Logged::spawn(&mut (self.command)(node, &copy)?, &stem)?);
        }
        Ok(())
    }

    fn look(&mut self, after: Duration) -> Result<()> {
        self.fetchers.look(after)
    }

    fn finishes(&self) -> &[Duration] {
        self.fetchers.finishes()
    }

    fn cpu(&self) -> Result<Duration> {
        self.fetchers.cpu()
    }

    fn end(self: Box<Self>) -> Result<Taken> {
        Ok(Taken { peak_bytes: self.fetchers.peak_bytes(), duplicate_bytes: 0 })
    }
}

/// Where a leecher puts its copy.
pub fn copy_of(folder: &Path, leecher: usize) -> PathBuf {
    folder.join(format!("{leecher}")).join("copy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetchers_are_counted_when_they_end_with_what_they_used() {
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
            fetchers.look(started_at.elapsed()).unwrap();
            assert!(started_at.elapsed() < Duration::from_secs(60));
        }
        assert!(fetchers.cpu().unwrap() > Duration::ZERO && fetchers.peak_bytes() > 0);
        assert_eq!(fetchers.outputs().unwrap(), ["100000\n"]);

        fetchers.add(spawn("fails", "echo why >&2; exit 3"));
        let failed = loop {
            if let Err(error) = fetchers.look(started_at.elapsed()) {
                break format!("{error:#}");
            }
            assert!(started_at.elapsed() < Duration::from_secs(60));
        };
        fs::remove_dir_all(&folder).unwrap();
        assert!(failed.contains("leecher 1") && failed.contains("why"), "{failed}");
    }
}
