//! A simulated network: nodes with uplinks, downlinks and a delay, on a simulated clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use watchfire_bitswap::{
    Exchange, Limits, Message, Misbehaviour, Output, Payload, Protocol, SessionId, Want,
};
use watchfire_content::{Cid, Codec, Multihash};
use watchfire_types::Instant;

/// A block that has only a CID and a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeBlock {
    pub cid: Cid,
    pub len: usize,
}

impl Payload for FakeBlock {
    fn cid(&self) -> &Cid {
        &self.cid
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// The CID of the nth block.
pub fn cid(n: u64) -> Cid {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    digest[8..16].copy_from_slice(&n.to_le_bytes());
    Cid::v1(Codec::RAW, Multihash::Sha2_256(digest))
}

pub fn fake_blocks(count: u64, len: usize) -> Vec<FakeBlock> {
    (0..count).map(|n| FakeBlock { cid: cid(n), len }).collect()
}

/// The rates of a node's links in bytes per second, and its delay.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    pub up: u64,
    pub down: u64,
    pub delay: Duration,
}

pub const MIB: u64 = 1 << 20;

impl Links {
    pub fn mib_per_second(up: u64, down: u64) -> Self {
        Links { up: up * MIB, down: down * MIB, delay: Duration::from_millis(10) }
    }
}

const SEND_BUFFER_BYTES: usize = 512 << 10;

/// Messages are sent in pieces, so that one send buffer does not delay another.
const PIECE_BYTES: usize = 64 << 10;

pub struct Node {
    pub exchange: Exchange<usize, FakeBlock>,
    pub store: BTreeMap<Cid, usize>,
    pub links: Links,
    pub session: Option<SessionId>,
    /// Blocks of its session that it received, and when the last of them arrived.
    pub received: usize,
    pub done_at: Option<Instant>,
    pub searches: usize,
    pub dropped: Vec<(usize, Misbehaviour)>,
    /// Whether it neither sends nor receives messages any more.
    pub is_mute: bool,
    /// How many of its next messages with blocks are lost.
    pub messages_to_lose: usize,
    send_buffers: BTreeMap<usize, VecDeque<(Message<FakeBlock>, usize)>>,
    turn: usize,
    is_sending: bool,
    down_free_at: Instant,
    pub sent_bytes: u64,
}

enum Event {
    Left { from: usize, to: usize, bytes: usize },
    Piece { from: usize, to: usize },
    Message { from: usize, to: usize, message: Message<FakeBlock> },
    Wake { node: usize },
}

pub struct Net {
    pub now: Instant,
    pub nodes: Vec<Node>,
    /// The links of DAG nodes.
    pub lists: BTreeMap<Cid, Vec<Cid>>,
    /// By their time; those of one time in the order in which they were scheduled.
    events: BTreeMap<(Instant, u64), Event>,
    next: u64,
    woken_at: BTreeMap<usize, Instant>,
}

impl Net {
    pub fn new() -> Self {
        Net {
            now: Instant::ZERO,
            nodes: Vec::new(),
            lists: BTreeMap::new(),
            events: BTreeMap::new(),
            next: 0,
            woken_at: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, links: Links) -> usize {
        let id = self.nodes.len();
        self.nodes.push(Node {
            exchange: Exchange::new(Limits::default(), id as u64 + 1),
            store: BTreeMap::new(),
            links,
            session: None,
            received: 0,
            done_at: None,
            searches: 0,
            dropped: Vec::new(),
            is_mute: false,
            messages_to_lose: 0,
            send_buffers: BTreeMap::new(),
            turn: 0,
            is_sending: false,
            down_free_at: Instant::ZERO,
            sent_bytes: 0,
        });
        id
    }

    pub fn connect(&mut self, a: usize, b: usize, protocol: Protocol) {
        for (one, other) in [(a, b), (b, a)] {
            let node = &mut self.nodes[one];
            node.send_buffers.insert(other, VecDeque::new());
            node.exchange.handle_connected(self.now, other, protocol);
            node.exchange.handle_writable(self.now, other, SEND_BUFFER_BYTES);
        }
        self.drain(a);
        self.drain(b);
    }

    pub fn mesh(&mut self, protocol: Protocol) {
        for a in 0..self.nodes.len() {
            for b in 0..a {
                self.connect(a, b, protocol);
            }
        }
    }

    pub fn disconnect(&mut self, a: usize, b: usize) {
        for (one, other) in [(a, b), (b, a)] {
            if self.nodes[one].send_buffers.remove(&other).is_some() {
                self.nodes[one].exchange.handle_disconnected(self.now, other);
            }
        }
        self.drain(a);
        self.drain(b);
    }

    pub fn store(&mut self, node: usize, blocks: &[FakeBlock]) {
        for block in blocks {
            self.nodes[node].store.insert(block.cid.clone(), block.len);
            self.nodes[node].exchange.handle_stored(self.now, &block.cid, block.len);
        }
        self.drain(node);
    }

    pub fn want(&mut self, node: usize, wants: impl IntoIterator<Item = Want>) -> SessionId {
        let exchange = &mut self.nodes[node].exchange;
        let session = exchange.start_session(self.now);
        exchange.want(self.now, session, wants);
        self.nodes[node].session = Some(session);
        self.drain(node);
        session
    }

    pub fn want_all(&mut self, node: usize, blocks: &[FakeBlock]) -> SessionId {
        let want = |block: &FakeBlock| Want {
            len: u32::try_from(block.len).ok(),
            ..Want::new(block.cid.clone())
        };
        self.want(node, blocks.iter().map(want))
    }

    /// Runs until no event is left, `until` holds, or this number of seconds has passed. Returns `until`.
    pub fn run(&mut self, secs: u64, until: impl Fn(&Net) -> bool) -> bool {
        let end = self.now + Duration::from_secs(secs);
        while !until(self) {
            let Some(next) = self.events.first_entry() else { return false };
            if next.key().0 > end {
                self.now = end;
                return until(self);
            }
            self.now = next.key().0;
            let event = next.remove();
            self.handle_event(event);
        }
        true
    }

    pub fn all_done(&self) -> bool {
        self.nodes
            .iter()
            .all(|node| node.session.is_none_or(|session| node.exchange.missing(session) == 0))
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Left { from, to, bytes } => {
                let sender = &mut self.nodes[from];
                sender.is_sending = false;
                let mut is_whole = None;
                if let Some(send_buffer) = sender.send_buffers.get_mut(&to) {
                    if let Some((_, left)) = send_buffer.front_mut() {
                        *left -= bytes;
                        if *left == 0 {
                            is_whole = send_buffer.pop_front().map(|(message, _)| message);
                            if sender.messages_to_lose > 0
                                && is_whole.take_if(|it| !it.blocks.is_empty()).is_some()
                            {
                                sender.messages_to_lose -= 1;
                            }
                        }
                    }
                    let queued: usize = send_buffer.iter().map(|(_, left)| left).sum();
                    sender.exchange.handle_writable(
                        self.now,
                        to,
                        SEND_BUFFER_BYTES.saturating_sub(queued),
                    );
                }
                self.deliver(from, to, bytes, is_whole);
                self.drain(from);
                self.send_next(from);
            }
            Event::Piece { from, to } => {
                if self.nodes[to].send_buffers.contains_key(&from) {
                    self.nodes[to].exchange.handle_partial_message(self.now, from);
                    self.drain(to);
                }
            }
            Event::Message { from, to, message } => {
                if self.nodes[to].send_buffers.contains_key(&from) && !self.nodes[to].is_mute {
                    self.nodes[to].exchange.handle_message(self.now, from, message);
                    self.drain(to);
                }
            }
            Event::Wake { node } => {
                self.woken_at.remove(&node);
                let exchange = &mut self.nodes[node].exchange;
                if exchange.next_wake().is_some_and(|at| at <= self.now) {
                    exchange.handle_tick(self.now);
                }
                self.drain(node);
            }
        }
    }

    /// Delivers a piece; with the last piece of a message, the message.
    fn deliver(
        &mut self,
        from: usize,
        to: usize,
        bytes: usize,
        message: Option<Message<FakeBlock>>,
    ) {
        let delay = self.nodes[from].links.delay.max(self.nodes[to].links.delay);
        let receiver = &mut self.nodes[to];
        let start = (self.now + delay).max(receiver.down_free_at);
        let end = start + transfer_time(bytes, receiver.links.down);
        receiver.down_free_at = end;
        self.schedule(
            end,
            match message {
                Some(message) => Event::Message { from, to, message },
                None => Event::Piece { from, to },
            },
        );
    }

    /// Sends a message, which may be one that no exchange made.
    pub fn send(&mut self, from: usize, to: usize, message: Message<FakeBlock>) {
        let protocol = if message.leaves.is_empty() { Protocol::V1_2 } else { Protocol::Leaves };
        let bytes = message.encoded_len(protocol).max(1);
        let sender = &mut self.nodes[from];
        if let Some(send_buffer) = sender.send_buffers.get_mut(&to) {
            sender.sent_bytes += bytes as u64;
            send_buffer.push_back((message, bytes));
            self.send_next(from);
        }
    }

    fn send_next(&mut self, from: usize) {
        let sender = &mut self.nodes[from];
        if sender.is_sending {
            return;
        }
        let after = sender.turn + 1;
        let next = sender.send_buffers.range(after..).chain(sender.send_buffers.range(..after));
        let next = next.filter_map(|(to, send_buffer)| Some((*to, send_buffer.front()?.1))).next();
        let Some((to, left)) = next else { return };
        sender.turn = to;
        sender.is_sending = true;
        let bytes = left.min(PIECE_BYTES);
        let end = self.now + transfer_time(bytes, sender.links.up);
        self.schedule(end, Event::Left { from, to, bytes });
    }

    fn drain(&mut self, id: usize) {
        loop {
            let node = &mut self.nodes[id];
            let Some(output) = node.exchange.poll_output() else { break };
            match output {
                Output::Send { peer, message } if !node.is_mute => self.send(id, peer, message),
                Output::Send { .. } => {}
                Output::Lookup { cid } => {
                    node.exchange.handle_lookup(self.now, &cid, node.store.get(&cid).copied());
                }
                Output::ListLinks { node: list } => {
                    let has = |cid: &Cid| node.store.contains_key(cid);
                    let leaves =
                        self.lists.get(&list).filter(|_| has(&list)).map(|leaves| {
                            leaves.iter().map(|cid| (cid.clone(), has(cid))).collect()
                        });
                    node.exchange.handle_links(self.now, &list, leaves);
                }
                Output::Read { peer, cid } => {
                    let len = node.store.get(&cid).copied();
                    let block = len.map(|len| FakeBlock { cid: cid.clone(), len });
                    node.exchange.handle_read(self.now, peer, &cid, block);
                }
                Output::BlockReceived { block, .. } => {
                    node.received += 1;
                    node.store.insert(block.cid.clone(), block.len);
                    node.exchange.handle_stored(self.now, &block.cid, block.len);
                    let session = node.session.expect("a session wanted it");
                    if node.exchange.missing(session) == 0 {
                        node.done_at = Some(self.now);
                    }
                }
                Output::FindProviders { session, .. } => {
                    node.searches += 1;
                    node.exchange.handle_providers(self.now, session, &[]);
                }
                Output::Answered { .. } => {}
                Output::DropPeer { peer, reason } => {
                    node.dropped.push((peer, reason));
                    self.disconnect(id, peer);
                }
            }
        }
        let wake = self.nodes[id].exchange.next_wake();
        if let Some(at) = wake.map(|at| at.max(self.now))
            && self.woken_at.get(&id).is_none_or(|woken| at < *woken)
        {
            self.woken_at.insert(id, at);
            self.schedule(at, Event::Wake { node: id });
        }
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.events.insert((at, self.next), event);
        self.next += 1;
    }
}

fn transfer_time(bytes: usize, rate: u64) -> Duration {
    Duration::from_nanos(bytes as u64 * 1_000_000_000 / rate)
}
