use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use watchfire_load::{
    AgentAddress, Control, Live, LoadOptions, PhaseEvent, Results, Scenario, Source, StopFlag,
    Swarm, WorkerProgram,
};
use watchfire_page_client::ServerUrl;

use crate::cpu_profile::CpuProfileOption;
use crate::dashboard::LoadDashboard;
use crate::http_client::{HttpClient, Request};
#[cfg(feature = "lab")]
use crate::load_agents::Agents;
use crate::operator::{CallError, Operator};
use crate::output::{self, ResultFile};
use crate::secret;
use crate::signals::end_at_signals;

/// The exit code when a threshold is broken; other failures end with 1.
const THRESHOLD_BROKEN: u8 = 3;
/// The variable with the token of a load.
const TOKEN_VARIABLE: &str = "WATCHFIRE_LOAD_TOKEN";
/// The time and the bytes of an answer to a control.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);
const CONTROL_ANSWER_BYTES_MAX: usize = 64 << 10;

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
    #[arg(long, value_name = "HOST:PORT")]
    agent: Vec<String>,
    /// Let agents join at this address, such as 0.0.0.0:4901, and run the users on them.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Begin when this many agents have joined.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "listen")]
    agents_min: usize,
    /// A file with the token that the agents were started with. Without it, the token is in the variable
    /// WATCHFIRE_LOAD_TOKEN. It also permits `watchfire load control`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Show the load while it runs on a page at this address, such as 127.0.0.1:8080. `watchfire top` and
    /// `watchfire load control` use the same address.
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
        /// Listen on this address, such as 0.0.0.0:4900, for controllers that name it with --agent.
        #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "join")]
        listen: Option<SocketAddr>,
        /// Join the load whose controller listens at this address, and leave it with Ctrl-C.
        #[arg(long, value_name = "HOST:PORT", conflicts_with = "listen")]
        join: Option<String>,
        /// Show this name instead of the name of this machine and the number of this process.
        #[arg(long, value_name = "NAME", requires = "join")]
        name: Option<String>,
        /// A file with the token that a controller must know. Without it, the token is in the variable
        /// WATCHFIRE_LOAD_TOKEN.
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
    /// Change a load that runs: `pause`, `resume`, `scale 2` for twice the rates of its scenario, or `end`.
    Control {
        #[arg(value_name = "pause|resume|scale N|end", num_args = 1..=2, required = true, allow_negative_numbers = true)]
        control: Vec<String>,
        /// The address that --dashboard of the load names, such as http://127.0.0.1:8080.
        #[arg(long, value_name = "URL")]
        dashboard: ServerUrl,
        /// A file with the token of the load. Without it, the token is in the variable WATCHFIRE_LOAD_TOKEN.
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
}

/// Runs a load. The exit code is 3 if a threshold of the scenario is broken.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let worker = (program, vec!["load-worker".to_owned()]);
    match arguments.role {
        Some(Role::Agent { listen, join, name, token_file }) => {
            let token = needed_token(token_file.as_deref())?;
            return match (listen, join) {
                (Some(listen), _) => run_agent(listen, &token, &worker),
                (None, join) => join_load(&join.unwrap_or_default(), &token, name),
            }
            .map(|()| ExitCode::SUCCESS);
        }
        Some(Role::Control { control, dashboard, token_file }) => {
            let control = control.join(" ").parse().map_err(anyhow::Error::msg)?;
            let token = needed_token(token_file.as_deref())?;
            return send_control(control, &dashboard, &token).map(|()| ExitCode::SUCCESS);
        }
        None => {}
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
    let token_file = arguments.token_file.as_deref();
    let token = match arguments.agent.is_empty() && arguments.listen.is_none() {
        true => read_token(token_file)?,
        false => Some(needed_token(token_file)?),
    };
    let swarm = arguments.listen.map(|at| swarm(at, arguments.agents_min, token.clone()));
    let swarm = swarm.transpose()?;
    let agents = arguments.agent.into_iter();
    #[cfg_attr(not(feature = "lab"), allow(unused_mut, reason = "hosts belong to the lab"))]
    let mut agents: Vec<_> = agents
        .map(|address| AgentAddress { address, token: token.clone().unwrap_or_default() })
        .collect();
    // Kept until the end: dropping them ends the agents.
    #[cfg(feature = "lab")]
    let started = arguments.hosts.read()?.map(|hosts| Agents::start(&hosts)).transpose()?;
    #[cfg(feature = "lab")]
    agents.extend(started.iter().flat_map(Agents::addresses));
    let events = arguments.events.then(print_phases);
    let (controls, controlled) = channel();
    let options = LoadOptions {
        worker,
        agents,
        files_max,
        workers,
        stop: StopFlag::default(),
        phases: events.as_ref().map(|(sender, _)| sender.clone()),
        swarm,
        controls: Some(controlled),
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
    let dashboard = arguments.dashboard.map(|at| {
        let operator = arguments.operator.as_ref();
        LoadDashboard::start(at, &source.name, token, controls, operator)
    });
    let mut dashboard = dashboard.transpose()?;
    let mut in_terminal = (!arguments.events).then(watch);
    let results = watchfire_load::run_load(&source, &options, |results| {
        if let Some(in_terminal) = &mut in_terminal {
            in_terminal(results);
        }
        if let Some(dashboard) = &mut dashboard {
            dashboard.show(results);
        }
    });
    // From now on, the dashboard refuses controls.
    drop(options);
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
        drop(sender);
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
    // A load that `watchfire load control` has ended is judged by its thresholds.
    let signal = signalled.load(Ordering::Relaxed);
    if results.stopped_after.is_some() && signal != 0 {
        return Ok(ExitCode::from(signal));
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

fn run_agent(listen: SocketAddr, token: &str, worker: &WorkerProgram) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    println!("The agent listens on {}", listener.local_addr()?);
    watchfire_load::run_agent(&listener, token, worker)
}

/// Runs a share of a load until it ends, or until a signal.
fn join_load(address: &str, token: &str, name: Option<String>) -> anyhow::Result<()> {
    let own_name = || {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{machine}:{}", std::process::id())
    };
    let name = name.unwrap_or_else(own_name);
    let (leave, has_begun) = (StopFlag::default(), Arc::new(AtomicBool::new(false)));
    let (asked, begun) = (leave.clone(), Arc::clone(&has_begun));
    end_at_signals(move || {
        asked.set();
        if !begun.load(Ordering::Relaxed) {
            // It has no users that others must take.
            std::process::exit(0);
        }
    })?;
    let begin = || {
        has_begun.store(true, Ordering::Relaxed);
        println!("Runs users of the load at {address} as {name}");
    };
    watchfire_load::join_load(address, token, &name, &leave, begin)?;
    println!("{}", if leave.is_set() { "Left the load" } else { "The load has ended" });
    Ok(())
}

fn swarm(listen: SocketAddr, agents_min: usize, token: Option<String>) -> anyhow::Result<Swarm> {
    let listener =
        TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    eprintln!("Agents join at {}", listener.local_addr()?);
    Ok(Swarm { listener, token: token.unwrap_or_default(), agents_min })
}

fn send_control(control: Control, dashboard: &ServerUrl, token: &str) -> anyhow::Result<()> {
    let client = HttpClient::new(dashboard, CONTROL_TIMEOUT, CONTROL_ANSWER_BYTES_MAX)?;
    let path = format!("/control/{}", control.to_string().replace(' ', "/"));
    let headers = vec![("Authorization", format!("Bearer {token}"))];
    let request = Request { method: "POST", headers, ..Request::get(path) };
    let answer = client.exchange_blocking(&request);
    let answer = answer.with_context(|| format!("cannot reach the load at {dashboard}"))?;
    if answer.status == 200 {
        return Ok(());
    }
    match serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default()["message"] {
        serde_json::Value::String(ref message) => bail!("{dashboard} refuses {control}: {message}"),
        _ => bail!("{dashboard} is not the dashboard of a load (status {})", answer.status),
    }
}

/// The token of a load. It comes from the file or else from the environment.
fn read_token(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let variable = std::env::var(TOKEN_VARIABLE).ok();
    let token = secret::read(file, TOKEN_VARIABLE, variable)?;
    token.map(|token| watchfire_load::parse_token(&token)).transpose()
}

fn needed_token(file: Option<&Path>) -> anyhow::Result<String> {
    read_token(file)?.with_context(|| {
        format!("no token: name a file with --token-file, or set {TOKEN_VARIABLE}")
    })
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
    let (input, output) = (BufReader::new(io::stdin()), io::stdout().lock());
    // A controller that is gone needs no last report.
    watchfire_load::run_worker(input, output, &StopFlag::default(), || {}).map(drop)
}
