//! Whom to serve next.

mod abandoned;
mod account;
mod sent;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::ops::Bound::{Excluded, Included, Unbounded};

use content::Cid;
use vocab::Instant;

use crate::asking::other_names;
use crate::dice::Dice;
use crate::{Behaviour, Limits, Payload, Presence, Totals, WantEntry, WantKind};
use abandoned::Abandoned;
use account::{Account, State};
use sent::Sent;

/// The half of a node that gives blocks to those who want them.
///
/// Of each peer it remembers a bounded wantlist. A block is read only for a peer whose pipe has room for
/// it; peers take turns, a message each.
#[derive(Debug)]
pub(crate) struct Ledger<P, B> {
    limits: Limits,
    behaviour: Behaviour,
    accounts: BTreeMap<P, Account<B>>,
    /// Who wants each block.
    wanters: BTreeMap<Cid, Vec<P>>,
    /// Blocks that the store was asked about, and for whom.
    looking: BTreeMap<Cid, Vec<P>>,
    /// Peers with blocks queued, and none being read for them.
    ready: BTreeSet<(u64, P)>,
    /// Whose turn it was.
    turn: Option<(u64, P)>,
    /// Decides who comes after whom. Were that the same everywhere, all would serve the same few first.
    dice: Dice,
    /// Peers to whom something is to be told.
    pub touched: BTreeSet<P>,
    /// For those who are here.
    reading_bytes: usize,
    abandoned: Abandoned<P>,
    sent: Sent,
    /// When to look again for whom to read, where all that is wanted is left to others until then.
    pub held_until: Option<Instant>,
}

/// Presences in one message; others follow in the next.
const PRESENCES_PER_MESSAGE: usize = 1024;

/// So many who lack something are sure to have something for one another.
const CROWD_MIN: usize = 4;

/// What a presence usually takes in a message.
const PRESENCE_BYTES: usize = 48;

/// What a peer is to be told of its wants.
#[derive(Debug)]
pub(crate) struct Answers<B> {
    pub presences: Vec<Presence>,
    pub blocks: Vec<B>,
    /// Bytes of blocks that it still has to wait for.
    pub pending_bytes: usize,
}

impl<P: Copy + Ord, B: Payload> Ledger<P, B> {
    pub(crate) fn new(limits: Limits, behaviour: Behaviour, seed: u64) -> Self {
        Ledger {
            limits,
            behaviour,
            accounts: BTreeMap::new(),
            wanters: BTreeMap::new(),
            looking: BTreeMap::new(),
            ready: BTreeSet::new(),
            turn: None,
            dice: Dice::new(!seed),
            touched: BTreeSet::new(),
            reading_bytes: 0,
            abandoned: Abandoned::new(),
            sent: Sent::new(),
            held_until: None,
        }
    }

    pub(crate) fn connected(&mut self, peer: P, has_presences: bool) {
        let account = Account::new(has_presences, self.dice.throw());
        self.accounts.insert(peer, account);
    }

    pub(crate) fn disconnected(&mut self, peer: P) {
        let Some(account) = self.accounts.remove(&peer) else { return };
        for cid in account.wants.keys() {
            self.no_longer_wanted_by(cid, peer);
        }
        self.reading_bytes -= account.batch.bytes;
        self.ready.remove(&(account.seat, peer));
        self.abandoned.add(peer, account.batch.reading);
        self.touched.remove(&peer);
    }

    pub(crate) fn wants_of(&self, peer: P) -> usize {
        self.accounts.get(&peer).map_or(0, |account| account.wants.len())
    }

    /// What a peer's message wants. The blocks that the store is to be asked about.
    pub(crate) fn wanted(
        &mut self,
        peer: P,
        full: bool,
        entries: Vec<WantEntry>,
        totals: &mut Totals,
    ) -> Vec<Cid> {
        let mut looks = Vec::new();
        let Some(account) = self.accounts.get(&peer) else { return looks };
        if full {
            let listed: BTreeSet<&Cid> =
                entries.iter().filter(|entry| !entry.cancel).map(|entry| &entry.cid).collect();
            let gone: Vec<Cid> =
                account.wants.keys().filter(|cid| !listed.contains(cid)).cloned().collect();
            gone.iter().for_each(|cid| self.cancelled(peer, cid));
        }
        for entry in entries {
            if entry.cancel && entry.send_dont_have {
                self.returned(peer, &entry.cid);
            } else if entry.cancel {
                self.cancelled(peer, &entry.cid);
            } else if self.want(peer, &entry, totals) {
                let peers = self.looking.entry(entry.cid.clone()).or_default();
                if peers.is_empty() {
                    looks.push(entry.cid);
                }
                peers.push(peer);
            }
        }
        looks
    }

    /// Whether the store is to be asked about the block.
    fn want(&mut self, peer: P, entry: &WantEntry, totals: &mut Totals) -> bool {
        let Some(account) = self.accounts.get_mut(&peer) else { return false };
        let is_new = !account.wants.contains_key(&entry.cid);
        if is_new && account.wants.len() >= self.limits.wants_per_peer_max {
            totals.wants_refused += 1;
            if entry.send_dont_have {
                account.tell(&entry.cid, false, &self.limits);
                self.touched.insert(peer);
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

    fn cancelled(&mut self, peer: P, cid: &Cid) {
        let Some(account) = self.accounts.get_mut(&peer) else { return };
        if account.is_queued(cid) {
            self.sent.taken_back(cid);
        }
        if account.forget(cid) {
            self.no_longer_wanted_by(cid, peer);
        }
        self.is_ready_or_not(peer);
    }

    /// A peer takes a want back if it still waits, and is told of it: then it can be had elsewhere, and does not come
    /// twice.
    fn returned(&mut self, peer: P, cid: &Cid) {
        let Some(account) = self.accounts.get_mut(&peer) else { return };
        if account.is_queued(cid) {
            account.tell(cid, true, &self.limits);
            account.is_urgent = true;
            self.touched.insert(peer);
            self.cancelled(peer, cid);
        }
    }

    fn no_longer_wanted_by(&mut self, cid: &Cid, peer: P) {
        let Some(wanters) = self.wanters.get_mut(cid) else { return };
        if let Ok(at) = wanters.binary_search(&peer) {
            wanters.remove(at);
        }
        if wanters.is_empty() {
            self.wanters.remove(cid);
        }
    }

    /// The store said how long the block is, or that it has none.
    pub(crate) fn found(&mut self, cid: &Cid, len: Option<usize>) {
        let peers = self.looking.remove(cid).unwrap_or_default();
        self.settle_wants(cid, len, &peers);
    }

    /// A block is in the store from now on.
    pub(crate) fn have(&mut self, cid: &Cid, len: usize) {
        if self.wanters.is_empty() {
            return;
        }
        for name in other_names(cid).iter().chain([cid]) {
            if let Some(wanters) = self.wanters.get(name).cloned() {
                self.settle_wants(name, Some(len), &wanters);
            }
        }
    }

    fn settle_wants(&mut self, cid: &Cid, len: Option<usize>, peers: &[P]) {
        let mut answered = Vec::new();
        for &peer in peers {
            let Some(account) = self.accounts.get_mut(&peer) else { continue };
            let Some(wanted) = account.wants.get(cid) else { continue };
            let is_open = matches!(wanted.state, State::Looking | State::Absent);
            match len {
                Some(len) if is_open => {
                    let is_gift = len <= self.limits.gift_bytes_max || !account.has_presences;
                    if wanted.kind == WantKind::Block || is_gift {
                        account.queue(cid, len);
                        self.is_ready_or_not(peer);
                    } else {
                        account.tell(cid, true, &self.limits);
                        account.forget(cid);
                        self.touched.insert(peer);
                        answered.push(peer);
                    }
                }
                None if wanted.state == State::Looking => {
                    let is_told = account.is_absent(cid, &self.limits);
                    self.touched.extend(is_told.then_some(peer));
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

    fn is_ready_or_not(&mut self, peer: P) {
        let Some(account) = self.accounts.get(&peer) else { return };
        let turn = (account.seat, peer);
        if account.is_ready() {
            self.ready.insert(turn)
        } else {
            self.ready.remove(&turn)
        };
    }

    pub(crate) fn is_anyone_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Peers with blocks queued while others have their turn, and how many bytes.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (P, usize)> {
        let account = |peer: P| self.accounts.get(&peer).map(|it| (peer, it.queued_bytes));
        self.ready.iter().filter_map(move |(_, peer)| account(*peer))
    }

    pub(crate) const fn reading_bytes(&self) -> usize {
        self.reading_bytes
    }

    /// Blocks to be read for the peer whose turn it is, of those with room. `room` says how much, `missing` how many
    /// blocks a peer lacks where that is not told by its wants, and `is_source` whether we want nothing ourselves.
    pub(crate) fn read_next(
        &mut self,
        now: Instant,
        bytes_max: usize,
        room: impl Fn(P) -> usize,
        missing: impl Fn(P) -> Option<usize>,
        is_source: bool,
    ) -> Option<(P, Vec<Cid>)> {
        let held = self.reading_bytes + self.abandoned.bytes;
        let left = self.limits.reading_bytes_max.saturating_sub(held);
        let bytes_max = bytes_max.min(left);
        if bytes_max == 0 {
            return None;
        }
        let turn = self.next_turn(now, &room, missing, is_source)?;
        let peer = turn.1;
        let account = self.accounts.get_mut(&peer)?;
        let bytes_max = bytes_max.min(room(peer)).min(self.limits.message_bytes_max);
        let is_fresh_first = self.behaviour == Behaviour::Ours;
        let sent = |cid: &Cid| if is_fresh_first { self.sent.count(cid) } else { 0 };
        // Only a block that is alone may be longer than what is left.
        if held > 0 && account.next_len(sent) > left {
            return None;
        }
        let cids = account.next_batch(bytes_max, sent);
        self.turn = Some(turn);
        for cid in &cids {
            self.sent.add(now, cid);
        }
        self.reading_bytes += account.batch.bytes;
        self.ready.remove(&turn);
        Some((peer, cids))
    }

    /// Whose turn it is: of those with room, first whoever takes a block that nobody was sent yet, since it
    /// can serve that on; then, once a round, whoever is far behind. Nobody is passed over for ever, but for a while
    /// all may have to wait for one another's.
    fn next_turn(
        &mut self,
        now: Instant,
        room: impl Fn(P) -> usize,
        missing: impl Fn(P) -> Option<usize>,
        is_source: bool,
    ) -> Option<(u64, P)> {
        let after = self.turn.map_or(Unbounded, Excluded);
        let up_to = self.turn.map_or(Unbounded, Included);
        let turns =
            self.ready.range((after, Unbounded)).chain(self.ready.range((Unbounded, up_to)));
        let mut in_turn = turns.copied().filter(|(_, peer)| room(*peer) > 0);
        let first = in_turn.next()?;
        if self.behaviour != Behaviour::Ours {
            return Some(first);
        }
        let passed_over_max = 2 * self.ready.len() as u32;
        let is_held = |peer: P| is_source && self.held_until_for(now, peer).is_some();
        let is_next = |(_, peer): &(u64, P)| {
            self.accounts.get(peer).is_some_and(|account| {
                account.has_fresh(|cid| self.sent.count(cid) > 0)
                    || (account.passed_over > passed_over_max && !is_held(*peer))
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
                if is_source && self.is_crowded(&missing) {
                    all = self.not_held(now, all);
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

    /// Whether so many lack something that they can have it of one another: most of them may want nothing of us just now.
    fn is_crowded(&self, missing: impl Fn(P) -> Option<usize>) -> bool {
        let lacks = |(peer, account): &(&P, &Account<B>)| {
            !account.wants.is_empty() || missing(**peer).is_some_and(|missing| missing > 0)
        };
        self.accounts.iter().filter(lacks).take(CROWD_MIN).count() == CROWD_MIN
    }

    /// Those to whom something can be sent that is not left to others.
    fn not_held(&mut self, now: Instant, mut turns: Vec<(u64, P)>) -> Vec<(u64, P)> {
        let until = turns.iter().filter_map(|(_, peer)| self.held_until_for(now, *peer)).min();
        turns.retain(|(_, peer)| self.held_until_for(now, *peer).is_none());
        self.held_until = until.filter(|_| turns.is_empty());
        turns
    }

    /// Until when what would be sent to a peer is left to others.
    fn held_until_for(&self, now: Instant, peer: P) -> Option<Instant> {
        let cid = self.accounts.get(&peer)?.next_patient(|cid| self.sent.count(cid))?;
        self.sent.held_until(cid).filter(|until| *until > now)
    }

    /// Who lacks clearly more than the first, and has had its own turn since it last went before others. So all have
    /// everything at about the same time, and their links are used to the end.
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

    /// A block was read, or could not be.
    pub(crate) fn read(&mut self, peer: P, cid: &Cid, block: Option<B>) {
        let read = self.accounts.get_mut(&peer).and_then(|account| {
            account.read(cid, block, &self.limits).map(|released| (account, released))
        });
        let Some((account, released)) = read else {
            // Where it is read for who was here before, too, either answer will do.
            return self.abandoned.read(peer, cid);
        };
        self.reading_bytes -= released;
        if account.batch.is_complete() || account.is_urgent {
            self.touched.insert(peer);
        }
        self.is_ready_or_not(peer);
    }

    /// Whether a peer is to be told something that cannot wait.
    pub(crate) fn is_urgent(&self, peer: P) -> bool {
        let account = self.accounts.get(&peer);
        account.is_some_and(|account| account.is_urgent || account.batch.is_complete())
    }

    /// What a peer is told now, in so many bytes or a single block, and whether there is more. Blocks
    /// count as sent.
    pub(crate) fn answer(&mut self, peer: P, room_bytes: usize) -> (Answers<B>, bool) {
        let Some(account) = self.accounts.get_mut(&peer) else {
            return (
                Answers { presences: Vec::new(), blocks: Vec::new(), pending_bytes: 0 },
                false,
            );
        };
        let presences_max = (room_bytes / PRESENCE_BYTES).clamp(1, PRESENCES_PER_MESSAGE);
        let presences = account.take_presences(presences_max);
        let told: usize = presences.iter().map(Presence::encoded_len).sum();
        let bytes_before = account.batch.bytes;
        let blocks = account.take_blocks(room_bytes.saturating_sub(told));
        self.reading_bytes -= bytes_before - account.batch.bytes;
        let is_more = account.has_presences_left() || account.batch.is_complete();
        let pending_bytes = account.queued_bytes;
        let mut sent = Vec::new();
        for (cid, _) in &blocks {
            if account.forget(cid) {
                sent.push(cid.clone());
            }
        }
        for cid in &sent {
            self.no_longer_wanted_by(cid, peer);
        }
        let blocks = blocks.into_iter().map(|(_, block)| block).collect();
        self.is_ready_or_not(peer);
        (Answers { presences, blocks, pending_bytes }, is_more)
    }
}
