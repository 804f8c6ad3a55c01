//! Machines with different rules, features and settings form one server, also while each setting is
//! changed on one after the other.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use watchfire::feature::{
    ClusterPart, Feature, FeatureError, Foundation, NodeId, Part, PartLink, PartName,
};
use watchfire::internal::Unanswered;
use watchfire::{
    Channel, ChannelRule, HandleIn, HistoryRule, JoinRule, Joined, Outcome, Payload, Refusal,
    RunningServer, Server, Settings, Socket,
};
use watchfire_api::{Api, ApiSettings};
use watchfire_cluster::bus::LocalBus;
use watchfire_operator::{AdminSettings, Operator};
use watchfire_testkit::{Client, eventually};

use crate::support;
use crate::{KEY, ok};

const SECRET: [u8; 32] = [7; 32];
/// The topics of which a machine was told that another one subscribes to them.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Counts the exchanges of all tests.
static EXCHANGES: AtomicU32 = AtomicU32::new(0);

/// `rooms:*`, where each client is present under the name in its join.
struct Rooms;

impl Channel for Rooms {
    type State = String;

    fn join(&self, _: &mut Socket<'_>, payload: Payload<'_>) -> Result<Joined<String>, Refusal> {
        let payload: Value = payload.json().expect("a test sends JSON");
        Ok(Joined::with(payload["name"].as_str().expect("a name").to_owned()))
    }

    fn joined(&self, name: &mut String, socket: &mut Socket<'_>) {
        socket.track(name, json!({})).expect("the name is valid");
        socket.push_presence_state();
    }

    fn handle_in(&self, _: &mut String, _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::NoReply)
    }
}

/// A feature that some machines have: it sends notes to itself.
struct Notes;

impl Feature for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn build(&self, foundation: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, FeatureError> {
        let link = PartLink::new(foundation.cluster, PartName::new("notes", 1));
        Ok(vec![Arc::new(NotesPart(link))])
    }
}

struct NotesPart(PartLink);

impl Part for NotesPart {
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self]
    }
}

impl ClusterPart for NotesPart {
    fn link(&self) -> &PartLink {
        &self.0
    }

    fn receive(&self, _: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        postcard::from_bytes::<String>(message).map(drop)
    }

    fn introduce_to(&self, _: NodeId, topic: &str) {
        TOLD.lock().unwrap().push(topic.to_owned());
    }

    /// Sends a note, also to a machine without the part.
    fn node_up(&self, node: NodeId) {
        self.0.send(node, &"a note").ok();
    }
}

/// One machine, with one process.
struct Machine {
    server: RunningServer,
    bus: Arc<LocalBus>,
    node: NodeId,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The bus keeps its receiver, which keeps the bus.
        self.bus.stop();
    }
}

/// A machine's program and settings.
#[derive(Clone)]
struct Config {
    settings: Settings,
    has_notes: bool,
}

fn rule(pattern: &str, history: Option<HistoryRule>) -> ChannelRule {
    ChannelRule { join: JoinRule::Anyone, history, ..ChannelRule::of(pattern) }
}

fn base() -> Config {
    let mut settings = support::settings();
    settings.server.shards = 1;
    settings.channels.rules = vec![rule("news:*", None)];
    settings.section_mut::<ApiSettings>().key = KEY.into();
    Config { settings, has_notes: true }
}

fn start(node: u16, config: &Config) -> Machine {
    let server = Server::new(config.settings.clone()).with(Operator::new()).with(Api::new());
    let server = server.channel("rooms:*", Rooms);
    let server = if config.has_notes { server.with(Notes) } else { server };
    let node = NodeId(node);
    let (server, bus) = server.start_on_bus(node, SECRET).expect("the machine starts");
    Machine { server, bus, node }
}

/// Links two machines, as NATS would.
fn link(one: &Machine, other: &Machine) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    one.bus.link(other.node, ours).expect("a link");
    other.bus.link(one.node, theirs).expect("a link");
    let knows = |a: &Machine, b: &Machine| a.server.cluster().is_up(b.node);
    eventually("the machines are linked", || knows(one, other) && knows(other, one));
}

/// Joins a topic. Returns the client, and its reply's response.
fn join(machine: &Machine, topic: &str, payload: Value) -> (Client, Value) {
    let mut client = Client::connect(machine.server.address());
    let reply = client.join(topic, payload);
    assert_eq!(reply["status"], "ok", "{topic}: {reply}");
    (client, reply["response"].clone())
}

/// The payload of the next message, which must be of this event.
fn next(client: &mut Client, event: &str) -> Value {
    let message = client.receive();
    assert_eq!(message[3], event, "{message}");
    message[4].clone()
}

/// Waits until a name is present, by the state or by a difference.
fn wait_for_presence(client: &mut Client, name: &str) {
    if next(client, "presence_state").get(name).is_some() {
        return;
    }
    while next(client, "presence_diff")["joins"].get(name).is_none() {}
}

/// Everything that passes between two machines arrives, once, in both directions.
fn assert_exchange(what: &str, one: &Machine, other: &Machine) {
    let (mut a, _) = join(one, "news:1", json!({}));
    let (mut b, _) = join(other, "news:1", json!({}));
    for (number, machine) in [(1, one), (2, other), (3, one)] {
        let endpoint = machine.server.endpoint();
        endpoint.broadcast("news:1", "news", json!({ "number": number })).expect("an object");
        for client in [&mut a, &mut b] {
            assert_eq!(next(client, "news")["number"], number, "{what}");
        }
    }
    // Names of their own: those of an earlier exchange may be leaving still.
    let [c, d] = ["c", "d"].map(|name| format!("{name}{}", EXCHANGES.fetch_add(1, Relaxed)));
    let (mut first, _) = join(one, "rooms:1", json!({ "name": c }));
    let (mut second, _) = join(other, "rooms:1", json!({ "name": d }));
    wait_for_presence(&mut first, &d);
    wait_for_presence(&mut second, &c);
}

/// Changes of a setting, one for each kind of effect that machines have on each other.
fn changes() -> Vec<(&'static str, Config)> {
    let change = |change: fn(&mut Config)| {
        let mut config = base();
        change(&mut config);
        config
    };
    let with_history = |config: &mut Config| {
        config.settings.channels.rules.push(rule("other:*", Some(HistoryRule::default())));
    };
    vec![
        ("one more rule with history", change(with_history)),
        ("one more rule", change(|config| config.settings.channels.rules.push(rule("x:*", None)))),
        ("no HTTP API", change(|config| config.settings.section_mut::<ApiSettings>().key.clear())),
        ("no notes", change(|config| config.has_notes = false)),
        (
            "memory of histories",
            change(|config| config.settings.channels.history_bytes_max = 1 << 20),
        ),
        ("event loops", change(|config| config.settings.server.shards = 2)),
        (
            "limits",
            change(|config| {
                let limits = &mut config.settings.limits;
                limits.sockets_per_address_max = 77;
                limits.loopback_limited = true;
                limits.channels_per_socket_max = 7;
                limits.joins_per_second_per_socket = 77;
            }),
        ),
        (
            "sockets",
            change(|config| {
                config.settings.socket.mount = "/socket".into();
                config.settings.socket.crowded_timeout = Duration::from_secs(1);
                config.settings.server.drain_period = Duration::ZERO;
            }),
        ),
        ("tokens", change(|config| config.settings.auth.hs256_secret = KEY.repeat(3))),
        (
            "hooks",
            change(|config| {
                config.settings.hooks.url = "http://127.0.0.1:9/".into();
                config.settings.hooks.secret = KEY.repeat(3);
            }),
        ),
        ("log", change(|config| config.settings.log.request_paths = vec!["/api".into()])),
        (
            "operator",
            change(|config| {
                config.settings.section_mut::<AdminSettings>().token = "0123456789abcdef".into();
            }),
        ),
    ]
}

#[test]
fn a_setting_that_changes_on_one_machine_after_the_other_loses_no_message() {
    let changing = changes().into_iter().map(|(what, changed)| {
        thread::spawn(move || {
            let (one, other) = (start(0, &base()), start(1, &base()));
            link(&one, &other);
            assert_exchange(what, &one, &other);
            drop(other);
            let other = start(1, &changed);
            link(&one, &other);
            assert_exchange(what, &one, &other);
            assert_exchange(what, &other, &one);
            drop(one);
            let one = start(0, &changed);
            link(&one, &other);
            assert_exchange(what, &one, &other);
        })
    });
    let changing: Vec<_> = changing.collect();
    for change in changing {
        change.join().expect("each change passes");
    }
}

#[test]
fn a_machine_without_the_http_api_answers_the_calls_of_one_that_has_it() {
    let mut without = base();
    without.settings.section_mut::<ApiSettings>().key.clear();
    let (one, other) = (start(0, &base()), start(1, &without));
    link(&one, &other);
    let _client = join(&other, "news:1", json!({}));
    // The client is at the other machine, so only its answer counts the client.
    let info = ok(&one.server, "info", &json!({}));
    assert_eq!((&info["clients"], &info["processes"]), (&json!(1), &json!(2)), "{info}");
}

#[test]
fn a_request_for_a_part_that_a_machine_does_not_have_fails_at_once() {
    let mut without = base();
    without.has_notes = false;
    let (one, other) = (start(0, &base()), start(1, &without));
    link(&one, &other);
    let link = PartLink::new(one.server.cluster(), PartName::new("notes", 1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let outcome =
        runtime.expect("a runtime").block_on(link.request_if_there::<()>(other.node, &()));
    assert_eq!(outcome, Err(Unanswered::NoPart));
}

#[test]
fn processes_that_do_not_answer_delay_a_question_to_all_by_one_timeout() {
    let [one, two, three] = [0, 1, 2].map(|node| start(node, &base()));
    link(&one, &two);
    link(&one, &three);
    // The part of the others drops each request.
    let link = PartLink::new(one.server.cluster(), PartName::new("notes", 1));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let (answers, took) = runtime.block_on(async {
        let began = tokio::time::Instant::now();
        let answers = link.request_each::<()>([two.node, three.node], &()).await;
        (answers, began.elapsed())
    });
    let none = [two.node, three.node].map(|node| (node, Err(Unanswered::NoAnswer)));
    assert_eq!(answers, none);
    assert_eq!(took.as_secs(), 2);
}

#[test]
fn other_machines_do_not_hear_of_a_topic_that_a_client_may_not_join() {
    let mut config = base();
    config.settings.auth.hs256_secret = KEY.repeat(3);
    config
        .settings
        .channels
        .rules
        .push(ChannelRule { join: JoinRule::Token, ..rule("closed:*", None) });
    let (one, other) = (start(0, &config), start(1, &config));
    link(&one, &other);
    let mut client = Client::connect(one.server.address());
    for payload in [json!({}), json!({ "token": "text" })] {
        assert_eq!(client.join("closed:1", payload)["status"], "error");
    }
    // The other machine hears of the topics of one in their order.
    assert_eq!(client.join("news:open", json!({}))["status"], "ok");
    eventually("the other machine is told", || {
        TOLD.lock().unwrap().iter().any(|topic| topic == "news:open")
    });
    assert!(!TOLD.lock().unwrap().iter().any(|topic| topic.starts_with("closed:")));
}
