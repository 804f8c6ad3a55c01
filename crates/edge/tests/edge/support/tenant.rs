use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use edge::{
    CloseCause, Edge, EdgeLimits, EdgeSettings, EdgeTotals, Parcel, RequestHead, Route, Sockets,
    StartError, Taker, Tenant, TlsFiles, frame,
};
use vocab::{Instant, NodeId, ShardId, SocketId};

use super::courier::Courier;
use super::{Client, DEADLINE, receive};

/// What a tenant tells the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Opened(ShardId, SocketId),
    Parked(ShardId, SocketId),
    Closed(SocketId, CloseCause),
    Drained(ShardId),
}

/// What a test asks of a tenant, to be done on its shard.
pub type Mail = Box<dyn FnOnce(&mut Room, &mut Sockets) + Send>;

/// What a path means.
#[derive(Clone, Copy)]
pub enum Ticket {
    /// Everything is said back.
    Echo,
    /// Nothing is said back.
    Listen,
    /// A GET that waits.
    Wait,
    /// A GET that is answered at once.
    AtOnce,
}

/// How connections get to other houses: to one, or to whichever has room.
type Ways = Arc<Mutex<HashMap<Taker, Courier>>>;

/// One shard's tenant: it does what the path of a request says.
pub struct Room {
    node: NodeId,
    shard: ShardId,
    ways: Ways,
    pub sockets: Vec<SocketId>,
    pub parked: Vec<SocketId>,
    events: mpsc::Sender<Event>,
    ticks: mpsc::SyncSender<()>,
    /// Sends that `work` still has to do.
    pub backlog: Vec<(SocketId, Bytes)>,
}

impl Room {
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

impl Tenant for Room {
    type Ticket = Ticket;
    type Mail = Mail;

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
            "/shard-1" if self.shard == ShardId(1) => Route::Park { ticket: Ticket::Wait },
            "/shard-1" => Route::Move(ShardId(1)),
            "/circle" => Route::Move(ShardId(1 - self.shard.0)),
            "/nowhere" => Route::Move(ShardId(77)),
            "/node-1/echo" if self.node == NodeId(1) => upgrade(Ticket::Echo),
            "/node-1/wait" if self.node == NodeId(1) => Route::Park { ticket: Ticket::Wait },
            "/node-1/whoami" if self.node == NodeId(1) => Route::Http,
            path if path.starts_with("/node-1/") => Route::Away(NodeId(1)),
            "/in-circles" => Route::Away(NodeId(1 - self.node.0)),
            "/forbidden" => Route::Refuse { status: 403, body: "not you" },
            _ => Route::Http,
        }
    }

    fn open(&mut self, _: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        self.sockets.push(socket);
        let _ = self.events.send(Event::Opened(self.shard, socket));
        ticket as u32
    }

    fn park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        match ticket {
            Ticket::AtOnce => sockets.answer(socket, &answer("at once")),
            _ => {
                self.parked.push(socket);
                let _ = self.events.send(Event::Parked(self.shard, socket));
            }
        }
        ticket as u32
    }

    fn text(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, text: &str) {
        if key == Ticket::Echo as u32 {
            let _ = sockets.send(socket, &frame::text_frame(text.as_bytes()));
        }
    }

    fn binary(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, bytes: &[u8]) {
        if key == Ticket::Echo as u32 {
            let _ = sockets.send(socket, &frame::binary_frame(bytes));
        }
    }

    fn close(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, cause: CloseCause) {
        assert!(sockets.send(socket, &frame::text_frame(b"gone")).is_err());
        self.sockets.retain(|other| *other != socket);
        self.parked.retain(|other| *other != socket);
        let _ = self.events.send(Event::Closed(socket, cause));
    }

    fn mail(&mut self, sockets: &mut Sockets, mail: Mail) {
        mail(self, sockets);
    }

    fn tick(&mut self, _: &mut Sockets, _: Instant) {
        // One that nobody has waited for yet is enough.
        let _ = self.ticks.try_send(());
    }

    fn work(&mut self, sockets: &mut Sockets) -> bool {
        for _ in 0..10 {
            if let Some((socket, frame)) = self.backlog.pop() {
                let _ = sockets.send(socket, &frame);
            }
        }
        !self.backlog.is_empty()
    }

    fn hand_over(&mut self, to: Taker, parcel: Parcel) -> Result<(), Parcel> {
        match self.ways.lock().unwrap().get(&to) {
            Some(courier) => courier.send(parcel),
            None => Err(parcel),
        }
    }

    fn drain(&mut self, sockets: &mut Sockets) {
        self.answer_all(sockets, "the server restarts");
        let _ = self.events.send(Event::Drained(self.shard));
    }
}

/// A running edge with rooms behind it.
pub struct House {
    pub edge: Edge<Mail>,
    pub events: mpsc::Receiver<Event>,
    ways: Ways,
    ticks: mpsc::Receiver<()>,
}

impl House {
    pub fn open() -> Self {
        House::with(EdgeLimits::default())
    }

    pub fn with(limits: EdgeLimits) -> Self {
        House::build(1, limits, None)
    }

    pub fn build(shards: usize, limits: EdgeLimits, tls: Option<TlsFiles>) -> Self {
        House::try_start(EdgeSettings { shards, limits, tls, ..EdgeSettings::default() }).unwrap()
    }

    pub fn try_start(settings: EdgeSettings) -> Result<Self, StartError> {
        House::try_start_at(NodeId(0), settings)
    }

    /// One of the houses that are a server together.
    pub fn try_start_at(node: NodeId, settings: EdgeSettings) -> Result<Self, StartError> {
        let ways = Ways::default();
        let rooms_ways = ways.clone();
        let (sender, events) = mpsc::channel();
        let (tick_sender, ticks) = mpsc::sync_channel(1);
        let edge = edge::start(settings, router(), move |shard, _| Room {
            node,
            shard,
            ways: rooms_ways.clone(),
            sockets: Vec::new(),
            parked: Vec::new(),
            events: sender.clone(),
            ticks: tick_sender.clone(),
            backlog: Vec::new(),
        })?;
        Ok(House { edge, events, ways, ticks })
    }

    /// From now on, hand connections that are for `to` over to another house.
    pub fn pave_way(&self, to: Taker, other: &House) {
        self.ways.lock().unwrap().insert(to, Courier::to(other.edge.adopter()));
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.edge.local_addr())
    }

    /// A client whose websocket is open.
    pub fn websocket(&self, path: &str) -> (Client, SocketId) {
        let mut client = self.connect();
        client.upgrade(path);
        match receive(&self.events) {
            Event::Opened(_, socket) => (client, socket),
            other => panic!("{other:?} instead of an open websocket"),
        }
    }

    /// Do something on a shard, and wait until it is done.
    pub fn on_shard<R: Send + 'static>(
        &self,
        shard: usize,
        ask: impl FnOnce(&mut Room, &mut Sockets) -> R + Send + 'static,
    ) -> R {
        let (sender, result) = mpsc::channel();
        let mail: Mail = Box::new(move |room, sockets| {
            let _ = sender.send(ask(room, sockets));
        });
        assert!(self.edge.mailboxes()[shard].send(mail).is_ok());
        receive(&result)
    }

    pub fn totals(&self) -> EdgeTotals {
        self.edge.counters().totals()
    }

    /// Wait until the counts say so, looking at them with each tick.
    pub fn eventually(&self, what: &str, holds: impl Fn(EdgeTotals) -> bool) {
        let deadline = std::time::Instant::now() + DEADLINE;
        while !holds(self.totals()) {
            assert!(std::time::Instant::now() < deadline, "{what} did not come true");
            let _ = self.ticks.recv_timeout(DEADLINE);
        }
    }

    /// Wait until a socket is closed, and return why.
    pub fn closed(&self) -> CloseCause {
        let deadline = std::time::Instant::now() + DEADLINE;
        while std::time::Instant::now() < deadline {
            if let Event::Closed(_, cause) = receive(&self.events) {
                return cause;
            }
        }
        panic!("no socket was closed");
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
        .route("/unread", post(|| async { "unread" }))
        .route("/large", get(|| async { "x".repeat(3_000_000) }))
        .route("/panic", get(break_down))
}

async fn break_down() -> &'static str {
    panic!("a handler may break")
}
