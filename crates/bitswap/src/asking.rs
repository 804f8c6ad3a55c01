//! Whom to ask for what.

mod bits;
mod budget;
mod history;
mod kubo12;
mod listed;
mod moves;
mod old11;
mod ours;
mod searches;
mod view;
mod wants;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use content::Cid;
use vocab::Instant;

use crate::dice::Dice;
use crate::{
    Behaviour, Limits, Misbehaviour, Protocol, SessionId, Totals, Want, WantEntry, WantKind,
};
pub(crate) use bits::Bits;
use history::History;
use searches::Searches;
pub(crate) use view::Heard;
pub(crate) use view::View;
use view::{Ask, Hope, Pace};
use wants::Wants;
pub(crate) use wants::{URGENT_MAX, other_names};

/// Most wants in one message; others follow in the next.
const ENTRIES_PER_MESSAGE: usize = 512;

/// What a want usually takes in a message.
const ENTRY_BYTES: usize = 64;

/// Blocks that all peers together are asked for at least.
const BLOCKS_ASKED_MIN: usize = 16;

/// Blocks that each peer may send before one that sends nothing is held to be stalled.
const BLOCKS_BEFORE_STALLED: usize = 16;

/// Open wants that are compared with one another before one is chosen. Beyond, those behind a random
/// place are.
const COMPARED_MAX: usize = 4096;

/// Blocks that one peer is asked for at least.
const BLOCKS_ASKED_OF_ONE: usize = 2;

/// Blocks that peers are asked for who never sent anything of use, a block each.
const NEWCOMERS_ASKED_MAX: usize = 8;

/// While so few blocks are wanted, peers are asked to say that they lack them. Of many, it is news enough who
/// has them.
const WANTS_WITH_DONT_HAVE: usize = 16;

/// Priorities begin here, below those of what is named as urgent.
const PRIORITY_MAX: i32 = i32::MAX - URGENT_MAX as i32;

/// Blocks that were wanted and are remembered.
const WANTED_BEFORE_MAX: usize = 16 * 1024;

/// The half of a node that wants blocks.
///
/// Here is what holds for every [`Behaviour`]: what is wanted, what each peer said about it, who is
/// asked, and what follows from an answer. The behaviours choose whom to ask (`ours`, `kubo12`, `old11`).
#[derive(Debug)]
pub(crate) struct Asking<P> {
    limits: Limits,
    behaviour: Behaviour,
    wants: Wants<P>,
    views: BTreeMap<P, View>,
    front: Front,
    searches: Searches<P>,
    history: History,
    dice: Dice,
    /// Peers that may be asked for more.
    hungry: BTreeSet<P>,
    /// Those among them that never sent anything of use.
    newcomers: BTreeSet<P>,
    /// Blocks that newcomers are asked for.
    newcomers_asked: usize,
    /// Wants that are asked of somebody, and who else has said to have them since.
    spread: Vec<(u32, P)>,
    /// Of whom to ask for what another is to give back.
    returns: BTreeMap<u32, P>,
    /// Pieces of blocks that came, from whomever.
    pieces: u64,
    /// Peers to whom something is to be told.
    pub touched: BTreeSet<P>,
    asked_bytes: usize,
    /// Blocks that we lack more than the others who lack some do, in a crowd.
    behind: Option<usize>,
    /// How fast all peers together deliver.
    pace: Pace,
    /// Blocks that were wanted since the last time nothing was.
    wanted_total: usize,
    hedges: usize,
    tail_at: Option<Instant>,
    /// When it was looked last what idle peers could take over.
    moved_at: Instant,
    next_priority: i32,
    old: old11::Split,
    last_block_at: Instant,
    /// Since when something is wanted, and how many bytes had come by then.
    began: (Instant, u64),
    /// Not later than the first peer is held to be silent or asked again: who is heard of in the
    /// meantime only moves that away.
    silence_at: Option<Instant>,
}

/// What a block that came turned out to be.
#[derive(Debug, PartialEq)]
pub(crate) enum Arrival {
    Wanted(Vec<SessionId>),
    Duplicate,
    Unasked,
}

impl<P: Copy + Ord> Asking<P> {
    pub(crate) fn new(limits: Limits, behaviour: Behaviour, seed: u64) -> Self {
        Asking {
            behaviour,
            wants: Wants::default(),
            views: BTreeMap::new(),
            front: Front::default(),
            searches: Searches::default(),
            history: History::new(WANTED_BEFORE_MAX),
            dice: Dice::new(seed),
            hungry: BTreeSet::new(),
            newcomers: BTreeSet::new(),
            newcomers_asked: 0,
            spread: Vec::new(),
            returns: BTreeMap::new(),
            pieces: 0,
            touched: BTreeSet::new(),
            asked_bytes: 0,
            behind: None,
            pace: Pace::new(&limits, BLOCKS_ASKED_MIN),
            wanted_total: 0,
            hedges: 0,
            tail_at: None,
            moved_at: Instant::ZERO,
            next_priority: PRIORITY_MAX,
            old: old11::Split::default(),
            last_block_at: Instant::ZERO,
            began: (Instant::ZERO, 0),
            silence_at: None,
            limits,
        }
    }

    pub(crate) fn connected(&mut self, now: Instant, peer: P, protocol: Protocol) {
        let is_provider = self.searches.is_promised(peer);
        self.views.insert(peer, View::new(now, protocol, &self.limits, is_provider));
        self.is_hungry(peer);
        self.touched.insert(peer);
    }

    pub(crate) fn disconnected(&mut self, peer: P) {
        let Some(view) = self.views.remove(&peer) else { return };
        self.hungry.remove(&peer);
        self.newcomers.remove(&peer);
        self.touched.remove(&peer);
        for at in view.has.iter() {
            self.wants.get_mut(at).holders -= 1;
        }
        for (at, ask) in view.asked {
            self.settle_ask(&ask);
            self.no_longer_asked_of(at, peer);
        }
        if self.views.is_empty() {
            self.silence_at = None;
        }
    }

    pub(crate) fn wants_nothing(&self) -> bool {
        self.wants.len() == 0
    }

    pub(crate) fn view(&self, peer: P) -> Option<&View> {
        self.views.get(&peer)
    }

    /// So many blocks are what those lack on average who lack some; `None` where they are no crowd.
    pub(crate) fn others_lack(&mut self, blocks: Option<usize>) {
        self.behind = blocks.map(|blocks| self.wants.len().saturating_sub(blocks));
    }

    pub(crate) fn start(&mut self, now: Instant) -> SessionId {
        self.searches.start(now)
    }

    pub(crate) fn want(&mut self, now: Instant, session: SessionId, want: Want) {
        if !self.searches.has(session) {
            return;
        }
        if self.wants.len() == 0 {
            self.last_block_at = now;
            self.began = (now, self.pace.delivered);
        }
        let (_, is_new) = self.wants.add(session, want);
        if is_new {
            self.wanted_total += 1;
            self.searches.wanted(now, session);
            self.all_are_hungry();
            self.touched.extend(self.views.keys());
            self.views.values_mut().for_each(|view| view.is_urgent = true);
        }
    }

    pub(crate) fn unwant(&mut self, session: SessionId, cid: &Cid) {
        let Some(at) = self.wants.find_exactly(cid) else { return };
        let sessions = &mut self.wants.get_mut(at).sessions;
        sessions.retain(|other| *other != session);
        if sessions.is_empty() {
            self.forget(at, None);
        }
    }

    /// These are asked first, instead of those named before.
    pub(crate) fn urgent(&mut self, now: Instant, cids: &[Cid]) {
        self.wants.set_urgent(cids);
        ours::hurry(self, now);
        self.all_are_hungry();
    }

    pub(crate) fn stop(&mut self, session: SessionId) {
        let is_of = |(_, wanted): &(u32, &wants::Wanted<P>)| wanted.sessions.contains(&session);
        let cids: Vec<Cid> =
            self.wants.iter().filter(is_of).map(|(_, wanted)| wanted.cid.clone()).collect();
        for cid in &cids {
            self.unwant(session, cid);
        }
        self.searches.stop(session);
    }

    pub(crate) fn missing(&self, session: SessionId) -> usize {
        self.wants.iter().filter(|(_, wanted)| wanted.sessions.contains(&session)).count()
    }

    /// Something of a peer came. Whether it had been silent.
    pub(crate) fn heard(&mut self, now: Instant, peer: P, what: Heard) -> bool {
        self.pieces += u64::from(what != Heard::Words);
        let Some(view) = self.views.get_mut(&peer) else { return false };
        let was_silent = view.silent_until.is_some();
        view.heard(now, what, self.pieces);
        if was_silent {
            self.silence_at =
                earliest(self.silence_at, view.silence_at(&self.limits, self.behaviour));
            self.is_hungry(peer);
        }
        was_silent
    }

    /// The peer said whether it has a block. Of blocks that nobody wants nothing is remembered.
    pub(crate) fn presence(&mut self, now: Instant, peer: P, cid: &Cid, is_here: bool) {
        let Some(view) = self.views.get_mut(&peer) else { return };
        let Some(at) = self.wants.find_exactly(cid) else { return };
        if is_here && view.is_returning(at) {
            return self.returned(now, at, peer);
        }
        if let Some(ask) = view.asked.get(&at) {
            view.pace.answered(now.since(ask.at));
        }
        if is_here {
            // It forgets a want-have that it answered.
            view.told.remove(at);
            view.lacks.remove(at);
            view.habit.dont_haves = 0;
            view.habit.is_member = true;
            view.habit.is_pruned = false;
            if view.has.insert(at) {
                let wanted = self.wants.get_mut(at);
                wanted.holders += 1;
                if !wanted.asked_of.is_empty() && self.behaviour == Behaviour::Ours {
                    self.spread.push((at, peer));
                }
                self.is_hungry(peer);
            }
            return;
        }
        view.habit.dont_haves += 1;
        view.lacks.insert(at);
        view.hope = if view.hope == Hope::Full { Hope::Full } else { Hope::None };
        if view.has.remove(at) {
            self.wants.get_mut(at).holders -= 1;
        }
        self.is_hungry(peer);
        if self.take_back(at, peer) {
            self.all_are_hungry();
        }
        let wanted = self.wants.get(at);
        if wanted.holders == 0 && self.views.values().all(|view| view.lacks.has(at)) {
            self.searches.is_lacked_by_all(now, &wanted.sessions);
        }
    }

    /// A block came.
    pub(crate) fn block(&mut self, now: Instant, peer: P, cid: &Cid, len: usize) -> Arrival {
        let Some(view) = self.views.get_mut(&peer) else { return Arrival::Unasked };
        let Some(at) = self.wants.find(cid) else {
            if view.late.take(cid) {
                self.old.saw(true);
                return Arrival::Duplicate;
            }
            let was_wanted = self.history.has(cid);
            if was_wanted && view.questions_taken_back > 0 {
                view.questions_taken_back -= 1;
            } else {
                view.unasked += 1;
            }
            if was_wanted {
                self.old.saw(true);
            }
            return if was_wanted { Arrival::Duplicate } else { Arrival::Unasked };
        };
        view.useful += 1;
        // What was asked for before, and taken back, may have been under way since.
        let was_late = view.late.has(cid);
        if was_late {
            view.pace.began_by(view.delivered_at);
        }
        view.delivered_at = now;
        view.silences = 0;
        view.bytes_in += len as u64;
        view.habit.dont_haves = 0;
        view.habit.is_member = true;
        view.habit.is_pruned = false;
        if let Some(ask) = view.asked.get(&at).filter(|_| !was_late) {
            let took = now.since(ask.at);
            view.pace.answered(took);
            let latency = view.habit.latency.map_or(took, |latency| (latency + took) / 2);
            view.habit.latency = Some(latency);
        }
        view.habit.firsts += 1;
        view.pace.delivered(now, len, &self.limits);
        if view.told.is_empty() && self.behaviour == Behaviour::Ours {
            // It may be told of what did not fit into what it was sure to remember.
            self.touched.insert(peer);
        }
        self.pace.follows(&view.pace);
        self.pace.delivered(now, len, &self.limits);
        self.old.saw(false);
        self.last_block_at = now;
        self.is_hungry(peer);
        let sessions = self.forget(at, Some(peer));
        self.searches.arrived(now, &sessions);
        Arrival::Wanted(sessions)
    }

    /// How a peer that sent what nobody asked it for is to be taken.
    pub(crate) fn misbehaviour(&self, peer: P) -> Option<Misbehaviour> {
        let view = self.views.get(&peer)?;
        (view.unasked > self.limits.unasked_max + view.useful).then_some(Misbehaviour::Flooded)
    }

    /// It sent bytes of no name that anybody was ever asked for, so many more. An honest peer has no
    /// reason to.
    pub(crate) fn sent_strange_blocks(&mut self, peer: P, blocks: u64) -> Option<Misbehaviour> {
        let view = self.views.get_mut(&peer)?;
        view.strange += blocks;
        let is_lie = view.strange > self.limits.lies_max && view.was_asked;
        is_lie.then_some(Misbehaviour::Lied)
    }

    pub(crate) fn providers(&mut self, now: Instant, session: SessionId, peers: &[P]) {
        self.searches.ended(now, session, peers, &self.limits);
        if self.behaviour == Behaviour::Ours {
            // Answers get lost with the streams that carry them: whoever owes one is asked again.
            let owing = self.views.iter_mut().filter_map(|(peer, view)| {
                let is_owing = view.forget_unanswered();
                is_owing.then_some(*peer)
            });
            self.touched.extend(owing);
        }
        for peer in peers {
            if let Some(view) = self.views.get_mut(peer) {
                view.hope = Hope::Full;
                self.is_hungry(*peer);
            }
        }
    }

    /// Blocks that providers are to be looked for.
    pub(crate) fn searches(&mut self, now: Instant) -> Vec<(SessionId, Cid)> {
        let wants = &self.wants;
        self.searches.due(now, |session| {
            let lacked = |(_, wanted): &(u32, &wants::Wanted<P>)| {
                wanted.holders == 0
                    && wanted.asked_of.is_empty()
                    && wanted.sessions.contains(&session)
            };
            wants.iter().find(lacked).map(|(_, wanted)| wanted.cid.clone())
        })
    }

    /// Peers that claimed to have what they were asked for, and have been silent for too long.
    pub(crate) fn stalled(&mut self, now: Instant) -> Vec<P> {
        let after = self.limits.stalled_after;
        // Where our own link needs longer for a few blocks of each, nobody is to blame before.
        let turns = self.takes(BLOCKS_BEFORE_STALLED * self.views.len());
        let live = self.wants.live();
        let mut stalled = Vec::new();
        for (peer, view) in &mut self.views {
            let Some(since) = view.owes_since else { continue };
            let has_words = live.words().min(view.has.words());
            if !(0..has_words).any(|at| live.word(at) & view.has.word(at) != 0) {
                view.owes_since = None;
            } else if since + after <= now {
                if now.since(view.heard_at) < turns {
                    view.owes_since = Some(now);
                } else {
                    stalled.push(*peer);
                }
            }
        }
        stalled
    }

    /// How long so many blocks take at the rate since something is wanted. Of late it may have been far higher: blocks of
    /// several peers end together.
    fn takes(&self, blocks: usize) -> Duration {
        let (from, before) = self.began;
        let bytes = u128::from(self.pace.delivered - before);
        let took = u128::from(self.pace.bytes(blocks)) * self.last_block_at.since(from).as_nanos();
        Duration::from_nanos(
            u64::try_from(took.checked_div(bytes).unwrap_or(0)).unwrap_or(u64::MAX),
        )
    }

    /// Chooses whom to ask.
    pub(crate) fn fill(&mut self, now: Instant, totals: &mut Totals) {
        match self.behaviour {
            Behaviour::Ours => ours::fill(self, now, totals),
            Behaviour::Kubo12 => kubo12::fill(self, now),
            Behaviour::Old11 => old11::fill(self, now),
        }
    }

    pub(crate) fn handle_tick(&mut self, now: Instant, totals: &mut Totals) {
        match self.behaviour {
            Behaviour::Ours => ours::handle_tick(self, now, totals),
            Behaviour::Kubo12 => kubo12::handle_tick(self, now, totals),
            Behaviour::Old11 => old11::handle_tick(self, now),
        }
        let silences =
            self.views.values().filter_map(|view| view.silence_at(&self.limits, self.behaviour));
        self.silence_at = silences.min();
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let strategy = match self.behaviour {
            Behaviour::Ours => self.tail_at,
            Behaviour::Kubo12 => kubo12::next_wake(self),
            Behaviour::Old11 => old11::next_wake(self),
        };
        [strategy, self.silence_at, self.searches.next_wake()].into_iter().flatten().min()
    }

    /// Whether something to be told to a peer cannot wait.
    pub(crate) fn is_urgent(&self, peer: P) -> bool {
        self.views.get(&peer).is_some_and(|view| view.is_urgent)
    }

    /// What is to be told to a peer next; whether there is more.
    pub(crate) fn speak(
        &mut self,
        now: Instant,
        peer: P,
        room_bytes: usize,
    ) -> (Vec<WantEntry>, bool) {
        let pause = kubo12::pause(self.views.len());
        let entries_max = (room_bytes / ENTRY_BYTES).clamp(1, ENTRIES_PER_MESSAGE);
        let has_members = self.behaviour == Behaviour::Kubo12
            && self.views.values().any(|view| view.habit.is_member);
        let is_bulk = self.wants.len() > WANTS_WITH_DONT_HAVE;
        let Some(view) = self.views.get_mut(&peer) else { return (Vec::new(), false) };
        if view.habit.quiet_until.is_some_and(|until| until > now) {
            return (Vec::new(), false);
        }
        view.is_urgent = false;
        let cancels = view.cancels.len().min(entries_max);
        let mut entries: Vec<WantEntry> = view.cancels.drain(..cancels).map(cancel).collect();
        let mut is_more = !view.cancels.is_empty();
        let room = |entries: &Vec<WantEntry>| entries_max.saturating_sub(entries.len());
        let has_presences = view.protocol.has_presences();

        let mut later = Vec::new();
        for at in std::mem::take(&mut view.returns) {
            if room(&entries) == 0 {
                later.push(at);
            } else if view.is_returning(at) {
                let cid = self.wants.get(at).cid.clone();
                entries.push(WantEntry { send_dont_have: true, ..cancel(cid) });
            }
        }
        is_more |= !later.is_empty();
        view.returns = std::mem::take(&mut later);

        for at in std::mem::take(&mut view.new_asks) {
            let Some(ask) = view.asked.get_mut(&at) else { continue };
            if room(&entries) == 0 || view.held_back.has(at) {
                later.push(at);
                continue;
            }
            ask.is_spoken = true;
            view.told.remove(at);
            let priority = match self.wants.urgent_place(at) {
                Some(place) => i32::MAX - i32::try_from(place).unwrap_or(0),
                None => take_priority(&mut self.next_priority),
            };
            let cid = self.wants.get(at).cid.clone();
            let send_dont_have = has_presences;
            let kind = WantKind::Block;
            entries.push(WantEntry { cid, priority, cancel: false, kind, send_dont_have });
        }
        is_more |= !later.is_empty();
        view.new_asks = later;

        // In boxo's way a session asks those who had something, once there are any.
        if has_presences && (!has_members || view.habit.is_member) {
            let told_max = self.limits.told_max(view.asked.len());
            let live = match self.behaviour {
                Behaviour::Ours => self.wants.live(),
                Behaviour::Kubo12 | Behaviour::Old11 => &self.front.bits,
            };
            let untold = bits::ones(live.words(), |at| {
                live.word(at) & !(view.told.word(at) | view.has.word(at) | view.listed.word(at))
            });
            let untold = untold.filter(|at| !view.asked.contains_key(at));
            let wanted: Vec<u32> = untold.take(room(&entries) + 1).collect();
            for at in wanted {
                if view.told.len() >= told_max {
                    break;
                }
                if room(&entries) == 0 || view.held_back.has(at) {
                    is_more = true;
                    continue;
                }
                view.told.insert(at);
                let priority = take_priority(&mut self.next_priority);
                let cid = self.wants.get(at).cid.clone();
                let kind = WantKind::Have;
                let send_dont_have = match self.behaviour {
                    Behaviour::Ours => !is_bulk,
                    Behaviour::Kubo12 | Behaviour::Old11 => view.habit.is_member,
                };
                entries.push(WantEntry { cid, priority, cancel: false, kind, send_dont_have });
            }
        }
        if view.cancels.is_empty() {
            view.held_back = Bits::default();
        }
        if self.behaviour != Behaviour::Ours && !entries.is_empty() {
            view.habit.quiet_until = Some(now + pause);
        }
        (entries, is_more)
    }

    /// A peer is asked for a block.
    fn ask(&mut self, now: Instant, at: u32, peer: P) {
        let bytes = self.bytes_of(at);
        let Some(view) = self.views.get_mut(&peer) else { return };
        view.ask(now, at, bytes);
        self.silence_at = earliest(self.silence_at, view.silence_at(&self.limits, self.behaviour));
        let counts = !view.is_newcomer();
        if let Some(ask) = view.asked.get_mut(&at) {
            ask.counts = counts;
        }
        if self.asked_bytes == 0 && self.newcomers_asked == 0 {
            self.pace.begin(now);
        }
        if counts {
            self.asked_bytes += bytes;
        } else {
            self.newcomers_asked += 1;
        }
        self.wants.close(at);
        self.wants.get_mut(at).asked_of.push(peer);
        self.touched.insert(peer);
    }

    /// A peer is not asked any more, and told so; whether it was.
    fn take_back(&mut self, at: u32, peer: P) -> bool {
        let cid = &self.wants.get(at).cid;
        let Some(view) = self.views.get_mut(&peer) else { return false };
        let Some(ask) = view.unask(at) else { return false };
        if ask.is_spoken {
            view.cancels.push(cid.clone());
            view.held_back.insert(at);
            view.late.add(cid);
            view.is_urgent = true;
            self.touched.insert(peer);
        }
        self.settle_ask(&ask);
        self.no_longer_asked_of(at, peer);
        true
    }

    /// A peer is to give back what it is asked for, if it has not begun to send it: then another is asked, and it does
    /// not come twice.
    fn give_back(&mut self, now: Instant, at: u32, peer: P, to: P) {
        let Some(view) = self.views.get_mut(&peer) else { return };
        let Some(ask) = view.asked.get_mut(&at) else { return };
        ask.returned_at = Some(now);
        view.returns.push(at);
        view.is_urgent = true;
        self.touched.insert(peer);
        self.returns.insert(at, to);
    }

    /// A peer gave back what it was asked for.
    fn returned(&mut self, now: Instant, at: u32, peer: P) {
        let Some(ask) = self.views.get_mut(&peer).and_then(|view| view.unask(at)) else { return };
        self.settle_ask(&ask);
        self.no_longer_asked_of(at, peer);
        let Some(to) = self.returns.remove(&at) else { return };
        let Some(view) = self.views.get(&to) else { return };
        let is_free = self.wants.get(at).asked_of.is_empty();
        if is_free && view.has.has(at) && view.silent_until.is_none() && view.has_room(&self.limits)
        {
            self.ask(now, at, to);
        }
    }

    /// A peer that is silent is not waited for any longer. It may answer still.
    fn give_up_on(&mut self, at: u32, peer: P) {
        let Some(view) = self.views.get_mut(&peer) else { return };
        let Some(ask) = view.unask(at) else { return };
        if ask.is_spoken {
            view.told.insert(at);
            view.late.add(&self.wants.get(at).cid);
        }
        self.settle_ask(&ask);
        self.no_longer_asked_of(at, peer);
    }

    /// A peer is asked once more for what it is asked for already: the want, or its answer, may be
    /// lost. Who still has it before it takes it for the same.
    fn ask_again(&mut self, at: u32, peer: P) {
        let Some(view) = self.views.get_mut(&peer) else { return };
        if view.ask_again(at) {
            self.touched.insert(peer);
        }
    }

    fn no_longer_asked_of(&mut self, at: u32, peer: P) {
        let asked_of = &mut self.wants.get_mut(at).asked_of;
        asked_of.retain(|other| *other != peer);
        if asked_of.is_empty() {
            self.wants.reopen(at);
            self.all_are_hungry();
        }
    }

    /// A want is gone, because it arrived `from` a peer or is not wanted any more. Everyone who
    /// was told of it is told so.
    fn forget(&mut self, at: u32, from: Option<P>) -> Vec<SessionId> {
        let wanted = self.wants.remove(at);
        self.returns.remove(&at);
        for (peer, view) in &mut self.views {
            view.has.remove(at);
            view.lacks.remove(at);
            view.listed.remove(at);
            view.held_back.remove(at);
            let was_told = view.told.remove(at);
            let ask = view.unask(at);
            if let Some(ask) = &ask {
                if ask.counts {
                    self.asked_bytes -= ask.bytes;
                } else {
                    self.newcomers_asked -= 1;
                }
                let of = if view.is_newcomer() { &mut self.newcomers } else { &mut self.hungry };
                of.insert(*peer);
            }
            if from == Some(*peer) {
                continue;
            }
            let was_asked = ask.is_some_and(|ask| ask.is_spoken);
            if was_told || was_asked {
                view.cancels.push(wanted.cid.clone());
                if was_asked {
                    view.late.add(&wanted.cid);
                } else {
                    view.questions_taken_back += 1;
                }
                view.is_urgent |= was_asked;
                self.touched.insert(*peer);
            }
        }
        self.history.add(&wanted.cid);
        if self.wants.len() == 0 {
            (self.wanted_total, self.hedges) = (0, 0);
        }
        wanted.sessions
    }

    fn bytes_of(&self, at: u32) -> usize {
        let len = self.wants.get(at).len;
        len.map_or(self.limits.block_bytes_guess, |len| len as usize)
    }

    /// A block is not asked of a peer any more.
    const fn settle_ask(&mut self, ask: &Ask) {
        if ask.counts {
            self.asked_bytes -= ask.bytes;
        } else {
            self.newcomers_asked -= 1;
        }
    }

    /// A peer may be asked for more.
    fn is_hungry(&mut self, peer: P) {
        let Some(view) = self.views.get(&peer) else { return };
        let of = if view.is_newcomer() { &mut self.newcomers } else { &mut self.hungry };
        of.insert(peer);
    }

    fn all_are_hungry(&mut self) {
        for (peer, view) in &self.views {
            let of = if view.is_newcomer() { &mut self.newcomers } else { &mut self.hungry };
            of.insert(*peer);
        }
    }
}

/// What the ways of others tell peers of: they look ahead only so far.
#[derive(Debug, Default)]
struct Front {
    bits: Bits,
    /// [`Wants::changes`] when it was found out, and how far was looked.
    seen: (u64, usize),
}

impl Front {
    /// Looks at the next so many wants; whether they are others than before.
    fn look<P: Copy + Ord>(&mut self, wants: &Wants<P>, wants_max: usize) -> bool {
        let is_new = self.seen != (wants.changes, wants_max);
        if is_new {
            self.seen = (wants.changes, wants_max);
            let urgent = wants.iter().map(|(_, wanted)| wanted.urgency).max();
            let is_urgent = |(_, wanted): &(u32, &wants::Wanted<P>)| Some(wanted.urgency) == urgent;
            let (first, then) = (wants.iter().filter(is_urgent), wants.iter());
            self.bits = Bits::default();
            for (at, _) in first.take(wants_max).chain(then) {
                if self.bits.len() == wants_max {
                    break;
                }
                self.bits.insert(at);
            }
        }
        is_new
    }

    /// Those that are asked of nobody.
    fn open<P: Copy + Ord>(&self, wants: &Wants<P>) -> Vec<u32> {
        let open = |at: &u32| wants.get(*at).asked_of.is_empty();
        self.bits.iter().filter(open).collect()
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

fn take_priority(next: &mut i32) -> i32 {
    let priority = *next;
    *next = next.checked_sub(1).filter(|next| *next > 0).unwrap_or(PRIORITY_MAX);
    priority
}

fn cancel(cid: Cid) -> WantEntry {
    let kind = WantKind::Block;
    WantEntry { cid, priority: 0, cancel: true, kind, send_dont_have: false }
}
