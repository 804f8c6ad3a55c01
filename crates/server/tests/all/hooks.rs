//! Promises of hooks, with clients and a backend that speaks HTTP.

use crate::support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{metric, settings};
use crate::tokens::{Own, SECRET, hmac, now, reason, sign};
use crate::{start, start_error, with_operator};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use watchfire::internal::{ShardAnswer, ShardQuestion};
use watchfire::{
    ChannelRule, Connected, HistoryRule, Hook, JoinRule, OnFailure, PublishRule, RunningServer,
    Settings,
};
use watchfire_testkit::{
    Answer, Client, Request, UPGRADE, eventually, exchange, response, serve_http, text_frame,
};

const HOOK_SECRET: &str = "a secret of hooks of 32 bytes or more";
/// A timeout that is long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// A backend whose every answer a test decides.
struct Backend {
    url: String,
    asked: Receiver<Asked>,
}

/// A request that waits for its answer. The connection is closed when it is dropped.
struct Asked {
    headers: BTreeMap<String, String>,
    text: String,
    body: Value,
    answer: Sender<Vec<u8>>,
}

impl Asked {
    fn answer(self, answer: Value) {
        self.answer_with("200 OK", &answer.to_string());
    }

    fn answer_with(self, status: &str, body: &str) {
        self.answer.send(response(status, &["content-type: application/json"], body)).ok();
    }

    fn allow(self) {
        self.answer(json!({ "allow": true }));
    }
}

impl Backend {
    fn start() -> Backend {
        let (sender, asked) = channel();
        let address = serve_http(move |request| {
            assert_eq!((&*request.method, &*request.path), ("POST", "/hooks?of=test"));
            let text = String::from_utf8(request.body.clone()).unwrap();
            let (body, headers) = (serde_json::from_str(&text).unwrap(), request.headers.clone());
            let (answer, answers) = channel();
            sender.send(Asked { headers, text, body, answer }).ok()?;
            answers.recv().ok()
        });
        Backend { url: format!("http://{address}/hooks?of=test"), asked }
    }

    fn next(&self) -> Asked {
        self.asked.recv_timeout(DEADLINE).expect("the server asks")
    }

    /// The next request, which must be of this hook.
    fn next_of(&self, hook: &str) -> Asked {
        let asked = self.next();
        assert_eq!(asked.body["hook"], hook, "{}", asked.body);
        asked
    }

    fn has_none(&self) -> bool {
        matches!(
            self.asked.recv_timeout(Duration::from_millis(200)),
            Err(RecvTimeoutError::Timeout)
        )
    }

    /// Answers every request from now on.
    fn allow_all(self) {
        thread::spawn(move || self.asked.iter().for_each(Asked::allow));
    }
}

fn hook_settings(backend: &Backend) -> Settings {
    let rule = |pattern: &str, join, hooks: &[Hook]| ChannelRule {
        pattern: pattern.into(),
        join,
        publish: PublishRule::Clients,
        presence: pattern != "quiet:*",
        hooks: hooks.to_vec(),
        history: (pattern == "kept:*").then(HistoryRule::default),
    };
    let all = [Hook::Join, Hook::Publish, Hook::Leave];
    let mut settings = settings();
    settings.auth.hs256_secret = SECRET.into();
    settings.hooks.url = backend.url.clone();
    settings.hooks.secret = HOOK_SECRET.into();
    settings.hooks.timeout = DEADLINE;
    settings.hooks.failures_max = 1_000;
    settings.channels.rules = vec![
        rule("rooms:*", JoinRule::Token, &all),
        rule("quiet:*", JoinRule::Anyone, &[Hook::Join]),
        rule("moderated:*", JoinRule::Anyone, &[Hook::Publish]),
        rule("counted:*", JoinRule::Anyone, &[Hook::Leave]),
        rule("kept:*", JoinRule::Anyone, &[Hook::Join, Hook::Publish]),
        rule("plain:*", JoinRule::Anyone, &[]),
    ];
    settings
}

fn server_of(backend: &Backend) -> RunningServer {
    start(hook_settings(backend))
}

fn token(subject: &str, seconds: u64) -> String {
    sign(&json!({
        "sub": subject, "exp": now() + seconds, "meta": { "from": "the token" },
        "channels": { "join": ["rooms:*"], "publish": ["rooms:*"] },
    }))
}

fn client_of(server: &RunningServer, subject: &str) -> Client {
    let query = format!("vsn=2.0.0&token={}", token(subject, 60));
    Client::connect_with(server.address(), &query).expect("the token is valid")
}

/// A client that has joined, and the id of its channel.
fn joined(server: &RunningServer, backend: &Backend, topic: &str) -> (Client, Value) {
    let mut client = client_of(server, "ada");
    let reference = client.send(topic, "phx_join", json!({}));
    let asked = backend.next_of("join");
    let channel = asked.body["channel"].clone();
    asked.allow();
    assert_eq!(client.reply_to(&reference)["status"], "ok");
    (client, channel)
}

/// Reads a metric until it has a value.
fn wait_for(server: &RunningServer, name: &str, value: u64) {
    eventually(&format!("{name} becomes {value}"), || metric(server, name) == value);
}

#[test]
fn a_join_waits_for_the_backend_while_other_channels_go_on() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let mut client = client_of(&server, "ada");
    let join = client.send("rooms:1", "phx_join", json!({ "seat": 7 }));
    let asked = backend.next();
    assert_eq!(asked.body["hook"], "join");
    assert_eq!(asked.body["topic"], "rooms:1");
    assert_eq!(asked.body["payload"], json!({ "seat": 7 }));
    assert_eq!(asked.body["user"], "ada");
    assert_eq!(asked.body["socket"], json!({ "id": "users:ada", "address": "127.0.0.1" }));
    assert_eq!(asked.body["channel"].as_str().unwrap().len(), 32);

    assert_eq!(client.join("plain:1", json!({}))["status"], "ok");
    assert_eq!(client.push("plain:1", "note", json!({}))["status"], "ok");
    assert_eq!(client.push("phoenix", "heartbeat", json!({}))["status"], "ok");
    assert_eq!(reason(&client.push("rooms:1", "note", json!({}))), "join_pending");
    // The client is not subscribed yet.
    server.endpoint().broadcast("rooms:1", "early", json!({})).unwrap();

    let (meta, reply) = (json!({ "name": "Ada" }), json!({ "history": [1] }));
    asked.answer(json!({ "allow": true, "meta": meta, "reply": reply }));
    loop {
        let message = client.receive();
        assert_ne!(message[3], "early");
        if message[1] == join {
            assert_eq!(message[4], json!({ "status": "ok", "response": reply }));
            break;
        }
    }
    let state = client.receive_event("presence_state");
    assert_eq!(state["ada"]["metas"][0]["name"], "Ada", "{state}");
    assert_eq!(state["ada"]["metas"][0]["from"], Value::Null, "{state}");
    let fresh = json!({ "token": token("ada", 60) });
    assert_eq!(client.push("rooms:1", "refresh", fresh)["status"], "ok");
    assert_eq!(
        metric(&server, "watchfire_hooks_requests_total{hook=\"join\",outcome=\"allowed\"}"),
        1
    );
    assert_eq!(metric(&server, "watchfire_hooks_request_seconds_count{hook=\"join\"}"), 1);
    wait_for(&server, "watchfire_hooks_waiting", 0);
}

#[test]
fn the_backend_decides_about_the_client_and_the_join_of_a_stream() {
    let backend = Backend::start();
    let mut settings = hook_settings(&backend);
    settings.hooks.connect = true;
    let server = start(settings);
    let open = || {
        let stream = Request::get("/api/stream?topic=quiet:1&seat=7").send(server.address());
        let stream = stream.expect("it opens");
        let asked = backend.next_of("connect");
        assert_eq!(asked.body["transport"], "events");
        (stream, asked)
    };
    let (stream, connect) = open();
    connect.answer(json!({ "allow": false }));
    let refused = Answer::read(stream);
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (403, Some("connect_backend")));
    let (stream, connect) = open();
    connect.allow();
    backend.next_of("join").answer(json!({ "allow": false, "reason": "full" }));
    let refused = Answer::read(stream);
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (403, Some("full")));
    let (stream, connect) = open();
    connect.allow();
    let join = backend.next_of("join");
    assert_eq!(join.body["payload"], json!({ "seat": "7" }));
    drop(stream);
    eventually("the client is gone while its join waits", || {
        metric(&server, "watchfire_channels_joined") == 0
    });
    join.allow();
    let (stream, connect) = open();
    connect.allow();
    backend.next_of("join").allow();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    assert_eq!(lines.next().as_deref(), Some("HTTP/1.1 200 OK"));
    assert!(lines.any(|line| line == r#"data: {"status":"ok","response":{}}"#));
}

#[test]
fn the_history_has_what_the_backend_let_through_and_a_join_recovers_it_after_the_answer() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let mut writer = Client::connect(server.address());
    let join = writer.send("kept:1", "phx_join", json!({}));
    backend.next_of("join").allow();
    let position = writer.reply_to(&join)["response"]["position"].clone();
    let messages = [
        json!({ "allow": true, "payload": { "n": "first" } }),
        json!({ "allow": false, "reason": "spam" }),
        json!({ "allow": true }),
    ];
    for (n, answer) in messages.into_iter().enumerate() {
        let push = writer.send("kept:1", "note", json!({ "n": n }));
        backend.next_of("publish").answer(answer);
        writer.reply_to(&push);
    }

    let mut reader = Client::connect(server.address());
    let join = reader.send("kept:1", "phx_join", json!({ "history": { "after": position } }));
    let asked = backend.next_of("join");
    // Written while the join waits: recovered, and not sent twice.
    server.endpoint().broadcast("kept:1", "note", json!({ "n": "meanwhile" })).unwrap();
    asked.answer(json!({ "allow": true, "reply": { "seat": 7 } }));
    let response = reader.reply_to(&join)["response"].clone();
    assert_eq!((&response["recovered"], &response["seat"]), (&json!(true), &json!(7)));
    server.endpoint().broadcast("kept:1", "note", json!({ "n": "last" })).unwrap();
    for n in [json!("first"), json!(2), json!("meanwhile"), json!("last")] {
        assert_eq!(reader.receive_event("note"), json!({ "n": n }));
    }
}

#[test]
fn a_request_is_signed() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let mut client = Client::connect(server.address());
    let mut ids = Vec::new();
    for _ in 0..2 {
        let join = client.send("quiet:1", "phx_join", json!({}));
        let asked = backend.next_of("join");
        assert_eq!(asked.headers["content-type"], "application/json");
        assert_eq!(asked.headers["accept"], "application/json");
        assert_eq!(asked.headers["user-agent"], watchfire_types::USER_AGENT);
        let (time, signature) = asked.headers["watchfire-signature"].split_once(',').unwrap();
        let seconds = time.strip_prefix("t=").unwrap();
        assert!(now().abs_diff(seconds.parse().unwrap()) <= 20, "{seconds}");
        let expected = hmac(HOOK_SECRET, &format!("{seconds}.{}", asked.text));
        let hex: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(signature, format!("v1={hex}"));
        assert_eq!(asked.body["user"], Value::Null);
        ids.push(asked.headers["watchfire-request-id"].clone());
        ids.push(asked.body["channel"].as_str().unwrap().to_owned());
        asked.allow();
        client.reply_to(&join);
    }
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
}

#[test]
fn the_backend_denies_with_a_reason_and_the_rule_decides_first() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let mut client = Client::connect(server.address());
    // Without a token, the backend is not asked.
    assert_eq!(reason(&client.join("rooms:1", json!({}))), "unauthorized");
    for (answer, expected) in [
        (json!({ "allow": false, "reason": "the room is full" }), "the room is full"),
        (json!({ "allow": false }), "denied"),
    ] {
        let join = client.send("rooms:1", "phx_join", json!({ "token": token("bob", 60) }));
        let asked = backend.next_of("join");
        assert_eq!(asked.body["user"], "bob");
        asked.answer(answer);
        assert_eq!(reason(&client.reply_to(&join)), expected);
    }
    assert_eq!(reason(&client.push("rooms:1", "note", json!({}))), "unmatched topic");
    assert_eq!(metric(&server, "watchfire_channels_joined"), 0);
    // A denied join has no notice.
    assert!(backend.has_none());
}

/// Joins, and lets the backend answer in some way. Returns the reply.
fn join_with(
    client: &mut Client,
    backend: &Backend,
    topic: &str,
    answer: impl FnOnce(Asked),
) -> Value {
    let join = client.send(topic, "phx_join", json!({}));
    answer(backend.next_of("join"));
    client.reply_to(&join)
}

type Failure = Box<dyn FnOnce(Asked)>;

/// Every way in which a backend fails, with the outcome in metrics.
fn failures() -> Vec<(&'static str, Failure)> {
    let long = format!("{{\"allow\":true,\"more\":\"{}\"}}", "x".repeat(100_000));
    vec![
        ("status", Box::new(|asked| asked.answer_with("500 Oops", "{\"allow\":true}"))),
        ("status", Box::new(|asked| asked.answer_with("404 Not Found", "{\"allow\":true}"))),
        ("status", Box::new(|asked| asked.answer_with("201 Created", "{\"allow\":true}"))),
        ("bad_answer", Box::new(|asked| asked.answer_with("200 OK", "<html>"))),
        ("bad_answer", Box::new(|asked| asked.answer_with("200 OK", ""))),
        ("bad_answer", Box::new(|asked| asked.answer(json!({ "alow": true })))),
        ("bad_answer", Box::new(move |asked| asked.answer_with("200 OK", &long))),
        ("unreachable", Box::new(drop)),
        ("unreachable", Box::new(|asked| drop(asked.answer.send("no HTTP\r\n\r\n".into())))),
    ]
}

#[test]
fn a_backend_that_fails_denies() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let mut client = Client::connect(server.address());
    let mut outcomes = BTreeMap::new();
    for (outcome, fail) in failures() {
        let reply = join_with(&mut client, &backend, "quiet:1", fail);
        assert_eq!(reason(&reply), "backend_unavailable", "{outcome}");
        *outcomes.entry(outcome).or_insert(0) += 1;
    }
    for (outcome, count) in outcomes {
        let name = format!("watchfire_hooks_requests_total{{hook=\"join\",outcome=\"{outcome}\"}}");
        assert_eq!(metric(&server, &name), count, "{outcome}");
    }
    assert_eq!(join_with(&mut client, &backend, "quiet:1", Asked::allow)["status"], "ok");
}

#[test]
fn a_backend_that_fails_allows_if_the_settings_say_so() {
    let backend = Backend::start();
    let mut settings = hook_settings(&backend);
    settings.hooks.on_failure = OnFailure::Allow;
    let server = start(settings);
    let mut client = Client::connect(server.address());
    for (outcome, fail) in failures() {
        let reply = join_with(&mut client, &backend, "quiet:1", fail);
        assert_eq!(reply, json!({ "status": "ok", "response": {} }), "{outcome}");
    }
}

#[test]
fn a_backend_that_hangs_denies_after_the_timeout() {
    let backend = Backend::start();
    let mut settings = hook_settings(&backend);
    settings.hooks.timeout = Duration::from_millis(300);
    settings.hooks.requests_max = 1;
    let server = start(settings);
    let mut client = Client::connect(server.address());
    let began = Instant::now();
    // One request at a time: the others wait for the first, and no longer than it.
    let joins = ["quiet:1", "quiet:2", "quiet:3"].map(|t| client.send(t, "phx_join", json!({})));
    for join in &joins {
        assert_eq!(reason(&client.reply_to(join)), "backend_unavailable");
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(10), "{took:?}");
    let name = "watchfire_hooks_requests_total{hook=\"join\",outcome=\"timeout\"}";
    assert_eq!(metric(&server, name), 3);
    wait_for(&server, "watchfire_hooks_waiting", 0);
    let late = backend.next();
    late.allow();
}

#[test]
fn the_breaker_stops_requests_until_the_backend_answers_again() {
    let backend = Backend::start();
    let mut settings = hook_settings(&backend);
    settings.hooks.failures_max = 2;
    settings.hooks.retry_after = Duration::from_secs(1);
    let server = start(settings);
    let mut client = Client::connect(server.address());
    for _ in 0..2 {
        let reply = join_with(&mut client, &backend, "quiet:1", drop);
        assert_eq!(reason(&reply), "backend_unavailable");
    }
    assert_eq!(metric(&server, "watchfire_hooks_breakers_open"), 1);
    assert_eq!(reason(&client.join("quiet:1", json!({}))), "backend_unavailable");
    assert!(backend.asked.try_recv().is_err(), "the breaker is open");
    // As the npm client does, it joins again.
    let asked = loop {
        let join = client.send("quiet:1", "phx_join", json!({}));
        match backend.asked.recv_timeout(Duration::from_millis(200)) {
            Ok(asked) => {
                asked.allow();
                break join;
            }
            Err(_) => assert_eq!(reason(&client.reply_to(&join)), "backend_unavailable"),
        }
    };
    assert_eq!(client.reply_to(&asked)["status"], "ok");
    assert_eq!(metric(&server, "watchfire_hooks_breakers_open"), 0);
}

#[test]
fn an_answer_that_is_not_valid_decides_about_its_client_only() {
    let backend = Backend::start();
    let mut settings = hook_settings(&backend);
    settings.hooks.failures_max = 2;
    let server = start(settings);
    let mut client = Client::connect(server.address());
    let invalid: [(&str, &str); 5] = [
        ("200 OK", "<html>"),
        ("200 OK", r#"{"allow":true,"reply":7}"#),
        ("403 Forbidden", "{}"),
        ("422 Unprocessable Content", "{}"),
        ("200 OK", ""),
    ];
    for (status, body) in invalid {
        let answer = |asked: Asked| asked.answer_with(status, body);
        let reply = join_with(&mut client, &backend, "quiet:1", answer);
        assert_eq!(reason(&reply), "backend_unavailable", "{status} {body}");
    }
    assert_eq!(metric(&server, "watchfire_hooks_breakers_open"), 0);
    assert_eq!(join_with(&mut client, &backend, "quiet:1", Asked::allow)["status"], "ok");
}

#[test]
fn messages_of_a_channel_wait_for_each_other() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let (mut ada, channel) = joined(&server, &backend, "rooms:1");
    let (mut bob, _) = joined(&server, &backend, "rooms:1");
    let refs: Vec<String> =
        (0..5).map(|n| ada.send("rooms:1", "note", json!({ "n": n }))).collect();
    let mut answers = [
        json!({ "allow": true }),
        json!({ "allow": false, "reason": "not polite" }),
        json!({ "allow": true, "payload": { "n": "two" }, "reply": { "id": 7 } }),
        json!({ "allow": true, "broadcast": false }),
        json!({ "allow": true }),
    ]
    .into_iter();
    for n in 0..5 {
        let asked = backend.next_of("publish");
        assert_eq!(asked.body["event"], "note");
        assert_eq!(asked.body["payload"], json!({ "n": n }));
        assert_eq!(asked.body["user"], "ada");
        assert_eq!(asked.body["channel"], channel);
        assert!(backend.asked.try_recv().is_err(), "one message at a time");
        asked.answer(answers.next().unwrap());
    }
    let expected = [
        json!({ "status": "ok", "response": {} }),
        json!({ "status": "error", "response": { "reason": "not polite" } }),
        json!({ "status": "ok", "response": { "id": 7 } }),
        json!({ "status": "ok", "response": {} }),
        json!({ "status": "ok", "response": {} }),
    ];
    for (reference, expected) in refs.iter().zip(expected) {
        assert_eq!(ada.reply_to(reference), expected);
    }
    let notes = [(); 3].map(|()| bob.receive_event("note")["n"].clone());
    assert_eq!(notes, [json!(0), json!("two"), json!(4)]);
    let name = "watchfire_hooks_requests_total{hook=\"publish\",outcome=\"denied\"}";
    assert_eq!(metric(&server, name), 1);
}

#[test]
fn an_allowed_message_reaches_the_subscribers_after_its_client_has_gone() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let (mut bob, _) = joined(&server, &backend, "rooms:1");
    for (answer, expected) in [
        (json!({ "allow": true }), Some("as it was")),
        (json!({ "allow": true, "payload": { "n": "changed" } }), Some("changed")),
        (json!({ "allow": true, "broadcast": false }), None),
        (json!({ "allow": false }), None),
    ] {
        let (mut ada, _) = joined(&server, &backend, "rooms:1");
        ada.send("rooms:1", "note", json!({ "n": "as it was" }));
        // The backend is not asked about this one before it has decided about the first.
        ada.send("rooms:1", "note", json!({ "n": "behind" }));
        let asked = backend.next_of("publish");
        drop(ada);
        backend.next_of("leave").allow();
        asked.answer(answer);
        wait_for(&server, "watchfire_hooks_waiting", 0);
        if let Some(expected) = expected {
            assert_eq!(bob.receive_event("note")["n"], expected);
        }
    }
    server.endpoint().broadcast("rooms:1", "note", json!({ "n": "last" })).unwrap();
    assert_eq!(bob.receive_event("note")["n"], "last");
    assert!(backend.has_none());
}

#[test]
fn bytes_reach_the_backend_in_base64() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let mut client = Client::connect(server.address());
    client.join("moderated:1", json!({}));
    client.send_bytes("moderated:1", "sample", b"\x00\xff");
    let asked = backend.next_of("publish");
    assert_eq!(asked.body["payload_base64"], "AP8=");
    assert_eq!(asked.body["payload"], Value::Null);
    asked.allow();
    // A broadcast of bytes has three lengths and no ref.
    let frame = client.receive_frame();
    assert!(frame.ends_with(b"\x00\xff"), "{frame:?}");
}

#[test]
fn only_so_many_messages_of_a_channel_wait() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let mut client = Client::connect(server.address());
    client.join("moderated:1", json!({}));
    client.join("moderated:2", json!({}));
    let refs: Vec<String> =
        (0..41).map(|n| client.send("moderated:1", "note", json!({ "n": n }))).collect();
    for refused in &refs[33..] {
        assert_eq!(reason(&client.reply_to(refused)), "too_many_pending");
    }
    let large = json!({ "large": "x".repeat(70_000) });
    assert_eq!(reason(&client.push("moderated:1", "note", large.clone())), "payload_too_large");
    assert_eq!(reason(&client.push("moderated:1", "note", json!([]))), "payload_not_an_object");
    assert_eq!(reason(&client.push("moderated:1", "presence_diff", json!({}))), "event_reserved");
    assert_eq!(reason(&client.join("quiet:1", large)), "payload_too_large");
    assert_eq!(metric(&server, "watchfire_hooks_waiting"), 33);
    // The messages end with their channel. The question about the first is open.
    assert_eq!(client.push("moderated:1", "phx_leave", json!({}))["status"], "ok");
    wait_for(&server, "watchfire_hooks_waiting", 1);
    let note = client.send("moderated:2", "note", json!({ "n": "other" }));
    backend.next_of("publish").allow();
    let asked = backend.next_of("publish");
    assert_eq!(asked.body["payload"], json!({ "n": "other" }));
    asked.allow();
    assert_eq!(client.reply_to(&note)["status"], "ok");
    wait_for(&server, "watchfire_hooks_waiting", 0);
}

#[test]
fn only_so_many_joins_and_messages_of_a_process_wait() {
    let backend = Backend::start();
    let mut settings = hook_settings(&backend);
    settings.hooks.waiting_max = 2;
    let server = start(settings);
    let mut client = Client::connect(server.address());
    client.join("moderated:1", json!({}));
    let join = client.send("quiet:1", "phx_join", json!({}));
    let note = client.send("moderated:1", "note", json!({}));
    let mut asked = [backend.next(), backend.next()];
    asked.sort_by_key(|asked| asked.body["hook"].to_string());
    let [join_asked, note_asked] = asked;
    assert_eq!(reason(&client.join("quiet:2", json!({}))), "backend_unavailable");
    // As many messages wait behind others.
    let behind = [1, 2].map(|n| client.send("moderated:1", "note", json!({ "n": n })));
    assert_eq!(reason(&client.push("moderated:1", "note", json!({}))), "too_many_pending");
    wait_for(&server, "watchfire_hooks_waiting", 4);
    let name = "watchfire_hooks_requests_total{hook=\"join\",outcome=\"queue_full\"}";
    assert_eq!(metric(&server, name), 1);
    join_asked.allow();
    assert_eq!(client.reply_to(&join)["status"], "ok");
    note_asked.allow();
    assert_eq!(client.reply_to(&note)["status"], "ok");
    for reference in &behind {
        backend.next_of("publish").allow();
        assert_eq!(client.reply_to(reference)["status"], "ok");
    }
    assert_eq!(join_with(&mut client, &backend, "quiet:2", Asked::allow)["status"], "ok");
}

#[test]
fn each_granted_join_has_one_notice_of_its_end() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let (mut client, channel) = joined(&server, &backend, "rooms:1");
    let expect_leave = |channel: &Value, answer: fn(Asked)| {
        let asked = backend.next_of("leave");
        assert_eq!(asked.body["channel"], *channel);
        assert_eq!(asked.body["topic"], "rooms:1");
        assert_eq!(asked.body["user"], "ada");
        assert_eq!(asked.body.get("payload"), None);
        answer(asked);
    };
    client.push("rooms:1", "phx_leave", json!({}));
    drop(client);
    expect_leave(&channel, |asked| asked.answer_with("204 No Content", ""));

    let (client, channel) = joined(&server, &backend, "rooms:1");
    drop(client);
    expect_leave(&channel, |asked| asked.answer_with("500 Oops", ""));

    // It is gone before the answer.
    let mut client = client_of(&server, "ada");
    client.send("rooms:1", "phx_join", json!({}));
    let asked = backend.next_of("join");
    drop(client);
    wait_for(&server, r#"watchfire_channels_clients{transport="websocket"}"#, 0);
    let channel = asked.body["channel"].clone();
    asked.allow();
    expect_leave(&channel, |asked| asked.answer_with("200 OK", "any text"));
    wait_for(&server, "watchfire_hooks_waiting", 0);
    for gone in ["watchfire_channels_joined", "watchfire_hub_presences"] {
        assert_eq!(metric(&server, gone), 0, "{gone}");
    }

    // A rule without a join hook.
    let mut client = Client::connect(server.address());
    assert_eq!(client.join("counted:1", json!({}))["status"], "ok");
    client.push("counted:1", "phx_leave", json!({}));
    let asked = backend.next_of("leave");
    assert_eq!(asked.body["topic"], "counted:1");
    asked.allow();
    let sent = "watchfire_hooks_requests_total{hook=\"leave\",outcome=\"sent\"}";
    wait_for(&server, sent, 3);
    assert!(backend.has_none());
}

#[test]
fn a_client_leaves_or_joins_again_while_its_join_waits() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let mut client = client_of(&server, "ada");
    client.send("rooms:1", "phx_join", json!({ "n": 1 }));
    let first = backend.next_of("join");
    assert_eq!(client.push("rooms:1", "phx_leave", json!({}))["status"], "ok");
    client.send("rooms:1", "phx_join", json!({ "n": 2 }));
    let second = backend.next_of("join");
    let third = client.send("rooms:1", "phx_join", json!({ "n": 3 }));
    let third_asked = backend.next_of("join");
    assert_eq!(third_asked.body["payload"]["n"], 3);
    let channels = [&first, &second].map(|asked| asked.body["channel"].clone());
    for outdated in [first, second] {
        outdated.answer(json!({ "allow": true, "reply": { "from": "an outdated answer" } }));
    }
    let ended = [backend.next_of("leave"), backend.next_of("leave")];
    for asked in &ended {
        assert!(channels.contains(&asked.body["channel"]), "{}", asked.body);
    }
    ended.into_iter().for_each(Asked::allow);
    third_asked.answer(json!({ "allow": true, "reply": { "n": 3 } }));
    assert_eq!(client.reply_to(&third), json!({ "status": "ok", "response": { "n": 3 } }));
    assert_eq!(metric(&server, "watchfire_channels_joined"), 1);
}

#[test]
fn a_join_is_closed_when_the_join_that_replaces_it_ends_while_it_waits() {
    let backend = Backend::start();
    let server = server_of(&backend);
    // Without a join_ref of its own, a join has its ref.
    let closes = |client: &mut Client, count: usize| -> Vec<Value> {
        let mut refs = Vec::new();
        while refs.len() < count {
            let message = client.receive();
            if message[3] == "phx_close" {
                refs.push(message[0].clone());
            }
        }
        refs
    };
    for event in ["phx_join", "phx_leave"] {
        let mut client = client_of(&server, "ada");
        let joined = client.send("quiet:1", "phx_join", json!({}));
        backend.next_of("join").allow();
        client.reply_to(&joined);
        let waiting = client.send("quiet:1", "phx_join", json!({}));
        let _asked = backend.next_of("join");
        client.send("quiet:1", event, json!({}));
        // A third join waits too, and the close of the second one follows its reply.
        let _asked_again = (event == "phx_join").then(|| backend.next_of("join"));
        let expected = [&joined, &waiting].map(|reference| json!(reference));
        let count = if event == "phx_leave" { 2 } else { 1 };
        assert_eq!(closes(&mut client, count), expected[..count], "{event}");
    }
}

#[test]
fn an_unsubscribed_join_is_refused_and_a_disconnected_client_leaves_nothing() {
    let backend = Backend::start();
    let settings = hook_settings(&backend);
    let server = start(settings);
    let mut client = client_of(&server, "ada");
    let join = client.send("rooms:1", "phx_join", json!({}));
    let late = backend.next_of("join");
    // As the HTTP API asks.
    let unsubscribe =
        ShardQuestion::Unsubscribe { id: "users:ada".into(), topic: "rooms:1".into() };
    let (sender, answers) = std::sync::mpsc::channel();
    server.endpoint().ask_shards(unsubscribe, move |answers| sender.send(answers).unwrap());
    let answers = answers.recv().unwrap().expect("no shard is busy").into_iter();
    let counts = answers.map(|answer| match answer {
        ShardAnswer::Count(count) => count,
        _ => panic!("it is a number"),
    });
    assert_eq!(counts.sum::<u64>(), 1);
    assert_eq!(reason(&client.reply_to(&join)), "unsubscribed");
    late.answer(json!({ "allow": false }));

    client.send("rooms:1", "phx_join", json!({}));
    let asked = backend.next_of("join");
    server.endpoint().disconnect("users:ada");
    assert_eq!(client.receive_close(), 1001);
    asked.answer(json!({ "allow": false }));
    wait_for(&server, "watchfire_hooks_waiting", 0);
    assert_eq!(metric(&server, "watchfire_channels_joined"), 0);
}

#[test]
fn a_token_that_expires_while_the_backend_thinks_permits_nothing() {
    let backend = Backend::start();
    let mut settings = hook_settings(&backend);
    settings.auth.leeway = Duration::ZERO;
    let server = start(settings);
    let query = format!("vsn=2.0.0&token={}", token("ada", 1));
    let mut client = Client::connect_with(server.address(), &query).unwrap();
    let join = client.send("rooms:1", "phx_join", json!({}));
    let asked = backend.next_of("join");
    // Another client shows that the time of the token is over.
    let mut other = Client::connect_with(server.address(), &query).unwrap();
    eventually("the token expires", || {
        let refused = other.join("rooms:2", json!({ "token": "x" }));
        refused["response"]["reason"] == "token_invalid" && now() >= expires_at(&query)
    });
    asked.allow();
    assert_eq!(reason(&client.reply_to(&join)), "token_expired");
    // The backend had granted it, so it is told.
    backend.next_of("leave").allow();
}

fn expires_at(query: &str) -> u64 {
    let claims = query.split('.').nth(3).expect("a token has three parts");
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    claims["exp"].as_u64().unwrap()
}

#[test]
fn an_application_keeps_its_data_beside_the_token_and_the_address() {
    let backend = Backend::start();
    let server = with_operator(hook_settings(&backend))
        .channel("own:*", Own)
        .on_connect(|_| Ok(Connected::default().with_assigns("me".to_owned())));
    let server = server.start().unwrap();
    let own = json!({ "status": "ok", "response": { "own": "me" } });
    assert_eq!(Client::connect(server.address()).join("own:1", json!({})), own);
    let mut client = client_of(&server, "ada");
    assert_eq!(client.join("own:1", json!({})), own);
    let join = client.send("rooms:1", "phx_join", json!({}));
    let asked = backend.next_of("join");
    assert_eq!(asked.body["user"], "ada");
    assert_eq!(asked.body["socket"]["address"], "127.0.0.1");
    asked.allow();
    assert_eq!(client.reply_to(&join)["status"], "ok");
}

#[test]
fn a_drain_sends_the_notices() {
    let backend = Backend::start();
    let server = server_of(&backend);
    let clients = [(); 3].map(|()| joined(&server, &backend, "rooms:1").0);
    let drained = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(server.drain());
    });
    for _ in 0..3 {
        backend.next_of("leave").allow();
    }
    drained.join().unwrap();
    drop(clients);
}

#[test]
fn a_thousand_joins_share_a_few_connections() {
    let backend = Backend::start();
    let mut settings = hook_settings(&backend);
    settings.hooks.requests_max = 8;
    settings.limits.joins_per_second_per_socket = 1_000;
    let server = start(settings);
    backend.allow_all();
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(server.address())).collect();
    let refs: Vec<Vec<String>> = clients
        .iter_mut()
        .map(|client| {
            let join = |n| client.send(&format!("quiet:{n}"), "phx_join", json!({}));
            (0..100).map(join).collect()
        })
        .collect();
    for (client, refs) in clients.iter_mut().zip(&refs) {
        // Answers of different joins come in any order.
        let mut left: std::collections::HashSet<&String> = refs.iter().collect();
        while !left.is_empty() {
            let message = client.receive();
            if message[3] == "phx_reply" {
                assert_eq!(message[4]["status"], "ok", "{message}");
                left.remove(&message[1].as_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(metric(&server, "watchfire_channels_joined"), 1_000);
}

/// A server that asks about each client, and not about joins and messages.
fn connect_settings(backend: &Backend) -> Settings {
    let mut settings = hook_settings(backend);
    settings.hooks.connect = true;
    settings.channels.rules.iter_mut().for_each(|rule| rule.hooks.clear());
    settings
}

/// A client that connects, in a thread of its own.
fn connecting(server: &RunningServer, query: &str) -> thread::JoinHandle<Result<Client, String>> {
    let (address, query) = (server.address(), query.to_owned());
    let url = format!("ws://{address}/socket/websocket?{query}");
    thread::spawn(move || Client::connect_to(address, &url))
}

/// The response to a request for a long-poll session, in a thread of its own.
fn polling(server: &RunningServer, headers: &str) -> thread::JoinHandle<String> {
    let request = format!(
        "GET /socket/longpoll?vsn=2.0.0&seat=7 HTTP/1.1\r\nhost: localhost\r\n{headers}\
         connection: close\r\n\r\n"
    );
    let address = server.address();
    thread::spawn(move || exchange(address, request))
}

#[test]
fn a_client_connects_with_the_identity_of_the_backends_answer() {
    let backend = Backend::start();
    let mut settings = connect_settings(&backend);
    // The rule needs a token, and only the backend gives rights.
    settings.auth = Default::default();
    let server = start(settings);
    let waiting = connecting(&server, "vsn=2.0.0&a%5Bb%5D=c");
    let asked = backend.next_of("connect");
    assert_eq!(
        asked.body,
        json!({
            "hook": "connect", "transport": "websocket",
            "params": { "vsn": "2.0.0", "a": { "b": "c" } },
            "auth_token": null, "origin": null, "user": null,
            "socket": { "id": null, "address": "127.0.0.1" },
        })
    );
    assert_eq!(metric(&server, "watchfire_hooks_waiting"), 1);
    asked.answer(json!({
        "allow": true, "user": "ada", "meta": { "name": "Ada" },
        "channels": { "join": ["rooms:*"], "publish": ["rooms:1"] },
    }));
    let mut ada = waiting.join().unwrap().expect("the client is accepted");
    assert_eq!(ada.join("rooms:1", json!({}))["status"], "ok");
    let state = ada.receive_event("presence_state");
    assert_eq!(state["ada"]["metas"][0]["name"], "Ada", "{state}");
    assert_eq!(ada.push("rooms:1", "note", json!({}))["status"], "ok");
    assert_eq!(ada.join("rooms:2", json!({}))["status"], "ok");
    assert_eq!(reason(&ada.push("rooms:2", "note", json!({}))), "unauthorized");

    let waiting = connecting(&server, "vsn=2.0.0");
    backend.next_of("connect").allow();
    let mut eve = waiting.join().unwrap().expect("the client is accepted");
    assert_eq!(reason(&eve.join("rooms:1", json!({}))), "unauthorized");
    // The identity has an id, with which its sockets are closed.
    server.endpoint().disconnect("users:ada");
    assert_eq!(ada.receive_close(), 1001);
    wait_for(&server, "watchfire_hooks_waiting", 0);
    let name = "watchfire_hooks_requests_total{hook=\"connect\",outcome=\"allowed\"}";
    assert_eq!(metric(&server, name), 2);
}

#[test]
fn the_identity_of_the_backend_replaces_that_of_a_token() {
    let backend = Backend::start();
    let mut settings = connect_settings(&backend);
    // The address of the client is kept too.
    settings.channels.rules[0].hooks = vec![Hook::Join];
    let server = start(settings);
    // The server decides about the token first.
    assert!(Client::connect_with(server.address(), "vsn=2.0.0&token=bad").is_err());
    let query = format!("vsn=2.0.0&token={}", token("bob", 60));
    let waiting = connecting(&server, &query);
    let asked = backend.next_of("connect");
    assert_eq!(
        (&asked.body["user"], &asked.body["socket"]["id"]),
        (&json!("bob"), &json!("users:bob"))
    );
    let channels = json!({ "join": ["rooms:*"] });
    asked.answer(json!({ "allow": true, "user": "ada", "id": "a", "channels": channels }));
    let mut client = waiting.join().unwrap().expect("the client is accepted");
    let join = client.send("rooms:1", "phx_join", json!({}));
    let asked = backend.next_of("join");
    assert_eq!(asked.body["user"], "ada");
    assert_eq!(asked.body["socket"], json!({ "id": "a", "address": "127.0.0.1" }));
    asked.allow();
    assert_eq!(client.reply_to(&join)["status"], "ok");
}

#[test]
fn the_backend_decides_about_long_polls() {
    let backend = Backend::start();
    let server = start(connect_settings(&backend));
    let headers = "origin: http://localhost\r\nx-phoenix-authtoken: ";
    let waiting = polling(&server, &format!("{headers}{}\r\n", token("ada", 60)));
    let asked = backend.next_of("connect");
    assert_eq!(asked.body["transport"], "longpoll");
    assert_eq!(asked.body["params"], json!({ "vsn": "2.0.0", "seat": "7" }));
    assert_eq!(
        (&asked.body["origin"], &asked.body["user"]),
        (&json!("http://localhost"), &json!("ada"))
    );
    assert!(asked.body["auth_token"].as_str().is_some_and(|token| token.contains('.')));
    asked.allow();
    let response = waiting.join().unwrap();
    assert!(response.contains("{\"status\":410,\"token\":"), "{response}");

    let waiting = polling(&server, "");
    backend.next_of("connect").answer(json!({ "allow": false, "reason": "banned" }));
    let response = waiting.join().unwrap();
    assert!(
        response.starts_with("HTTP/1.1 200 ") && response.ends_with("{\"status\":403}"),
        "{response}"
    );
    let waiting = polling(&server, "");
    backend.next_of("connect").answer_with("200 OK", "garbage");
    assert!(waiting.join().unwrap().starts_with("HTTP/1.1 503 "));
    wait_for(&server, "watchfire_hooks_waiting", 0);
}

#[test]
fn a_client_is_refused_if_the_backend_denies_or_fails() {
    let backend = Backend::start();
    let server = start(connect_settings(&backend));
    let waiting = connecting(&server, "vsn=2.0.0");
    backend.next_of("connect").answer(json!({ "allow": false }));
    let error = waiting.join().unwrap().err().expect("the client is refused");
    assert!(error.contains("403"), "{error}");
    let bad_identity: Failure = Box::new(|asked| asked.answer(json!({ "allow": true, "user": 7 })));
    let huge = format!("{{\"allow\":true,\"more\":\"{}\"}}", "x".repeat(1 << 20));
    let huge: Failure = Box::new(move |asked| asked.answer_with("200 OK", &huge));
    let more = [("bad_answer", bad_identity), ("bad_answer", huge)];
    for (outcome, fail) in failures().into_iter().chain(more) {
        let waiting = connecting(&server, "vsn=2.0.0");
        fail(backend.next_of("connect"));
        let error = waiting.join().unwrap().err().expect("the client is refused");
        assert!(error.contains("503"), "{outcome}: {error}");
    }
    assert_eq!(metric(&server, "watchfire_refusals_total{reason=\"connect_backend\"}"), 1);
    let name = "watchfire_refusals_total{reason=\"connect_backend_unavailable\"}";
    assert_eq!(metric(&server, name), failures().len() as u64 + 2);
}

#[test]
fn parameters_that_are_too_large_are_refused_without_a_question() {
    let backend = Backend::start();
    let mut settings = connect_settings(&backend);
    settings.hooks.body_bytes_max = 1_000;
    let server = start(settings);
    let error =
        Client::connect_with(server.address(), &format!("vsn=2.0.0&a={}", "%00".repeat(200))).err();
    assert!(error.is_some_and(|error| error.contains("414")));
    assert!(backend.asked.try_recv().is_err());
    wait_for(&server, "watchfire_hooks_waiting", 0);
}

#[test]
fn a_client_may_connect_without_the_backend_if_the_settings_say_so() {
    let backend = Backend::start();
    let mut settings = connect_settings(&backend);
    settings.hooks.on_failure = OnFailure::Allow;
    settings.hooks.failures_max = 1;
    settings.hooks.retry_after = Duration::from_secs(3_600);
    let server = start(settings);
    let waiting = connecting(&server, "vsn=2.0.0");
    drop(backend.next_of("connect"));
    assert!(waiting.join().unwrap().is_ok());
    // The breaker is open: nobody is asked.
    let mut client = Client::connect(server.address());
    assert_eq!(client.join("plain:1", json!({}))["status"], "ok");
    assert!(backend.asked.try_recv().is_err());
}

#[test]
fn an_open_breaker_refuses_clients_at_once() {
    let backend = Backend::start();
    let mut settings = connect_settings(&backend);
    settings.hooks.failures_max = 1;
    settings.hooks.retry_after = Duration::from_secs(3_600);
    let server = start(settings);
    let waiting = connecting(&server, "vsn=2.0.0");
    drop(backend.next_of("connect"));
    assert!(waiting.join().unwrap().is_err());
    for _ in 0..3 {
        let error = Client::connect_with(server.address(), "vsn=2.0.0").err().expect("refused");
        assert!(error.contains("503"), "{error}");
    }
    assert!(polling(&server, "").join().unwrap().starts_with("HTTP/1.1 503 "));
    assert!(backend.asked.try_recv().is_err());
}

#[test]
fn clients_that_wait_are_bounded_in_number_and_delay_no_other() {
    let backend = Backend::start();
    let mut settings = connect_settings(&backend);
    settings.hooks.waiting_max = 2;
    // On a busy machine, too, the backend answers earlier.
    settings.hooks.timeout = DEADLINE;
    settings.server.shards = 1;
    let server = start(settings);
    let waiting = connecting(&server, "vsn=2.0.0");
    backend.next_of("connect").allow();
    let mut open = waiting.join().unwrap().expect("the client is accepted");
    // The place of a question is free a moment after its client has the answer.
    wait_for(&server, "watchfire_hooks_waiting", 0);
    let hanging = [connecting(&server, "vsn=2.0.0"), connecting(&server, "vsn=2.0.0")];
    let asked = [backend.next_of("connect"), backend.next_of("connect")];
    assert_eq!(open.join("plain:1", json!({}))["status"], "ok");
    assert!(support::get(&server, "/healthz").starts_with("HTTP/1.1 200 "));
    let error = Client::connect_with(server.address(), "vsn=2.0.0").err().expect("refused");
    assert!(error.contains("503"), "{error}");
    for asked in asked {
        asked.allow();
    }
    for waiting in hanging {
        waiting.join().unwrap().expect("the client is accepted");
    }
    wait_for(&server, "watchfire_hooks_waiting", 0);
    let waiting = connecting(&server, "vsn=2.0.0");
    backend.next_of("connect").allow();
    waiting.join().unwrap().expect("the client is accepted");
}

#[test]
fn a_client_that_waits_is_refused_after_the_timeout_and_frees_its_place() {
    let backend = Backend::start();
    let mut settings = connect_settings(&backend);
    settings.hooks.waiting_max = 1;
    settings.hooks.timeout = Duration::from_millis(500);
    let server = start(settings);
    // A client without a place would be refused immediately.
    for _ in 0..2 {
        let began = Instant::now();
        let error = Client::connect_with(server.address(), "vsn=2.0.0").err().expect("refused");
        assert!(error.contains("503"), "{error}");
        assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
        wait_for(&server, "watchfire_hooks_waiting", 0);
    }
}

/// A connection with an upgrade request that waits, and bytes that the client sends after it.
fn raw_upgrade(server: &RunningServer, more: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!("{UPGRADE}host: localhost\r\n\r\n");
    stream.write_all(&[head.as_bytes(), more].concat()).unwrap();
    stream
}

#[test]
fn messages_that_a_client_sends_early_are_handled_after_the_answer() {
    let backend = Backend::start();
    let server = start(connect_settings(&backend));
    let frame = text_frame(r#"["1","1","plain:1","phx_join",{}]"#);
    let mut stream = raw_upgrade(&server, &frame);
    let asked = backend.next_of("connect");
    assert_eq!(metric(&server, "watchfire_channels_joined"), 0);
    asked.allow();
    let mut response = Vec::new();
    while !response.windows(9).any(|part| part == b"phx_reply") {
        let mut bytes = [0; 4_096];
        let len = stream.read(&mut bytes).unwrap();
        assert!(len > 0, "the end after {}", String::from_utf8_lossy(&response));
        response.extend_from_slice(&bytes[..len]);
    }
    assert!(response.starts_with(b"HTTP/1.1 101 "));
    assert_eq!(metric(&server, "watchfire_channels_joined"), 1);
}

#[test]
fn a_client_that_leaves_while_it_waits_frees_its_place() {
    let backend = Backend::start();
    let mut settings = connect_settings(&backend);
    settings.limits.loopback_limited = true;
    settings.limits.sockets_per_address_max = 1;
    let server = start(settings);
    for _ in 0..3 {
        let gone = raw_upgrade(&server, b"");
        let asked = backend.next_of("connect");
        wait_for(&server, "watchfire_sockets_connections{state=\"parked\"}", 1);
        drop(gone);
        wait_for(&server, "watchfire_sockets_connections{state=\"parked\"}", 0);
        asked.allow();
        wait_for(&server, "watchfire_hooks_waiting", 0);
    }
    let waiting = connecting(&server, "vsn=2.0.0");
    // The address has no second place, and the backend is not asked for it.
    let asked = backend.next_of("connect");
    let error = Client::connect_with(server.address(), "vsn=2.0.0").err().expect("refused");
    assert!(error.contains("429"), "{error}");
    asked.answer(json!({ "allow": false }));
    assert!(waiting.join().unwrap().is_err());
    let waiting = connecting(&server, "vsn=2.0.0");
    backend.next_of("connect").allow();
    assert!(waiting.join().unwrap().is_ok());
}

#[test]
fn a_drain_refuses_the_clients_that_wait() {
    let backend = Backend::start();
    let server = start(connect_settings(&backend));
    let waiting = connecting(&server, "vsn=2.0.0");
    let asked = backend.next_of("connect");
    let poll = polling(&server, "");
    let poll_asked = backend.next_of("connect");
    let drained = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(server.drain());
    });
    let error = waiting.join().unwrap().err().expect("refused");
    assert!(error.contains("503"), "{error}");
    asked.allow();
    poll_asked.answer(json!({ "allow": false }));
    assert!(poll.join().unwrap().ends_with("{\"status\":403}"));
    drained.join().unwrap();
}

#[test]
fn settings_that_cannot_work_prevent_the_start() {
    let backend = Backend::start();
    let error = |change: fn(&mut Settings)| {
        let mut settings = hook_settings(&backend);
        change(&mut settings);
        let text = with_operator(settings.clone()).check().unwrap_err().to_string();
        assert_eq!(start_error(settings).to_string(), text);
        text
    };
    for (change, expected) in [
        (
            (|s| s.hooks.url = String::new()) as fn(&mut Settings),
            "channels.rules: cannot use the hooks of the pattern \"rooms:*\": hooks.url is empty",
        ),
        (
            |s| {
                s.channels.rules.clear();
                s.hooks.url = String::new();
                s.hooks.connect = true;
            },
            "hooks: cannot use hooks.connect: hooks.url is empty",
        ),
        (|s| s.hooks.url = "example.org".into(), "hooks: cannot use hooks.url \"example.org\""),
        (|s| s.hooks.url = "ftp://example.org".into(), "hooks: cannot use hooks.url"),
        (|s| s.hooks.secret = String::new(), "hooks: cannot sign requests to hooks.url"),
        (|s| s.hooks.secret = "short".into(), "hooks: cannot use the secret of hooks: it has 5"),
        (|s| s.hooks.secret_file = "/nowhere".into(), "hooks: cannot use both"),
        (|s| s.hooks.requests_max = 0, "hooks: cannot use hooks.requests_max = 0"),
        (
            |s| s.channels.rules[2].publish = PublishRule::Server,
            "channels.rules: cannot use the hook \"publish\" of the pattern \"moderated:*\"",
        ),
    ] {
        let text = error(change);
        assert!(text.starts_with(expected), "{text}");
    }
}
