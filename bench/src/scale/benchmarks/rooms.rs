use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Benchmark, Run, pause, seconds_since};
use crate::progress::Progress;
use crate::report::{BenchmarkReport, Target};
use crate::scale::clock::{nanos, now_ns};
use crate::scale::kernel::{self, MachineMemory};
use crate::scale::memory_group::MemoryGroup;
use crate::scale::orders::Order;
use watchfire_report::units::{bytes, duration, number};
use watchfire_report::{Axis, Chart, Colour, Line, Panel};

const ROOMS: f64 = 10_000.0;
const ROOMS_OF_SMALL_MACHINE: f64 = 8_000.0;
const MEMBERS: f64 = 50.0;
/// Memory of the small machine, in bytes: programs, and the kernel for them.
const MEMORY_MAX: u64 = 4_000_000_000;
/// Interval of messages in a room: 333 messages and 16,667 deliveries per second in 10,000 rooms.
const EVERY: Duration = Duration::from_secs(30);
const LASTS: Duration = Duration::from_secs(60);
const P99_MILLIS_MAX: f64 = 100.0;
const DRAIN: Duration = Duration::from_secs(30);

fn rooms_of(benchmark: Benchmark) -> f64 {
    match benchmark {
        Benchmark::SmallMachine => ROOMS_OF_SMALL_MACHINE,
        _ => ROOMS,
    }
}

/// Connections at the same time at full size.
pub fn connections(benchmark: Benchmark) -> f64 {
    rooms_of(benchmark) * MEMBERS
}

pub fn run(run: &Run<'_>, benchmark: Benchmark) -> Result<BenchmarkReport> {
    let (rooms, members) = (run.scaled(rooms_of(benchmark)), MEMBERS as u64);
    let sockets = rooms * members;
    let mut progress = Progress::new(4);
    let machine_before = MachineMemory::read()?;
    let group = match benchmark {
        Benchmark::SmallMachine => Some(MemoryGroup::new(MEMORY_MAX)?),
        _ => None,
    };
    let start = || run.server(benchmark, sockets, &progress);
    let server = group.as_ref().map_or_else(start, |group| group.within(start))?;
    let processes = run.processes_for(sockets);
    let server_before = kernel::pss(&server.ids())?;
    progress.step(&format!("{processes} server processes are up"));
    let mut opened = run.open(&server, sockets, rooms, true, &progress)?;
    progress.step(&format!("{sockets} joined in {:.1} s", opened.took.as_secs_f64()));
    pause(Duration::from_secs(2), "waiting for the machine", &progress);
    let server_idle = kernel::pss(&opened.server_ids)?;
    let pinned = MachineMemory::read()?.pinned.saturating_sub(machine_before.pinned);

    let clients = &mut opened.clients;
    let before = run.cpu(&opened.server_ids, &opened.client_ids)?;
    let from_ns = now_ns() + 500_000_000;
    let (every_ns, until_ns) = (nanos(EVERY), from_ns + nanos(LASTS));
    let started_at = Instant::now();
    clients.send_all(&Order::Chatter { every_ns, from_ns, until_ns })?;
    let mut points: Vec<(f64, f64)> = Vec::new();
    let (mut last_at, mut last_received) = (0.0, 0);
    clients.wait(
        LASTS + DRAIN,
        |status| {
            let now = seconds_since(from_ns);
            if now - last_at >= 1.0 {
                points.push((now, (status.received - last_received) as f64 / (now - last_at)));
                (last_at, last_received) = (now, status.received);
            }
            progress.show(&format!("{} messages sent, {} received", status.sent, status.received));
        },
        |status| {
            let all_sent = seconds_since(from_ns) > LASTS.as_secs_f64() + 1.0;
            let waited = seconds_since(from_ns) > (LASTS + DRAIN / 2).as_secs_f64();
            all_sent && (status.received == status.sent * members || waited)
        },
    )?;
    let lasted = started_at.elapsed().as_secs_f64();
    let cpu = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
    let (mut durations, status) = clients.report()?;
    let delivery = durations.remove("delivery").context("no socket received a message")?;
    progress.step(&format!("{} deliveries", status.received));
    // With separate servers each has its own part of a room, so fewer sockets receive a message.
    let expected = status.sent * members;
    let group_peak = group.as_ref().map(MemoryGroup::peak).transpose()?;
    let teardown = run.take_down(opened.clients, server, &progress)?;
    progress.step("all clients have left");
    progress.finish();

    let title = match benchmark {
        Benchmark::SmallMachine => "400,000 sockets on a machine with 4 GB",
        _ => "Ten thousand rooms of fifty",
    };
    let mut report = run.report(benchmark, title);
    let millis = |part: f64| delivery.quantile(part).as_secs_f64() * 1e3;
    let lost = expected.abs_diff(status.received) + status.duplicates;
    report.targets = vec![
        Target::at_least("sockets joined", status.present as f64, sockets as f64, "", 0),
        Target::at_most("messages lost or received twice", lost as f64, 0.0, "", 0),
        Target::at_most("delay of a message, p99", millis(0.99), P99_MILLIS_MAX, "ms", 1),
    ];
    if let Some(peak) = group_peak {
        // Each connection has two equal ends in the kernel.
        let all = server_idle + pinned / 2;
        report.targets.push(Target::at_most(
            "memory of the server: programs, and its ends in the kernel",
            all as f64 / 1e9,
            MEMORY_MAX as f64 / 1e9,
            "GB",
            2,
        ));
        report.figure("that memory, a socket", bytes(all / sockets));
        report.figure("most memory that the kernel charged to the control group", bytes(peak));
    }
    report.figure("rooms, sockets in each", format!("{}, {members}", number(rooms as f64, 0)));
    report.figure("messages sent, received", {
        format!("{}, {}", number(status.sent as f64, 0), number(status.received as f64, 0))
    });
    report.figure("deliveries a second", number(status.received as f64 / LASTS.as_secs_f64(), 0));
    report.figure("delay since a message was due: p50, p99, max", {
        let [p50, p99] = [0.5, 0.99].map(|part| duration(delivery.quantile(part)));
        format!("{p50}, {p99}, {}", duration(delivery.max()))
    });
    report.figure("all joined within", format!("{:.1} s", opened.took.as_secs_f64()));
    report.figure("cores in use: server, clients, ksoftirqd", {
        let cores = |part: Duration| part.as_secs_f64() / lasted;
        let (server, clients) = (cores(cpu.server), cores(cpu.clients));
        format!("{server:.2}, {clients:.2}, {:.2}", cores(cpu.ksoftirqd))
    });
    report.figure("memory of the server, all of it (PSS); a socket", {
        let socket = server_idle.saturating_sub(server_before) as f64 / sockets as f64;
        format!("{}; {}", bytes(server_idle), bytes(socket as u64))
    });
    report.figure("time until all sockets had closed", format!("{:.1} s", teardown.as_secs_f64()));
    report.method = vec![
        run.server_sentence(processes),
        format!(
            "Members of a room are spread over all client processes, and by the kernel over all \
             server processes. Each room has a message of 100 bytes every {} s for {} s, evenly \
             spaced over the rooms. Each socket also sends a heartbeat every 30 s.",
            EVERY.as_secs(),
            LASTS.as_secs()
        ),
        "A message is lost when a socket of the room has not received it at the end. Times count from \
         when the message was due, so a late generator does not look fast."
            .into(),
    ];
    if group_peak.is_some() {
        report.method.push(format!(
            "The processes of the server are in a control group that may use {} of memory. The clients \
             are outside. The kernel charges to the group what a process asks for. It does not charge \
             the part of a connection that it makes when a packet arrives, so the memory of the server \
             is also given as the sum of its programs (PSS) and half of the memory that the kernel keeps \
             for both ends. Server and clients share the cores of the machine.",
            bytes(MEMORY_MAX)
        ));
    }
    report.chart = chart(&points, &delivery.cumulative());
    report.chart.notes = vec![report.machine.clone()];
    Ok(report)
}

fn chart(rate: &[(f64, f64)], steps: &[(Duration, f64)]) -> Chart {
    let parts = steps.iter().map(|(time, part)| (time.as_secs_f64() * 1e3, part * 100.0));
    Chart {
        label: "Deliveries a second over time, and how long a message takes".into(),
        panels: vec![
            Panel::Lines {
                markers: Vec::new(),
                title: "Deliveries".into(),
                x: Axis::new("seconds"),
                left: Axis::new("deliveries a second"),
                right: None,
                lines: vec![Line::left("received", Colour::Orange, rate.to_vec())],
            },
            Panel::Lines {
                markers: Vec::new(),
                title: "How long a message takes".into(),
                x: Axis::log("milliseconds since it was due"),
                left: Axis::up_to("% of deliveries", 100.0),
                right: None,
                lines: vec![Line::left("received within", Colour::Blue, parts.collect())],
            },
        ],
        notes: Vec::new(),
    }
}
