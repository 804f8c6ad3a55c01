use std::collections::VecDeque;
use std::fmt::Debug;

use content::{Block, Cid};
use vocab::Instant;

use crate::{
    Behaviour, Limits, Message, Output, Payload, PeerTotals, Protocol, SessionId, Totals, Want,
};

/// All that one node does in Bitswap, for peers named by `P` and blocks carried as `B`.
///
/// After each input, every output is to be drained, and [`Exchange::handle_tick`] called at
/// [`Exchange::next_wake`].
#[derive(Debug)]
pub struct Exchange<P, B = Block> {
    limits: Limits,
    behaviour: Behaviour,
    seed: u64,
    totals: Totals,
    outputs: VecDeque<Output<P, B>>,
}

impl<P: Copy + Ord + Debug, B: Payload> Exchange<P, B> {
    /// A node without peers and sessions. `seed` decides between equals: nodes of one swarm must have
    /// different ones, or all would ask for the same blocks first.
    pub fn new(limits: Limits, behaviour: Behaviour, seed: u64) -> Self {
        Exchange { limits, behaviour, seed, totals: Totals::default(), outputs: VecDeque::new() }
    }

    /// A peer is here. Nothing is sent to it before [`Exchange::writable`].
    pub fn connected(&mut self, now: Instant, peer: P, protocol: Protocol) {
        let _ = (now, peer, protocol, &self.limits, self.behaviour, self.seed);
    }

    /// A peer is gone; what it was asked for is asked of others.
    pub fn disconnected(&mut self, now: Instant, peer: P) {
        let _ = (now, peer);
    }

    /// A message came, whole. From peers that are not connected it is ignored.
    pub fn received(&mut self, now: Instant, peer: P, message: Message<B>) {
        let _ = (now, peer, message);
    }

    /// Part of a message came: the peer is alive, however slow.
    pub fn arriving(&mut self, now: Instant, peer: P) {
        let _ = (now, peer);
    }

    /// The pipe to a peer has room for so many bytes now, whatever it said before. What is sent
    /// is taken off by the exchange; say it again when the pipe has drained.
    pub fn writable(&mut self, now: Instant, peer: P, room_bytes: usize) {
        let _ = (now, peer, room_bytes);
    }

    /// A block of so many bytes is in the local store: fetched, or put there. Whoever waits for it
    /// is told, or sent it.
    pub fn have(&mut self, now: Instant, cid: &Cid, len: usize) {
        let _ = (now, cid, len);
    }

    /// The answer to [`Output::Look`]: how long the block in the local store is, if it is there.
    pub fn found(&mut self, now: Instant, cid: &Cid, len: Option<usize>) {
        let _ = (now, cid, len);
    }

    /// The answer to [`Output::Read`]: the block, if it could be read.
    pub fn read(&mut self, now: Instant, peer: P, cid: &Cid, block: Option<B>) {
        let _ = (now, peer, cid, block);
    }

    /// Begins a session.
    pub fn start(&mut self, now: Instant) -> SessionId {
        let _ = now;
        SessionId(0)
    }

    /// Wants of a session, which are added to those it has. What the local store has is not to be
    /// wanted: the exchange does not look there.
    pub fn want(
        &mut self,
        now: Instant,
        session: SessionId,
        wants: impl IntoIterator<Item = Want>,
    ) {
        let _ = (now, session, wants.into_iter().count());
    }

    /// Takes wants of a session back.
    pub fn unwant<'a>(
        &mut self,
        now: Instant,
        session: SessionId,
        cids: impl IntoIterator<Item = &'a Cid>,
    ) {
        let _ = (now, session, cids.into_iter().count());
    }

    /// Ends a session, and takes back what only it wanted.
    pub fn stop(&mut self, now: Instant, session: SessionId) {
        let _ = (now, session);
    }

    /// The answer to [`Output::FindProviders`], when the search is over. Those that are connected, or
    /// connect from now on, are asked first; none is an answer too.
    pub fn providers(&mut self, now: Instant, session: SessionId, peers: &[P]) {
        let _ = (now, session, peers);
    }

    /// Does what is due.
    pub fn handle_tick(&mut self, now: Instant) {
        let _ = now;
    }

    /// When to call [`Exchange::handle_tick`]; `None` while nothing is due.
    pub fn next_wake(&self) -> Option<Instant> {
        None
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output<P, B>> {
        self.outputs.pop_front()
    }

    /// What was done so far.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// What passed between us and a peer that is connected.
    pub fn peer(&self, peer: P) -> Option<PeerTotals> {
        let _ = peer;
        None
    }

    /// Peers that are connected.
    pub fn peers(&self) -> impl Iterator<Item = P> {
        std::iter::empty()
    }

    /// How many blocks a session still misses.
    pub fn missing(&self, session: SessionId) -> usize {
        let _ = session;
        0
    }
}
