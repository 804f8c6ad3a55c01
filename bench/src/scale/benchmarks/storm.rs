use std::time::Duration;

use anyhow::{Context, Result};

use super::{Benchmark, Opened, Run, pause, seconds_since};
use crate::progress::Progress;
use crate::report::{BenchmarkReport, Table, Target};
use crate::scale::clock::{nanos, now_ns};
use crate::scale::kernel::{self, Cpu};
use crate::scale::orders::{Order, Status};
use watchfire_report::Histogram;
use watchfire_report::units::{bytes, duration, number};
use watchfire_report::{Axis, Chart, Colour, Line, Panel};

pub const SOCKETS: f64 = 250_000.0;
/// Period over which the reconnects are spread in the second storm.
const SPREAD: Duration = Duration::from_secs(10);
const AT_ONCE_SECONDS_MAX: f64 = 30.0;
const SPREAD_SECONDS_MAX: f64 = 20.0;
const MEMORY_GROWTH_MAX: f64 = 1.2;
const RETURN_TIMEOUT: Duration = Duration::from_secs(180);

/// One time that all clients left and returned.
struct Storm {
    name: &'static str,
    until_all_back: Duration,
    away: Histogram,
    /// Seconds, and the number of joined sockets.
    points: Vec<(f64, f64)>,
    cpu: Cpu,
    /// Counters of this storm.
    seen: Status,
    memory_after: u64,
}

pub fn run(run: &Run<'_>) -> Result<BenchmarkReport> {
    let sockets = run.scaled(SOCKETS);
    let mut progress = Progress::new(5);
    let server = run.server(Benchmark::Storm, sockets, &progress)?;
    let processes = run.processes_for(sockets);
    progress.step(&format!("{processes} server processes are up"));
    let mut opened = run.open(&server, sockets, 1, true, &progress)?;
    progress.step(&format!("{sockets} joined in {:.1} s", opened.took.as_secs_f64()));
    pause(Duration::from_secs(2), "waiting for the machine", &progress);
    let memory_before = kernel::pss(&opened.server_ids)?;
    let spread_name = format!("within {} s, with jitter", SPREAD.as_secs());
    let mut storms = Vec::new();
    for (name, spread) in [("at once", Duration::ZERO), ("spread", SPREAD)] {
        let storm = storm(run, &mut opened, sockets, name, spread, &progress)
            .with_context(|| server.log_tail())?;
        progress
            .step(&format!("{name}: all back after {:.1} s", storm.until_all_back.as_secs_f64()));
        storms.push(storm);
    }
    let teardown = run.take_down(opened.clients, server, &progress)?;
    progress.step("all clients have left");
    progress.finish();

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
            &format!("all back, {spread_name}"),
            spread.until_all_back.as_secs_f64(),
            SPREAD_SECONDS_MAX,
            "s",
            1,
        ),
        Target::at_most(
            "memory of the server after both, compared with before",
            growth,
            MEMORY_GROWTH_MAX,
            "x",
            2,
        ),
    ];
    report.figure("sockets", number(sockets as f64, 0));
    report.figure("memory of the server before (PSS)", bytes(memory_before));
    report.figure(
        "time until all sockets had closed in the end",
        format!("{:.1} s", teardown.as_secs_f64()),
    );
    let heads = ["", "everyone at once", &spread_name].map(str::to_owned).to_vec();
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
        "All clients close their sockets at the same moment without a close frame. From 10 ms later \
         on they connect, upgrade and join again, all at once or spread over time. A client that fails \
         retries after 10, 50, 100, 150, 200, 250, 500, 1000, 2000, then 5000 ms, as phoenix.js does; \
         jitter multiplies each delay by 0.5 to 1.5. A client that has not joined after 10 s times out \
         and retries."
            .into(),
        "When the first clients return, the server still has the sockets that left. *Turned away* \
         means a close, or a response other than an upgrade. The kernel reports *refused* and *reset*."
            .into(),
    ];
    report.chart = chart(sockets, &storms, &spread_name);
    report.chart.notes = vec![report.machine.clone()];
    Ok(report)
}

fn storm(
    run: &Run<'_>,
    opened: &mut Opened,
    sockets: u64,
    name: &'static str,
    spread: Duration,
    progress: &Progress,
) -> Result<Storm> {
    let clients = &mut opened.clients;
    clients.report()?; // reset the durations
    let before = clients.status()?;
    let cpu_before = run.cpu(&opened.server_ids, &opened.client_ids)?;
    let from_ns = now_ns();
    let is_jittered = !spread.is_zero();
    clients.send_all(&Order::Storm { spread_ns: nanos(spread), is_jittered })?;
    let mut points = vec![(0.0, sockets as f64)];
    let after = clients.wait(
        RETURN_TIMEOUT,
        |status| {
            points.push((seconds_since(from_ns), status.present as f64));
            progress.show(&format!("{name}: {} of {sockets} are back", status.present));
        },
        |status| status.joins >= before.joins + sockets && status.present == sockets,
    )?;
    let until_all_back = Duration::from_nanos(after.present_at_ns - from_ns);
    let cpu = run.cpu(&opened.server_ids, &opened.client_ids)?.since(cpu_before);
    let away = clients.report()?.0.remove("away").context("no socket returned")?;
    pause(Duration::from_secs(3), "waiting for the machine", progress);
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

fn chart(sockets: u64, storms: &[Storm], spread_name: &str) -> Chart {
    let line = |storm: &Storm| match storm.name {
        "at once" => Line::left("everyone at once", Colour::Orange, storm.points.clone()),
        _ => Line::left(spread_name, Colour::Blue, storm.points.clone()),
    };
    Chart {
        label: format!("{sockets} sockets leave at the same moment and come back"),
        panels: vec![Panel::Lines {
            markers: Vec::new(),
            title: "Sockets joined".into(),
            x: Axis::new("seconds since all left"),
            left: Axis::new("sockets joined"),
            right: None,
            lines: storms.iter().map(line).collect(),
        }],
        notes: Vec::new(),
    }
}
