//! A server on a free port, and a V2 client.
#![allow(dead_code, reason = "no test file uses all of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};
use watchfire::{RunningServer, Server, Settings};
use watchfire_operator::{AdminSettings, Operator};

/// A timeout that is long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// The settings of a server that has the operator's listener.
pub fn settings() -> Settings {
    let mut settings = settings_without_operator();
    settings.section_mut::<AdminSettings>().listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings
}

pub fn settings_without_operator() -> Settings {
    let mut settings = Settings::default();
    settings.server.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings.server.shards = 2;
    settings
}

/// A server with the operator's listener.
pub fn observed(settings: Settings) -> Server {
    Server::new(settings).with(Operator::new())
}

pub fn start(settings: Settings) -> RunningServer {
    observed(settings).start().expect("the server starts")
}

/// The reason of a refusal.
pub fn reason(reply: &Value) -> &str {
    assert_eq!(reply["status"], "error", "{reply}");
    reply["response"]["reason"].as_str().expect("an error has a reason")
}

pub struct Client {
    socket: WebSocket<TcpStream>,
    next_ref: u32,
}

impl Client {
    pub fn connect(server: &RunningServer) -> Client {
        Client::connect_with(server, "vsn=2.0.0").expect("the client is accepted")
    }

    pub fn connect_with(server: &RunningServer, query: &str) -> Result<Client, String> {
        let url = format!("ws://{}/socket/websocket?{query}", server.address());
        Client::connect_to(server.address(), &url)
    }

    pub fn connect_to(address: SocketAddr, url: &str) -> Result<Client, String> {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        match tungstenite::client(url, stream) {
            Ok((socket, _)) => Ok(Client { socket, next_ref: 1 }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends a message and returns the `{"status", "response"}` of its reply.
    pub fn push(&mut self, topic: &str, event: &str, payload: Value) -> Value {
        let reference = self.send(topic, event, payload);
        self.reply_to(&reference)
    }

    pub fn send(&mut self, topic: &str, event: &str, payload: Value) -> String {
        let reference = self.next_ref.to_string();
        self.next_ref += 1;
        let text = json!([null, reference, topic, event, payload]).to_string();
        self.socket.send(Message::text(text)).expect("the socket is open");
        reference
    }

    /// Sends a message in the format of V1.
    pub fn send_v1(&mut self, topic: &str, event: &str, payload: Value) {
        let message = json!({ "topic": topic, "event": event, "payload": payload, "ref": "1" });
        self.socket.send(Message::text(message.to_string())).expect("the socket is open");
    }

    /// Sends a binary push and returns its ref.
    pub fn send_bytes(&mut self, topic: &str, event: &str, data: &[u8]) -> String {
        let reference = self.next_ref.to_string();
        self.next_ref += 1;
        let lens = [0, reference.len(), topic.len(), event.len()].map(|len| len as u8);
        let mut frame = vec![0];
        frame.extend_from_slice(&lens);
        for field in [&reference, topic, event] {
            frame.extend_from_slice(field.as_bytes());
        }
        frame.extend_from_slice(data);
        self.socket.send(Message::binary(frame)).expect("the socket is open");
        reference
    }

    pub fn join(&mut self, topic: &str, payload: Value) -> Value {
        self.push(topic, "phx_join", payload)
    }

    pub fn reply_to(&mut self, reference: &str) -> Value {
        loop {
            let message = self.receive();
            if message[1] == reference && message[3] == "phx_reply" {
                return message[4].clone();
            }
        }
    }

    /// The next message, which must be text.
    pub fn receive(&mut self) -> Value {
        match self.socket.read().expect("a message arrives") {
            Message::Text(text) => serde_json::from_str(&text).expect("messages are JSON"),
            other => panic!("expected text, received {other:?}"),
        }
    }

    /// The next message; `None` if it is binary.
    pub fn receive_text(&mut self) -> Option<Value> {
        match self.socket.read().expect("a message arrives") {
            Message::Text(text) => Some(serde_json::from_str(&text).expect("messages are JSON")),
            _ => None,
        }
    }

    /// The payload of the next message of this event. Drops earlier messages.
    pub fn receive_event(&mut self, event: &str) -> Value {
        loop {
            let message = self.receive();
            if message[3] == event {
                return message[4].clone();
            }
        }
    }

    /// The data of the next binary push. Drops earlier messages.
    pub fn receive_bytes(&mut self) -> Vec<u8> {
        loop {
            if let Message::Binary(frame) = self.socket.read().expect("a message arrives") {
                let fields: usize = frame[1..4].iter().map(|len| usize::from(*len)).sum();
                assert_eq!(frame[0], 0, "a push");
                return frame[4 + fields..].to_vec();
            }
        }
    }

    /// The next binary frame. Drops earlier messages.
    pub fn receive_frame(&mut self) -> Vec<u8> {
        loop {
            if let Message::Binary(frame) = self.socket.read().expect("a message arrives") {
                return frame.to_vec();
            }
        }
    }

    /// The code of the next close frame. Drops earlier messages.
    pub fn receive_close(&mut self) -> u16 {
        loop {
            match self.socket.read() {
                Ok(Message::Close(Some(frame))) => return frame.code.into(),
                Ok(_) => {}
                Err(error) => panic!("no close frame: {error}"),
            }
        }
    }
}

/// Sends an HTTP request to an address, on a new connection, and returns the whole response.
pub fn http_to(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("the response is text");
    response
}

/// The response to a GET; `None` if the server closes the connection without one.
pub fn try_get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response).filter(|response| !response.is_empty())
}

/// Sends an HTTP request on a new connection, and returns the whole response.
pub fn http(server: &RunningServer, request: &str) -> String {
    http_to(server.address(), request)
}

pub fn get(server: &RunningServer, path: &str) -> String {
    http(server, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

/// The first address of the operator's listener.
pub fn admin_address(server: &RunningServer) -> SocketAddr {
    *server.addresses_of("operator").first().expect("the server has an admin listener")
}

/// The response of the operator's listener, with its head.
pub fn metrics(server: &RunningServer) -> String {
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    http_to(admin_address(server), request)
}

/// The value of one series of `/metrics`.
pub fn metric(server: &RunningServer, name: &str) -> u64 {
    let metrics = metrics(server);
    let line = metrics.lines().find(|line| line.split([' ']).next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name} is missing in\n{metrics}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}
