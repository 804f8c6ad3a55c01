//! `watchfire-bench targets`: measures every server, round by round, and writes the report.

mod client_driver;
mod figure;
mod measurement;
mod plan;
mod report;
mod targets;

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;

use figure::{Figure, Figures};
pub use plan::Plan;

use crate::limits;
use crate::progress::Progress;
use crate::servers::{Server, ServerPaths, install_peers};
use measurement::Measurement;
use report::Report;
use targets::targets;
use watchfire_lab::machine::{Machine, OtherPrograms, commit, load_average};

/// Measure every server, and write the report. Fails only if a measurement could not run.
pub fn run(plan: &Plan) -> Result<ExitCode> {
    let open_files_max = limits::raise_open_files()?;
    limits::check_sockets(plan.sockets, open_files_max)?;
    fs::create_dir_all(&plan.out)
        .with_context(|| format!("cannot create the folder {}", plan.out.display()))?;
    let machine = Machine::read()?;
    let paths = paths(plan, machine.cores)?;
    let mut run = Run::new(plan, paths, machine.cores);
    eprintln!("{}", machine.sentence());

    let others = OtherPrograms::start()?;
    run.run_rounds()?;
    run.progress.finish();

    let medians = run.medians();
    let report = Report {
        commit: commit(),
        machine,
        plan: plan.clone(),
        rounds_done: run.rounds_done,
        other_programs_share: others.share()?,
        targets: targets(&medians),
        medians,
        rounds: run.rounds,
        failures: run.failures,
    };
    report::write(&report)?;
    print!("{}", report::terminal(&report));
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn paths(plan: &Plan, cores: usize) -> Result<ServerPaths> {
    let this = std::env::current_exe()?;
    Ok(ServerPaths {
        watchfire: plan.watchfire.clone().unwrap_or_else(|| this.with_file_name("watchfire")),
        chat: plan.chat.clone().unwrap_or_else(|| this.with_file_name("chat")),
        peers: plan.peers.clone(),
        logs: plan.out.clone(),
        cores,
    })
}

/// The results so far.
struct Run<'a> {
    plan: &'a Plan,
    paths: ServerPaths,
    servers: Vec<Server>,
    progress: Progress,
    rounds: BTreeMap<Server, Vec<Figures>>,
    rounds_done: usize,
    failures: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, paths: ServerPaths, cores: usize) -> Self {
        let mut servers = plan.servers.clone();
        if servers.is_empty() {
            servers = Server::value_variants().to_vec();
        }
        if cores == 1 {
            // With one core these are the same as with one thread.
            servers.retain(|server| !matches!(server, Server::BareN | Server::WatchfireN));
        }
        let steps = plan.rounds * servers.len();
        let progress = Progress::new(steps);
        let (rounds, failures) = (BTreeMap::new(), Vec::new());
        Run { plan, paths, servers, progress, rounds, rounds_done: 0, failures }
    }

    fn run_rounds(&mut self) -> Result<()> {
        if self.servers.iter().any(|server| server.needs_npm())
            && let Err(error) = install_peers(&self.paths.peers)
        {
            self.fail(format!("ws and Socket.IO were not measured: {error:#}"));
            self.servers.retain(|server| !server.needs_npm());
        }
        let limit = Duration::from_secs(self.plan.time_limit);
        let (started_at, mut longest) = (Instant::now(), Duration::ZERO);
        for round in 1..=self.plan.rounds {
            if started_at.elapsed() + longest > limit {
                self.progress.note(&format!("the time limit leaves no time for round {round}"));
                break;
            }
            let round_started_at = Instant::now();
            for server in self.servers.clone() {
                self.measure(server, round);
                self.progress.step(&format!("round {round}, {server}"));
            }
            longest = longest.max(round_started_at.elapsed());
            self.rounds_done = round;
        }
        Ok(())
    }

    fn measure(&mut self, server: Server, round: usize) {
        let (plan, paths) = (self.plan, &self.paths);
        let load_before = load_average();
        let mut measured = Measurement::websockets(server, round, plan, paths, &self.progress);
        if server.parks_polls()
            && let Ok(figures) = &mut measured
        {
            match Measurement::long_polls(server, round, plan, paths, &self.progress) {
                Ok(polls) => figures.extend(polls),
                Err(error) => self.fail(format!("round {round}, {server}, long polls: {error:#}")),
            }
        }
        match measured {
            Ok(mut figures) => {
                figures.insert(Figure::LoadBefore, load_before);
                self.rounds.entry(server).or_default().push(figures);
            }
            Err(error) => self.fail(format!("round {round}, {server}: {error:#}")),
        }
    }

    fn fail(&mut self, failure: String) {
        self.progress.note(&failure);
        self.failures.push(failure);
    }

    fn medians(&self) -> BTreeMap<Server, Figures> {
        let medians = |(server, rounds): (&Server, &Vec<_>)| (*server, figure::medians(rounds));
        self.rounds.iter().map(medians).collect()
    }
}
