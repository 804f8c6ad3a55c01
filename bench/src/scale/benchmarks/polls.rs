use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Benchmark, Run, pause, seconds_since};
use crate::progress::Progress;
use crate::report::{BenchmarkReport, Table, Target, median};
use crate::scale::client_processes::ClientProcesses;
use crate::scale::clock::{nanos, now_ns};
use crate::scale::kernel::{self, Cpu};
use crate::scale::orders::{Kind, Order, Status};
use crate::scale::server::{Program, Server, ServerPlan};
use watchfire_report::Histogram;
use watchfire_report::units::{bytes, duration, number};
use watchfire_report::{Axis, Bar, Chart, Colour, Line, Panel};

pub const POLLS: f64 = 250_001.0;
/// Polls of one client process; its other files are for throws in progress.
const POLLS_EACH: u64 = 17_000;
/// Throws per second at full size. With both ends on two cores, this leaves some CPU time.
const THROWS_PER_SECOND: f64 = 5_000.0;
/// Duration of the short requests beside the throws.
const REQUESTS_LAST: Duration = Duration::from_secs(15);
const REQUEST_PROCESSES: usize = 2;
const REQUESTS_AT_ONCE: u32 = 32;
const SHORT_REQUEST: &str = "/limits";
/// Polls that both servers can hold, and throws per second, for the comparison.
const SIDE_BY_SIDE_POLLS: f64 = 12_000.0;
const SIDE_BY_SIDE_THROWS: f64 = 1_000.0;
const SIDE_BY_SIDE_LASTS: Duration = Duration::from_secs(8);
const ROUNDS: usize = 3;
const POLL_BYTES_MAX: f64 = 1_000.0;
/// Time limit for the arrival of throws in progress.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Clients that have joined and whose polls wait.
struct Parked {
    clients: ClientProcesses,
    server_ids: Vec<u32>,
    client_ids: Vec<u32>,
    took: Duration,
    points: Vec<(f64, f64)>,
    /// Memory of all server processes, above that without clients.
    bytes: f64,
    server_bytes: u64,
    join_cpu: Cpu,
}

/// The results of a period of throws.
struct Thrown {
    throws: u64,
    wrapped: u64,
    arrivals: u64,
    wrong: u64,
    throw: Histogram,
    flight: Histogram,
    requests: u64,
    request: Histogram,
    request_failures: u64,
    cpu: Cpu,
    lasted: Duration,
}

pub fn run(run: &Run<'_>) -> Result<BenchmarkReport> {
    let polls = run.scaled(POLLS);
    let mut progress = Progress::new(5 + 2 * ROUNDS);
    let server = run.server(Benchmark::Polls, polls + 2_000, &progress)?;
    let processes = run.processes_for(polls + 2_000);
    let parked = park(run, &server, polls, &progress)?;
    progress.step(&format!("{polls} polls wait after {:.1} s", parked.took.as_secs_f64()));
    let mut parked = parked;
    // Long enough for one throw of each client.
    let every = Duration::from_secs_f64(POLLS / THROWS_PER_SECOND);
    let alone = throw(run, &mut parked, Some(every), every, None, &progress)?;
    progress.step(&format!("{} throws", alone.throws));
    let beside = throw(run, &mut parked, Some(every), REQUESTS_LAST, Some(&server), &progress)?;
    progress.step(&format!("{} short requests beside {} throws", beside.requests, beside.throws));
    let after = parked.clients.status()?;
    let Parked { clients, .. } = parked;
    let teardown = run.take_down(clients, server, &progress)?;
    progress.step("all clients have left");

    let mut sides: [Vec<Side>; 2] = [Vec::new(), Vec::new()];
    for round in 1..=ROUNDS {
        for (index, name) in ["watchfire", "node"].into_iter().enumerate() {
            sides[index].push(side(run, name, &progress).with_context(|| name)?);
            progress.step(&format!("round {round} with {name}"));
        }
    }
    progress.finish();

    let mut report = run.report(Benchmark::Polls, "A quarter of a million sprites on long polls");
    let requests_per_second = beside.requests as f64 / beside.lasted.as_secs_f64();
    let share = |part: Duration, lasted: Duration| {
        part.as_secs_f64() / lasted.as_secs_f64() / run.machine.cores as f64 * 100.0
    };
    let lost = |thrown: &Thrown| (thrown.throws - thrown.wrapped).saturating_sub(thrown.arrivals);
    report.targets = vec![
        Target::at_least(
            "sprites' windows on a parked poll",
            after.present as f64,
            polls as f64,
            "",
            0,
        ),
        Target::at_most(
            "memory of a parked poll in the server",
            parked.bytes / polls as f64,
            POLL_BYTES_MAX,
            "B",
            0,
        ),
        Target::at_most(
            "sprites lost in flight",
            (lost(&alone) + lost(&beside)) as f64,
            0.0,
            "",
            0,
        ),
        Target::at_most(
            "memory of a poll, against the plain Node server",
            of(&sides[0], |side| side.poll_bytes) / of(&sides[1], |side| side.poll_bytes),
            1.0,
            "x",
            3,
        ),
        Target::at_most(
            "CPU of a throw, against the plain Node server",
            of(&sides[0], |side| side.throw_micros) / of(&sides[1], |side| side.throw_micros),
            1.0,
            "x",
            2,
        ),
        Target::at_most(
            "CPU of a short request, against the plain Node server",
            of(&sides[0], |side| side.request_micros) / of(&sides[1], |side| side.request_micros),
            1.0,
            "x",
            2,
        ),
    ];
    report.figure("server processes", processes.to_string());
    report.figure("all joined and parked within", format!("{:.1} s", parked.took.as_secs_f64()));
    report.figure("CPU of the server to join a window and notify its neighbours", {
        format!("{:.0} us", parked.join_cpu.server.as_secs_f64() * 1e6 / polls as f64)
    });
    report.figure("memory of the server with all parked (PSS)", bytes(parked.server_bytes));
    report.figure("throws a second", number(alone.throws as f64 / alone.lasted.as_secs_f64(), 0));
    report.figure("CPU of a throw and its arrival: server, clients", {
        let micros = |part: Duration| part.as_secs_f64() * 1e6 / alone.throws.max(1) as f64;
        format!("{:.0} us, {:.0} us", micros(alone.cpu.server), micros(alone.cpu.clients))
    });
    report.figure("a throw is answered: p50, p99", quantiles(&alone.throw));
    report.figure("a sprite is at the neighbour: p50, p99", quantiles(&alone.flight));
    report
        .figure("throws that came back (no client polled there)", number(alone.wrapped as f64, 0));
    report
        .figure("short JSON requests a second, beside the throws", number(requests_per_second, 0));
    report.figure("a short request is answered: p50, p99", quantiles(&beside.request));
    report.figure(
        "throws a second meanwhile",
        number(beside.throws as f64 / beside.lasted.as_secs_f64(), 0),
    );
    report.figure("a sprite is at the neighbour meanwhile: p50, p99", quantiles(&beside.flight));
    report.figure("share of all cores meanwhile: server, clients, ksoftirqd", {
        let part = |part: Duration| share(part, beside.lasted);
        let Cpu { server, clients, ksoftirqd } = beside.cpu;
        format!("{:.0} %, {:.0} %, {:.0} %", part(server), part(clients), part(ksoftirqd))
    });
    report.figure("failed requests, wrong answers", {
        format!("{}, {}", beside.request_failures, alone.wrong + beside.wrong)
    });
    report.figure("time until all sockets had closed", format!("{:.1} s", teardown.as_secs_f64()));
    report.tables.push(side_by_side(run, &sides));
    report.method = method(run, processes);
    report.chart = chart(&parked.points, &alone, &beside, &sides);
    report.chart.notes = vec![report.machine.clone()];
    Ok(report)
}

fn quantiles(durations: &Histogram) -> String {
    format!("{}, {}", duration(durations.quantile(0.5)), duration(durations.quantile(0.99)))
}

/// Join that many clients to one grid, each with a waiting poll.
fn park(run: &Run<'_>, server: &Server, polls: u64, progress: &Progress) -> Result<Parked> {
    let server_ids = server.ids();
    let before = kernel::pss(&server_ids)?;
    let mut clients = run.clients(Kind::Throwers, polls, POLLS_EACH, server)?;
    let client_ids = clients.ids();
    let cpu_before = run.cpu(&server_ids, &client_ids)?;
    let processes = clients.len() as u64;
    let opening_max = (512 / processes as u32).clamp(8, 128);
    let from_ns = now_ns();
    for process in 0..processes {
        let count = polls * (process + 1) / processes - polls * process / processes;
        clients.send(process as usize, &Order::Join { count: count as u32, opening_max })?;
    }
    let mut points = Vec::new();
    let status = clients.wait(
        Duration::from_secs(120 + polls / 1_000),
        |status| {
            points.push((seconds_since(from_ns), status.present as f64));
            progress.show(&format!("{} of {polls} poll", status.present));
        },
        |status| status.present == polls,
    );
    let status = status.with_context(|| server.log_tail())?;
    let join_cpu = run.cpu(&server_ids, &client_ids)?.since(cpu_before);
    // The last joins still make the polls of their neighbours return.
    pause(Duration::from_secs(3), "waiting for the grid", progress);
    let server_bytes = kernel::pss(&server_ids)?;
    let took = Duration::from_nanos(status.present_at_ns - from_ns);
    points.retain(|(at, _)| *at < took.as_secs_f64());
    points.push((took.as_secs_f64(), polls as f64));
    let bytes = server_bytes.saturating_sub(before) as f64;
    Ok(Parked { clients, server_ids, client_ids, took, points, bytes, server_bytes, join_cpu })
}

/// Measure throws for a period, each client once per `every`. With `requests_to`, short requests
/// are sent too.
fn throw(
    run: &Run<'_>,
    parked: &mut Parked,
    every: Option<Duration>,
    lasts: Duration,
    requests_to: Option<&Server>,
    progress: &Progress,
) -> Result<Thrown> {
    let clients = &mut parked.clients;
    let (_, before) = clients.report()?;
    let mut requesters = match requests_to {
        Some(server) => Some(ClientProcesses::start(
            Kind::Requests,
            REQUEST_PROCESSES,
            200,
            server.addresses(),
        )?),
        None => None,
    };
    let client_ids: Vec<u32> = parked
        .client_ids
        .iter()
        .copied()
        .chain(requesters.iter().flat_map(ClientProcesses::ids))
        .collect();
    let cpu_before = run.cpu(&parked.server_ids, &client_ids)?;
    let from_ns = now_ns();
    let until_ns = from_ns + nanos(lasts);
    if let Some(every) = every {
        clients.send_all(&Order::Throw { every_ns: nanos(every), until_ns })?;
    }
    if let Some(requesters) = &mut requesters {
        let path = SHORT_REQUEST.to_owned();
        requesters.send_all(&Order::Request { path, at_once: REQUESTS_AT_ONCE, until_ns })?;
    }
    while now_ns() < until_ns {
        let status = clients.status()?;
        let requests = requesters.as_ref().map_or(Ok(0), |one| one.status().map(|s| s.requests))?;
        progress
            .show(&format!("{} throws, {requests} short requests", status.throws - before.throws));
        thread::sleep(Duration::from_millis(100));
    }
    let lasted = Duration::from_nanos(now_ns() - from_ns);
    let cpu = run.cpu(&parked.server_ids, &client_ids)?.since(cpu_before);
    let has_landed = |status: &Status| {
        status.arrivals - before.arrivals
            >= (status.throws - status.wrapped) - (before.throws - before.wrapped)
    };
    let deadline_ns = now_ns() + nanos(ARRIVAL_TIMEOUT);
    // A throw may arrive before or after its response; wait until both are counted.
    pause(Duration::from_secs(1), "waiting for the last sprites", progress);
    clients.wait(
        ARRIVAL_TIMEOUT * 2,
        |_| {},
        |status| has_landed(status) || now_ns() > deadline_ns,
    )?;
    let (mut durations, after) = clients.report()?;
    let (mut request_times, requests) = match &mut requesters {
        Some(requesters) => requesters.report()?,
        None => Default::default(),
    };
    Ok(Thrown {
        throws: after.throws - before.throws,
        wrapped: after.wrapped - before.wrapped,
        arrivals: after.arrivals - before.arrivals,
        wrong: after.wrong - before.wrong + requests.wrong,
        throw: durations.remove("throw").unwrap_or_default(),
        flight: durations.remove("flight").unwrap_or_default(),
        requests: requests.requests,
        request: request_times.remove("request").unwrap_or_default(),
        request_failures: requests.failures(),
        cpu,
        lasted,
    })
}

/// One round with one server, at a size that both can hold.
struct Side {
    poll_bytes: f64,
    throw_micros: f64,
    throw_p50: f64,
    throw_p99: f64,
    flight_p50: f64,
    flight_p99: f64,
    requests: f64,
    request_micros: f64,
    lost: f64,
}

/// At most as many as in the whole benchmark.
fn side_by_side_polls(run: &Run<'_>) -> u64 {
    SIDE_BY_SIDE_POLLS.min(run.scaled(POLLS) as f64) as u64
}

fn side(run: &Run<'_>, name: &str, progress: &Progress) -> Result<Side> {
    let polls = side_by_side_polls(run);
    let program = match name {
        "node" => Program::NodeSprites(Path::new(&run.settings.peers)),
        _ => Program::Watchfire(&run.watchfire),
    };
    let server = Server::start(&ServerPlan {
        program,
        processes: 1,
        is_separate: false,
        shards: 1, // Node has one thread
        settings: &[],
        log: run.settings.out.join(format!("polls-{name}.log")),
    })?;
    let mut parked = park(run, &server, polls, progress)?;
    let every = Duration::from_secs_f64(polls as f64 / SIDE_BY_SIDE_THROWS);
    let alone = throw(run, &mut parked, Some(every), SIDE_BY_SIDE_LASTS, None, progress)?;
    let short = throw(run, &mut parked, None, SIDE_BY_SIDE_LASTS, Some(&server), progress)?;
    ensure!(
        alone.throws > 0 && short.requests > 0,
        "the server answered nothing{}",
        server.log_tail()
    );
    let present = parked.clients.status()?.present;
    ensure!(present == polls, "only {present} of {polls} clients still poll");
    let Parked { clients, bytes, .. } = parked;
    run.take_down(clients, server, progress)?;
    let micros = |cpu: Cpu, times: u64| cpu.server.as_secs_f64() * 1e6 / times as f64;
    let millis = |durations: &Histogram, part: f64| durations.quantile(part).as_secs_f64() * 1e3;
    Ok(Side {
        poll_bytes: bytes / polls as f64,
        throw_micros: micros(alone.cpu, alone.throws),
        throw_p50: millis(&alone.throw, 0.5),
        throw_p99: millis(&alone.throw, 0.99),
        flight_p50: millis(&alone.flight, 0.5),
        flight_p99: millis(&alone.flight, 0.99),
        requests: short.requests as f64 / short.lasted.as_secs_f64(),
        request_micros: micros(short.cpu, short.requests),
        lost: (alone.throws - alone.wrapped).saturating_sub(alone.arrivals) as f64,
    })
}

fn of(rounds: &[Side], figure: impl Fn(&Side) -> f64) -> f64 {
    median(rounds.iter().map(figure).collect())
}

fn side_by_side(run: &Run<'_>, sides: &[Vec<Side>; 2]) -> Table {
    type Cell = fn(&Side) -> f64;
    let rows: [(&str, Cell, usize); 9] = [
        ("memory of a parked poll, B", |side| side.poll_bytes, 0),
        ("CPU of a throw and its arrival, us", |side| side.throw_micros, 0),
        ("a throw is answered, p50, ms", |side| side.throw_p50, 2),
        ("a throw is answered, p99, ms", |side| side.throw_p99, 2),
        ("a sprite is at the neighbour, p50, ms", |side| side.flight_p50, 2),
        ("a sprite is at the neighbour, p99, ms", |side| side.flight_p99, 2),
        ("short JSON requests a second, at most", |side| side.requests, 0),
        ("CPU of a short request, us", |side| side.request_micros, 0),
        ("sprites lost", |side| side.lost, 0),
    ];
    let row = |(what, cell, decimals): (&str, Cell, usize)| {
        let cells = sides.iter().map(|rounds| number(of(rounds, cell), decimals));
        std::iter::once(what.to_owned()).chain(cells).collect()
    };
    Table {
        title: format!(
            "Side by side: {} polls, medians of {ROUNDS} rounds in turns",
            number(side_by_side_polls(run) as f64, 0)
        ),
        heads: ["", "Watchfire, one shard", "plain Node http"].map(str::to_owned).to_vec(),
        rows: rows.into_iter().map(row).collect(),
    }
}

fn method(run: &Run<'_>, processes: usize) -> Vec<String> {
    vec![
        run.server_sentence(processes),
        "Each client joins one grid over plain HTTP and keeps a poll waiting on that connection. It \
         has a sprite and throws it over a random edge, and it throws arriving sprites on. A throw is \
         a POST on a new connection, which closes after the response. Every join makes the polls of \
         its new neighbours return."
            .into(),
        "Memory of a poll is that of all processes. Each process knows the whole grid, so a window \
         costs a little in every process. The table side by side has the memory in one process."
            .into(),
        format!(
            "Meanwhile {REQUEST_PROCESSES} processes make short requests, `GET {SHORT_REQUEST}`, \
             each on a new connection, {REQUESTS_AT_ONCE} at a time, as fast as they are answered. \
             The remaining CPU time limits their rate."
        ),
        "Times of throws count from when they were due. A flight ends when the poll of the neighbour \
         has the sprite. A sprite is lost when its throw was answered with `{}` and it did not \
         arrive."
            .into(),
        "The compared server is `bench/peers/sprites.mjs`: the `http` module of Node without a \
         framework, with the same protocol and the same clients. Each has one thread, and each round \
         starts both again, one after the other."
            .into(),
    ]
}

fn chart(joined: &[(f64, f64)], alone: &Thrown, beside: &Thrown, sides: &[Vec<Side>; 2]) -> Chart {
    let within = |durations: &Histogram| -> Vec<(f64, f64)> {
        let steps = durations.cumulative().into_iter();
        steps.map(|(time, part)| (time.as_secs_f64() * 1e3, part * 100.0)).collect()
    };
    type Cell = fn(&Side) -> f64;
    let bars = |title: &str, cell: Cell| Panel::Bars {
        title: title.to_owned(),
        decimals: 0,
        bars: [("Watchfire, one shard", Colour::Orange), ("plain Node http", Colour::Grey)]
            .into_iter()
            .zip(sides)
            .map(|((name, colour), rounds)| Bar {
                name: name.into(),
                colour,
                value: of(rounds, cell),
                limit: None,
            })
            .collect(),
    };
    Chart {
        label: "Sprites on long polls: how fast they park and fly, and a Node server beside".into(),
        panels: vec![
            Panel::Lines {
                markers: Vec::new(),
                title: "Windows whose poll is parked".into(),
                x: Axis::new("seconds since the first connected"),
                left: Axis::new("parked polls"),
                right: None,
                lines: vec![Line::left("parked", Colour::Orange, joined.to_vec())],
            },
            Panel::Lines {
                markers: Vec::new(),
                title: "How long a sprite flies to its neighbour".into(),
                x: Axis::log("milliseconds since it was due"),
                left: Axis::up_to("% of throws", 100.0),
                right: None,
                lines: vec![
                    Line::left("throws alone", Colour::Orange, within(&alone.flight)),
                    Line::left("with short requests beside", Colour::Blue, within(&beside.flight)),
                ],
            },
            bars("Side by side: memory of a parked poll, bytes", |side| side.poll_bytes),
            bars("Side by side: CPU of a throw and its arrival, microseconds", |side| {
                side.throw_micros
            }),
            bars("Side by side: CPU of a short JSON request, microseconds", |side| {
                side.request_micros
            }),
        ],
        notes: Vec::new(),
    }
}
