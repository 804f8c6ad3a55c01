//! `make bench-cluster`: several machines that form one server, beside Centrifugo and Socket.IO.
//!
//! A machine is a server process of its own; all are in one network namespace, with the engine
//! (NATS or Redis) that carries messages between them.

mod cases;
mod machines;
mod presence;
mod recovery;
mod results;
mod system;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use self::cases::{Bench, Delivery, Killed, TopicMemory};
use self::recovery::Place;
use self::results::Results;
use self::system::{Programs, System, versions};
use crate::limits;
use crate::progress::Progress;
use crate::report;
use crate::scale::{namespace, percent, watchfire_beside};
use watchfire_lab::machine::{Machine, OtherPrograms};

/// The name of the benchmark, and of its files.
pub const NAME: &str = "cluster";
/// Machines of a cluster.
pub const MACHINES: usize = 3;
/// Members of a room of the machine that is killed.
const ROOM_MEMBERS: u32 = 50;

/// The systems, their size, and the folders of their output.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Systems to measure, separated by commas; all of them by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<System>,
    /// Run at this percentage of the full size.
    #[arg(long, default_value_t = 100.0, value_parser = percent)]
    percent: f64,
    /// Rounds; systems take turns, and figures are medians.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Start no round that would likely end after this many seconds.
    #[arg(long, default_value_t = 900)]
    time_limit: u64,
    /// Cut clients off instead, and check that they get the messages that they missed.
    #[arg(long)]
    recovery: bool,
    /// The Watchfire program; by default the one beside this program.
    #[arg(long)]
    watchfire: Option<PathBuf>,
    /// The Centrifugo program.
    #[arg(long, default_value = "target/centrifugo/v6.9.1/centrifugo")]
    centrifugo: PathBuf,
    /// The NATS server.
    #[arg(long, default_value = "target/nats/v2.15.2/nats-server")]
    nats_server: PathBuf,
    /// The Redis server.
    #[arg(long, default_value = "redis-server")]
    redis_server: PathBuf,
    /// Folder of the compared Node servers.
    #[arg(long, default_value = "bench/peers")]
    peers: PathBuf,
    /// Folder for results and logs, and for the pages of partial runs.
    #[arg(long, default_value = "target/cluster")]
    out: PathBuf,
    /// Folder for the page and the picture of a full run.
    #[arg(long, default_value = "docs/scale")]
    docs: PathBuf,
}

/// The size of each case.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Topics with one member on each machine.
    pub topics: u32,
    /// Subscribers of one topic on each machine, and the messages to them.
    pub crowd: u32,
    pub crowd_messages: u32,
    /// Sockets of each machine that receive a broadcast, and the broadcasts.
    pub broadcast: u32,
    pub broadcast_messages: u32,
    /// Sockets of each machine whose topics are weighed, and the topics of each.
    pub memory_sockets: u32,
    pub memory_topics_each: u32,
    /// Clients of the machine that is killed.
    pub killed: u32,
}

impl Sizes {
    fn scaled(percent: f64) -> Self {
        let scaled = |whole: f64| (whole * percent / 100.0).round().max(1.0) as u32;
        Sizes {
            topics: scaled(10_000.0),
            crowd: scaled(3_000.0),
            crowd_messages: 40,
            broadcast: scaled(15_000.0),
            broadcast_messages: 10,
            memory_sockets: scaled(1_000.0),
            memory_topics_each: 20,
            killed: scaled(15_000.0),
        }
    }

    /// Rooms of the clients of the machine that is killed.
    pub fn rooms(self) -> u32 {
        self.killed.div_ceil(ROOM_MEMBERS)
    }
}

/// The results of one system, one of each round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    pub topics: Vec<Delivery>,
    pub crowd: Vec<Delivery>,
    pub memory: Vec<TopicMemory>,
    pub presence_memory: Vec<TopicMemory>,
    pub killed: Vec<Killed>,
}

/// One broadcast of Watchfire to many sockets, one result of each round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Broadcasts {
    pub machines: Vec<Delivery>,
    pub alone: Vec<Delivery>,
}

/// Measure all systems, and write the page.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    if !namespace::is_inside() {
        return namespace::run_inside("bench-cluster");
    }
    namespace::prepare()?;
    limits::raise_open_files()?;
    let programs = settings.programs()?;
    let versions = versions(&programs)?;
    let (machine, others) = (Machine::read()?, OtherPrograms::start()?);
    let started_at = Instant::now();
    if settings.recovery {
        return run_recovery(settings, &programs, &machine, &versions);
    }
    let mut rounds = Rounds::new(settings);
    rounds.run(&programs);
    let results = Results {
        settings,
        machine,
        versions,
        others_share: others.share()?,
        took: started_at.elapsed(),
        rounds: &rounds,
    };
    report::put(
        &settings.out,
        "rounds.json",
        &(serde_json::to_string_pretty(&results.raw())? + "\n"),
    )?;
    let report = results.report();
    report.write(&settings.docs, &settings.out)?;
    println!("{}", report.terminal());
    Ok(if rounds.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Cut clients of each system off, and write the page.
fn run_recovery(
    settings: &Settings,
    programs: &Programs,
    machine: &Machine,
    versions: &str,
) -> Result<ExitCode> {
    let (started_at, percent) = (Instant::now(), settings.percent);
    let mut progress = Progress::new(Place::ALL.len());
    let (mut results, mut ended) = (Vec::new(), ExitCode::SUCCESS);
    for place in Place::ALL {
        let bench = Bench { programs, sizes: Sizes::scaled(percent), progress: &progress };
        match bench.recovery(place, percent) {
            Ok(recovered) => results.push((place, recovered)),
            Err(error) => {
                progress.note(&format!("{}: {error:#}", place.name()));
                ended = ExitCode::FAILURE;
            }
        }
        progress.step(&place.name());
    }
    progress.finish();
    let seconds = started_at.elapsed().as_secs();
    let report = recovery::report(&results, machine, versions, percent, seconds);
    report.write(&settings.docs, &settings.out)?;
    println!("{}", report.terminal());
    Ok(ended)
}

impl Settings {
    fn programs(&self) -> Result<Programs> {
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot create {}", self.out.display()))?;
        let here = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        Ok(Programs {
            watchfire: here(&self.watchfire.clone().map_or_else(watchfire_beside, Ok)?),
            centrifugo: here(&self.centrifugo),
            nats_server: here(&self.nats_server),
            redis_server: self.redis_server.clone(),
            peers: here(&self.peers),
            out: here(&self.out),
        })
    }

    fn systems(&self) -> Vec<System> {
        if self.only.is_empty() { System::ALL.to_vec() } else { self.only.clone() }
    }

    /// The command that repeats the run.
    fn command(&self) -> String {
        let mut arguments = Vec::new();
        if !self.only.is_empty() {
            let names: Vec<_> = self.only.iter().map(|system| system.key()).collect();
            arguments.push(format!("--only {}", names.join(",")));
        }
        if self.percent < 100.0 {
            arguments.push(format!("--percent {}", self.percent));
        }
        if self.rounds != 3 {
            arguments.push(format!("--rounds {}", self.rounds));
        }
        match arguments.is_empty() {
            true => "make bench-cluster".to_owned(),
            false => format!("make bench-cluster ARGS=\"{}\"", arguments.join(" ")),
        }
    }
}

/// The rounds of a run.
struct Rounds {
    rounds: u32,
    rounds_done: u32,
    time_limit: Duration,
    sizes: Sizes,
    measured: Vec<(System, Measured)>,
    broadcasts: Broadcasts,
    failures: Vec<String>,
    progress: Progress,
}

impl Rounds {
    fn new(settings: &Settings) -> Self {
        let systems = settings.systems();
        let steps = |system: &System| if system.has_presence() { 4 } else { 3 };
        let broadcasts = if systems.contains(&System::Watchfire) { 2 } else { 0 };
        let steps = systems.iter().map(steps).sum::<usize>() + broadcasts;
        Rounds {
            rounds: settings.rounds,
            rounds_done: 0,
            time_limit: Duration::from_secs(settings.time_limit),
            sizes: Sizes::scaled(settings.percent),
            measured: systems.into_iter().map(|system| (system, Measured::default())).collect(),
            broadcasts: Broadcasts::default(),
            failures: Vec::new(),
            progress: Progress::new(steps * settings.rounds as usize),
        }
    }

    /// Systems take turns, so that a change of the machine affects all of them.
    fn run(&mut self, programs: &Programs) {
        let (sizes, mut failures) = (self.sizes, Vec::new());
        let (started_at, mut longest) = (Instant::now(), Duration::ZERO);
        for round in 1..=self.rounds {
            if started_at.elapsed() + longest > self.time_limit {
                self.progress.note(&format!("the time limit leaves no time for round {round}"));
                break;
            }
            let round_started_at = Instant::now();
            for (system, measured) in &mut self.measured {
                let system = *system;
                let mut step = |case: &str, run: &mut dyn FnMut(&Bench<'_>) -> Result<()>| {
                    let bench = Bench { programs, sizes, progress: &self.progress };
                    let what = format!("round {round}, {system}: {case}");
                    if let Err(error) = run(&bench) {
                        let failure = format!("{what}: {error:#}");
                        self.progress.note(&failure);
                        failures.push(failure);
                    }
                    self.progress.step(&what);
                };
                step("messages", &mut |bench| {
                    let (topics, crowd) = bench.deliveries(system)?;
                    measured.topics.push(topics);
                    measured.crowd.push(crowd);
                    Ok(())
                });
                step("memory of topics", &mut |bench| {
                    measured.memory.push(bench.memory(system, false)?);
                    Ok(())
                });
                if system.has_presence() {
                    step("memory of presence", &mut |bench| {
                        measured.presence_memory.push(bench.memory(system, true)?);
                        Ok(())
                    });
                }
                step("a machine is killed", &mut |bench| {
                    measured.killed.push(bench.kill(system)?);
                    Ok(())
                });
                if system == System::Watchfire {
                    for is_alone in [false, true] {
                        let case = if is_alone { "broadcast on one machine" } else { "broadcast" };
                        let broadcasts = &mut self.broadcasts;
                        step(case, &mut |bench| {
                            let delivery = bench.broadcast(is_alone)?;
                            let Broadcasts { machines, alone } = &mut *broadcasts;
                            if is_alone { alone } else { machines }.push(delivery);
                            Ok(())
                        });
                    }
                }
            }
            longest = longest.max(round_started_at.elapsed());
            self.rounds_done = round;
        }
        self.failures = failures;
        self.progress.finish();
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::system::CENTRIFUGO_VERSION;
    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn the_programs_are_those_that_make_builds() {
        let Settings { centrifugo, nats_server, .. } = Arguments::parse_from(["cluster"]).settings;
        let version = |path: &Path| {
            let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            folder.unwrap().to_owned()
        };
        assert_eq!(version(&centrifugo), CENTRIFUGO_VERSION);
        let makefile = include_str!("../../../Makefile");
        let line = format!("CENTRIFUGO_VERSION := {}", version(&centrifugo));
        assert!(makefile.lines().any(|one| one == line), "the Makefile has another {line}");
        let module = include_str!("../../../tests/interop/nats/go.mod");
        let line = format!("require github.com/nats-io/nats-server/v2 {}", version(&nats_server));
        assert!(module.lines().any(|one| one == line), "{module}");
    }
}
