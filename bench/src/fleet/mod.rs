//! `make bench-images`: how a container image reaches many hosts, beside a registry and shared caches.
//!
//! Real programs run in a network namespace for each host, behind one bridge. Systems take turns;
//! figures are medians over rounds. Nothing outlives the run: children end with their parent, the
//! namespaces and their mounts with the last of them.

mod benchmark;
mod case;
mod client;
mod disk;
mod figures;
mod host;
mod image;
mod links;
mod logged;
mod mirror;
mod nginx;
mod registry;
mod results;
mod sweeper;
mod system;
mod targets;
mod testbed;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::benchmark::{Benchmark, Size};
use self::case::{Case, Outcome, Workspace, clear};
use self::figures::Figures;
use self::image::Image;
use self::links::Links;
use self::mirror::Watchfire;
use self::results::Results;
use self::sweeper::Sweeper;
use self::system::System;
use crate::progress::Progress;
use crate::report::{self, BenchmarkReport};
use crate::scale::{namespace, percent, watchfire_beside};
use watchfire_lab::MemoryFiller;
use watchfire_lab::machine::{Machine, OtherPrograms};

const HOSTS_MAX: usize = 200;
/// Links of a full run, in Mbit/s.
const EQUAL_MBIT: f64 = 50.0;
const UPSTREAM_MBIT: f64 = 25.0;
const HOST_MBIT: f64 = 50.0;
/// A case that took longer is not repeated.
const REPEATED_SECONDS_MAX: f64 = 300.0;
/// Expected duration of a round, divided by that of the longest round before.
const ROUND_MARGIN: f64 = 1.1;
/// If other programs use a larger share of the machine, the results do not go to `docs`.
const OTHERS_MAX: f64 = 0.1;
/// The introduction of the page over all benchmarks.
const HEADING: &str = include_str!("heading.md");

/// The benchmarks of a run, their size, and the folders of their output.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Benchmarks to run; all of them by default.
    benchmarks: Vec<Benchmark>,
    /// Use images of this percentage of their size.
    #[arg(long, default_value_t = 100.0, value_parser = percent)]
    percent: f64,
    /// Check that everything works: small images, four hosts, fast links, one round.
    #[arg(long)]
    quick: bool,
    /// Number of hosts; the benchmark `neighbour` always has two. By default 32, and fewer with
    /// shaped links.
    #[arg(long)]
    hosts: Option<usize>,
    /// Most rounds of a benchmark; figures are medians over them.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time limit of each benchmark in seconds: no round starts that would end later.
    #[arg(long, default_value_t = 5_400)]
    time_limit: u64,
    /// Measure only these systems.
    #[arg(long, value_delimiter = ',')]
    only: Vec<System>,
    /// Rate of all links in the benchmark `equal-links`, in Mbit/s.
    #[arg(long, default_value_t = EQUAL_MBIT)]
    equal_mbit: f64,
    /// Rate of the registry's link in the benchmark `slow-upstream`, in Mbit/s.
    #[arg(long, default_value_t = UPSTREAM_MBIT)]
    upstream_mbit: f64,
    /// Rate of each host's link in the benchmark `slow-upstream`, in Mbit/s.
    #[arg(long, default_value_t = HOST_MBIT)]
    host_mbit: f64,
    /// The Watchfire program; by default the one beside this program.
    #[arg(long)]
    watchfire: Option<PathBuf>,
    /// Folder for results and the files of the hosts, and for the pages of partial runs.
    #[arg(long, default_value = "target/fleet")]
    out: PathBuf,
    /// Folder for the pages and pictures of full runs.
    #[arg(long, default_value = "docs/fleet")]
    docs: PathBuf,
}

/// Run the benchmarks.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    if !namespace::is_inside() {
        return namespace::run_inside("bench-images", None);
    }
    namespace::prepare()?;
    let settings = settings.clone().with_quick();
    settings.check()?;
    let machine = Machine::read()?;
    eprintln!("{}", machine.sentence());
    let workspace = settings.workspace()?;
    let images = settings.out.canonicalize()?.join("images");
    let _sweeper = Sweeper::watch(&[&workspace.registry, &images])?;
    let benchmarks = settings.benchmarks();
    let mut planned = Vec::new();
    for benchmark in benchmarks {
        let systems = settings.systems(benchmark, workspace.watchfire.has_fleet)?;
        planned.push((benchmark, benchmark.cases(settings.size(), &systems)));
    }
    clear(&workspace.registry)?;
    clear(&images)?;
    push_images(planned.iter().flat_map(|(_, cases)| cases), &images, &workspace)?;
    let mut ended = ExitCode::SUCCESS;
    for (benchmark, cases) in planned {
        let mut rounds = Rounds::new(cases, settings.rounds);
        let others = OtherPrograms::start()?;
        rounds.run(&workspace, Duration::from_secs(settings.time_limit));
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

/// Make the images of all cases, and push them to the storage of the registry.
fn push_images<'a>(
    cases: impl Iterator<Item = &'a Case>,
    layouts: &std::path::Path,
    workspace: &Workspace,
) -> Result<()> {
    let mut images: Vec<Image> = Vec::new();
    for case in cases {
        if !images.contains(&case.image) {
            images.push(case.image);
        }
    }
    for image in images {
        eprintln!("making the image {}", image.tag());
        let layout = layouts.join(image.tag());
        image.write(&layout)?;
        registry::push(image, &layout, &workspace.registry, &layouts.join("registry"))?;
        clear(&layout)?;
    }
    Ok(())
}

impl Settings {
    fn with_quick(mut self) -> Self {
        if self.quick {
            self.percent = self.percent.min(10.0);
            self.rounds = 1;
            self.hosts = Some(self.hosts.unwrap_or(4).min(4));
        }
        self
    }

    fn check(&self) -> Result<()> {
        let is_valid = self.hosts.is_none_or(|hosts| (2..=HOSTS_MAX).contains(&hosts));
        ensure!(is_valid, "invalid --hosts: must be from 2 to {HOSTS_MAX}");
        let rates = [self.equal_mbit, self.upstream_mbit, self.host_mbit];
        ensure!(rates.iter().all(|mbit| *mbit >= 0.1), "invalid rate: must be at least 0.1 Mbit/s");
        let programs: [(&str, &[&str]); 11] = [
            ("docker-registry", &["--version"]),
            ("skopeo", &["--version"]),
            ("containerd", &["--version"]),
            ("ctr", &["--version"]),
            ("nginx", &["-v"]),
            ("ip", &["-V"]),
            ("tc", &["-V"]),
            ("nsenter", &["--version"]),
            ("sysctl", &["--version"]),
            ("losetup", &["--version"]),
            ("mkfs.ext4", &["-V"]),
        ];
        programs.iter().try_for_each(|(program, arguments)| check_program(program, arguments))
    }

    fn benchmarks(&self) -> Vec<Benchmark> {
        if self.benchmarks.is_empty() { Benchmark::ALL.to_vec() } else { self.benchmarks.clone() }
    }

    /// The systems of a benchmark. Without `--only` a fleet is left out if Watchfire has none.
    fn systems(&self, benchmark: Benchmark, has_fleet: bool) -> Result<Vec<System>> {
        if self.only.is_empty() {
            let systems = benchmark.systems().iter().copied();
            return Ok(systems.filter(|one| has_fleet || *one != System::Fleet).collect());
        }
        ensure!(
            has_fleet || !self.only.contains(&System::Fleet),
            "cannot measure fleet: `watchfire mirror` has no option --fleet-key; build a newer Watchfire"
        );
        Ok(self.only.clone())
    }

    fn size(&self) -> Size {
        Size {
            hosts: self.hosts,
            share: self.percent / 100.0,
            equal_mbit: self.equal_mbit,
            slow_upstream: Links { upstream_mbit: self.upstream_mbit, host_mbit: self.host_mbit },
        }
    }

    /// Whether this is a full run, whose pages go to `docs`. Slower or faster links are still one:
    /// they depend on the machine, and the page names them.
    fn is_whole(&self) -> bool {
        self.percent >= 100.0 && self.only.is_empty() && self.hosts.is_none()
    }

    /// The command that repeats the run, for the page.
    fn command(&self, benchmark: Benchmark) -> String {
        let mut command = format!("make bench-images ARGS=\"{benchmark}");
        if self.percent < 100.0 {
            command += &format!(" --percent {}", self.percent);
        }
        if let Some(hosts) = self.hosts {
            command += &format!(" --hosts {hosts}");
        }
        let rates: &[(&str, f64, f64)] = match benchmark {
            Benchmark::EqualLinks => &[("equal", self.equal_mbit, EQUAL_MBIT)],
            Benchmark::SlowUpstream => &[
                ("upstream", self.upstream_mbit, UPSTREAM_MBIT),
                ("host", self.host_mbit, HOST_MBIT),
            ],
            _ => &[],
        };
        for (name, mbit, default) in rates {
            if mbit != default {
                command += &format!(" --{name}-mbit {mbit}");
            }
        }
        if !self.only.is_empty() {
            let keys: Vec<String> = self.only.iter().map(|one| one.key()).collect();
            command += &format!(" --only {}", keys.join(","));
        }
        command + "\""
    }

    fn workspace(&self) -> Result<Workspace> {
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot create {}", self.out.display()))?;
        let out = self.out.canonicalize()?;
        let watchfire = self.watchfire.clone().map_or_else(watchfire_beside, Ok)?;
        Ok(Workspace {
            watchfire: Watchfire::new(watchfire.canonicalize().unwrap_or(watchfire))?,
            registry: out.join("registry"),
            folder: out.join("run"),
            failed: out.join("failed"),
            memory_filler: MemoryFiller::in_folder(&out)?,
        })
    }
}

fn check_program(program: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("{program} ended with {status}"),
        Err(error) => {
            bail!("cannot run {program}: {error}; make bench-images installs missing programs")
        }
    }
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
    fn run(&mut self, workspace: &Workspace, time: Duration) {
        let mut progress = Progress::new(self.cases.len() * self.rounds as usize);
        let started_at = Instant::now();
        let mut expected = Duration::ZERO;
        for round in 1..=self.rounds {
            if started_at.elapsed() + expected.mul_f64(ROUND_MARGIN) > time {
                progress.note(&format!("the time limit leaves no time for round {round}"));
                break;
            }
            expected = Duration::ZERO;
            for (index, case) in self.cases.iter().enumerate() {
                let last = self.outcomes[index].last().map(Outcome::last_complete);
                if last.is_some_and(|seconds| seconds > REPEATED_SECONDS_MAX) {
                    progress.step(&format!("round {round}, {case}: not repeated"));
                    continue;
                }
                let case_started_at = Instant::now();
                match case.run(workspace, &progress) {
                    Ok(outcome) => {
                        progress
                            .step(&format!("round {round}, {case}: {}", outcome_line(&outcome)));
                        if outcome.last_complete() <= REPEATED_SECONDS_MAX {
                            expected += case_started_at.elapsed();
                        }
                        self.outcomes[index].push(outcome);
                    }
                    Err(error) => {
                        let failure = format!("{case}, round {round}: {error:#}");
                        progress.step(&failure);
                        self.failures.push(failure);
                    }
                }
            }
        }
        progress.finish();
        self.took = started_at.elapsed();
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
        let has_fleet = self.cases.iter().any(|case| case.system == System::Fleet);
        let cases = self.cases.iter().zip(&self.outcomes);
        let results = Results {
            benchmark,
            figures: cases.filter_map(|(case, outcomes)| Figures::of(*case, outcomes)).collect(),
            failures: &self.failures,
            others_share,
            is_whole: settings.is_whole() && is_complete && has_fleet && others_share <= OTHERS_MAX,
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
            all.insert(format!("{} {}", case.system.key(), case.image.tag()), outcomes);
        }
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}

/// An outcome in a few words, for the progress.
fn outcome_line(outcome: &Outcome) -> String {
    let (fetched, complete) = (outcome.last_fetched(), outcome.last_complete());
    let mib = |bytes: u64| bytes >> 20;
    format!(
        "fetched after {fetched:.1} s, unpacked after {complete:.1} s; {} MiB from the registry, {} MiB \
         between hosts, {} MiB of them twice",
        mib(outcome.upstream_bytes),
        mib(outcome.between_hosts_bytes),
        mib(outcome.duplicate_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_page_begins_with_the_heading() {
        assert!(include_str!("../../../docs/fleet/README.md").starts_with(HEADING));
    }

    #[test]
    fn the_heading_names_the_size_of_each_benchmark() {
        let links = Links { upstream_mbit: UPSTREAM_MBIT, host_mbit: HOST_MBIT };
        let size = Size { hosts: None, share: 1.0, equal_mbit: EQUAL_MBIT, slow_upstream: links };
        for benchmark in Benchmark::ALL {
            let row = format!("| `{benchmark}` |");
            let row = HEADING.lines().find(|line| line.starts_with(&row)).unwrap();
            let case = benchmark.cases(size, &[System::Fleet])[0];
            assert!(case.is_warm || row.contains(&format!("| {} |", case.hosts)), "{row}");
            for mbit in case.links.iter().flat_map(|links| [links.upstream_mbit, links.host_mbit]) {
                assert!(row.contains(&format!("{mbit} Mbit/s")), "{row}");
            }
        }
    }
}
