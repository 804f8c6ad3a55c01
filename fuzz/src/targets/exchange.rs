//! An exchange, inputs in any order, and the invariants that hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watchfire_bitswap::{
    Exchange, Limits, Message, Output, Payload, Presence, Protocol, SessionId, Want, WantEntry,
    WantKind,
};
use watchfire_content::{Cid, Codec, Multihash};
use watchfire_types::Instant;

/// Few peers, blocks and sessions, so that they interact often.
const BLOCKS: u8 = 24;
const PEERS: u8 = 4;
const SESSIONS: usize = 3;
const STEPS_MAX: usize = 500;

/// A block that is only a CID and a length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FakeBlock(Cid, usize);

impl Payload for FakeBlock {
    fn cid(&self) -> &Cid {
        &self.0
    }

    fn len(&self) -> usize {
        self.1
    }
}

/// The CID of the block with a number, which also decides its [`len`].
fn cid(block: u8) -> Cid {
    let mut digest = [7; 32];
    digest[0] = block;
    Cid::v1(Codec::RAW, Multihash::Sha2_256(digest))
}

/// From blocks that are sent inline to blocks longer than a message should be.
fn len(block: u8) -> usize {
    1 + usize::from(block) * 61
}

fn fake_block(block: u8) -> FakeBlock {
    FakeBlock(cid(block), len(block))
}

fn number(cid: &Cid) -> u8 {
    cid.hash().digest()[0]
}

fn limits() -> Limits {
    Limits {
        wants_per_peer_max: 8,
        sent_wants_per_peer_max: 6,
        reading_bytes_max: 4000,
        message_bytes_max: 1000,
        inline_block_bytes_max: 100,
        window_bytes_min: 500,
        window_bytes_max: 5000,
        requested_bytes_max: 8000,
        block_bytes_estimate: 300,
        ..Limits::default()
    }
}

/// The bytes that decide the steps; zeros after their end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number below `end`.
    fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    /// Up to `most` items, each of which takes one byte or more.
    fn list<T>(&mut self, most: u8, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| item(self)).collect()
    }

    fn blocks(&mut self, most: u8) -> Vec<u8> {
        self.list(most, |input| input.below(BLOCKS))
    }

    /// Takes an item out of a list.
    fn take<T>(&mut self, items: &mut Vec<T>) -> Option<T> {
        let place = usize::from(self.byte());
        (!items.is_empty()).then(|| items.swap_remove(place % items.len()))
    }
}

/// An exchange keeps its promises to its driver for inputs in any order. The first byte is its seed.
pub fn bitswap_exchange(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut network = FakeNetwork::new(input.byte());
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        network.step(&mut input);
        network.drain();
        network.check();
    }
    network.end();
}

/// An exchange, and the state that it must have after the steps so far.
struct FakeNetwork {
    exchange: Exchange<u8, FakeBlock>,
    now: Instant,
    /// The protocol of each connected peer, and the room in its send buffer.
    peers: BTreeMap<u8, (Protocol, usize)>,
    sessions: Vec<SessionId>,
    wanted: BTreeMap<u8, BTreeSet<SessionId>>,
    store: BTreeSet<u8>,
    lookups: Vec<Cid>,
    reads: Vec<(u8, Cid)>,
    searches: Vec<SessionId>,
    received: u64,
    useful: u64,
    sent: (u64, u64),
}

impl FakeNetwork {
    /// A network with one session, and one peer that takes bytes.
    fn new(seed: u8) -> Self {
        let (mut exchange, now) = (Exchange::new(limits(), seed.into()), Instant::ZERO);
        let sessions = vec![exchange.start_session(now)];
        exchange.handle_connected(now, 0, Protocol::V1_2);
        exchange.handle_writable(now, 0, 5000);
        FakeNetwork {
            exchange,
            now,
            peers: [(0, (Protocol::V1_2, 5000))].into(),
            sessions,
            wanted: BTreeMap::new(),
            store: BTreeSet::new(),
            lookups: Vec::new(),
            reads: Vec::new(),
            searches: Vec::new(),
            received: 0,
            useful: 0,
            sent: (0, 0),
        }
    }

    /// Gives the exchange one input. The frequent ones have several numbers.
    fn step(&mut self, input: &mut Input<'_>) {
        let now = self.now;
        match input.below(20) {
            0 => self.connect(input.below(PEERS), input.byte()),
            1 => match input.below(4) {
                0 => self.disconnect(input.below(PEERS)),
                1 => self.exchange.handle_partial_message(now, input.below(PEERS)),
                2 if self.sessions.len() < SESSIONS => {
                    self.sessions.push(self.exchange.start_session(now));
                }
                _ => {
                    if let Some(session) = input.take(&mut self.sessions) {
                        self.stop(session);
                    }
                }
            },
            2 | 3 => self.want(input),
            4 => self.cancel_wants(input),
            5..8 => self.receive(input),
            8..11 => {
                let (peer, room) = (input.below(PEERS), usize::from(input.byte()) * 24);
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.1 = room;
                }
                self.exchange.handle_writable(now, peer, room);
            }
            11 => self.store_block(input.below(BLOCKS)),
            12..15 => {
                if let Some(cid) = input.take(&mut self.lookups) {
                    let block = number(&cid);
                    let found = self.store.contains(&block).then(|| len(block));
                    self.exchange.handle_lookup(now, &cid, found);
                }
            }
            15..18 => {
                let is_readable = input.below(10) > 0;
                if let Some((peer, cid)) = input.take(&mut self.reads) {
                    let block = is_readable.then(|| fake_block(number(&cid)));
                    self.exchange.handle_read(now, peer, &cid, block);
                }
            }
            18 => {
                let named = input.byte();
                if let Some(session) = input.take(&mut self.searches) {
                    let peers = (0..PEERS).filter(|peer| named & (1 << peer) != 0);
                    self.exchange.handle_providers(now, session, &peers.collect::<Vec<_>>());
                }
            }
            _ => self.wait(Duration::from_millis(u64::from(input.byte()).pow(2))),
        }
    }

    fn connect(&mut self, peer: u8, protocol: u8) {
        let protocol = match protocol % 8 {
            0 => Protocol::V1_0,
            1 => Protocol::V1_1,
            _ => Protocol::V1_2,
        };
        self.peers.insert(peer, (protocol, 0));
        self.exchange.handle_connected(self.now, peer, protocol);
    }

    fn disconnect(&mut self, peer: u8) {
        self.peers.remove(&peer);
        self.exchange.handle_disconnected(self.now, peer);
    }

    fn stop(&mut self, session: SessionId) {
        self.exchange.stop_session(self.now, session);
        self.wanted.retain(|_, sessions| {
            sessions.remove(&session);
            !sessions.is_empty()
        });
        self.searches.retain(|other| *other != session);
    }

    fn session(&self, input: &mut Input<'_>) -> Option<SessionId> {
        let place = usize::from(input.byte());
        (!self.sessions.is_empty()).then(|| self.sessions[place % self.sessions.len()])
    }

    fn want(&mut self, input: &mut Input<'_>) {
        let (session, blocks) = (self.session(input), input.blocks(9));
        let Some(session) = session else { return };
        // Blocks in the store must not be wanted.
        let blocks: BTreeSet<u8> = blocks.into_iter().collect();
        let blocks: Vec<u8> = blocks.difference(&self.store).copied().collect();
        for block in &blocks {
            self.wanted.entry(*block).or_default().insert(session);
        }
        let want = |block: &u8| Want {
            len: block.is_multiple_of(2).then(|| len(*block) as u32),
            urgency: u8::from(block.is_multiple_of(5)),
            cid: cid(*block),
        };
        self.exchange.want(self.now, session, blocks.iter().map(want));
    }

    fn cancel_wants(&mut self, input: &mut Input<'_>) {
        let (session, blocks) = (self.session(input), input.blocks(9));
        let Some(session) = session else { return };
        for block in &blocks {
            if let Some(sessions) = self.wanted.get_mut(block) {
                sessions.remove(&session);
                if sessions.is_empty() {
                    self.wanted.remove(block);
                }
            }
        }
        let cids: Vec<Cid> = blocks.into_iter().map(cid).collect();
        self.exchange.cancel_wants(self.now, session, &cids);
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        let peer = input.below(PEERS);
        let wants = input.list(11, |input| {
            let (block, flags) = (input.below(BLOCKS), input.byte());
            WantEntry {
                cid: cid(block),
                priority: i32::from(flags as i8) << 24,
                cancel: flags & 0b111 == 0,
                kind: if flags & 0b1000 == 0 { WantKind::Have } else { WantKind::Block },
                send_dont_have: flags & 0b1_0000 == 0,
            }
        });
        let wanted = input.blocks(2);
        // Rarely with a block that was never wanted, or as a full wantlist.
        let rare = input.below(32);
        let forged = (rare == 0).then(|| FakeBlock(cid(200), 50));
        let presences = input.list(7, |input| {
            let byte = input.byte();
            Presence { cid: cid(byte % BLOCKS), has_block: byte < 200 }
        });
        let message = Message {
            full: rare == 1,
            wants,
            blocks: wanted.iter().copied().map(fake_block).chain(forged).collect(),
            presences,
            ..Message::default()
        };
        let received = message.blocks.len() as u64;
        let is_connected = self.peers.contains_key(&peer);
        self.exchange.handle_message(self.now, peer, message);
        self.drain();
        if is_connected {
            self.received += received;
            // No verified and wanted block is lost.
            let lost = wanted.iter().find(|block| self.wanted.contains_key(block));
            assert_eq!(lost, None, "it arrived and is lost");
        }
    }

    fn store_block(&mut self, block: u8) {
        if self.store.insert(block) {
            self.exchange.handle_stored(self.now, &cid(block), len(block));
        }
        // A driver that stores a block cancels its wants.
        for session in self.wanted.remove(&block).unwrap_or_default() {
            self.exchange.cancel_wants(self.now, session, [&cid(block)]);
        }
    }

    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        for wakes in 0.. {
            let Some(at) = self.exchange.next_wake().filter(|at| *at <= until) else { break };
            assert!(wakes < 10_000, "the timers never end");
            self.now = self.now.max(at);
            self.exchange.handle_tick(self.now);
            self.drain();
        }
        self.now = until;
    }

    fn drain(&mut self) {
        for count in 0.. {
            let Some(output) = self.exchange.poll_output() else { break };
            assert!(count < 10_000, "the outputs never end");
            match output {
                Output::Send { peer, message } => self.check_sent(peer, &message),
                Output::Lookup { cid } => self.lookups.push(cid),
                Output::ListLinks { node } => self.exchange.handle_links(self.now, &node, None),
                Output::Read { peer, cid } => {
                    assert!(self.peers.contains_key(&peer), "a read for an unconnected peer");
                    self.reads.push((peer, cid));
                }
                Output::BlockReceived { sessions, block, from } => {
                    self.receive_block(&sessions, &block, from);
                }
                Output::FindProviders { session, cid } => {
                    let wanted = self.wanted.get(&number(&cid));
                    assert!(wanted.is_some_and(|sessions| sessions.contains(&session)));
                    assert!(!self.searches.contains(&session), "two searches at a time");
                    self.searches.push(session);
                }
                Output::Answered { .. } => {}
                Output::DropPeer { peer, .. } => {
                    assert!(self.peers.remove(&peer).is_some(), "it dropped an unconnected peer");
                }
            }
        }
    }

    fn check_sent(&mut self, peer: u8, message: &Message<FakeBlock>) {
        let (protocol, room) = self.peers.get_mut(&peer).expect("the receiver is connected");
        assert!(*room > 0, "the send buffer has no room");
        assert!(!message.is_empty() || message.pending_bytes > 0, "an empty message");
        let len = message.encoded_len(*protocol);
        // Any room is enough for one want or presence, including its framing.
        assert!(message.blocks.len() == 1 || len <= *room + 200, "{len} bytes into {room}");
        *room = room.saturating_sub(len);
        let has_presences = protocol.has_presences() || message.presences.is_empty();
        assert!(has_presences, "presences for an older protocol");
        let bytes: usize = message.blocks.iter().map(Payload::len).sum();
        assert!(message.blocks.len() <= 1 || bytes <= limits().message_bytes_max);
        assert!(message.blocks.iter().all(|block| self.store.contains(&number(&block.0))));
        self.sent.0 += message.blocks.len() as u64;
        self.sent.1 += bytes as u64;
    }

    fn receive_block(&mut self, sessions: &[SessionId], block: &FakeBlock, from: u8) {
        assert!(from < PEERS, "an unknown sender");
        let wanted =
            self.wanted.remove(&number(&block.0)).expect("it was wanted, and arrived once");
        assert_eq!(sessions.iter().copied().collect::<BTreeSet<_>>(), wanted);
        self.useful += 1;
        self.store.insert(number(&block.0));
        self.exchange.handle_stored(self.now, &block.0, block.1);
    }

    /// Checks the state of the exchange, and its limits.
    fn check(&self) {
        let limits = limits();
        assert!(self.exchange.peers().eq(self.peers.keys().copied()));
        for peer in self.peers.keys() {
            let peer = self.exchange.peer(*peer).expect("a connected peer is known");
            assert!(peer.wants <= limits.wants_per_peer_max, "{} wants", peer.wants);
            let requests = peer.requested_blocks;
            assert!(requests <= limits.sent_wants_per_peer_max, "{requests} requests");
        }
        let reading: usize = self.reads.iter().map(|(_, cid)| len(number(cid))).sum();
        let is_one = self.reads.len() == 1;
        assert!(reading <= limits.reading_bytes_max || is_one, "it reads {reading} bytes at once");
        for session in &self.sessions {
            let wanted = self.wanted.values().filter(|sessions| sessions.contains(session));
            assert_eq!(self.exchange.missing(*session), wanted.count());
        }
        let totals = self.exchange.totals();
        assert_eq!(totals.blocks_in, self.useful);
        let received = totals.blocks_in + totals.duplicate_blocks + totals.unsolicited_blocks;
        assert_eq!(received, self.received);
        assert_eq!((totals.blocks_out, totals.bytes_out), self.sent);
    }

    /// Without peers and sessions, no timer runs.
    fn end(mut self) {
        while let Some(session) = self.sessions.pop() {
            self.stop(session);
        }
        for peer in 0..PEERS {
            self.disconnect(peer);
            self.drain();
            self.check();
        }
        self.wait(Duration::from_secs(65));
        assert_eq!(self.exchange.next_wake(), None, "a timer runs");
        assert_eq!(self.exchange.peers().count(), 0);
    }
}
