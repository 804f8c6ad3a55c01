//! `make bench-swarm`: how a file spreads from one to many, beside kubo and plain HTTP.
//!
//! Real processes in a network of the run's own: on its loopback device, or, when uplinks are shaped,
//! each in a network of its own behind a bridge. Contenders take turns; figures are medians over
//! rounds. Nothing outlives the run: children are tethered, and the network goes with them.

mod account;
mod case;
mod contender;
mod field;
mod figures;
mod http;
mod kubo;
mod marks;
mod peers;
mod story;
mod sweeper;
mod topology;
mod uplinks;
mod warmth;
mod watchfire;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::account::Told;
use self::case::{Case, Outcome, Place};
use self::contender::{Contender, Program};
use self::figures::Figures;
use self::kubo::Kubo;
use self::story::Story;
use self::sweeper::Sweeper;
use self::uplinks::Uplinks;
use self::warmth::Warmth;
use crate::machine::{Machine, OtherPrograms};
use crate::progress::Progress;
use crate::scale::clock::Dice;
use crate::scale::report::{self, Account};
use crate::scale::{namespace, percent, watchfire_beside};

/// The kubo that is built for the tests; a test compares it with theirs.
const KUBO_VERSION: &str = "v0.42.0";
/// The file of a whole run.
const FILE_BYTES: u64 = 300 << 20;
/// One case may take this much of the time of the whole run.
const CASE_SHARE: f64 = 0.25;
/// How much longer a round may take than the one before.
const ROUND_MARGIN: f64 = 1.1;
/// When other programs use more of the machine than this, what was measured is not kept.
const OTHERS_MAX: f64 = 0.1;
/// What the page over all stories begins with.
const HEADING: &str = "# How a file spreads\n\nWritten by `make bench-swarm`; each story has a page \
                       of its own. Everything runs on the one machine, so a figure of CPU is that of \
                       both ends, and of the disk's file system.\n\n";

/// Which stories are run, how large, and where they are written.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Stories to run; all of them by default.
    stories: Vec<Story>,
    /// Scale the file down to so many percent of 300 MiB.
    #[arg(long, default_value_t = 100.0, value_parser = percent)]
    percent: f64,
    /// A small file, a small crowd, one round: whether all of it works.
    #[arg(long)]
    quick: bool,
    /// Rounds of a story at most; figures are medians over them.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Begin no further round that would end later than this, in seconds.
    #[arg(long, default_value_t = 1_440)]
    time_limit: u64,
    /// Only these contenders.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Contender>,
    /// How many leechers; uplinks are shown with the first of them.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 32])]
    leechers: Vec<usize>,
    /// The seeder's uplink where uplinks are slow, in Mbit/s.
    #[arg(long, default_value_t = 400.0)]
    seeder_mbit: f64,
    /// Each leecher's uplink.
    #[arg(long, default_value_t = 100.0)]
    leecher_mbit: f64,
    /// The Watchfire program; the one built beside this by default.
    #[arg(long)]
    watchfire: Option<PathBuf>,
    /// The kubo program; by default the one that `make test-kubo` builds.
    #[arg(long)]
    kubo: Option<PathBuf>,
    /// Folder for figures and for what is fetched, and for the pages of stories that are not whole.
    #[arg(long, default_value = "target/swarm")]
    out: PathBuf,
    /// Folder for the pages and pictures of whole stories.
    #[arg(long, default_value = "docs/swarm")]
    docs: PathBuf,
}

/// Run the stories.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    if !namespace::is_inside() {
        return namespace::run_inside("bench-swarm", None);
    }
    namespace::prepare()?;
    let settings = settings.clone().made_quick();
    settings.check()?;
    let machine = Machine::look()?;
    eprintln!("{}", machine.sentence());
    let place = settings.place()?;
    let _sweeper =
        Sweeper::watch(&[&place.file, &place.folder, &place.aside, &place.kubo.repositories])?;
    write_file(&place.file, place.file_bytes)?;
    let stories = match &settings.stories[..] {
        [] => Story::ALL.to_vec(),
        named => named.to_vec(),
    };
    let whole_time: f64 = stories.iter().map(|story| story.share_of_time()).sum();
    let mut ended = ExitCode::SUCCESS;
    for story in stories {
        let time = settings.time_limit as f64 * story.share_of_time() / whole_time;
        let cases = story.cases(&settings.leechers, settings.uplinks(), &settings.only);
        let mut rounds = Rounds::new(cases, settings.rounds);
        let others = OtherPrograms::start()?;
        rounds.all(&place, Duration::from_secs_f64(time))?;
        place.tidy()?;
        if !rounds.failures.is_empty() {
            ended = ExitCode::FAILURE;
        }
        let account = rounds.account(story, &settings, &machine, others.share()?);
        report::put(&settings.out, &format!("{story}-rounds.json"), &rounds.json()?)?;
        account.write(&settings.docs, &settings.out)?;
        println!("{}", account.terminal());
    }
    write_summary(&settings)?;
    Ok(ended)
}

/// From all stories that were run whole, now or earlier.
fn write_summary(settings: &Settings) -> Result<()> {
    let read = |story: &Story| Account::read(&settings.out, &story.to_string());
    let accounts: Vec<_> = Story::ALL.iter().filter_map(read).collect();
    let whole: Vec<_> = accounts.iter().filter(|account| account.is_whole).cloned().collect();
    report::put(&settings.out, "README.md", &report::summary(HEADING, &accounts))?;
    if !whole.is_empty() {
        report::put(&settings.docs, "README.md", &report::summary(HEADING, &whole))?;
    }
    Ok(())
}

impl Settings {
    fn made_quick(mut self) -> Self {
        if self.quick {
            self.percent = self.percent.min(10.0);
            self.rounds = 1;
            self.leechers = vec![4];
        }
        self
    }

    fn check(&self) -> Result<()> {
        let are_some = !self.leechers.is_empty() && !self.leechers.contains(&0);
        ensure!(are_some, "--leechers: at least one in each crowd");
        ensure!(self.leechers.iter().all(|leechers| *leechers <= 200), "--leechers: at most 200");
        let rates = [self.seeder_mbit, self.leecher_mbit];
        ensure!(rates.iter().all(|mbit| *mbit >= 0.1), "uplinks: at least 0.1 Mbit/s");
        Ok(())
    }

    fn uplinks(&self) -> Uplinks {
        Uplinks { seeder_mbit: self.seeder_mbit, leecher_mbit: self.leecher_mbit }
    }

    fn file_bytes(&self) -> u64 {
        ((FILE_BYTES as f64 * self.percent / 100.0) as u64).max(1)
    }

    /// Whether all of it is run, large enough to be kept.
    fn is_whole(&self) -> bool {
        self.percent >= 100.0 && self.only.is_empty() && self.leechers == [8, 32]
    }

    /// What `make` was told, for the page.
    fn command(&self, story: Story) -> String {
        let mut command = format!("make bench-swarm ARGS=\"{story}");
        if self.percent < 100.0 {
            command += &format!(" --percent {}", self.percent);
        }
        if !self.only.is_empty() {
            let keys: Vec<String> = self.only.iter().map(|one| one.key()).collect();
            command += &format!(" --only {}", keys.join(","));
        }
        if self.leechers != [8, 32] {
            let leechers: Vec<String> = self.leechers.iter().map(ToString::to_string).collect();
            command += &format!(" --leechers {}", leechers.join(","));
        }
        command + "\""
    }

    /// Looks for the programs. Refuses before the work, not after it.
    fn place(&self) -> Result<Place> {
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot make {}", self.out.display()))?;
        let out = self.out.canonicalize()?;
        let kubo = self.kubo.clone().unwrap_or_else(default_kubo);
        let watchfire = self.watchfire.clone().map_or_else(watchfire_beside, Ok)?;
        let (named, all): (&[Story], &[Story]) = (&self.stories, &Story::ALL);
        let stories = if named.is_empty() { all } else { named };
        let cases = |story: &Story| story.cases(&self.leechers, self.uplinks(), &self.only);
        let contenders: Vec<Contender> =
            stories.iter().flat_map(cases).map(|case| case.contender).collect();
        ensure!(!contenders.is_empty(), "none of these contenders is in these stories");
        let is_needed = |program| contenders.iter().any(|one| one.needs(program));
        if is_needed(Program::Watchfire) {
            check_program(watchfire.as_os_str(), &["get", "--help"])?;
        }
        if is_needed(Program::Kubo) {
            check_program(kubo.as_os_str(), &["version"])?;
        }
        if is_needed(Program::Http) {
            check_program("nginx", &["-v"])?;
            check_program("curl", &["--version"])?;
        }
        let file_bytes = self.file_bytes();
        Ok(Place {
            watchfire: watchfire.canonicalize().unwrap_or(watchfire),
            kubo: Kubo::new(&kubo.canonicalize().unwrap_or(kubo), &out),
            file: out.join("file"),
            file_bytes,
            folder: out.join("run"),
            aside: out.join("aside"),
            failed: out.join("failed"),
            warmth: Warmth::in_folder(&out)?,
            patience: Duration::from_secs_f64(self.time_limit as f64 * CASE_SHARE),
        })
    }
}

fn default_kubo() -> PathBuf {
    Path::new("target/kubo").join(KUBO_VERSION).join("ipfs")
}

fn check_program(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Result<()> {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("{} ended with {status}", program.display()),
        Err(error) => bail!(
            "cannot run {}: {error}; make bench-swarm installs what is missing, or leave it out with \
             --only",
            program.display()
        ),
    }
}

/// A file that cannot be made smaller, the same each time.
fn write_file(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut dice = Dice::new(bytes);
    let mut left = bytes;
    while left > 0 {
        let word = dice.below(u64::MAX).to_le_bytes();
        let part = left.min(word.len() as u64);
        out.write_all(&word[..part as usize])?;
        left -= part;
    }
    Ok(out.flush()?)
}

/// The rounds of a story.
struct Rounds {
    cases: Vec<Case>,
    rounds: u32,
    outcomes: Vec<Vec<Outcome>>,
    failures: Vec<String>,
    took: Duration,
}

impl Rounds {
    fn new(cases: Vec<Case>, rounds: u32) -> Self {
        let outcomes = cases.iter().map(|_| Vec::new()).collect();
        Rounds { cases, rounds, outcomes, failures: Vec::new(), took: Duration::ZERO }
    }

    /// Contenders take turns, so that what changes on the machine meets them all.
    fn all(&mut self, place: &Place, time: Duration) -> Result<()> {
        let mut progress = Progress::new(self.cases.len() * self.rounds as usize);
        let started_at = Instant::now();
        let mut longest = Duration::ZERO;
        for round in 1..=self.rounds {
            if started_at.elapsed() + longest.mul_f64(ROUND_MARGIN) > time {
                progress.note(&format!("no time for round {round}"));
                break;
            }
            let round_started_at = Instant::now();
            for (index, case) in self.cases.iter().enumerate() {
                match case.run(place, &progress) {
                    Ok(outcome) => self.outcomes[index].push(outcome),
                    Err(error) => {
                        let failure = format!("{case}, round {round}: {error:#}");
                        progress.note(&failure);
                        self.failures.push(failure);
                    }
                }
                let seconds = self.outcomes[index].last().map(Outcome::last);
                let seconds = seconds.map_or(String::new(), |last| format!(", {last:.1} s"));
                progress.step(&format!("round {round}, {case}{seconds}"));
            }
            longest = longest.max(round_started_at.elapsed());
        }
        progress.finish();
        self.took = started_at.elapsed();
        Ok(())
    }

    fn figures(&self, file_bytes: u64) -> Vec<Figures> {
        let cases = self.cases.iter().zip(&self.outcomes);
        cases.filter_map(|(case, outcomes)| Figures::of(*case, file_bytes, outcomes)).collect()
    }

    fn account(
        &self,
        story: Story,
        settings: &Settings,
        machine: &Machine,
        others_share: f64,
    ) -> Account {
        let is_complete =
            self.failures.is_empty() && self.outcomes.iter().all(|one| !one.is_empty());
        let told = Told {
            story,
            figures: self.figures(settings.file_bytes()),
            file_bytes: settings.file_bytes(),
            failures: &self.failures,
            others_share,
            is_whole: settings.is_whole() && is_complete && others_share <= OTHERS_MAX,
            command: settings.command(story),
            machine: machine.sentence(),
            took: self.took,
        };
        told.account()
    }

    /// Everything that was measured, for programs.
    fn json(&self) -> Result<String> {
        let mut all = BTreeMap::new();
        for (case, outcomes) in self.cases.iter().zip(&self.outcomes) {
            all.insert(format!("{} 1 to {}", case.contender.key(), case.leechers), outcomes);
        }
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubo_is_the_one_that_the_tests_build() {
        let module = include_str!("../../../tests/interop/kubo/go.mod");
        let line = format!("require github.com/ipfs/kubo {KUBO_VERSION}");
        assert!(module.lines().any(|one| one == line), "{module}");
    }

    #[test]
    fn the_file_is_the_same_each_time_and_has_every_byte() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("bench-file-{}", std::process::id()));
        let write = || {
            write_file(&path, 100_003).unwrap();
            std::fs::read(&path).unwrap()
        };
        let (one, other) = (write(), write());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(one.len(), 100_003);
        assert!(one == other);
        let kinds: std::collections::BTreeSet<u8> = one.iter().copied().collect();
        assert_eq!(kinds.len(), 256);
    }
}
