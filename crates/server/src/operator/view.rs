//! The calls that the operator's page makes, and how each process answers them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use watchfire_types::{NodeId, ShardId};

use super::denied_addresses::DeniedAddresses;
use super::machines::{Machine, Machines};
use super::metrics_page::MetricsPage;
use super::record::{Column, Event, History, ProcessFigures, Row, Step, SystemFigures};
use super::troubles::{TroubleMetrics, Watch};
use crate::channel_api::{
    ClientId, ConnectionId, ConnectionQuery, Endpoint, FoundConnections, ShardAnswer,
    ShardQuestion, WatchAnswer,
};
use crate::cluster::{ClusterPart, PartLink, PendingResponse};
use crate::logging;
use crate::settings::Limits;
use crate::unix_time;

/// How long the shards of this process have to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The parts of the server that the operator's view reads.
pub(crate) struct OperatorParts {
    pub link: PartLink,
    pub endpoint: Endpoint,
    pub metrics_page: Arc<MetricsPage>,
    pub troubles: Arc<TroubleMetrics>,
    pub denied_addresses: Arc<DeniedAddresses>,
    pub limits: Limits,
    /// `channels.history_bytes_max`.
    pub history_bytes_max: u64,
    /// Whether this process replaces one of an earlier server.
    pub is_successor: bool,
}

/// The operator's view of this process, and on the first process of a machine its record.
pub(crate) struct OperatorView {
    pub(super) link: PartLink,
    endpoint: Endpoint,
    pub(super) metrics_page: Arc<MetricsPage>,
    pub(super) troubles: Arc<TroubleMetrics>,
    pub(super) denied_addresses: Arc<DeniedAddresses>,
    pub(super) limits: Limits,
    history_bytes_max: u64,
    started_ms: u64,
    own_machine: Machine,
    machines: Mutex<Machines>,
    /// Processes of this machine that are gone.
    lost: Mutex<BTreeSet<NodeId>>,
    pub(super) recorded: Mutex<Recorded>,
}

/// The record of a machine. Empty in a process that does not record.
#[derive(Default)]
pub(super) struct Recorded {
    pub history: History,
    pub watch: Watch,
    pub processes: BTreeMap<u16, ProcessFigures>,
    pub missing: Vec<u16>,
    pub system: SystemFigures,
}

/// A call to one process. The answer is JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Call {
    State,
    History {
        step: Step,
        after: u64,
    },
    Events {
        after: u64,
    },
    Connections(ConnectionQuery),
    Connection {
        shard: u16,
        client: ClientId,
    },
    EndConnection {
        shard: u16,
        client: ClientId,
    },
    /// The messages of a connection after a number, and whether to keep payloads from now on.
    WatchConnection {
        shard: u16,
        client: ClientId,
        after: u64,
        payloads: Option<bool>,
    },
    /// End clients of an address, on each shard at most so many.
    EndAddress {
        address: IpAddr,
        count: usize,
    },
    Topics {
        prefix: String,
        count: usize,
    },
    /// Add an event to the history.
    Note {
        kind: String,
        text: String,
    },
    /// Change the level of the log.
    SetLogLevel {
        level: String,
    },
}

/// The figures of one process, as the page shows them.
#[derive(Serialize)]
struct ProcessView<'a> {
    process: u16,
    uptime_seconds: f64,
    #[serde(flatten)]
    figures: &'a ProcessFigures,
}

/// A limit, and how much of it is used.
#[derive(Serialize)]
struct LimitView {
    name: &'static str,
    used: f64,
    max: f64,
    unit: &'static str,
    setting: &'static str,
}

impl OperatorView {
    pub fn new(parts: OperatorParts) -> Self {
        let OperatorParts {
            link,
            endpoint,
            metrics_page,
            troubles,
            denied_addresses,
            limits,
            history_bytes_max,
            is_successor,
        } = parts;
        let own_machine = Machine {
            name: host_name(),
            first: link.cluster().of_machine().start,
            processes: link.cluster().of_machine().len() as u16,
        };
        let mut machines = Machines::default();
        machines.insert(own_machine.clone());
        let operator = OperatorView {
            link,
            endpoint,
            metrics_page,
            troubles,
            denied_addresses,
            limits,
            history_bytes_max,
            started_ms: unix_time::now_ms(),
            own_machine,
            machines: Mutex::new(machines),
            lost: Mutex::default(),
            recorded: Mutex::default(),
        };
        if operator.records() {
            operator.troubles.set(&[]);
        }
        let version = env!("CARGO_PKG_VERSION");
        match is_successor {
            true => operator.note("restart", &format!("Version {version} replaced the server")),
            false => operator.note("start", &format!("Version {version} started")),
        }
        operator
    }

    /// Whether this process records.
    pub fn records(&self) -> bool {
        self.link.cluster().is_first_of_machine()
    }

    /// Adds an event to the history of this machine, which its first process has.
    pub(super) async fn note_for_machine(&self, kind: &str, text: String) {
        let call = Call::Note { kind: kind.to_owned(), text };
        self.call(self.own_machine.recorder(), &call).await;
    }

    /// Adds an event to the history of this process.
    pub(super) fn note(&self, kind: &str, text: &str) {
        let time_ms = unix_time::now_ms();
        let event = Event { time_ms, kind: kind.to_owned(), text: text.to_owned() };
        self.recorded.lock().history.add_event(event);
    }

    /// The machine with a name; this one for an empty name.
    pub(super) fn machine(&self, name: &str) -> Option<Machine> {
        match name {
            "" => Some(self.own_machine.clone()),
            _ => self.machines.lock().find(name).cloned(),
        }
    }

    /// Calls one process. `None`: it does not answer.
    pub(super) async fn call(&self, node: NodeId, call: &Call) -> Option<String> {
        if node != self.link.cluster().me() {
            return self.link.request(node, call).await;
        }
        let (sender, answer) = oneshot::channel();
        self.answer(call, move |text| drop(sender.send(text)));
        tokio::time::timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok()?
    }

    /// Calls all processes of a machine at the same time. Those that do not answer are missing.
    pub(super) async fn call_all(self: &Arc<Self>, machine: &Machine, call: &Call) -> Vec<String> {
        let (cluster, me) = (self.link.cluster(), self.link.cluster().me());
        let is_up = |node: &NodeId| *node == me || cluster.is_up(*node);
        self.call_each(machine.nodes().filter(is_up), call).await
    }

    /// Calls the processes of all machines at the same time. Those that do not answer are missing.
    pub(super) async fn call_everywhere(self: &Arc<Self>, call: &Call) -> Vec<String> {
        let cluster = self.link.cluster();
        let others: Vec<NodeId> = cluster.others().map(|(node, _)| node).collect();
        self.call_each(others.into_iter().chain([cluster.me()]), call).await
    }

    async fn call_each(
        self: &Arc<Self>,
        nodes: impl Iterator<Item = NodeId>,
        call: &Call,
    ) -> Vec<String> {
        let mut calls = JoinSet::new();
        for node in nodes {
            let (operator, call) = (self.clone(), call.clone());
            calls.spawn(async move { operator.call(node, &call).await });
        }
        calls.join_all().await.into_iter().flatten().collect()
    }

    /// Answers a call, at once or from another thread. `None`: a shard is too busy.
    fn answer(&self, call: &Call, reply: impl FnOnce(Option<String>) + Send + 'static) {
        match call {
            Call::State => reply(Some(self.state())),
            Call::History { step, after } => reply(Some(self.history(*step, *after))),
            Call::Events { after } => {
                let recorded = self.recorded.lock();
                let events: Vec<&Event> = recorded.history.events_after(*after).collect();
                reply(Some(json!({ "events": events }).to_string()));
            }
            Call::Connections(query) => {
                let limit = query.limit;
                let question = ShardQuestion::Connections(query.clone());
                self.endpoint.ask_shards(question, move |answers| {
                    reply(answers.map(|answers| found_json(answers, limit)));
                });
            }
            Call::Connection { shard, client } => {
                let question =
                    ShardQuestion::Connection { shard: ShardId(*shard), client: *client };
                self.endpoint.ask_shards(question, |answers| {
                    reply(answers.map(|answers| found_json(answers, 1)));
                });
            }
            Call::EndConnection { shard, client } => {
                let question =
                    ShardQuestion::EndConnection { shard: ShardId(*shard), client: *client };
                self.endpoint.ask_shards(question, |answers| {
                    reply(answers.map(|answers| ended(answers).to_string()));
                });
            }
            Call::WatchConnection { shard, client, after, payloads } => {
                let question = ShardQuestion::WatchConnection {
                    shard: ShardId(*shard),
                    client: *client,
                    after: *after,
                    payloads: *payloads,
                };
                self.endpoint.ask_shards(question, |answers| {
                    reply(answers.map(|answers| json!(watched(answers)).to_string()));
                });
            }
            Call::EndAddress { address, count } => {
                let question = ShardQuestion::EndAddress { address: *address, count: *count };
                self.endpoint.ask_shards(question, |answers| {
                    reply(answers.map(|answers| ended(answers).to_string()));
                });
            }
            Call::Note { kind, text } => {
                self.note(kind, text);
                reply(Some("{}".to_owned()));
            }
            Call::SetLogLevel { level } => {
                let error = logging::set_level(level).err().map(|error| error.to_string());
                if error.is_none() {
                    tracing::info!(level, "the operator changed the level of the log");
                }
                reply(Some(json!({ "error": error }).to_string()));
            }
            Call::Topics { prefix, count } => {
                let (prefix, count) = (prefix.clone(), *count);
                let question = ShardQuestion::LargestTopics { prefix, count };
                self.endpoint.ask_shards(question, |answers| {
                    reply(answers.map(|answers| json!(topics(answers)).to_string()));
                });
            }
        }
    }

    fn state(&self) -> String {
        let recorded = self.recorded.lock();
        let now_ms = unix_time::now_ms();
        let processes = recorded.processes.iter().map(|(process, figures)| ProcessView {
            process: process - self.own_machine.first.min(*process),
            uptime_seconds: (now_ms as f64 / 1_000.0 - figures.started_at).max(0.0),
            figures,
        });
        let processes: Vec<ProcessView<'_>> = processes.collect();
        let latest = recorded.history.latest();
        let latest: Option<BTreeMap<&str, Option<f64>>> = latest.map(|row| {
            Column::ALL.iter().map(|column| (column.name(), row.get(*column))).collect()
        });
        let machines = self.machines.lock();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "now_ms": now_ms,
            "started_ms": self.started_ms,
            "machine": machines.name_of(&self.own_machine),
            "machines": machines.names(),
            "processes": processes,
            "missing_processes": recorded.missing,
            "limits": self.limits_of(&recorded),
            "troubles": recorded.watch.troubles(),
            "latest": latest,
            "log_level": logging::level(),
        })
        .to_string()
    }

    fn limits_of(&self, recorded: &Recorded) -> Vec<LimitView> {
        let latest = recorded.history.latest();
        let of = |column| latest.and_then(|row: &Row| row.get(column));
        let limit = |name, used: Option<f64>, max: Option<f64>, unit, setting| {
            let (used, max) = used.zip(max).filter(|(_, max)| *max > 0.0)?;
            Some(LimitView { name, used, max, unit, setting })
        };
        let fullest = recorded.processes.values().max_by(|one, other| {
            let share = |figures: &ProcessFigures| figures.open_fds / figures.max_fds.max(1.0);
            share(one).total_cmp(&share(other))
        });
        let system = &recorded.system;
        let used = |max: Option<u64>, available: Option<u64>| {
            max.zip(available).map(|(max, available)| max.saturating_sub(available) as f64)
        };
        let of_system = |value: Option<u64>| value.map(|value| value as f64);
        let limits = [
            limit(
                "connections",
                of(Column::Connections),
                of(Column::ConnectionsMax),
                "",
                "limits.sockets_max",
            ),
            limit(
                "open files of a process",
                fullest.map(|figures| figures.open_fds),
                fullest.map(|figures| figures.max_fds),
                "",
                "",
            ),
            limit(
                "memory",
                used(system.memory_max_bytes, system.memory_available_bytes),
                of_system(system.memory_max_bytes),
                "bytes",
                "",
            ),
            limit("busiest event loop", of(Column::BusyMax), Some(1.0), "share", "server.shards"),
            limit(
                "queue of a client",
                of(Column::QueuedBytesMax),
                Some(self.limits.queued_bytes_max as f64),
                "bytes",
                "limits.queued_bytes_max",
            ),
            limit(
                "kept messages",
                of(Column::HistoryBytes),
                Some(self.history_bytes_max as f64),
                "bytes",
                "channels.history_bytes_max",
            ),
            limit(
                "disk",
                used(system.disk_max_bytes, system.disk_available_bytes),
                of_system(system.disk_max_bytes),
                "bytes",
                "",
            ),
        ];
        limits.into_iter().flatten().collect()
    }

    fn history(&self, step: Step, after_ms: u64) -> String {
        use std::fmt::Write;

        let recorded = self.recorded.lock();
        let columns: Vec<&str> = Column::ALL.iter().map(|column| column.name()).collect();
        let mut text =
            format!("{{\"step_ms\":{},\"columns\":{},\"rows\":[", step.millis(), json!(columns));
        for (index, row) in recorded.history.rows_after(step, after_ms).enumerate() {
            if index > 0 {
                text.push(',');
            }
            write!(text, "[{}", row.time_ms).expect("writing into a String cannot fail");
            for value in &row.values {
                let is_known = value.is_finite();
                if is_known { write!(text, ",{value}") } else { write!(text, ",null") }
                    .expect("writing into a String cannot fail");
            }
            text.push(']');
        }
        text.push_str("]}");
        text
    }
}

/// The connections that the shards of a process have found, as JSON.
fn found_json(answers: Vec<ShardAnswer>, limit: usize) -> String {
    let parts = answers.into_iter().filter_map(|answer| match answer {
        ShardAnswer::Connections(found) => Some(found),
        _ => None,
    });
    let found = FoundConnections::merged(parts, limit);
    serde_json::to_string(&found).expect("connections have a JSON form")
}

fn topics(answers: Vec<ShardAnswer>) -> Vec<(String, u64)> {
    let topics = answers.into_iter().flat_map(|answer| match answer {
        ShardAnswer::Topics(topics) => topics,
        _ => Vec::new(),
    });
    topics.collect()
}

fn ended(answers: Vec<ShardAnswer>) -> u64 {
    let count = |answer| match answer {
        ShardAnswer::Count(count) => count,
        _ => 0,
    };
    answers.into_iter().map(count).sum()
}

/// The answer of the shard that has the connection.
fn watched(answers: Vec<ShardAnswer>) -> WatchAnswer {
    let mut answers = answers.into_iter().filter_map(|answer| match answer {
        ShardAnswer::Watch(WatchAnswer::Gone) => None,
        ShardAnswer::Watch(answer) => Some(answer),
        _ => None,
    });
    answers.next().unwrap_or(WatchAnswer::Gone)
}

/// A call about one connection: the process to call, the details, and the end.
pub(super) fn calls_about(id: ConnectionId) -> (NodeId, Call, Call) {
    let (shard, client) = (id.shard.0, id.client);
    (id.node, Call::Connection { shard, client }, Call::EndConnection { shard, client })
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl ClusterPart for OperatorView {
    fn link(&self) -> &PartLink {
        &self.link
    }

    /// The recorder of another machine names its machine.
    fn receive(&self, _: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        let machine: Machine = postcard::from_bytes(message)?;
        let name = machine.name.clone();
        if self.machines.lock().insert(machine) {
            self.note("machine_joined", &format!("Machine {name} joined"));
        }
        Ok(())
    }

    fn node_up(&self, node: NodeId) {
        if self.records() && !self.own_machine.nodes().any(|own| own == node) {
            self.link.send_state(node, &self.own_machine);
        }
        if self.lost.lock().remove(&node) {
            let slot = node.0 - self.own_machine.first;
            self.note("process_up", &format!("Process {slot} serves again"));
        }
    }

    fn node_down(&self, node: NodeId) {
        if self.own_machine.nodes().any(|own| own == node) {
            self.lost.lock().insert(node);
            let slot = node.0 - self.own_machine.first;
            self.note("process_lost", &format!("Process {slot} is gone, with its clients"));
        }
        let gone = self.machines.lock().remove(node);
        if let Some(machine) = gone {
            self.note("machine_lost", &format!("Machine {} is gone", machine.name));
        }
    }

    fn take_request(&self, request: &[u8], response: PendingResponse) {
        match postcard::from_bytes::<Call>(request) {
            Ok(call) => self.answer(&call, move |answer| {
                if let Some(text) = answer {
                    response.send(&text);
                }
            }),
            Err(error) => tracing::error!(%error, "cannot decode a call of the operator"),
        }
    }
}

/// Samples of the calls, and of the answers that other processes read.
#[cfg(test)]
pub(crate) fn message_samples() -> Vec<crate::cluster::Samples> {
    use crate::channel_api::{
        ConnectionOrder, ConnectionTransport, Direction, FoundConnection, FoundConnections,
        TcpFigures, WatchAnswer, WatchedMessage, WatchedMessages,
    };
    use crate::cluster::samples;
    let client = ClientId::Socket { slot: 1, generation: 2 };
    let session = ClientId::LongPoll { key: 1, generation: 2 };
    let query = ConnectionQuery {
        sort: ConnectionOrder::Channels,
        limit: 3,
        transport: Some(ConnectionTransport::Longpoll),
        address: "a".into(),
        topic: "t".into(),
    };
    let found = FoundConnection {
        idle_seconds: Some(1.5),
        topics: vec!["t".into()],
        tcp: Some(TcpFigures::default()),
        ..FoundConnection::default()
    };
    let connections = vec![found];
    let message = WatchedMessage {
        number: 1,
        time_ms: 2,
        direction: Direction::Sent,
        topic: "t".into(),
        event: "e".into(),
        payload_bytes: 3,
        payload: Some("{}".into()),
    };
    let watched =
        WatchedMessages { since_ms: 1, has_payloads: true, missed: 2, messages: vec![message] };
    vec![
        samples!(enum Call:
            Call::State,
            Call::History { step: Step::Minute, after: 1 },
            Call::Events { after: 1 },
            Call::Connections(query),
            Call::Connection { shard: 1, client },
            Call::EndConnection { shard: 1, client: session },
            Call::WatchConnection { shard: 1, client, after: 2, payloads: Some(true) },
            Call::EndAddress { address: [192, 0, 2, 1].into(), count: 3 },
            Call::Topics { prefix: "p".into(), count: 3 },
            Call::Note { kind: "k".into(), text: "t".into() },
            Call::SetLogLevel { level: "debug".into() },
        ),
        samples!(enum ClientId: client, session),
        samples!(enum Step: Step::Second, Step::Minute),
        samples!(enum ConnectionTransport:
            ConnectionTransport::Websocket,
            ConnectionTransport::Longpoll,
            ConnectionTransport::Http,
        ),
        samples!(enum ConnectionOrder:
            ConnectionOrder::QueuedBytes,
            ConnectionOrder::QueueSeconds,
            ConnectionOrder::IdleSeconds,
            ConnectionOrder::SentBytes,
            ConnectionOrder::ReceivedBytes,
            ConnectionOrder::Channels,
        ),
        samples!(Machine: Machine { name: "m".into(), first: 1, processes: 2 }),
        samples!(json Vec<Event>:
            vec![Event { time_ms: 1, kind: "k".into(), text: "t".into() }]
        ),
        samples!(json FoundConnections:
            FoundConnections { connections, scanned: 1, scan_micros: 2 }
        ),
        samples!(json WatchAnswer:
            WatchAnswer::Gone,
            WatchAnswer::TooMany,
            WatchAnswer::Messages(watched),
        ),
    ]
}
