use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use lab::{Live, LoadOptions, Results, Source};

/// What the process ends with when a threshold is broken; other failures end with 1.
const THRESHOLD_BROKEN: u8 = 3;

/// What `watchfire load` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// What simulated users do, and when they come; see docs/load.md.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
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
}

/// Run a load, and say whether it kept the scenario's thresholds.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut source = Source::read(&arguments.scenario)?;
    source.target = arguments.target;
    source.seed = arguments.seed;
    let program = std::env::current_exe().context("our own program cannot be found")?;
    let options = LoadOptions {
        worker: (program, vec!["load-worker".to_owned()]),
        files_max: arguments.files_max,
        workers: arguments.workers,
    };
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
    let is_kept = verdicts.iter().all(|verdict| verdict.is_kept);
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::from(THRESHOLD_BROKEN) })
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
        } else if results.seconds.len() > seconds {
            seconds = results.seconds.len();
            lab::line(results).map_or(Ok(()), |line| writeln!(io::stdout(), "{line}"))
        } else {
            Ok(())
        };
    }
}

/// Be one worker of a load; its controller is at the other end of stdin and stdout.
pub fn work() -> anyhow::Result<()> {
    lab::run_worker(io::stdin().lock(), io::stdout().lock())
}
