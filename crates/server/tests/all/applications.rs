//! Promises to applications.

use std::any::Any;

use crate::support::{self, settings_without_operator as settings};
use crate::with_operator;
use serde_json::{Value, json};
use watchfire::testing::{Channels, Client as TestClient, NotConnected};
use watchfire::{
    Channel, Connected, HandleIn, Joined, Outcome, Payload, Refusal, Refused, Reply, Server, Socket,
};
use watchfire_testkit::{Client, eventually};

struct Desk;

impl Channel for Desk {
    type State = u32;

    fn join(&self, socket: &mut Socket<'_>, payload: Payload<'_>) -> Result<Joined<u32>, Refusal> {
        let params: Value = payload.json().unwrap_or_default();
        assert_ne!(params["panic"], true, "a requested panic");
        match params["number"].as_u64() {
            Some(number) => {
                Ok(Joined::with(number as u32)
                    .response(json!({ "user": socket.assigns::<String>() })))
            }
            None => Err(Refusal::because("no number")),
        }
    }

    fn handle_in(
        &self,
        number: &mut u32,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        Ok(match event {
            "count" => {
                *number += 1;
                Outcome::Reply(Reply::ok(json!({ "number": *number })))
            }
            "panic" => panic!("a requested panic"),
            "later" => {
                let reply = socket.reply_later();
                std::thread::spawn(move || reply.send(Reply::ok(json!({ "late": true }))));
                Outcome::NoReply
            }
            "send_to_self" => {
                let (address, text) = (socket.address(), payload.json::<String>()?);
                socket.endpoint().send(address, text);
                Outcome::NoReply
            }
            "order" => {
                socket.push("first", json!({}))?;
                socket.push("second", json!({}))?;
                Outcome::Reply(Reply::with_status("third", json!(3)))
            }
            "others" => {
                socket.broadcast_from("note", payload)?;
                Outcome::Reply(Reply::ok(json!({})))
            }
            "bytes" => {
                socket.broadcast("bytes", payload)?;
                Outcome::Reply(Reply::ok(payload))
            }
            "future" => Outcome::later(async {
                tokio::task::yield_now().await;
                Reply::ok(json!("from a future"))
            }),
            "future_panic" => Outcome::later(async { panic!("a requested panic") }),
            "bye" => Outcome::StopWith(Reply::ok(json!("bye"))),
            _ => Outcome::Reply(Reply::because("unknown event")),
        })
    }

    fn handle_info(
        &self,
        _: &mut u32,
        socket: &mut Socket<'_>,
        info: Box<dyn Any + Send>,
    ) -> HandleIn {
        let text = info.downcast::<String>().expect("only texts are sent");
        socket.push("info", json!({ "text": *text }))?;
        Ok(Outcome::NoReply)
    }
}

fn desk() -> Server {
    with_desk(Server::new(settings()))
}

fn with_desk(server: Server) -> Server {
    server.channel("desk:*", Desk).on_connect(|connect| match connect.params.text("user") {
        Some("refused") => Err(Refused::because("not you").with_status(401)),
        Some(user) => {
            let connected = Connected::default().with_id(format!("users:{user}"));
            Ok(connected.with_assigns(user.to_owned()))
        }
        None => Ok(Connected::default()),
    })
}

/// The desk, and clients that have joined `desk:1` with these numbers.
pub fn joined<const N: usize>(numbers: [u32; N]) -> (Channels, [TestClient; N]) {
    let channels = Channels::start(desk()).expect("the server starts");
    let clients = numbers.map(|number| {
        let mut client = channels.connect("").expect("the client is accepted");
        assert_eq!(client.join("desk:1", json!({ "number": number })).status(), "ok");
        client
    });
    (channels, clients)
}

fn ok(response: Value) -> Reply {
    Reply::ok(response)
}

#[test]
fn each_joined_client_has_a_state_of_its_own() {
    let (_channels, [mut a, mut b]) = joined([1, 10]);
    assert_eq!(a.push("desk:1", "count", json!({})), ok(json!({ "number": 2 })));
    assert_eq!(b.push("desk:1", "count", json!({})), ok(json!({ "number": 11 })));
}

#[test]
fn a_panic_fails_one_channel_and_nothing_else() {
    let (_channels, [mut a, mut b]) = joined([1, 3]);
    a.join("desk:2", json!({ "number": 2 }));
    a.send("desk:1", "panic", json!({}));
    assert_eq!(a.next("desk:1", "phx_error"), json!({ "reason": "channel_crash" }));
    assert_eq!(a.push("desk:2", "count", json!({})), ok(json!({ "number": 3 })));
    assert_eq!(b.push("desk:1", "count", json!({})), ok(json!({ "number": 4 })));
    assert_eq!(a.push("desk:1", "count", json!({})), Reply::because("unmatched topic"));
}

#[test]
fn a_join_that_panics_gets_an_error_and_leaves_no_state() {
    let (_channels, [mut client]) = joined([1]);
    let reply = client.join("desk:2", json!({ "panic": true }));
    assert_eq!(reply, Reply::because("join crashed"));
    assert_eq!(client.join("desk:2", json!({ "number": 1 })).status(), "ok");
}

#[test]
fn a_future_may_reply_later() {
    let (_channels, [mut client]) = joined([1]);
    assert_eq!(client.push("desk:1", "future", json!({})), ok(json!("from a future")));
}

#[test]
fn a_future_that_panics_is_counted_and_its_channel_stays() {
    let server = with_desk(with_operator(support::settings())).start().expect("it starts");
    let mut client = Client::connect(server.address());
    client.join("desk:1", json!({ "number": 1 }));
    client.send("desk:1", "future_panic", json!({}));
    let crashes = || support::metric(&server, "watchfire_channels_crashes_total");
    eventually("the panic is counted", || crashes() == 1);
    assert_eq!(client.push("desk:1", "count", json!({}))["response"], json!({ "number": 2 }));
}

#[test]
fn another_thread_may_reply_later() {
    let (_channels, [mut client]) = joined([1]);
    assert_eq!(client.push("desk:1", "later", json!({})), ok(json!({ "late": true })));
}

#[test]
fn a_message_of_the_application_to_a_channel_reaches_handle_info() {
    let (_channels, [mut client]) = joined([1]);
    client.send("desk:1", "send_to_self", json!("hello"));
    assert_eq!(client.next("desk:1", "info"), json!({ "text": "hello" }));
}

#[test]
fn pushes_are_sent_in_order_and_before_the_reply() {
    let server = desk().start().expect("the server starts");
    let mut client = Client::connect(server.address());
    client.join("desk:1", json!({ "number": 1 }));
    client.send("desk:1", "order", json!({}));
    assert_eq!(client.receive()[3], "first");
    assert_eq!(client.receive()[3], "second");
    assert_eq!(client.receive()[4], json!({ "status": "third", "response": 3 }));
}

#[test]
fn a_broadcast_from_a_client_reaches_all_others_on_every_shard() {
    let server = desk().start().expect("the server starts");
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(server.address())).collect();
    for client in &mut clients {
        client.join("desk:1", json!({ "number": 1 }));
    }
    clients[0].push("desk:1", "others", json!({ "n": 1 }));
    for client in &mut clients[1..] {
        assert_eq!(client.receive_event("note"), json!({ "n": 1 }));
    }
    // Its own broadcast would arrive before this reply.
    let reference = clients[0].send("desk:1", "count", json!({}));
    assert_eq!(clients[0].receive()[1], reference);
}

#[test]
fn stop_with_sends_its_reply_before_the_close() {
    let (_channels, [mut client]) = joined([1]);
    assert_eq!(client.push("desk:1", "bye", json!({})), ok(json!("bye")));
    assert_eq!(client.next("desk:1", "phx_close"), json!({}));
}

#[test]
fn on_connect_sets_the_assigns_of_a_socket_or_refuses_it() {
    let (channels, []) = joined([]);
    let mut ada = channels.connect("user=ada").unwrap();
    assert_eq!(ada.join("desk:1", json!({ "number": 1 })), ok(json!({ "user": "ada" })));
    let refused = channels.connect("user=refused").map(|_| ());
    assert_eq!(refused, Err(NotConnected { status: 401 }));
}

#[test]
fn disconnecting_an_id_closes_every_socket_with_it_and_no_other() {
    let server = desk().start().expect("the server starts");
    // Several shards have sockets of each user. The replies show that all are connected.
    let mut clients: Vec<_> = (0..8)
        .map(|at| {
            let user = if at < 6 { "ada" } else { "bob" };
            let params = format!("vsn=2.0.0&user={user}");
            let mut client = Client::connect_with(server.address(), &params).unwrap();
            client.join("desk:1", json!({ "number": 1 }));
            client
        })
        .collect();
    server.endpoint().disconnect("users:ada");
    for ada in &mut clients[..6] {
        assert_eq!(ada.receive_close(), 1001);
    }
    for bob in &mut clients[6..] {
        assert_eq!(bob.push("desk:1", "count", json!({}))["status"], "ok");
    }
}

#[test]
fn the_endpoint_can_broadcast() {
    let (channels, [mut client]) = joined([1]);
    channels.endpoint().broadcast("desk:1", "news", json!({ "n": 7 })).unwrap();
    assert_eq!(client.next("desk:1", "news"), json!({ "n": 7 }));
    assert!(channels.endpoint().broadcast("desk:1", "news", json!("not an object")).is_err());
}
