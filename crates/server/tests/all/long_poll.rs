//! Promises about long-poll sessions that end while the server works for them.

use std::any::Any;

use serde_json::{Value, json};
use watchfire::{
    Channel, ChannelRule, Crash, HandleIn, JoinRule, Joined, Outcome, Payload, PublishRule,
    Refusal, Reply, RunningServer, Settings, Socket,
};
use watchfire_testkit::{Client, Request};

use crate::support::{http, metric, settings};
use crate::{start, with_operator};

/// The messages that wait for a poll in a session of these tests. One more ends the session.
const QUEUED_MAX: usize = 20;
/// The number of event loops. Sessions go to them in turn.
const SHARDS: u16 = 2;

/// A client of long poll. Each request has a connection of its own.
struct Poller<'a> {
    server: &'a RunningServer,
    token: String,
}

impl<'a> Poller<'a> {
    fn open(server: &'a RunningServer) -> Self {
        let answer = request(server, "GET", "", "");
        assert_eq!(answer["status"], 410, "a new session: {answer}");
        let token = answer["token"].as_str().expect("a new session has a token").to_owned();
        Poller { server, token }
    }

    /// Sends the frames in one body, and returns the status.
    fn post(&self, frames: &[Value]) -> Value {
        let lines: Vec<String> = frames.iter().map(Value::to_string).collect();
        let answer = request(self.server, "POST", &self.token, &lines.join("\n"));
        answer["status"].clone()
    }

    /// The status of a poll, and its messages.
    fn poll(&self) -> (Value, Vec<Value>) {
        let answer = request(self.server, "GET", &self.token, "");
        let messages = answer["messages"].as_array().cloned().unwrap_or_default();
        let parse = |text: Value| serde_json::from_str(text.as_str().expect("a text")).unwrap();
        (answer["status"].clone(), messages.into_iter().map(parse).collect())
    }
}

fn request(server: &RunningServer, method: &str, token: &str, body: &str) -> Value {
    let path = "/socket/longpoll?vsn=2.0.0";
    let request = match method {
        "POST" => Request::post(path, body).line("content-type: application/x-ndjson"),
        _ => Request::new(method, path),
    };
    let token = (!token.is_empty()).then(|| format!("x-phoenix-longpoll-token: {token}"));
    request.lines(token).to(server.address()).json()
}

fn heartbeats(count: usize) -> Vec<Value> {
    vec![json!([null, "1", "phoenix", "heartbeat", {}]); count]
}

fn small_sessions() -> Settings {
    let mut settings = settings();
    settings.server.shards = SHARDS;
    settings.limits.longpoll_frames_max = QUEUED_MAX as u32;
    settings
}

/// Every event loop answers.
fn assert_alive(server: &RunningServer, after: &str) {
    for _ in 0..SHARDS {
        let poller = Poller::open(server);
        assert_eq!(poller.post(&heartbeats(1)), 200, "after {after}");
        assert_eq!(poller.poll().1.len(), 1, "after {after}");
    }
}

/// A channel whose every callback pushes as many messages as the join asked for.
struct Pushing;

struct Pushes {
    count: u64,
    on: String,
}

impl Pushes {
    fn push(&self, callback: &str, socket: &mut Socket<'_>) -> Result<(), Crash> {
        for _ in 0..if self.on == callback { self.count } else { 0 } {
            socket.push("pushed", json!({ "by": callback }))?;
        }
        Ok(())
    }
}

impl Channel for Pushing {
    type State = Pushes;

    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<Pushes>, Refusal> {
        let params: Value = payload.json().unwrap_or_default();
        let count = params["count"].as_u64().unwrap_or_default();
        let pushes = Pushes { count, on: params["on"].as_str().unwrap_or("none").to_owned() };
        pushes.push("join", socket).ok();
        match params["refuse"].as_bool() {
            Some(true) => Err(Refusal::because("refused")),
            _ => Ok(Joined::with(pushes)),
        }
    }

    fn joined(&self, pushes: &mut Pushes, socket: &mut Socket<'_>) {
        pushes.push("joined", socket).ok();
    }

    fn handle_in(
        &self,
        pushes: &mut Pushes,
        socket: &mut Socket<'_>,
        event: &str,
        _: Payload<'_>,
    ) -> HandleIn {
        pushes.push("handle_in", socket)?;
        Ok(match event {
            "reply" => Outcome::Reply(Reply::ok(json!({}))),
            "stop" => Outcome::Stop,
            "stop_with" => Outcome::StopWith(Reply::ok(json!({}))),
            "crash" => return Err(Crash::because("requested")),
            "info" => {
                socket.endpoint().send(socket.address(), ());
                Outcome::NoReply
            }
            _ => Outcome::NoReply,
        })
    }

    fn handle_info(
        &self,
        pushes: &mut Pushes,
        socket: &mut Socket<'_>,
        _: Box<dyn Any + Send>,
    ) -> HandleIn {
        pushes.push("handle_info", socket)?;
        Ok(Outcome::Stop)
    }

    fn leave(&self, pushes: Pushes, socket: &mut Socket<'_>) {
        pushes.push("leave", socket).ok();
    }
}

/// The messages of a client that lead to a call of each callback, in each way.
fn calls() -> Vec<(String, Vec<Value>)> {
    let join = |on: &str, count: usize, refuse: bool| json!(["1", "1", "p:1", "phx_join", { "on": on, "count": count, "refuse": refuse }]);
    let event = |event: &str| json!(["1", "2", "p:1", event, {}]);
    let rejoin = json!(["3", "3", "p:1", "phx_join", {}]);
    let mut calls = Vec::new();
    for count in [1, 2] {
        let mut add = |name: &str, messages: Vec<Value>| {
            calls.push((format!("{name}, {count} pushes"), messages));
        };
        add("a join", vec![join("join", count, false)]);
        add("a refused join", vec![join("join", count, true)]);
        add("a joined channel", vec![join("joined", count, false)]);
        for outcome in ["none", "reply", "stop", "stop_with", "crash", "info"] {
            let messages = vec![join("handle_in", count, false), event(outcome)];
            add(&format!("a message with the outcome {outcome}"), messages);
        }
        add("an info", vec![join("handle_info", count, false), event("info")]);
        add("a leave", vec![join("leave", count, false), event("phx_leave")]);
        add("a stop", vec![join("leave", count, false), event("stop")]);
        add("a crash", vec![join("leave", count, false), event("crash")]);
        add("a join in place of another", vec![join("leave", count, false), rejoin.clone()]);
        add(
            "a message after the end",
            vec![join("joined", count, false), event("reply"), rejoin.clone()],
        );
    }
    calls
}

#[test]
fn a_session_may_end_with_any_message_of_any_callback() {
    let server = with_operator(small_sessions()).channel("p:*", Pushing).start().unwrap();
    for (name, messages) in calls() {
        let mut ended = 0;
        for queued in QUEUED_MAX - 6..=QUEUED_MAX {
            let poller = Poller::open(&server);
            assert_eq!(poller.post(&heartbeats(queued)), 200);
            let status = poller.post(&messages);
            // An info comes later than the answer to its message.
            let (polled, answers) = poller.poll();
            match (status == 410, polled == 410) {
                (true, true) => assert_eq!(answers, [0; 0], "{name}: nothing else happens"),
                (false, _) => assert_eq!(status, 200, "{name}"),
                (true, false) => panic!("{name}: the session ended and answers {polled}"),
            }
            ended += usize::from(polled == 410);
        }
        assert!(ended > 0, "{name}: no session ended");
        assert_alive(&server, &name);
    }
}

#[test]
fn a_full_session_ends_at_a_join_with_presence_and_its_channel_with_it() {
    let mut settings = settings();
    settings.channels.rules = vec![ChannelRule {
        join: JoinRule::Anyone,
        publish: PublishRule::Clients,
        presence: true,
        ..ChannelRule::of("t:*")
    }];
    let server = start(settings);
    let mut watcher = Client::connect(server.address());
    assert_eq!(watcher.join("t:1", json!({}))["status"], "ok");
    // The push of the presences after the reply is one more than the session takes.
    for heartbeats_before in 997..=1_000 {
        let poller = Poller::open(&server);
        let mut left = heartbeats_before;
        while left > 0 {
            let batch = left.min(100);
            assert_eq!(poller.post(&heartbeats(batch)), 200);
            left -= batch;
        }
        let status = poller.post(&[json!(["1", "1", "t:1", "phx_join", {}])]);
        let is_over = heartbeats_before >= 999;
        assert_eq!(status, if is_over { 410 } else { 200 }, "after {heartbeats_before}");
        assert_eq!(poller.poll().0, if is_over { 410 } else { 200 }, "after {heartbeats_before}");
        assert_alive(&server, &format!("{heartbeats_before} heartbeats"));
    }
    assert_eq!(watcher.push("t:1", "note", json!({}))["status"], "ok");
    // The sessions of 999 and 1,000 heartbeats have ended, with their channels.
    assert_eq!(metric(&server, "watchfire_channels_joined"), 3);
}

#[test]
fn every_line_of_a_post_is_read_and_a_post_of_too_many_is_refused_by_name() {
    let server = start(settings());
    let poller = Poller::open(&server);
    assert_eq!(poller.post(&heartbeats(101)), 200);
    assert_eq!(poller.poll().1.len(), 101);
    let post = |body: &str| {
        let head = "POST /socket/longpoll?vsn=2.0.0 HTTP/1.1\r\nhost: localhost\r\n\
                    connection: close\r\ncontent-type: application/x-ndjson\r\n";
        let token = format!("x-phoenix-longpoll-token: {}\r\n", poller.token);
        http(&server, &format!("{head}{token}content-length: {}\r\n\r\n{body}", body.len()))
    };
    let many = post(&"[null,\"1\",\"phoenix\",\"heartbeat\",{}]\n".repeat(1_001));
    assert!(many.starts_with("HTTP/1.1 400 "), "{many}");
    assert!(many.contains("1001 lines, the maximum is 1000"), "{many}");
    let large = post(&" ".repeat(8_000_001));
    assert!(large.starts_with("HTTP/1.1 400 "), "{large}");
    assert!(large.contains("limits.longpoll_body_bytes_max, 8000000 bytes"), "{large}");
    // Nothing of them was processed, and the session goes on.
    assert_eq!(poller.post(&heartbeats(1)), 200);
    assert_eq!(poller.poll().1.len(), 1);
}

#[test]
fn a_session_gets_a_message_that_is_larger_than_its_queue() {
    let mut settings = settings();
    settings.limits.longpoll_bytes_max = 100_000;
    let server = with_operator(settings).channel("state:*", States).start().unwrap();
    let poller = Poller::open(&server);
    let join =
        |n: usize| json!([n.to_string(), n.to_string(), format!("state:{n}"), "phx_join", {}]);
    let joins: Vec<Value> = (0..8).map(join).collect();
    assert_eq!(poller.post(&joins), 200);
    let mut states = 0;
    while states < 8 {
        let (status, messages) = poller.poll();
        assert_eq!(status, 200, "after {states} states");
        states += messages.iter().filter(|message| message[3] == "presence_state").count();
    }
}

/// A channel that sends each client a large state, as a topic with many members does.
struct States;

impl Channel for States {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn joined(&self, _: &mut (), socket: &mut Socket<'_>) {
        socket.push("presence_state", json!({ "text": "x".repeat(1_500_000) })).ok();
    }

    fn handle_in(
        &self,
        _: &mut (),
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        socket.broadcast(event, payload)?;
        Ok(Outcome::Reply(Reply::ok(json!({}))))
    }
}

#[test]
fn a_client_that_joins_many_topics_at_once_gets_all_their_large_states() {
    let server = with_operator(settings()).channel("state:*", States).start().unwrap();
    let mut client = Client::connect(server.address());
    for n in 0..8 {
        client.send(&format!("state:{n}"), "phx_join", json!({}));
    }
    for n in 0..8 {
        let state = client.receive_event("presence_state");
        assert_eq!(state["text"].as_str().map(str::len), Some(1_500_000), "state {n}");
    }
}

#[test]
fn a_large_message_does_not_close_the_clients_that_read() {
    let server = with_operator(settings()).channel("state:*", States).start().unwrap();
    let mut reader = Client::connect(server.address());
    reader.join("state:1", json!({}));
    reader.receive_event("presence_state");
    let mut sender = Client::connect(server.address());
    sender.join("state:1", json!({}));
    // The reader has read nothing when the small messages arrive behind the large ones.
    let large = json!({ "text": "x".repeat(3_000_000) });
    for _ in 0..2 {
        for payload in [large.clone(), json!({}), json!({})] {
            assert_eq!(sender.push("state:1", "note", payload)["status"], "ok");
        }
    }
    for _ in 0..2 {
        assert_eq!(reader.receive_event("note"), large);
        assert_eq!(reader.receive_event("note"), json!({}));
        assert_eq!(reader.receive_event("note"), json!({}));
    }
}
