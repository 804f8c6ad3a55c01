//! Chooses the peer to serve next, and the blocks to send it.
//!
//! Without it, blocks leave in the order of the requests. Then a peer that requests a whole file
//! first takes the uplink for itself: at 1 MB a second, its 1,024 wants for blocks of 256 KiB keep
//! it busy for more than four minutes, while 20 others wait. They also wait for the same blocks. A
//! seeder that sends each of them the block that it asked for first sends one block 20 times,
//! although the first receiver could pass it on 19 times.
//!
//! So the ledger decides twice, each time that there is room in the uplink (`uplink.rs`):
//!
//! - **Which peer.** Peers take turns, one message each, in an order that each node draws at
//!   random: with the same order on every node, all would serve the same few peers first. A peer
//!   whose next blocks include one that was sent to nobody, or a short one, comes before its turn,
//!   because it can pass the block on. If there is no such peer, the peer that lacks clearly more
//!   than the one in turn comes first, once a round, so that all finish together.
//! - **Which blocks.** Of the first 16 in the peer's queue, the block that was sent to the fewest
//!   peers. A turn that was earned by a new block carries no other. Short blocks come first,
//!   however often they were sent: they are inner nodes, and a leecher learns from them what to
//!   request.
//!
//! A seeder of at least four leechers does a third thing: it holds back blocks that it has just
//! sent (`sent_blocks.rs`). The receivers have them and serve them, if they serve each other at
//! all. The seeder learns that from cancels: a want that is cancelled while its block is queued was
//! served elsewhere. For example, with 4 blocks a second and 20 leechers, the 25 seconds for a page
//! of 100 blocks become 50 when each block is sent a second time.
//!
//! The bounds, with the defaults: 1,024 wants of one peer are kept; further ones are answered with
//! DONT_HAVE if they ask for an answer. 6 MiB of blocks are in memory for all peers together, or
//! one block if it is larger, and they count until they are sent, even if their peer left
//! (`abandoned_reads.rs`). At most 2,048 presences wait for one peer. No peer starves: one that was
//! passed over more often than twice the number of waiting peers is next, the first block of a
//! queue is passed over 8 times at most, and a block is held back for at most 3 seconds after it
//! was last sent.

mod abandoned_reads;
mod account;
mod sent_blocks;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::ops::Bound::{Excluded, Included, Unbounded};

use watchfire_content::Cid;
use watchfire_types::{Instant, Rng};

use crate::limits::SWARM_LEECHERS_MIN;
use crate::requester::other_cids;
use crate::{Limits, Payload, Presence, Totals, WantEntry, WantKind};
use abandoned_reads::AbandonedReads;
use account::{Account, State};
use sent_blocks::SentBlocks;

/// The half of a node that sends blocks to the peers that want them.
///
/// It remembers a bounded wantlist of each peer. A block is read only if the peer's send buffer has
/// room for it. Peers take turns, one message each.
#[derive(Debug)]
pub(crate) struct Ledger<P, B> {
    limits: Limits,
    serves_rarest_first: bool,
    accounts: BTreeMap<P, Account<B>>,
    /// The peers that want each block.
    wanters: BTreeMap<Cid, Vec<P>>,
    /// Blocks that are being looked up in the store, and for which peers.
    lookups: BTreeMap<Cid, Vec<P>>,
    /// Peers with queued blocks, for which no blocks are being read.
    ready: BTreeSet<(u64, P)>,
    /// The peer that had the last turn.
    turn: Option<(u64, P)>,
    /// Decides the order of peers. With the same order on every node, all would serve the same few.
    rng: Rng,
    /// Peers with messages to send.
    pub peers_to_update: BTreeSet<P>,
    /// Bytes that are being read for connected peers, or were read and are unsent.
    reading_bytes: usize,
    abandoned_reads: AbandonedReads<P>,
    sent_blocks: SentBlocks,
    /// When to choose a peer again, if all queued blocks are left to other peers until then.
    pub held_back_until: Option<Instant>,
}

/// Most presences in one message; others follow in the next.
const PRESENCES_PER_MESSAGE: usize = 1024;

/// Usual bytes of a presence in a message.
const PRESENCE_BYTES: usize = 48;

/// Answers to the wants of a peer.
#[derive(Debug)]
pub(crate) struct Answers<B> {
    pub presences: Vec<Presence>,
    pub blocks: Vec<B>,
    /// Bytes of blocks that are still queued for the peer.
    pub pending_bytes: usize,
}

impl<P: Copy + Ord, B: Payload> Ledger<P, B> {
    pub(crate) fn new(limits: Limits, serves_rarest_first: bool, seed: u64) -> Self {
        Ledger {
            limits,
            serves_rarest_first,
            accounts: BTreeMap::new(),
            wanters: BTreeMap::new(),
            lookups: BTreeMap::new(),
            ready: BTreeSet::new(),
            turn: None,
            rng: Rng::from_seed(!seed),
            peers_to_update: BTreeSet::new(),
            reading_bytes: 0,
            abandoned_reads: AbandonedReads::new(),
            sent_blocks: SentBlocks::new(),
            held_back_until: None,
        }
    }

    pub(crate) fn handle_connected(&mut self, peer: P, has_presences: bool) {
        let account = Account::new(has_presences, self.rng.next_u64());
        self.accounts.insert(peer, account);
    }

    pub(crate) fn handle_disconnected(&mut self, peer: P) {
        let Some(account) = self.accounts.remove(&peer) else { return };
        for cid in account.wants.keys() {
            self.remove_wanter(cid, peer);
        }
        self.reading_bytes -= account.batch.bytes;
        self.ready.remove(&(account.turn_key, peer));
        self.abandoned_reads.add(peer, account.batch.reading);
        self.peers_to_update.remove(&peer);
    }

    pub(crate) fn wants_of(&self, peer: P) -> usize {
        self.accounts.get(&peer).map_or(0, |account| account.wants.len())
    }

    /// Handles the wantlist of a message. Returns the blocks to look up in the store.
    pub(crate) fn handle_wants(
        &mut self,
        peer: P,
        full: bool,
        entries: Vec<WantEntry>,
        totals: &mut Totals,
    ) -> Vec<Cid> {
        let mut to_look_up = Vec::new();
        let Some(account) = self.accounts.get(&peer) else { return to_look_up };
        if full {
            let listed: BTreeSet<&Cid> =
                entries.iter().filter(|entry| !entry.cancel).map(|entry| &entry.cid).collect();
            let gone: Vec<Cid> =
                account.wants.keys().filter(|cid| !listed.contains(cid)).cloned().collect();
            gone.iter().for_each(|cid| self.cancel(peer, cid));
        }
        for entry in entries {
            if entry.cancel && entry.send_dont_have {
                self.cancel_if_queued(peer, &entry.cid);
            } else if entry.cancel {
                self.cancel(peer, &entry.cid);
            } else if self.want(peer, &entry, totals) {
                let peers = self.lookups.entry(entry.cid.clone()).or_default();
                if peers.is_empty() {
                    to_look_up.push(entry.cid);
                }
                peers.push(peer);
            }
        }
        to_look_up
    }

    /// Handles a want. Returns whether to look the block up.
    fn want(&mut self, peer: P, entry: &WantEntry, totals: &mut Totals) -> bool {
        let Some(account) = self.accounts.get_mut(&peer) else { return false };
        let is_new = !account.wants.contains_key(&entry.cid);
        if is_new && account.wants.len() >= self.limits.wants_per_peer_max {
            totals.rejected_wants += 1;
            if entry.send_dont_have {
                account.queue_presence(&entry.cid, false, &self.limits);
                self.peers_to_update.insert(peer);
            }
            return false;
        }
        if is_new {
            let wanters = self.wanters.entry(entry.cid.clone()).or_default();
            if let Err(at) = wanters.binary_search(&peer) {
                wanters.insert(at, peer);
            }
        }
        account.want(entry)
    }

    fn cancel(&mut self, peer: P, cid: &Cid) {
        let Some(account) = self.accounts.get_mut(&peer) else { return };
        if account.is_queued(cid) {
            self.sent_blocks.note_cancelled(cid);
        }
        if account.forget(cid) {
            self.remove_wanter(cid, peer);
        }
        self.update_ready(peer);
    }

    /// Cancels a want if its block is still queued, and confirms with HAVE. The peer can then
    /// request it elsewhere without a duplicate.
    fn cancel_if_queued(&mut self, peer: P, cid: &Cid) {
        let Some(account) = self.accounts.get_mut(&peer) else { return };
        if account.is_queued(cid) {
            account.queue_presence(cid, true, &self.limits);
            account.is_urgent = true;
            self.peers_to_update.insert(peer);
            self.cancel(peer, cid);
        }
    }

    fn remove_wanter(&mut self, cid: &Cid, peer: P) {
        let Some(wanters) = self.wanters.get_mut(cid) else { return };
        if let Ok(at) = wanters.binary_search(&peer) {
            wanters.remove(at);
        }
        if wanters.is_empty() {
            self.wanters.remove(cid);
        }
    }

    /// A lookup ended: the length of the block, or `None` if the store lacks it.
    pub(crate) fn handle_lookup(&mut self, cid: &Cid, len: Option<usize>) {
        let peers = self.lookups.remove(cid).unwrap_or_default();
        self.settle_wants(cid, len, &peers);
    }

    pub(crate) fn peers_of_lookup(&self, cid: &Cid) -> &[P] {
        self.lookups.get(cid).map_or(&[], Vec::as_slice)
    }

    /// A lookup ends later. Until then, a want of another peer begins a lookup of its own.
    pub(crate) fn defer_lookup(&mut self, cid: &Cid) {
        self.lookups.remove(cid);
    }

    /// A lookup ended: the store lacks the block and can obtain it. Want-haves are answered with HAVE.
    /// Returns whether no peer waits for the block itself.
    pub(crate) fn handle_obtainable(&mut self, cid: &Cid) -> bool {
        let peers = self.lookups.get_mut(cid);
        let Some(peers) = peers else { return true };
        let accounts = &self.accounts;
        let wants_presence = |peer: &P| {
            let account = accounts.get(peer).filter(|account| account.has_presences);
            let wanted = account.and_then(|account| account.wants.get(cid));
            wanted.is_none_or(|wanted| wanted.kind == WantKind::Have)
        };
        let answered: Vec<P> = peers.iter().copied().filter(&wants_presence).collect();
        peers.retain(|peer| !wants_presence(peer));
        let is_answered = peers.is_empty();
        if is_answered {
            self.lookups.remove(cid);
        }
        // No block is that long, so none is queued.
        self.settle_wants(cid, Some(usize::MAX), &answered);
        is_answered
    }

    /// A block is in the store from now on, for the peers that `is_for` selects.
    pub(crate) fn handle_stored(&mut self, cid: &Cid, len: usize, is_for: impl Fn(P) -> bool) {
        if self.wanters.is_empty() {
            return;
        }
        for cid in other_cids(cid).iter().chain([cid]) {
            if let Some(wanters) = self.wanters.get(cid) {
                let wanters: Vec<P> =
                    wanters.iter().copied().filter(|peer| is_for(*peer)).collect();
                self.settle_wants(cid, Some(len), &wanters);
            }
        }
    }

    /// The lookups of a block end for the peers that `is_for` selects: the store lacks it.
    pub(crate) fn handle_unavailable(&mut self, cid: &Cid, is_for: impl Fn(P) -> bool) {
        let Some(wanters) = self.wanters.get(cid) else { return };
        let wanters: Vec<P> = wanters.iter().copied().filter(|peer| is_for(*peer)).collect();
        self.settle_wants(cid, None, &wanters);
    }

    fn settle_wants(&mut self, cid: &Cid, len: Option<usize>, peers: &[P]) {
        let mut answered = Vec::new();
        for &peer in peers {
            let Some(account) = self.accounts.get_mut(&peer) else { continue };
            let Some(wanted) = account.wants.get(cid) else { continue };
            let is_open = matches!(wanted.state, State::LookingUp | State::Absent);
            match len {
                Some(len) if is_open => {
                    let is_inline =
                        len <= self.limits.inline_block_bytes_max || !account.has_presences;
                    if wanted.kind == WantKind::Block || is_inline {
                        account.queue(cid, len);
                        self.update_ready(peer);
                    } else {
                        account.queue_presence(cid, true, &self.limits);
                        account.forget(cid);
                        self.peers_to_update.insert(peer);
                        answered.push(peer);
                    }
                }
                None if wanted.state == State::LookingUp => {
                    let is_reported = account.mark_absent(cid, &self.limits);
                    self.peers_to_update.extend(is_reported.then_some(peer));
                }
                _ => {}
            }
        }
        if answered.is_empty() {
            return;
        }
        answered.sort_unstable();
        let Some(wanters) = self.wanters.get_mut(cid) else { return };
        wanters.retain(|peer| answered.binary_search(peer).is_err());
        if wanters.is_empty() {
            self.wanters.remove(cid);
        }
    }

    fn update_ready(&mut self, peer: P) {
        let Some(account) = self.accounts.get(&peer) else { return };
        let turn = (account.turn_key, peer);
        if account.is_ready() {
            self.ready.insert(turn)
        } else {
            self.ready.remove(&turn)
        };
    }

    pub(crate) fn has_ready_peer(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Peers with queued blocks that wait for their turn, and the bytes of these blocks.
    pub(crate) fn waiting_peers(&self) -> impl Iterator<Item = (P, usize)> {
        let account = |peer: P| self.accounts.get(&peer).map(|it| (peer, it.queued_bytes));
        self.ready.iter().filter_map(move |(_, peer)| account(*peer))
    }

    pub(crate) const fn reading_bytes(&self) -> usize {
        self.reading_bytes
    }

    /// The next peer to serve, and the blocks to read for it. `room` is the room in a peer's send
    /// buffer, `missing` how many blocks a peer lacks according to lists.
    pub(crate) fn read_next(
        &mut self,
        now: Instant,
        bytes_max: usize,
        room: impl Fn(P) -> usize,
        missing: impl Fn(P) -> Option<usize>,
        is_seeder: bool,
    ) -> Option<(P, Vec<Cid>)> {
        let held = self.reading_bytes + self.abandoned_reads.bytes;
        let left = self.limits.reading_bytes_max.saturating_sub(held);
        let bytes_max = bytes_max.min(left);
        if bytes_max == 0 {
            return None;
        }
        let turn = self.next_turn(now, &room, missing, is_seeder)?;
        let peer = turn.1;
        let account = self.accounts.get_mut(&peer)?;
        let bytes_max = bytes_max.min(room(peer)).min(self.limits.message_bytes_max);
        let is_fresh_first = self.serves_rarest_first;
        let sent = |cid: &Cid| if is_fresh_first { self.sent_blocks.count(cid) } else { 0 };
        // Only a block that is alone may exceed the limit.
        if held > 0 && account.next_len(sent) > left {
            return None;
        }
        let cids = account.next_batch(bytes_max, sent);
        self.turn = Some(turn);
        for cid in &cids {
            self.sent_blocks.add(now, cid);
        }
        self.reading_bytes += account.batch.bytes;
        self.ready.remove(&turn);
        Some((peer, cids))
    }

    /// The peer to serve next, of those with room. A peer whose next blocks include one that was
    /// never sent comes first, because it can pass the block on. Then, once a round, comes the peer
    /// that is furthest behind. No peer is passed over for ever.
    fn next_turn(
        &mut self,
        now: Instant,
        room: impl Fn(P) -> usize,
        missing: impl Fn(P) -> Option<usize>,
        is_seeder: bool,
    ) -> Option<(u64, P)> {
        let after = self.turn.map_or(Unbounded, Excluded);
        let up_to = self.turn.map_or(Unbounded, Included);
        let turns =
            self.ready.range((after, Unbounded)).chain(self.ready.range((Unbounded, up_to)));
        let mut in_turn = turns.copied().filter(|(_, peer)| room(*peer) > 0);
        let first = in_turn.next()?;
        if !self.serves_rarest_first {
            return Some(first);
        }
        let passed_over_max = 2 * self.ready.len() as u32;
        let is_held_back = |peer: P| is_seeder && self.held_back_until_for(now, peer).is_some();
        let is_next = |(_, peer): &(u64, P)| {
            self.accounts.get(peer).is_some_and(|account| {
                account.has_fresh(|cid| self.sent_blocks.count(cid) > 0)
                    || (account.passed_over > passed_over_max && !is_held_back(*peer))
            })
        };
        let mut all: Vec<(u64, P)> = Vec::new();
        let fresh = Some(first).filter(is_next).or_else(|| {
            all = once(first).chain(in_turn).collect();
            all.iter().copied().find(is_next)
        });
        let next = match fresh {
            Some(next) => next,
            None => {
                if is_seeder && self.is_crowded(&missing) {
                    all = self.without_held_back(now, all);
                }
                let (first, others) = all.split_first()?;
                self.furthest_behind(*first, others, missing)
            }
        };
        if next != first
            && let Some(account) = self.accounts.get_mut(&first.1)
        {
            account.passed_over += 1;
        }
        if let Some(account) = self.accounts.get_mut(&next.1) {
            account.passed_over = 0;
            account.is_favoured = next != first;
        }
        Some(next)
    }

    /// Whether enough leechers are connected to have blocks for each other. Most of them may want
    /// nothing from this node now.
    fn is_crowded(&self, missing: impl Fn(P) -> Option<usize>) -> bool {
        let lacks = |(peer, account): &(&P, &Account<B>)| {
            !account.wants.is_empty() || missing(**peer).is_some_and(|missing| missing > 0)
        };
        self.accounts.iter().filter(lacks).take(SWARM_LEECHERS_MIN).count() == SWARM_LEECHERS_MIN
    }

    /// The peers whose next block is not left to other peers.
    fn without_held_back(&mut self, now: Instant, mut turns: Vec<(u64, P)>) -> Vec<(u64, P)> {
        let until = turns.iter().filter_map(|(_, peer)| self.held_back_until_for(now, *peer)).min();
        turns.retain(|(_, peer)| self.held_back_until_for(now, *peer).is_none());
        self.held_back_until = until.filter(|_| turns.is_empty());
        turns
    }

    /// Until when the next block of a peer is left to other peers.
    fn held_back_until_for(&self, now: Instant, peer: P) -> Option<Instant> {
        let cid = self.accounts.get(&peer)?.next_deferrable(|cid| self.sent_blocks.count(cid))?;
        self.sent_blocks.held_back_until(cid).filter(|until| *until > now)
    }

    /// The peer that lacks clearly more than the first, and has had its own turn since it was last
    /// served early. So peers finish together, and their uplinks are used to the end.
    fn furthest_behind(
        &self,
        first: (u64, P),
        others: &[(u64, P)],
        missing: impl Fn(P) -> Option<usize>,
    ) -> (u64, P) {
        let lacks = |peer: P| missing(peer).unwrap_or_else(|| self.wants_of(peer));
        let lacked = lacks(first.1);
        let (mut furthest, mut most) = (first, lacked + lacked / 8);
        for &turn in others {
            let is_favoured = self.accounts.get(&turn.1).is_none_or(|account| account.is_favoured);
            let lacked = if is_favoured { 0 } else { lacks(turn.1) };
            if lacked > most {
                (furthest, most) = (turn, lacked);
            }
        }
        furthest
    }

    /// The answer to a read: the block, or `None` if it cannot be read.
    pub(crate) fn handle_read(&mut self, peer: P, cid: &Cid, block: Option<B>) {
        let read = self.accounts.get_mut(&peer).and_then(|account| {
            account.read(cid, block, &self.limits).map(|released| (account, released))
        });
        let Some((account, released)) = read else {
            // An earlier connection of the peer may have requested it. Either answer serves both.
            return self.abandoned_reads.read(peer, cid);
        };
        self.reading_bytes -= released;
        if account.batch.is_complete() || account.is_urgent {
            self.peers_to_update.insert(peer);
        }
        self.update_ready(peer);
    }

    pub(crate) fn has_urgent(&self, peer: P) -> bool {
        let account = self.accounts.get(&peer);
        account.is_some_and(|account| account.is_urgent || account.batch.is_complete())
    }

    /// The next answers for a peer, in about `room_bytes` or a single block, and whether there are
    /// more. The blocks count as sent.
    pub(crate) fn take_answers(&mut self, peer: P, room_bytes: usize) -> (Answers<B>, bool) {
        let Some(account) = self.accounts.get_mut(&peer) else {
            return (
                Answers { presences: Vec::new(), blocks: Vec::new(), pending_bytes: 0 },
                false,
            );
        };
        let presences_max = (room_bytes / PRESENCE_BYTES).clamp(1, PRESENCES_PER_MESSAGE);
        let presences = account.take_presences(presences_max);
        let presences_len: usize = presences.iter().map(Presence::encoded_len).sum();
        let bytes_before = account.batch.bytes;
        let blocks = account.take_blocks(room_bytes.saturating_sub(presences_len));
        self.reading_bytes -= bytes_before - account.batch.bytes;
        let has_more = account.has_presences_left() || account.batch.is_complete();
        let pending_bytes = account.queued_bytes;
        let mut sent = Vec::new();
        for (cid, _) in &blocks {
            if account.forget(cid) {
                sent.push(cid.clone());
            }
        }
        for cid in &sent {
            self.remove_wanter(cid, peer);
        }
        let blocks = blocks.into_iter().map(|(_, block)| block).collect();
        self.update_ready(peer);
        (Answers { presences, blocks, pending_bytes }, has_more)
    }
}
