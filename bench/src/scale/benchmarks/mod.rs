mod million;
mod observed;
mod rooms;
mod storm;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::client_processes::ClientProcesses;
use super::clock;
use super::kernel::{self, Cpu};
use super::orders::{Kind, Order, Status};
use super::requirements::{self, Requirements};
use super::server::{Program, Server, ServerPlan, supports_processes};
use super::{Settings, namespace, watchfire_beside};
use crate::progress::Progress;
use crate::report::BenchmarkReport;
use watchfire_lab::machine::{Machine, commit};
use watchfire_report::Chart;
use watchfire_report::units::number;

/// Most sockets that connect or join at the same time, over all client processes.
const OPENING_MAX: u32 = 2_048;
/// Client processes that open sockets at the same time. With more, the cores would mostly switch
/// between processes.
const OPENING_PROCESSES: usize = 4;
const OPENING_PAUSE: Duration = Duration::from_millis(20);
/// TCP sockets that may remain after all clients have closed: those of the server and this program.
const SOCKETS_LEFT_MAX: u64 = 400;
/// Pause between the start of a server and the reading of its memory.
const START_REST: Duration = Duration::from_secs(1);
const START_REST_EACH: Duration = Duration::from_millis(50);
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(120);

/// The benchmarks of `make scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Benchmark {
    /// A million websockets in one room, and a message to all of them.
    Million,
    /// 10,000 rooms of 50 sockets, each with a message every 30 s.
    Rooms,
    /// 8,000 such rooms on a server with 4 GB of memory.
    SmallMachine,
    /// 200,000 silent sockets, while the operator's page is open and Prometheus scrapes.
    Observed,
    /// All sockets leave and return at once.
    Storm,
}

impl Benchmark {
    pub const ALL: [Benchmark; 5] = [
        Benchmark::Million,
        Benchmark::Rooms,
        Benchmark::SmallMachine,
        Benchmark::Observed,
        Benchmark::Storm,
    ];

    /// Connections at the same time at full size.
    fn connections(self) -> f64 {
        match self {
            Benchmark::Million => million::SOCKETS,
            Benchmark::Rooms | Benchmark::SmallMachine => rooms::connections(self),
            Benchmark::Observed => observed::SOCKETS,
            Benchmark::Storm => storm::SOCKETS,
        }
    }

    /// Additional settings of the server.
    fn server_settings(self) -> &'static [&'static str] {
        match self {
            // Their sockets send nothing for minutes.
            Benchmark::Million | Benchmark::Observed => &["socket.idle_timeout=30m"],
            _ => &[],
        }
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no benchmark is hidden").get_name())
    }
}

/// The state that all benchmarks share.
pub struct Run<'a> {
    settings: &'a Settings,
    watchfire: PathBuf,
    machine: Machine,
    tcp_buckets: u64,
    /// Ids of the kernel threads for network work.
    daemons: Vec<u32>,
}

impl<'a> Run<'a> {
    pub fn prepare(settings: &'a Settings) -> Result<Self> {
        let watchfire = settings.watchfire.clone().map_or_else(watchfire_beside, Ok)?;
        std::fs::create_dir_all(&settings.out)
            .with_context(|| format!("cannot create {}", settings.out.display()))?;
        let (machine, tcp_buckets) = (Machine::read()?, namespace::tcp_buckets()?);
        Ok(Run { settings, watchfire, machine, tcp_buckets, daemons: kernel::softirq_daemons()? })
    }

    /// Fails for a benchmark that does not fit on this machine.
    pub fn check(&self, benchmark: Benchmark) -> Result<()> {
        let connections = self.scaled(benchmark.connections());
        let processes = 2 * connections.div_ceil(requirements::sockets_each()) + 2;
        requirements::check(&Requirements {
            benchmark: benchmark.to_string(),
            connections,
            processes,
        })?;
        let several = self.processes_for(connections) > 1;
        ensure!(
            !several || self.settings.separate || supports_processes(&self.watchfire)?,
            "{} does not support several processes behind one port; use --separate",
            self.watchfire.display()
        );
        Ok(())
    }

    pub fn run(&mut self, benchmark: Benchmark) -> Result<BenchmarkReport> {
        let started_at = Instant::now();
        let mut report = match benchmark {
            Benchmark::Million => million::run(self),
            Benchmark::Rooms | Benchmark::SmallMachine => rooms::run(self, benchmark),
            Benchmark::Observed => observed::run(self),
            Benchmark::Storm => storm::run(self),
        }?;
        report.seconds = started_at.elapsed().as_secs();
        Ok(report)
    }

    /// Scales a number of the full benchmark by `--percent`.
    fn scaled(&self, whole: f64) -> u64 {
        (whole * self.settings.percent / 100.0).round().max(1.0) as u64
    }

    fn processes_for(&self, connections: u64) -> usize {
        let needed = connections.div_ceil(requirements::sockets_each()) as usize;
        self.settings.processes.unwrap_or(needed)
    }

    /// Start a server for that many connections.
    fn server(
        &self,
        benchmark: Benchmark,
        connections: u64,
        progress: &Progress,
    ) -> Result<Server> {
        self.server_with(benchmark, connections, &[], progress)
    }

    /// The same, with further settings.
    fn server_with(
        &self,
        benchmark: Benchmark,
        connections: u64,
        more: &[&str],
        progress: &Progress,
    ) -> Result<Server> {
        let processes = self.processes_for(connections);
        let settings = [benchmark.server_settings(), more].concat();
        let server = Server::start(&ServerPlan {
            program: Program::Watchfire(&self.watchfire),
            processes,
            is_separate: self.settings.separate,
            settings: &settings,
            // With several processes each has one event loop; a single process has one per core.
            shards: usize::from(processes > 1),
            log: self.settings.out.join(format!("{benchmark}.log")),
        })?;
        // Its listeners are open before its processes are connected to each other.
        pause(START_REST + START_REST_EACH * processes as u32, "waiting for the server", progress);
        Ok(server)
    }

    /// Start client processes for that many connections.
    fn clients(
        &self,
        kind: Kind,
        connections: u64,
        each: u64,
        server: &Server,
    ) -> Result<ClientProcesses> {
        let processes = connections.div_ceil(each) as usize;
        ClientProcesses::start(kind, processes, 1, server.addresses())
    }

    /// Open all sockets and join their rooms.
    fn open(
        &self,
        server: &Server,
        sockets: u64,
        rooms: u64,
        heartbeats: bool,
        progress: &Progress,
    ) -> Result<Opened> {
        let each = requirements::sockets_each();
        let mut clients = self.clients(Kind::Sockets, sockets, each, server)?;
        let processes = clients.len() as u64;
        let opening_max = (OPENING_MAX / OPENING_PROCESSES as u32).clamp(16, 512);
        let (server_ids, client_ids) = (server.ids(), clients.ids());
        let cpu_before = Cpu::read(&server_ids, &client_ids, &self.daemons)?;
        let from_ns = clock::now_ns();
        let mut orders = VecDeque::new();
        for process in 0..processes {
            let (first, next) =
                (sockets * process / processes, sockets * (process + 1) / processes);
            let (first, count, rooms) = (first as u32, (next - first) as u32, rooms as u32);
            let order = Order::Open { first, count, rooms, opening_max, heartbeats };
            orders.push_back((process as usize, u64::from(count), order));
        }
        let (mut points, mut opening) = (Vec::new(), Vec::new());
        let timeout = Duration::from_secs(120 + sockets / 5_000);
        let started_at = Instant::now();
        let status = loop {
            opening.retain(|(process, count)| clients.present(*process) < *count);
            while opening.len() < OPENING_PROCESSES
                && let Some((process, count, order)) = orders.pop_front()
            {
                clients.send(process, &order)?;
                opening.push((process, count));
            }
            let status = clients.status().with_context(|| server.log_tail())?;
            points.push((seconds_since(from_ns), status.present as f64));
            progress.show(&format!("{} of {sockets} joined", status.present));
            if status.present == sockets {
                break status;
            }
            ensure!(
                started_at.elapsed() < timeout,
                "the clients timed out after {} s with {status:?}{}",
                timeout.as_secs(),
                server.log_tail()
            );
            thread::sleep(OPENING_PAUSE);
        };
        let took = Duration::from_nanos(status.present_at_ns - from_ns);
        points.retain(|(at, _)| *at < took.as_secs_f64());
        points.push((took.as_secs_f64(), sockets as f64));
        let cpu = Cpu::read(&server_ids, &client_ids, &self.daemons)?.since(cpu_before);
        Ok(Opened { clients, status, took, points, cpu, server_ids, client_ids })
    }

    fn cpu(&self, server: &[u32], clients: &[u32]) -> Result<Cpu> {
        Cpu::read(server, clients, &self.daemons)
    }

    /// End clients and server, and wait until the kernel has closed all their sockets.
    fn take_down(
        &self,
        mut clients: ClientProcesses,
        server: Server,
        progress: &Progress,
    ) -> Result<Duration> {
        let started_at = Instant::now();
        progress.show("disconnecting");
        clients.send_all(&Order::Close)?;
        drop(clients);
        loop {
            let left = kernel::tcp_sockets()?;
            if left <= SOCKETS_LEFT_MAX {
                break;
            }
            progress.show(&format!("{left} sockets are closing"));
            ensure!(started_at.elapsed() < TEARDOWN_TIMEOUT, "{left} sockets do not close");
            thread::sleep(Duration::from_millis(100));
        }
        server.stop()?;
        Ok(started_at.elapsed())
    }

    fn report(&self, benchmark: Benchmark, title: &str) -> BenchmarkReport {
        let machine = format!(
            "{}; TCP table of {} entries",
            self.machine.sentence(),
            number(self.tcp_buckets as f64, 0)
        );
        let settings = self.settings;
        let mut command = format!("make scale ARGS=\"{benchmark}");
        if settings.percent < 100.0 {
            command += &format!(" --percent {}", settings.percent);
        }
        if let Some(processes) = settings.processes {
            command += &format!(" --processes {processes}");
        }
        if settings.separate {
            command += " --separate";
        }
        BenchmarkReport {
            benchmark: benchmark.to_string(),
            page: None,
            commit: commit(),
            title: title.to_owned(),
            is_whole: settings.percent >= 100.0 && !settings.separate,
            date: watchfire_lab::machine::today(),
            machine,
            command: command + "\"",
            seconds: 0,
            method: Vec::new(),
            targets: Vec::new(),
            figures: Vec::new(),
            tables: Vec::new(),
            chart: Chart::default(),
        }
    }

    /// Describes the server, for the method.
    fn server_sentence(&self, processes: usize) -> String {
        match (processes, self.settings.separate) {
            (1, _) => "The server is one process, `watchfire serve`.".to_owned(),
            (n, false) => format!(
                "The server is `watchfire serve --processes {n}`. A process holds at most as many \
                 sockets as its open-file limit; all processes serve one port and share the rooms."
            ),
            (n, true) => format!(
                "The servers are {n} processes of `watchfire serve`, each with its own port and rooms."
            ),
        }
    }
}

/// Sockets that have joined.
struct Opened {
    clients: ClientProcesses,
    status: Status,
    took: Duration,
    /// Seconds, and the number of joined sockets.
    points: Vec<(f64, f64)>,
    cpu: Cpu,
    server_ids: Vec<u32>,
    client_ids: Vec<u32>,
}

fn seconds_since(ns: u64) -> f64 {
    clock::now_ns().saturating_sub(ns) as f64 / 1e9
}

/// Wait, and show the reason in the progress bar.
fn pause(duration: Duration, reason: &str, progress: &Progress) {
    let started_at = Instant::now();
    while let Some(left) = duration.checked_sub(started_at.elapsed()) {
        progress.show(&format!("{reason}, {} s", left.as_secs() + 1));
        thread::sleep(left.min(Duration::from_millis(200)));
    }
}
