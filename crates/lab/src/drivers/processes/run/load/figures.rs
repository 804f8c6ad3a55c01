//! The figures of a load: of its whole time, and of each of its phases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::phases::PhaseUse;
use crate::results::median;

/// The least share of the most frequent activity of a phase with which another one has figures.
const SHARE_MIN: f64 = 0.01;

type Measures = BTreeMap<String, f64>;

/// The figures in the results of a load, and in the use of its server.
pub fn measures(results: &Value, cpu: Duration, phases: &[PhaseUse]) -> Measures {
    let mut measures = BTreeMap::new();
    add_whole(&mut measures, results);
    add_broadcasts(&mut measures, results);
    let errors = list(&results["errors"]).filter_map(|error| error["count"].as_u64()).sum::<u64>();
    let counts = &results["counts"];
    let missing = number(&counts["due"]) - number(&counts["started"]);
    let users = phases.iter().filter_map(|phase| phase.used).map(|used| used.users).sum();
    for (name, value) in [
        ("errors", errors as f64),
        ("deliveries", number(&counts["deliveries"])),
        ("users that did not start", missing),
        ("CPU-seconds of the users", cpu.max(users).as_secs_f64()),
    ] {
        measures.insert(format!("load: {name}"), value);
    }
    for phase in phases {
        add_phase(&mut measures, results, phase);
    }
    measures
}

/// The connected users in each second; of HTTP, all users, because they have no websocket.
pub fn connected(results: &Value) -> Vec<f64> {
    let key = if number(&results["connected_max"]) > 0.0 { "connected" } else { "users" };
    list(&results["seconds"]).map(|second| number(&second[key])).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn add_whole(measures: &mut Measures, results: &Value) {
    let mut add = |name: String, value: &Value| {
        measures.extend(value.as_f64().map(|value| (format!("load: {name}"), value)));
    };
    add("start lateness, p99, s".to_owned(), &results["start_lateness"]["p99"]);
    add("connected at the same time".to_owned(), &results["connected_max"]);
    if number(&results["counts"]["deliveries_due"]) > 0.0 {
        add("lost messages".to_owned(), &results["lost"]);
    }
    add("delivery, median, s".to_owned(), &results["delivery"]["p50"]);
    add("delivery, p99, s".to_owned(), &results["delivery"]["p99"]);
    for (name, count) in results["counters"].as_object().into_iter().flatten() {
        add(name.clone(), count);
    }
    for step in list(&results["steps"]) {
        let name = step["name"].as_str().unwrap_or_default();
        add(format!("{name}, median, s"), &step["since_due"]["p50"]);
        add(format!("{name}, p99, s"), &step["since_due"]["p99"]);
        add(format!("{name}, done"), &step["done"]);
        add(format!("{name}, longest, s"), &step["since_due"]["max"]);
        add(format!("{name}, unanswered"), &step["unanswered"]);
        add(format!("{name}, last done, s"), &step["last_done_at"]);
    }
}

/// Broadcasts by their step: the time until the last receiver had one, and the receivers that never had it.
fn add_broadcasts(measures: &mut Measures, results: &Value) {
    let steps: BTreeSet<&str> =
        list(&results["broadcasts"]).filter_map(|one| one["step"].as_str()).collect();
    for step in steps {
        let of_step = || list(&results["broadcasts"]).filter(|one| one["step"] == step);
        let median =
            |key: &str| median(of_step().map(|one| number(&one["times"][key]))).unwrap_or_default();
        let missing = of_step().map(|one| number(&one["missing"])).sum();
        for (name, value) in [
            ("half of the receivers, median, s", median("p50")),
            ("last receiver, median, s", median("max")),
            ("missing receivers", missing),
        ] {
            measures.insert(format!("load: {step}, {name}"), value);
        }
    }
}

fn add_phase(measures: &mut Measures, results: &Value, phase: &PhaseUse) {
    let mut add = |name: String, value: f64| {
        measures.insert(format!("load: {}: {name}", phase.name), value);
    };
    // Results are by whole seconds.
    let (from, to) = (phase.from.round() as usize, phase.to.round() as usize);
    let all: Vec<&Value> = list(&results["seconds"]).collect();
    let seconds = all.get(from..to.min(all.len())).unwrap_or_default();
    let sum = |of: &dyn Fn(&Value) -> f64| seconds.iter().map(|second| of(second)).sum::<f64>();
    let mut counts = vec![
        ("started user".to_owned(), sum(&|second| number(&second["counts"]["started"]))),
        ("delivery".to_owned(), sum(&|second| number(&second["counts"]["deliveries"]))),
    ];
    for step in list(&results["steps"]).filter_map(|step| step["name"].as_str()) {
        counts.push((step.to_owned(), sum(&|second| number(&second["steps"][step]["count"]))));
    }
    // The use of a phase is that of its main activity: not of the one user who sends to all others.
    let most = counts.iter().map(|(_, count)| *count).fold(0.0, f64::max);
    counts.retain(|(_, count)| *count > 0.0 && *count >= most * SHARE_MIN);
    let mut cpu: Vec<(&str, Duration)> = Vec::new();
    if let Some(used) = phase.used {
        cpu.extend([("server", used.server), ("users", used.users)]);
        cpu.extend(used.backends.map(|time| ("backends", time)));
    }
    for (of, time) in &cpu {
        add(format!("CPU-seconds of the {of}"), time.as_secs_f64());
    }
    let backend_bytes = phase.used.and_then(|used| used.backend_bytes);
    let growth = [("server", phase.growth.server), ("backends", phase.growth.backends)];
    for (what, count) in &counts {
        for (of, time) in &cpu {
            let each = time.as_secs_f64() * 1e6 / count;
            add(format!("CPU of the {of} for each {what}, us"), each);
        }
        if let Some(bytes) = backend_bytes {
            add(format!("bytes with the backends for each {what}"), bytes as f64 / count);
        }
        for (of, bytes) in growth {
            let each = bytes.map(|bytes| bytes / count);
            let name = format!("growth of the memory of the {of} for each {what}, bytes");
            each.into_iter().for_each(|each| add(name.clone(), each));
        }
        add(format!("{what}, a second"), count / (phase.to - phase.from));
    }
    for step in list(&results["steps"]) {
        let (name, last) =
            (step["name"].as_str().unwrap_or_default(), number(&step["last_done_at"]));
        let is_counted = counts.iter().any(|(counted, _)| counted == name);
        if is_counted && last > phase.from && last <= phase.to {
            add(format!("{name}, last done, s"), last - phase.from);
        }
    }
    let Some(last) = seconds.last() else { return };
    let connected = number(&last["connected"]);
    // Users of HTTP have no websocket.
    let users = if connected > 0.0 { connected } else { number(&last["users"]) };
    add("users".to_owned(), users);
    if users > 0.0 {
        for (name, bytes) in [
            ("memory of the server for each user, bytes", phase.memory.server),
            ("memory of the kernel for each connection, bytes", phase.memory.kernel),
        ] {
            bytes.into_iter().for_each(|bytes| add(name.to_owned(), bytes / users));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::phases::{Memory, Totals};
    use super::*;

    fn results() -> Value {
        let times = json!({ "p50": 0.5, "p99": 0.9, "max": 2.0 });
        let second = |started: u64, deliveries: u64, joins: u64, connected: u64| {
            json!({
                "counts": { "started": started, "deliveries": deliveries }, "connected": connected,
                "users": connected, "steps": { "join": { "count": joins } },
            })
        };
        json!({
            "start_lateness": times, "delivery": times,
            "steps": [{ "name": "join", "done": 40, "since_due": times, "unanswered": 2, "last_done_at": 1.5 }],
            "lost": 1, "connected_max": 40, "counters": { "in_order_missing": 6 },
            "errors": [{ "count": 3 }, { "count": 4 }],
            "counts": { "due": 40, "started": 39, "deliveries_due": 5 },
            "broadcasts": [{ "step": "push", "missing": 1, "times": times }],
            "seconds": [second(20, 0, 15, 20), second(20, 0, 25, 40), second(0, 80, 0, 40)],
        })
    }

    fn phase(name: &str, from: f64, to: f64, server: Duration) -> PhaseUse {
        let used = Totals {
            server,
            users: Duration::from_secs(1),
            backends: Some(Duration::from_micros(80)),
            backend_bytes: Some(800),
        };
        let memory = Memory { server: Some(8000.0), backends: None, kernel: Some(160_000.0) };
        let growth = Memory { server: Some(4000.0), backends: Some(400.0), kernel: None };
        PhaseUse { name: name.to_owned(), from, to, used: Some(used), memory, growth }
    }

    fn of(done: Vec<PhaseUse>) -> Measures {
        measures(&results(), Duration::from_secs(2), &done)
    }

    #[test]
    fn the_figures_of_a_load_have_names() {
        let measures = of(Vec::new());
        for (name, value) in [
            ("load: join, p99, s", 0.9),
            ("load: join, longest, s", 2.0),
            ("load: join, unanswered", 2.0),
            ("load: join, last done, s", 1.5),
            ("load: join, done", 40.0),
            ("load: lost messages", 1.0),
            ("load: in_order_missing", 6.0),
            ("load: connected at the same time", 40.0),
            ("load: errors", 7.0),
            ("load: users that did not start", 1.0),
            ("load: CPU-seconds of the users", 2.0),
            ("load: push, last receiver, median, s", 2.0),
            ("load: push, missing receivers", 1.0),
        ] {
            assert_eq!(measures[name], value, "{name}");
        }
    }

    #[test]
    fn a_phase_has_the_counts_of_its_seconds() {
        let measures = of(vec![
            phase("arrive", 0.0, 2.0, Duration::from_micros(800)),
            phase("talk", 2.0, 3.0, Duration::from_micros(160)),
        ]);
        for (name, value) in [
            ("load: arrive: CPU of the server for each started user, us", 20.0),
            ("load: arrive: CPU of the server for each join, us", 20.0),
            ("load: arrive: join, a second", 20.0),
            ("load: arrive: join, last done, s", 1.5),
            ("load: arrive: users", 40.0),
            ("load: arrive: memory of the server for each user, bytes", 200.0),
            ("load: arrive: memory of the kernel for each connection, bytes", 4000.0),
            ("load: talk: CPU of the server for each delivery, us", 2.0),
            ("load: talk: CPU of the backends for each delivery, us", 1.0),
            ("load: talk: bytes with the backends for each delivery", 10.0),
            ("load: arrive: growth of the memory of the server for each join, bytes", 100.0),
            ("load: arrive: growth of the memory of the backends for each join, bytes", 10.0),
            ("load: talk: delivery, a second", 80.0),
        ] {
            assert_eq!(measures[name], value, "{name}");
        }
        assert!(!measures.contains_key("load: talk: join, a second"), "nobody joined");
    }

    #[test]
    fn a_phase_after_the_last_second_has_no_counts() {
        let measures = of(vec![phase("late", 7.0, 9.0, Duration::ZERO)]);
        assert!(!measures.contains_key("load: late: users"));
    }
}
