//! The results of a simulated fleet: as a table, as JSON and as an SVG.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use watchfire_report::units::{binary_bytes, percent};
use watchfire_report::{Axis, Chart, Colour, Line, Marker, Panel, TickFormat};

use super::outcome::HostOutcome;
use super::scenario::FleetReport;

const POINTS_MAX: usize = 48;

pub fn fleet_table(report: &FleetReport) -> String {
    let FleetReport { scenario, outcome } = report;
    let mut out = String::new();
    let mut put = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("writing to a String cannot fail");
        out.push('\n');
    };
    put(format_args!("{}", scenario.name));
    put(format_args!(
        "{} in {} blocks to {} hosts, which have {} already; seed {}",
        binary_bytes(outcome.bytes),
        outcome.blocks,
        outcome.hosts.len(),
        binary_bytes(scenario.present_bytes),
        scenario.seed,
    ));
    let bound = outcome.bound;
    put(format_args!(
        "Bound: no faster than {:.2} s. The registry's uplink needs {:.2} s, the slowest downlink {:.2} s, all uplinks together {:.2} s\n",
        bound.seconds(),
        bound.registry,
        bound.slowest,
        bound.everyone
    ));
    let time = |share| match outcome.times_the_bound(share) {
        Some(times) => format!("{:.2} s, x bound {times:.2}", times * bound.seconds()),
        None => "never".to_owned(),
    };
    let copies: Vec<String> =
        outcome.registry_copies().iter().map(|copies| format!("{copies:.3}")).collect();
    put(format_args!("  median host          {}", time(0.5)));
    put(format_args!("  last host            {}", time(1.0)));
    put(format_args!("  unfinished hosts     {}", outcome.unfinished()));
    put(format_args!("  registry sent        {} copies per region", copies.join(", ")));
    if let Some(copies) = outcome.copies_across_regions() {
        put(format_args!("  across regions       {copies:.3} copies per region at most"));
    }
    put(format_args!("  duplicates           {}", percent(outcome.duplicates(), 2)));
    put(format_args!(
        "  one coordinator      {} requests per second at most; {} hosts at most coordinated one layer",
        outcome.requests_per_second_max, outcome.coordinators_max
    ));
    put(format_args!(
        "  connections          {} of one host at most; {} rejected",
        outcome.connections_max, outcome.rejected_connections
    ));
    for violation in outcome.violations.iter().take(5) {
        put(format_args!("  violated invariant: {violation}"));
    }
    out
}

/// The whole report as JSON. Times are in seconds, sizes in bytes.
pub fn fleet_json(report: &FleetReport) -> Value {
    let FleetReport { scenario, outcome } = report;
    let bound = outcome.bound;
    let host = |host: &HostOutcome| {
        json!({
            "region": host.region,
            "is_awaited": host.is_awaited,
            "started_at": host.started_at.as_secs_f64(),
            "finished_at": host.finished_at.map(|at| at.as_secs_f64()),
        })
    };
    json!({
        "scenario": scenario.name,
        "seed": scenario.seed,
        "bytes": outcome.bytes,
        "present_bytes": scenario.present_bytes,
        "blocks": outcome.blocks,
        "bound": {
            "time": bound.seconds(),
            "registry": bound.registry,
            "slowest": bound.slowest,
            "everyone": bound.everyone,
        },
        "median_times_the_bound": outcome.times_the_bound(0.5),
        "last_times_the_bound": outcome.times_the_bound(1.0),
        "unfinished": outcome.unfinished(),
        "registry_copies": outcome.registry_copies(),
        "copies_across_regions": outcome.copies_across_regions(),
        "duplicates": outcome.duplicates(),
        "requests_per_second_max": outcome.requests_per_second_max,
        "coordinators_max": outcome.coordinators_max,
        "connections_max": outcome.connections_max,
        "rejected_connections": outcome.rejected_connections,
        "broken": outcome.violations,
        "ended_at": outcome.ended_at.as_secs_f64(),
        "hosts": outcome.hosts.iter().map(host).collect::<Value>(),
    })
}

/// The blocks of each host over time, as a self-contained SVG. Of many hosts it shows a sample.
pub fn fleet_picture(report: &FleetReport) -> String {
    let FleetReport { scenario, outcome } = report;
    let end = outcome.ended_at.as_secs_f64().max(outcome.bound.seconds()) * 1.03;
    let drawn: Vec<&HostOutcome> =
        outcome.hosts.iter().filter(|host| !host.received_at.is_empty()).collect();
    let opacity = (8.0 / drawn.len().max(1) as f64).sqrt().clamp(0.2, 0.8);
    let leaves = drawn.iter().any(|host| !host.is_awaited);
    let lines = drawn.iter().map(|host| {
        let colour = if host.is_awaited { Colour::Orange } else { Colour::Purple };
        let line = Line::left("", colour, completion(host, outcome.blocks));
        Line { opacity, ..line }
    });
    let bound = Marker {
        name: "bound".to_owned(),
        colour: Colour::Green,
        is_on_x: true,
        at: outcome.bound.seconds(),
    };
    let panel = Panel::Lines {
        title: scenario.name.clone(),
        x: Axis::up_to("seconds", end),
        left: Axis { step: Some(0.25), ..Axis::up_to("share of the image", 1.0) }
            .with_format(TickFormat::Percent),
        right: None,
        lines: lines.collect(),
        markers: vec![bound],
    };
    let chart = Chart {
        label: format!("{}: share of the image that each host has, over time", scenario.name),
        panels: vec![panel],
        notes: leaves.then(|| "Purple: hosts that leave.".to_owned()).into_iter().collect(),
    };
    chart.svg()
}

/// The share of the image that a host has, each time that a block arrived.
fn completion(host: &HostOutcome, blocks: usize) -> Vec<(f64, f64)> {
    let times: &[Duration] = &host.received_at;
    let step = times.len().div_ceil(POINTS_MAX).max(1);
    let points = times
        .iter()
        .enumerate()
        .filter(|(at, _)| at % step == 0 || at + 1 == times.len())
        .map(|(at, time)| (time.as_secs_f64(), (at + 1) as f64 / blocks as f64));
    std::iter::once((host.started_at.as_secs_f64(), 0.0)).chain(points).collect()
}
