//! A model of go-bitswap's strategy before HAVE.
//!
//! Peers cannot announce blocks. The wants are split over groups of peers, and each want is sent to
//! a whole group. With more groups there are fewer duplicates, but a search takes longer. The
//! number of groups adapts to the share of duplicates.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use watchfire_bitswap::{ExchangePolicy, RequestStrategy, Requester, Response, Totals, WantHaves};
use watchfire_types::Instant;

use super::other_programs::{
    BoxoState, OTHER_PROGRAMS, WantFront, begin_quiet_time, can_send, end_quiet_times,
};

/// Wants that are sent to every peer while no peer is known to have any block.
const BROADCAST_MAX: usize = 4;

/// Wants that are requested at a time.
const LIVE_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct GoBitswap<P> {
    peers: BTreeMap<P, BoxoState>,
    front: WantFront,
    groups: PeerGroups,
    /// When all live wants were last requested from every peer.
    restarted_at: Instant,
}

#[derive(Debug)]
struct PeerGroups {
    count: usize,
    /// The smoothed share of blocks that are duplicates.
    duplicates: f64,
    /// Rotates over the groups.
    turn: usize,
}

impl PeerGroups {
    fn handle_block(&mut self, is_duplicate: bool) {
        self.duplicates = self.duplicates * 0.95 + if is_duplicate { 0.05 } else { 0.0 };
        if self.duplicates > 0.4 && self.count < 16 {
            self.count += 1;
            self.duplicates = 0.3;
        } else if self.duplicates < 0.2 && self.count > 2 {
            self.count -= 1;
            self.duplicates = 0.3;
        }
    }
}

impl<P: Copy + Ord> GoBitswap<P> {
    pub(super) fn new() -> Self {
        GoBitswap {
            peers: BTreeMap::new(),
            front: WantFront::default(),
            groups: PeerGroups { count: 2, duplicates: 0.3, turn: 0 },
            restarted_at: Instant::ZERO,
        }
    }

    /// When all live wants are requested from every peer; `None` while no block is wanted.
    fn idle_at(&self, requester: &Requester<P>) -> Option<Instant> {
        let slowest = self.peers.values().filter_map(|state| state.latency).max();
        let wait = Duration::from_millis(500) + slowest.unwrap_or_default() * 3;
        let from = requester.last_block_at().max(self.restarted_at);
        (!requester.wants().is_empty()).then(|| from + wait)
    }
}

impl<P: Copy + Ord + Debug + Send> RequestStrategy<P> for GoBitswap<P> {
    fn policy(&self) -> ExchangePolicy {
        OTHER_PROGRAMS
    }

    fn request_blocks(&mut self, now: Instant, requester: &mut Requester<P>, _: &mut Totals) {
        self.front.update(requester.wants(), LIVE_MAX);
        if requester.wants().is_empty() {
            return;
        }
        let members = self.peers.iter().filter(|(_, state)| state.is_member);
        let members: Vec<P> = members.map(|(peer, _)| *peer).collect();
        let unrequested = self.front.unrequested(requester.wants());
        if members.is_empty() {
            let all_peers: Vec<P> = self.peers.keys().copied().collect();
            for at in unrequested.into_iter().take(BROADCAST_MAX) {
                request_from_all(requester, now, at, &all_peers);
            }
            return;
        }
        for at in unrequested {
            let groups = self.groups.count.min(members.len());
            let group = self.groups.turn % groups;
            self.groups.turn += 1;
            let start = requester.random_index(groups);
            let group = members.iter().copied().skip((group + start) % groups).step_by(groups);
            request_from_all(requester, now, at, &group.collect::<Vec<P>>());
        }
    }

    fn handle_tick(&mut self, now: Instant, requester: &mut Requester<P>, _: &mut Totals) {
        end_quiet_times(&mut self.peers, now, requester);
        if self.idle_at(requester).is_some_and(|at| at <= now) {
            self.restarted_at = now;
            self.front.update(requester.wants(), LIVE_MAX);
            let all_peers: Vec<P> = self.peers.keys().copied().collect();
            for at in self.front.wants.iter().collect::<Vec<u32>>() {
                request_from_all(requester, now, at, &all_peers);
            }
        }
    }

    fn next_wake(&self, requester: &Requester<P>) -> Option<Instant> {
        let quiet = self.peers.values().filter_map(|state| state.quiet_until);
        quiet.chain(self.idle_at(requester)).min()
    }

    fn handle_connected(&mut self, peer: P) {
        self.peers.insert(peer, BoxoState::default());
    }

    fn handle_disconnected(&mut self, peer: P) {
        self.peers.remove(&peer);
    }

    fn handle_response(&mut self, peer: P, response: Response) {
        match response {
            Response::Block { .. } => self.groups.handle_block(false),
            Response::Duplicate => self.groups.handle_block(true),
            Response::Have | Response::DontHave => {}
        }
        if let Some(state) = self.peers.get_mut(&peer) {
            state.handle_response(response);
        }
    }

    fn can_send(&self, now: Instant, peer: P) -> bool {
        can_send(&self.peers, now, peer)
    }

    /// Bitswap 1.1 has no want-haves.
    fn want_haves(&self, _: &Requester<P>, _: P) -> Option<WantHaves<'_>> {
        None
    }

    fn handle_sent(&mut self, now: Instant, peer: P, requester: &Requester<P>) {
        begin_quiet_time(&mut self.peers, now, peer, requester);
    }
}

fn request_from_all<P: Copy + Ord>(
    requester: &mut Requester<P>,
    now: Instant,
    at: u32,
    peers: &[P],
) {
    for peer in peers {
        if !requester.wants().get(at).requested_from.contains(peer) {
            requester.request(now, at, *peer);
        }
    }
}
