use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::Context as _;
use watchfire_load::{
    AgentAddress, Live, LoadOptions, PhaseEvent, Results, Scenario, Source, StopFlag, WorkerProgram,
};
use watchfire_page_client::ServerUrl;

use crate::cpu_profile::CpuProfileOption;
use crate::dashboard::Dashboard;
#[cfg(feature = "lab")]
use crate::load_agents::Agents;
use crate::operator::{CallError, Operator};
use crate::output::{self, ResultFile};
use crate::signals::end_at_signals;

/// The exit code when a threshold is broken; other failures end with 1.
const THRESHOLD_BROKEN: u8 = 3;

/// Arguments of `watchfire load`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// The scenario file: when users arrive and what they do; see docs/reference/load-scenarios.md.
    #[arg(value_name = "SCENARIO", required = true)]
    scenario: Option<PathBuf>,
    /// Use this server instead of the scenario's, such as ws://localhost:4000; can be repeated.
    #[arg(long, alias = "target", value_name = "URL")]
    to: Vec<String>,
    /// Use this seed for random numbers instead of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Use this value in place of the scenario's, such as phases.join.rate=2000; can be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Check the scenario, and print how many users and processes it needs as JSON.
    #[arg(long)]
    check: bool,
    /// Print the begin and the end of each phase, a JSON object on each line, instead of the progress.
    #[arg(long)]
    events: bool,
    /// Write all results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results of each second to this file as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a report with charts to this file: one HTML page that needs no other file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Mark the begin and the end of the load on the operator's page of the server with this listener.
    /// It has another address than the server: admin.listen names it.
    #[arg(long, value_name = "URL")]
    operator: Option<ServerUrl>,
    /// Use at least this many processes; the default is as few as the limits allow.
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Use at most this many open files per process.
    #[arg(long, value_name = "N")]
    files_max: Option<u64>,
    /// Start users on the agent at this address; can be repeated.
    #[arg(long, value_name = "HOST:PORT", requires = "token_file")]
    agent: Vec<String>,
    /// A file with the token that the agents were started with.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Show the load while it runs on a page at this address, such as 127.0.0.1:8080.
    #[arg(long, value_name = "ADDRESS:PORT")]
    dashboard: Option<SocketAddr>,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    hosts: crate::hosts::HostsOptions,
    #[command(flatten)]
    pub cpu_profile: CpuProfileOption,
}

#[derive(clap::Subcommand)]
enum Role {
    /// Run users of a load that is started on another machine.
    Agent {
        /// Listen on this address, such as 0.0.0.0:4900.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: SocketAddr,
        /// A file with the token that a controller must know.
        #[arg(long, value_name = "FILE")]
        token_file: PathBuf,
    },
}

/// Runs a load. The exit code is 3 if a threshold of the scenario is broken.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let worker = (program, vec!["load-worker".to_owned()]);
    if let Some(Role::Agent { listen, token_file }) = arguments.role {
        return run_agent(listen, &token_file, &worker).map(|()| ExitCode::SUCCESS);
    }
    let scenario = arguments.scenario.context("no scenario; name a scenario file")?;
    let mut source = Source::read(&scenario)?;
    source.set(&arguments.set)?;
    source.targets = arguments.to;
    source.seed = arguments.seed;
    let (files_max, workers) = (arguments.files_max, arguments.workers);
    if arguments.check {
        let options = LoadOptions { files_max, workers, ..LoadOptions::default() };
        return check(&source.scenario()?, &options).map(|()| ExitCode::SUCCESS);
    }
    let outputs = [&arguments.json, &arguments.csv, &arguments.report];
    let [json, csv, report] = outputs.map(|path| ResultFile::of(path.as_ref()));
    let (json, csv, report) = (json?, csv?, report?);
    let token = arguments.token_file.as_deref().map(read_token).transpose()?.unwrap_or_default();
    let agents = arguments.agent.into_iter();
    #[cfg_attr(not(feature = "lab"), allow(unused_mut, reason = "hosts belong to the lab"))]
    let mut agents: Vec<_> =
        agents.map(|address| AgentAddress { address, token: token.clone() }).collect();
    // Kept until the end: dropping them ends the agents.
    #[cfg(feature = "lab")]
    let started = arguments.hosts.read()?.map(|hosts| Agents::start(&hosts)).transpose()?;
    #[cfg(feature = "lab")]
    agents.extend(started.iter().flat_map(Agents::addresses));
    let events = arguments.events.then(print_phases);
    let options = LoadOptions {
        worker,
        agents,
        files_max,
        workers,
        stop: StopFlag::default(),
        phases: events.as_ref().map(|(sender, _)| sender.clone()),
    };
    let stop = options.stop.clone();
    let signalled = end_at_signals(move || stop.set())?;
    let checked = source.scenario()?;
    for note in &checked.notes {
        eprintln!("note: {note}");
    }
    let thresholds = checked.thresholds;

    // The text of an event has 160 bytes at most.
    let name = scenario.file_name().unwrap_or_default().to_string_lossy();
    let operator = arguments.operator.as_ref();
    let mark = |word| unmarked(operator?, &format!("The load {name:.32} {word}"));
    let mut without_mark = mark("began");
    let dashboard = arguments.dashboard.map(|at| Dashboard::start(at, &source.name));
    let mut dashboard = dashboard.transpose()?;
    let mut in_terminal = (!arguments.events).then(watch);
    let results = watchfire_load::run_load(&source, &options, |results| {
        if let Some(in_terminal) = &mut in_terminal {
            in_terminal(results);
        }
        if let Some(dashboard) = &mut dashboard {
            dashboard.show_load(results);
        }
    });
    if without_mark.is_none() {
        without_mark = mark("ended");
    }
    let mut results = results?;
    results.without_mark = without_mark;
    let verdicts = watchfire_load::judge(&thresholds, &results);
    if let Some(dashboard) = dashboard {
        dashboard.end(watchfire_load::html(&results, &verdicts));
    }
    if let Some((sender, printing)) = events {
        drop((sender, options));
        printing.join().expect("printing does not panic");
    } else {
        print!("\n{}", watchfire_load::table(&results, &verdicts));
    }
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&watchfire_load::json(&results, &verdicts))?;
        file.write(&(text + "\n"))?;
    }
    if let Some(file) = csv {
        file.write(&watchfire_load::csv(&results))?;
    }
    if let Some(file) = report {
        file.write(&watchfire_load::html(&results, &verdicts))?;
    }
    anyhow::ensure!(
        results.failed_workers.is_empty(),
        "a worker failed, so the results are incomplete"
    );
    if results.is_aborted {
        return Ok(ExitCode::from(THRESHOLD_BROKEN));
    }
    if results.stopped_after.is_some() {
        return Ok(ExitCode::from(signalled.load(Ordering::Relaxed)));
    }
    let is_kept = verdicts.iter().all(|verdict| verdict.is_kept);
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::from(THRESHOLD_BROKEN) })
}

/// Marks the load on the operator's page. If that fails, a warning says why, and so does the report: a load is worth
/// more than its mark.
fn unmarked(operator: &ServerUrl, text: &str) -> Option<String> {
    let error = Operator::new(operator, None).and_then(|one| one.note_blocking(text)).err()?;
    let cause = match error.downcast_ref::<CallError>() {
        // `--token-file` of a load is that of its agents.
        Some(CallError::Unauthorized { .. }) => {
            format!("{operator} requires the operator's token in WATCHFIRE_ADMIN_TOKEN")
        }
        _ => format!("{error:#}"),
    };
    eprintln!("warning: the operator's page does not show this load: {cause}");
    Some(cause)
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("needs KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Prints the size of a valid scenario.
fn check(scenario: &Scenario, options: &LoadOptions) -> anyhow::Result<()> {
    let users = scenario.users_at_once_max();
    let workers = watchfire_load::workers_here(scenario, options)?;
    println!("{}", serde_json::json!({ "users": users, "processes": workers }));
    Ok(())
}

/// Prints the events of phases, each on a line, until all senders are dropped.
fn print_phases() -> (Sender<PhaseEvent>, JoinHandle<()>) {
    let (sender, events) = channel::<PhaseEvent>();
    let print = move || {
        for event in events {
            println!("{}", serde_json::to_string(&event).expect("an event can be serialized"));
        }
    };
    (sender, std::thread::spawn(print))
}

fn run_agent(listen: SocketAddr, token_file: &Path, worker: &WorkerProgram) -> anyhow::Result<()> {
    let token = read_token(token_file)?;
    let listener =
        TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    println!("The agent listens on {}", listener.local_addr()?);
    watchfire_load::run_agent(&listener, &token, worker)
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let cannot = || format!("cannot read the token file {}", file.display());
    watchfire_load::parse_token(&std::fs::read_to_string(file).with_context(cannot)?)
        .with_context(cannot)
}

/// Shows the load while it runs: in place on a terminal, line by line elsewhere.
fn watch() -> impl FnMut(&Results) {
    let (is_terminal, mut out) = (output::is_terminal(), output::text_output());
    let mut live = Live::default();
    let mut seconds = 0;
    move |results| {
        if is_terminal {
            // The load continues when its terminal is closed.
            let _ = live.draw(results, &mut out);
        } else if results.seconds_whole() > seconds {
            seconds = results.seconds_whole();
            watchfire_load::line(results).into_iter().for_each(|line| println!("{line}"));
        }
    }
}

/// Runs one worker of a load. The controller writes to stdin and reads stdout.
pub fn work() -> anyhow::Result<()> {
    watchfire_load::run_worker(BufReader::new(io::stdin()), io::stdout().lock())
}
