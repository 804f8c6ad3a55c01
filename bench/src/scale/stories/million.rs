use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Opened, Run, Story, rest};
use crate::progress::Progress;
use crate::scale::histogram::Histogram;
use crate::scale::kernel::{self, Cpu, MachineMemory};
use crate::scale::orders::Order;
use crate::scale::report::{
    Account, Axis, Chart, Line, Mark, Panel, Table, Tint, bytes, duration, median, number,
};

pub const SOCKETS: f64 = 1_000_000.0;
const BROADCASTS: u32 = 5;
const CONNECTED_SECONDS_MAX: f64 = 90.0;
const ARRIVALS_MIN: f64 = 20_000.0;
const LAST_SECONDS_MAX: f64 = 6.0;
const DELIVERY_MICROS_MAX: f64 = 6.0;
const GIGABYTES_MAX: f64 = 10.0;
/// How long the sockets are watched at rest, and then with nothing but heartbeats.
const IDLE: Duration = Duration::from_secs(5);
const BEATING: Duration = Duration::from_secs(15);
/// As many heartbeats a second take this part of a socket's.
const HEARTBEAT_SECONDS: f64 = 30.0;
const BROADCAST_TIMEOUT: Duration = Duration::from_secs(120);

struct Broadcast {
    /// Until the last had it.
    last: Duration,
    reached: Histogram,
    cpu: Cpu,
    /// TCP segments meanwhile, acknowledgements among them.
    segments: u64,
}

pub fn tell(run: &Run<'_>) -> Result<Account> {
    let sockets = run.scaled(SOCKETS);
    let mut say = Progress::new(5 + BROADCASTS as usize);
    let machine_before = MachineMemory::look()?;
    say.show("the server starts");
    let server = run.server(Story::Million, sockets, &say)?;
    let processes = run.processes_for(sockets);
    let server_before = kernel::pss(&server.ids())?;
    say.step(&format!("{processes} server processes are up"));

    let mut opened = run.open(&server, sockets, 1, false, &say)?;
    say.step(&format!("{sockets} joined in {:.1} s", opened.took.as_secs_f64()));
    rest(Duration::from_secs(2), "the machine settles", &say);
    let machine_idle = MachineMemory::look()?;
    let server_idle = kernel::pss(&opened.server_ids)?;
    let clients_idle = kernel::pss(&opened.client_ids)?;

    // Servers that know nothing of one another need a speaker each.
    let speakers = server.addresses().len() as u32;
    broadcast(run, &mut opened, speakers, 1, None, &say)?;
    say.step("the first message is not counted");

    let before = run.cpu(&opened.server_ids, &opened.client_ids)?;
    rest(IDLE, "all are silent", &say);
    let idle = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
    let mut broadcasts = Vec::new();
    for number in 2..2 + BROADCASTS {
        let told = broadcast(run, &mut opened, speakers, number, Some(idle), &say)?;
        say.step(&format!(
            "message {number} reached the last after {:.2} s",
            told.last.as_secs_f64()
        ));
        broadcasts.push(told);
    }
    let server_after = kernel::pss(&opened.server_ids)?;
    let machine_after = MachineMemory::look()?;
    opened.crowd.tell_all(&Order::Heartbeats)?;
    rest(IDLE, "heartbeats begin", &say);
    let (before, beats) = (run.cpu(&opened.server_ids, &opened.client_ids)?, Instant::now());
    rest(BEATING, "heartbeats alone", &say);
    let beating = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
    let beating_seconds = beats.elapsed().as_secs_f64();
    say.step("heartbeats alone were watched");
    let status = opened.crowd.status()?;
    let teardown = run.take_down(opened.crowd, server, &say)?;
    say.step("all have left");
    say.finish();

    let count = sockets as f64;
    let lost = sockets * u64::from(BROADCASTS + 1) - status.heard + status.missed;
    let last = |broadcast: &Broadcast| broadcast.last.as_secs_f64();
    let lasts: Vec<f64> = broadcasts.iter().map(last).collect();
    let range = |values: &[f64], decimals: usize| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        format!("{low:.decimals$} to {high:.decimals$}")
    };
    let micros = |part: fn(&Cpu) -> Duration| -> Vec<f64> {
        broadcasts.iter().map(|told| part(&told.cpu).as_secs_f64() * 1e6 / count).collect()
    };
    let (server_us, client_us) = (micros(|cpu| cpu.server), micros(|cpu| cpu.clients));
    let daemon_us = micros(|cpu| cpu.ksoftirqd);
    let arrival = count / opened.took.as_secs_f64();
    let slab = machine_idle.slab.saturating_sub(machine_before.slab) as f64;
    let pinned = machine_idle.pinned.saturating_sub(machine_before.pinned) as f64;
    let available = machine_before.available.saturating_sub(machine_idle.available) as f64;
    let programs = (server_idle + clients_idle) as f64;
    let share = count / SOCKETS;

    let mut account = run.account(Story::Million, "A million sockets in one room");
    let seconds = opened.took.as_secs_f64();
    account.marks = vec![
        Mark::at_least("websockets joined to one room", status.present as f64, count, "", 0),
        Mark::at_most("all connected and joined within", seconds, CONNECTED_SECONDS_MAX, "s", 1),
        Mark::at_least("arrivals", arrival, ARRIVALS_MIN, "a second", 0),
        Mark::at_most(
            "a message to all, until the last has it (median)",
            median(lasts.clone()),
            LAST_SECONDS_MAX * share.max(0.05),
            "s",
            2,
        ),
        Mark::at_most(
            "CPU of a delivery in the server (median)",
            median(server_us.clone()),
            DELIVERY_MICROS_MAX,
            "us",
            2,
        ),
        Mark::at_most(
            "memory of both ends, kernel and programs",
            (pinned + programs) / 1e9,
            GIGABYTES_MAX * share.max(0.05),
            "GB",
            2,
        ),
        Mark::at_most("messages lost or heard twice", (lost + status.doubled) as f64, 0.0, "", 0),
    ];
    account.figure(
        "server processes, client processes",
        format!("{processes}, {}", opened.client_ids.len()),
    );
    account.figure("the last receiver, range over the messages", format!("{} s", range(&lasts, 2)));
    account.figure("half of all had it after (median)", {
        duration(median(broadcasts.iter().map(|told| told.reached.quantile(0.5) as f64).collect())
            as u64)
    });
    for (what, values) in
        [("the server", &server_us), ("the clients", &client_us), ("ksoftirqd", &daemon_us)]
    {
        account.figure(
            &format!("CPU of a delivery, {what}: median, range"),
            format!("{:.2} us, {}", median(values.clone()), range(values, 2)),
        );
    }
    account.figure("TCP segments of a delivery, its acknowledgement among them", {
        let segments = broadcasts.iter().map(|told| told.segments as f64 / count);
        number(median(segments.collect()), 2)
    });
    let per_join = |part: Duration| format!("{:.1} us", part.as_secs_f64() * 1e6 / count);
    account.figure("CPU to accept, upgrade and join, the server", per_join(opened.cpu.server));
    account.figure("CPU to connect and join, the clients", per_join(opened.cpu.clients));
    let cores = |cpu: &Cpu, seconds: f64| cpu.all().as_secs_f64() / seconds;
    account.figure("CPU of silent sockets, all programs", {
        format!("{:.2} cores", cores(&idle, IDLE.as_secs_f64()))
    });
    account.figure("with a heartbeat each 30 s from every socket: server, clients, ksoftirqd", {
        let part = |part: Duration| format!("{:.2}", part.as_secs_f64() / beating_seconds);
        let (server, clients) = (part(beating.server), part(beating.clients));
        format!("{server}, {clients}, {} cores", part(beating.ksoftirqd))
    });
    account.figure("CPU of a heartbeat and its answer, all programs", {
        let beats = count / HEARTBEAT_SECONDS;
        format!("{:.1} us", cores(&beating, beating_seconds) * 1e6 / beats)
    });
    account.tables.push(Table {
        title: "Memory".into(),
        heads: ["", "all", "a socket"].map(str::to_owned).to_vec(),
        rows: [
            (
                "server, above what it had before anybody came",
                server_idle.saturating_sub(server_before) as f64,
            ),
            ("server, all of it (PSS)", server_idle as f64),
            ("server after the messages (PSS)", server_after as f64),
            ("clients, all of it (PSS)", clients_idle as f64),
            ("kernel, what cannot be given back, both ends", pinned),
            ("kernel, all slabs with caches of files, both ends", slab),
            (
                "kernel, all slabs after the messages",
                machine_after.slab.saturating_sub(machine_before.slab) as f64,
            ),
            ("available memory of the machine went down by", available),
        ]
        .into_iter()
        .map(|(what, value)| {
            vec![what.to_owned(), bytes(value), format!("{} B", number(value / count, 0))]
        })
        .collect(),
    });
    account.figure("connections refused, turned away, reset, timed out", {
        format!(
            "{}, {}, {}, {}",
            status.refused, status.turned_away, status.reset, status.timed_out
        )
    });
    account.figure("until all sockets had gone", format!("{:.1} s", teardown.as_secs_f64()));
    account.method = method(run, processes);
    account.chart = chart(sockets, opened.points, &broadcasts);
    account.chart.notes = vec![account.machine.clone()];
    Ok(account)
}

/// Have a message said and wait until everyone has it.
fn broadcast(
    run: &Run<'_>,
    opened: &mut Opened,
    speakers: u32,
    number: u32,
    idle: Option<Cpu>,
    say: &Progress,
) -> Result<Broadcast> {
    let segments_before = kernel::tcp_segments()?;
    let before = run.cpu(&opened.server_ids, &opened.client_ids)?;
    let (sockets, heard) = (opened.status.present, opened.crowd.status()?.heard);
    let from = Instant::now();
    for seat in 0..speakers {
        opened.crowd.tell(0, &Order::Say { seat, number })?;
    }
    let show = |seen: u64| format!("message {number}: {} of {sockets} have it", seen - heard);
    opened.crowd.wait(
        BROADCAST_TIMEOUT,
        |status| say.show(&show(status.heard)),
        |status| status.heard >= heard + sockets,
    )?;
    let cpu = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
    let segments = kernel::tcp_segments()?.saturating_sub(segments_before);
    let cpu = idle.map_or(cpu, |idle| cpu.without(idle, IDLE, from.elapsed()));
    let reached = opened.crowd.report()?.0.remove("delivery").context("nobody heard it")?;
    Ok(Broadcast { last: Duration::from_nanos(reached.max()), reached, cpu, segments })
}

fn method(run: &Run<'_>, processes: usize) -> Vec<String> {
    vec![
        run.server_sentence(processes),
        "Clients are this crate's: HTTP upgrade, Phoenix V2 join of `rooms:lobby`; then they are \
         silent, as in the runs that are known of other servers, and each must hear every message \
         once. In the end all send a heartbeat each 30 s, as phoenix.js does: what that takes is told \
         apart."
            .into(),
        "A message is one `new_msg` of 100 bytes pushed by one client; it carries the time when it \
         was written, and every receiver tells how long ago that was. The first is not counted: all pages it touches are new."
            .into(),
        "CPU is the sum of `schedstat` over the processes, less what the silent sockets take in \
         the same time; on loopback the sender's time contains the receiver's TCP. Messages are \
         further apart than a retransmission timeout, so that each is acknowledged at once: that \
         segment is on the sender's bill, too. What the bare broadcaster pays for such a delivery is \
         the \"rare delivery\" of the marks (`docs/bench/marks.md`)."
            .into(),
        "Memory of programs is proportional set size; the kernel's is the growth, since \
         before the server started, of the slabs it cannot give back and of the inodes and names of \
         open sockets."
            .into(),
        "The network namespace has a TCP table of its own, large enough for so many connections."
            .into(),
    ]
}

fn chart(sockets: u64, joined: Vec<(f64, f64)>, broadcasts: &[Broadcast]) -> Chart {
    let share = |histogram: &Histogram| -> Vec<(f64, f64)> {
        let steps = histogram.steps().into_iter();
        std::iter::once((0.0, 0.0))
            .chain(steps.map(|(ns, part)| (ns as f64 / 1e9, part * sockets as f64)))
            .collect()
    };
    let tints = [Tint::Fire, Tint::Water, Tint::Grass, Tint::Stone, Tint::Plum];
    let line = |(index, told): (usize, &Broadcast)| {
        let tint = tints[index % tints.len()];
        Line::left(&format!("message {}", index + 1), tint, share(&told.reached))
    };
    Chart {
        label: format!("{sockets} sockets join one room; then messages reach all of them"),
        panels: vec![
            Panel::Lines {
                title: "Sockets joined to one room".into(),
                x: Axis::new("seconds since the first connected"),
                left: Axis::new("sockets joined"),
                right: None,
                lines: vec![Line::left("joined", Tint::Fire, joined)],
            },
            Panel::Lines {
                title: "One message to everyone".into(),
                x: Axis::new("seconds since it was said"),
                left: Axis::new("sockets that have it"),
                right: None,
                lines: broadcasts.iter().enumerate().map(line).collect(),
            },
        ],
        notes: Vec::new(),
    }
}
