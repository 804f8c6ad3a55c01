//! The page: targets, tables, picture and method.

use std::time::Duration;

use serde_json::Value;

use super::cases::Delivery;
use super::system::System;
use super::{Broadcasts, MACHINES, Measured, NAME, ROOM_MEMBERS, Rounds, Settings};
use crate::report::{BenchmarkReport, Table, Target, median};
use watchfire_lab::machine::today;
use watchfire_lab::machine::{Machine, commit};
use watchfire_report::units::number;
use watchfire_report::{Bar, Chart, Panel};

/// Most CPU time of a delivery on three machines, compared with one machine.
const BROADCAST_RATIO_MAX: f64 = 1.05;
/// The causes of missed targets, written by hand after a profile.
const CAUSES: &str = include_str!("causes.md");

pub struct Results<'a> {
    pub settings: &'a Settings,
    pub machine: Machine,
    pub versions: String,
    /// The share of the machine that other programs used.
    pub others_share: f64,
    pub took: Duration,
    pub rounds: &'a Rounds,
}

/// Medians of one system; `NaN` where nothing was measured.
struct Medians {
    system: System,
    topics: Delivery,
    crowd: Delivery,
    /// Bytes of a topic: in one machine, and in the engine.
    topic: (f64, f64),
    /// Bytes of one of three presence entries of a topic: in one machine, and in the engine.
    entry: (f64, f64),
    joined: f64,
    exact: Option<f64>,
    return_micros: f64,
}

impl Medians {
    fn of(system: System, measured: &Measured) -> Self {
        let memory = &measured.memory;
        let topic =
            (median_of(memory, |memory| memory.machine), median_of(memory, |memory| memory.engine));
        let with_presence = &measured.presence_memory;
        // A topic has an entry for its member on each machine.
        let each = |with: f64, without: f64| (with - without) / MACHINES as f64;
        let entry = (
            each(median_of(with_presence, |memory| memory.machine), topic.0),
            each(median_of(with_presence, |memory| memory.engine), topic.1),
        );
        let exact: Vec<f64> =
            measured.killed.iter().filter_map(|killed| killed.exact_seconds).collect();
        Medians {
            system,
            topics: median_delivery(&measured.topics),
            crowd: median_delivery(&measured.crowd),
            topic,
            entry,
            joined: median_of(&measured.killed, |killed| killed.joined_seconds),
            exact: (!exact.is_empty()).then(|| median(exact)),
            return_micros: median_of(&measured.killed, |killed| killed.return_micros),
        }
    }

    /// Bytes of a topic on all machines and in the engine.
    fn topic_everywhere(&self) -> f64 {
        self.topic.0 * MACHINES as f64 + self.topic.1
    }

    fn entry_everywhere(&self) -> f64 {
        self.entry.0 * MACHINES as f64 + self.entry.1
    }
}

fn median_of<T>(values: &[T], value: impl Fn(&T) -> f64) -> f64 {
    median(values.iter().map(value).collect())
}

fn median_delivery(deliveries: &[Delivery]) -> Delivery {
    Delivery {
        server_micros: median_of(deliveries, |one| one.server_micros),
        engine_micros: median_of(deliveries, |one| one.engine_micros),
        engine_bytes: median_of(deliveries, |one| one.engine_bytes),
    }
}

impl Results<'_> {
    pub fn raw(&self) -> Value {
        let systems = self.rounds.measured.iter();
        let systems: serde_json::Map<String, Value> =
            systems.map(|(system, measured)| (system.key(), serde_json::json!(measured))).collect();
        serde_json::json!({
            "systems": systems,
            "broadcasts": self.rounds.broadcasts,
            "failures": self.rounds.failures,
        })
    }

    pub fn report(&self) -> BenchmarkReport {
        let medians = self.rounds.measured.iter().map(|(system, one)| Medians::of(*system, one));
        let medians: Vec<_> = medians.collect();
        let settings = self.settings;
        let is_whole = settings.percent >= 100.0
            && settings.only.is_empty()
            && self.rounds.failures.is_empty();
        let mut report = BenchmarkReport {
            benchmark: NAME.to_owned(),
            page: None,
            commit: commit(),
            title: "Three machines".to_owned(),
            is_whole,
            date: today(),
            machine: self.machine.sentence(),
            command: settings.command(),
            seconds: self.took.as_secs(),
            method: self.method(),
            targets: targets(&medians, &self.rounds.broadcasts),
            figures: Vec::new(),
            tables: self.tables(&medians),
            chart: chart(&medians, &self.machine),
        };
        report.figure("compared with", self.versions.clone());
        report.figure("rounds", self.rounds.rounds_done.to_string());
        let others = format!("{:.0} % of the machine", self.others_share * 100.0);
        report.figure("used by other programs meanwhile", others);
        for failure in &self.rounds.failures {
            let cause = failure.lines().next().unwrap_or_default().replace('|', " ");
            report.figure("did not run", cause);
        }
        report
    }

    fn tables(&self, medians: &[Medians]) -> Vec<Table> {
        let sizes = self.rounds.sizes;
        let count = |value: u32| number(f64::from(value), 0);
        let topics_title = format!(
            "A message to one of {} topics, with a member on each machine",
            count(sizes.topics)
        );
        let crowd_title =
            format!("A message to one topic with {} members on each machine", count(sizes.crowd));
        let mut tables = vec![
            delivery_table(&topics_title, medians, |one| one.topics),
            delivery_table(&crowd_title, medians, |one| one.crowd),
        ];
        let broadcasts = &self.rounds.broadcasts;
        if !broadcasts.machines.is_empty() && !broadcasts.alone.is_empty() {
            let all = number(f64::from(sizes.broadcast) * MACHINES as f64, 0);
            let row = |name: String, one: Delivery| {
                vec![name, micros(one.server_micros), micros(one.engine_micros), micros(one.both())]
            };
            let rows = vec![
                row(format!("{MACHINES} machines"), median_delivery(&broadcasts.machines)),
                row(
                    format!("one machine, {MACHINES} processes"),
                    median_delivery(&broadcasts.alone),
                ),
            ];
            let heads = ["Watchfire", "servers", "engine", "both"].map(str::to_owned).to_vec();
            let title = format!("CPU of a delivery, one message to {all} sockets");
            tables.push(Table { title, heads, rows });
        }
        tables.push(memory_table(medians));
        tables.push(Table {
            title: format!("A machine with {} clients is killed", count(sizes.killed)),
            heads: [
                "",
                "all joined on the other machines",
                "presence has all clients and no ghost",
                "CPU of a client that returns",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: medians
                .iter()
                .map(|one| {
                    let exact = one.exact.map_or("no presence".to_owned(), seconds);
                    vec![
                        one.system.to_string(),
                        seconds(one.joined),
                        exact,
                        micros(one.return_micros),
                    ]
                })
                .collect(),
        });
        tables
    }

    fn method(&self) -> Vec<String> {
        let sizes = self.rounds.sizes;
        let count = |value: u32| number(f64::from(value), 0);
        let mut method: Vec<String> = CAUSES
            .split("\n\n")
            .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|paragraph| !paragraph.is_empty())
            .collect();
        method.extend([
            format!(
                "A machine is one server process; {MACHINES} of them, the engine and the clients are on \
                 one real machine, in a network namespace. So CPU time contains the work of the \
                 kernel for the receiver. Bytes are reliable there. CPU times differ by a tenth and \
                 more between rounds when other programs use the machine, and times until something \
                 has happened differ most."
            ),
            "Each system has its default settings, except these. Watchfire: `cluster.nats`, two rules \
             with `publish = \"clients\"`, one of them with `presence = true`, a longer idle timeout, \
             and a higher limit of joins. Centrifugo: the NATS broker, or the Redis engine; \
             log level `error`. Socket.IO: WebSocket only, no compression, `NODE_ENV=production`, the \
             adapter for sharded Pub/Sub with a Redis channel for each room. Pings of the servers are \
             off. NATS is one server without a cluster. Redis writes nothing to disk."
                .into(),
            "Clients speak the JSON protocol of each system over plain WebSockets \
             (`bench/src/scale/client/wire.rs`), and are not counted. A message is a push of a client \
             with a JSON payload of 256 bytes. All members receive it, the sender too. Watchfire and \
             Centrifugo also answer the push. Centrifugo adds the id of the sender to each message. \
             Each member must receive each message once, or the run fails."
                .into(),
            format!(
                "*Topics*: {0} sockets on each machine; socket i is in topic i. The sockets of the \
                 first machine send one message after the other, 4,000 a second: one to each topic \
                 that is not counted, then two. *One topic*: a socket of the first machine sends {1} \
                 messages at 8 a second, after {2} that are not counted.",
                count(sizes.topics),
                sizes.crowd_messages,
                16.min(sizes.crowd_messages),
            ),
            format!(
                "*A message to many sockets*: {0} sockets on each of three processes, once as three \
                 machines with NATS, once as one machine with `--processes 3`. Each process has one \
                 event loop. {1} messages, one a second. The target names 300,000 sockets; the \
                 limit of open files of a process allows this many here.",
                count(sizes.broadcast),
                sizes.broadcast_messages,
            ),
            format!(
                "*Memory*: {} sockets on each machine join {} further topics each, the same ones on \
                 all machines. The growth of the proportional set size of all servers is divided by \
                 topics and machines, that of the engine by topics. Presence is the difference to a \
                 second run with presence, divided by the three entries of a topic. Watchfire keeps \
                 all three entries on each machine, and sends changes to the members. Centrifugo \
                 keeps them in Redis only; clients ask for them.",
                count(sizes.memory_sockets),
                sizes.memory_topics_each
            ),
            format!(
                "*A killed machine*: {} clients in rooms of {ROOM_MEMBERS}, and in each room one \
                 client of each other machine. The first machine gets SIGKILL. Its clients connect to \
                 the other machines after 10 ms, and retry like phoenix.js, with each system; the \
                 clients of Centrifugo and Socket.IO wait longer by themselves. Then the HTTP API of \
                 another machine is asked for the presence of all rooms until the sum is exact.",
                count(sizes.killed)
            ),
        ]);
        method
    }
}

fn delivery_table(title: &str, medians: &[Medians], of: fn(&Medians) -> Delivery) -> Table {
    let row = |one: &Medians| {
        let delivery = of(one);
        vec![
            one.system.to_string(),
            micros(delivery.server_micros),
            micros(delivery.engine_micros),
            micros(delivery.both()),
            bytes(delivery.engine_bytes),
        ]
    };
    let heads = [
        "CPU of a delivery",
        "servers",
        "engine",
        "both",
        "bytes between machines and engine, a message",
    ];
    Table {
        title: title.to_owned(),
        heads: heads.map(str::to_owned).to_vec(),
        rows: medians.iter().map(row).collect(),
    }
}

fn memory_table(medians: &[Medians]) -> Table {
    let heads = [
        "",
        "a topic, each machine",
        "a topic, engine",
        "a presence entry, each machine",
        "a presence entry, engine",
    ];
    let row = |one: &Medians| {
        let (machine, engine) = match one.system.has_presence() {
            true => (bytes(one.entry.0), bytes(one.entry.1)),
            false => ("no presence".to_owned(), "no presence".to_owned()),
        };
        vec![one.system.to_string(), bytes(one.topic.0), bytes(one.topic.1), machine, engine]
    };
    Table {
        title: "Memory".to_owned(),
        heads: heads.map(str::to_owned).to_vec(),
        rows: medians.iter().map(row).collect(),
    }
}

/// Watchfire beside each rival: every ratio should be at most 1.
fn targets(medians: &[Medians], broadcasts: &Broadcasts) -> Vec<Target> {
    let mut targets = Vec::new();
    if !broadcasts.machines.is_empty() && !broadcasts.alone.is_empty() {
        let [machines, alone] =
            [&broadcasts.machines, &broadcasts.alone].map(|one| median_delivery(one));
        let ratio = machines.both() / alone.both();
        let what = "CPU of a delivery of a broadcast, three machines against one";
        targets.push(Target::at_most(what, ratio, BROADCAST_RATIO_MAX, "x", 2));
    }
    let Some(ours) = medians.iter().find(|one| one.system == System::Watchfire) else {
        return targets;
    };
    let mut compare = |what: &str, rival: System, ours: f64, theirs: f64| {
        if !ours.is_finite() || !theirs.is_finite() {
            return; // one of them did not run
        }
        let what = format!("{what}, against {rival}");
        targets.push(Target::at_most(&what, ours / theirs, 1.0, "x", 2));
    };
    let rivals: Vec<_> = medians.iter().filter(|one| one.system != System::Watchfire).collect();
    for theirs in &rivals {
        let what = "CPU of a delivery, many topics";
        compare(what, theirs.system, ours.topics.both(), theirs.topics.both());
    }
    for theirs in &rivals {
        let what = "CPU of a delivery, one topic";
        compare(what, theirs.system, ours.crowd.both(), theirs.crowd.both());
    }
    for theirs in &rivals {
        let what = "bytes of a message to and from the engine, many topics";
        compare(what, theirs.system, ours.topics.engine_bytes, theirs.topics.engine_bytes);
    }
    for theirs in &rivals {
        let what = "memory of a topic, all machines and the engine";
        compare(what, theirs.system, ours.topic_everywhere(), theirs.topic_everywhere());
    }
    for theirs in rivals.iter().filter(|one| one.system.has_presence()) {
        let what = "memory of a presence entry, all machines and the engine";
        compare(what, theirs.system, ours.entry_everywhere(), theirs.entry_everywhere());
    }
    for theirs in &rivals {
        let what = "time until the clients of a killed machine are joined";
        compare(what, theirs.system, ours.joined, theirs.joined);
    }
    for theirs in &rivals {
        if let (Some(ours), Some(exact)) = (ours.exact, theirs.exact) {
            compare("time until presence has no ghost", theirs.system, ours, exact);
        }
    }
    targets
}

fn chart(medians: &[Medians], machine: &Machine) -> Chart {
    let bars = |of: fn(&Medians) -> Option<f64>| {
        let bars = medians.iter().filter_map(|one| Some((one.system, of(one)?)));
        let bars = bars.filter(|(_, value)| value.is_finite());
        bars.map(|(system, value)| Bar {
            name: system.to_string(),
            colour: system.colour(),
            value,
            limit: None,
        })
        .collect()
    };
    let panel = |title: &str, decimals: usize, of: fn(&Medians) -> Option<f64>| Panel::Bars {
        title: title.to_owned(),
        decimals,
        bars: bars(of),
    };
    Chart {
        label: "Three machines: CPU of a delivery, memory of a topic, and a killed machine".into(),
        panels: vec![
            panel("CPU of a delivery, many topics, servers and engine (us)", 1, |one| {
                Some(one.topics.both())
            }),
            panel("CPU of a delivery, one topic, servers and engine (us)", 1, |one| {
                Some(one.crowd.both())
            }),
            panel("Memory of a topic on three machines and the engine (bytes)", 0, |one| {
                Some(one.topic_everywhere())
            }),
            panel(
                "Memory of a presence entry on three machines and the engine (bytes)",
                0,
                |one| one.system.has_presence().then(|| one.entry_everywhere()),
            ),
            panel("A machine is killed: seconds until all clients are joined", 1, |one| {
                Some(one.joined)
            }),
            panel("A machine is killed: seconds until presence is exact", 1, |one| one.exact),
        ],
        notes: vec![machine.sentence()],
    }
}

fn micros(value: f64) -> String {
    cell(value, 2, "us")
}

fn seconds(value: f64) -> String {
    cell(value, 1, "s")
}

fn bytes(value: f64) -> String {
    cell(value, 0, "B")
}

fn cell(value: f64, decimals: usize, unit: &str) -> String {
    if value.is_nan() {
        return "did not run".to_owned();
    }
    format!("{} {unit}", number(value, decimals))
}

#[cfg(test)]
mod tests {
    use super::super::cases::{Killed, TopicMemory};
    use super::*;

    #[test]
    fn an_entry_is_a_third_of_what_presence_adds_to_a_topic() {
        let memory = |machine, engine| vec![TopicMemory { machine, engine }];
        let delivery = Delivery { server_micros: 3.0, engine_micros: 1.0, engine_bytes: 900.0 };
        let killed = Killed { joined_seconds: 2.0, exact_seconds: Some(6.0), return_micros: 30.0 };
        let measured = Measured {
            topics: vec![delivery],
            crowd: vec![delivery],
            memory: memory(400.0, 100.0),
            presence_memory: memory(1_000.0, 100.0),
            killed: vec![killed],
        };
        let ours = Medians::of(System::Watchfire, &measured);
        assert!((ours.entry.0 - 200.0).abs() < 1e-9 && ours.entry.1.abs() < 1e-9);
        assert!((ours.topic_everywhere() - 1_300.0).abs() < 1e-9);

        let theirs = Medians::of(System::CentrifugoRedis, &measured);
        let targets = targets(&[ours, theirs], &Broadcasts::default());
        assert_eq!(targets.len(), 7);
        assert!(targets.iter().all(|target| (target.value - 1.0).abs() < 1e-9));
    }
}
