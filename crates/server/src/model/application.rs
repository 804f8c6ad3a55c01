//! An application's channel for the model: its callbacks do what a rule never does.

use std::thread;

use serde_json::{Value, json};

use crate::channel_api::{
    Body, Channel, Crash, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket,
};

/// The channel of `app:*`. A client says in its payload what the callback shall do.
pub(super) struct Application;

/// Part of the message of every panic on purpose.
pub(super) const ON_PURPOSE: &str = "a panic of the application";

impl Channel for Application {
    /// Whether `leave` sends.
    type State = bool;

    fn join(&self, socket: &mut Socket<'_>, payload: Payload<'_>) -> Result<Joined<bool>, Refusal> {
        let payload: Value = payload.json().unwrap_or_default();
        if payload["early"] == true {
            socket.push("early", json!({})).expect("an object");
        }
        match payload["join"].as_str() {
            Some("refuse") => Err(Refusal::because("refused")),
            Some("panic") => panic!("{ON_PURPOSE}"),
            _ => Ok(Joined::with(payload["bye"] == true)),
        }
    }

    fn handle_in(
        &self,
        _: &mut bool,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        match event {
            "note" => {
                socket.broadcast("note", payload)?;
                Ok(Outcome::Reply(Reply::ok(Body::EMPTY)))
            }
            "others" => {
                socket.broadcast_from("note", payload)?;
                Ok(Outcome::Reply(Reply::ok(Body::EMPTY)))
            }
            _ => act(socket, &payload.json()?),
        }
    }

    fn leave(&self, sends: bool, socket: &mut Socket<'_>) {
        if sends {
            socket.push("bye", json!({})).expect("an object");
            socket.broadcast_from("left", json!({})).expect("an object");
            socket.push("bye", json!({})).expect("an object");
        }
    }
}

fn act(socket: &mut Socket<'_>, payload: &Value) -> HandleIn {
    for number in 0..payload["pushes"].as_u64().unwrap_or(0) {
        socket.push("pushed", json!({ "number": number }))?;
    }
    match payload["then"].as_str().unwrap_or("reply") {
        "stop" => Ok(Outcome::Stop),
        "stop_with" => Ok(Outcome::StopWith(Reply::ok(json!({ "then": "stop_with" })))),
        "crash" => Err(Crash::because("a crash of the application")),
        "panic" => panic!("{ON_PURPOSE}"),
        "nothing" => Ok(Outcome::NoReply),
        "bytes" => Ok(Outcome::Reply(Reply::ok(Body::Binary(b"bytes"[..].into())))),
        "later" => {
            let reply = socket.reply_later();
            thread::spawn(move || reply.send(Reply::ok(json!({ "then": "later" }))));
            Ok(Outcome::NoReply)
        }
        _ => Ok(Outcome::Reply(Reply::ok(json!({ "then": "reply" })))),
    }
}
