//! Steps of an exchange in any order, and the invariants that hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watchfire_bitswap::{
    Exchange, Limits, Message, Output, Payload, Presence, Protocol, SessionId, Want, WantEntry,
    WantKind,
};
use watchfire_content::{Cid, Codec, Multihash};
use watchfire_types::Instant;

/// A block with a number, which decides its [`cid`] and [`len`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeBlock(Cid, usize);

impl Payload for FakeBlock {
    fn cid(&self) -> &Cid {
        &self.0
    }

    fn len(&self) -> usize {
        self.1
    }
}

/// Few peers, blocks and sessions, so that they interact often.
pub const BLOCKS: u8 = 24;
pub const PEERS: u8 = 4;
const SESSIONS: usize = 3;

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

#[derive(Clone, Debug, Default)]
pub struct FakeMessage {
    pub is_full: bool,
    pub wants: Vec<FakeWant>,
    pub blocks: Vec<u8>,
    /// How many blocks it has that were never wanted.
    pub forged: u8,
    pub presences: Vec<(u8, bool)>,
}

#[derive(Clone, Copy, Debug)]
pub struct FakeWant {
    pub block: u8,
    pub priority: i32,
    pub is_cancel: bool,
    pub is_have: bool,
    pub send_dont_have: bool,
}

/// An input or an answer. Peers, sessions and places may be any numbers.
#[derive(Clone, Debug)]
pub enum Step {
    Connect(u8, u8),
    Disconnect(u8),
    Start,
    Stop(u8),
    Want(u8, Vec<u8>),
    CancelWants(u8, Vec<u8>),
    Receive(u8, FakeMessage),
    PartialMessage(u8),
    Writable(u8, u16),
    Stored(u8),
    LookupResult(u8),
    Read(u8, bool),
    Providers(u8, u8),
    Wait(u16),
}

/// An exchange, and the state that it must have after the steps so far.
pub struct FakeNetwork {
    exchange: Exchange<u8, FakeBlock>,
    now: Instant,
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
    pub fn new(seed: u64) -> Self {
        FakeNetwork {
            exchange: Exchange::new(limits(), seed),
            now: Instant::ZERO,
            peers: BTreeMap::new(),
            sessions: Vec::new(),
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

    /// Carries out a step, and checks the invariants.
    pub fn apply(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Connect(peer, protocol) => self.connect(peer % PEERS, *protocol),
            Step::Disconnect(peer) => {
                let peer = peer % PEERS;
                self.peers.remove(&peer);
                self.exchange.handle_disconnected(now, peer);
            }
            Step::Start if self.sessions.len() < SESSIONS => {
                self.sessions.push(self.exchange.start_session(now));
            }
            Step::Start => {}
            Step::Stop(session) => {
                if !self.sessions.is_empty() {
                    let at = usize::from(*session) % self.sessions.len();
                    self.stop(at);
                }
            }
            Step::Want(session, blocks) => self.want(*session, blocks),
            Step::CancelWants(session, blocks) => self.cancel_wants(*session, blocks),
            Step::Receive(peer, message) => self.receive(peer % PEERS, message),
            Step::PartialMessage(peer) => self.exchange.handle_partial_message(now, peer % PEERS),
            Step::Writable(peer, room) => {
                let (peer, room) = (peer % PEERS, usize::from(*room));
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.1 = room;
                }
                self.exchange.handle_writable(now, peer, room);
            }
            Step::Stored(block) => self.store_block(block % BLOCKS),
            Step::LookupResult(place) => {
                if !self.lookups.is_empty() {
                    let cid = self.lookups.swap_remove(usize::from(*place) % self.lookups.len());
                    let block = number(&cid);
                    let found = self.store.contains(&block).then(|| len(block));
                    self.exchange.handle_lookup(now, &cid, found);
                }
            }
            Step::Read(place, is_readable) => {
                if !self.reads.is_empty() {
                    let place = usize::from(*place) % self.reads.len();
                    let (peer, cid) = self.reads.swap_remove(place);
                    let block = is_readable.then(|| fake_block(number(&cid)));
                    self.exchange.handle_read(now, peer, &cid, block);
                }
            }
            Step::Providers(place, peers) => {
                if !self.searches.is_empty() {
                    let place = usize::from(*place) % self.searches.len();
                    let session = self.searches.swap_remove(place);
                    let is_named = |peer: &u8| peers & (1 << peer) != 0;
                    let peers: Vec<u8> = (0..PEERS).filter(is_named).collect();
                    self.exchange.handle_providers(now, session, &peers);
                }
            }
            Step::Wait(millis) => self.wait(*millis),
        }
        self.drain();
        self.check();
    }

    fn connect(&mut self, peer: u8, protocol: u8) {
        let protocol = [Protocol::V1_2, Protocol::V1_1, Protocol::V1_0][usize::from(protocol % 3)];
        self.peers.insert(peer, (protocol, 0));
        self.exchange.handle_connected(self.now, peer, protocol);
    }

    fn stop(&mut self, at: usize) {
        let session = self.sessions.swap_remove(at);
        self.exchange.stop_session(self.now, session);
        self.wanted.retain(|_, sessions| {
            sessions.remove(&session);
            !sessions.is_empty()
        });
        self.searches.retain(|other| *other != session);
    }

    fn session(&self, at: u8) -> Option<SessionId> {
        let count = self.sessions.len();
        (count > 0).then(|| self.sessions[usize::from(at) % count])
    }

    fn want(&mut self, session: u8, blocks: &[u8]) {
        let Some(session) = self.session(session) else { return };
        // Blocks in the store must not be wanted.
        let blocks: BTreeSet<u8> = blocks.iter().map(|block| block % BLOCKS).collect();
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

    fn cancel_wants(&mut self, session: u8, blocks: &[u8]) {
        let Some(session) = self.session(session) else { return };
        let cids: Vec<Cid> = blocks.iter().map(|block| cid(block % BLOCKS)).collect();
        for cid in &cids {
            if let Some(sessions) = self.wanted.get_mut(&number(cid)) {
                sessions.remove(&session);
                if sessions.is_empty() {
                    self.wanted.remove(&number(cid));
                }
            }
        }
        self.exchange.cancel_wants(self.now, session, &cids);
    }

    fn receive(&mut self, peer: u8, fake: &FakeMessage) {
        let want = |want: &FakeWant| WantEntry {
            cid: cid(want.block % BLOCKS),
            priority: want.priority,
            cancel: want.is_cancel,
            kind: if want.is_have { WantKind::Have } else { WantKind::Block },
            send_dont_have: want.send_dont_have,
        };
        let presence =
            |&(block, has_block): &(u8, bool)| Presence { cid: cid(block % BLOCKS), has_block };
        let forged = (0..fake.forged % 3).map(|at| FakeBlock(cid(200 + at), 50));
        let blocks = fake.blocks.iter().map(|block| fake_block(block % BLOCKS));
        let message = Message {
            full: fake.is_full,
            wants: fake.wants.iter().map(want).collect(),
            blocks: blocks.chain(forged).collect(),
            presences: fake.presences.iter().map(presence).collect(),
            ..Message::default()
        };
        let received = message.blocks.len() as u64;
        let is_connected = self.peers.contains_key(&peer);
        self.exchange.handle_message(self.now, peer, message);
        self.drain();
        if is_connected {
            self.received += received;
            // No verified and wanted block is lost.
            for block in &fake.blocks {
                assert!(
                    !self.wanted.contains_key(&(block % BLOCKS)),
                    "block {block} arrived and is lost"
                );
            }
        }
    }

    fn store_block(&mut self, block: u8) {
        if self.store.insert(block) {
            self.exchange.handle_stored(self.now, &cid(block), len(block));
        }
        // A driver that stores a block cancels its wants.
        if let Some(sessions) = self.wanted.remove(&block) {
            for session in sessions {
                self.exchange.cancel_wants(self.now, session, [&cid(block)]);
            }
        }
    }

    fn wait(&mut self, millis: u16) {
        let until = self.now + Duration::from_millis(millis.into());
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
                    self.receive_block(&sessions, &block, from)
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
        if !protocol.has_presences() {
            assert!(message.presences.is_empty(), "presences for an older protocol");
        }
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
            assert!(
                peer.requested_blocks <= limits.sent_wants_per_peer_max,
                "{} requests",
                peer.requested_blocks
            );
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
    pub fn end(mut self) {
        while !self.sessions.is_empty() {
            self.stop(0);
        }
        for peer in 0..PEERS {
            self.apply(&Step::Disconnect(peer));
        }
        self.apply(&Step::Wait(u16::MAX));
        assert_eq!(self.exchange.next_wake(), None, "a timer runs");
        assert_eq!(self.exchange.peers().count(), 0);
    }
}
