//! One exchange, and pretend peers around it, on a pretend clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use serde_json::{Value, json};
use watchfire_bitswap::{Limits, Message, Misbehaviour, Output, Presence, WantEntry, WantKind};
use watchfire_types::Instant;

use super::record::{FakeBlock, Input, Record, Sent, cid, number};

pub const MILLI: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MILLI;

/// Bytes that a pipe takes before it has no room.
const PIPE_BYTES: usize = 2 << 20;

/// How a peer behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeBehaviour {
    Honest,
    /// Takes everything, says nothing.
    Silent,
    /// Says that it has what it has, and never sends it.
    Withholding,
    /// Sends other bytes than it was asked for.
    Forging,
}

/// A peer that holds something.
pub struct Peer {
    pub behaviour: FakeBehaviour,
    pub holds: BTreeSet<u8>,
    /// Bytes a millisecond that it sends, and that reach it.
    pub rate: u64,
    /// How long everything takes on its way, in nanoseconds.
    pub delay: u64,
    wanted: VecDeque<u8>,
    is_sending: bool,
    /// Bytes on their way to it, and when all of them have left us.
    unsent: usize,
    free_at: u64,
}

enum Event {
    Input(Input),
    /// So many bytes of ours have left for this peer.
    Left(u64, usize),
    /// A peer sends its next block.
    Next(u64),
    Wake,
}

pub struct FakeSwarm {
    pub now: u64,
    pub record: Record,
    pub peers: BTreeMap<u64, Peer>,
    /// What we hold, and how long it is.
    pub store: BTreeMap<u8, usize>,
    /// Blocks that cannot be read though they are there.
    pub unreadable: BTreeSet<u8>,
    /// Blocks that the store is reading, and the most that it ever read at a time.
    pub reads: usize,
    pub reads_most: usize,
    pub got: Vec<(u64, u8, u64)>,
    pub sent: Vec<(u64, Message<FakeBlock>)>,
    pub dropped: Vec<(u64, Misbehaviour)>,
    pub searches: usize,
    /// Bytes of every block.
    pub block_bytes: usize,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    happens: BTreeMap<u64, Event>,
    next: u64,
    woken_at: Option<u64>,
}

impl FakeSwarm {
    pub fn new(block_bytes: usize) -> Self {
        FakeSwarm::limited(block_bytes, Limits::default(), json!({}))
    }

    pub fn limited(block_bytes: usize, limits: Limits, named: Value) -> Self {
        FakeSwarm {
            now: 0,
            record: Record::new(7, limits, named),
            peers: BTreeMap::new(),
            store: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            reads: 0,
            reads_most: 0,
            got: Vec::new(),
            sent: Vec::new(),
            dropped: Vec::new(),
            searches: 0,
            block_bytes,
            events: BinaryHeap::new(),
            happens: BTreeMap::new(),
            next: 0,
            woken_at: None,
        }
    }

    /// A peer comes, and is told what it holds already.
    pub fn connect(
        &mut self,
        name: u64,
        behaviour: FakeBehaviour,
        holds: impl IntoIterator<Item = u8>,
    ) {
        self.connect_at(name, behaviour, holds, 4000, 10 * MILLI);
    }

    pub fn connect_at(
        &mut self,
        name: u64,
        behaviour: FakeBehaviour,
        holds: impl IntoIterator<Item = u8>,
        rate: u64,
        delay: u64,
    ) {
        let (holds, wanted) = (holds.into_iter().collect(), VecDeque::new());
        let (is_sending, unsent, free_at) = (false, 0, 0);
        let peer = Peer { behaviour, holds, rate, delay, wanted, is_sending, unsent, free_at };
        self.peers.insert(name, peer);
        self.handle_input(Input::Connected(name));
        self.handle_input(Input::Writable(name, PIPE_BYTES));
    }

    pub fn leave(&mut self, name: u64) {
        self.peers.remove(&name);
        self.handle_input(Input::Disconnected(name));
    }

    pub fn want(&mut self, blocks: impl IntoIterator<Item = u8>) {
        let len = u32::try_from(self.block_bytes).ok();
        self.handle_input(Input::Want(blocks.into_iter().map(|block| (block, len, 0)).collect()));
    }

    pub fn hold(&mut self, blocks: impl IntoIterator<Item = u8>) {
        self.store.extend(blocks.into_iter().map(|block| (block, self.block_bytes)));
    }

    /// A peer says something, now.
    pub fn send_from(&mut self, name: u64, message: Message<FakeBlock>) {
        self.handle_input(Input::Received(name, message));
    }

    /// A peer wants blocks of us, now.
    pub fn peer_wants(&mut self, name: u64, kind: WantKind, blocks: impl IntoIterator<Item = u8>) {
        let wants = blocks.into_iter().zip((1..=i32::MAX - 64).rev());
        let wants = wants.map(|(block, priority)| want(block, priority, kind)).collect();
        self.send_from(name, Message { wants, ..Message::default() });
    }

    /// Lets things happen for so long, or until nothing does.
    pub fn run(&mut self, nanos: u64) {
        self.run_until(nanos, |_| false);
    }

    pub fn run_until(&mut self, nanos: u64, is_enough: impl Fn(&FakeSwarm) -> bool) {
        let end = self.now + nanos;
        while !is_enough(self) {
            let Some(&Reverse((at, event))) = self.events.peek().filter(|next| next.0.0 <= end)
            else {
                self.now = end;
                return;
            };
            self.events.pop();
            self.now = at;
            if let Some(event) = self.happens.remove(&event) {
                self.happen(event);
            }
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
            self.at(at.max(self.now), Event::Wake);
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, self.next)));
        self.happens.insert(self.next, event);
        self.next += 1;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Input(Input::Received(peer, message)) => {
                if self.peers.contains_key(&peer) {
                    self.handle_input(Input::Received(peer, message));
                }
            }
            Event::Input(input) => self.handle_input(input),
            Event::Left(name, bytes) => {
                let Some(peer) = self.peers.get_mut(&name) else { return };
                peer.unsent -= bytes;
                let room = PIPE_BYTES.saturating_sub(peer.unsent);
                self.handle_input(Input::Writable(name, room));
            }
            Event::Next(name) => self.send_next(name),
            Event::Wake => {
                let due = self.record.exchange.next_wake().map(Instant::as_nanos);
                self.woken_at = None;
                if due.is_some_and(|due| due <= self.now) {
                    self.handle_input(Input::Tick);
                } else if let Some(due) = due {
                    self.woken_at = Some(due);
                    self.at(due, Event::Wake);
                }
            }
        }
    }

    fn carry_out(&mut self, output: Sent) {
        match output {
            Output::Send { peer, message } => self.send(peer, message),
            Output::Lookup { cid } => {
                let block = number(&cid);
                let len = self.store.get(&block).copied();
                self.at(self.now, Event::Input(Input::Found(block, len)));
            }
            Output::Read { peer, cid } => {
                let block = number(&cid);
                let is_readable = !self.unreadable.contains(&block);
                let len = self.store.get(&block).copied().filter(|_| is_readable);
                let read = len.map(|len| FakeBlock::new(block, len));
                self.reads += 1;
                self.reads_most = self.reads_most.max(self.reads);
                self.at(self.now + MILLI, Event::Input(Input::Read(peer, block, read)));
            }
            Output::BlockReceived { block, from, .. } => {
                self.got.push((self.now, block.number, from));
                self.store.insert(block.number, block.len);
                self.at(self.now, Event::Input(Input::Have(block.number, block.len)));
            }
            Output::FindProviders { .. } => {
                self.searches += 1;
                self.at(self.now + 100 * MILLI, Event::Input(Input::Providers(Vec::new())));
            }
            Output::DropPeer { peer, reason } => {
                self.peers.remove(&peer);
                self.dropped.push((peer, reason));
            }
            Output::ListLinks { .. } => panic!("nobody speaks of lists"),
        }
    }

    /// Something of ours goes to a peer, who answers when it arrived.
    fn send(&mut self, name: u64, message: Message<FakeBlock>) {
        self.sent.push((name, message.clone()));
        let Some(peer) = self.peers.get_mut(&name) else { return };
        let bytes = message.encoded_len(watchfire_bitswap::Protocol::V1_2);
        let free_at = peer.free_at.max(self.now) + bytes as u64 * MILLI / peer.rate / 1000 * 1000;
        (peer.free_at, peer.unsent) = (free_at, peer.unsent + bytes);
        self.at(free_at, Event::Left(name, bytes));
        self.answer(name, &message.wants);
    }

    fn answer(&mut self, name: u64, wants: &[WantEntry]) {
        let (Some(peer), now) = (self.peers.get_mut(&name), self.now) else { return };
        if peer.behaviour == FakeBehaviour::Silent {
            return;
        }
        let mut presences = Vec::new();
        for want in wants {
            let block = number(&want.cid);
            let (cid, is_here) = (want.cid.clone(), peer.holds.contains(&block));
            peer.wanted.retain(|other| !(want.cancel && *other == block));
            if want.cancel {
                continue;
            }
            if is_here && want.kind == WantKind::Block {
                peer.wanted.push_back(block);
            } else if is_here || want.send_dont_have {
                presences.push(Presence { cid, is_here });
            }
        }
        let (delay, begins) =
            (peer.delay, !peer.is_sending && peer.behaviour != FakeBehaviour::Withholding);
        if !presences.is_empty() {
            let message = Message { presences, ..Message::default() };
            self.at(now + 2 * delay, Event::Input(Input::Received(name, message)));
        }
        if begins {
            self.at(now + delay, Event::Next(name));
            if let Some(peer) = self.peers.get_mut(&name) {
                peer.is_sending = true;
            }
        }
    }

    fn send_next(&mut self, name: u64) {
        let (len, now) = (self.block_bytes, self.now);
        let Some(peer) = self.peers.get_mut(&name) else { return };
        peer.is_sending = false;
        let Some(block) = peer.wanted.pop_front() else { return };
        peer.is_sending = true;
        let left_at = now + len as u64 * MILLI / peer.rate / 1000 * 1000;
        let sent = if peer.behaviour == FakeBehaviour::Forging { 255 - block } else { block };
        let message = Message { blocks: vec![FakeBlock::new(sent, len)], ..Message::default() };
        let arrives_at = left_at + peer.delay;
        self.at(arrives_at, Event::Input(Input::Received(name, message)));
        self.at(left_at, Event::Next(name));
    }
}

pub fn want(block: u8, priority: i32, kind: WantKind) -> WantEntry {
    WantEntry { cid: cid(block), priority, cancel: false, kind, send_dont_have: true }
}

pub fn cancel(block: u8) -> WantEntry {
    WantEntry { cancel: true, ..want(block, 0, WantKind::Block) }
}

pub fn here(block: u8, is_here: bool) -> Presence {
    Presence { cid: cid(block), is_here }
}
