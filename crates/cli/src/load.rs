use std::io::{self, BufReader, IsTerminal as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Context as _;
use lab::{AgentAddress, Live, LoadOptions, Results, Source, Stop, WorkerProgram};
use tokio::signal::unix::{SignalKind, signal};

/// What the process ends with when a threshold is broken; other failures end with 1.
const THRESHOLD_BROKEN: u8 = 3;

/// What the process ends with when a signal stopped the load, added to the signal's number.
const SIGNALLED: u8 = 128;

/// What `watchfire load` takes.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// What simulated users do, and when they come; see docs/load.md.
    #[arg(value_name = "SCENARIO", required = true)]
    scenario: Option<PathBuf>,
    /// Put this server under load instead of the scenario's, such as ws://localhost:4000.
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Decide every draw by this number instead of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write all that was measured here, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with charts here: one page that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Spread users over this many processes at least; by default, as few as the limits allow.
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// No more open files a process than this.
    #[arg(long, value_name = "N")]
    files_max: Option<u64>,
    /// Let users come from this machine, where an agent listens; may be given more than once.
    #[arg(long, value_name = "HOST:PORT", requires = "token_file")]
    agent: Vec<String>,
    /// Holds the secret that agents were started with.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Role {
    /// Lend this machine's users to loads that are run elsewhere.
    Agent {
        /// Where to listen, such as 0.0.0.0:4900.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: SocketAddr,
        /// Holds the secret that lets a controller in.
        #[arg(long, value_name = "FILE")]
        token_file: PathBuf,
    },
}

/// Run a load, and say whether it kept the scenario's thresholds.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("our own program cannot be found")?;
    let worker = (program, vec!["load-worker".to_owned()]);
    if let Some(Role::Agent { listen, token_file }) = arguments.role {
        return be_agent(listen, &token_file, &worker).map(|()| ExitCode::SUCCESS);
    }
    let scenario = arguments.scenario.context("a scenario is needed")?;
    let mut source = Source::read(&scenario)?;
    source.target = arguments.target;
    source.seed = arguments.seed;
    let token = arguments.token_file.as_deref().map(read_token).transpose()?.unwrap_or_default();
    let agents = arguments.agent.into_iter();
    let options = LoadOptions {
        worker,
        agents: agents.map(|place| AgentAddress { place, token: token.clone() }).collect(),
        files_max: arguments.files_max,
        workers: arguments.workers,
        stop: Stop::default(),
    };
    let signalled = stop_at_signals(options.stop.clone())?;
    let gates = source.scenario()?.gates;

    let results = lab::run_load(&source, &options, watch())?;

    let verdicts = lab::judge(&gates, &results);
    print!("\n{}", lab::table(&results, &verdicts));
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&lab::json(&results, &verdicts))?;
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &arguments.report {
        let page = lab::html(&results, &verdicts);
        std::fs::write(file, page).with_context(|| file.display().to_string())?;
    }
    anyhow::ensure!(results.broken.is_empty(), "a part of the load is missing");
    if results.stopped_after.is_some() {
        return Ok(ExitCode::from(signalled.load(Ordering::Relaxed)));
    }
    let is_kept = verdicts.iter().all(|verdict| verdict.is_kept);
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::from(THRESHOLD_BROKEN) })
}

/// Let an interrupt or a termination end the load, so that it tells what it has measured; the next
/// one ends us at once. What is returned becomes the exit code that a shell expects of it.
fn stop_at_signals(stop: Stop) -> anyhow::Result<Arc<AtomicU8>> {
    let exit_code = Arc::new(AtomicU8::new(0));
    let signalled = Arc::clone(&exit_code);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupts, mut terminations) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let number = tokio::select! {
                    _ = interrupts.recv() => SignalKind::interrupt().as_raw_value(),
                    _ = terminations.recv() => SignalKind::terminate().as_raw_value(),
                };
                let exit_code = SIGNALLED + number as u8;
                if stop.is_told() {
                    std::process::exit(exit_code.into());
                }
                signalled.store(exit_code, Ordering::Relaxed);
                stop.tell();
            }
        });
    });
    Ok(exit_code)
}

fn be_agent(listen: SocketAddr, token_file: &Path, worker: &WorkerProgram) -> anyhow::Result<()> {
    let token = read_token(token_file)?;
    let listener = TcpListener::bind(listen).with_context(|| listen.to_string())?;
    println!("An agent listens on {}", listener.local_addr()?);
    lab::run_agent(&listener, &token, worker)
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let name = || file.display().to_string();
    lab::parse_token(&std::fs::read_to_string(file).with_context(name)?).with_context(name)
}

/// Shows the load while it runs: in place on a terminal, line by line elsewhere.
fn watch() -> impl FnMut(&Results) {
    let is_terminal = io::stdout().is_terminal();
    let mut live = Live::default();
    let mut seconds = 0;
    move |results| {
        // Who closed our output does not want to see more; the load goes on.
        let _ = if is_terminal {
            live.draw(results, &mut io::stdout())
        } else if results.seconds_whole() > seconds {
            seconds = results.seconds_whole();
            lab::line(results).map_or(Ok(()), |line| writeln!(io::stdout(), "{line}"))
        } else {
            Ok(())
        };
    }
}

/// Be one worker of a load; its controller is at the other end of stdin and stdout.
pub fn work() -> anyhow::Result<()> {
    lab::run_worker(BufReader::new(io::stdin()), io::stdout().lock())
}
