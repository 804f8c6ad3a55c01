//! Sprites, over channels and over plain HTTP.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Client, get, http, metric, settings, watchfire};
use watchfire_server::{RunningServer, Server, Settings};

const GRID: &str = "sprites:meadow";

fn running(change: impl FnOnce(&mut Settings)) -> RunningServer {
    let mut settings = settings();
    change(&mut settings);
    Server::new(settings).with_pages().start().expect("the server starts")
}

/// Join over a channel, with a token or without.
fn join(client: &mut Client, payload: Value) -> Value {
    let reply = client.join(GRID, payload);
    assert_eq!(reply["status"], "ok", "{reply}");
    reply["response"].clone()
}

fn throw(edge: &str) -> Value {
    json!({ "sprite": "cat", "edge": edge, "at": 0.25, "velocity": { "x": 900, "y": -20 } })
}

/// A request of plain HTTP: the status and the JSON of its answer.
fn ask(server: &RunningServer, method: &str, path: &str, body: &str) -> (u16, Value) {
    let len = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    read_answer(&http(server, &format!("{head}content-length: {len}\r\n\r\n{body}")))
}

fn read_answer(answer: &str) -> (u16, Value) {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect(answer);
    let body = answer.split("\r\n\r\n").nth(1).expect("a body");
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {answer}")))
}

fn post(server: &RunningServer, verb: &str, body: &Value) -> (u16, Value) {
    ask(server, "POST", &format!("/sprites/meadow/{verb}"), &body.to_string())
}

fn join_polling(server: &RunningServer) -> Value {
    let (status, told) = post(server, "join", &json!({}));
    assert_eq!(status, 200, "{told}");
    told
}

fn poll(server: &RunningServer, token: &Value) -> (u16, Value) {
    read_answer(&get(server, &poll_path(token)))
}

fn poll_path(token: &Value) -> String {
    format!("/sprites/meadow/poll?token={}", token.as_str().expect("a token"))
}

/// A poll that waits, to be read when something has happened.
struct Waiting(TcpStream);

impl Waiting {
    fn start(server: &RunningServer, token: &Value) -> Waiting {
        let mut stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
        let path = poll_path(token);
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .expect("the request is sent");
        Waiting(stream)
    }

    fn answer(mut self) -> (u16, Value) {
        let mut answer = String::new();
        self.0.read_to_string(&mut answer).expect("the answer is text");
        read_answer(&answer)
    }
}

fn until_parked(server: &RunningServer, polls: u64) {
    while metric(server, "watchfire_sockets_parked_polls") != polls {
        std::thread::yield_now();
    }
}

#[test]
fn a_throw_arrives_at_exactly_that_neighbour_and_at_the_opposite_edge() {
    let server = watchfire();
    let (mut a, mut b) = (Client::connect(&server), Client::connect(&server));
    let first = join(&mut a, json!({}));
    let nobody = json!({ "left": null, "right": null, "up": null, "down": null });
    assert_eq!(first["neighbours"], nobody);
    let second = join(&mut b, json!({}));
    let id = &first["peer"];
    assert_eq!(second["neighbours"], json!({ "left": id, "right": id, "up": id, "down": id }));
    assert_eq!(a.hear_event("neighbours")["left"], second["peer"]);

    for (edge, opposite) in [("right", "left"), ("left", "right"), ("up", "down"), ("down", "up")] {
        let reply = a.push(GRID, "throw", throw(edge));
        assert_eq!(reply, json!({ "status": "ok", "response": {} }));
        let arrived = b.hear_event("arrive");
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
fn many_peers_agree_on_who_is_beside_whom() {
    let server = watchfire();
    let mut clients: Vec<Client> = (0..12).map(|_| Client::connect(&server)).collect();
    let ids: Vec<Value> =
        clients.iter_mut().map(|client| join(client, json!({}))["peer"].clone()).collect();
    for client in &mut clients {
        client.send(GRID, "throw", throw("right"));
    }
    // Each window has one to its left, so each gets exactly one sprite, and all are different.
    let mut from: Vec<String> = clients
        .iter_mut()
        .map(|client| client.hear_event("arrive")["from"].as_str().expect("an id").to_owned())
        .collect();
    from.sort();
    let mut expected: Vec<&str> = ids.iter().map(|id| id.as_str().expect("an id")).collect();
    expected.sort();
    assert_eq!(from, expected);
}

#[test]
fn who_is_alone_has_its_sprite_back_from_the_other_side() {
    let server = watchfire();
    let mut client = Client::connect(&server);
    join(&mut client, json!({}));
    let reply = client.push(GRID, "throw", throw("up"));
    assert_eq!(reply, json!({ "status": "ok", "response": { "wrapped": true } }));
}

#[test]
fn a_reload_keeps_its_place_and_meanwhile_throws_come_back() {
    let server = running(|settings| settings.socket.reservation_period = Duration::from_secs(600));
    let (mut a, mut b) = (Client::connect(&server), Client::connect(&server));
    join(&mut a, json!({}));
    let place = join(&mut b, json!({}));
    a.hear_event("neighbours");
    drop(b);
    assert_eq!(a.hear_event("neighbours")["right"], json!(null));
    let reply = a.push(GRID, "throw", throw("right"));
    assert_eq!(reply["response"], json!({ "wrapped": true }));

    let mut b = Client::connect(&server);
    let back = join(&mut b, json!({ "token": place["token"] }));
    assert_eq!((&back["peer"], &back["token"]), (&place["peer"], &place["token"]));
    assert_eq!(a.hear_event("neighbours")["right"], place["peer"]);
    assert_eq!(a.push(GRID, "throw", throw("right"))["response"], json!({}));
    assert_eq!(b.hear_event("arrive")["sprite"], "cat");
}

#[test]
fn a_place_that_nobody_comes_back_for_is_closed() {
    let server = running(|settings| settings.socket.reservation_period = Duration::ZERO);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&server)).collect();
    let places: Vec<Value> = clients.iter_mut().map(|c| join(c, json!({}))).collect();
    drop(clients.remove(0));
    let other = &places[2]["peer"];
    let all = json!({ "left": other, "right": other, "up": other, "down": other });
    while clients[0].hear_event("neighbours") != all {}
}

#[test]
fn of_two_tabs_with_one_token_the_older_is_told_to_move() {
    let server = watchfire();
    let (mut older, mut newer) = (Client::connect(&server), Client::connect(&server));
    let place = join(&mut older, json!({}));
    let taken = join(&mut newer, json!({ "token": place["token"] }));
    assert_eq!(taken["peer"], place["peer"]);
    assert_eq!(older.hear_event("moved"), json!({}));
    let reply = older.push(GRID, "throw", throw("up"));
    assert_eq!(reply["response"]["reason"], "slot taken");
    let again = join(&mut older, json!({}));
    assert_ne!(again["peer"], place["peer"]);
    assert_eq!(newer.hear_event("neighbours")["left"], again["peer"]);
}

#[test]
fn a_throw_that_is_none_is_refused_with_the_reason() {
    let server = watchfire();
    let mut client = Client::connect(&server);
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
        assert!(response["message"].as_str().expect("words").contains(expected), "{response}");
    }
    let mut large = throw("left");
    large["sprite"] = "x".repeat(100_000).into();
    let response = client.push(GRID, "throw", large)["response"].clone();
    assert_eq!(response, json!({ "reason": "throw too large", "max": 1024 }));
    for text in ["NaN", "1e999", "-Infinity"] {
        let body = throw("left").to_string().replace("0.25", text);
        let token = join_polling(&server)["token"].clone();
        let body = body.replacen('{', &format!("{{\"token\":{token},"), 1);
        let (status, told) = ask(&server, "POST", "/sprites/meadow/throw", &body);
        assert_eq!((status, &told["reason"]), (400, &json!("bad throw")), "{text}");
    }
}

#[test]
fn grids_and_their_names_are_bounded() {
    let server = running(|settings| {
        settings.limits.grids_max = 2;
        settings.limits.grid_peers_max = 3;
    });
    let mut client = Client::connect(&server);
    for name in ["", "a/b", "a b", &"x".repeat(65)] {
        let reply = client.join(&format!("sprites:{name}"), json!({}));
        assert_eq!(reply["response"]["reason"], "invalid grid name", "{name}");
    }
    assert_eq!(client.join("sprites:a", json!({ "token": 7 }))["response"]["reason"], "bad join");
    assert_eq!(client.join("sprites:a", json!({}))["status"], "ok");
    assert_eq!(client.join("sprites:b", json!({}))["status"], "ok");
    let refused = json!({ "reason": "too many grids", "max": 2 });
    assert_eq!(client.join("sprites:c", json!({}))["response"], refused);
    assert_eq!(ask(&server, "POST", "/sprites/c/join", "").1, refused);
    assert_eq!(ask(&server, "POST", "/sprites/a/join", "").0, 200);
    assert_eq!(metric(&server, "watchfire_sprites_grids"), 2);
    assert_eq!(metric(&server, "watchfire_sprites_peers"), 3);
    let full = json!({ "reason": "grids full", "max": 3 });
    assert_eq!(ask(&server, "POST", "/sprites/a/join", ""), (503, full));
    assert_eq!(ask(&server, "POST", "/sprites/%20/join", "").0, 400);
}

#[test]
fn a_poll_waits_until_a_sprite_comes() {
    let server = watchfire();
    let mut thrower = Client::connect(&server);
    join(&mut thrower, json!({}));
    let place = join_polling(&server);
    thrower.hear_event("neighbours");
    let waiting = Waiting::start(&server, &place["token"]);
    until_parked(&server, 1);
    assert_eq!(thrower.push(GRID, "throw", throw("left"))["response"], json!({}));
    let (status, told) = waiting.answer();
    assert_eq!((status, &told["arrivals"][0]["edge"]), (200, &json!("right")), "{told}");

    // What comes while no poll waits, waits for the next.
    thrower.push(GRID, "throw", throw("up"));
    thrower.push(GRID, "throw", throw("down"));
    let (_, told) = poll(&server, &place["token"]);
    assert_eq!(told["arrivals"].as_array().map(Vec::len), Some(2), "{told}");
    assert_eq!(told["neighbours"]["left"], told["arrivals"][0]["from"]);
}

#[test]
fn who_polls_can_throw_and_leave_and_then_its_token_is_stale() {
    let server = watchfire();
    let mut neighbour = Client::connect(&server);
    join(&mut neighbour, json!({}));
    let place = join_polling(&server);
    let mut thrown = throw("right");
    thrown["token"] = place["token"].clone();
    assert_eq!(post(&server, "throw", &thrown), (200, json!({})));
    assert_eq!(neighbour.hear_event("arrive")["from"], place["peer"]);

    let waiting = Waiting::start(&server, &place["token"]);
    until_parked(&server, 1);
    assert_eq!(post(&server, "leave", &json!({ "token": place["token"] })), (200, json!({})));
    let stale = (410, json!({ "reason": "stale token" }));
    assert_eq!(waiting.answer(), stale);
    assert_eq!(poll(&server, &place["token"]), stale);
    assert_eq!(post(&server, "throw", &thrown), stale);
    assert_eq!(post(&server, "leave", &json!({ "token": place["token"] })), stale);
    while neighbour.hear_event("neighbours")["left"] != json!(null) {}
}

#[test]
fn a_token_that_is_none_of_ours_is_stale() {
    let server = watchfire();
    let stale = (410, json!({ "reason": "stale token" }));
    for token in ["", "x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        assert_eq!(poll(&server, &json!(token)), stale);
        assert_eq!(post(&server, "leave", &json!({ "token": token })), stale);
    }
    let elsewhere = ask(&server, "POST", "/sprites/desert/join", "").1;
    assert_eq!(poll(&server, &elsewhere["token"]), stale, "a token is of one grid");
}

#[test]
fn of_two_polls_at_once_the_older_is_answered_at_once() {
    let server = watchfire();
    let place = join_polling(&server);
    let older = Waiting::start(&server, &place["token"]);
    until_parked(&server, 1);
    let newer = Waiting::start(&server, &place["token"]);
    assert_eq!(older.answer(), (409, json!({ "reason": "a newer poll waits" })));
    let mut neighbour = Client::connect(&server);
    let other = join(&mut neighbour, json!({}));
    let (status, told) = newer.answer();
    assert_eq!((status, &told["neighbours"]["up"]), (200, &other["peer"]));
}

#[test]
fn a_poll_that_nothing_happens_to_is_answered_empty() {
    let server = running(|settings| settings.socket.sprites_window = Duration::ZERO);
    let place = join_polling(&server);
    let (status, told) = poll(&server, &place["token"]);
    assert_eq!((status, &told["arrivals"]), (200, &json!([])));
}

#[test]
fn a_neighbour_whose_queue_is_full_takes_no_more_until_it_polls() {
    let server = running(|settings| settings.limits.arrivals_queued_max = 2);
    let mut thrower = Client::connect(&server);
    join(&mut thrower, json!({}));
    let place = join_polling(&server);
    let mut thrown = || thrower.push(GRID, "throw", throw("left"))["response"].clone();
    assert_eq!([thrown(), thrown()], [json!({}), json!({})]);
    assert_eq!(thrown(), json!({ "wrapped": true }), "nothing is lost");
    assert_eq!(poll(&server, &place["token"]).1["arrivals"].as_array().map(Vec::len), Some(2));
    assert_eq!(thrown(), json!({}));
}

#[test]
fn a_throw_with_a_sprite_in_it_instead_of_its_name_is_refused() {
    let server = watchfire();
    let place = join_polling(&server);
    let body = json!({ "token": place["token"], "sprite": "x".repeat(4_000) }).to_string();
    let (status, told) = ask(&server, "POST", "/sprites/meadow/throw", &body);
    assert_eq!((status, told), (413, json!({ "reason": "throw too large", "max": 1024 })));
}

#[test]
fn a_browser_gets_the_app_for_a_grid() {
    let answer = get(&watchfire(), "/sprites/meadow").to_lowercase();
    assert!(answer.contains("content-security-policy: default-src 'self'"), "{answer}");
}
