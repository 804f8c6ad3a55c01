//! Tests of an application's channels, without a network port.
//!
//! [`Channels`] runs the application's own [`Server`], with its rules and features, in the test's process. Each
//! [`Client`] is connected over a pair of sockets. Nothing is replaced: joins, handlers, broadcasts, presence and
//! limits are the server's code. One event loop serves all clients, so a test sees the same order in each run.
//!
//! ```
//! use serde_json::json;
//! use watchfire::testing::Channels;
//! use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Server, Settings, Socket};
//!
//! struct Rooms;
//!
//! impl Channel for Rooms {
//!     type State = ();
//!
//!     fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
//!         Ok(Joined::with(()))
//!     }
//!
//!     fn handle_in(&self, (): &mut (), socket: &mut Socket<'_>, event: &str, payload: Payload<'_>) -> HandleIn {
//!         socket.broadcast_from(event, payload)?;
//!         Ok(Outcome::Reply(Reply::ok(json!({}))))
//!     }
//! }
//!
//! let channels = Channels::start(Server::new(Settings::default()).channel("rooms:*", Rooms))?;
//! let [mut ann, mut bob] = ["user=ann", "user=bob"].map(|params| channels.connect(params).unwrap());
//! assert_eq!(ann.join("rooms:1", json!({})), Reply::ok(json!({})));
//! assert_eq!(bob.join("rooms:1", json!({})).status(), "ok");
//!
//! assert_eq!(ann.push("rooms:1", "note", json!({ "text": "hello" })), Reply::ok(json!({})));
//! assert_eq!(bob.next("rooms:1", "note"), json!({ "text": "hello" }));
//! assert!(ann.received("rooms:1").is_empty(), "a sender gets no copy");
//! # Ok::<(), watchfire::StartError>(())
//! ```
//!
//! The names in Phoenix's `ChannelCase`:
//!
//! | Phoenix | here |
//! |---|---|
//! | `connect` | [`Channels::connect`] |
//! | `subscribe_and_join` | [`Client::join`] |
//! | `push` and `assert_reply` | [`Client::push`] |
//! | `push` of a message without a reply | [`Client::send`] |
//! | `assert_push`, `assert_broadcast` | [`Client::next`] |
//! | `refute_push`, `refute_broadcast` | [`Client::received`] is empty |
//! | `broadcast_from`, `send(socket.channel_pid, …)` | [`Channels::endpoint`] |
//! | `leave`, `close` | [`Client::leave`], and dropping the client |
//!
//! The clock is the real one. A channel has no timers of its own: a test sends the message of an application's
//! timer itself, with [`Endpoint::send`].

pub(crate) mod frames;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tungstenite::{Error, HandshakeError, Message, WebSocket};
use watchfire_channels::Serializer;

use self::frames::{Content, Received, Sent, decode_bytes, decode_text};
use crate::channel_api::{Body, Endpoint, Reply};
use crate::embedded::EmbeddedServer;
use crate::server::{Server, StartError};

/// The longest wait for a message. A test that passes does not wait this long, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);

/// A running server without a port. It stops when it is dropped.
pub struct Channels {
    server: EmbeddedServer,
}

/// A refused request to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot connect: the server answers {status}")]
pub struct NotConnected {
    /// The status of the response, such as 403 after [`Refused`](crate::Refused).
    pub status: u16,
}

impl Channels {
    /// Starts a server with one event loop. As for [`Server::embed`], `server.listen` is ignored.
    pub fn start(mut server: Server) -> Result<Channels, StartError> {
        let mut settings = server.settings().clone();
        settings.server.shards = 1;
        server.set_settings(settings);
        Ok(Channels { server: server.embed()? })
    }

    /// Connects a client with the parameters of a URL, such as `user=ann&token=1`.
    #[track_caller]
    pub fn connect(&self, params: &str) -> Result<Client, NotConnected> {
        let (stream, path) = self.server.open().expect("the event loop runs");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket has a timeout");
        stream.set_write_timeout(Some(DEADLINE)).expect("a socket has a timeout");
        let url = format!("ws://localhost{path}/websocket?vsn=2.0.0&{params}");
        match tungstenite::client(url, stream) {
            Ok((socket, _)) => {
                let join_refs = BTreeMap::new();
                Ok(Client { socket, next_ref: 1, join_refs, untaken: Vec::new() })
            }
            Err(HandshakeError::Failure(Error::Http(response))) => {
                Err(NotConnected { status: response.status().as_u16() })
            }
            Err(error) => panic!("cannot connect: {error}"),
        }
    }

    /// A handle for broadcasts and pushes.
    pub fn endpoint(&self) -> &Endpoint {
        self.server.endpoint()
    }
}

/// A client of [`Channels`]. Its calls panic when no answer comes within ten seconds, and show what has come.
#[derive(Debug)]
pub struct Client {
    socket: WebSocket<UnixStream>,
    next_ref: u64,
    /// By topic, the ref of the last join.
    join_refs: BTreeMap<String, String>,
    /// The messages that the test has not taken.
    untaken: Vec<Received>,
}

impl Client {
    /// Joins a topic, and returns the reply.
    #[track_caller]
    pub fn join(&mut self, topic: &str, params: Value) -> Reply {
        self.join_refs.insert(topic.to_owned(), self.next_ref.to_string());
        self.push(topic, "phx_join", params)
    }

    /// Leaves a topic, and returns the reply.
    #[track_caller]
    pub fn leave(&mut self, topic: &str) -> Reply {
        self.push(topic, "phx_leave", json!({}))
    }

    /// Sends a message, and returns its reply.
    #[track_caller]
    pub fn push(&mut self, topic: &str, event: &str, payload: impl Into<Body>) -> Reply {
        let reference = Some(self.write(topic, event, payload.into()));
        let is_reply = |message: &Received| message.reference == reference && message.is_reply();
        let reply = self.take(&format!("reply to {event} on {topic}"), is_reply);
        Reply::with_status(&reply.status.unwrap_or_default(), Body::from(reply.payload))
    }

    /// Sends a message whose reply does not matter. The channel has handled it when this returns.
    #[track_caller]
    pub fn send(&mut self, topic: &str, event: &str, payload: impl Into<Body>) {
        let reference = Some(self.write(topic, event, payload.into()));
        self.settle();
        self.untaken.retain(|message| message.reference != reference || !message.is_reply());
    }

    /// Waits for a message to this client, and returns its payload. Other messages stay for later calls.
    #[track_caller]
    pub fn next(&mut self, topic: &str, event: &str) -> Value {
        match self.next_of(topic, event).payload {
            Content::Json(value) => value,
            Content::Bytes(bytes) => {
                panic!("{event} on {topic} has {} bytes, not JSON", bytes.len())
            }
        }
    }

    /// Like [`Client::next`], for a binary payload.
    #[track_caller]
    pub fn next_bytes(&mut self, topic: &str, event: &str) -> Bytes {
        match self.next_of(topic, event).payload {
            Content::Bytes(bytes) => bytes.into(),
            Content::Json(value) => panic!("{event} on {topic} has no bytes, but {value}"),
        }
    }

    /// Takes the events and payloads of all messages on a topic that have come and were not taken. These are at
    /// least the messages that the server sent because of calls in this test that have returned.
    #[track_caller]
    pub fn received(&mut self, topic: &str) -> Vec<(String, Body)> {
        self.settle();
        let of_topic = |message: &mut Received| message.topic == topic && !message.is_reply();
        let taken = self.untaken.extract_if(.., of_topic);
        taken.map(|message| (message.event, message.payload.into())).collect()
    }

    /// Waits until the server closes the socket, and returns the code of the close.
    #[track_caller]
    pub fn closed(mut self) -> u16 {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Err(end) = self.read(until) {
                return end.unwrap_or_else(|error| panic!("the socket was not closed: {error}"));
            }
        }
    }

    #[track_caller]
    fn next_of(&mut self, topic: &str, event: &str) -> Received {
        let is_wanted = |message: &Received| message.topic == topic && message.event == event;
        self.take(&format!("{event} on {topic}"), is_wanted)
    }

    /// Waits until everything has come that the server sends because of earlier calls.
    ///
    /// An event loop turns: it reads sockets, then handles the calls of [`Endpoint`], then sends broadcasts. The
    /// reply to a heartbeat comes from the first step. The second heartbeat is read in a later turn, so its reply
    /// comes after the broadcasts of the turn of the first.
    #[track_caller]
    fn settle(&mut self) {
        for _ in 0..2 {
            self.push("phoenix", "heartbeat", json!({}));
        }
    }

    /// Sends a message, and returns its ref.
    #[track_caller]
    fn write(&mut self, topic: &str, event: &str, payload: Body) -> String {
        let reference = self.next_ref.to_string();
        self.next_ref += 1;
        let join_ref = self.join_refs.get(topic).cloned();
        let (topic, event) = (topic.to_owned(), event.to_owned());
        let mut sent = Sent { join_ref, reference, topic, event, payload: Value::Null };
        let frame = match payload {
            Body::Binary(data) => Message::binary(sent.bytes(&data)),
            json @ Body::Json(_) => {
                sent.payload = json.json().expect("the payload is JSON");
                Message::text(sent.text(Serializer::V2))
            }
        };
        // A closed socket is noticed by the read that follows, which has the code of the close.
        self.socket.send(frame).ok();
        sent.reference
    }

    /// Takes the first message that is wanted, and waits for it.
    #[track_caller]
    fn take(&mut self, name: &str, is_wanted: impl Fn(&Received) -> bool) -> Received {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(at) = self.untaken.iter().position(&is_wanted) {
                return self.untaken.remove(at);
            }
            let reason = match self.read(until) {
                Ok(()) => continue,
                Err(Ok(code)) => format!("the server closed the socket with {code}"),
                Err(Err(error)) => error,
            };
            panic!("no {name}: {reason}; not taken: {:#?}", self.untaken);
        }
    }

    /// Reads one message, or the end: the code of a close, or the reason of another end. Other messages that come all
    /// the time do not prolong the wait.
    fn read(&mut self, until: Instant) -> Result<(), Result<u16, String>> {
        let late = || Err(Err(format!("it did not come within {DEADLINE:?}")));
        if Instant::now() > until {
            return late();
        }
        let message = match self.socket.read() {
            Ok(Message::Text(text)) => decode_text(Serializer::V2, &text),
            Ok(Message::Binary(bytes)) => decode_bytes(&bytes),
            Ok(Message::Close(Some(frame))) => return Err(Ok(frame.code.into())),
            Ok(_) => return Ok(()),
            Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return late();
            }
            Err(error) => return Err(Err(error.to_string())),
        };
        let message = message.expect("the server sends valid messages");
        let join_ref = self.join_refs.get(&message.topic);
        // Like Phoenix's client, it drops messages of an earlier join.
        if message.join_ref.is_none() || message.join_ref.as_ref() == join_ref {
            self.untaken.push(message);
        }
        Ok(())
    }
}
