use std::time::Duration;

use anyhow::{Context, Result};

use super::{Benchmark, Opened, Run, rest, seconds_since};
use crate::progress::Progress;
use crate::report::{BenchmarkReport, Table, Target};
use crate::scale::clock::{nanos, now_ns};
use crate::scale::kernel::{self, Cpu};
use crate::scale::orders::{Order, Status};
use watchfire_report::Histogram;
use watchfire_report::units::{bytes, duration, number};
use watchfire_report::{Axis, Chart, Colour, Line, Panel};

pub const SOCKETS: f64 = 250_000.0;
/// Over how long they spread their return when they are polite.
const SPREAD: Duration = Duration::from_secs(10);
const AT_ONCE_SECONDS_MAX: f64 = 30.0;
const SPREAD_SECONDS_MAX: f64 = 20.0;
const MEMORY_GROWTH_MAX: f64 = 1.2;
const PATIENCE: Duration = Duration::from_secs(180);

/// One time that everyone left and came back.
struct Storm {
    name: &'static str,
    until_all_back: Duration,
    away: Histogram,
    /// Seconds, and how many were there.
    points: Vec<(f64, f64)>,
    cpu: Cpu,
    /// What was counted meanwhile.
    seen: Status,
    memory_after: u64,
}

pub fn run(run: &Run<'_>) -> Result<BenchmarkReport> {
    let sockets = run.scaled(SOCKETS);
    let mut say = Progress::new(5);
    let server = run.server(Benchmark::Storm, sockets, &say)?;
    let processes = run.processes_for(sockets);
    say.step(&format!("{processes} server processes are up"));
    let mut opened = run.open(&server, sockets, 1, true, &say)?;
    say.step(&format!("{sockets} joined in {:.1} s", opened.took.as_secs_f64()));
    rest(Duration::from_secs(2), "the machine settles", &say);
    let memory_before = kernel::pss(&opened.server_ids)?;
    let polite = format!("within {} s, with jitter", SPREAD.as_secs());
    let mut storms = Vec::new();
    for (name, spread) in [("at once", Duration::ZERO), ("spread", SPREAD)] {
        let storm = storm(run, &mut opened, sockets, name, spread, &say)
            .with_context(|| server.last_words())?;
        say.step(&format!("{name}: all back after {:.1} s", storm.until_all_back.as_secs_f64()));
        storms.push(storm);
    }
    let teardown = run.take_down(opened.clients, server, &say)?;
    say.step("all have left");
    say.finish();

    let mut report = run.report(Benchmark::Storm, "Everyone leaves and returns at once");
    let [at_once, spread] = [&storms[0], &storms[1]];
    let growth = spread.memory_after as f64 / memory_before as f64;
    report.targets = vec![
        Target::at_most(
            "all back, everyone at once",
            at_once.until_all_back.as_secs_f64(),
            AT_ONCE_SECONDS_MAX,
            "s",
            1,
        ),
        Target::at_most(
            &format!("all back, {polite}"),
            spread.until_all_back.as_secs_f64(),
            SPREAD_SECONDS_MAX,
            "s",
            1,
        ),
        Target::at_most(
            "the server's memory after both, against before",
            growth,
            MEMORY_GROWTH_MAX,
            "x",
            2,
        ),
    ];
    report.figure("sockets", number(sockets as f64, 0));
    report.figure("memory of the server before (PSS)", bytes(memory_before));
    report.figure(
        "until all sockets had gone in the end",
        format!("{:.1} s", teardown.as_secs_f64()),
    );
    let heads = ["", "everyone at once", &polite].map(str::to_owned).to_vec();
    type Cell = fn(&Storm, u64) -> String;
    let rows: [(&str, Cell); 8] = [
        ("until all are back", |storm, _| format!("{:.1} s", storm.until_all_back.as_secs_f64())),
        ("a socket is away: p50", |storm, _| duration(storm.away.quantile(0.5))),
        ("a socket is away: p99", |storm, _| duration(storm.away.quantile(0.99))),
        ("connections refused, reset", |storm, _| {
            format!("{}, {}", storm.seen.refused, storm.seen.reset)
        }),
        ("turned away by the server", |storm, _| number(storm.seen.turned_away as f64, 0)),
        ("timed out after 10 s", |storm, _| number(storm.seen.timed_out as f64, 0)),
        ("CPU of the server, all; a socket", |storm, sockets| {
            let server = storm.cpu.server.as_secs_f64();
            format!("{server:.1} s; {:.1} us", server * 1e6 / sockets as f64)
        }),
        ("memory of the server after (PSS)", |storm, _| bytes(storm.memory_after)),
    ];
    let row = |(what, cell): (&str, Cell)| {
        let cells = storms.iter().map(|storm| cell(storm, sockets));
        std::iter::once(what.to_owned()).chain(cells).collect()
    };
    report.tables.push(Table {
        title: "The two storms".into(),
        heads,
        rows: rows.into_iter().map(row).collect(),
    });
    report.method = vec![
        run.server_sentence(processes),
        "All clients close their sockets without a word at the same moment, and connect, upgrade \
         and join again from 10 ms later on: all at that moment, or each at a moment of its own. \
         Who fails tries again after 10, 50, 100, 150, 200, 250, 500, 1000, 2000, then 5000 ms, as \
         phoenix.js does; with jitter each wait is drawn from half to one and a half of that. Who \
         has not joined after 10 s gives up and tries again."
            .into(),
        "The server still has the sockets that left when the first return. *Turned away* is an \
         answer other than an upgrade, or a close; *refused* and *reset* are the kernel's."
            .into(),
    ];
    report.chart = chart(sockets, &storms, &polite);
    report.chart.notes = vec![report.machine.clone()];
    Ok(report)
}

fn storm(
    run: &Run<'_>,
    opened: &mut Opened,
    sockets: u64,
    name: &'static str,
    spread: Duration,
    say: &Progress,
) -> Result<Storm> {
    let clients = &mut opened.clients;
    clients.report()?; // forget the durations so far
    let before = clients.status()?;
    let cpu_before = run.cpu(&opened.server_ids, &opened.client_ids)?;
    let from_ns = now_ns();
    let is_jittered = !spread.is_zero();
    clients.send_all(&Order::Storm { spread_ns: nanos(spread), is_jittered })?;
    let mut points = vec![(0.0, sockets as f64)];
    let after = clients.wait(
        PATIENCE,
        |status| {
            points.push((seconds_since(from_ns), status.present as f64));
            say.show(&format!("{name}: {} of {sockets} are back", status.present));
        },
        |status| status.joins >= before.joins + sockets && status.present == sockets,
    )?;
    let until_all_back = Duration::from_nanos(after.present_at_ns - from_ns);
    let cpu = run.cpu(&opened.server_ids, &opened.client_ids)?.since(cpu_before);
    let away = clients.report()?.0.remove("away").context("nobody came back")?;
    rest(Duration::from_secs(3), "the machine settles", say);
    let memory_after = kernel::pss(&opened.server_ids)?;
    let seen = Status {
        refused: after.refused - before.refused,
        reset: after.reset - before.reset,
        turned_away: after.turned_away - before.turned_away,
        timed_out: after.timed_out - before.timed_out,
        ..Status::default()
    };
    Ok(Storm { name, until_all_back, away, points, cpu, seen, memory_after })
}

fn chart(sockets: u64, storms: &[Storm], polite: &str) -> Chart {
    let line = |storm: &Storm| match storm.name {
        "at once" => Line::left("everyone at once", Colour::Orange, storm.points.clone()),
        _ => Line::left(polite, Colour::Blue, storm.points.clone()),
    };
    Chart {
        label: format!("{sockets} sockets leave at the same moment and come back"),
        panels: vec![Panel::Lines {
            markers: Vec::new(),
            title: "Sockets joined".into(),
            x: Axis::new("seconds since all were told to leave"),
            left: Axis::new("sockets joined"),
            right: None,
            lines: storms.iter().map(line).collect(),
        }],
        notes: Vec::new(),
    }
}
