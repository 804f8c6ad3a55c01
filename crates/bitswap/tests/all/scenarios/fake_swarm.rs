//! One exchange with fake peers around it, on a simulated clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use watchfire_bitswap::{Limits, Message, Misbehaviour, Output, Presence, WantEntry, WantKind};
use watchfire_types::Instant;

use super::record::{FakeBlock, FakeOutput, Input, Record, cid, number};

pub const MILLI: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MILLI;

const SEND_BUFFER_BYTES: usize = 2 << 20;

/// A want above this priority is urgent.
const URGENT_ABOVE: i32 = i32::MAX - 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeBehaviour {
    Honest,
    /// Receives messages and sends none.
    Silent,
    /// Announces its blocks and never sends them.
    Withholding,
    /// Sends other blocks than the requested ones.
    Forging,
}

pub struct Peer {
    pub behaviour: FakeBehaviour,
    pub holds: BTreeSet<u8>,
    /// Bytes per millisecond that it sends, and that it receives.
    pub rate: u64,
    /// Delay of messages in each direction, in nanoseconds.
    pub delay: u64,
    wanted: VecDeque<u8>,
    is_sending: bool,
    /// Bytes in the send buffer to it, and when all of them have left.
    unsent: usize,
    free_at: u64,
}

enum Event {
    Input(Input),
    /// So many bytes have left the send buffer to this peer.
    Left(u64, usize),
    NextBlock(u64),
    Wake,
}

pub struct FakeSwarm {
    pub now: u64,
    pub record: Record,
    pub peers: BTreeMap<u64, Peer>,
    /// The blocks in the local store, and their lengths.
    pub store: BTreeMap<u8, usize>,
    /// Blocks in the store that cannot be read.
    pub unreadable: BTreeSet<u8>,
    /// Blocks that the store is reading, and the most that it has read at a time.
    pub reads: usize,
    pub reads_max: usize,
    pub received: Vec<(u64, u8, u64)>,
    pub sent: Vec<(u64, Message<FakeBlock>)>,
    pub dropped: Vec<(u64, Misbehaviour)>,
    pub searches: usize,
    pub block_bytes: usize,
    /// By their time; those of one time in the order in which they were scheduled.
    events: BTreeMap<(u64, u64), Event>,
    next: u64,
    woken_at: Option<u64>,
}

impl FakeSwarm {
    pub fn new(block_bytes: usize) -> Self {
        FakeSwarm::with_limits(block_bytes, Limits::default(), json!({}))
    }

    pub fn with_limits(block_bytes: usize, limits: Limits, changed_limits: Value) -> Self {
        FakeSwarm {
            now: 0,
            record: Record::new(7, limits, changed_limits),
            peers: BTreeMap::new(),
            store: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            reads: 0,
            reads_max: 0,
            received: Vec::new(),
            sent: Vec::new(),
            dropped: Vec::new(),
            searches: 0,
            block_bytes,
            events: BTreeMap::new(),
            next: 0,
            woken_at: None,
        }
    }

    /// Connects a peer that has these blocks.
    pub fn connect(
        &mut self,
        id: u64,
        behaviour: FakeBehaviour,
        holds: impl IntoIterator<Item = u8>,
    ) {
        self.connect_at(id, behaviour, holds, 4000, 10 * MILLI);
    }

    pub fn connect_at(
        &mut self,
        id: u64,
        behaviour: FakeBehaviour,
        holds: impl IntoIterator<Item = u8>,
        rate: u64,
        delay: u64,
    ) {
        let (holds, wanted) = (holds.into_iter().collect(), VecDeque::new());
        let (is_sending, unsent, free_at) = (false, 0, 0);
        let peer = Peer { behaviour, holds, rate, delay, wanted, is_sending, unsent, free_at };
        self.peers.insert(id, peer);
        self.handle_input(Input::Connected(id));
        self.handle_input(Input::Writable(id, SEND_BUFFER_BYTES));
    }

    pub fn leave(&mut self, id: u64) {
        self.peers.remove(&id);
        self.handle_input(Input::Disconnected(id));
    }

    /// Returns the block that a peer sends next.
    pub fn next_from(&self, id: u64) -> Option<u8> {
        self.peers.get(&id)?.wanted.front().copied()
    }

    pub fn want(&mut self, blocks: impl IntoIterator<Item = u8>) {
        let len = u32::try_from(self.block_bytes).ok();
        self.handle_input(Input::Want(blocks.into_iter().map(|block| (block, len, 0)).collect()));
    }

    pub fn store_blocks(&mut self, blocks: impl IntoIterator<Item = u8>) {
        self.store.extend(blocks.into_iter().map(|block| (block, self.block_bytes)));
    }

    /// A peer sends a message now.
    pub fn send_from(&mut self, id: u64, message: Message<FakeBlock>) {
        self.handle_input(Input::Received(id, message));
    }

    /// A peer wants blocks of the exchange now.
    pub fn peer_wants(&mut self, id: u64, kind: WantKind, blocks: impl IntoIterator<Item = u8>) {
        let wants = blocks.into_iter().zip((1..=i32::MAX - 64).rev());
        let wants = wants.map(|(block, priority)| want(block, priority, kind)).collect();
        self.send_from(id, Message { wants, ..Message::default() });
    }

    /// Runs for this number of nanoseconds.
    pub fn run(&mut self, nanos: u64) {
        self.run_until(nanos, |_| false);
    }

    pub fn run_until(&mut self, nanos: u64, is_enough: impl Fn(&FakeSwarm) -> bool) {
        let end = self.now + nanos;
        while !is_enough(self) {
            let next = self.events.first_entry().filter(|next| next.key().0 <= end);
            let Some(next) = next else {
                self.now = end;
                return;
            };
            self.now = next.key().0;
            let event = next.remove();
            self.handle_event(event);
        }
    }

    pub fn handle_input(&mut self, input: Input) {
        self.reads -= usize::from(matches!(input, Input::Read(..)));
        let outputs = self.record.handle_input(Instant::from_nanos(self.now), input);
        for output in outputs {
            self.carry_out(output);
        }
        let wake = self.record.exchange.next_wake().map(Instant::as_nanos);
        if let Some(at) = wake
            && self.woken_at.is_none_or(|before| at < before)
        {
            self.woken_at = Some(at);
            self.schedule(at.max(self.now), Event::Wake);
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.events.insert((at, self.next), event);
        self.next += 1;
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Input(Input::Received(peer, message)) => {
                if self.peers.contains_key(&peer) {
                    self.handle_input(Input::Received(peer, message));
                }
            }
            Event::Input(input) => self.handle_input(input),
            Event::Left(id, bytes) => {
                let Some(peer) = self.peers.get_mut(&id) else { return };
                peer.unsent -= bytes;
                let room = SEND_BUFFER_BYTES.saturating_sub(peer.unsent);
                self.handle_input(Input::Writable(id, room));
            }
            Event::NextBlock(id) => self.send_next(id),
            Event::Wake => {
                let due = self.record.exchange.next_wake().map(Instant::as_nanos);
                self.woken_at = None;
                if due.is_some_and(|due| due <= self.now) {
                    self.handle_input(Input::Tick);
                } else if let Some(due) = due {
                    self.woken_at = Some(due);
                    self.schedule(due, Event::Wake);
                }
            }
        }
    }

    fn carry_out(&mut self, output: FakeOutput) {
        match output {
            Output::Send { peer, message } => self.send(peer, message),
            Output::Lookup { cid } => {
                let block = number(&cid);
                let len = self.store.get(&block).copied();
                self.schedule(self.now, Event::Input(Input::LookupResult(block, len)));
            }
            Output::Read { peer, cid } => {
                let block = number(&cid);
                let is_readable = !self.unreadable.contains(&block);
                let len = self.store.get(&block).copied().filter(|_| is_readable);
                let read = len.map(|len| FakeBlock::new(block, len));
                self.reads += 1;
                self.reads_max = self.reads_max.max(self.reads);
                self.schedule(self.now + MILLI, Event::Input(Input::Read(peer, block, read)));
            }
            Output::BlockReceived { block, from, .. } => {
                self.received.push((self.now, block.number, from));
                self.store.insert(block.number, block.len);
                self.schedule(self.now, Event::Input(Input::Stored(block.number, block.len)));
            }
            Output::FindProviders { .. } => {
                self.searches += 1;
                self.schedule(self.now + 100 * MILLI, Event::Input(Input::Providers(Vec::new())));
            }
            Output::DropPeer { peer, reason } => {
                self.peers.remove(&peer);
                self.dropped.push((peer, reason));
            }
            Output::ListLinks { .. } => panic!("no peer speaks the leaves protocol"),
            Output::Answered { .. } => panic!("no node asks a question"),
        }
    }

    /// Sends a message to a peer, which answers when it has arrived.
    fn send(&mut self, id: u64, message: Message<FakeBlock>) {
        self.sent.push((id, message.clone()));
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let bytes = message.encoded_len(watchfire_bitswap::Protocol::V1_2);
        let free_at = peer.free_at.max(self.now) + bytes as u64 * MILLI / peer.rate / 1000 * 1000;
        (peer.free_at, peer.unsent) = (free_at, peer.unsent + bytes);
        self.schedule(free_at, Event::Left(id, bytes));
        self.answer(id, &message.wants);
    }

    fn answer(&mut self, id: u64, wants: &[WantEntry]) {
        let (Some(peer), now) = (self.peers.get_mut(&id), self.now) else { return };
        if peer.behaviour == FakeBehaviour::Silent {
            return;
        }
        let mut presences = Vec::new();
        let mut urgent = 0;
        for want in wants {
            let block = number(&want.cid);
            let (cid, has_block) = (want.cid.clone(), peer.holds.contains(&block));
            peer.wanted.retain(|other| !(want.cancel && *other == block));
            if want.cancel {
                continue;
            }
            if has_block && want.kind == WantKind::Block {
                let is_queued = peer.wanted.contains(&block);
                if !is_queued {
                    peer.wanted.push_back(block);
                } else if want.priority > URGENT_ABOVE {
                    peer.wanted.retain(|other| *other != block);
                    peer.wanted.insert(urgent, block);
                    urgent += 1;
                }
            } else if has_block || want.send_dont_have {
                presences.push(Presence { cid, has_block });
            }
        }
        let (delay, begins) =
            (peer.delay, !peer.is_sending && peer.behaviour != FakeBehaviour::Withholding);
        if !presences.is_empty() {
            let message = Message { presences, ..Message::default() };
            self.schedule(now + 2 * delay, Event::Input(Input::Received(id, message)));
        }
        if begins {
            self.schedule(now + delay, Event::NextBlock(id));
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.is_sending = true;
            }
        }
    }

    fn send_next(&mut self, id: u64) {
        let (len, now) = (self.block_bytes, self.now);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.is_sending = false;
        let Some(block) = peer.wanted.pop_front() else { return };
        peer.is_sending = true;
        let left_at = now + len as u64 * MILLI / peer.rate / 1000 * 1000;
        let sent = if peer.behaviour == FakeBehaviour::Forging { 255 - block } else { block };
        let message = Message { blocks: vec![FakeBlock::new(sent, len)], ..Message::default() };
        let arrives_at = left_at + peer.delay;
        self.schedule(arrives_at, Event::Input(Input::Received(id, message)));
        self.schedule(left_at, Event::NextBlock(id));
    }
}

pub fn want(block: u8, priority: i32, kind: WantKind) -> WantEntry {
    WantEntry { cid: cid(block), priority, cancel: false, kind, send_dont_have: true }
}

pub fn cancel(block: u8) -> WantEntry {
    WantEntry { cancel: true, ..want(block, 0, WantKind::Block) }
}

pub fn presence(block: u8, has_block: bool) -> Presence {
    Presence { cid: cid(block), has_block }
}
