//! One peer of a simulated swarm: the exchange under test, and the parts of a host around it.

use std::collections::{BTreeSet, VecDeque};

use watchfire_bitswap::{Exchange, SessionId, Totals, Want};
use watchfire_content::Cid;
use watchfire_types::Instant;

use crate::dag::{Dag, FakeBlock};

/// The index of a peer in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Peer(pub u32);

/// Blocks that are requested at a time, as in the DAG walker of our host.
const WANTS_MAX: usize = 2048;

#[derive(Debug)]
pub(super) struct Node {
    pub exchange: Exchange<Peer, FakeBlock>,
    pub session: Option<SessionId>,
    pub is_online: bool,
    pub arrivals: u32,
    /// The blocks in its store, one bit for each.
    store: Vec<u64>,
    pub held: u32,
    /// Known blocks that it has not requested yet.
    unrequested: VecDeque<u32>,
    requested: BTreeSet<u32>,
    /// Peers that are connected, as far as its exchange knows.
    pub peers: BTreeSet<Peer>,
    /// Dropped peers, to which it does not connect again.
    pub blocked: BTreeSet<Peer>,
    pub finished_at: Option<Instant>,
    pub wake_at: Option<Instant>,
    /// The time of the last wake, and the number of wakes at that time.
    pub woken: (Instant, u32),
    /// When its limits were last checked.
    pub checked_at: Instant,
    /// Blocks that its store is reading for any peer, and their bytes.
    pub reads: usize,
    pub reading_bytes: u64,
    pub received_at: Vec<Instant>,
    /// The totals of its earlier exchanges, one for each departure.
    pub earlier_totals: Vec<Totals>,
}

impl Node {
    pub(super) fn new(exchange: Exchange<Peer, FakeBlock>, blocks: u32) -> Self {
        Node {
            exchange,
            session: None,
            is_online: false,
            arrivals: 0,
            store: vec![0; (blocks as usize).div_ceil(64)],
            held: 0,
            unrequested: VecDeque::new(),
            requested: BTreeSet::new(),
            peers: BTreeSet::new(),
            blocked: BTreeSet::new(),
            finished_at: None,
            wake_at: None,
            woken: (Instant::ZERO, 0),
            checked_at: Instant::ZERO,
            reads: 0,
            reading_bytes: 0,
            received_at: Vec::new(),
            earlier_totals: Vec::new(),
        }
    }

    pub(super) fn has(&self, block: u32) -> bool {
        self.store[block as usize / 64] & (1 << (block % 64)) != 0
    }

    /// Stores a block. Returns whether it is new.
    pub(super) fn store(&mut self, block: u32) -> bool {
        let is_new = !self.has(block);
        self.store[block as usize / 64] |= 1 << (block % 64);
        self.held += u32::from(is_new);
        is_new
    }

    /// Starts a session for the missing blocks of the DAG.
    pub(super) fn begin(&mut self, now: Instant, dag: &Dag) {
        self.session = Some(self.exchange.start_session(now));
        self.requested.clear();
        self.unrequested.clear();
        self.open_or_want(now, dag, 0);
        self.request_next(now, dag);
    }

    /// A requested block arrived. Its links are wanted next.
    pub(super) fn handle_block(&mut self, now: Instant, dag: &Dag, block: u32) {
        self.requested.remove(&block);
        self.open(now, dag, block);
        self.request_next(now, dag);
    }

    /// The links of a block in the store, and whether their blocks are in the store.
    pub(super) fn leaves(&self, dag: &Dag, block: u32) -> Option<Vec<(Cid, bool)>> {
        let leaf = |leaf| (dag.cid(leaf).clone(), self.has(leaf));
        self.has(block).then(|| dag.children(block).map(leaf).collect())
    }

    /// Wants a missing block, or opens a stored one to find missing blocks below it.
    fn open_or_want(&mut self, now: Instant, dag: &Dag, block: u32) {
        if self.has(block) {
            self.open(now, dag, block);
        } else {
            self.unrequested.push_back(block);
        }
    }

    /// Announces the links of a block to the exchange, and then wants their blocks.
    fn open(&mut self, now: Instant, dag: &Dag, block: u32) {
        if let (Some(session), Some(leaves)) = (self.session, self.leaves(dag, block)) {
            self.exchange.open_node(now, session, dag.cid(block), leaves);
        }
        for child in dag.children(block) {
            self.open_or_want(now, dag, child);
        }
    }

    fn request_next(&mut self, now: Instant, dag: &Dag) {
        let Some(session) = self.session else { return };
        let count = WANTS_MAX.saturating_sub(self.requested.len()).min(self.unrequested.len());
        let wants: Vec<Want> =
            self.unrequested.drain(..count).map(|block| want(dag, block)).collect();
        if !wants.is_empty() {
            self.requested.extend(wants.iter().filter_map(|want| dag.find(&want.cid)));
            self.exchange.want(now, session, wants);
        }
    }
}

fn want(dag: &Dag, block: u32) -> Want {
    let is_inner = block == 0 || !dag.children(block).is_empty();
    Want {
        cid: dag.cid(block).clone(),
        // No link contains the root's length.
        len: (block > 0).then(|| dag.block_len(block)),
        urgency: u8::from(is_inner),
    }
}
