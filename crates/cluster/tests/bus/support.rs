use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};

use watchfire_cluster::bus::frame::{Decoder, Frame};
use watchfire_cluster::bus::{Bus, BusLimits, BusTotals, Handler, LocalBus};
use watchfire_testkit::{DEADLINE, eventually};
use watchfire_types::NodeId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Up(u16),
    Down(u16),
    Interested(u16, String),
    Message(u16, Vec<u8>),
    Ready(u64),
    Uninterested(u16, String),
    Forgotten(String),
}

type Hook = Box<dyn Fn(&Event) + Send + Sync>;

/// Records all calls.
#[derive(Default)]
pub struct Recorder {
    events: Mutex<Vec<Event>>,
    more: Condvar,
    hook: Mutex<Option<Hook>>,
}

impl Recorder {
    fn record(&self, event: Event) {
        if let Some(hook) = &*self.hook.lock().unwrap() {
            hook(&event);
        }
        self.events.lock().unwrap().push(event);
        self.more.notify_all();
    }

    /// Runs `hook` at each event, before it is recorded.
    pub fn hook(&self, hook: impl Fn(&Event) + Send + Sync + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    pub fn wait_for(&self, event: &Event) -> Vec<Event> {
        let events = self.events.lock().unwrap();
        let (events, waited) = self
            .more
            .wait_timeout_while(events, DEADLINE, |events| !events.contains(event))
            .unwrap();
        assert!(!waited.timed_out(), "{event:?} did not happen");
        events.clone()
    }
}

impl Handler for Recorder {
    fn up(&self, node: NodeId) {
        self.record(Event::Up(node.0));
    }
    fn down(&self, node: NodeId) {
        self.record(Event::Down(node.0));
    }
    fn interested(&self, node: NodeId, topic: &str) {
        self.record(Event::Interested(node.0, topic.to_owned()));
    }
    fn uninterested(&self, node: NodeId, topic: &str) {
        self.record(Event::Uninterested(node.0, topic.to_owned()));
    }
    fn forgotten(&self, topic: &str) {
        self.record(Event::Forgotten(topic.to_owned()));
    }
    fn message(&self, from: NodeId, message: &[u8]) {
        self.record(Event::Message(from.0, message.to_vec()));
    }
    fn ready(&self, up_to: u64) {
        self.record(Event::Ready(up_to));
    }
}

/// A bus and its recorded events.
pub struct Node {
    pub bus: Arc<LocalBus>,
    pub recorder: Arc<Recorder>,
}

impl Node {
    pub fn start(me: u16, limits: BusLimits) -> Node {
        let bus = Arc::new(LocalBus::start(NodeId(me), limits).unwrap());
        let recorder = Arc::new(Recorder::default());
        bus.attach(recorder.clone());
        Node { bus, recorder }
    }

    /// A link to a socket of the test, which has received all topics and sent a message.
    pub fn peer(&self, node: u16) -> Peer {
        let mut peer = self.link(node);
        let hello = format!("hello {}", self.recorder.events().len()).into_bytes();
        peer.send(Frame::Message(&hello));
        self.recorder.wait_for(&Event::Message(node, hello));
        peer
    }

    /// A new link to a socket of the test.
    pub fn link(&self, node: u16) -> Peer {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.bus.link(NodeId(node), theirs).unwrap();
        Peer::new(ours)
    }

    pub fn wait_for_totals(&self, what: impl Fn(BusTotals) -> bool) {
        eventually("the totals", || what(self.bus.totals()));
    }
}

/// Buses with links between all of them, all up.
pub fn mesh(nodes: u16, limits: &BusLimits) -> Vec<Node> {
    let mesh: Vec<_> = (0..nodes).map(|me| Node::start(me, limits.clone())).collect();
    for (one, other) in (0..nodes).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        mesh[usize::from(one)].bus.link(NodeId(other), ours).unwrap();
        mesh[usize::from(other)].bus.link(NodeId(one), theirs).unwrap();
    }
    for node in &mesh {
        node.wait_for_totals(|totals| totals.nodes == mesh.len() - 1);
    }
    mesh
}

/// The other end of a link, controlled by the test.
pub struct Peer {
    pub stream: UnixStream,
    decoder: Decoder,
    unread: Vec<u8>,
}

/// An owned [`Frame`].
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    Subscribe(u64, String),
    Unsubscribe(String),
    Ack(u64),
    Message(Vec<u8>),
    Closed,
}

impl Peer {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Peer { stream, decoder: Decoder::new(1 << 24), unread: Vec::new() }
    }

    pub fn send(&mut self, frame: Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next frame from the bus; [`Received::Closed`] at the end.
    pub fn receive(&mut self) -> Received {
        loop {
            let mut input = self.unread.as_slice();
            let received = self.decoder.decode(&mut input).unwrap().map(|frame| match frame {
                Frame::Subscribe { seq, topic } => Received::Subscribe(seq, topic.to_owned()),
                Frame::Unsubscribe { topic } => Received::Unsubscribe(topic.to_owned()),
                Frame::Ack { seq } => Received::Ack(seq),
                Frame::Message(message) => Received::Message(message.to_vec()),
            });
            let left = input.len();
            self.unread.drain(..self.unread.len() - left);
            if let Some(received) = received {
                return received;
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Received::Closed,
                Ok(len) => self.unread.extend_from_slice(&buffer[..len]),
                // The bus closed the socket with unread data.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Received::Closed;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// All frames until the end.
    pub fn receive_all(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| Some(self.receive()).filter(|received| *received != Received::Closed))
            .collect()
    }
}
