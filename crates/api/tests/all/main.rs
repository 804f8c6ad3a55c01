//! The promises of the HTTP API, as its callers and the clients of its server see them.

#[path = "../../../server/tests/all/support/mod.rs"]
mod support;

mod calls;
mod description;
mod differing_machines;

use serde_json::{Value, json};
use watchfire::{
    Channel, ChannelRule, Connected, HandleIn, HistoryRule, JoinRule, Joined, Outcome, Payload,
    Refusal, Reply, RunningServer, Server, Settings, Socket,
};
use watchfire_api::{Api, ApiKey, ApiScope, ApiSettings};
use watchfire_operator::Operator;
use watchfire_testkit::{Answer, Client, Request};

use support::settings;

const KEY: &str = "a-key-with-every-scope";
const READER: &str = "a-key-that-only-reads";

/// `rooms:*`, and `presence:*` where each client is present under its name.
struct Rooms;

impl Channel for Rooms {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn joined(&self, (): &mut (), socket: &mut Socket<'_>) {
        let name = socket.assigns::<String>().cloned();
        if let Some(name) = name.filter(|_| socket.topic().starts_with("presence:")) {
            socket.track(&name, json!({ "status": "online" })).expect("the name is valid");
            socket.push_presence_state();
        }
    }

    fn handle_in(
        &self,
        (): &mut (),
        _: &mut Socket<'_>,
        _: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        Ok(Outcome::Reply(Reply::ok(payload)))
    }
}

fn api_settings() -> Settings {
    let mut settings = settings();
    settings.section_mut::<ApiSettings>().key = KEY.into();
    settings.channels.rules = vec![ChannelRule {
        join: JoinRule::Anyone,
        history: Some(HistoryRule::default()),
        ..ChannelRule::of("news:*")
    }];
    let scopes = vec![ApiScope::Presence, ApiScope::Info];
    settings.section_mut::<ApiSettings>().keys =
        vec![ApiKey { key: READER.into(), name: "reader".into(), scopes }];
    settings
}

fn application(settings: Settings) -> Server {
    Server::new(settings)
        .with(Operator::new())
        .with(Api::new())
        .channel("rooms:*", Rooms)
        .channel("presence:*", Rooms)
        .on_connect(|connect| {
            let Some(user) = connect.params.text("user") else { return Ok(Connected::default()) };
            let connected = Connected::default().with_id(format!("users:{user}"));
            Ok(connected.with_assigns(user.to_owned()))
        })
}

fn start() -> RunningServer {
    application(api_settings()).start().expect("the server starts")
}

fn client(server: &RunningServer, user: &str) -> Client {
    Client::connect_with(server.address(), &format!("vsn=2.0.0&user={user}"))
        .expect("it is accepted")
}

/// The response to a call: its status, its head and its JSON.
#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    json: Value,
}

impl Response {
    fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or("")
    }
}

/// The request of a call with these lines in its head.
fn request(path: &str, lines: &[&str], body: impl Into<Vec<u8>>) -> Request {
    Request::post(path, body).lines(lines)
}

fn parse(answer: Answer) -> Response {
    Response { status: answer.status, json: answer.json_or_null(), head: answer.head }
}

fn post(server: &RunningServer, path: &str, lines: &[&str], body: &str) -> Response {
    parse(request(path, lines, body).to(server.address()))
}

/// Calls a method with JSON and further lines in the head.
fn call_with(server: &RunningServer, method: &str, lines: &[&str], body: &Value) -> Response {
    let key = format!("authorization: Bearer {KEY}");
    let all = [&[&*key, "content-type: application/json"], lines].concat();
    post(server, &format!("/api/{method}"), &all, &body.to_string())
}

fn call(server: &RunningServer, method: &str, body: &Value) -> Response {
    call_with(server, method, &[], body)
}

/// The JSON of a call that succeeds.
fn ok(server: &RunningServer, method: &str, body: &Value) -> Value {
    let response = call(server, method, body);
    assert_eq!(response.status, 200, "{method} {body}: {response:?}");
    response.json
}

fn message(topic: &str, n: u32) -> Value {
    json!({ "topic": topic, "event": "note", "payload": { "n": n } })
}
