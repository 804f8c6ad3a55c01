use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use watchfire_sockets::{
    Certificates, CloseCause, HandoffConnection, HandoffTarget, RequestHead, Route, SocketHandler,
    SocketLimits, SocketServer, SocketServerSettings, SocketTotals, Sockets, StartError, frame,
};
use watchfire_testkit::{eventually, find};
use watchfire_types::{Instant, NodeId, ShardId, SocketId};

use super::handoff_pipe::HandoffPipe;
use super::{Client, receive};

/// An event that a handler reports to the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Opened(ShardId, SocketId),
    Parked(ShardId, SocketId),
    Closed(SocketId, CloseCause),
    Drained(ShardId),
}

/// A command of a test, which runs on the handler's shard.
pub type Command = Box<dyn FnOnce(&mut TestHandler, &mut Sockets) + Send>;

/// The kind of socket, by the path of its request.
#[derive(Clone, Copy)]
pub enum Ticket {
    /// Every message is sent back.
    Echo,
    /// Messages are ignored.
    Listen,
    Wait,
    /// A GET that is answered immediately.
    AtOnce,
    /// A request whose body is sent back in reverse. "router" is left to the router.
    Reverse,
}

/// The pipes to other servers, by handoff target.
type HandoffRoutes = Arc<Mutex<HashMap<HandoffTarget, HandoffPipe>>>;

/// One shard's handler. The path of a request selects its behaviour.
pub struct TestHandler {
    node: NodeId,
    shard: ShardId,
    handoff_routes: HandoffRoutes,
    pub sockets: Vec<SocketId>,
    pub parked: Vec<SocketId>,
    events: mpsc::Sender<Event>,
    /// Sends for `run_pending_work`.
    pub backlog: Vec<(SocketId, Bytes)>,
}

impl TestHandler {
    pub fn answer_all(&mut self, sockets: &mut Sockets, body: &str) {
        for socket in self.parked.drain(..) {
            sockets.answer(socket, &answer(body));
        }
    }
}

fn answer(body: &str) -> [Bytes; 2] {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.into(), Bytes::copy_from_slice(body.as_bytes())]
}

impl SocketHandler for TestHandler {
    type Ticket = Ticket;
    type Message = Command;

    fn route(&mut self, _: Instant, _: SocketAddr, head: &RequestHead<'_>) -> Route<Ticket> {
        let upgrade = |ticket| Route::Upgrade {
            protocol: head.header("sec-websocket-protocol").map(Into::into),
            ticket,
        };
        match head.path() {
            "/echo" => upgrade(Ticket::Echo),
            "/listen" => upgrade(Ticket::Listen),
            "/wait" => Route::Park { ticket: Ticket::Wait },
            "/at-once" => Route::Park { ticket: Ticket::AtOnce },
            "/reverse" => Route::Answer { ticket: Ticket::Reverse },
            "/shard-1" if self.shard == ShardId(1) => Route::Park { ticket: Ticket::Wait },
            "/shard-1" => Route::Move(ShardId(1)),
            "/circle" => Route::Move(ShardId(1 - self.shard.0)),
            "/nowhere" => Route::Move(ShardId(77)),
            "/node-1/echo" if self.node == NodeId(1) => upgrade(Ticket::Echo),
            "/node-1/wait" if self.node == NodeId(1) => Route::Park { ticket: Ticket::Wait },
            "/node-1/whoami" if self.node == NodeId(1) => Route::Http,
            path if path.starts_with("/node-1/") => Route::HandOff(NodeId(1)),
            "/in-circles" => Route::HandOff(NodeId(1 - self.node.0)),
            "/forbidden" => Route::Refuse { status: 403, body: "not you" },
            _ => Route::Http,
        }
    }

    fn handle_open(&mut self, _: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        self.sockets.push(socket);
        let _ = self.events.send(Event::Opened(self.shard, socket));
        ticket as u32
    }

    fn handle_park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        match ticket {
            Ticket::AtOnce => assert!(sockets.answer(socket, &answer("at once"))),
            _ => {
                self.parked.push(socket);
                let _ = self.events.send(Event::Parked(self.shard, socket));
            }
        }
        ticket as u32
    }

    fn handle_request(&mut self, _: &mut Sockets, _: Ticket, body: &[u8]) -> Option<[Bytes; 2]> {
        let body = std::str::from_utf8(body).ok().filter(|body| *body != "router")?;
        Some(answer(&body.chars().rev().collect::<String>()))
    }

    fn handle_text(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, text: &str) {
        if key == Ticket::Echo as u32 {
            let _ = sockets.send(socket, &frame::text_frame(text.as_bytes()));
        }
    }

    fn handle_binary(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, bytes: &[u8]) {
        if key == Ticket::Echo as u32 {
            let _ = sockets.send(socket, &frame::binary_frame(bytes));
        }
    }

    fn handle_close(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, cause: CloseCause) {
        assert!(sockets.send(socket, &frame::text_frame(b"gone")).is_err());
        self.sockets.retain(|other| *other != socket);
        self.parked.retain(|other| *other != socket);
        let _ = self.events.send(Event::Closed(socket, cause));
    }

    fn handle_message(&mut self, sockets: &mut Sockets, message: Command) {
        message(self, sockets);
    }

    fn handle_tick(&mut self, _: &mut Sockets, _: Instant) {}

    fn run_pending_work(&mut self, sockets: &mut Sockets) -> bool {
        for _ in 0..10 {
            if let Some((socket, frame)) = self.backlog.pop() {
                let _ = sockets.send(socket, &frame);
            }
        }
        !self.backlog.is_empty()
    }

    fn hand_off(
        &mut self,
        to: HandoffTarget,
        handoff: HandoffConnection,
    ) -> Result<(), HandoffConnection> {
        match self.handoff_routes.lock().unwrap().get(&to) {
            Some(handoff_pipe) => handoff_pipe.send(handoff),
            None => Err(handoff),
        }
    }

    fn handle_drain(&mut self, sockets: &mut Sockets) {
        self.answer_all(sockets, "the server restarts");
        let _ = self.events.send(Event::Drained(self.shard));
    }
}

/// A running socket server with a [`TestHandler`] on each shard.
pub struct TestServer {
    pub server: SocketServer<Command>,
    pub events: mpsc::Receiver<Event>,
    handoff_routes: HandoffRoutes,
}

impl TestServer {
    pub fn open() -> Self {
        TestServer::with(SocketLimits::default())
    }

    pub fn with(limits: SocketLimits) -> Self {
        TestServer::build(1, limits, None)
    }

    /// Starts with other limits than the default ones.
    pub fn limited(change: impl FnOnce(&mut SocketLimits)) -> Self {
        let mut limits = SocketLimits::default();
        change(&mut limits);
        TestServer::with(limits)
    }

    pub fn build(shards: usize, limits: SocketLimits, tls: Option<Arc<Certificates>>) -> Self {
        TestServer::try_start(SocketServerSettings {
            shards,
            limits,
            tls,
            ..SocketServerSettings::default()
        })
        .unwrap()
    }

    pub fn try_start(settings: SocketServerSettings) -> Result<Self, StartError> {
        TestServer::try_start_at(NodeId(0), settings)
    }

    /// Starts a server as one of several processes.
    pub fn try_start_at(node: NodeId, settings: SocketServerSettings) -> Result<Self, StartError> {
        let handoff_routes = HandoffRoutes::default();
        let handler_routes = handoff_routes.clone();
        let (sender, events) = mpsc::channel();
        let server = watchfire_sockets::start(settings, router(), move |shard, _| TestHandler {
            node,
            shard,
            handoff_routes: handler_routes.clone(),
            sockets: Vec::new(),
            parked: Vec::new(),
            events: sender.clone(),
            backlog: Vec::new(),
        })?;
        Ok(TestServer { server, events, handoff_routes })
    }

    /// Hands connections with the target `to` over to another server from now on.
    pub fn route_handoffs(&self, to: HandoffTarget, other: &TestServer) {
        self.handoff_routes.lock().unwrap().insert(to, HandoffPipe::to(other.server.adopter()));
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.server.local_addr())
    }

    pub fn sending(&self, bytes: impl AsRef<[u8]>) -> Client {
        let mut client = self.connect();
        client.send(bytes);
        client
    }

    /// Waits for a parked request, and answers it.
    pub fn answer_parked(&self, body: &'static str) {
        assert!(matches!(receive(&self.events), Event::Parked(..)));
        self.on_shard(0, move |handler, sockets| handler.answer_all(sockets, body));
    }

    pub fn websocket(&self, path: &str) -> (Client, SocketId) {
        let mut client = self.connect();
        client.upgrade(path);
        match receive(&self.events) {
            Event::Opened(_, socket) => (client, socket),
            other => panic!("{other:?} instead of an open websocket"),
        }
    }

    /// Runs a command on a shard, and waits for its result.
    pub fn on_shard<R: Send + 'static>(
        &self,
        shard: usize,
        command: impl FnOnce(&mut TestHandler, &mut Sockets) -> R + Send + 'static,
    ) -> R {
        let (sender, result) = mpsc::channel();
        let message: Command = Box::new(move |handler, sockets| {
            let _ = sender.send(command(handler, sockets));
        });
        assert!(self.server.shard_senders()[shard].send(message).is_ok());
        receive(&result)
    }

    pub fn totals(&self) -> SocketTotals {
        self.server.counters().totals()
    }

    pub fn eventually(&self, condition: &str, holds: impl Fn(SocketTotals) -> bool) {
        eventually(condition, || holds(self.totals()));
    }

    /// Waits until a socket is closed, and returns the cause.
    pub fn closed(&self) -> CloseCause {
        find("a socket is closed", || match receive(&self.events) {
            Event::Closed(_, cause) => Some(cause),
            _ => None,
        })
    }
}

fn router() -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/empty", get(|| async {}))
        .route(
            "/whoami",
            get(|ConnectInfo(from): ConnectInfo<SocketAddr>| async move { from.to_string() }),
        )
        .route(
            "/node-1/whoami",
            get(|ConnectInfo(from): ConnectInfo<SocketAddr>| async move { from.to_string() }),
        )
        .route("/length", post(|body: Bytes| async move { body.len().to_string() }))
        .route("/reverse", post(|_: Bytes| async { "the router" }))
        .route("/unread", post(|| async { "unread" }))
        .route("/large", get(|| async { "x".repeat(3_000_000) }))
        .route("/panic", get(panic_in_handler))
}

async fn panic_in_handler() -> &'static str {
    panic!("a handler may panic")
}
