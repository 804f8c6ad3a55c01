//! Sprites, over channels and over plain HTTP.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchfire::{RunningServer, Settings};
use watchfire_pages::SpriteSettings;
use watchfire_testkit::{Answer, Client, Request, eventually};

use crate::support::{get, http, metric, settings};
use crate::{server, start};

const GRID: &str = "sprites:meadow";

fn start_with(change: impl FnOnce(&mut Settings)) -> RunningServer {
    let mut settings = settings();
    change(&mut settings);
    start(settings)
}

fn join(client: &mut Client, payload: Value) -> Value {
    let reply = client.join(GRID, payload);
    assert_eq!(reply["status"], "ok", "{reply}");
    reply["response"].clone()
}

fn throw(edge: &str) -> Value {
    json!({ "sprite": "cat", "edge": edge, "at": 0.25, "velocity": { "x": 900, "y": -20 } })
}

/// The status and the JSON of an answer.
fn parse(answer: &Answer) -> (u16, Value) {
    (answer.status, answer.json())
}

/// Sends a plain HTTP request.
fn post_to(server: &RunningServer, path: &str, body: &str) -> (u16, Value) {
    parse(&Request::post(path, body).to(server.address()))
}

fn post(server: &RunningServer, call: &str, body: &Value) -> (u16, Value) {
    post_to(server, &format!("/sprites/meadow/{call}"), &body.to_string())
}

fn join_polling(server: &RunningServer) -> Value {
    let (status, body) = post(server, "join", &json!({}));
    assert_eq!(status, 200, "{body}");
    body
}

fn poll_request(token: &Value) -> Request {
    let token = token.as_str().expect("a token");
    Request::get(&format!("/sprites/meadow/poll?token={token}"))
}

fn poll(server: &RunningServer, token: &Value) -> (u16, Value) {
    parse(&poll_request(token).to(server.address()))
}

/// A poll without a response yet.
struct WaitingPoll(TcpStream);

impl WaitingPoll {
    fn start(server: &RunningServer, token: &Value) -> WaitingPoll {
        WaitingPoll(poll_request(token).send(server.address()).expect("the request is sent"))
    }

    fn response(self) -> (u16, Value) {
        parse(&Answer::read(self.0))
    }
}

fn wait_until_parked(server: &RunningServer, polls: u64) {
    let parked = r#"watchfire_sockets_connections{state="parked"}"#;
    eventually("the polls are parked", || metric(server, parked) == polls);
}

#[test]
fn a_throw_arrives_at_the_neighbour_at_that_edge_and_comes_in_at_the_opposite_edge() {
    let server = server();
    let (mut a, mut b) = (Client::connect(server.address()), Client::connect(server.address()));
    let first = join(&mut a, json!({}));
    let none = json!({ "left": null, "right": null, "up": null, "down": null });
    assert_eq!(first["neighbours"], none);
    let second = join(&mut b, json!({}));
    let id = &first["peer"];
    assert_eq!(second["neighbours"], json!({ "left": id, "right": id, "up": id, "down": id }));
    assert_eq!(a.receive_event("neighbours")["left"], second["peer"]);

    for (edge, opposite) in [("right", "left"), ("left", "right"), ("up", "down"), ("down", "up")] {
        let reply = a.push(GRID, "throw", throw(edge));
        assert_eq!(reply, json!({ "status": "ok", "response": {} }));
        let arrived = b.receive_event("arrive");
        let velocity = json!({ "x": 900.0, "y": -20.0 });
        assert_eq!(
            arrived,
            json!({ "sprite": "cat", "edge": opposite, "at": 0.25, "velocity": velocity,
                "from": first["peer"] })
        );
    }
    assert_eq!(metric(&server, "watchfire_sprites_throws_total"), 4);
}

#[test]
fn each_of_many_peers_has_one_right_and_one_left_neighbour() {
    let server = server();
    let mut clients: Vec<Client> = (0..12).map(|_| Client::connect(server.address())).collect();
    let ids: Vec<Value> =
        clients.iter_mut().map(|client| join(client, json!({}))["peer"].clone()).collect();
    for client in &mut clients {
        client.send(GRID, "throw", throw("right"));
    }
    // Each peer has one left neighbour, so each receives one sprite, and all throwers differ.
    let mut from: Vec<String> = clients
        .iter_mut()
        .map(|client| client.receive_event("arrive")["from"].as_str().expect("an id").to_owned())
        .collect();
    from.sort();
    let mut expected: Vec<&str> = ids.iter().map(|id| id.as_str().expect("an id")).collect();
    expected.sort();
    assert_eq!(from, expected);
}

#[test]
fn a_throw_of_a_peer_alone_returns_at_the_opposite_edge() {
    let server = server();
    let mut client = Client::connect(server.address());
    join(&mut client, json!({}));
    let reply = client.push(GRID, "throw", throw("up"));
    assert_eq!(reply, json!({ "status": "ok", "response": { "wrapped": true } }));
}

#[test]
fn a_reload_gets_its_slot_back_and_meanwhile_throws_return() {
    let server = start_with(|settings| {
        settings.section_mut::<watchfire_pages::SpriteSettings>().reservation_period =
            Duration::from_secs(600)
    });
    let (mut a, mut b) = (Client::connect(server.address()), Client::connect(server.address()));
    join(&mut a, json!({}));
    let slot = join(&mut b, json!({}));
    a.receive_event("neighbours");
    drop(b);
    assert_eq!(a.receive_event("neighbours")["right"], json!(null));
    let reply = a.push(GRID, "throw", throw("right"));
    assert_eq!(reply["response"], json!({ "wrapped": true }));

    let mut b = Client::connect(server.address());
    let back = join(&mut b, json!({ "token": slot["token"] }));
    assert_eq!((&back["peer"], &back["token"]), (&slot["peer"], &slot["token"]));
    assert_eq!(a.receive_event("neighbours")["right"], slot["peer"]);
    assert_eq!(a.push(GRID, "throw", throw("right"))["response"], json!({}));
    assert_eq!(b.receive_event("arrive")["sprite"], "cat");
}

#[test]
fn a_slot_is_closed_when_its_reservation_expires() {
    let server = start_with(|settings| {
        settings.section_mut::<watchfire_pages::SpriteSettings>().reservation_period =
            Duration::ZERO
    });
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.address())).collect();
    let slots: Vec<Value> = clients.iter_mut().map(|c| join(c, json!({}))).collect();
    drop(clients.remove(0));
    let other = &slots[2]["peer"];
    let all = json!({ "left": other, "right": other, "up": other, "down": other });
    while clients[0].receive_event("neighbours") != all {}
}

#[test]
fn the_older_of_two_tabs_with_one_token_loses_the_slot() {
    let server = server();
    let (mut older, mut newer) =
        (Client::connect(server.address()), Client::connect(server.address()));
    let slot = join(&mut older, json!({}));
    let taken = join(&mut newer, json!({ "token": slot["token"] }));
    assert_eq!(taken["peer"], slot["peer"]);
    assert_eq!(older.receive_event("moved"), json!({}));
    let reply = older.push(GRID, "throw", throw("up"));
    assert_eq!(reply["response"]["reason"], "slot taken");
    let again = join(&mut older, json!({}));
    assert_ne!(again["peer"], slot["peer"]);
    assert_eq!(newer.receive_event("neighbours")["left"], again["peer"]);
}

#[test]
fn an_invalid_throw_is_refused_with_the_reason() {
    let server = server();
    let mut client = Client::connect(server.address());
    join(&mut client, json!({}));
    let cases = [
        ("at", json!(1.5), "at is a number from 0 to 1"),
        ("at", json!(null), "invalid type: null"),
        ("velocity", json!({ "x": 1e300, "y": 0 }), "velocity is x and y"),
        ("edge", json!("front"), "unknown variant `front`"),
        ("sprite", json!(""), "sprite needs"),
        ("picture", json!("https://example.org/cat.png"), "picture: "),
    ];
    for (field, value, expected) in cases {
        let mut bad = throw("left");
        bad[field] = value;
        let response = client.push(GRID, "throw", bad)["response"].clone();
        assert_eq!(response["reason"], "bad throw");
        assert!(response["message"].as_str().expect("a text").contains(expected), "{response}");
    }
    let mut large = throw("left");
    large["sprite"] = "x".repeat(100_000).into();
    let response = client.push(GRID, "throw", large)["response"].clone();
    assert_eq!(response, json!({ "reason": "throw too large", "max": 1024 }));
    for text in ["NaN", "1e999", "-Infinity"] {
        let body = throw("left").to_string().replace("0.25", text);
        let token = join_polling(&server)["token"].clone();
        let body = body.replacen('{', &format!("{{\"token\":{token},"), 1);
        let (status, response) = post_to(&server, "/sprites/meadow/throw", &body);
        assert_eq!((status, &response["reason"]), (400, &json!("bad throw")), "{text}");
    }
}

#[test]
fn grids_slots_and_names_are_limited() {
    let server = start_with(|settings| {
        settings.section_mut::<watchfire_pages::PageLimits>().grids_max = 2;
        settings.section_mut::<watchfire_pages::PageLimits>().grid_peers_max = 3;
    });
    let mut client = Client::connect(server.address());
    for name in ["", "a/b", "a b", &"x".repeat(65)] {
        let reply = client.join(&format!("sprites:{name}"), json!({}));
        assert_eq!(reply["response"]["reason"], "invalid grid name", "{name}");
    }
    assert_eq!(client.join("sprites:a", json!({ "token": 7 }))["response"]["reason"], "bad join");
    assert_eq!(client.join("sprites:a", json!({}))["status"], "ok");
    assert_eq!(client.join("sprites:b", json!({}))["status"], "ok");
    let refused = json!({ "reason": "too many grids", "max": 2 });
    assert_eq!(client.join("sprites:c", json!({}))["response"], refused);
    assert_eq!(post_to(&server, "/sprites/c/join", "").1, refused);
    assert_eq!(post_to(&server, "/sprites/a/join", "").0, 200);
    assert_eq!(metric(&server, "watchfire_sprites_grids"), 2);
    assert_eq!(metric(&server, "watchfire_sprites_peers"), 3);
    let full = json!({ "reason": "grids full", "max": 3 });
    assert_eq!(post_to(&server, "/sprites/a/join", ""), (503, full));
    assert_eq!(post_to(&server, "/sprites/%20/join", "").0, 400);
}

#[test]
fn pages_of_other_origins_take_no_place_on_a_grid() {
    let server = server();
    let join = |origin: &str| {
        let head = "POST /sprites/meadow/join HTTP/1.1\r\nhost: localhost\r\nconnection: close";
        let response = http(&server, &format!("{head}\r\n{origin}content-length: 0\r\n\r\n"));
        response.split(' ').nth(1).map(str::to_owned)
    };
    assert_eq!(join("origin: http://other.example\r\n").as_deref(), Some("403"));
    assert_eq!(metric(&server, "watchfire_sprites_peers"), 0);
    assert_eq!(join("origin: http://localhost\r\n").as_deref(), Some("200"));
    assert_eq!(join("").as_deref(), Some("200"));
}

#[test]
fn a_poll_waits_until_a_sprite_arrives() {
    let server = server();
    let mut thrower = Client::connect(server.address());
    join(&mut thrower, json!({}));
    let slot = join_polling(&server);
    thrower.receive_event("neighbours");
    let waiting = WaitingPoll::start(&server, &slot["token"]);
    wait_until_parked(&server, 1);
    assert_eq!(thrower.push(GRID, "throw", throw("left"))["response"], json!({}));
    let (status, body) = waiting.response();
    assert_eq!((status, &body["arrivals"][0]["edge"]), (200, &json!("right")), "{body}");

    // Arrivals without a waiting poll are queued for the next.
    thrower.push(GRID, "throw", throw("up"));
    thrower.push(GRID, "throw", throw("down"));
    let (_, body) = poll(&server, &slot["token"]);
    assert_eq!(body["arrivals"].as_array().map(Vec::len), Some(2), "{body}");
    assert_eq!(body["neighbours"]["left"], body["arrivals"][0]["from"]);
}

#[test]
fn a_polling_peer_can_throw_and_its_token_is_stale_after_it_left() {
    let server = server();
    let mut neighbour = Client::connect(server.address());
    join(&mut neighbour, json!({}));
    let slot = join_polling(&server);
    let mut thrown = throw("right");
    thrown["token"] = slot["token"].clone();
    assert_eq!(post(&server, "throw", &thrown), (200, json!({})));
    assert_eq!(neighbour.receive_event("arrive")["from"], slot["peer"]);

    let waiting = WaitingPoll::start(&server, &slot["token"]);
    wait_until_parked(&server, 1);
    assert_eq!(post(&server, "leave", &json!({ "token": slot["token"] })), (200, json!({})));
    let stale = (410, json!({ "reason": "stale token" }));
    assert_eq!(waiting.response(), stale);
    assert_eq!(poll(&server, &slot["token"]), stale);
    assert_eq!(post(&server, "throw", &thrown), stale);
    assert_eq!(post(&server, "leave", &json!({ "token": slot["token"] })), stale);
    while neighbour.receive_event("neighbours")["left"] != json!(null) {}
}

#[test]
fn an_invalid_token_is_stale() {
    let server = server();
    let stale = (410, json!({ "reason": "stale token" }));
    for token in ["", "x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        assert_eq!(poll(&server, &json!(token)), stale);
        assert_eq!(post(&server, "leave", &json!({ "token": token })), stale);
    }
    let elsewhere = post_to(&server, "/sprites/desert/join", "").1;
    assert_eq!(poll(&server, &elsewhere["token"]), stale, "the token of another grid");
}

#[test]
fn a_newer_poll_of_the_same_peer_ends_the_older_one() {
    let server = server();
    let slot = join_polling(&server);
    let older = WaitingPoll::start(&server, &slot["token"]);
    wait_until_parked(&server, 1);
    let newer = WaitingPoll::start(&server, &slot["token"]);
    assert_eq!(older.response(), (409, json!({ "reason": "a newer poll waits" })));
    let mut neighbour = Client::connect(server.address());
    let other = join(&mut neighbour, json!({}));
    let (status, body) = newer.response();
    assert_eq!((status, &body["neighbours"]["up"]), (200, &other["peer"]));
}

#[test]
fn a_poll_without_arrivals_gets_an_empty_response_after_its_window() {
    let server = start_with(|settings| {
        settings.section_mut::<SpriteSettings>().sprites_window = Duration::ZERO
    });
    let slot = join_polling(&server);
    let (status, body) = poll(&server, &slot["token"]);
    assert_eq!((status, &body["arrivals"]), (200, &json!([])));
}

#[test]
fn a_poll_waits_for_its_window_which_is_two_minutes_and_its_connection_takes_the_next_poll() {
    let window = Duration::from_secs(1);
    assert_eq!(SpriteSettings::default().sprites_window, Duration::from_secs(120));
    let server = start_with(|settings| {
        settings.section_mut::<SpriteSettings>().sprites_window = window;
        // A poll is no WebSocket, which is closed when it is silent.
        settings.socket.idle_timeout = Duration::from_millis(100);
    });
    let slot = join_polling(&server);
    let path = format!("/sprites/meadow/poll?token={}", slot["token"].as_str().expect("a token"));
    let poll = |end| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{end}\r\n");
    let began = Instant::now();
    let answers = http(&server, &[poll(""), poll("connection: close\r\n")].concat());
    assert_eq!(answers.matches(r#""arrivals":[]"#).count(), 2, "{answers}");
    assert!(began.elapsed() >= 2 * window, "both are answered after {:?}", began.elapsed());
}

#[test]
fn a_neighbour_with_a_full_queue_accepts_no_throws_until_it_polls() {
    let server = start_with(|settings| {
        settings.section_mut::<watchfire_pages::PageLimits>().arrivals_queued_max = 2
    });
    let mut thrower = Client::connect(server.address());
    join(&mut thrower, json!({}));
    let slot = join_polling(&server);
    let mut thrown = || thrower.push(GRID, "throw", throw("left"))["response"].clone();
    assert_eq!([thrown(), thrown()], [json!({}), json!({})]);
    assert_eq!(thrown(), json!({ "wrapped": true }), "the sprite returns");
    assert_eq!(poll(&server, &slot["token"]).1["arrivals"].as_array().map(Vec::len), Some(2));
    assert_eq!(thrown(), json!({}));
}

#[test]
fn a_throw_that_is_too_large_gets_413() {
    let server = server();
    let slot = join_polling(&server);
    let body = json!({ "token": slot["token"], "sprite": "x".repeat(4_000) }).to_string();
    let (status, body) = post_to(&server, "/sprites/meadow/throw", &body);
    assert_eq!((status, body), (413, json!({ "reason": "throw too large", "max": 1024 })));
}

#[test]
fn a_throw_that_ends_before_its_length_is_not_too_large() {
    let server = server();
    let request = Request::new("POST", "/sprites/meadow/throw").line("content-length: 20");
    let mut stream = request.send(server.address()).expect("the head is sent");
    stream.write_all(b"{}").expect("the start of the body is sent");
    stream.shutdown(Shutdown::Write).expect("the sending side can be closed");
    let (status, body) = parse(&Answer::read(stream));
    assert_eq!((status, &body["reason"]), (400, &json!("bad throw")));
    assert!(
        body["message"].as_str().expect("a text").starts_with("cannot read the body"),
        "{body}"
    );
}

#[test]
fn a_browser_gets_the_app_for_a_grid() {
    let response = get(&server(), "/sprites/meadow").to_lowercase();
    assert!(response.contains("content-security-policy: default-src 'self'"), "{response}");
}
