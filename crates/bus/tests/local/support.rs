use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use watchfire_bus::frame::{Decoder, Frame};
use watchfire_bus::{Bus, BusLimits, BusTotals, Handler, LocalBus};
use watchfire_types::NodeId;

/// Longest wait for anything. Only failures take it.
pub const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Up(u16),
    Down(u16),
    Interested(u16, String),
    Message(u16, Vec<u8>),
    Ready(u64),
    Forgotten(String),
}

type Hook = Box<dyn Fn(&Event) + Send + Sync>;

/// Writes down all it is called with.
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

    /// Do something at each event, before it is recorded.
    pub fn hook(&self, hook: impl Fn(&Event) + Send + Sync + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// Wait until it has recorded this.
    pub fn wait_for(&self, event: &Event) -> Vec<Event> {
        let events = self.events.lock().unwrap();
        let (events, waited) = self
            .more
            .wait_timeout_while(events, PATIENCE, |events| !events.contains(event))
            .unwrap();
        assert!(!waited.timed_out(), "{event:?} never came");
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

/// A bus and what it told.
pub struct Node {
    pub bus: Arc<LocalBus>,
    pub told: Arc<Recorder>,
}

impl Node {
    pub fn start(me: u16, limits: BusLimits) -> Node {
        let bus = Arc::new(LocalBus::start(NodeId(me), limits).unwrap());
        let told = Arc::new(Recorder::default());
        bus.attach(told.clone());
        Node { bus, told }
    }

    /// A link to a socket in our hands that has been told all topics and has said something.
    pub fn peer(&self, node: u16) -> Peer {
        let mut peer = self.link(node);
        let hello = format!("hello {}", self.told.events().len()).into_bytes();
        peer.say(Frame::Message(&hello));
        self.told.wait_for(&Event::Message(node, hello));
        peer
    }

    /// A new link to a socket in our hands.
    pub fn link(&self, node: u16) -> Peer {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.bus.link(NodeId(node), theirs).unwrap();
        Peer::new(ours)
    }

    pub fn wait_for_totals(&self, what: impl Fn(BusTotals) -> bool) {
        wait_until(|| what(self.bus.totals()), || format!("{:?}", self.bus.totals()));
    }
}

/// Buses with a link between each two of them, all up.
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

pub fn wait_until(what: impl Fn() -> bool, or_say: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < deadline, "it never came to that: {}", or_say());
        std::thread::yield_now();
    }
}

/// The other end of a link, by hand.
pub struct Peer {
    pub stream: UnixStream,
    decoder: Decoder,
    unread: Vec<u8>,
}

/// A [`Frame`] that is kept.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Subscribe(u64, String),
    Unsubscribe(String),
    Ack(u64),
    Message(Vec<u8>),
    Nothing,
}

impl Peer {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer { stream, decoder: Decoder::new(1 << 24), unread: Vec::new() }
    }

    pub fn say(&mut self, frame: Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next thing the bus says; [`Said::Nothing`] at its end.
    pub fn hear(&mut self) -> Said {
        loop {
            let mut input = self.unread.as_slice();
            let said = self.decoder.decode(&mut input).unwrap().map(|frame| match frame {
                Frame::Subscribe { seq, topic } => Said::Subscribe(seq, topic.to_owned()),
                Frame::Unsubscribe { topic } => Said::Unsubscribe(topic.to_owned()),
                Frame::Ack { seq } => Said::Ack(seq),
                Frame::Message(message) => Said::Message(message.to_vec()),
            });
            let left = input.len();
            self.unread.drain(..self.unread.len() - left);
            if let Some(said) = said {
                return said;
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Said::Nothing,
                Ok(len) => self.unread.extend_from_slice(&buffer[..len]),
                // The bus closed with something of ours unread.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Said::Nothing;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// All it says until its end.
    pub fn hear_all(&mut self) -> Vec<Said> {
        std::iter::from_fn(|| Some(self.hear()).filter(|said| *said != Said::Nothing)).collect()
    }
}
