//! One peer of a simulated swarm: the exchange under test, and around it what a host would have.

use std::collections::{BTreeSet, VecDeque};

use watchfire_bitswap::{Exchange, SessionId, Totals, Want};
use watchfire_content::Cid;
use watchfire_types::Instant;

use crate::dag::{Dag, FakeBlock};

/// A peer's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Peer(pub u32);

/// Blocks that a walker of a DAG asks for at a time, as our own does.
const WANTS_MAX: usize = 2048;

#[derive(Debug)]
pub(super) struct Node {
    pub exchange: Exchange<Peer, FakeBlock>,
    pub session: Option<SessionId>,
    pub is_here: bool,
    /// How often it has arrived.
    pub arrivals: u32,
    /// Blocks in its store.
    store: Vec<u64>,
    pub held: u32,
    /// Blocks that it knows of and has not asked for.
    ahead: VecDeque<u32>,
    asked: BTreeSet<u32>,
    /// Peers that its exchange takes to be connected.
    pub peers: BTreeSet<Peer>,
    /// Peers that it wants nothing to do with any more.
    pub blocked: BTreeSet<Peer>,
    pub finished_at: Option<Instant>,
    /// When it is to be woken, as far as the clock knows.
    pub wake_at: Option<Instant>,
    /// The time it was woken last, and how often at that time.
    pub woken: (Instant, u32),
    /// When it was looked at last what it remembers.
    pub checked_at: Instant,
    /// Blocks that its store is about to give, to whomever, and their bytes.
    pub reads: usize,
    pub reading_bytes: u64,
    /// When each block arrived.
    pub received_at: Vec<Instant>,
    /// What exchanges of it that are gone did.
    pub before: Vec<Totals>,
}

impl Node {
    pub(super) fn new(exchange: Exchange<Peer, FakeBlock>, blocks: u32) -> Self {
        Node {
            exchange,
            session: None,
            is_here: false,
            arrivals: 0,
            store: vec![0; (blocks as usize).div_ceil(64)],
            held: 0,
            ahead: VecDeque::new(),
            asked: BTreeSet::new(),
            peers: BTreeSet::new(),
            blocked: BTreeSet::new(),
            finished_at: None,
            wake_at: None,
            woken: (Instant::ZERO, 0),
            checked_at: Instant::ZERO,
            reads: 0,
            reading_bytes: 0,
            received_at: Vec::new(),
            before: Vec::new(),
        }
    }

    pub(super) fn has(&self, block: u32) -> bool {
        self.store[block as usize / 64] & (1 << (block % 64)) != 0
    }

    /// Stores a block; whether it was not there.
    pub(super) fn store(&mut self, block: u32) -> bool {
        let is_new = !self.has(block);
        self.store[block as usize / 64] |= 1 << (block % 64);
        self.held += u32::from(is_new);
        is_new
    }

    /// Begins to want the whole DAG, or what is missing of it.
    pub(super) fn begin(&mut self, now: Instant, dag: &Dag) {
        self.session = Some(self.exchange.start_session(now));
        self.asked.clear();
        self.ahead.clear();
        self.open_or_want(now, dag, 0);
        self.ask(now, dag);
    }

    /// A block came that it had asked for; what hangs on it is wanted next.
    pub(super) fn handle_block(&mut self, now: Instant, dag: &Dag, block: u32) {
        self.asked.remove(&block);
        self.open(now, dag, block);
        self.ask(now, dag);
    }

    /// What a block in the store links to, and whether that is there too.
    pub(super) fn leaves(&self, dag: &Dag, block: u32) -> Option<Vec<(Cid, bool)>> {
        let leaf = |leaf| (dag.cid(leaf).clone(), self.has(leaf));
        self.has(block).then(|| dag.children(block).map(leaf).collect())
    }

    /// What is in the store already is looked through for what is not.
    fn open_or_want(&mut self, now: Instant, dag: &Dag, block: u32) {
        if self.has(block) {
            self.open(now, dag, block);
        } else {
            self.ahead.push_back(block);
        }
    }

    /// Fetches what hangs on a block, and says so before it wants any of it.
    fn open(&mut self, now: Instant, dag: &Dag, block: u32) {
        if let (Some(session), Some(leaves)) = (self.session, self.leaves(dag, block)) {
            self.exchange.open_node(now, session, dag.cid(block), leaves);
        }
        for child in dag.children(block) {
            self.open_or_want(now, dag, child);
        }
    }

    fn ask(&mut self, now: Instant, dag: &Dag) {
        let Some(session) = self.session else { return };
        let count = WANTS_MAX.saturating_sub(self.asked.len()).min(self.ahead.len());
        let wants: Vec<Want> = self.ahead.drain(..count).map(|block| want(dag, block)).collect();
        if !wants.is_empty() {
            self.asked.extend(wants.iter().filter_map(|want| dag.find(&want.cid)));
            self.exchange.want(now, session, wants);
        }
    }
}

fn want(dag: &Dag, block: u32) -> Want {
    let is_inner = block == 0 || !dag.children(block).is_empty();
    Want {
        cid: dag.cid(block).clone(),
        // The root's length is in no link.
        len: (block > 0).then(|| dag.block_len(block)),
        urgency: u8::from(is_inner),
    }
}
