//! The operator's view: figures over time, connections, topics, events, and the page.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use watchfire::{RunningServer, Settings};
use watchfire_operator::AdminSettings;
use watchfire_testkit::{Answer, Client, Request, eventually, find};

use crate::support::{metric, settings};
use crate::{start, support};

const TOKEN: &str = "a token of the operator";

fn rooms() -> Settings {
    let mut settings = settings();
    settings.section_mut::<watchfire_pages::RoomSettings>().open_rooms = true;
    settings.limits.loopback_limited = true;
    settings
}

fn with_token() -> Settings {
    let mut settings = rooms();
    settings.section_mut::<AdminSettings>().token = TOKEN.into();
    settings
}

/// A request to the operator's listener, such as `GET /metrics`.
fn request(server: &RunningServer, line: &str, headers: &[&str]) -> Answer {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    Request::new(method, path).lines(headers).to(support::admin_address(server))
}

fn call(server: &RunningServer, line: &str, token: &str) -> (u16, Value) {
    let authorization = format!("authorization: Bearer {token}");
    let headers: &[&str] = if token.is_empty() { &[] } else { &[&authorization] };
    let answer = request(server, line, headers);
    (answer.status, answer.json_or_null())
}

fn read(server: &RunningServer, path: &str) -> Value {
    let (status, value) = call(server, &format!("GET {path}"), "");
    assert_eq!(status, 200, "{path}: {value}");
    value
}

fn read_until(server: &RunningServer, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    find(path, || Some(read(server, path)).filter(&holds))
}

/// Waits until there is no such connection.
fn until_gone(server: &RunningServer, line: &str) {
    eventually("the connection is gone", || call(server, line, TOKEN).0 == 404);
}

/// The connections in an order, without those that speak HTTP only.
fn websockets(server: &RunningServer, params: &str) -> Vec<Value> {
    let path = format!("/admin/connections?transport=websocket{params}");
    read(server, &path)["connections"].as_array().expect("a list").clone()
}

#[test]
fn each_kind_of_trouble_has_a_section_in_the_documentation() {
    let text = support::metrics(&start(rooms()));
    let kinds = text.lines().filter_map(|line| line.strip_prefix("watchfire_trouble{kind=\""));
    let kinds: Vec<&str> = kinds.filter_map(|kind| kind.split('"').next()).collect();
    let page = include_str!("../../../../docs/reference/diagnosis.md");
    let sections = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
    assert_eq!(sections.collect::<Vec<_>>(), kinds, "in the same order");
}

#[test]
fn the_state_has_the_figures_of_the_last_second() {
    let server = start(rooms());
    let mut client = Client::connect(server.address());
    client.join("rooms:a", json!({}));
    let state = read_until(&server, "/admin/state", |state| {
        state["latest"]["clients_websocket"] == 1.0 && state["latest"]["messages"].is_number()
    });
    assert_eq!(state["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(state["processes"].as_array().unwrap().len(), 1, "{state}");
    assert_eq!(state["processes"][0]["busy"].as_array().unwrap().len(), 2, "two event loops");
    assert!(state["processes"][0]["resident_bytes"].as_f64().unwrap() > 1e6, "{state}");
    assert_eq!(state["missing_processes"], json!([]));
    assert_eq!(state["machines"].as_array().unwrap().len(), 1);
    let limits = state["limits"].as_array().unwrap();
    let connections = limits.iter().find(|limit| limit["name"] == "connections").unwrap();
    assert!(connections["used"].as_f64() >= Some(1.0) && connections["max"].as_f64() > Some(1.0));

    let history = read(&server, "/admin/history?step=second");
    let column = |name: &str| {
        let columns = history["columns"].as_array().unwrap();
        1 + columns.iter().position(|column| column == name).expect("a column")
    };
    let last = history["rows"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last[column("clients_websocket")], 1.0, "{last}");
    assert_eq!(last[column("nats_connected")], Value::Null);
    let after = last[0].as_u64().unwrap();
    let later = read_until(&server, &format!("/admin/history?after={after}"), |history| {
        !history["rows"].as_array().unwrap().is_empty()
    });
    assert!(later["rows"][0][0].as_u64().unwrap() > after);
    assert_eq!(read(&server, "/admin/events")["events"][0]["kind"], "start");
    assert_eq!(metric(&server, "watchfire_trouble{kind=\"shard_busy\"}"), 0);
}

#[test]
fn loads_of_visitors_are_counted_and_recorded_without_who_they_are() {
    let mut settings = settings();
    settings.section_mut::<watchfire_pages::PageSettings>().count_referrers = true;
    let server = start(settings);
    read_until(&server, "/admin/state", |state| state["latest"]["page_loads"].is_number());
    for (client, agent) in (1..=4).flat_map(|client| [(client, "Firefox"), (client, "Chromium")]) {
        for line in ["GET /", "GET /p/any", "HEAD /", "GET /frame", "GET /none", "GET /link.png"] {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from(([127, 0, 0, client], 0)).into()).unwrap();
            socket.connect(&server.address().into()).unwrap();
            let head = format!(
                "{line} HTTP/1.1\r\nhost: a\r\nuser-agent: {agent}\r\n\
                 referer: https://news.example/1\r\nconnection: close\r\n\r\n"
            );
            (&socket).write_all(head.as_bytes()).unwrap();
            (&socket).read_to_end(&mut Vec::new()).unwrap();
        }
    }
    // With one salt in 150, two of eight visitors share a register of the sketch.
    read_until(&server, "/admin/history", |history| {
        let highest = |name: &str| {
            let mut columns = history["columns"].as_array().unwrap().iter();
            let at = 1 + columns.position(|column| column == name).unwrap();
            let rows = history["rows"].as_array().unwrap().iter();
            rows.filter_map(|row| row[at].as_f64()).fold(0.0, f64::max)
        };
        highest("page_visitors") >= 7.0 && highest("page_loads").min(highest("page_sessions")) > 0.0
    });
    for (name, count) in [("loads", 16), ("sessions", 8), ("referrers", 16)] {
        let label = if name == "referrers" { "{host=\"news.example\"}" } else { "" };
        assert_eq!(metric(&server, &format!("watchfire_page_{name}_total{label}")), count);
    }
    let all = support::metrics(&server);
    assert!(!all.contains("127.0.0.") && !all.contains("Firefox"), "{all}");
}

#[test]
fn connections_are_found_by_order_topic_and_address() {
    let server = start(rooms());
    let mut clients: Vec<Client> = (0..30).map(|_| Client::connect(server.address())).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        for room in 0..=index % 5 {
            client.join(&format!("rooms:{room}"), json!({}));
        }
    }
    let most = websockets(&server, "&sort=channels&limit=6");
    let channels: Vec<_> = most.iter().map(|found| found["channels"].as_u64().unwrap()).collect();
    assert_eq!(channels, [5; 6]);
    assert_eq!(websockets(&server, "&limit=200").len(), 30);
    assert_eq!(websockets(&server, "&limit=200&topic=rooms:4").len(), 6);
    assert_eq!(websockets(&server, "&limit=200&topic=rooms:nobody").len(), 0);
    assert_eq!(websockets(&server, "&limit=200&address=127.").len(), 30);
    assert_eq!(websockets(&server, "&limit=200&address=192.").len(), 0);
    let sent = websockets(&server, "&sort=received_bytes&limit=1");
    assert!(sent[0]["tcp"]["received_bytes"].as_u64().unwrap() > 100, "{sent:?}");

    let id = most[0]["id"].as_str().unwrap();
    let details = read(&server, &format!("/admin/connections/{id}"));
    assert_eq!(details["topics"].as_array().unwrap().len(), 5);
    assert!(details["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{details}");
    let (status, _) = call(&server, "GET /admin/connections/0-0-99999-1", "");
    assert_eq!(status, 404);

    let topics = read(&server, "/admin/topics?limit=2");
    let sizes = |found: &Value| {
        let rows = found["topics"].as_array().unwrap().iter();
        let size = |row: &Value| (row["topic"].clone(), row["subscribers"].clone());
        rows.map(size).collect::<Vec<_>>()
    };
    let expected = [(json!("rooms:0"), json!(30)), (json!("rooms:1"), json!(24))];
    assert_eq!(sizes(&topics), expected);
    let first = &topics["topics"][0];
    assert_eq!((&first["loops"], &first["kept"]), (&json!(2), &Value::Null), "{first}");
    let owned = first["owned"].as_u64().unwrap();
    let owner = first["owner"].as_str().unwrap();
    assert!((15..30).contains(&owned) && ["0/0", "0/1"].contains(&owner), "{first}");
    let one = read(&server, "/admin/topics?prefix=rooms:4");
    assert_eq!(sizes(&one), [(json!("rooms:4"), json!(6))]);
}

#[test]
fn the_busiest_topic_is_found_by_its_messages_and_the_heaviest_by_its_bytes() {
    let server = start(rooms());
    let mut quiet: Vec<Client> = (0..5).map(|_| Client::connect(server.address())).collect();
    quiet.iter_mut().for_each(|client| _ = client.join("rooms:quiet", json!({})));
    let mut client = Client::connect(server.address());
    client.join("rooms:busy", json!({}));
    client.join("rooms:heavy", json!({}));
    let mut found_while_sending = |sort: &str, topic: &str| {
        find(topic, || {
            for _ in 0..4 {
                client.push("rooms:busy", "new_msg", json!({ "body": "x" }));
            }
            client.push("rooms:heavy", "new_msg", json!({ "body": "x".repeat(4_000) }));
            let found =
                read(&server, &format!("/admin/topics?sort={sort}&limit=2"))["topics"].take();
            let is_first = found[0]["topic"] == topic && found[0][sort].as_f64() > Some(0.0);
            is_first.then_some(found)
        })
    };
    let busiest = found_while_sending("messages", "rooms:busy");
    assert!(busiest[0]["messages"].as_f64() > busiest[1]["messages"].as_f64(), "{busiest}");
    let heaviest = found_while_sending("bytes", "rooms:heavy");
    assert_eq!(heaviest[1]["topic"], "rooms:busy", "{heaviest}");
    let largest = read(&server, "/admin/topics?limit=1")["topics"].take();
    assert_eq!(
        (&largest[0]["topic"], &largest[0]["subscribers"]),
        (&json!("rooms:quiet"), &json!(5))
    );
    let rate = busiest[0]["messages"].as_f64().unwrap();
    read_until(&server, "/admin/topics?sort=messages", |found| {
        found["topics"][0]["messages"].as_f64() < Some(rate / 4.0)
    });
}

#[test]
fn a_slow_reader_is_the_first_by_queued_bytes() {
    let server = start(rooms());
    let mut reader = Client::connect(server.address());
    reader.join("rooms:a", json!({}));
    let mut slow = Client::connect(server.address());
    slow.join("rooms:a", json!({}));
    slow.join("rooms:slow", json!({}));
    let mut sender = Client::connect(server.address());
    sender.join("rooms:slow", json!({}));
    let first = find("a queue", || {
        for _ in 0..20 {
            sender.push("rooms:slow", "new_msg", json!({ "body": "x".repeat(16_000) }));
        }
        let found = websockets(&server, "&sort=queued_bytes&limit=1").remove(0);
        (found["queued_bytes"].as_u64() > Some(0)).then_some(found)
    });
    assert!(first["topics"].as_array().unwrap().contains(&json!("rooms:slow")), "{first}");
    assert!(first["tcp"]["unsent_bytes"].as_u64() > Some(0), "{first}");
}

#[test]
fn the_operator_closes_a_connection_with_the_token_only() {
    let server = start(with_token());
    let mut client = Client::connect(server.address());
    client.join("rooms:a", json!({}));
    let (status, found) = call(&server, "GET /admin/connections?transport=websocket", TOKEN);
    assert_eq!(status, 200);
    let id = found["connections"][0]["id"].as_str().unwrap();
    let line = format!("POST /admin/connections/{id}/disconnect");
    assert_eq!(call(&server, &line, "").0, 401);
    assert_eq!(call(&server, &line, "another token of somebody").0, 401);
    assert_eq!(call(&server, &line, TOKEN), (200, json!({ "disconnected": true })));
    assert_eq!(client.receive_close(), 1001);
    until_gone(&server, &line);
    for path in ["state", "history", "events", "connections", "topics"] {
        assert_eq!(call(&server, &format!("GET /admin/{path}"), "").0, 401, "{path}");
    }
}

#[test]
fn the_operator_ends_a_topic_while_clients_join_it_and_it_goes_on_for_those_that_join_again() {
    const CLIENTS: usize = 700;
    let server = start(with_token());
    let mut clients: Vec<Client> =
        (0..CLIENTS).map(|_| Client::connect(server.address())).collect();
    for client in &mut clients {
        client.join("rooms:a", json!({}));
        client.join("rooms:b", json!({}));
    }
    let line = "POST /admin/topics/end?topic=rooms:a";
    assert_eq!(call(&server, line, "").0, 401);
    let later = std::thread::scope(|scope| {
        let joining = scope.spawn(|| {
            let join = |_| {
                let mut client = Client::connect(server.address());
                assert_eq!(client.join("rooms:a", json!({}))["status"], "ok");
                client
            };
            (0..200).map(join).collect::<Vec<Client>>()
        });
        let (status, ended) = call(&server, line, TOKEN);
        let channels = ended["channels"].as_u64().unwrap();
        assert_eq!(status, 200, "{ended}");
        assert!((CLIENTS as u64..=CLIENTS as u64 + 200).contains(&channels), "{ended}");
        joining.join().unwrap()
    });
    for client in &mut clients {
        client.receive_event("phx_close");
    }
    // Each of the others is joined, or was closed. The second topic has all its clients.
    let sizes = |server| {
        let topics = call(server, "GET /admin/topics?prefix=rooms:", TOKEN).1["topics"].take();
        let size = |name: &str| {
            let topic = topics.as_array().unwrap().iter().find(|topic| topic["topic"] == name);
            topic.map_or(0, |topic| topic["subscribers"].as_u64().unwrap())
        };
        (size("rooms:a"), size("rooms:b"))
    };
    let (others, all) = sizes(&server);
    assert!(others <= later.len() as u64 && all == CLIENTS as u64, "{others} {all}");
    for client in &mut clients[..10] {
        assert_eq!(client.join("rooms:a", json!({}))["status"], "ok");
    }
    assert_eq!(sizes(&server), (others + 10, all));
    assert_eq!(call(&server, "POST /admin/topics/end?topic=rooms:none", TOKEN).0, 404);
    let events = call(&server, "GET /admin/events", TOKEN).1.to_string();
    assert!(events.contains("The operator ended the topic rooms:a"), "{events}");
}

#[test]
fn the_operator_watches_the_messages_of_one_connection() {
    let server = start(with_token());
    let mut client = Client::connect(server.address());
    client.join("rooms:a", json!({}));
    let found = call(&server, "GET /admin/connections?transport=websocket", TOKEN).1;
    let id = found["connections"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/admin/connections/{id}/messages");
    let read = |after: usize| call(&server, &format!("GET {path}?after={after}"), TOKEN).1;
    assert_eq!(read(0)["messages"], json!([]), "the watch begins with the first call");
    let mut other = Client::connect(server.address());
    other.join("rooms:a", json!({}));
    client.push("rooms:a", "new_msg", json!({ "body": "secret" }));
    client.receive_event("new_msg");
    other.push("rooms:a", "new_msg", json!({ "body": "another" }));
    client.receive_event("new_msg");
    let first = read(0);
    let messages = first["messages"].as_array().unwrap();
    assert!(messages.iter().all(|message| message["topic"] == "rooms:a"), "{first}");
    for (direction, bytes) in [("received", 17), ("sent", 18)] {
        let is_there = messages.iter().any(|message| {
            (&message["direction"], &message["event"]) == (&json!(direction), &json!("new_msg"))
                && message["payload_bytes"] == bytes
        });
        assert!(is_there, "{direction}: {first}");
    }
    assert!(!first.to_string().contains("secret"), "{first}");
    let last = messages.len();

    let payloads = format!("PUT /admin/connections/{id}/payloads?shown=true");
    assert_eq!(call(&server, &payloads, "").0, 401);
    assert_eq!(call(&server, &payloads, TOKEN).0, 200);
    client.push("rooms:a", "new_msg", json!({ "body": "secret" }));
    client.receive_event("new_msg");
    let later = read(last);
    assert_eq!(later["has_payloads"], true);
    assert_eq!(later["messages"][0]["payload"], r#"{"body":"secret"}"#, "{later}");
    drop(client);
    until_gone(&server, &format!("GET {path}"));
}

#[test]
fn a_denied_address_has_no_connection_until_it_is_allowed() {
    let server = start(with_token());
    let mut clients: Vec<Client> = (0..700).map(|_| Client::connect(server.address())).collect();
    clients[0].join("rooms:a", json!({}));
    let path = "/admin/addresses/denied";
    assert_eq!(call(&server, &format!("PUT {path}/127.0.0.1"), "").0, 401);
    for wrong in ["127.0.0.1.1", "127.0.0.1?seconds=0", "127.0.0.1?seconds=9999999", "x"] {
        assert_eq!(call(&server, &format!("PUT {path}/{wrong}"), TOKEN).0, 400, "{wrong}");
    }
    let (status, denied) = call(&server, &format!("PUT {path}/127.0.0.1?seconds=60"), TOKEN);
    assert_eq!(status, 200);
    assert!(denied["disconnected"].as_u64() >= Some(700), "{denied}");
    for mut client in clients {
        assert_eq!(client.receive_close(), 1001);
    }
    let listed = call(&server, &format!("GET {path}"), TOKEN).1;
    assert_eq!(listed["denied"][0]["address"], "127.0.0.1");
    let response = support::get(&server, "/healthz");
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    assert_eq!(metric(&server, "watchfire_refusals_total{reason=\"address_denied\"}"), 1);
    let (status, allowed) = call(&server, &format!("DELETE {path}/127.0.0.1"), TOKEN);
    assert_eq!((status, &allowed["was_denied"]), (200, &json!(true)));
    Client::connect(server.address()).join("rooms:a", json!({}));
    let events = call(&server, "GET /admin/events", TOKEN).1.to_string();
    assert!(events.contains("address_denied") && events.contains("address_allowed"), "{events}");
}

#[test]
fn the_operator_notes_an_event() {
    let server = start(with_token());
    assert_eq!(call(&server, "POST /admin/events?text=deployed", "").0, 401);
    for wrong in ["", "?text=", "?text=%20", &format!("?text={}", "x".repeat(161))] {
        assert_eq!(call(&server, &format!("POST /admin/events{wrong}"), TOKEN).0, 400, "{wrong}");
    }
    assert_eq!(call(&server, "POST /admin/events?text=deployed+42", TOKEN).0, 200);
    let events = call(&server, "GET /admin/events", TOKEN).1;
    let last = events["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["kind"], &last["text"]), (&json!("note"), &json!("deployed 42")));
}

#[test]
fn fifty_clients_get_whole_metrics_at_the_same_time() {
    let server = start(rooms());
    let barrier = std::sync::Barrier::new(50);
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..4 {
                    let text = support::metrics(&server);
                    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
                    assert!(text.ends_with("# EOF\n"), "{text}");
                }
            });
        }
    });
    Client::connect(server.address()).join("rooms:a", json!({}));
}

#[test]
fn guesses_of_the_token_are_counted_and_answered_slowly() {
    let server = start(with_token());
    let began = Instant::now();
    for guess in 0..14 {
        assert_eq!(call(&server, "GET /admin/state", &format!("guess number {guess}")).0, 401);
    }
    // Ten are answered at once, the others after 0.1, 0.2, 0.3 and 0.4 s.
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(metric(&server, "watchfire_refusals_total{reason=\"admin\"}"), 14);
    // As guesses, these calls would wait for 0.5 to 1.4 s each.
    let began = Instant::now();
    for _ in 0..10 {
        assert_eq!(call(&server, "GET /admin/state", TOKEN).0, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(8), "the operator does not wait");
}

#[test]
fn the_level_of_the_log_changes_while_the_server_runs() {
    let server = start(with_token());
    let (status, answer) = call(&server, "PUT /admin/log?level=loud,x=y=z", TOKEN);
    assert_eq!((status, &answer["reason"]), (400, &json!("bad request")), "{answer}");
    // This test has not started the log of the server.
    let (status, answer) = call(&server, "PUT /admin/log?level=debug", TOKEN);
    assert_eq!(status, 400);
    assert!(answer["message"].as_str().unwrap().contains("start_logging"), "{answer}");
    assert_eq!(call(&server, "PUT /admin/log?level=debug", "").0, 401);
    assert_eq!(call(&server, "PUT /admin/log", TOKEN).0, 400);
}

#[test]
fn without_a_token_the_listener_only_reads() {
    let server = start(rooms());
    let _client = Client::connect(server.address());
    let id = websockets(&server, "")[0]["id"].as_str().unwrap().to_owned();
    let (status, answer) = call(&server, &format!("POST /admin/connections/{id}/disconnect"), "");
    assert_eq!((status, &answer["reason"]), (403, &json!("no token")));
    for path in ["topics/end?topic=rooms:a", "processes/0/end"] {
        assert_eq!(call(&server, &format!("POST /admin/{path}"), "").0, 403, "{path}");
    }
    assert_eq!(websockets(&server, "").len(), 1);
}

#[test]
fn bad_parameters_get_clear_errors() {
    let server = start(rooms());
    for (path, part) in [
        ("/admin/connections?sort=beauty", "beauty"),
        ("/admin/connections?limit=0", "limit must be from 1 to 200"),
        ("/admin/connections?limit=-1", "limit"),
        ("/admin/connections?limit=100000000000000000000", "limit"),
        ("/admin/connections?colour=red", "colour"),
        ("/admin/topics?limit=201", "limit must be from 1 to 200"),
        ("/admin/topics?sort=beauty", "beauty"),
        ("/admin/history?step=year", "year"),
        ("/admin/history?after=yesterday", "after"),
    ] {
        let (status, answer) = call(&server, &format!("GET {path}"), "");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(part), "{path}: {status} {answer}");
    }
    let (status, answer) = call(&server, "GET /admin/state?machine=elsewhere", "");
    assert_eq!((status, &answer["reason"]), (404, &json!("unknown machine")));
    for id in ["", "a", "1-2-3", "0-0-0-0-0", "%00", "9-9-9-9"] {
        let (status, _) = call(&server, &format!("GET /admin/connections/{id}"), "");
        assert_eq!(status, 404, "{id}");
    }
}

#[test]
fn names_of_topics_are_returned_as_they_are() {
    let server = start(rooms());
    let mut client = Client::connect(server.address());
    let topic = format!("rooms:<img src=x onerror=alert(1)>\u{1}\u{202e}{}", "y".repeat(150));
    assert_eq!(client.join(&topic, json!({}))["status"], "ok");
    assert_eq!(read(&server, "/admin/topics")["topics"][0]["topic"], json!(topic));
    assert_eq!(websockets(&server, "")[0]["topics"], json!([topic]));
}

#[test]
fn the_page_is_served_without_the_token_and_runs_only_its_own_code() {
    let server = start(with_token());
    let page = request(&server, "GET /", &[]);
    assert_eq!(page.status, 200);
    let (head, body) = (&page.head, page.text());
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert!(head.contains("script-src 'self'") && !head.contains("unsafe"), "{head}");
    // Every file that the page names is served.
    let names = body.split(['"', '\'']).filter(|text| text.contains("operator"));
    let files: Vec<_> =
        names.filter(|name| name.ends_with(".js") || name.ends_with(".css")).collect();
    assert!(files.len() >= 2, "{body}");
    for file in files {
        let path = file.trim_start_matches('.').trim_start_matches('/');
        assert_eq!(request(&server, &format!("GET /{path}"), &[]).status, 200, "{file}");
    }
    // Its requests have an origin when they change something; those of websites are refused.
    let own = "origin: http://localhost";
    assert_eq!(request(&server, "POST /admin/connections/1-1-1-1/disconnect", &[own]).status, 401);
    let other = "origin: http://evil.example";
    assert_eq!(
        request(&server, "POST /admin/connections/1-1-1-1/disconnect", &[other]).status,
        403
    );
    assert_eq!(request(&server, "GET /", &[other]).status, 403);
}

#[test]
fn a_restart_shows_the_past() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = rooms();
    settings.section_mut::<AdminSettings>().history_file = folder.path().join("history");
    let server = start(settings.clone());
    let mut client = Client::connect(server.address());
    client.join("rooms:a", json!({}));
    let before = read_until(&server, "/admin/history", |history| {
        history["rows"].as_array().unwrap().len() >= 2
    });
    drop(server);
    let server = start(settings);
    let first = &before["rows"][0][0];
    let after = read_until(&server, "/admin/history", |history| &history["rows"][0][0] == first);
    assert!(after["rows"].as_array().unwrap().len() >= 2);
    // A busy machine may have added trouble.
    let events = read(&server, "/admin/events");
    let events = events["events"].as_array().unwrap().iter();
    assert_eq!(events.filter(|event| event["kind"] == "start").count(), 2);
    drop(server);

    // A file that cannot be used costs the past, not the server.
    let mut settings = rooms();
    settings.section_mut::<AdminSettings>().history_file = PathBuf::from("/proc/no/such/folder");
    let server = start(settings);
    read_until(&server, "/admin/state", |state| state["latest"].is_object());
}
