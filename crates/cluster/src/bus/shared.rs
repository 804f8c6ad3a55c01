//! The state that the threads of a process share behind one lock: everything except the sockets.

use parking_lot::{Mutex, MutexGuard};
use std::hash::RandomState;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use watchfire_types::NodeId;

use crate::bus::frame::Frame;
use crate::bus::interest::{Interest, InterestLimits};
use crate::bus::nodes::Nodes;
use crate::bus::outbox::{Entry, Outbox};
use crate::bus::writing::{GATHER_PERIOD, WritingHalf};
use crate::bus::{BusLimits, BusTotals, Handler, Loss, NODES_MAX, NodeQueue, Readiness, SendError};

/// The resolution of timeouts.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Bytes of announcements per entry, for a new link.
const INITIAL_ENTRY_BYTES: usize = 256 * 1024;

pub(crate) struct Shared {
    pub me: NodeId,
    pub limits: Arc<BusLimits>,
    pub awake: Notify,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub interest: Interest,
    pub handler: Option<Arc<dyn Handler>>,
    pub is_stopped: bool,
    /// Whether the thread will check for work before it sleeps, so that it needs no waking.
    pub is_awake: bool,
    /// Whether the thread's sleep ends with a tick.
    pub is_ticking: bool,
    /// Links that the thread has not accepted yet.
    pub new_links: Vec<NewLink>,
    /// Nodes whose link can be written, or must be ended.
    pub due: Nodes,
    /// Withdrawn topics that were not reported to the handler yet.
    pub forgotten: Vec<Arc<str>>,
    pub counted: BusTotals,
    links: Vec<Option<SendingHalf>>,
    limits: Arc<BusLimits>,
}

/// A link that the thread has not accepted yet.
pub(crate) struct NewLink {
    pub node: NodeId,
    pub stream: UnixStream,
    pub handler: Arc<dyn Handler>,
}

/// The sending half of a link, as callers see it.
pub(crate) struct SendingHalf {
    pub outbox: Outbox,
    pub status: Status,
    /// Whether the socket's buffer is full.
    pub is_stalled: bool,
    writing: Arc<WritingHalf>,
    /// When a message that its caller might write was last queued.
    sent_at: Option<Instant>,
    /// Messages that the full queue dropped.
    dropped: u64,
}

impl SendingHalf {
    fn new(writing: Arc<WritingHalf>) -> Self {
        SendingHalf {
            outbox: Outbox::default(),
            status: Status::Open,
            is_stalled: false,
            writing,
            sent_at: None,
            dropped: 0,
        }
    }

    /// Whether this is the socket of the link. A caller may still have that of an earlier link.
    pub fn is_written_by(&self, writing: &WritingHalf) -> bool {
        std::ptr::eq(&*self.writing, writing)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Open,
    /// It cannot be written; frames that the node sent before are still read.
    Broken,
    /// To be ended because of a full queue.
    Cut,
}

impl Shared {
    pub fn new(me: NodeId, limits: BusLimits, hasher: RandomState) -> Self {
        let ticks =
            |time: Duration| u32::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX);
        let interest = InterestLimits {
            ack_ticks: ticks(limits.ack_timeout),
            linger_ticks: ticks(limits.linger),
            lingering_topics_max: limits.lingering_topics_max,
        };
        let limits = Arc::new(limits);
        let state = State {
            interest: Interest::new(interest, hasher),
            handler: None,
            is_stopped: false,
            is_awake: false,
            is_ticking: false,
            new_links: Vec::new(),
            due: Nodes::default(),
            forgotten: Vec::new(),
            counted: BusTotals::default(),
            links: (0..NODES_MAX).map(|_| None).collect(),
            limits: limits.clone(),
        };
        Shared { me, limits, awake: Notify::new(), state: Mutex::new(state) }
    }

    /// Locks the state. It is consistent after a panic too.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Wakes the thread if there is new work for it.
    pub fn wake(&self, mut state: MutexGuard<'_, State>) {
        if state.is_awake || !state.has_work() {
            return;
        }
        state.is_awake = true;
        drop(state);
        self.awake.notify_one();
    }
}

impl State {
    /// Whether the thread must not sleep now.
    pub fn has_work(&self) -> bool {
        self.is_stopped
            || !self.due.is_empty()
            || !self.new_links.is_empty()
            || !self.forgotten.is_empty()
            || (!self.is_ticking && self.interest.needs_ticks())
    }

    pub fn add_link(&mut self, new_link: NewLink) {
        self.interest.expect(new_link.node);
        self.new_links.push(new_link);
    }

    /// Opens the sending half of a link, replacing an older one.
    pub fn open(&mut self, node: NodeId, writing: Arc<WritingHalf>) {
        self.interest.replace(node);
        self.due.remove(node);
        self.links[usize::from(node.0)] = Some(SendingHalf::new(writing));
    }

    /// Announces all topics on a new link. Returns the ready number if that changed it.
    pub fn announce_all(&mut self, node: NodeId) -> Option<u64> {
        let (topics, seq) = self.interest.announce_all(node);
        let (mut pieces, mut left) = (vec![Vec::new()], topics.len());
        let has_no_topics = left == 0;
        for topic in topics {
            left -= 1;
            let seq = if left == 0 { seq } else { 0 };
            if pieces.last().is_some_and(|piece| piece.len() >= INITIAL_ENTRY_BYTES) {
                pieces.push(Vec::new());
            }
            let piece = pieces.last_mut().expect("there is at least one piece");
            Frame::Subscribe { seq, topic }.encode(piece);
        }
        if has_no_topics {
            return self.interest.acked(node, seq).expect("the number was just requested");
        }
        for piece in pieces {
            let _ = self.push(node, Entry::initial(piece), Loss::Cut);
        }
        None
    }

    /// Closes the sending half of a link. Returns the ready number if that changed it.
    pub fn close(&mut self, node: NodeId) -> Option<u64> {
        self.links[usize::from(node.0)] = None;
        self.due.remove(node);
        let ready_up_to = self.interest.down(node);
        if self.new_links.iter().any(|new_link| new_link.node == node) {
            self.interest.expect(node);
        }
        ready_up_to
    }

    pub fn link(&mut self, node: NodeId) -> Option<&mut SendingHalf> {
        self.links.get_mut(usize::from(node.0))?.as_mut()
    }

    /// The nodes to which messages can be sent.
    pub fn up(&self) -> Nodes {
        let mut nodes = Nodes::default();
        for (node, link) in (0..).map(NodeId).zip(&self.links) {
            if link.as_ref().is_some_and(|link| link.status == Status::Open) {
                nodes.insert(node);
            }
        }
        nodes
    }

    pub fn subscribe(&mut self, topic: &str) -> Readiness {
        let subscribed = self.interest.subscribe(topic);
        if let Some(seq) = subscribed.announce {
            self.announce(Frame::Subscribe { seq, topic });
        }
        subscribed.readiness
    }

    pub fn unsubscribe(&mut self, topic: &str) {
        if let Some(topic) = self.interest.unsubscribe(topic) {
            self.withdraw(topic);
        }
    }

    /// Withdraws a topic from the other nodes, and reports it to the handler.
    pub fn withdraw(&mut self, topic: Arc<str>) {
        self.announce(Frame::Unsubscribe { topic: &topic });
        self.forgotten.push(topic);
    }

    /// Sends a frame to all synced nodes.
    pub fn announce(&mut self, frame: Frame<'_>) {
        let mut encoded = None;
        for node in
            self.up().iter().filter(|node| self.interest.is_synced(*node)).collect::<Vec<_>>()
        {
            let entry = encoded.get_or_insert_with(|| {
                let mut bytes = Vec::new();
                frame.encode(&mut bytes);
                Entry::frames(bytes)
            });
            let _ = self.push(node, entry.clone(), Loss::Cut);
        }
    }

    pub fn send(&mut self, to: NodeId, message: Bytes, loss: Loss) -> Result<(), SendError> {
        let (len, max) = (message.len(), self.limits.message_bytes_max);
        if len > max {
            self.counted.dropped += 1;
            return Err(SendError::Oversized { len, max });
        }
        self.push(to, Entry::message(message), loss)
    }

    /// The socket of a node whose last message the caller should write itself, after it was queued.
    pub fn writing_if_idle(&mut self, to: NodeId, now: Instant) -> Option<Arc<WritingHalf>> {
        let is_asleep = !self.is_awake;
        let link = self.link(to)?;
        let sent_at = link.sent_at.replace(now);
        let is_rare = sent_at.is_none_or(|at| now.duration_since(at) >= GATHER_PERIOD);
        let is_alone = link.outbox.len() == 1 && !link.is_stalled && link.status == Status::Open;
        let writing = (is_asleep && is_rare && is_alone).then(|| link.writing.clone())?;
        self.due.remove(to);
        Some(writing)
    }

    /// Returns the number of nodes for which it was queued.
    pub fn send_each(&mut self, nodes: Nodes, message: Bytes, loss: Loss) -> usize {
        if nodes.is_empty() {
            return 0;
        }
        if message.len() > self.limits.message_bytes_max {
            self.counted.dropped += nodes.len() as u64;
            return 0;
        }
        let entry = Entry::message(message);
        nodes.iter().filter(|node| self.push(*node, entry.clone(), loss).is_ok()).count()
    }

    pub fn push(&mut self, to: NodeId, entry: Entry, loss: Loss) -> Result<(), SendError> {
        let link = self.links.get_mut(usize::from(to.0)).and_then(Option::as_mut);
        let link = link.filter(|link| link.status == Status::Open).ok_or(SendError::Down(to))?;
        match (link.outbox.push(entry, loss, &self.limits), loss) {
            (Ok(()), _) => {
                if !link.is_stalled {
                    self.due.insert(to);
                }
                Ok(())
            }
            (Err(_), Loss::Drop) => {
                self.counted.dropped += 1;
                link.dropped += 1;
                Err(SendError::Full(to))
            }
            (Err(_), Loss::Cut) => {
                link.status = Status::Cut;
                link.outbox = Outbox::default();
                self.due.insert(to);
                Err(SendError::Cut(to))
            }
        }
    }

    pub fn queues(&self) -> Vec<NodeQueue> {
        let now = Instant::now();
        let queue = |(link, node): (&Option<SendingHalf>, u16)| {
            let SendingHalf { outbox, dropped, .. } = link.as_ref()?;
            let oldest = outbox.oldest().map(|since| now.saturating_duration_since(since));
            Some(NodeQueue {
                node: NodeId(node),
                messages: outbox.waiting(),
                oldest,
                drops: *dropped,
            })
        };
        self.links.iter().zip(0..).filter_map(queue).collect()
    }

    pub fn totals(&self) -> BusTotals {
        BusTotals {
            nodes: self.up().len(),
            topics_local: self.interest.topics_local(),
            topics_remote: self.interest.topics_remote(),
            queued_bytes: self.links.iter().flatten().map(|link| link.outbox.bytes()).sum(),
            ..self.counted
        }
    }
}
