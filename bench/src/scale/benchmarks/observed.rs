use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Benchmark, Run, pause};
use crate::progress::Progress;
use crate::report::{BenchmarkReport, Table, Target};
use crate::scale::kernel;
use watchfire_report::units::{bytes, duration, number};
use watchfire_report::{Bar, Chart, Colour, Histogram, Panel};

pub const SOCKETS: f64 = 200_000.0;
/// Time of each measurement.
const LASTS: Duration = Duration::from_secs(60);
/// Time in which a server gets all memory that it needs to be observed.
const SETTLES: Duration = Duration::from_secs(10);
const ADMIN: ([u8; 4], u16) = ([127, 0, 0, 1], 4_010);
const ADMIN_SETTING: &str = "admin.listen=127.0.0.1:4010";
/// Prometheus asks for the metrics this often.
const SCRAPES: Duration = Duration::from_secs(5);
/// The page asks for the state and the new rows this often.
const POLLS: Duration = Duration::from_secs(1);
/// The page asks for the first connections this often, while that tab is open.
const CONNECTION_POLLS: Duration = Duration::from_secs(2);
const CPU_PERCENT_MAX: f64 = 1.0;
const MEMORY_MAX: f64 = 16e6;
const SCAN_MILLIS_MAX: f64 = 10.0;

/// The CPU time and memory of one server.
#[derive(Clone, Copy)]
struct Use {
    /// CPU time of the server in each second.
    cores: f64,
    memory: u64,
}

pub fn run(run: &Run<'_>) -> Result<BenchmarkReport> {
    let sockets = run.scaled(SOCKETS);
    let mut progress = Progress::new(6);
    // Without the listener, nothing is recorded.
    let (alone, _) = measure(run, sockets, &[], None, &mut progress)?;
    let observers = Observers::default();
    let (recorded, observed) =
        measure(run, sockets, &[ADMIN_SETTING], Some(&observers), &mut progress)?;
    progress.finish();
    let observed = observed.context("the server was not observed")?;
    let asked = observers.results()?;

    let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
    let percent = |usage: Use| (usage.cores - alone.cores) / cores * 100.0;
    let memory = |usage: Use| usage.memory as f64 - alone.memory as f64;
    let mut report = run.report(Benchmark::Observed, "200,000 sockets that an operator watches");
    report.targets = vec![
        Target::at_most(
            "CPU of the page, Prometheus and the record, of the machine",
            percent(observed),
            CPU_PERCENT_MAX,
            "%",
            2,
        ),
        Target::at_most(
            "memory for it, all processes",
            memory(observed) / 1e6,
            MEMORY_MAX / 1e6,
            "MB",
            1,
        ),
        Target::at_most(
            "looking at all connections, the longest time of an event loop",
            asked.scan_micros as f64 / 1e3,
            SCAN_MILLIS_MAX,
            "ms",
            2,
        ),
    ];
    let answer = |name: &str, times: &Histogram| {
        vec![
            name.to_owned(),
            number(times.len() as f64, 0),
            duration(times.quantile(0.5)),
            duration(times.max()),
        ]
    };
    report.tables.push(Table {
        title: "Cost".into(),
        heads: ["", "CPU of the server", "memory (PSS)"].map(str::to_owned).to_vec(),
        rows: [
            ("without the operator's listener", alone),
            ("with it, nobody watches", recorded),
            ("the page is open, Prometheus scrapes", observed),
        ]
        .map(|(what, usage)| {
            vec![what.to_owned(), format!("{:.4} cores", usage.cores), bytes(usage.memory)]
        })
        .to_vec(),
    });
    report.tables.push(Table {
        title: "Answers".into(),
        heads: ["", "answers", "p50", "longest"].map(str::to_owned).to_vec(),
        rows: vec![
            answer("/metrics", &asked.metrics),
            answer("/admin/state", &asked.state),
            answer("/admin/connections", &asked.connections),
        ],
    });
    report.figure("connections that a scan looked at", number(asked.scanned as f64, 0));
    report.method = vec![
        run.server_sentence(run.processes_for(sockets)),
        format!(
            "The sockets are joined to one room and silent, so that nothing else uses CPU. Each row is {} s. The page \
             is a client that asks as the page does: state and new rows each second, and the first connections by \
             queued bytes every {} s. `/metrics` is read every {} s.",
            LASTS.as_secs(),
            CONNECTION_POLLS.as_secs(),
            SCRAPES.as_secs()
        ),
        "CPU is the sum of `schedstat` over all processes of the server. The first row is another server, \
         started with `admin.listen=[]`."
            .into(),
    ];
    report.chart = Chart {
        label: "CPU of a server that is watched".into(),
        panels: vec![Panel::Bars {
            title: "CPU of the server, in thousandths of a core".into(),
            decimals: 2,
            bars: [
                ("no listener", Colour::Grey, alone),
                ("nobody watches", Colour::Blue, recorded),
                ("page and Prometheus", Colour::Orange, observed),
            ]
            .map(|(name, colour, usage)| Bar {
                name: name.into(),
                colour,
                value: usage.cores * 1e3,
                limit: None,
            })
            .to_vec(),
        }],
        notes: vec![report.machine.clone()],
    };
    Ok(report)
}

/// Start a server with silent sockets, and measure what it uses: while nobody watches, and while the
/// observers do.
fn measure(
    run: &Run<'_>,
    sockets: u64,
    settings: &[&str],
    observers: Option<&Observers>,
    progress: &mut Progress,
) -> Result<(Use, Option<Use>)> {
    let server = run.server_with(Benchmark::Observed, sockets, settings, progress)?;
    let opened = run.open(&server, sockets, 1, false, progress)?;
    progress.step(&format!("{sockets} joined in {:.1} s", opened.took.as_secs_f64()));
    let usage = |progress: &Progress, what: &str| -> Result<Use> {
        pause(SETTLES, what, progress);
        let (before, from) = (run.cpu(&opened.server_ids, &opened.client_ids)?, Instant::now());
        pause(LASTS, what, progress);
        let cpu = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
        let cores = cpu.server.as_secs_f64() / from.elapsed().as_secs_f64();
        Ok(Use { cores, memory: kernel::pss(&opened.server_ids)? })
    };
    let unwatched = usage(progress, "nobody watches")?;
    progress.step("measured a server that nobody watches");
    let mut watched = None;
    if let Some(observers) = observers {
        let watching = observers.start();
        watched = Some(usage(progress, "the page is open")?);
        observers.stop.store(true, Ordering::Relaxed);
        watching.join().ok().context("the observer panicked")??;
        progress.step("measured a server that is watched");
    }
    let status = opened.clients.status()?;
    ensure!(status.present == sockets, "only {} of {sockets} are left", status.present);
    run.take_down(opened.clients, server, progress)?;
    Ok((unwatched, watched))
}

/// Clients of the operator's listener.
#[derive(Clone, Default)]
struct Observers {
    stop: Arc<AtomicBool>,
    answers: Arc<parking_lot::Mutex<Answers>>,
}

#[derive(Clone, Default)]
struct Answers {
    metrics: Histogram,
    state: Histogram,
    connections: Histogram,
    scanned: u64,
    /// The longest scan of an event loop.
    scan_micros: u64,
}

impl Observers {
    fn start(&self) -> JoinHandle<Result<()>> {
        let observers = self.clone();
        thread::spawn(move || observers.watch())
    }

    fn watch(&self) -> Result<()> {
        let started_at = Instant::now();
        let mut next = [Duration::ZERO; 3];
        let mut last_row = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let now = started_at.elapsed();
            if now >= next[0] {
                next[0] += SCRAPES;
                let (took, _) = get("/metrics")?;
                self.answers.lock().metrics.record(took);
            }
            if now >= next[1] {
                next[1] += POLLS;
                let (took, _) = get("/admin/state")?;
                let (_, rows) = get(&format!("/admin/history?after={last_row}"))?;
                get("/admin/events")?;
                last_row = rows["rows"]
                    .as_array()
                    .and_then(|rows| rows.last()?[0].as_u64())
                    .unwrap_or(last_row);
                self.answers.lock().state.record(took);
            }
            if now >= next[2] {
                next[2] += CONNECTION_POLLS;
                let (took, found) = get("/admin/connections?sort=queued_bytes&limit=20")?;
                let mut answers = self.answers.lock();
                answers.connections.record(took);
                answers.scanned = found["scanned"].as_u64().unwrap_or(0);
                answers.scan_micros =
                    found["scan_micros"].as_u64().unwrap_or(0).max(answers.scan_micros);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn results(&self) -> Result<Answers> {
        let answers = self.answers.lock().clone();
        ensure!(!answers.connections.is_empty(), "the listener answered nothing");
        Ok(answers)
    }
}

/// The time until an answer, and its JSON; null if it is not JSON.
fn get(path: &str) -> Result<(Duration, serde_json::Value)> {
    let from = Instant::now();
    let mut stream =
        TcpStream::connect(SocketAddr::from(ADMIN)).context("no operator's listener")?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.0 200"), "{path}: {}", answer.lines().next().unwrap_or(""));
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    Ok((from.elapsed(), serde_json::from_str(body).unwrap_or_default()))
}
