//! `make bench-recovery`: clients that were cut off get the messages that they missed.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::MACHINES;
use super::clients::{Bench, FIRST_SOURCE};
use super::machines::Machines;
use super::system::{KEPT, System};
use crate::report::{BenchmarkReport, Table, Target};
use crate::scale::clock::now_ns;
use crate::scale::orders::Order;
use watchfire_lab::machine::today;
use watchfire_lab::machine::{Machine, commit};
use watchfire_report::units::number;
use watchfire_report::{Bar, Chart, Panel};

pub const NAME: &str = "recovery";
const CLIENTS: f64 = 10_000.0;
const TOPICS: u32 = 100;
/// Interval of the messages: 100 a second, to one topic after the other.
const EVERY: Duration = Duration::from_millis(10);
/// Messages to each topic.
const ROUNDS: u32 = 60;
/// When the clients are cut off, and for how long. They come back evenly spread over a period.
const BEFORE: Duration = Duration::from_secs(10);
const AWAY: Duration = Duration::from_secs(30);
const SPREAD: Duration = Duration::from_secs(5);
/// How long after the cut a machine is killed.
const KILLED_AFTER: Duration = Duration::from_secs(5);
/// The number of the publishers' source address; those of the clients are below it.
const PUBLISHER_SOURCE: u8 = 15;
const RETURN_TIMEOUT: Duration = Duration::from_secs(120);
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Watchfire on one machine.
    One,
    /// Three machines, one of which is killed while the clients are away.
    Three(System),
}

impl Place {
    pub const ALL: [Place; 3] =
        [Place::One, Place::Three(System::Watchfire), Place::Three(System::CentrifugoRedis)];

    fn system(self) -> System {
        match self {
            Place::One => System::Watchfire,
            Place::Three(system) => system,
        }
    }

    pub fn name(self) -> String {
        match self {
            Place::One => "Watchfire, one machine".to_owned(),
            Place::Three(system) => format!("{system}, three machines, one killed"),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recovered {
    pub clients: u64,
    /// Messages that all clients together should receive.
    pub expected: u64,
    pub received: u64,
    pub missed: u64,
    pub duplicates: u64,
    /// Clients to which the server promised all messages that they missed.
    pub recovered: u64,
    /// Seconds from the end of the cut until all clients had joined. They come back over five of them.
    pub joined_seconds: f64,
    /// CPU time of servers and engine for each client until then, in microseconds.
    pub client_micros: f64,
}

impl Bench<'_> {
    /// Clients are cut off while messages are sent; on three machines, one of them is killed.
    pub fn recovery(&self, place: Place, percent: f64) -> Result<Recovered> {
        let mut machines = match place {
            Place::One => Machines::start_alone(self.programs, 1, &[])?,
            Place::Three(system) => Machines::start(self.programs, system, MACHINES as u16, &[])?,
        };
        let recovered = self.recover(&mut machines, place, percent);
        recovered.map_err(|error| machines.with_log(&error))
    }

    fn recover(&self, machines: &mut Machines, place: Place, percent: f64) -> Result<Recovered> {
        let wire = place.system().wire();
        let homes = machines.addresses().len();
        let all = (CLIENTS * percent / 100.0).round().max(1.0) as u32;
        let counts = std::array::from_fn(|home| {
            let (home, homes) = (home as u32, homes as u32);
            if home < homes { all * (home + 1) / homes - all * home / homes } else { 0 }
        });
        let publishing = [TOPICS, 0, 0];
        let mut publishers =
            self.enter_each(machines, wire, KEPT, publishing, TOPICS, PUBLISHER_SOURCE)?;
        let mut clients = self.enter_each(machines, wire, KEPT, counts, TOPICS, FIRST_SOURCE)?;
        let (count, name) = (u64::from(all), place.name());
        let expected = count * u64::from(ROUNDS);
        publishers.send_all(&Order::Publish {
            slots: TOPICS,
            messages: TOPICS * ROUNDS,
            every_ns: EVERY.as_nanos() as u64,
        })?;
        self.progress.show(&format!("{name}: messages"));
        thread::sleep(BEFORE);
        self.progress.show(&format!("{name}: {count} clients are cut off"));
        let back_at_ns = now_ns() + AWAY.as_nanos() as u64;
        let (away_ns, spread_ns) = (AWAY.as_nanos() as u64, SPREAD.as_nanos() as u64);
        clients.send_all(&Order::Interrupt { away_ns, spread_ns })?;
        thread::sleep(KILLED_AFTER);
        if homes > 1 {
            machines.kill(homes - 1)?;
        }
        thread::sleep(AWAY - KILLED_AFTER);
        let before = machines.usage()?;
        let joins = count * 2;
        let status = clients.wait_for(RETURN_TIMEOUT, |status| {
            self.progress.show(&format!("{name}: {} of {count} are back", status.present));
            status.present == count && status.joins >= joins
        })?;
        let usage = machines.usage()?.since(before);
        let joined_seconds = status.present_at_ns.saturating_sub(back_at_ns) as f64 / 1e9;
        // A client that lost messages ends the wait with the time limit.
        let done = clients.wait_for(RECEIVE_TIMEOUT, |status| {
            self.progress.show(&format!("{name}: {} of {expected} messages", status.received));
            status.received >= expected
        });
        let status = done.or_else(|_| clients.status())?;
        clients.close()?;
        publishers.close()?;
        let cpu = (usage.servers + usage.engine).as_secs_f64();
        Ok(Recovered {
            clients: count,
            expected,
            received: status.received,
            missed: status.missed + expected.saturating_sub(status.received + status.missed),
            duplicates: status.duplicates,
            recovered: status.recovered,
            joined_seconds,
            client_micros: cpu * 1e6 / count as f64,
        })
    }
}

/// The page about all places that ran.
pub fn report(
    results: &[(Place, Recovered)],
    machine: &Machine,
    versions: &str,
    percent: f64,
    seconds: u64,
) -> BenchmarkReport {
    let mut targets = Vec::new();
    for (place, one) in results.iter().filter(|(place, _)| place.system() == System::Watchfire) {
        let name = place.name();
        let missed = (one.missed + one.duplicates) as f64;
        targets.push(Target::at_most(
            &format!("{name}: messages lost or received twice"),
            missed,
            0.0,
            "",
            0,
        ));
        targets.push(Target::at_least(
            &format!("{name}: clients that recovered"),
            one.recovered as f64,
            one.clients as f64,
            "",
            0,
        ));
    }
    let heads = [
        "",
        "messages to all clients",
        "missing",
        "twice",
        "clients recovered",
        "all joined after the cut",
        "CPU of a client that returns",
    ];
    let rows = results.iter().map(|(place, one)| {
        vec![
            place.name(),
            number(one.expected as f64, 0),
            number(one.missed as f64, 0),
            number(one.duplicates as f64, 0),
            number(one.recovered as f64, 0),
            format!("{} s", number(one.joined_seconds, 1)),
            format!("{} us", number(one.client_micros, 0)),
        ]
    });
    let command = match percent < 100.0 {
        true => format!("make bench-recovery ARGS=\"--percent {percent}\""),
        false => "make bench-recovery".to_owned(),
    };
    let mut report = BenchmarkReport {
        benchmark: NAME.to_owned(),
        page: None,
        commit: commit(),
        title: "Ten thousand clients that were cut off".to_owned(),
        is_whole: percent >= 100.0 && results.len() == Place::ALL.len(),
        date: today(),
        machine: machine.sentence(),
        command,
        seconds,
        method: method(),
        targets,
        figures: Vec::new(),
        tables: vec![Table {
            title: "Thirty seconds without a network".to_owned(),
            heads: heads.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }],
        chart: chart(results, machine),
    };
    report.figure("compared with", versions.to_owned());
    report
}

fn method() -> Vec<String> {
    vec![
        format!(
            "Clients join {TOPICS} topics with a history, in equal parts. For {} s, 100 messages a \
             second of 256 bytes go to the topics in turn. After {} s, all clients close their \
             connections without a word. They connect again {} s later, spread over {} s, and send the \
             position of the last message that they received. The publishers stay connected.",
            ROUNDS,
            BEFORE.as_secs(),
            AWAY.as_secs(),
            SPREAD.as_secs()
        ),
        format!(
            "With three machines, the last one gets SIGKILL {} s after the cut. Its clients go to the \
             others. Retries are those of phoenix.js.",
            KILLED_AFTER.as_secs()
        ),
        "Messages of a topic are numbered. A client must receive each number once and in order: from \
         its first join, over the cut, to the end."
            .to_owned(),
        "On one machine, Watchfire keeps histories in memory (`history = { messages = 1000, age = \"2m\", \
         bytes = \"1MiB\" }`). On three, JetStream of one NATS server stores them in files. Centrifugo keeps them in Redis (`history_size` 1,000, \
         `history_ttl` 120 s, `force_recovery`), and sends all missed messages of a topic in the answer \
         to the join. Ably documents that its clients recover after at most two minutes; here the rule \
         decides."
            .to_owned(),
    ]
}

fn chart(results: &[(Place, Recovered)], machine: &Machine) -> Chart {
    let bars = |of: fn(&Recovered) -> f64| {
        let bar = |(place, one): &(Place, Recovered)| Bar {
            name: place.name(),
            colour: place.system().colour(),
            value: of(one),
            limit: None,
        };
        results.iter().map(bar).collect()
    };
    Chart {
        label: "Clients that were cut off: time until they are back, and CPU of each".into(),
        panels: vec![
            Panel::Bars {
                title: "Seconds from the end of the cut until all clients are joined".into(),
                decimals: 1,
                bars: bars(|one| one.joined_seconds),
            },
            Panel::Bars {
                title: "CPU of servers and engine for a client that returns (us)".into(),
                decimals: 0,
                bars: bars(|one| one.client_micros),
            },
        ],
        notes: vec![machine.sentence()],
    }
}
