mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use content::{Block, Cid};
use vocab::Instant;

use crate::asking::{Arrival, Asking, Heard};
use crate::leaves::Leaves;
use crate::ledger::Ledger;
use crate::pipe::Pipe;
use crate::uplink::Uplink;
use crate::{
    Behaviour, Limits, Message, Misbehaviour, Output, Payload, PeerTotals, Protocol, SessionId,
    Totals, Want, WantEntry,
};

/// How long a peer that waits for blocks is told nothing before it is told that it is not forgotten.
const REMINDED_AFTER: Duration = Duration::from_secs(60);

/// How often is looked how much the others lack.
const COMPARED_EVERY: Duration = Duration::from_millis(50);

/// Among fewer peers who lack something there is no being behind.
const CROWD_MIN: usize = 4;

/// All that one node does in Bitswap, for peers named by `P` and blocks carried as `B`.
///
/// After each input, every output is to be drained, and [`Exchange::handle_tick`] called at
/// [`Exchange::next_wake`].
#[derive(Debug)]
pub struct Exchange<P, B = Block> {
    /// How long a peer is told nothing more that is not urgent.
    pause: Duration,
    asking: Asking<P>,
    ledger: Ledger<P, B>,
    leaves: Leaves<P>,
    pipes: BTreeMap<P, Pipe>,
    uplink: Uplink,
    /// Peers to whom something is to be said when they may be spoken to again.
    quiet: BTreeSet<(Instant, P)>,
    /// When it was looked last how much the others lack.
    compared_at: Instant,
    /// When it was looked last who waits for blocks and heard nothing for long.
    reminded_at: Instant,
    now: Instant,
    /// Whether all that follows from the inputs so far is among the outputs.
    is_settled: bool,
    totals: Totals,
    outputs: VecDeque<Output<P, B>>,
}

impl<P: Copy + Ord + Debug, B: Payload> Exchange<P, B> {
    /// A node without peers and sessions. `seed` decides between equals: nodes of one swarm must have
    /// different ones, or all would ask for the same blocks first.
    pub fn new(limits: Limits, behaviour: Behaviour, seed: u64) -> Self {
        Exchange {
            asking: Asking::new(limits.clone(), behaviour, seed),
            pause: match behaviour {
                Behaviour::Ours => limits.gossip_pause,
                Behaviour::Kubo12 | Behaviour::Old11 => Duration::ZERO,
            },
            uplink: Uplink::new(limits.reading_bytes_max),
            ledger: Ledger::new(limits, behaviour, seed),
            leaves: Leaves::new(),
            pipes: BTreeMap::new(),
            quiet: BTreeSet::new(),
            compared_at: Instant::ZERO,
            reminded_at: Instant::ZERO,
            now: Instant::ZERO,
            is_settled: true,
            totals: Totals::default(),
            outputs: VecDeque::new(),
        }
    }

    /// A peer is here. Nothing is sent to it before [`Exchange::writable`].
    pub fn connected(&mut self, now: Instant, peer: P, protocol: Protocol) {
        self.input(now);
        self.forget(peer);
        self.pipes.insert(peer, Pipe::new(now, protocol));
        self.asking.connected(now, peer, protocol);
        self.ledger.connected(peer, protocol.has_presences());
        self.meet(peer, protocol);
    }

    /// A peer is gone; what it was asked for is asked of others.
    pub fn disconnected(&mut self, now: Instant, peer: P) {
        self.input(now);
        self.forget(peer);
    }

    /// A message came, whole. From peers that are not connected it is ignored.
    pub fn received(&mut self, now: Instant, peer: P, message: Message<B>) {
        self.input(now);
        if !self.pipes.contains_key(&peer) {
            return;
        }
        self.totals.messages_in += 1;
        self.totals.passed_over += message.passed_over as u64;
        let has_blocks = message.payloads().next().is_some();
        self.asking.heard(now, peer, if has_blocks { Heard::Blocks } else { Heard::Words });
        let mut strange = message.passed_over_blocks as u64;
        self.totals.unasked_blocks += strange;
        for word in message.leaves {
            match self.word(peer, word) {
                Ok(is_strange) => strange += u64::from(is_strange),
                Err(reason) => return self.drop_peer(peer, reason),
            }
        }
        for block in message.blocks {
            strange += u64::from(self.block(peer, block));
        }
        for presence in &message.presences {
            self.asking.presence(now, peer, &presence.cid, presence.is_here);
        }
        if strange > 0
            && let Some(reason) = self.asking.sent_strange_blocks(peer, strange)
        {
            return self.drop_peer(peer, reason);
        }
        if let Some(reason) = self.asking.misbehaviour(peer) {
            return self.drop_peer(peer, reason);
        }
        self.wanted(peer, message.full, message.wants);
    }

    /// Whether nobody ever asked for a block of this name.
    fn block(&mut self, peer: P, block: B) -> bool {
        let bytes = block.len() as u64;
        match self.asking.block(self.now, peer, block.cid(), block.len()) {
            Arrival::Wanted(sessions) => {
                self.totals.blocks_in += 1;
                self.totals.bytes_in += bytes;
                self.outputs.push_back(Output::Got { sessions, block, from: peer });
            }
            Arrival::Duplicate => {
                self.totals.duplicate_blocks += 1;
                self.totals.duplicate_bytes += bytes;
            }
            Arrival::Unasked => {
                self.totals.unasked_blocks += 1;
                self.totals.unasked_bytes += bytes;
                return true;
            }
        }
        false
    }

    /// Part of a message came: the peer is alive, however slow.
    pub fn arriving(&mut self, now: Instant, peer: P) {
        // The most frequent of all inputs, and hardly ever does anything follow from it.
        if self.asking.heard(now, peer, Heard::Part) {
            self.input(now);
        }
    }

    /// The pipe to a peer has room for so many bytes now, whatever it said before. What is sent
    /// is taken off by the exchange; say it again when the pipe has drained.
    ///
    /// While there is any room, a message of one block is sent however long the block is, so that
    /// none is too long for a pipe.
    pub fn writable(&mut self, now: Instant, peer: P, room_bytes: usize) {
        let Some(pipe) = self.pipes.get_mut(&peer) else { return };
        let had_none = pipe.room == 0;
        let left = pipe.has_room(room_bytes);
        if left > 0 {
            self.uplink.left(now, left);
        }
        if had_none {
            self.asking.touched.insert(peer);
        }
        self.input(now);
    }

    /// A block of so many bytes is in the local store: fetched, or put there. Whoever waits for it
    /// is told, or sent it.
    pub fn have(&mut self, now: Instant, cid: &Cid, len: usize) {
        self.input(now);
        self.ledger.have(cid, len);
        if self.leaves.have(cid) {
            self.outputs.push_back(Output::List { node: cid.clone() });
        }
    }

    /// The answer to [`Output::Look`]: how long the block in the local store is, if it is there.
    pub fn found(&mut self, now: Instant, cid: &Cid, len: Option<usize>) {
        self.input(now);
        self.ledger.found(cid, len);
    }

    /// The answer to [`Output::Read`]: the block, if it could be read.
    pub fn read(&mut self, now: Instant, peer: P, cid: &Cid, block: Option<B>) {
        self.input(now);
        self.ledger.read(peer, cid, block);
    }

    /// Begins a session.
    pub fn start(&mut self, now: Instant) -> SessionId {
        self.input(now);
        self.asking.start(now)
    }

    /// Wants of a session, which are added to those it has. What the local store has is not to be
    /// wanted: the exchange does not look there.
    pub fn want(
        &mut self,
        now: Instant,
        session: SessionId,
        wants: impl IntoIterator<Item = Want>,
    ) {
        self.input(now);
        for want in wants {
            let cid = want.cid.clone();
            self.asking.want(now, session, want);
            self.hear_of(&cid);
        }
    }

    /// Takes wants of a session back.
    pub fn unwant<'a>(
        &mut self,
        now: Instant,
        session: SessionId,
        cids: impl IntoIterator<Item = &'a Cid>,
    ) {
        self.input(now);
        cids.into_iter().for_each(|cid| self.asking.unwant(session, cid));
    }

    /// These are asked first, in this order, instead of those named before, once they are wanted: what somebody
    /// looks at, or is about to. At most 64; the others are passed over.
    pub fn urgent(&mut self, now: Instant, cids: &[Cid]) {
        self.input(now);
        self.asking.urgent(now, cids);
    }

    /// Ends a session, and takes back what only it wanted.
    pub fn stop(&mut self, now: Instant, session: SessionId) {
        self.input(now);
        self.asking.stop(session);
        for (peer, cid) in self.leaves.stop(session) {
            self.asking.unlisted(peer, &cid);
        }
    }

    /// The answer to [`Output::FindProviders`], when the search is over. Those that are connected, or
    /// connect from now on, are asked first; none is an answer too.
    pub fn providers(&mut self, now: Instant, session: SessionId, peers: &[P]) {
        self.input(now);
        self.asking.providers(now, session, peers);
    }

    /// Does what is due.
    pub fn handle_tick(&mut self, now: Instant) {
        self.input(now);
        for peer in self.asking.stalled(now) {
            self.drop_peer(peer, Misbehaviour::Stalled);
        }
        self.asking.handle_tick(now, &mut self.totals);
        if self.uplink.is_stuck(now) {
            self.pipes.values_mut().for_each(|pipe| pipe.moving = 0);
            self.uplink.give_up();
        }
    }

    /// When to call [`Exchange::handle_tick`]; `None` while nothing is due.
    pub fn next_wake(&self) -> Option<Instant> {
        let quiet = self.quiet.first().map(|(until, _)| *until);
        let wakes =
            [self.asking.next_wake(), quiet, self.uplink.next_wake(), self.ledger.held_until];
        wakes.into_iter().flatten().min()
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output<P, B>> {
        if self.outputs.is_empty() && !self.is_settled {
            self.is_settled = true;
            self.settle();
        }
        self.outputs.pop_front()
    }

    fn input(&mut self, now: Instant) {
        self.now = now;
        self.is_settled = false;
    }

    fn forget(&mut self, peer: P) {
        if let Some(pipe) = self.pipes.remove(&peer) {
            self.quiet.remove(&(pipe.quiet_until, peer));
            if pipe.moving > 0 {
                self.uplink.left(self.now, pipe.moving);
            }
            self.asking.disconnected(peer);
            self.ledger.disconnected(peer);
            self.leaves.disconnected(peer);
        }
    }

    fn drop_peer(&mut self, peer: P, reason: Misbehaviour) {
        self.forget(peer);
        self.totals.dropped_peers += 1;
        self.outputs.push_back(Output::Drop { peer, reason });
    }

    /// What follows from all inputs so far. Only when the outputs are drained: what several inputs
    /// want to be said goes with one message.
    fn settle(&mut self) {
        self.compare();
        self.asking.fill(self.now, &mut self.totals);
        for (session, cid) in self.asking.searches(self.now) {
            self.doubt(session);
            self.outputs.push_back(Output::FindProviders { session, cid });
        }
        let mut peers = std::mem::take(&mut self.asking.touched);
        peers.append(&mut self.ledger.touched);
        peers.append(&mut self.leaves.touched);
        while let Some(&(until, peer)) = self.quiet.first()
            && until <= self.now
        {
            self.quiet.pop_first();
            peers.insert(peer);
        }
        let blocks_out = self.totals.blocks_out;
        peers.into_iter().for_each(|peer| self.speak(peer));
        if self.totals.blocks_out > blocks_out {
            self.remind();
        }
        self.read_ahead();
    }

    /// Looks how much those lack who lack something too, now and then.
    fn compare(&mut self) {
        if self.asking.wants_nothing() || self.now.since(self.compared_at) < COMPARED_EVERY {
            return;
        }
        self.compared_at = self.now;
        let lacked = self.pipes.keys().filter_map(|peer| self.leaves.missing_at(*peer));
        let (mut peers, mut blocks) = (0, 0);
        for lacked in lacked.filter(|lacked| *lacked > 0) {
            peers += 1;
            blocks += lacked;
        }
        self.asking.others_lack((peers >= CROWD_MIN).then(|| blocks / peers));
    }

    /// While others have their turn, those who have waited for long are told what they have to wait for, lest
    /// they give us up. Who sends nothing to anybody reminds nobody.
    fn remind(&mut self) {
        if self.now.since(self.reminded_at) < REMINDED_AFTER / 4 {
            return;
        }
        self.reminded_at = self.now;
        for (peer, pending_bytes) in self.ledger.waiting() {
            let Some(pipe) = self.pipes.get_mut(&peer) else { continue };
            if pipe.room == 0 || self.now.since(pipe.spoken_at) < REMINDED_AFTER {
                continue;
            }
            let pending_bytes = u32::try_from(pending_bytes).unwrap_or(u32::MAX);
            let message = Message { pending_bytes, ..Message::default() };
            pipe.spoken_at = self.now;
            pipe.room = pipe.room.saturating_sub(message.encoded_len(pipe.protocol));
            self.totals.messages_out += 1;
            self.outputs.push_back(Output::Send { peer, message });
        }
    }

    /// Tells a peer what there is to tell, unless that can wait; or has to, for room.
    fn speak(&mut self, peer: P) {
        let Some(pipe) = self.pipes.get(&peer) else { return };
        let is_urgent = self.asking.is_urgent(peer)
            || self.ledger.is_urgent(peer)
            || self.leaves.is_urgent(peer);
        if pipe.quiet_until > self.now && !is_urgent {
            self.quiet.insert((pipe.quiet_until, peer));
            return;
        }
        while let Some(pipe) = self.pipes.get_mut(&peer)
            && pipe.room > 0
        {
            let (wants, is_more_wanted) = self.asking.speak(self.now, peer, pipe.room);
            let said: usize = wants.iter().map(WantEntry::encoded_len).sum();
            let room = pipe.room.saturating_sub(said);
            let (answers, is_more_answered) = self.ledger.answer(peer, room);
            let mut message = Message {
                wants,
                blocks: answers.blocks,
                presences: answers.presences,
                pending_bytes: u32::try_from(answers.pending_bytes).unwrap_or(u32::MAX),
                ..Message::default()
            };
            self.leaves.speak(peer, &mut message);
            if message.is_empty() {
                return;
            }
            self.quiet.remove(&(pipe.quiet_until, peer));
            pipe.quiet_until = self.now + self.pause;
            pipe.spoken_at = self.now;
            let len = message.encoded_len(pipe.protocol);
            pipe.room = pipe.room.saturating_sub(len);
            let blocks = message.payloads().count() as u64;
            let bytes = message.payloads().map(|block| block.len() as u64).sum::<u64>();
            if blocks > 0 {
                pipe.fill(len, message.payloads().map(|block| block.cid().clone()));
                self.uplink.sent(self.now, len);
            }
            pipe.blocks_out += blocks;
            pipe.bytes_out += bytes;
            self.totals.messages_out += 1;
            self.totals.blocks_out += blocks;
            self.totals.bytes_out += bytes;
            self.outputs.push_back(Output::Send { peer, message });
            if !is_more_wanted && !is_more_answered {
                return;
            }
        }
    }

    fn read_ahead(&mut self) {
        self.ledger.held_until = None;
        let pipes = &self.pipes;
        let room = |peer: P| pipes.get(&peer).map_or(0, |pipe| pipe.room);
        while self.ledger.is_anyone_ready() {
            let room_bytes = self.uplink.room(self.ledger.reading_bytes());
            let bytes_max = room_bytes.min(self.uplink.batch_bytes_max());
            let missing = |peer: P| self.leaves.missing_at(peer);
            let is_source = self.asking.wants_nothing();
            let next = self.ledger.read_next(self.now, bytes_max, room, missing, is_source);
            let Some((peer, cids)) = next else { return };
            self.outputs.extend(cids.into_iter().map(|cid| Output::Read { peer, cid }));
        }
    }

    /// What was done so far.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// What passed between us and a peer that is connected.
    pub fn peer(&self, peer: P) -> Option<PeerTotals> {
        let (pipe, view) = (self.pipes.get(&peer)?, self.asking.view(peer)?);
        Some(PeerTotals {
            blocks_in: view.useful,
            bytes_in: view.bytes_in,
            blocks_out: pipe.blocks_out,
            bytes_out: pipe.bytes_out,
            asked_blocks: view.asked.len(),
            wants: self.ledger.wants_of(peer),
            window_bytes: view.pace.window,
            latency: view.pace.base,
        })
    }

    /// Peers that are connected.
    pub fn peers(&self) -> impl Iterator<Item = P> {
        self.pipes.keys().copied()
    }

    /// How many blocks a session still misses.
    pub fn missing(&self, session: SessionId) -> usize {
        self.asking.missing(session)
    }
}
