//! A model of boxo's strategy for Bitswap 1.2, as in kubo.
//!
//! A session knows all of its wants from the start, as with p2plab's walker. Kubo's own walkers look ahead
//! 10 or 32 blocks. Boxo's search for one random want every minute is not modelled.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use watchfire_bitswap::{
    ExchangePolicy, PeerState, RequestStrategy, Requester, Response, Totals, WantHaves,
};
use watchfire_types::Instant;

use super::other_programs::{
    BoxoState, OTHER_PROGRAMS, WantFront, begin_quiet_time, can_send, end_quiet_times,
};

/// Wants that are sent to every peer while no peer is known to have any block.
const BROADCAST_MAX: usize = 64;

/// DONT_HAVEs in a row, received or assumed, after which a session stops requesting from a peer.
const DONT_HAVES_MAX: u32 = 16;

/// After this time without a block, the want-haves are sent again to all peers.
const IDLE_TIMEOUT: Duration = Duration::from_millis(1500);

#[derive(Debug)]
pub(super) struct Boxo<P> {
    peers: BTreeMap<P, BoxoState>,
    front: WantFront,
    /// When the want-haves were last sent again to all peers.
    restarted_at: Instant,
}

impl<P: Copy + Ord> Boxo<P> {
    pub(super) fn new() -> Self {
        Boxo { peers: BTreeMap::new(), front: WantFront::default(), restarted_at: Instant::ZERO }
    }

    fn has_members(&self) -> bool {
        self.peers.values().any(|state| state.is_member)
    }

    /// How long a peer may take to respond before it is assumed not to have the block.
    fn timeout(&self, peer: P) -> Duration {
        let (least, most) = (Duration::from_millis(50), Duration::from_secs(7));
        let latency = self.peers.get(&peer).and_then(|state| state.latency);
        latency.map_or(Duration::from_secs(5), |latency| (latency * 2).clamp(least, most))
    }

    /// When the want-haves are sent again to all peers; `None` while no block is wanted.
    fn idle_at(&self, requester: &Requester<P>) -> Option<Instant> {
        let from = requester.last_block_at().max(self.restarted_at);
        (!requester.wants().is_empty()).then(|| from + IDLE_TIMEOUT)
    }

    /// The peer to request a block from: a random one of those most likely to have it. Peers that
    /// sent more blocks are more likely to be chosen.
    fn choose(&self, requester: &mut Requester<P>, at: u32) -> Option<P> {
        let rank = |state: &PeerState| match () {
            () if state.has(at) => 2,
            () if !state.lacks(at) => 1,
            () => 0,
        };
        let members: Vec<(P, u32, usize)> = requester
            .peers()
            .filter_map(|(peer, state)| Some((peer, state, self.peers.get(&peer)?)))
            .filter(|(_, _, boxo)| boxo.is_member && !boxo.is_pruned)
            .map(|(peer, state, boxo)| (peer, rank(state), 1 + boxo.blocks as usize))
            .collect();
        let best = members.iter().map(|(_, rank, _)| *rank).max().filter(|best| *best > 0)?;
        let best = || members.iter().filter(|(_, rank, _)| *rank == best);
        let mut random = requester.random_index(best().map(|(.., weight)| weight).sum());
        for (peer, _, weight) in best() {
            if random < *weight {
                return Some(*peer);
            }
            random -= weight;
        }
        None
    }
}

impl<P: Copy + Ord + Debug + Send> RequestStrategy<P> for Boxo<P> {
    fn policy(&self) -> ExchangePolicy {
        OTHER_PROGRAMS
    }

    /// Sends each want as a want-block to one peer. The other peers get want-haves.
    fn request_blocks(&mut self, now: Instant, requester: &mut Requester<P>, _: &mut Totals) {
        let wants_max = if self.has_members() { usize::MAX } else { BROADCAST_MAX };
        let is_changed = self.front.update(requester.wants(), wants_max);
        if requester.wants().is_empty() {
            return;
        }
        if is_changed {
            self.peers.keys().for_each(|peer| requester.update_peer(*peer));
        }
        for at in self.front.unrequested(requester.wants()) {
            if let Some(peer) = self.choose(requester, at) {
                requester.request(now, at, peer);
            }
        }
    }

    fn handle_tick(&mut self, now: Instant, requester: &mut Requester<P>, totals: &mut Totals) {
        let mut late = Vec::new();
        for (peer, state) in requester.peers() {
            let timeout = self.timeout(peer);
            let is_late = |(_, at): &(u32, Instant)| *at + timeout <= now;
            late.extend(state.requests().filter(is_late).map(|(at, _)| (peer, at)));
        }
        end_quiet_times(&mut self.peers, now, requester);
        for (peer, at) in late {
            totals.silent_requests += 1;
            requester.abandon_request(at, peer);
            requester.assume_missing(at, peer);
            let Some(state) = self.peers.get_mut(&peer) else { continue };
            state.dont_haves += 1;
            state.is_pruned |= state.dont_haves > DONT_HAVES_MAX;
        }
        if self.idle_at(requester).is_some_and(|at| at <= now) {
            self.restarted_at = now;
            for (peer, state) in &mut self.peers {
                state.is_pruned = false;
                state.dont_haves = 0;
                requester.restart_want_haves(*peer);
            }
        }
    }

    fn next_wake(&self, requester: &Requester<P>) -> Option<Instant> {
        let quiet = self.peers.values().filter_map(|state| state.quiet_until);
        let late = requester.peers().filter_map(|(peer, state)| {
            let oldest = state.requests().map(|(_, at)| at).min();
            oldest.map(|at| at + self.timeout(peer))
        });
        quiet.chain(late).chain(self.idle_at(requester)).min()
    }

    fn handle_connected(&mut self, peer: P) {
        self.peers.insert(peer, BoxoState::default());
    }

    fn handle_disconnected(&mut self, peer: P) {
        self.peers.remove(&peer);
    }

    fn handle_response(&mut self, peer: P, response: Response) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.handle_response(response);
        }
    }

    fn can_send(&self, now: Instant, peer: P) -> bool {
        can_send(&self.peers, now, peer)
    }

    /// Once a session has members, it sends want-haves only to them.
    fn want_haves(&self, _: &Requester<P>, peer: P) -> Option<WantHaves<'_>> {
        let is_member = self.peers.get(&peer).is_some_and(|state| state.is_member);
        let is_included = is_member || !self.has_members();
        is_included
            .then_some(WantHaves { only: Some(&self.front.wants), send_dont_have: is_member })
    }

    fn handle_sent(&mut self, now: Instant, peer: P, requester: &Requester<P>) {
        begin_quiet_time(&mut self.peers, now, peer, requester);
    }
}
