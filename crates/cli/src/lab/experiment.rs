//! `watchfire lab check`, `run` and `compare`: experiments from a file.

use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::json;
use watchfire_lab::machine::{Machine, commit, today};
use watchfire_lab::{
    Build, Builds, DefinitionError, Driver, Experiment, Hosts, PAIRS_ADVISED, PAIRS_MIN, Page,
    Processes, Receiver, Results, RunResult, Simulated, SimulatedBy, Ssh, Standing, Traced, Trial,
    Workspace, compare_all, comparison_html, comparison_table, interrupt, is_interrupted, jaeger,
    perfetto, results_table, run_all, targets_table,
};

use super::run_progress::{RunProgress, text as run_text};
use super::{FAILED, exit_code_of, standing};
use crate::dashboard::LabDashboard;
use crate::hosts::HostsOptions;
use crate::output::ResultFile;
use crate::signals::end_at_signals;

/// The exit code of a comparison with a figure that is worse.
const WORSE: u8 = 4;
/// The exit code of a comparison of too few runs, in which a figure differs.
const UNDECIDED: u8 = 5;

/// The largest random object of a quick run.
const QUICK_BYTES: u64 = 4 << 20;

/// How the trials of an experiment run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DriverName {
    /// On a simulated clock and network; the same seed has the same result.
    Simulated,
    /// With a process for each node, on this machine.
    Processes,
    /// With a process for each node, on other hosts.
    Ssh,
}

impl DriverName {
    const fn name(self) -> &'static str {
        match self {
            DriverName::Simulated => "simulated",
            DriverName::Processes => "processes",
            DriverName::Ssh => "ssh",
        }
    }
}

/// The experiment, and a choice of its trials.
#[derive(clap::Args)]
struct Choice {
    /// The experiment file; see docs/reference/experiments.md.
    #[arg(value_name = "EXPERIMENT")]
    experiment: PathBuf,
    /// Run only this trial; can be repeated.
    #[arg(long, value_name = "NAME")]
    trial: Vec<String>,
    /// How the trials run.
    #[arg(long, value_enum, default_value = "simulated")]
    driver: DriverName,
    #[command(flatten)]
    hosts: HostsOptions,
    /// How often each trial runs, in place of the number in the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Runs of each trial before the first that counts, in place of the number in the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1000))]
    warm_up: Option<u32>,
    /// Use this seed for random numbers instead of the experiment's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The folder of runs, while they last, and of programs that were built.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Write a report with pictures to this file: one HTML page that needs no other file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write all results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Arguments of `watchfire lab check`.
#[derive(clap::Args)]
pub struct CheckArguments {
    /// Experiment files.
    #[arg(value_name = "EXPERIMENT", required = true)]
    experiments: Vec<PathBuf>,
}

/// Arguments of `watchfire lab run`.
#[derive(clap::Args)]
pub struct RunArguments {
    #[command(flatten)]
    choice: Choice,
    /// Run the scenarios of the file on this standing cluster, in place of the clusters in the file.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["driver", "page"])]
    on: Option<String>,
    /// Write a line for each node of each run to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Check that everything works: each trial once, with objects of at most 4 MiB.
    #[arg(long)]
    quick: bool,
    /// Write the figures to this page of the documents, with a picture beside it. Every trial must succeed.
    #[arg(long, value_name = "FILE.md", conflicts_with_all = ["quick", "trial"])]
    page: Option<PathBuf>,
    #[command(flatten)]
    records: Records,
}

/// The records of runs beside their figures.
#[derive(clap::Args)]
struct Records {
    /// Write the spans of all nodes to this file; Jaeger's page opens it.
    #[arg(long, value_name = "FILE.json")]
    spans: Option<PathBuf>,
    /// Write the spans of all nodes to this file; Perfetto opens it.
    #[arg(long, value_name = "FILE.json")]
    perfetto: Option<PathBuf>,
    /// Write a flame graph of each node to this folder; needs processes, and programs that have
    /// --cpu-profile.
    #[arg(long, value_name = "FOLDER")]
    flame: Option<PathBuf>,
    /// Write each event of simulated runs to this file, a line for each.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show the runs while they last on a page at this address, such as 127.0.0.1:8080.
    #[arg(long, value_name = "ADDRESS:PORT")]
    dashboard: Option<SocketAddr>,
}

impl Records {
    fn has_spans(&self) -> bool {
        self.spans.is_some() || self.perfetto.is_some()
    }

    fn check(&self, driver: DriverName, is_standing: bool) -> anyhow::Result<()> {
        let has_any = self.has_spans() || self.flame.is_some() || self.trace.is_some();
        match driver {
            _ if is_standing && has_any => {
                anyhow::bail!("cannot record spans, flame graphs or events of a standing cluster")
            }
            DriverName::Ssh if has_any => {
                anyhow::bail!("cannot record spans, flame graphs or events of nodes on other hosts")
            }
            DriverName::Simulated if self.flame.is_some() => {
                anyhow::bail!("cannot draw flame graphs of simulated nodes; add --driver processes")
            }
            DriverName::Processes if self.trace.is_some() => {
                anyhow::bail!(
                    "cannot trace events of processes; use --spans, or --driver simulated"
                )
            }
            _ => Ok(()),
        }
    }

    /// The driver on processes with what it is asked to record.
    fn on_processes(&self, processes: Processes) -> anyhow::Result<Processes> {
        let mut processes = processes;
        if self.has_spans() {
            let receiver = Receiver::start().context("cannot listen for the spans of nodes")?;
            processes = processes.with_spans(receiver);
        }
        if let Some(folder) = &self.flame {
            let cannot = || format!("cannot create the folder {}", folder.display());
            std::fs::create_dir_all(folder).with_context(cannot)?;
            processes = processes.with_flames(folder.canonicalize().with_context(cannot)?);
        }
        Ok(processes)
    }

    /// Writes the files of spans and of Perfetto.
    fn write(
        &self,
        [spans, viewer]: [Option<ResultFile>; 2],
        runs: &[RunResult],
    ) -> anyhow::Result<()> {
        if let Some(file) = spans {
            file.write(&(serde_json::to_string(&jaeger(runs))? + "\n"))?;
        }
        if let Some(file) = viewer {
            file.write(&(serde_json::to_string(&perfetto(runs))? + "\n"))?;
        }
        let cut: u64 = runs.iter().map(|run| run.trace.cut).sum();
        if self.has_spans() && cut > 0 {
            eprintln!("watchfire: {cut} spans are not in the file: a node or a run had too many");
        }
        Ok(())
    }
}

/// Arguments of `watchfire lab compare`.
#[derive(clap::Args)]
pub struct CompareArguments {
    /// The two sides, such as main..HEAD: git references, or paths of programs.
    #[arg(value_name = "BEFORE..AFTER")]
    sides: String,
    #[command(flatten)]
    choice: Choice,
}

/// Checks files, and shows the trials of each.
pub fn check(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    for path in &arguments.experiments {
        let experiment = read(path, Experiment::parse)?;
        println!("{}: {}", path.display(), experiment.name);
        for trial in &experiment.trials {
            let plan = experiment.plan(trial, 0);
            let fetching = plan.nodes.iter().filter(|node| node.is_awaited()).count();
            let can_simulate = Simulated.check(&plan).is_ok();
            let only = if can_simulate { "" } else { ", not in the simulator" };
            println!(
                "  {}: {} nodes, {fetching} of them fetch{only}",
                trial.name,
                plan.nodes.len()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the trials of an experiment.
pub fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let RunArguments { choice, csv, on, quick, page, records } = arguments;
    records.check(choice.driver, on.is_some())?;
    // A file of results may be in a folder that the command creates.
    for folder in [&choice.folder, &records.flame].into_iter().flatten() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    }
    let [json, report] = choice.outputs()?;
    let (csv, page_file) = (ResultFile::of(csv.as_ref())?, ResultFile::of(page.as_ref())?);
    let of_records =
        [ResultFile::of(records.spans.as_ref())?, ResultFile::of(records.perfetto.as_ref())?];
    let exit_code = interrupt_at_signals()?;
    let standing =
        on.as_ref().map(|name| standing::open(name, choice.folder.clone())).transpose()?;
    let mut experiment = choice.read(standing.as_ref())?;
    if *quick {
        experiment.shorten(QUICK_BYTES);
    }
    let trials = choice.trials(&experiment)?;
    let page = page.as_deref().map(|page| anyhow::Ok((page, Machine::read()?))).transpose()?;
    let started_at = Instant::now();
    let results = run_recorded(choice, records, standing, &experiment, &trials)?;
    records.write(of_records, &results.runs)?;
    print!("{}", results_table(&results.runs));
    if !experiment.targets.is_empty() && !*quick && choice.trial.is_empty() {
        print!("\n{}", targets_table(&experiment, &results.runs).terminal());
    }
    if let Some(file) = json {
        let json = json!({
            "experiment": experiment.name,
            "interrupted": is_interrupted(),
            "runs": results.runs,
        });
        file.write(&(serde_json::to_string_pretty(&json)? + "\n"))?;
    }
    if let Some(file) = csv {
        file.write(&watchfire_lab::csv(&results.runs))?;
    }
    if let Some(file) = report {
        file.write(&results.html(&experiment.name, &experiment.notes, None))?;
    }
    let is_healthy = report_problems(&results);
    if is_interrupted() {
        eprintln!(
            "watchfire: interrupted; the results have the {} complete runs",
            results.runs.len()
        );
        return Ok(ExitCode::from(exit_code.load(Ordering::Relaxed)));
    }
    if let Some(((page, machine), file)) = page.zip(page_file) {
        anyhow::ensure!(is_healthy, "cannot write {}: not every trial succeeded", page.display());
        let page = Page {
            experiment: &experiment,
            file: &choice.experiment,
            page,
            runs: &results.runs,
            driver: choice.driver.name(),
            command: &command(arguments, page, choice.driver.name()),
            commit: &commit(),
            date: &today(),
            machine: &machine.sentence(),
            seconds: started_at.elapsed().as_secs(),
        };
        file.write(&page.markdown())?;
        if let Some(picture) = page.picture() {
            ResultFile::open(&page.picture_file())?.write(&picture)?;
        }
    }
    Ok(exit_code_of(is_healthy))
}

/// The command that writes a page again.
fn command(arguments: &RunArguments, page: &Path, driver: &str) -> String {
    let Choice { experiment, repeat, .. } = &arguments.choice;
    let repeat = repeat.map_or_else(String::new, |repeat| format!(" --repeat {repeat}"));
    let (experiment, page) = (experiment.display(), page.display());
    format!("watchfire lab run {experiment} --driver {driver}{repeat} --page {page}")
}

/// Ends the runs at a signal, so that the complete ones are still reported.
fn interrupt_at_signals() -> anyhow::Result<Arc<AtomicU8>> {
    let end = || {
        interrupt();
        eprintln!(
            "watchfire: ends with the results of complete runs; a second signal ends without them"
        );
    };
    Ok(end_at_signals(end)?)
}

/// Runs trials, and shows them while they last.
fn run_recorded(
    choice: &Choice,
    records: &Records,
    standing: Option<Standing>,
    experiment: &Experiment,
    trials: &[&Trial],
) -> anyhow::Result<Results> {
    let dashboard = records.dashboard.map(|at| LabDashboard::start(at, experiment));
    let mut dashboard = dashboard.transpose()?;
    let mut terminal = RunProgress::start();
    let mut watch = |turn: watchfire_lab::Turn<'_>, progress: watchfire_lab::Progress<'_>| {
        terminal.show(turn, progress);
        if let Some(dashboard) = &mut dashboard {
            dashboard.show(turn, progress, || run_text(turn, progress, 0));
        }
    };
    let results = match (standing, choice.driver, &records.trace) {
        (Some(mut standing), ..) => run_all(experiment, trials, &mut standing, &mut watch),
        (None, DriverName::Simulated, Some(file)) => {
            let name = || format!("cannot write the trace {}", file.display());
            let mut driver = Traced::new(BufWriter::new(File::create(file).with_context(name)?));
            let results = run_all(experiment, trials, &mut driver, &mut watch);
            driver.finish().with_context(name)?;
            results
        }
        (None, DriverName::Simulated, None) => {
            run_all(experiment, trials, &mut Simulated, &mut watch)
        }
        (None, DriverName::Ssh, _) => {
            let mut driver = choice.ssh(std::env::current_exe()?, experiment)?;
            run_all(experiment, trials, &mut *driver, &mut watch)
        }
        (None, DriverName::Processes, _) => {
            let processes = choice.processes(std::env::current_exe()?)?;
            let mut driver = records.on_processes(processes)?;
            run_all(experiment, trials, &mut driver, &mut watch)
        }
    };
    drop(terminal);
    if let Some(dashboard) = dashboard {
        dashboard.end(&results);
    }
    Ok(results)
}

/// Runs the trials of an experiment with two programs in turns, and judges the difference.
pub fn compare(arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
    let choice = &arguments.choice;
    let [json, report] = choice.outputs()?;
    let experiment = choice.read(None)?;
    let trials = choice.trials(&experiment)?;
    let names = sides(&arguments.sides)?;
    let mut before = choice.side(names.0, &experiment)?;
    let mut after = choice.side(names.1, &experiment)?;
    if experiment.repeat < PAIRS_MIN as u32 {
        eprintln!(
            "note: {} repeats decide nothing if a figure differs; use --repeat {PAIRS_ADVISED}",
            experiment.repeat
        );
    }
    let exit_code = interrupt_at_signals()?;
    let mut terminal = RunProgress::start();
    let drivers: [&mut dyn Driver; 2] = [&mut *before, &mut *after];
    let (comparison, results) =
        compare_all(&experiment, &trials, drivers, &mut |turn, progress| {
            terminal.show(turn, progress);
        });
    drop(terminal);
    print!("{}", comparison_table(&comparison));
    if let Some(file) = json {
        let [before, after] = &results;
        let json = json!({
            "experiment": experiment.name,
            "interrupted": is_interrupted(),
            "comparison": comparison,
            "before": before.runs,
            "after": after.runs,
        });
        file.write(&(serde_json::to_string_pretty(&json)? + "\n"))?;
    }
    if let Some(file) = report {
        let [before_runs, after_runs] = &results;
        let sides = [(names.0, &*before_runs.runs), (names.1, &*after_runs.runs)];
        file.write(&comparison_html(&experiment.name, &comparison, sides))?;
    }
    let are_healthy = results.iter().map(report_problems).collect::<Vec<_>>();
    let code = match are_healthy.into_iter().all(|is_healthy| is_healthy) {
        _ if is_interrupted() => {
            eprintln!("watchfire: interrupted; the verdicts are about the complete pairs of runs");
            exit_code.load(Ordering::Relaxed)
        }
        false => FAILED,
        true if comparison.is_worse() => WORSE,
        true if comparison.is_undecided() => UNDECIDED,
        true => return Ok(ExitCode::SUCCESS),
    };
    Ok(ExitCode::from(code))
}

impl Choice {
    /// The files of all results and of the report.
    fn outputs(&self) -> anyhow::Result<[Option<ResultFile>; 2]> {
        Ok([ResultFile::of(self.json.as_ref())?, ResultFile::of(self.report.as_ref())?])
    }

    fn read(&self, on: Option<&Standing>) -> anyhow::Result<Experiment> {
        let mut experiment = read(&self.experiment, |name, text| match on {
            Some(standing) => standing.experiment(name, text),
            None => Experiment::parse(name, text),
        })?;
        experiment.seed = self.seed.unwrap_or(experiment.seed);
        experiment.repeat = self.repeat.unwrap_or(experiment.repeat);
        experiment.warm_up = self.warm_up.unwrap_or(experiment.warm_up);
        Ok(experiment)
    }

    fn trials<'a>(&self, experiment: &'a Experiment) -> anyhow::Result<Vec<&'a Trial>> {
        if self.trial.is_empty() {
            return Ok(experiment.trials.iter().collect());
        }
        let find = |name: &String| {
            experiment.trial(name).map_err(|unknown| {
                let (file, count) = (self.experiment.display(), experiment.trials.len());
                anyhow::anyhow!("{unknown}\n`watchfire lab check {file}` lists all {count}")
            })
        };
        self.trial.iter().map(find).collect()
    }

    /// The driver of one side of a comparison.
    fn side(&self, side: &str, experiment: &Experiment) -> anyhow::Result<Box<dyn Driver>> {
        let program = match build(side)? {
            Build::Path(path) => path,
            _ => builds(self.folder.as_deref())?.program(side)?,
        };
        match self.driver {
            DriverName::Processes => Ok(Box::new(self.processes(program)?)),
            DriverName::Ssh => self.ssh(program, experiment),
            DriverName::Simulated => {
                let runs = runs(self.folder.as_deref())?;
                Ok(Box::new(SimulatedBy::new(program, &self.experiment, runs)))
            }
        }
    }

    /// The driver whose nodes run `program` unless their peer names another build.
    fn processes(&self, program: PathBuf) -> anyhow::Result<Processes> {
        processes_driver(self.folder.as_deref(), program)
    }

    /// The same on hosts: those of the command line, or of the experiment.
    fn ssh(&self, program: PathBuf, experiment: &Experiment) -> anyhow::Result<Box<dyn Driver>> {
        let hosts = match self.hosts.read()? {
            Some(hosts) => hosts,
            None => {
                let list = format!("the experiment {}", experiment.name);
                self.hosts.with_config(Hosts::parse(&list, &experiment.hosts.join("\n"))?)
            }
        };
        Ok(Box::new(Ssh::new(self.processes(program)?, hosts)))
    }
}

/// The driver whose nodes run `program` unless their peer names another build, with this folder of runs and programs.
pub(super) fn processes_driver(
    folder: Option<&Path>,
    program: PathBuf,
) -> anyhow::Result<Processes> {
    Ok(Processes::new(program, runs(folder)?, builds(folder)?))
}

/// The folder of runs. Anything that killed runs left in it is removed: in the usual folder, [`sweep`] has done so.
pub fn runs(folder: Option<&Path>) -> anyhow::Result<PathBuf> {
    let runs = cache(folder)?.join("runs");
    if folder.is_some() {
        sweep_folder(&runs)?;
    }
    Ok(runs)
}

/// The builds of the repository around the working folder.
pub(super) fn builds(folder: Option<&Path>) -> anyhow::Result<Builds> {
    Ok(Builds::new(std::env::current_dir()?, cache(folder)?.join("builds")))
}

/// The folder of runs and of built programs.
fn cache(folder: Option<&Path>) -> anyhow::Result<PathBuf> {
    let folder = folder.map(Path::to_owned).or_else(cache_folder);
    folder.context("cannot find your cache folder; choose a folder with --folder")
}

/// Removes what killed runs left in the usual folder of the lab.
pub fn sweep() -> anyhow::Result<()> {
    cache_folder().map_or(Ok(()), |folder| sweep_folder(&folder.join("runs")))
}

fn sweep_folder(runs: &Path) -> anyhow::Result<()> {
    let swept = Workspace::sweep(runs).with_context(|| runs.display().to_string())?;
    if swept > 0 {
        let runs = if swept == 1 { "run" } else { "runs" };
        eprintln!("watchfire: removed the processes and files of {swept} killed {runs}");
    }
    Ok(())
}

/// A program, or the git reference from which it is built. A branch may have a slash in its name too.
pub(super) fn build(text: &str) -> anyhow::Result<Build> {
    let is_path = text.contains('/') && (text.starts_with(['/', '.']) || Path::new(text).exists());
    Ok(match is_path {
        true => {
            let path = Path::new(text).canonicalize();
            Build::Path(path.with_context(|| format!("cannot find the program {text}"))?)
        }
        false => Build::Git(text.to_owned()),
    })
}

/// The two sides of a comparison. The dots between them are not a part of a path.
fn sides(text: &str) -> anyhow::Result<(&str, &str)> {
    let is_end = |side: &str| !side.is_empty() && !side.ends_with(['/', '.']);
    let pairs = text.match_indices("..").map(|(at, _)| (&text[..at], &text[at + 2..]));
    let mut pairs = pairs.filter(|(before, after)| is_end(before) && !after.is_empty());
    pairs.next().with_context(|| format!("{text:?} does not name two sides; write main..HEAD"))
}

/// Reads a file. Returns its name for errors, and its text.
pub(super) fn read_text(file: &Path) -> anyhow::Result<(String, String)> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

pub(super) fn read(
    path: &Path,
    parse: impl FnOnce(&str, &str) -> Result<Experiment, DefinitionError>,
) -> anyhow::Result<Experiment> {
    let (name, text) = read_text(path)?;
    let mut experiment = parse(&name, &text)?;
    // Paths in a file are relative to the file.
    let file = std::path::absolute(path)?;
    experiment.resolve_paths(file.parent().unwrap_or(Path::new("/")));
    Ok(experiment)
}

/// The folder of the lab, unless `--folder` names another.
fn cache_folder() -> Option<PathBuf> {
    let is_set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = is_set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(is_set("HOME")?).join(".cache")))?;
    Some(cache.join("watchfire/lab"))
}

/// Prints the failures and the broken rules of all runs. Returns whether there were none.
pub(super) fn report_problems(results: &Results) -> bool {
    for RunResult { trial, seed, notes, .. } in &results.runs {
        notes.iter().for_each(|note| eprintln!("note: {trial}, seed {seed}: {note}"));
    }
    for problem in results.problems() {
        eprintln!("watchfire: {problem}");
    }
    results.failed.is_empty() && results.runs.iter().all(RunResult::is_healthy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sides_of_a_comparison_are_references_or_paths() {
        assert_eq!(sides("main..HEAD").unwrap(), ("main", "HEAD"));
        assert_eq!(sides("v1.0..v1.1").unwrap(), ("v1.0", "v1.1"));
        assert_eq!(sides("../a/w..../b/w").unwrap(), ("../a/w", "../b/w"));
        for text in ["main", "main..", "..HEAD", "../a"] {
            assert!(sides(text).is_err(), "{text}");
        }
        assert_eq!(sides("feature/x..dev").unwrap(), ("feature/x", "dev"));
        assert!(matches!(build("feature/x").unwrap(), Build::Git(name) if name == "feature/x"));
        assert!(matches!(build("src/lib.rs").unwrap(), Build::Path(_)));
        assert!(build("./no-such-program").is_err());
    }
}
