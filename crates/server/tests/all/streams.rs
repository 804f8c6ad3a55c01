//! Promises of event streams: what `EventSource` and `curl -N` read of a topic.

use std::io::{BufRead, BufReader, Read as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use watchfire::{
    Channel, ChannelRule, HandleIn, HistoryRule, JoinRule, Joined, Outcome, Payload, PublishRule,
    Refusal, RunningServer, Settings, Socket,
};
use watchfire_testkit::{Answer, Client, Request, eventually};

use crate::support::{metric, settings};
use crate::tokens::{SECRET, now, sign};
use crate::{start, with_operator};

const STREAMS: &str = "watchfire_channels_clients{transport=\"events\"}";

fn rule(pattern: &str, join: JoinRule, history: Option<HistoryRule>) -> ChannelRule {
    ChannelRule { join, publish: PublishRule::Clients, history, ..ChannelRule::of(pattern) }
}

fn stream_settings() -> Settings {
    let mut settings = settings();
    settings.channels.rules = vec![
        rule("news:*", JoinRule::Anyone, Some(HistoryRule::default())),
        rule("plain:*", JoinRule::Anyone, None),
        ChannelRule { presence: true, ..rule("rooms:*", JoinRule::Token, None) },
    ];
    settings.auth.hs256_secret = SECRET.into();
    settings.auth.leeway = Duration::ZERO;
    settings
}

fn get(query: &str) -> Request {
    Request::get(&format!("/api/stream?{query}"))
}

fn publish(server: &RunningServer, topic: &str, n: u64) {
    server.endpoint().broadcast(topic, "note", json!({ "n": n })).expect("a valid payload");
}

/// An open stream.
struct Stream(BufReader<TcpStream>);

/// An event: its name, its id and its data.
type Event = (String, String, Value);

impl Stream {
    /// Opens a stream, and returns the response to its join.
    fn open(server: &RunningServer, request: &Request) -> (Stream, Value) {
        let mut stream = Stream(BufReader::new(request.send(server.address()).expect("it opens")));
        let head = stream.block();
        assert_eq!(head[0], "HTTP/1.1 200 OK", "{head:?}");
        assert!(head.contains(&"content-type: text/event-stream".to_owned()), "{head:?}");
        let (event, id, reply) = stream.next().expect("the reply to the join");
        assert_eq!((&*event, &*id, &reply["status"]), ("phx_reply", "", &json!("ok")));
        (stream, reply["response"].clone())
    }

    /// The lines up to an empty one; none at the end of the stream.
    fn block(&mut self) -> Vec<String> {
        let lines = self.0.by_ref().lines().map(|line| line.expect("the stream is text"));
        lines.take_while(|line| !line.is_empty()).collect()
    }

    /// The next event or id. `None` at the end.
    fn next(&mut self) -> Option<Event> {
        loop {
            let block = self.block();
            if block.first()?.starts_with(':') {
                continue;
            }
            let field = |name: &str| {
                let lines = block.iter().filter_map(|line| line.strip_prefix(name));
                lines.collect::<String>()
            };
            let data = serde_json::from_str(&field("data: ")).unwrap_or_default();
            return Some((field("event: "), field("id: "), data));
        }
    }

    /// All events up to the end.
    fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The next messages, which are notes: their numbers, and the last position.
    fn notes<const N: usize>(&mut self) -> ([u64; N], String) {
        let mut last = String::new();
        let numbers = [(); N].map(|()| {
            let (event, id, data) = self.next().expect("a note");
            assert_eq!(event, "note", "{data}");
            last = id;
            data["n"].as_u64().expect("a number")
        });
        (numbers, last)
    }
}

#[test]
fn a_stream_sends_the_messages_of_its_topic_with_their_positions() {
    let server = start(stream_settings());
    let (mut stream, joined) = Stream::open(&server, &get("topic=news:1"));
    let position = joined["position"].as_str().expect("a position").to_owned();
    assert_eq!(stream.next(), Some((String::new(), position.clone(), Value::Null)));
    publish(&server, "news:1", 1);
    assert_eq!(stream.notes(), ([1], position.replace(":0", ":1")));
    let mut client = Client::connect(server.address());
    client.join("news:1", json!({}));
    client.push("news:1", "a\nid: 7", json!({ "text": "two\nlines" }));
    let (event, id, data) = stream.next().expect("the message of a client");
    assert_eq!((&*event, id), ("a id: 7", position.replace(":0", ":2")));
    assert_eq!(data, json!({ "text": "two\nlines" }));
    let (mut plain, joined) = Stream::open(&server, &get("topic=plain:1"));
    assert_eq!(joined, json!({}), "a topic without a history has no position");
    publish(&server, "plain:1", 1);
    assert_eq!(plain.notes(), ([1], String::new()));
    assert_eq!(metric(&server, STREAMS), 2);
    drop(plain);
    eventually("the client is gone", || metric(&server, STREAMS) == 1);
}

#[test]
fn a_stream_continues_after_a_cut_without_a_gap_and_without_a_repeat() {
    let server = start(stream_settings());
    let (mut stream, _) = Stream::open(&server, &get("topic=news:1"));
    stream.next();
    (1..=3).for_each(|n| publish(&server, "news:1", n));
    let ([1, 2], position) = stream.notes() else { panic!("the first two") };
    drop(stream);
    publish(&server, "news:1", 4);
    let by_header = get("topic=news:1").line(format!("last-event-id: {position}"));
    let by_parameter = get(&format!("topic=news:1&last_event_id={position}"));
    // A browser that connects again repeats the parameter of the URL.
    let by_both = get("topic=news:1&last_event_id=z:0").line(format!("last-event-id: {position}"));
    for request in [by_header, by_parameter, by_both] {
        let (mut stream, joined) = Stream::open(&server, &request);
        assert_eq!(joined["recovered"], true, "{joined}");
        assert_eq!(stream.notes().0, [3, 4]);
    }
    let (mut stream, joined) = Stream::open(&server, &get("topic=news:1&last_event_id=z:7"));
    assert_eq!(joined["recovered"], false, "the loss is in the first event");
    let (event, id, _) = stream.next().expect("the position from which it goes on");
    assert_eq!((&*event, json!(id)), ("", joined["position"].clone()));
    publish(&server, "news:1", 5);
    assert_eq!(stream.notes().0, [5]);
    let (mut stream, _) = Stream::open(&server, &get("topic=news:1&last=2"));
    assert_eq!(stream.notes().0, [4, 5]);
    // The last id is the newest, so a cut before the next message repeats nothing.
    let position = joined["position"].as_str().unwrap().replace(":4", ":5");
    let (mut stream, _) =
        Stream::open(&server, &get(&format!("topic=news:1&last_event_id={position}")));
    publish(&server, "news:1", 6);
    assert_eq!(stream.notes().0, [6]);
}

#[test]
fn a_token_opens_a_stream_as_it_opens_a_channel() {
    let server = start(stream_settings());
    let claims = json!({ "sub": "ada", "exp": now() + 60, "channels": { "join": ["rooms:1"] } });
    let token = sign(&claims);
    let by_parameter = get(&format!("topic=rooms:1&token={token}"));
    let by_header = get("topic=rooms:1").line(format!("Authorization: Bearer {token}"));
    for request in [by_parameter, by_header] {
        let (mut stream, _) = Stream::open(&server, &request);
        let (event, _, state) = stream.next().expect("the presences");
        assert_eq!((&*event, state["ada"]["metas"].is_array()), ("presence_state", true));
    }
    let refused = |request: Request| -> (u16, Value) {
        let answer: Answer = request.to(server.address());
        assert_eq!(answer.header("content-type"), "application/json; charset=utf-8");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        (answer.status, answer.json()["reason"].clone())
    };
    let table = [
        (get("topic=rooms:1"), 403, "unauthorized"),
        (get(&format!("topic=rooms:2&token={token}")), 403, "unauthorized"),
        (get("topic=rooms:1&token=x"), 403, "connect_application"),
        (get("topic=nowhere"), 404, "unmatched topic"),
        (get(&format!("topic=plain:{}", "x".repeat(256))), 414, "topic too long"),
        (get("topic="), 404, "unmatched topic"),
        (get("last=2"), 400, "connect_query"),
        (get("topic=news:1&last=x"), 400, "connect_query"),
        (get("topic=plain:1").line("origin: https://evil.example"), 403, "connect_origin"),
    ];
    for (request, status, reason) in table {
        assert_eq!(refused(request.clone()), (status, json!(reason)), "{request:?}");
    }
    eventually("every client is gone", || metric(&server, STREAMS) == 0);
    let post = Request::post("/api/stream?topic=plain:1", "").to(server.address());
    assert_eq!(post.status, 405);
    let preflight = Request::new("OPTIONS", "/api/stream?topic=plain:1")
        .line("origin: https://evil.example")
        .line("access-control-request-headers: authorization");
    let preflight = preflight.to(server.address());
    assert_eq!(preflight.header("access-control-allow-headers"), "authorization");
}

#[test]
fn a_stream_ends_with_its_channel_and_says_why() {
    let server = start(stream_settings());
    let token =
        |exp| sign(&json!({ "sub": "ada", "exp": exp, "channels": { "join": ["rooms:*"] } }));
    let open = |exp| Stream::open(&server, &get(&format!("topic=rooms:1&token={}", token(exp)))).0;
    let event =
        |name: &str, reason: &str| (name.to_owned(), String::new(), json!({ "reason": reason }));
    let ended = open(now() + 2).rest();
    let expected = [event("token_expired", "token_expired"), event("phx_close", "channel_closed")];
    assert_eq!(ended[ended.len() - 2..], expected);
    let mut stream = open(now() + 60);
    server.endpoint().disconnect("users:ada");
    let ended = stream.rest();
    assert_eq!(ended.last(), Some(&event("phx_error", "disconnected by the server")));
    let mut stream = Stream::open(&server, &get("topic=plain:1")).0;
    let drained = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(server.drain());
    });
    assert_eq!(stream.rest(), [event("phx_error", "the server restarts")]);
    drop(stream);
    drained.join().unwrap();
}

#[test]
fn a_stream_that_nobody_reads_is_closed_and_the_others_go_on() {
    let mut settings = stream_settings();
    settings.limits.queued_bytes_max = 100_000;
    let server = start(settings);
    let (_stuck, _) = Stream::open(&server, &get("topic=plain:1"));
    let (mut reader, _) = Stream::open(&server, &get("topic=plain:1"));
    let text = "x".repeat(50_000);
    let mut sent = 0;
    eventually("the stuck stream is closed", || {
        for _ in 0..10 {
            sent += 1;
            let payload = json!({ "n": sent, "text": text });
            server.endpoint().broadcast("plain:1", "note", payload).expect("a valid payload");
            assert_eq!(reader.notes(), ([sent], String::new()));
        }
        metric(&server, "watchfire_sockets_closes_total{reason=\"slow\"}") == 1
    });
    assert_eq!(metric(&server, STREAMS), 1);
}

#[test]
fn a_silent_stream_gets_comments() {
    let mut settings = stream_settings();
    settings.socket.idle_timeout = Duration::from_secs(1);
    let server = start(settings);
    let (mut stream, _) = Stream::open(&server, &get("topic=plain:1"));
    for _ in 0..3 {
        assert_eq!(stream.block(), [":"]);
    }
    publish(&server, "plain:1", 1);
    assert_eq!(stream.notes().0, [1]);
}

/// A channel that pushes before it decides about a join.
struct Early;

impl Channel for Early {
    type State = ();

    fn join(&self, socket: &mut Socket<'_>, payload: Payload<'_>) -> Result<Joined<()>, Refusal> {
        let params: Value = payload.json().unwrap_or_default();
        socket.push("early", params.clone()).ok();
        match params["refuse"].as_str() {
            Some(_) => Err(Refusal::because("refused")),
            None => Ok(Joined::with(())),
        }
    }

    fn handle_in(&self, (): &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::NoReply)
    }
}

#[test]
fn a_push_before_the_reply_begins_the_stream() {
    let server = with_operator(stream_settings()).channel("early:*", Early);
    let server = server.start().expect("the server starts");
    let request = get("topic=early:1&token=&vsn=2.0.0&refuse=1&a[b]=c");
    let mut stream = Stream(BufReader::new(request.send(server.address()).expect("it opens")));
    stream.block();
    let event = |name: &str, data: Value| (name.to_owned(), String::new(), data);
    // Without the parameters of the request itself.
    let early = event("early", json!({ "refuse": "1", "a": { "b": "c" } }));
    assert_eq!(stream.rest(), [early, event("phx_error", json!({ "reason": "refused" }))]);
    drop(stream);
    eventually("the client is gone", || metric(&server, STREAMS) == 0);
}
