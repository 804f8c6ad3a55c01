//! Promises to applications.

use std::any::Any;

use crate::support::{Client, settings_without_operator as settings};
use serde_json::{Value, json};
use watchfire::{
    Channel, Connected, HandleIn, Joined, Outcome, Payload, Refusal, Refused, Reply, RunningServer,
    Server, Socket,
};

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

fn desk() -> RunningServer {
    Server::new(settings())
        .channel("desk:*", Desk)
        .on_connect(|connect| match connect.params.text("user") {
            Some("refused") => Err(Refused),
            user => Ok(Connected {
                id: user.map(|user| format!("users:{user}")),
                assigns: user.map(|user| std::sync::Arc::new(user.to_owned()) as _),
            }),
        })
        .start()
        .expect("the server starts")
}

fn ok(response: Value) -> Value {
    json!({ "status": "ok", "response": response })
}

#[test]
fn each_joined_client_has_a_state_of_its_own() {
    let server = desk();
    let (mut a, mut b) = (Client::connect(&server), Client::connect(&server));
    a.join("desk:1", json!({ "number": 1 }));
    b.join("desk:1", json!({ "number": 10 }));
    assert_eq!(a.push("desk:1", "count", json!({})), ok(json!({ "number": 2 })));
    assert_eq!(b.push("desk:1", "count", json!({})), ok(json!({ "number": 11 })));
}

#[test]
fn a_panic_fails_one_channel_and_nothing_else() {
    let server = desk();
    let (mut a, mut b) = (Client::connect(&server), Client::connect(&server));
    a.join("desk:1", json!({ "number": 1 }));
    a.join("desk:2", json!({ "number": 2 }));
    b.join("desk:1", json!({ "number": 3 }));
    a.send("desk:1", "panic", json!({}));
    assert_eq!(a.receive_event("phx_error"), json!({ "reason": "channel_crash" }));
    assert_eq!(a.push("desk:2", "count", json!({})), ok(json!({ "number": 3 })));
    assert_eq!(b.push("desk:1", "count", json!({})), ok(json!({ "number": 4 })));
    assert_eq!(a.push("desk:1", "count", json!({}))["response"]["reason"], "unmatched topic");
}

#[test]
fn a_join_that_panics_gets_an_error_and_leaves_no_state() {
    let server = desk();
    let mut client = Client::connect(&server);
    let reply = client.join("desk:1", json!({ "panic": true }));
    assert_eq!(reply, json!({ "status": "error", "response": { "reason": "join crashed" } }));
    assert_eq!(client.join("desk:1", json!({ "number": 1 }))["status"], "ok");
}

#[test]
fn another_thread_may_reply_later() {
    let server = desk();
    let mut client = Client::connect(&server);
    client.join("desk:1", json!({ "number": 1 }));
    assert_eq!(client.push("desk:1", "later", json!({})), ok(json!({ "late": true })));
}

#[test]
fn a_message_of_the_application_to_a_channel_reaches_handle_info() {
    let server = desk();
    let mut client = Client::connect(&server);
    client.join("desk:1", json!({ "number": 1 }));
    client.send("desk:1", "send_to_self", json!("hello"));
    assert_eq!(client.receive_event("info"), json!({ "text": "hello" }));
}

#[test]
fn pushes_are_sent_in_order_and_before_the_reply() {
    let server = desk();
    let mut client = Client::connect(&server);
    client.join("desk:1", json!({ "number": 1 }));
    client.send("desk:1", "order", json!({}));
    assert_eq!(client.receive()[3], "first");
    assert_eq!(client.receive()[3], "second");
    assert_eq!(client.receive()[4], json!({ "status": "third", "response": 3 }));
}

#[test]
fn a_broadcast_from_a_client_reaches_all_others_on_every_shard() {
    let server = desk();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&server)).collect();
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
    let server = desk();
    let mut client = Client::connect(&server);
    client.join("desk:1", json!({ "number": 1 }));
    assert_eq!(client.push("desk:1", "bye", json!({})), ok(json!("bye")));
    assert_eq!(client.receive()[3], "phx_close");
}

#[test]
fn on_connect_sets_the_assigns_of_a_socket_or_refuses_it() {
    let server = desk();
    let mut ada = Client::connect_with(&server, "vsn=2.0.0&user=ada").unwrap();
    assert_eq!(ada.join("desk:1", json!({ "number": 1 })), ok(json!({ "user": "ada" })));
    let refused = Client::connect_with(&server, "vsn=2.0.0&user=refused").map(|_| ());
    assert!(refused.unwrap_err().contains("403"));
}

#[test]
fn disconnecting_an_id_closes_every_socket_with_it_and_no_other() {
    let server = desk();
    let connect = |user| Client::connect_with(&server, &format!("vsn=2.0.0&user={user}")).unwrap();
    let (mut ada, mut second_ada, mut bob) = (connect("ada"), connect("ada"), connect("bob"));
    // The replies show that all are connected.
    for client in [&mut ada, &mut second_ada, &mut bob] {
        client.join("desk:1", json!({ "number": 1 }));
    }
    server.endpoint().disconnect("users:ada");
    assert_eq!(ada.receive_close(), 1001);
    assert_eq!(second_ada.receive_close(), 1001);
    assert_eq!(bob.push("desk:1", "count", json!({}))["status"], "ok");
}

#[test]
fn the_endpoint_can_broadcast() {
    let server = desk();
    let mut client = Client::connect(&server);
    client.join("desk:1", json!({ "number": 1 }));
    server.endpoint().broadcast("desk:1", "news", json!({ "n": 7 })).unwrap();
    assert_eq!(client.receive_event("news"), json!({ "n": 7 }));
    assert!(server.endpoint().broadcast("desk:1", "news", json!("not an object")).is_err());
}
