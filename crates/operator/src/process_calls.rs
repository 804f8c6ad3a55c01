//! The calls of the operator to one process or to several: this process answers its own, and asks others for theirs.
//!
//! All processes of a machine listen on the same address, and the kernel chooses which of them gets a connection. So
//! each must be able to answer for all: a client that joined in process 2 is in the list of connections that process 0
//! shows. A process that does not answer is left out of a list, so one that hangs does not hide the others.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use watchfire::feature::{ClusterPart, PartLink, PendingResponse};
use watchfire::internal::{log_level, now_ms, set_log_level};
use watchfire::{Endpoint, Limits};
use watchfire_types::NodeId;

use super::answers::{Event, Events, State};
use super::client_call::ClientCall;
use super::denied_addresses::DeniedAddresses;
use super::figures::Step;
use super::machine_record::MachineRecord;
use super::machines::{Machine, Machines};
use super::metrics_page::MetricsPage;
use super::troubles::TroubleMetrics;

/// How long the shards of this process have to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an ended process still runs, so that its answer is sent.
const END_DELAY: Duration = Duration::from_millis(200);

/// Connections that a shard ends at a time. Ending one costs some microseconds.
const ENDED_AT_A_TIME: usize = 500;
/// An address with more connections than these rounds end keeps the rest.
const END_ROUNDS_MAX: usize = 200;

/// The parts of the server that the calls read.
pub(crate) struct ServerParts {
    pub endpoint: Endpoint,
    pub metrics_page: Arc<MetricsPage>,
    pub troubles: Arc<TroubleMetrics>,
    pub denied_addresses: Arc<DeniedAddresses>,
    pub limits: Limits,
    /// `channels.history_bytes_max`.
    pub history_bytes_max: u64,
}

/// The calls to the processes, and on the first process of a machine its record.
pub(crate) struct ProcessCalls {
    pub(super) link: PartLink,
    pub(super) server: ServerParts,
    started_ms: u64,
    own_machine: Machine,
    machines: Mutex<Machines>,
    /// Processes of this machine that are gone.
    lost: Mutex<BTreeSet<NodeId>>,
    pub(super) record: Arc<Mutex<MachineRecord>>,
}

/// A call to one process. The answer is JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Call {
    State,
    History {
        step: Step,
        after: u64,
        until: u64,
    },
    Events {
        after: u64,
        until: u64,
    },
    /// Adds an event to the history.
    Note {
        kind: String,
        text: String,
    },
    SetLogLevel {
        level: String,
    },
    Clients(ClientCall),
    /// Ends the process, as a crash does.
    EndProcess,
}

impl ProcessCalls {
    /// `is_successor`: this process replaces one of an earlier server.
    pub fn new(
        link: PartLink,
        server: ServerParts,
        record: MachineRecord,
        is_successor: bool,
    ) -> Self {
        let own_machine = Machine {
            name: host_name(),
            first: link.cluster().of_machine().start,
            processes: link.cluster().of_machine().len() as u16,
        };
        let mut machines = Machines::default();
        machines.insert(own_machine.clone());
        let calls = ProcessCalls {
            link,
            server,
            started_ms: now_ms(),
            own_machine,
            machines: Mutex::new(machines),
            lost: Mutex::default(),
            record: Arc::new(Mutex::new(record)),
        };
        if calls.records() {
            calls.server.troubles.set(&[]);
        }
        let version = env!("CARGO_PKG_VERSION");
        match is_successor {
            true => calls.note("restart", &format!("Version {version} replaced the server")),
            false => calls.note("start", &format!("Version {version} started")),
        }
        calls
    }

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
        let time_ms = now_ms();
        let (kind, text) = (kind.to_owned(), text.to_owned());
        let event = Event { time_ms, kind, text, trouble: String::new() };
        self.record.lock().history.add_event(event);
    }

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
        let mut calls = JoinSet::new();
        for node in machine.nodes().filter(is_up) {
            let (own, call) = (self.clone(), call.clone());
            calls.spawn(async move { own.call(node, &call).await });
        }
        calls.join_all().await.into_iter().flatten().collect()
    }

    /// Ends the channels of a topic in the processes of all machines at the same time, and returns their number. `None`: a
    /// process does not answer, and may have kept some.
    pub(super) async fn end_topic(self: &Arc<Self>, topic: &str) -> Option<u64> {
        let mut ends = JoinSet::new();
        for node in self.everywhere() {
            let calls = self.clone();
            let call = Call::Clients(ClientCall::EndTopic { topic: topic.to_owned() });
            ends.spawn(async move { calls.call(node, &call).await?.parse::<u64>().ok() });
        }
        ends.join_all().await.into_iter().sum()
    }

    /// The processes of all machines.
    fn everywhere(&self) -> Vec<NodeId> {
        let cluster = self.link.cluster();
        cluster.others().map(|(node, _)| node).chain([cluster.me()]).collect()
    }

    /// Ends the connections of an address in the processes of all machines at the same time, and returns
    /// their number. A process that does not answer keeps the rest.
    pub(super) async fn end_address(self: &Arc<Self>, address: IpAddr) -> u64 {
        let mut ends = JoinSet::new();
        for node in self.everywhere() {
            let calls = self.clone();
            ends.spawn(async move {
                let call =
                    Call::Clients(ClientCall::EndAddress { address, count: ENDED_AT_A_TIME });
                let mut all = 0;
                for _ in 0..END_ROUNDS_MAX {
                    let ended = calls.call(node, &call).await.and_then(|text| text.parse().ok());
                    match ended {
                        None | Some(0u64) => break,
                        Some(ended) => all += ended,
                    }
                }
                all
            });
        }
        ends.join_all().await.into_iter().sum()
    }

    /// Answers a call, immediately or from another thread. `None`: a shard is too busy.
    fn answer(&self, call: &Call, reply: impl FnOnce(Option<String>) + Send + 'static) {
        let answer = match call {
            Call::State => self.state(),
            Call::History { step, after, until } => {
                let (step, after, until) = (*step, *after, *until);
                return read_record(&self.record, reply, move |record| {
                    record.history_json(step, after, until)
                });
            }
            Call::Events { after, until } => {
                let (after, until) = (*after, *until);
                return read_record(&self.record, reply, move |record| {
                    let events = record.history.events_between(after, until);
                    json!(Events { events }).to_string()
                });
            }
            Call::Note { kind, text } => {
                self.note(kind, text);
                "{}".to_owned()
            }
            Call::SetLogLevel { level } => {
                let error = set_log_level(level).err().map(|error| error.to_string());
                if error.is_none() {
                    tracing::info!(level, "the operator changed the level of the log");
                }
                json!({ "error": error }).to_string()
            }
            Call::EndProcess => {
                let end = || {
                    thread::sleep(END_DELAY);
                    std::process::exit(1);
                };
                let started = thread::Builder::new().name("end".into()).spawn(end);
                json!({ "ended": started.is_ok() }).to_string()
            }
            Call::Clients(call) => {
                let asked = call.clone();
                return self.server.endpoint.ask_shards(call.question(), move |answers| {
                    reply(answers.map(|answers| asked.text_of(answers)));
                });
            }
        };
        reply(Some(answer));
    }

    fn state(&self) -> String {
        let record = self.record.lock();
        let machines = self.machines.lock();
        let ServerParts { limits, history_bytes_max, .. } = &self.server;
        let state = State {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now_ms: now_ms(),
            started_ms: self.started_ms,
            machine: machines.name_of(&self.own_machine),
            machines: machines.names(),
            processes: record.processes(self.own_machine.first),
            missing_processes: record.missing.clone(),
            limits: record.limits(limits.queued_bytes_max as f64, *history_bytes_max as f64),
            troubles: record.watch.troubles(),
            latest: record.latest(),
            own_tables: record.own_tables.clone(),
            tables: record.tables.clone(),
            log_level: log_level(),
        };
        json!(state).to_string()
    }
}

/// Reads the record on a thread for blocking work: it may wait for the disk, and messages between processes wait for the
/// thread that calls this.
fn read_record(
    record: &Arc<Mutex<MachineRecord>>,
    reply: impl FnOnce(Option<String>) + Send + 'static,
    read: impl FnOnce(&MachineRecord) -> String + Send + 'static,
) {
    let record = Arc::clone(record);
    tokio::task::spawn_blocking(move || {
        let text = read(&record.lock());
        reply(Some(text));
    });
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl ClusterPart for ProcessCalls {
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
pub(crate) fn message_samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::message_samples as samples;
    let topics = ClientCall::Topics(watchfire::internal::TopicQuery::default());
    let mut all = vec![
        samples!(enum Call:
            Call::State,
            Call::History { step: Step::Minute, after: 1, until: 2 },
            Call::Events { after: 1, until: 2 },
            Call::Note { kind: "k".into(), text: "t".into() },
            Call::SetLogLevel { level: "debug".into() },
            Call::Clients(topics),
            Call::EndProcess,
        ),
        samples!(enum Step: Step::Second, Step::Minute, Step::Hour),
        samples!(Machine: Machine { name: "m".into(), first: 1, processes: 2 }),
        samples!(json Vec<Event>:
            vec![Event { time_ms: 1, kind: "k".into(), text: "t".into(), trouble: String::new() }]
        ),
    ];
    all.extend(super::client_call::message_samples());
    all
}

#[test]
fn reads_of_the_record_share_the_threads_for_blocking_work() {
    let record = MachineRecord::new(&[], &[], super::troubles::Watch::new(&[]));
    let record = Arc::new(Mutex::new(record));
    let (sender, threads) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        for _ in 0..3 {
            let sender = sender.clone();
            let reply = move |_| sender.send(thread::current().id()).unwrap();
            read_record(&record, reply, |record| record.history_json(Step::Second, 0, 1));
        }
    });
    let threads: std::collections::HashSet<_> = threads.iter().take(3).collect();
    assert_eq!(threads.len(), 1);
}
