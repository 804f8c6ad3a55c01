//! All that can happen to an exchange, and what must hold whatever does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watchfire_bitswap::{
    Exchange, Limits, Message, Output, Payload, Presence, Protocol, SessionId, Want, WantEntry,
    WantKind,
};
use watchfire_content::{Cid, Codec, Multihash};
use watchfire_types::Instant;

/// A block is a number; [`cid`] names it and [`len`] says how long it is.
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

/// Blocks that there are. A few peers, blocks and sessions meet more often than many.
pub const BLOCKS: u8 = 24;
pub const PEERS: u8 = 4;
const SESSIONS: usize = 3;

fn cid(block: u8) -> Cid {
    let mut digest = [7; 32];
    digest[0] = block;
    Cid::v1(Codec::RAW, Multihash::Sha2_256(digest))
}

/// From a gift to more than a message usually takes.
fn len(block: u8) -> usize {
    1 + usize::from(block) * 61
}

fn toy(block: u8) -> FakeBlock {
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
        block_bytes_guess: 300,
        ..Limits::default()
    }
}

/// What a peer says.
#[derive(Clone, Debug, Default)]
pub struct Saying {
    pub is_full: bool,
    pub wants: Vec<Wanting>,
    pub blocks: Vec<u8>,
    /// Blocks that nobody ever wanted.
    pub forged: u8,
    pub presences: Vec<(u8, bool)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Wanting {
    pub block: u8,
    pub priority: i32,
    pub is_cancel: bool,
    pub is_have: bool,
    pub send_dont_have: bool,
}

/// Something that happens. Peers, sessions and places may be any numbers.
#[derive(Clone, Debug)]
pub enum Step {
    Connect(u8, u8),
    Disconnect(u8),
    Start,
    Stop(u8),
    Want(u8, Vec<u8>),
    Unwant(u8, Vec<u8>),
    Say(u8, Saying),
    Arriving(u8),
    Room(u8, u16),
    Have(u8),
    Find(u8),
    Read(u8, bool),
    Providers(u8, u8),
    Wait(u16),
}

/// An exchange, what it was told, and what it should know from that.
pub struct FakeNetwork {
    exchange: Exchange<u8, FakeBlock>,
    now: Instant,
    peers: BTreeMap<u8, (Protocol, usize)>,
    sessions: Vec<SessionId>,
    wanted: BTreeMap<u8, BTreeSet<SessionId>>,
    store: BTreeSet<u8>,
    looks: Vec<Cid>,
    reads: Vec<(u8, Cid)>,
    searches: Vec<SessionId>,
    came: u64,
    got: u64,
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
            looks: Vec::new(),
            reads: Vec::new(),
            searches: Vec::new(),
            came: 0,
            got: 0,
            sent: (0, 0),
        }
    }

    /// Lets something happen, and holds the exchange to its promises.
    pub fn take(&mut self, step: &Step) {
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
            Step::Unwant(session, blocks) => self.unwant(*session, blocks),
            Step::Say(peer, saying) => self.say(peer % PEERS, saying),
            Step::Arriving(peer) => self.exchange.handle_partial_message(now, peer % PEERS),
            Step::Room(peer, room) => {
                let (peer, room) = (peer % PEERS, usize::from(*room));
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.1 = room;
                }
                self.exchange.handle_writable(now, peer, room);
            }
            Step::Have(block) => self.have(block % BLOCKS),
            Step::Find(place) => {
                if !self.looks.is_empty() {
                    let cid = self.looks.swap_remove(usize::from(*place) % self.looks.len());
                    let block = number(&cid);
                    let found = self.store.contains(&block).then(|| len(block));
                    self.exchange.handle_lookup(now, &cid, found);
                }
            }
            Step::Read(place, is_readable) => {
                if !self.reads.is_empty() {
                    let place = usize::from(*place) % self.reads.len();
                    let (peer, cid) = self.reads.swap_remove(place);
                    let block = is_readable.then(|| toy(number(&cid)));
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
        // What the store has is not to be wanted.
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

    fn unwant(&mut self, session: u8, blocks: &[u8]) {
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

    fn say(&mut self, peer: u8, saying: &Saying) {
        let want = |want: &Wanting| WantEntry {
            cid: cid(want.block % BLOCKS),
            priority: want.priority,
            cancel: want.is_cancel,
            kind: if want.is_have { WantKind::Have } else { WantKind::Block },
            send_dont_have: want.send_dont_have,
        };
        let presence =
            |&(block, is_here): &(u8, bool)| Presence { cid: cid(block % BLOCKS), is_here };
        let forged = (0..saying.forged % 3).map(|at| FakeBlock(cid(200 + at), 50));
        let blocks = saying.blocks.iter().map(|block| toy(block % BLOCKS));
        let message = Message {
            full: saying.is_full,
            wants: saying.wants.iter().map(want).collect(),
            blocks: blocks.chain(forged).collect(),
            presences: saying.presences.iter().map(presence).collect(),
            ..Message::default()
        };
        let came = message.blocks.len() as u64;
        let is_heard = self.peers.contains_key(&peer);
        self.exchange.handle_message(self.now, peer, message);
        self.drain();
        if is_heard {
            self.came += came;
            // Nothing that is verified and wanted is lost.
            for block in &saying.blocks {
                assert!(
                    !self.wanted.contains_key(&(block % BLOCKS)),
                    "block {block} came and is lost"
                );
            }
        }
    }

    fn have(&mut self, block: u8) {
        if self.store.insert(block) {
            self.exchange.handle_stored(self.now, &cid(block), len(block));
        }
        // Whoever put it there takes it back from those who want it.
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
            assert!(wakes < 10_000, "it is never done with what is due");
            self.now = self.now.max(at);
            self.exchange.handle_tick(self.now);
            self.drain();
        }
        self.now = until;
    }

    fn drain(&mut self) {
        for count in 0.. {
            let Some(output) = self.exchange.poll_output() else { break };
            assert!(count < 10_000, "there is no end to what it wants done");
            match output {
                Output::Send { peer, message } => self.sent(peer, &message),
                Output::Lookup { cid } => self.looks.push(cid),
                Output::ListLinks { node } => self.exchange.handle_links(self.now, &node, None),
                Output::Read { peer, cid } => {
                    assert!(self.peers.contains_key(&peer), "it reads for nobody");
                    self.reads.push((peer, cid));
                }
                Output::BlockReceived { sessions, block, from } => {
                    self.got(&sessions, &block, from)
                }
                Output::FindProviders { session, cid } => {
                    let wanted = self.wanted.get(&number(&cid));
                    assert!(wanted.is_some_and(|sessions| sessions.contains(&session)));
                    assert!(!self.searches.contains(&session), "two searches at a time");
                    self.searches.push(session);
                }
                Output::DropPeer { peer, .. } => {
                    assert!(self.peers.remove(&peer).is_some(), "it dropped nobody");
                }
            }
        }
    }

    fn sent(&mut self, peer: u8, message: &Message<FakeBlock>) {
        let (protocol, room) = self.peers.get_mut(&peer).expect("it sends to those who are here");
        assert!(*room > 0, "it sends where there is no room");
        assert!(!message.is_empty() || message.pending_bytes > 0, "it says nothing");
        let len = message.encoded_len(*protocol);
        // One want or presence, and what is around it, is sent where there is any room.
        assert!(message.blocks.len() == 1 || len <= *room + 200, "{len} bytes into {room}");
        *room = room.saturating_sub(len);
        if !protocol.has_presences() {
            assert!(message.presences.is_empty(), "it tells what is not understood");
        }
        let bytes: usize = message.blocks.iter().map(Payload::len).sum();
        assert!(message.blocks.len() <= 1 || bytes <= limits().message_bytes_max);
        assert!(message.blocks.iter().all(|block| self.store.contains(&number(&block.0))));
        self.sent.0 += message.blocks.len() as u64;
        self.sent.1 += bytes as u64;
    }

    fn got(&mut self, sessions: &[SessionId], block: &FakeBlock, from: u8) {
        assert!(from < PEERS, "it is from nobody");
        let wanted = self.wanted.remove(&number(&block.0)).expect("it was wanted, and came once");
        assert_eq!(sessions.iter().copied().collect::<BTreeSet<_>>(), wanted);
        self.got += 1;
        self.store.insert(number(&block.0));
        self.exchange.handle_stored(self.now, &block.0, block.1);
    }

    /// What it remembers is what it was told, and no more than it may.
    fn check(&self) {
        let limits = limits();
        assert!(self.exchange.peers().eq(self.peers.keys().copied()));
        for peer in self.peers.keys() {
            let peer = self.exchange.peer(*peer).expect("a peer that is here is known");
            assert!(peer.wants <= limits.wants_per_peer_max, "{} wants", peer.wants);
            assert!(
                peer.requested_blocks <= limits.sent_wants_per_peer_max,
                "{} asks",
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
        assert_eq!(totals.blocks_in, self.got);
        let came = totals.blocks_in + totals.duplicate_blocks + totals.unsolicited_blocks;
        assert_eq!(came, self.came);
        assert_eq!((totals.blocks_out, totals.bytes_out), self.sent);
    }

    /// When nobody is here and nothing is wanted, nothing is due.
    pub fn end(mut self) {
        while !self.sessions.is_empty() {
            self.stop(0);
        }
        for peer in 0..PEERS {
            self.take(&Step::Disconnect(peer));
        }
        self.take(&Step::Wait(u16::MAX));
        assert_eq!(self.exchange.next_wake(), None, "it waits for something");
        assert_eq!(self.exchange.peers().count(), 0);
    }
}
