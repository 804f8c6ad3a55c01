//! `make bench-swarm`: how a file spreads from one to many, beside kubo and plain HTTP.
//!
//! Real processes run in a network namespace: on its loopback device, or, with shaped uplinks, each
//! in its own namespace behind a bridge. Systems take turns; figures are medians over rounds.
//! Nothing outlives the run: children end with their parent, and the namespaces with them.

mod benchmark;
mod case;
mod figures;
mod http;
mod kubo;
pub mod memory_filler;
pub mod peers;
mod results;
pub mod sweeper;
mod system;
mod targets;
pub mod testbed;
mod topology;
mod uplinks;
mod watchfire;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::benchmark::Benchmark;
use self::case::{Case, Outcome, Workspace};
use self::figures::Figures;
use self::kubo::Kubo;
use self::memory_filler::MemoryFiller;
use self::results::Results;
use self::sweeper::Sweeper;
use self::system::{Program, System};
use self::uplinks::Uplinks;
use crate::machine::{Machine, OtherPrograms};
use crate::progress::Progress;
use crate::report::{self, BenchmarkReport};
use crate::scale::{namespace, percent, watchfire_beside};
use watchfire_types::Rng;

/// The kubo version of the interop tests; a test compares both.
const KUBO_VERSION: &str = "v0.42.0";
/// Size of the file in a full run.
const FILE_BYTES: u64 = 300 << 20;
/// Timeout of a case, as a share of the time limit.
const CASE_SHARE: f64 = 0.25;
/// Expected duration of a round, divided by that of the longest round before.
const ROUND_MARGIN: f64 = 1.1;
/// If other programs use a larger share of the machine, the results do not go to `docs`.
const OTHERS_MAX: f64 = 0.1;
/// The introduction of the page over all benchmarks.
const HEADING: &str = "# How a file spreads\n\nWritten by `make bench-swarm`; each benchmark has a page \
                       of its own. Everything runs on one machine, so CPU time is that of \
                       both ends and of the file system.\n\n";

/// The benchmarks of a run, their size, and the folders of their output.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Benchmarks to run; all of them by default.
    benchmarks: Vec<Benchmark>,
    /// Use a file of this percentage of 300 MiB.
    #[arg(long, default_value_t = 100.0, value_parser = percent)]
    percent: f64,
    /// Check that everything works: a small file, few leechers, one round.
    #[arg(long)]
    quick: bool,
    /// Most rounds of a benchmark; figures are medians over them.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time limit in seconds: no round starts that would end later.
    #[arg(long, default_value_t = 1_440)]
    time_limit: u64,
    /// Measure only these systems.
    #[arg(long, value_delimiter = ',')]
    only: Vec<System>,
    /// Numbers of leechers; the benchmark `uplinks` uses the first one.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 32])]
    leechers: Vec<usize>,
    /// Uplink of the seeder in the benchmark `uplinks`, in Mbit/s.
    #[arg(long, default_value_t = 400.0)]
    seeder_mbit: f64,
    /// Uplink of each leecher, in Mbit/s.
    #[arg(long, default_value_t = 100.0)]
    leecher_mbit: f64,
    /// The Watchfire program; by default the one beside this program.
    #[arg(long)]
    watchfire: Option<PathBuf>,
    /// The kubo program; by default the one that `make swarm-tools` builds.
    #[arg(long)]
    kubo: Option<PathBuf>,
    /// Folder for results and fetched files, and for the pages of partial runs.
    #[arg(long, default_value = "target/swarm")]
    out: PathBuf,
    /// Folder for the pages and pictures of full runs.
    #[arg(long, default_value = "docs/swarm")]
    docs: PathBuf,
}

/// Run the benchmarks.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    if !namespace::is_inside() {
        return namespace::run_inside("bench-swarm", None);
    }
    namespace::prepare()?;
    let settings = settings.clone().with_quick();
    settings.check()?;
    let machine = Machine::read()?;
    eprintln!("{}", machine.sentence());
    let workspace = settings.workspace()?;
    let _sweeper = Sweeper::watch(&[
        &workspace.file,
        &workspace.folder,
        &workspace.aside,
        &workspace.kubo.repositories,
    ])?;
    write_file(&workspace.file, workspace.file_bytes)?;
    let benchmarks = match &settings.benchmarks[..] {
        [] => Benchmark::ALL.to_vec(),
        named => named.to_vec(),
    };
    let whole_time: f64 = benchmarks.iter().map(|benchmark| benchmark.share_of_time()).sum();
    let mut ended = ExitCode::SUCCESS;
    for benchmark in benchmarks {
        let time = settings.time_limit as f64 * benchmark.share_of_time() / whole_time;
        let cases = benchmark.cases(&settings.leechers, settings.uplinks(), &settings.only);
        let mut rounds = Rounds::new(cases, settings.rounds);
        let others = OtherPrograms::start()?;
        rounds.run(&workspace, Duration::from_secs_f64(time))?;
        workspace.tidy()?;
        if !rounds.failures.is_empty() {
            ended = ExitCode::FAILURE;
        }
        let report = rounds.report(benchmark, &settings, &machine, others.share()?);
        report::put(&settings.out, &format!("{benchmark}-rounds.json"), &rounds.json()?)?;
        report.write(&settings.docs, &settings.out)?;
        println!("{}", report.terminal());
    }
    report::write_summary(HEADING, &Benchmark::ALL, &settings.docs, &settings.out)?;
    Ok(ended)
}

impl Settings {
    fn with_quick(mut self) -> Self {
        if self.quick {
            self.percent = self.percent.min(10.0);
            self.rounds = 1;
            self.leechers = vec![4];
        }
        self
    }

    fn check(&self) -> Result<()> {
        let are_valid = !self.leechers.is_empty() && !self.leechers.contains(&0);
        ensure!(are_valid, "invalid --leechers: each number must be at least 1");
        ensure!(
            self.leechers.iter().all(|leechers| *leechers <= 200),
            "invalid --leechers: each number must be at most 200"
        );
        let rates = [self.seeder_mbit, self.leecher_mbit];
        ensure!(
            rates.iter().all(|mbit| *mbit >= 0.1),
            "invalid uplink: must be at least 0.1 Mbit/s"
        );
        Ok(())
    }

    fn uplinks(&self) -> Uplinks {
        Uplinks { seeder_mbit: self.seeder_mbit, leecher_mbit: self.leecher_mbit }
    }

    fn file_bytes(&self) -> u64 {
        ((FILE_BYTES as f64 * self.percent / 100.0) as u64).max(1)
    }

    /// Whether this is a full run, whose pages go to `docs`.
    fn is_whole(&self) -> bool {
        self.percent >= 100.0 && self.only.is_empty() && self.leechers == [8, 32]
    }

    /// The command that repeats the run, for the page.
    fn command(&self, benchmark: Benchmark) -> String {
        let mut command = format!("make bench-swarm ARGS=\"{benchmark}");
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

    /// Checks that all needed programs run, before the first case.
    fn workspace(&self) -> Result<Workspace> {
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot create {}", self.out.display()))?;
        let out = self.out.canonicalize()?;
        let kubo = self.kubo.clone().unwrap_or_else(default_kubo);
        let watchfire = self.watchfire.clone().map_or_else(watchfire_beside, Ok)?;
        let (named, all): (&[Benchmark], &[Benchmark]) = (&self.benchmarks, &Benchmark::ALL);
        let benchmarks = if named.is_empty() { all } else { named };
        let cases =
            |benchmark: &Benchmark| benchmark.cases(&self.leechers, self.uplinks(), &self.only);
        let systems: Vec<System> =
            benchmarks.iter().flat_map(cases).map(|case| case.system).collect();
        ensure!(!systems.is_empty(), "--only names no system of these benchmarks");
        let is_needed = |program| systems.iter().any(|one| one.needs(program));
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
        Ok(Workspace {
            watchfire: watchfire.canonicalize().unwrap_or(watchfire),
            kubo: Kubo::new(&kubo.canonicalize().unwrap_or(kubo), &out),
            file: out.join("file"),
            file_bytes,
            folder: out.join("run"),
            aside: out.join("aside"),
            failed: out.join("failed"),
            memory_filler: MemoryFiller::in_folder(&out)?,
            timeout: Duration::from_secs_f64(self.time_limit as f64 * CASE_SHARE),
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
            "cannot run {}: {error}; make bench-swarm installs missing programs; or exclude it with \
             --only",
            program.display()
        ),
    }
}

/// Write a file of random bytes, the same for each run.
fn write_file(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut rng = Rng::from_seed(bytes);
    let mut left = bytes;
    while left > 0 {
        let bytes = rng.next_u64().to_le_bytes();
        let part = left.min(bytes.len() as u64);
        out.write_all(&bytes[..part as usize])?;
        left -= part;
    }
    Ok(out.flush()?)
}

/// The rounds of a benchmark.
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

    /// Systems take turns, so that a change of the machine affects all of them.
    fn run(&mut self, workspace: &Workspace, time: Duration) -> Result<()> {
        let mut progress = Progress::new(self.cases.len() * self.rounds as usize);
        let started_at = Instant::now();
        let mut longest = Duration::ZERO;
        for round in 1..=self.rounds {
            if started_at.elapsed() + longest.mul_f64(ROUND_MARGIN) > time {
                progress.note(&format!("the time limit leaves no time for round {round}"));
                break;
            }
            let round_started_at = Instant::now();
            for (index, case) in self.cases.iter().enumerate() {
                match case.run(workspace, &progress) {
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

    fn report(
        &self,
        benchmark: Benchmark,
        settings: &Settings,
        machine: &Machine,
        others_share: f64,
    ) -> BenchmarkReport {
        let is_complete =
            self.failures.is_empty() && self.outcomes.iter().all(|one| !one.is_empty());
        let results = Results {
            benchmark,
            figures: self.figures(settings.file_bytes()),
            file_bytes: settings.file_bytes(),
            failures: &self.failures,
            others_share,
            is_whole: settings.is_whole() && is_complete && others_share <= OTHERS_MAX,
            command: settings.command(benchmark),
            machine: machine.sentence(),
            took: self.took,
        };
        results.report()
    }

    /// All results as JSON.
    fn json(&self) -> Result<String> {
        let mut all = BTreeMap::new();
        for (case, outcomes) in self.cases.iter().zip(&self.outcomes) {
            all.insert(format!("{} 1 to {}", case.system.key(), case.leechers), outcomes);
        }
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubo_version_is_that_of_the_interop_tests() {
        let module = include_str!("../../../tests/interop/kubo/go.mod");
        let line = format!("require github.com/ipfs/kubo {KUBO_VERSION}");
        assert!(module.lines().any(|one| one == line), "{module}");
    }

    #[test]
    fn the_file_is_the_same_each_time_and_contains_every_byte_value() {
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
