//! The wanted blocks, the answers of each peer about them, and the open requests.
//!
//! [`Requester`] keeps the state and its rules. A [`RequestStrategy`](crate::RequestStrategy)
//! chooses which block to request from which peer.

mod block_counts;
mod lists;
mod peer_blocks;
pub(crate) mod peer_requests;
mod peer_state;
mod policy;
mod progress;
mod provider_search;
mod ready_peers;
mod recent_cids;
pub(crate) mod request_window;
mod silence;
mod want_queue;
mod want_writer;
mod wants;

use std::collections::{BTreeMap, BTreeSet};

use watchfire_content::Cid;
use watchfire_types::{Instant, Rng};

use crate::{Limits, Misbehaviour, Protocol, WantEntry};
use peer_requests::BlockRequest;
use progress::Progress;
use provider_search::ProviderSearch;
use ready_peers::ReadyPeers;
use recent_cids::RecentCids;

pub(crate) use peer_blocks::ProviderHint;
pub use peer_state::PeerState;
pub use policy::{ExchangePolicy, Response, WantHaves};
pub(crate) use silence::ReceivedKind;
pub use wants::{SessionId, Want, Wanted, Wants};
pub(crate) use wants::{URGENT_MAX, other_cids};

/// Blocks that each peer may send before a peer that sends nothing is stalled.
const BLOCKS_BEFORE_STALLED: usize = 16;

/// Priorities start here, below the priorities of urgent blocks.
const PRIORITY_MAX: i32 = i32::MAX - URGENT_MAX as i32;

/// Blocks that were wanted and are remembered. A late answer for older ones is unsolicited.
const RECENTLY_WANTED_MAX: usize = 16 * 1024;

/// The half of a node that requests blocks.
///
/// A strategy reads the wants and the peers here, and calls [`Requester::request`]. Answers,
/// cancels and timeouts have the same effects for every strategy.
#[derive(Debug)]
pub struct Requester<P> {
    pub(crate) limits: Limits,
    policy: ExchangePolicy,
    pub(crate) wants: Wants<P>,
    pub(crate) peers: BTreeMap<P, PeerState>,
    searches: ProviderSearch<P>,
    recently_wanted: RecentCids,
    pub(crate) rng: Rng,
    pub(crate) ready_for_requests: ReadyPeers<P>,
    /// Wants that a peer announced while they were requested from another.
    new_holders: Vec<(u32, P)>,
    /// The peer that receives a request once another has confirmed its cancel.
    pub(crate) reassignments: BTreeMap<u32, P>,
    /// Parts of blocks that arrived, from all peers.
    pub(crate) parts_received: u64,
    /// Peers with messages to send.
    pub(crate) peers_to_update: BTreeSet<P>,
    /// Bytes that are requested from proven peers.
    pub(crate) requested_bytes: usize,
    /// Blocks that are requested from unproven peers.
    pub(crate) unproven_requests: usize,
    /// How many more blocks this node lacks than other leechers do; `None` outside a swarm.
    pub(crate) blocks_behind: Option<usize>,
    /// Sessions that will want further blocks.
    pub(crate) growing_sessions: BTreeSet<SessionId>,
    pub(crate) progress: Progress,
    next_priority: i32,
    /// Not later than the first timeout of a peer. An arrival only delays the timeout.
    next_timeout_at: Option<Instant>,
}

/// The relation of a received block to the wants.
#[derive(Debug, PartialEq)]
pub(crate) enum Arrival {
    Wanted(Vec<SessionId>, Response),
    /// It was wanted before.
    Duplicate,
    /// It was never wanted.
    Unsolicited,
}

impl<P: Copy + Ord> Requester<P> {
    pub(crate) fn new(limits: Limits, policy: ExchangePolicy, seed: u64) -> Self {
        Requester {
            policy,
            wants: Wants::default(),
            peers: BTreeMap::new(),
            searches: ProviderSearch::default(),
            recently_wanted: RecentCids::new(RECENTLY_WANTED_MAX),
            rng: Rng::from_seed(seed),
            ready_for_requests: ReadyPeers::new(),
            new_holders: Vec::new(),
            reassignments: BTreeMap::new(),
            parts_received: 0,
            peers_to_update: BTreeSet::new(),
            requested_bytes: 0,
            unproven_requests: 0,
            blocks_behind: None,
            progress: Progress::new(&limits),
            growing_sessions: BTreeSet::new(),
            next_priority: PRIORITY_MAX,
            next_timeout_at: None,
            limits,
        }
    }

    pub const fn wants(&self) -> &Wants<P> {
        &self.wants
    }

    pub fn peers(&self) -> impl Iterator<Item = (P, &PeerState)> {
        self.peers.iter().map(|(peer, state)| (*peer, state))
    }

    /// When the last wanted block arrived, or the first want was added after there were none.
    pub const fn last_block_at(&self) -> Instant {
        self.progress.last_block_at
    }

    /// A random number below `end`; 0 when that is 0.
    pub fn random_index(&mut self, end: usize) -> usize {
        self.rng.index(end)
    }

    /// Sends a peer its pending messages, with the next outputs.
    pub fn update_peer(&mut self, peer: P) {
        self.peers_to_update.insert(peer);
    }

    pub fn request(&mut self, now: Instant, at: u32, peer: P) {
        let bytes = self.block_bytes(at);
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.request(now, at, bytes);
        let timeout_at = state.next_timeout_at(&self.limits, self.policy);
        let is_counted = !state.is_unproven();
        if let Some(request) = state.requests.get_mut(at) {
            request.is_counted = is_counted;
        }
        self.next_timeout_at = earliest(self.next_timeout_at, timeout_at);
        if self.requested_bytes == 0 && self.unproven_requests == 0 {
            self.progress.delivery.start_sample(now);
        }
        if is_counted {
            self.requested_bytes += bytes;
        } else {
            self.unproven_requests += 1;
        }
        self.wants.close(at);
        self.wants.get_mut(at).requested_from.push(peer);
        self.peers_to_update.insert(peer);
    }

    /// Stops waiting for a silent peer, and sends it no cancel: it may still answer.
    pub fn abandon_request(&mut self, at: u32, peer: P) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let Some(request) = state.remove_request(at) else { return };
        if request.may_be_answered() {
            state.queue.sent_want_haves.insert(at);
            state.counts.late.add(&self.wants.get(at).cid);
        }
        self.release_request(&request);
        self.remove_requested_from(at, peer);
    }

    /// Assumes that a peer lacks a block, unless the peer has announced it.
    pub fn assume_missing(&mut self, at: u32, peer: P) {
        if let Some(state) = self.peers.get_mut(&peer)
            && !state.blocks.has.has(at)
        {
            state.blocks.lacks.insert(at);
        }
    }

    /// Forgets which blocks a peer lacks and which want-haves it was sent, and sends them again.
    pub fn restart_want_haves(&mut self, peer: P) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.blocks.lacks = Default::default();
            state.queue.sent_want_haves = Default::default();
            self.peers_to_update.insert(peer);
        }
    }

    pub(crate) fn handle_connected(&mut self, now: Instant, peer: P, protocol: Protocol) {
        let is_provider = self.searches.take_found_provider(peer);
        self.peers.insert(peer, PeerState::new(now, protocol, &self.limits, is_provider));
        self.note_ready_for_requests(peer);
        self.peers_to_update.insert(peer);
    }

    pub(crate) fn handle_disconnected(&mut self, peer: P) {
        let Some(state) = self.peers.remove(&peer) else { return };
        self.ready_for_requests.remove(&peer);
        self.peers_to_update.remove(&peer);
        for at in state.blocks.has.iter() {
            self.wants.get_mut(at).holders -= 1;
        }
        for (at, request) in state.requests.iter() {
            self.release_request(request);
            self.remove_requested_from(at, peer);
        }
        if self.peers.is_empty() {
            self.next_timeout_at = None;
        }
    }

    /// Whether all blocks that are still wanted are requested, and no further want is expected.
    pub(crate) fn is_endgame(&self) -> bool {
        self.wants.open_len() == 0 && self.growing_sessions.is_empty()
    }

    pub(crate) fn has_no_wants(&self) -> bool {
        self.wants.is_empty()
    }

    pub(crate) fn peer(&self, peer: P) -> Option<&PeerState> {
        self.peers.get(&peer)
    }

    /// Sets how many blocks other leechers lack on average; `None` outside a swarm.
    pub(crate) fn set_blocks_others_lack(&mut self, blocks: Option<usize>) {
        self.blocks_behind = blocks.map(|blocks| self.wants.len().saturating_sub(blocks));
    }

    pub(crate) fn start_session(&mut self) -> SessionId {
        self.searches.start_session()
    }

    pub(crate) fn want(&mut self, now: Instant, session: SessionId, want: Want) {
        if !self.searches.has_session(session) {
            return;
        }
        if self.wants.is_empty() {
            self.progress.start(now);
        }
        if self.wants.add(session, want) {
            self.progress.wanted_total += 1;
            self.searches.note_wanted(now, session);
            self.note_all_ready_for_requests();
            self.peers_to_update.extend(self.peers.keys());
            self.peers.values_mut().for_each(|state| state.queue.is_urgent = true);
        }
    }

    pub(crate) fn cancel_want(&mut self, session: SessionId, cid: &Cid) {
        let Some(at) = self.wants.find_exactly(cid) else { return };
        let sessions = &mut self.wants.get_mut(at).sessions;
        sessions.retain(|other| *other != session);
        if sessions.is_empty() {
            self.forget_want(at, None);
        }
    }

    /// Sets the blocks to request first. They replace the blocks of the previous call.
    pub(crate) fn set_urgent(&mut self, cids: &[Cid]) {
        self.wants.set_urgent(cids);
        self.note_all_ready_for_requests();
    }

    pub(crate) fn stop_session(&mut self, session: SessionId) {
        let is_of = |(_, wanted): &(u32, &Wanted<P>)| wanted.sessions.contains(&session);
        let cids: Vec<Cid> =
            self.wants.iter().filter(is_of).map(|(_, wanted)| wanted.cid.clone()).collect();
        for cid in &cids {
            self.cancel_want(session, cid);
        }
        self.searches.stop_session(session);
        self.growing_sessions.remove(&session);
    }

    /// Sets whether a session will want further blocks.
    pub(crate) fn set_growing(&mut self, session: SessionId, is_growing: bool) {
        if is_growing && self.searches.has_session(session) {
            self.growing_sessions.insert(session);
        } else {
            self.growing_sessions.remove(&session);
        }
    }

    pub(crate) fn missing_blocks(&self, session: SessionId) -> usize {
        self.wants.iter().filter(|(_, wanted)| wanted.sessions.contains(&session)).count()
    }

    /// Something arrived from a peer. Returns whether the peer had been unresponsive.
    pub(crate) fn note_received(&mut self, now: Instant, peer: P, kind: ReceivedKind) -> bool {
        self.parts_received += u64::from(kind != ReceivedKind::NoBlocks);
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        let was_unresponsive = state.silence.is_unresponsive();
        let has_requests = !state.requests.is_empty();
        state.silence.note_received(now, kind, has_requests, self.parts_received);
        if was_unresponsive {
            let timeout_at = state.next_timeout_at(&self.limits, self.policy);
            self.next_timeout_at = earliest(self.next_timeout_at, timeout_at);
            self.note_ready_for_requests(peer);
        }
        was_unresponsive
    }

    /// A peer sent HAVE or DONT_HAVE. Answers about blocks that no session wants are dropped.
    pub(crate) fn handle_presence(
        &mut self,
        now: Instant,
        peer: P,
        cid: &Cid,
        has_block: bool,
    ) -> Option<Response> {
        let state = self.peers.get_mut(&peer)?;
        let at = self.wants.find_exactly(cid)?;
        if has_block && state.requests.is_being_cancelled(at) {
            self.handle_cancel_confirmed(now, at, peer);
            return None;
        }
        if let Some(request) = state.requests.get(at) {
            state.delivery.record_latency(now.since(request.requested_at));
        }
        if has_block {
            // The peer forgets a want-have once it has answered.
            state.queue.sent_want_haves.remove(at);
            state.blocks.lacks.remove(at);
            if state.blocks.has.insert(at) {
                let wanted = self.wants.get_mut(at);
                wanted.holders += 1;
                if !wanted.requested_from.is_empty() {
                    self.new_holders.push((at, peer));
                }
                self.note_ready_for_requests(peer);
            }
            return Some(Response::Have);
        }
        state.blocks.lacks.insert(at);
        if state.blocks.provider_hint != ProviderHint::Likely {
            state.blocks.provider_hint = ProviderHint::Unlikely;
        }
        if state.blocks.has.remove(at) {
            self.wants.get_mut(at).holders -= 1;
        }
        self.note_ready_for_requests(peer);
        if self.cancel_request(at, peer) {
            self.note_all_ready_for_requests();
        }
        let wanted = self.wants.get(at);
        if wanted.holders == 0 && self.peers.values().all(|state| state.blocks.lacks.has(at)) {
            self.searches.note_lacked_by_all(now, &wanted.sessions);
        }
        Some(Response::DontHave)
    }

    pub(crate) fn handle_block(&mut self, now: Instant, peer: P, cid: &Cid, len: usize) -> Arrival {
        let Some(state) = self.peers.get_mut(&peer) else { return Arrival::Unsolicited };
        let Some(at) = self.wants.find(cid) else {
            if state.counts.late.take(cid) {
                return Arrival::Duplicate;
            }
            let was_wanted = self.recently_wanted.has(cid);
            state.counts.add_unrequested(was_wanted);
            return if was_wanted { Arrival::Duplicate } else { Arrival::Unsolicited };
        };
        // The block may answer a cancelled request, and be on its way since then.
        let was_late = state.counts.late.has(cid);
        if was_late {
            state.delivery.extend_sample_back(state.counts.useful_at);
        }
        state.counts.add_useful(now, len);
        state.silence.timeouts = 0;
        let request = state.requests.get(at).filter(|_| !was_late);
        let latency = request.map(|request| now.since(request.requested_at));
        if let Some(latency) = latency {
            state.delivery.record_latency(latency);
        }
        state.delivery.record_block(now, len, &self.limits);
        if state.queue.sent_want_haves.is_empty() && self.policy.resends_want_haves {
            // Some want-haves may wait because the peer remembers a limited number.
            self.peers_to_update.insert(peer);
        }
        self.progress.record_block(now, len, &state.delivery, &self.limits);
        self.note_ready_for_requests(peer);
        let sessions = self.forget_want(at, Some(peer));
        self.searches.note_arrived(now, &sessions);
        Arrival::Wanted(sessions, Response::Block { latency })
    }

    /// The misbehaviour of a peer that sent too many blocks without a request.
    pub(crate) fn misbehaviour(&self, peer: P) -> Option<Misbehaviour> {
        let counts = &self.peers.get(&peer)?.counts;
        let unrequested_max = self.limits.unrequested_blocks_max + counts.useful;
        (counts.unrequested > unrequested_max).then_some(Misbehaviour::Flooded)
    }

    /// A peer sent blocks with CIDs that were never wanted. An honest peer has no reason to.
    pub(crate) fn count_unsolicited(&mut self, peer: P, blocks: u64) -> Option<Misbehaviour> {
        let counts = &mut self.peers.get_mut(&peer)?.counts;
        counts.unsolicited += blocks;
        let is_forged = counts.unsolicited > self.limits.unsolicited_blocks_max;
        (is_forged && counts.was_requested).then_some(Misbehaviour::ForgedBlocks)
    }

    pub(crate) fn handle_providers(&mut self, now: Instant, session: SessionId, peers: &[P]) {
        self.searches.handle_result(now, session, peers, &self.limits);
        if self.policy.resends_want_haves {
            // Answers are lost with the streams that carry them, so request them again.
            let unanswered = self.peers.iter_mut().filter_map(|(peer, state)| {
                let is_unanswered = state.forget_unanswered_want_haves();
                is_unanswered.then_some(*peer)
            });
            self.peers_to_update.extend(unanswered);
        }
        for peer in peers {
            if let Some(state) = self.peers.get_mut(peer) {
                state.blocks.provider_hint = ProviderHint::Likely;
                self.note_ready_for_requests(*peer);
            }
        }
    }

    pub(crate) fn begin_searches(&mut self, now: Instant) -> Vec<(SessionId, Cid)> {
        let wants = &self.wants;
        self.searches.begin_due(now, |session| {
            let lacked = |(_, wanted): &(u32, &Wanted<P>)| {
                wanted.holders == 0
                    && wanted.requested_from.is_empty()
                    && wanted.sessions.contains(&session)
            };
            wants.iter().find(lacked).map(|(_, wanted)| wanted.cid.clone())
        })
    }

    /// Peers that claimed to have requested blocks, and have been silent for too long.
    pub(crate) fn stalled_peers(&mut self, now: Instant) -> Vec<P> {
        let stalled_after = self.limits.stalled_after;
        // If this node's own link takes longer for a few blocks of each peer, no peer is stalled
        // yet.
        let turns = self.progress.time_for(BLOCKS_BEFORE_STALLED * self.peers.len());
        let live = self.wants.live();
        let mut stalled = Vec::new();
        for (peer, state) in &mut self.peers {
            let Some(since) = state.silence.unanswered_since else { continue };
            if !live.has_any(&state.blocks.has) {
                state.silence.unanswered_since = None;
            } else if since + stalled_after <= now {
                if now.since(state.silence.received_at) < turns {
                    state.silence.unanswered_since = Some(now);
                } else {
                    stalled.push(*peer);
                }
            }
        }
        stalled
    }

    /// New holders of wants that are requested from others, since the last call.
    pub(crate) fn take_new_holders(&mut self) -> Vec<(u32, P)> {
        std::mem::take(&mut self.new_holders)
    }

    /// Stops searching for providers while nothing is wanted.
    pub(crate) fn pause_searches(&mut self) {
        self.searches.pause();
    }

    /// Computes the next timeout, after the strategy has handled those that were due.
    pub(crate) fn update_next_timeout(&mut self) {
        let timeouts = self
            .peers
            .values()
            .filter_map(|state| state.next_timeout_at(&self.limits, self.policy));
        self.next_timeout_at = timeouts.min();
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        earliest(self.next_timeout_at, self.searches.next_wake())
    }

    pub(crate) fn has_urgent(&self, peer: P) -> bool {
        self.peers.get(&peer).is_some_and(|state| state.queue.is_urgent)
    }

    /// Cancels a request. Returns whether there was one.
    pub(crate) fn cancel_request(&mut self, at: u32, peer: P) -> bool {
        let cid = &self.wants.get(at).cid;
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        let Some(request) = state.remove_request(at) else { return false };
        if request.may_be_answered() {
            state.queue.cancels.push(cid.clone());
            state.queue.just_cancelled.insert(at);
            state.counts.late.add(cid);
            state.queue.is_urgent = true;
            self.peers_to_update.insert(peer);
        }
        self.release_request(&request);
        self.remove_requested_from(at, peer);
        true
    }

    /// Moves a request to another peer. The first peer cancels it if the block is still queued, and
    /// confirms. Only then is it sent to the other, so that the block does not arrive twice.
    pub(crate) fn reassign(&mut self, now: Instant, at: u32, peer: P, to: P) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let Some(request) = state.requests.get_mut(at) else { return };
        request.cancel_sent_at = Some(now);
        state.queue.cancels_if_queued.push(at);
        state.queue.is_urgent = true;
        self.peers_to_update.insert(peer);
        self.reassignments.insert(at, to);
    }

    /// A peer confirmed that it will not send a block.
    fn handle_cancel_confirmed(&mut self, now: Instant, at: u32, peer: P) {
        let request = self.peers.get_mut(&peer).and_then(|state| state.remove_request(at));
        let Some(request) = request else { return };
        self.release_request(&request);
        self.remove_requested_from(at, peer);
        let Some(to) = self.reassignments.remove(&at) else { return };
        let Some(state) = self.peers.get(&to) else { return };
        let is_free = self.wants.get(at).requested_from.is_empty();
        let can_send = state.blocks.has.has(at) && !state.silence.is_unresponsive();
        if is_free && can_send && state.has_room(&self.limits) {
            self.request(now, at, to);
        }
    }

    /// Sends a request again, because the want or its answer may be lost. A peer that still has the
    /// want ignores the second one.
    pub(crate) fn retry(&mut self, at: u32, peer: P) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        if state.repeat(at) {
            state.silence.was_retried = true;
            self.peers_to_update.insert(peer);
        }
    }

    /// Sends a request again, because its block has become urgent: the peer changes the priority.
    pub(crate) fn raise(&mut self, at: u32, peer: P) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let is_raisable =
            |request: &BlockRequest| !request.is_urgent && request.cancel_sent_at.is_none();
        if state.requests.get(at).is_some_and(is_raisable) && state.repeat(at) {
            self.peers_to_update.insert(peer);
        }
    }

    fn remove_requested_from(&mut self, at: u32, peer: P) {
        let requested_from = &mut self.wants.get_mut(at).requested_from;
        requested_from.retain(|other| *other != peer);
        if requested_from.is_empty() {
            self.wants.reopen(at);
            self.note_all_ready_for_requests();
        }
    }

    /// Removes a want, because the block arrived `from` a peer or no session wants it any more.
    /// Every other peer that has the want gets a cancel. The peer itself gets one if it was sent the
    /// want twice: it may have the second one still, and would send the block again.
    fn forget_want(&mut self, at: u32, from: Option<P>) -> Vec<SessionId> {
        let wanted = self.wants.remove(at);
        self.reassignments.remove(&at);
        for (peer, state) in &mut self.peers {
            state.blocks.forget(at);
            state.queue.just_cancelled.remove(at);
            let had_want_have = state.queue.sent_want_haves.remove(at);
            let request = state.remove_request(at);
            if let Some(request) = &request {
                if request.is_counted {
                    self.requested_bytes -= request.bytes;
                } else {
                    self.unproven_requests -= 1;
                }
                self.ready_for_requests.insert(*peer, state.is_unproven());
            }
            let is_late = || state.counts.late.has(&wanted.cid);
            let was_requested = match &request {
                Some(request) if from == Some(*peer) => {
                    request.is_sent && (request.is_repeated || is_late())
                }
                Some(request) => request.may_be_answered(),
                None => false,
            };
            if was_requested || (had_want_have && from != Some(*peer)) {
                state.queue.cancels.push(wanted.cid.clone());
                if was_requested {
                    state.counts.late.add(&wanted.cid);
                } else {
                    state.counts.cancelled_want_haves += 1;
                }
                state.queue.is_urgent |= was_requested;
                self.peers_to_update.insert(*peer);
            }
        }
        self.recently_wanted.add(&wanted.cid);
        if self.wants.is_empty() {
            self.progress.finish();
        }
        wanted.sessions
    }

    /// The length of a wanted block, or the estimate if it is unknown.
    pub(crate) fn block_bytes(&self, at: u32) -> usize {
        let len = self.wants.get(at).len;
        len.map_or(self.limits.block_bytes_estimate, |len| len as usize)
    }

    /// Subtracts a request from the sums over all peers.
    const fn release_request(&mut self, request: &BlockRequest) {
        if request.is_counted {
            self.requested_bytes -= request.bytes;
        } else {
            self.unproven_requests -= 1;
        }
    }

    pub(crate) fn note_ready_for_requests(&mut self, peer: P) {
        if let Some(state) = self.peers.get(&peer) {
            self.ready_for_requests.insert(peer, state.is_unproven());
        }
    }

    pub(crate) fn note_all_ready_for_requests(&mut self) {
        for (peer, state) in &self.peers {
            self.ready_for_requests.insert(*peer, state.is_unproven());
        }
    }

    fn take_priority(&mut self) -> i32 {
        let priority = self.next_priority;
        let next = priority.checked_sub(1).filter(|next| *next > 0);
        self.next_priority = next.unwrap_or(PRIORITY_MAX);
        priority
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

fn cancel_entry(cid: Cid) -> WantEntry {
    let kind = crate::WantKind::Block;
    WantEntry { cid, priority: 0, cancel: true, kind, send_dont_have: false }
}
