//! Fuzzes for longer than the tests do, or runs one input again.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::Parser;
use fuzz::{Campaign, Failure, TARGETS, Target, artifact, read_seeds};

/// Random bytes into every decoder.
#[derive(Parser)]
struct Arguments {
    /// How long each target is fuzzed.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The seed of the dice; without it, the time of day.
    #[arg(long)]
    seed: Option<u64>,
    /// List the targets and stop.
    #[arg(long)]
    list: bool,
    /// Only this target.
    target: Option<String>,
    /// Only these inputs, as they are.
    inputs: Vec<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return Ok(());
    }
    if let (Some(name), false) = (&arguments.target, arguments.inputs.is_empty()) {
        return run_inputs(named(name)?, &arguments.inputs);
    }
    let targets = match &arguments.target {
        Some(name) => std::slice::from_ref(named(name)?),
        None => TARGETS,
    };
    let seed = arguments.seed.unwrap_or_else(time_of_day);
    println!("seed {seed}, {} s for each of {} targets", arguments.seconds, targets.len());
    let mut failed = 0;
    for target in targets {
        if let Err(failure) = fuzz_one(target, seed, Duration::from_secs(arguments.seconds))? {
            failed += 1;
            println!("FAILED: {failure}\n  again: {}", artifact(&failure)?);
        }
    }
    if failed > 0 { bail!("{failed} targets failed") } else { Ok(()) }
}

fn named(name: &str) -> anyhow::Result<&'static Target> {
    TARGETS.iter().find(|target| target.name == name).with_context(|| format!("no target {name}"))
}

fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn run_inputs(target: &Target, inputs: &[PathBuf]) -> anyhow::Result<()> {
    for path in inputs {
        let input = fs::read(path).with_context(|| path.display().to_string())?;
        let usage = target.run(&input).map_err(anyhow::Error::msg)?;
        println!("{}: {:?}, {} bytes of memory", path.display(), usage.time, usage.memory_bytes);
    }
    Ok(())
}

fn fuzz_one(
    target: &Target,
    seed: u64,
    duration: Duration,
) -> anyhow::Result<Result<(), Box<Failure>>> {
    let seeds = read_seeds(target.name).with_context(|| format!("seeds of {}", target.name))?;
    let campaign = Campaign::new(target, seeds, seed);
    let started = Instant::now();
    let thrown = Cell::new(0);
    let goes_on = |throw| {
        thrown.set(throw);
        started.elapsed() < duration
    };
    let ended = campaign.run_seeds().and_then(|()| campaign.run(goes_on));
    Ok(ended.map(|most| {
        let (name, thrown, bytes) = (target.name, thrown.get(), most.memory_bytes);
        println!("{name}: {thrown} inputs, at most {:?} and {bytes} bytes of memory", most.time);
    }))
}
