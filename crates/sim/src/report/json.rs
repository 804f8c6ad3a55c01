//! The report as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Report, finish};
use crate::scenario::Scenario;
use crate::swarm::{Outcome, PeerOutcome, UplinkUse};

/// The whole report as JSON. Times are in seconds since the start, sizes in bytes.
pub fn json(report: &Report) -> Value {
    let runs = report.runs.iter().map(|(run, outcome)| {
        json!({
            "name": run.name,
            "strategy": format!("{:?}", run.strategy).to_lowercase(),
            "outcome": outcome_json(&report.scenario, outcome),
        })
    });
    let published = report.scenario.published.iter();
    let published = published.map(|one| json!({ "name": one.name, "time": secs(one.time) }));
    json!({
        "scenario": report.scenario.name,
        "seed": report.scenario.seed,
        "notes": report.scenario.notes,
        "published": published.collect::<Value>(),
        "runs": runs.collect::<Value>(),
    })
}

fn outcome_json(scenario: &Scenario, outcome: &Outcome) -> Value {
    let bound = outcome.bound;
    json!({
        "blocks": outcome.blocks,
        "bytes": outcome.bytes,
        "bound": {
            "time": bound.seconds(),
            "source": bound.source,
            "slowest": bound.slowest,
            "everyone": bound.everyone,
        },
        "first": finish(outcome, 0.0),
        "half": finish(outcome, 0.5),
        "last": finish(outcome, 1.0),
        "times_the_bound": outcome.times_the_bound(),
        "unfinished": outcome.unfinished(),
        "duplicates": outcome.duplicates(),
        "seeder_copies": outcome.seeder_copies(),
        "honest_dropped": outcome.honest_dropped,
        "malicious_dropped": outcome.malicious_dropped,
        "broken": outcome.violations,
        "uplinks": outcome.uplink_use.iter().map(uplink_use_json).collect::<Value>(),
        "ended_at": secs(outcome.ended_at),
        "steps": outcome.steps,
        "peers": outcome.peers.iter().map(|peer| peer_json(scenario, peer)).collect::<Value>(),
    })
}

fn uplink_use_json(one: &UplinkUse) -> Value {
    json!({
        "until": secs(one.until),
        "seeder_bytes": one.seeder_bytes,
        "other_bytes": one.other_bytes,
        "seeder_bytes_max": one.seeder_bytes_max,
        "other_bytes_max": one.other_bytes_max,
    })
}

fn peer_json(scenario: &Scenario, peer: &PeerOutcome) -> Value {
    json!({
        "group": scenario.group(peer.group),
        "is_seeder": peer.is_seeder,
        "is_awaited": peer.is_awaited,
        "arrived_at": secs(peer.arrived_at),
        "finished_at": peer.finished_at.map(secs),
        "blocks": peer.received_at.len(),
        "sent_bytes": peer.sent_bytes,
        "received_bytes": peer.received_bytes,
        "duplicate_bytes": peer.sum(|totals| totals.duplicate_bytes),
        "unsolicited_bytes": peer.sum(|totals| totals.unsolicited_bytes),
        "messages_in": peer.sum(|totals| totals.messages_in),
        "endgame_requests": peer.sum(|totals| totals.endgame_requests),
        "silent_requests": peer.sum(|totals| totals.silent_requests),
    })
}

fn secs(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
