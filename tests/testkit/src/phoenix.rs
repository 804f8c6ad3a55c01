//! A client of channels, which speaks Phoenix frames over a WebSocket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{ClientRequestBuilder, Message, WebSocket};

use crate::DEADLINE;

/// The head of a request for a WebSocket, without a host and without the empty line.
pub const UPGRADE: &str = "GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
     sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A text frame of at most 125 bytes as clients send it. The mask is zero.
pub fn text_frame(text: &str) -> Vec<u8> {
    assert!(text.len() <= 125, "a longer frame has another length field");
    [&[0x81, 0x80 | text.len() as u8, 0, 0, 0, 0], text.as_bytes()].concat()
}

/// A client whose frames are those of V2.
pub struct Client<S = TcpStream> {
    socket: WebSocket<S>,
    next_ref: u32,
}

impl Client {
    #[track_caller]
    pub fn connect(to: SocketAddr) -> Client {
        Client::connect_with(to, "vsn=2.0.0").expect("the client is accepted")
    }

    /// Connects with these parameters of the URL. A refusal is a text.
    #[track_caller]
    pub fn connect_with(to: SocketAddr, query: &str) -> Result<Client, String> {
        Client::connect_to(to, &format!("ws://{to}/socket/websocket?{query}"))
    }

    /// Connects to a URL, whose host need not be the address.
    #[track_caller]
    pub fn connect_to(to: SocketAddr, url: &str) -> Result<Client, String> {
        Client::over(connected(to), url)
    }

    /// Connects as a browser does for a page of this origin.
    #[track_caller]
    pub fn connect_from(origin: &str, to: SocketAddr) -> Result<Client, String> {
        let url = format!("ws://{to}/socket/websocket?vsn=2.0.0").parse().expect("a URL");
        Client::over(connected(to), ClientRequestBuilder::new(url).with_header("origin", origin))
    }
}

#[track_caller]
fn connected(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    stream
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S, request: impl IntoClientRequest) -> Result<Self, String> {
        let (socket, _) =
            tungstenite::client(request, stream).map_err(|error| error.to_string())?;
        Ok(Client { socket, next_ref: 1 })
    }

    pub fn stream(&self) -> &S {
        self.socket.get_ref()
    }

    /// Sends a message, and returns the `{"status", "response"}` of its reply.
    pub fn push(&mut self, topic: &str, event: &str, payload: Value) -> Value {
        let reference = self.send(topic, event, payload);
        self.reply_to(&reference)
    }

    pub fn join(&mut self, topic: &str, payload: Value) -> Value {
        self.push(topic, "phx_join", payload)
    }

    /// Sends a message, and returns its ref.
    pub fn send(&mut self, topic: &str, event: &str, payload: Value) -> String {
        let reference = self.take_ref();
        self.send_text(&json!([null, reference, topic, event, payload]));
        reference
    }

    /// Sends a message in the format of V1.
    pub fn send_v1(&mut self, topic: &str, event: &str, payload: Value) {
        self.send_text(&json!({ "topic": topic, "event": event, "payload": payload, "ref": "1" }));
    }

    fn send_text(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).expect("the socket is open");
    }

    /// Sends a binary push, and returns its ref.
    pub fn send_bytes(&mut self, topic: &str, event: &str, data: &[u8]) -> String {
        let reference = self.take_ref();
        let lens = [0, reference.len(), topic.len(), event.len()].map(|len| len as u8);
        let fields = [reference.as_bytes(), topic.as_bytes(), event.as_bytes(), data].concat();
        let frame = [&[0], &lens[..], &fields].concat();
        self.socket.send(Message::binary(frame)).expect("the socket is open");
        reference
    }

    fn take_ref(&mut self) -> String {
        self.next_ref += 1;
        (self.next_ref - 1).to_string()
    }

    fn read(&mut self) -> Message {
        self.socket.read().expect("a message arrives")
    }

    /// The next message, which must be text.
    pub fn receive(&mut self) -> Value {
        match self.read() {
            Message::Text(text) => serde_json::from_str(&text).expect("messages are JSON"),
            other => panic!("expected text, received {other:?}"),
        }
    }

    /// The next message; `None` if it is binary.
    pub fn receive_text(&mut self) -> Option<Value> {
        match self.read() {
            Message::Text(text) => Some(serde_json::from_str(&text).expect("messages are JSON")),
            _ => None,
        }
    }

    /// The `{"status", "response"}` of a reply. Drops earlier messages.
    pub fn reply_to(&mut self, reference: &str) -> Value {
        loop {
            let message = self.receive();
            if message[1] == reference && message[3] == "phx_reply" {
                return message[4].clone();
            }
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
        let frame = self.receive_frame();
        let fields: usize = frame[1..4].iter().map(|len| usize::from(*len)).sum();
        assert_eq!(frame[0], 0, "a push");
        frame[4 + fields..].to_vec()
    }

    /// The next binary frame. Drops earlier messages.
    pub fn receive_frame(&mut self) -> Vec<u8> {
        loop {
            if let Message::Binary(frame) = self.read() {
                return frame.to_vec();
            }
        }
    }

    /// The code of the next close frame. Drops earlier messages.
    pub fn receive_close(&mut self) -> u16 {
        loop {
            if let Message::Close(Some(frame)) = self.read() {
                return frame.code.into();
            }
        }
    }
}
