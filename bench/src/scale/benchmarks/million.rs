use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Benchmark, Opened, Run, pause};
use crate::progress::Progress;
use crate::report::{BenchmarkReport, Table, Target, median};
use crate::scale::kernel::{self, Cpu, MachineMemory};
use crate::scale::orders::Order;
use watchfire_report::Histogram;
use watchfire_report::units::{bytes, duration, number};
use watchfire_report::{Axis, Chart, Colour, Line, Panel};

pub const SOCKETS: f64 = 1_000_000.0;
const BROADCASTS: u32 = 5;
const CONNECTED_SECONDS_MAX: f64 = 90.0;
const ARRIVALS_MIN: f64 = 20_000.0;
const LAST_SECONDS_MAX: f64 = 6.0;
const DELIVERY_MICROS_MAX: f64 = 6.0;
const GIGABYTES_MAX: f64 = 10.0;
/// Durations of the measurement without traffic, and of that with heartbeats only.
const IDLE: Duration = Duration::from_secs(5);
const BEATING: Duration = Duration::from_secs(15);
/// Interval between the heartbeats of a socket.
const HEARTBEAT_SECONDS: f64 = 30.0;
const BROADCAST_TIMEOUT: Duration = Duration::from_secs(120);

struct Broadcast {
    /// Time until the last socket had it.
    last: Duration,
    reached: Histogram,
    cpu: Cpu,
    /// TCP segments meanwhile, including acknowledgements.
    segments: u64,
}

pub fn run(run: &Run<'_>) -> Result<BenchmarkReport> {
    let sockets = run.scaled(SOCKETS);
    let mut progress = Progress::new(5 + BROADCASTS as usize);
    let machine_before = MachineMemory::read()?;
    progress.show("starting the server");
    let server = run.server(Benchmark::Million, sockets, &progress)?;
    let processes = run.processes_for(sockets);
    let server_before = kernel::pss(&server.ids())?;
    progress.step(&format!("{processes} server processes are up"));

    let mut opened = run.open(&server, sockets, 1, false, &progress)?;
    progress.step(&format!("{sockets} joined in {:.1} s", opened.took.as_secs_f64()));
    pause(Duration::from_secs(2), "waiting for the machine", &progress);
    let machine_idle = MachineMemory::read()?;
    let server_idle = kernel::pss(&opened.server_ids)?;
    let clients_idle = kernel::pss(&opened.client_ids)?;

    // Separate servers need one sender each.
    let senders = server.addresses().len() as u32;
    broadcast(run, &mut opened, senders, 1, None, &progress)?;
    progress.step("sent the first message, which is not counted");

    let before = run.cpu(&opened.server_ids, &opened.client_ids)?;
    pause(IDLE, "no traffic", &progress);
    let idle = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
    let mut broadcasts = Vec::new();
    for number in 2..2 + BROADCASTS {
        let outcome = broadcast(run, &mut opened, senders, number, Some(idle), &progress)?;
        progress.step(&format!(
            "message {number} reached the last after {:.2} s",
            outcome.last.as_secs_f64()
        ));
        broadcasts.push(outcome);
    }
    let server_after = kernel::pss(&opened.server_ids)?;
    let machine_after = MachineMemory::read()?;
    opened.clients.send_all(&Order::Heartbeats)?;
    pause(IDLE, "heartbeats begin", &progress);
    let (before, beats) = (run.cpu(&opened.server_ids, &opened.client_ids)?, Instant::now());
    pause(BEATING, "heartbeats only", &progress);
    let beating = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
    let beating_seconds = beats.elapsed().as_secs_f64();
    progress.step("measured heartbeats");
    let status = opened.clients.status()?;
    let teardown = run.take_down(opened.clients, server, &progress)?;
    progress.step("all clients have left");
    progress.finish();

    let count = sockets as f64;
    let lost = sockets * u64::from(BROADCASTS + 1) - status.received + status.missed;
    let last = |broadcast: &Broadcast| broadcast.last.as_secs_f64();
    let lasts: Vec<f64> = broadcasts.iter().map(last).collect();
    let range = |values: &[f64], decimals: usize| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        format!("{low:.decimals$} to {high:.decimals$}")
    };
    let micros = |part: fn(&Cpu) -> Duration| -> Vec<f64> {
        broadcasts.iter().map(|one| part(&one.cpu).as_secs_f64() * 1e6 / count).collect()
    };
    let (server_us, client_us) = (micros(|cpu| cpu.server), micros(|cpu| cpu.clients));
    let daemon_us = micros(|cpu| cpu.ksoftirqd);
    let arrival = count / opened.took.as_secs_f64();
    let slab = machine_idle.slab.saturating_sub(machine_before.slab) as f64;
    let pinned = machine_idle.pinned.saturating_sub(machine_before.pinned) as f64;
    let available = machine_before.available.saturating_sub(machine_idle.available) as f64;
    let programs = (server_idle + clients_idle) as f64;
    let share = count / SOCKETS;

    let mut report = run.report(Benchmark::Million, "A million sockets in one room");
    let seconds = opened.took.as_secs_f64();
    report.targets = vec![
        Target::at_least("websockets joined to one room", status.present as f64, count, "", 0),
        Target::at_most("all connected and joined within", seconds, CONNECTED_SECONDS_MAX, "s", 1),
        Target::at_least("arrivals", arrival, ARRIVALS_MIN, "a second", 0),
        Target::at_most(
            "a message to all, until the last has it (median)",
            median(lasts.clone()),
            LAST_SECONDS_MAX * share.max(0.05),
            "s",
            2,
        ),
        Target::at_most(
            "CPU of a delivery in the server (median)",
            median(server_us.clone()),
            DELIVERY_MICROS_MAX,
            "us",
            2,
        ),
        Target::at_most(
            "memory of both ends, kernel and programs",
            (pinned + programs) / 1e9,
            GIGABYTES_MAX * share.max(0.05),
            "GB",
            2,
        ),
        Target::at_most(
            "messages lost or received twice",
            (lost + status.duplicates) as f64,
            0.0,
            "",
            0,
        ),
    ];
    report.figure(
        "server processes, client processes",
        format!("{processes}, {}", opened.client_ids.len()),
    );
    report.figure("the last receiver, range over the messages", format!("{} s", range(&lasts, 2)));
    report.figure("half of all sockets had it after (median)", {
        let halves = broadcasts.iter().map(|one| one.reached.quantile(0.5).as_secs_f64());
        duration(Duration::from_secs_f64(median(halves.collect())))
    });
    for (what, values) in
        [("the server", &server_us), ("the clients", &client_us), ("ksoftirqd", &daemon_us)]
    {
        report.figure(
            &format!("CPU of a delivery, {what}: median, range"),
            format!("{:.2} us, {}", median(values.clone()), range(values, 2)),
        );
    }
    report.figure("TCP segments of a delivery, including its acknowledgement", {
        let segments = broadcasts.iter().map(|one| one.segments as f64 / count);
        number(median(segments.collect()), 2)
    });
    let per_join = |part: Duration| format!("{:.1} us", part.as_secs_f64() * 1e6 / count);
    report.figure("CPU to accept, upgrade and join, the server", per_join(opened.cpu.server));
    report.figure("CPU to connect and join, the clients", per_join(opened.cpu.clients));
    let cores = |cpu: &Cpu, seconds: f64| cpu.all().as_secs_f64() / seconds;
    report.figure("CPU of silent sockets, all programs", {
        format!("{:.2} cores", cores(&idle, IDLE.as_secs_f64()))
    });
    report.figure("with a heartbeat each 30 s from every socket: server, clients, ksoftirqd", {
        let part = |part: Duration| format!("{:.2}", part.as_secs_f64() / beating_seconds);
        let (server, clients) = (part(beating.server), part(beating.clients));
        format!("{server}, {clients}, {} cores", part(beating.ksoftirqd))
    });
    report.figure("CPU of a heartbeat and its answer, all programs", {
        let beats = count / HEARTBEAT_SECONDS;
        format!("{:.1} us", cores(&beating, beating_seconds) * 1e6 / beats)
    });
    report.tables.push(Table {
        title: "Memory".into(),
        heads: ["", "all", "a socket"].map(str::to_owned).to_vec(),
        rows: [
            ("server, above its idle value", server_idle.saturating_sub(server_before) as f64),
            ("server, all of it (PSS)", server_idle as f64),
            ("server after the messages (PSS)", server_after as f64),
            ("clients, all of it (PSS)", clients_idle as f64),
            ("kernel, unreclaimable, both ends", pinned),
            ("kernel, all slabs with caches of files, both ends", slab),
            (
                "kernel, all slabs after the messages",
                machine_after.slab.saturating_sub(machine_before.slab) as f64,
            ),
            ("available memory of the machine went down by", available),
        ]
        .into_iter()
        .map(|(what, value)| {
            vec![what.to_owned(), bytes(value as u64), format!("{} B", number(value / count, 0))]
        })
        .collect(),
    });
    report.figure("connections refused, turned away, reset, timed out", {
        format!(
            "{}, {}, {}, {}",
            status.refused, status.turned_away, status.reset, status.timed_out
        )
    });
    report.figure("time until all sockets had closed", format!("{:.1} s", teardown.as_secs_f64()));
    report.method = method(run, processes);
    report.chart = chart(sockets, opened.points, &broadcasts);
    report.chart.notes = vec![report.machine.clone()];
    Ok(report)
}

/// Push a message, and wait until every socket has it.
fn broadcast(
    run: &Run<'_>,
    opened: &mut Opened,
    senders: u32,
    number: u32,
    idle: Option<Cpu>,
    progress: &Progress,
) -> Result<Broadcast> {
    let segments_before = kernel::tcp_segments()?;
    let before = run.cpu(&opened.server_ids, &opened.client_ids)?;
    let (sockets, received_before) = (opened.status.present, opened.clients.status()?.received);
    let from = Instant::now();
    for slot in 0..senders {
        opened.clients.send(0, &Order::Send { slot, number })?;
    }
    let text = |received: u64| {
        let new = received - received_before;
        format!("message {number}: {new} of {sockets} have it")
    };
    opened.clients.wait(
        BROADCAST_TIMEOUT,
        |status| progress.show(&text(status.received)),
        |status| status.received >= received_before + sockets,
    )?;
    let cpu = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
    let segments = kernel::tcp_segments()?.saturating_sub(segments_before);
    let cpu = idle.map_or(cpu, |idle| cpu.without(idle, IDLE, from.elapsed()));
    let reached = opened.clients.report()?.0.remove("delivery").context("no socket received it")?;
    Ok(Broadcast { last: reached.max(), reached, cpu, segments })
}

fn method(run: &Run<'_>, processes: usize) -> Vec<String> {
    vec![
        run.server_sentence(processes),
        "The clients belong to the bench. Each makes the HTTP upgrade and a Phoenix V2 join of \
         `rooms:lobby`, then stays silent, as in published runs of other servers. Each must receive \
         every message once. At the end all send a heartbeat every 30 s, as phoenix.js does; its cost \
         is reported separately."
            .into(),
        "A message is one `new_msg` of 100 bytes that one client pushes. It contains the time of \
         sending, and every receiver records the delay. The first message is not counted, because all \
         memory pages that it touches are new."
            .into(),
        "CPU is the sum of `schedstat` over the processes, minus what silent sockets use in the \
         same time. On loopback the time of the sender contains the TCP work of the receiver. Messages \
         are further apart than a retransmission timeout, so each is acknowledged at once, and the \
         sender pays for that segment too. The bare server's cost of such a delivery is the \"rare \
         delivery\" in `docs/bench/targets.md`."
            .into(),
        "Memory of programs is the proportional set size. Memory of the kernel is the growth since \
         before the server started: unreclaimable slabs, and the inodes and dentries of open sockets."
            .into(),
        "The network namespace has its own TCP hash table, large enough for the connections."
            .into(),
    ]
}

fn chart(sockets: u64, joined: Vec<(f64, f64)>, broadcasts: &[Broadcast]) -> Chart {
    let share = |histogram: &Histogram| -> Vec<(f64, f64)> {
        let steps = histogram.cumulative().into_iter();
        std::iter::once((0.0, 0.0))
            .chain(steps.map(|(time, part)| (time.as_secs_f64(), part * sockets as f64)))
            .collect()
    };
    let line = |(index, one): (usize, &Broadcast)| {
        let colour = Colour::ALL[index % Colour::ALL.len()];
        Line::left(format!("message {}", index + 1), colour, share(&one.reached))
    };
    Chart {
        label: format!("{sockets} sockets join one room; then messages reach all of them"),
        panels: vec![
            Panel::Lines {
                markers: Vec::new(),
                title: "Sockets joined to one room".into(),
                x: Axis::new("seconds since the first connected"),
                left: Axis::new("sockets joined"),
                right: None,
                lines: vec![Line::left("joined", Colour::Orange, joined)],
            },
            Panel::Lines {
                markers: Vec::new(),
                title: "One message to everyone".into(),
                x: Axis::new("seconds since it was sent"),
                left: Axis::new("sockets that have it"),
                right: None,
                lines: broadcasts.iter().enumerate().map(line).collect(),
            },
        ],
        notes: Vec::new(),
    }
}
