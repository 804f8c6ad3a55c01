//! Our own way: whom to ask, when to ask another.

use std::collections::BTreeSet;
use std::time::Duration;

use vocab::Instant;

use super::bits::ones;
use super::budget::{Budget, asked_bytes_max};
use super::view::{Ask, Hope, View, nanos};
use super::{Asking, COMPARED_MAX, NEWCOMERS_ASKED_MAX, Wants, moves};
use crate::Totals;

/// How often the tail looks whether somebody idle could help.
const TAIL_INTERVAL: Duration = Duration::from_millis(100);

/// Who has everything and gives more than so many times what each of the others gives is spared only where all of them
/// together give so many times as much as it.
const FAST: u64 = 2;

/// Silences in a row after which whoever alone has a block is asked for it once more.
const SILENCES_BEFORE_AGAIN: u32 = 3;

/// Pieces of blocks that each other peer may send before one that sends nothing is held to be silent.
const PIECES_PER_TURN: u64 = 4;

/// How often a peer's silence is put down to our own link.
const EXCUSED_MAX: u32 = 16;

/// Longest time that a silent peer is not asked again.
const SILENT_MAX: Duration = Duration::from_secs(30);

pub(super) fn fill<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant, totals: &mut Totals) {
    if asking.wants.len() == 0 {
        asking.hungry.clear();
        asking.newcomers.clear();
        asking.searches.rest();
    }
    for (at, holder) in std::mem::take(&mut asking.spread) {
        ask_for_what_it_alone_has(asking, now, at, holder);
        moves::ask_the_new_holder(asking, now, at, holder);
    }
    // Several rounds of one block each, so that nobody takes all that is left; those first from whom
    // it will come the soonest.
    let mut hungry = BTreeSet::new();
    if asking.asked_bytes < asked_bytes_max(asking) {
        hungry.append(&mut asking.hungry);
    }
    if asking.newcomers_asked < NEWCOMERS_ASKED_MAX {
        hungry.append(&mut asking.newcomers);
    }
    let block = asking.limits.block_bytes_guess;
    let mut peers: Vec<(bool, Duration, u64, P)> = Vec::new();
    for peer in hungry {
        let throw = asking.dice.throw();
        // By how long answers take of late, too: others ask a busy one as well.
        let takes = |view: &View| view.takes(block) + view.pace.usual.unwrap_or_default();
        let view = asking.views.get(&peer);
        peers.extend(view.map(|view| (view.is_idler(), takes(view), throw, peer)));
    }
    peers.sort_unstable();
    if !peers.is_empty() {
        let mut budget = Budget::of(asking);
        while !peers.is_empty() {
            peers.retain(|(.., peer)| ask_for_one(asking, now, *peer, &mut budget, totals));
        }
    }
    moves::look_around(asking, now);
    let is_tail = asking.wants.open_len() == 0 && asking.wants.len() > 0;
    if !is_tail {
        asking.tail_at = None;
    } else if asking.tail_at.is_none() {
        asking.tail_at = Some(now + TAIL_INTERVAL);
    }
}

/// Asks a peer for one block more; whether there was one.
fn ask_for_one<P: Copy + Ord>(
    asking: &mut Asking<P>,
    now: Instant,
    peer: P,
    budget: &mut Budget,
    totals: &mut Totals,
) -> bool {
    let Some(view) = asking.views.get(&peer) else { return false };
    let is_full = match view.is_newcomer() {
        true => asking.newcomers_asked >= NEWCOMERS_ASKED_MAX,
        false => budget.is_spent(asking, view),
    };
    if is_full {
        asking.is_hungry(peer);
        return false;
    }
    if !view.has_room(&asking.limits) || view.silent_until.is_some() {
        return false;
    }
    let throw = asking.dice.throw();
    let known = choose(&asking.wants, throw, |at| view.has.word(at));
    let chosen = known.or_else(|| match view.hope {
        Hope::None => None,
        Hope::One if !view.asked.is_empty() => None,
        Hope::One | Hope::Full => choose(&asking.wants, throw, |at| !view.lacks.word(at)),
    });
    let Some(at) = chosen else {
        return view.asked.is_empty() && moves::take_over(asking, now, peer, totals);
    };
    if is_too_slow_for(asking, view, at) {
        return false;
    }
    if budget.is_for_others(asking, now, view, at) || is_left_to_others(asking, view, at) {
        asking.is_hungry(peer);
        return false;
    }
    budget.ask(view, asking.bytes_of(at));
    if known.is_none()
        && let Some(view) = asking.views.get_mut(&peer)
        && view.hope == Hope::One
    {
        view.hope = Hope::None;
    }
    asking.ask(now, at, peer);
    true
}

/// Whether a block is rather to be had from another: who has everything is spared for what nobody else has, while
/// others give us as much, and enough to wait for. Where it is fast, they have to give far more: its link is there to be
/// used. Not what somebody waits for.
fn is_left_to_others<P: Copy + Ord>(asking: &Asking<P>, view: &View, at: u32) -> bool {
    let live = asking.wants.live();
    let holders = asking.wants.get(at).holders as usize;
    let enough = asking.pace.window.min(asking.limits.asked_bytes_max) / 2;
    if holders < 2
        || asking.asked_bytes < enough
        || !view.has.has_all(live)
        || asking.wants.urgent_place(at).is_some()
    {
        return false;
    }
    let (mut full, mut full_rate, mut others_rate) = (0, 0_u64, 0_u64);
    for other in asking.views.values() {
        let rate = if other.silent_until.is_none() { other.pace.rate } else { 0 };
        if other.has.has_all(live) {
            full += 1;
            full_rate = full_rate.saturating_add(rate);
        } else {
            others_rate = others_rate.saturating_add(rate);
        }
    }
    let others = asking.views.len() - full;
    let is_fast = full_rate.saturating_mul(others as u64)
        > others_rate.saturating_mul(full as u64).saturating_mul(FAST);
    let least = if is_fast { full_rate.saturating_mul(FAST) } else { full_rate };
    holders > full && others_rate >= least
}

/// Shortest time for which a peer must have made us wait before it is asked for something else instead.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// A block that is asked of a crowded peer has come to another as well: the crowded one is asked for
/// something in its stead that it alone has. So a lone seeder, whom everyone asks, sends what nobody has
/// yet, and the others get the rest from one another. It is to give the block back where it can tell that it did: it may
/// be sending it, and then it would come twice.
fn ask_for_what_it_alone_has<P: Copy + Ord>(
    asking: &mut Asking<P>,
    now: Instant,
    at: u32,
    holder: P,
) {
    let Some(wanted) = asking.wants.find_at(at) else { return };
    let [server] = wanted.asked_of[..] else { return };
    let Some(view) = asking.views.get(&server) else { return };
    let Some(ask) = view.asked.get(&at) else { return };
    if ask.returned_at.is_some() || !will_wait(view, ask, now) {
        return;
    }
    let throw = asking.dice.throw();
    let rarest = choose(&asking.wants, throw, |at| view.has.word(at));
    if let Some(rarest) = rarest.filter(|at| asking.wants.get(*at).holders <= 1) {
        if view.gives_back(at) {
            asking.give_back(now, at, server, holder);
        } else {
            asking.take_back(at, server);
        }
        asking.ask(now, rarest, server);
    }
}

/// What is suddenly urgent and far from its turn is to be asked of whoever has it the soonest, before what is less
/// urgent.
pub(super) fn hurry<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant) {
    let urgent: Vec<u32> = asking.wants.urgent().collect();
    for at in urgent {
        if let [server] = asking.wants.get(at).asked_of[..]
            && let Some(view) = asking.views.get(&server)
            && view.asked.get(&at).is_some_and(|ask| will_wait(view, ask, now))
        {
            asking.take_back(at, server);
        }
        if asking.wants.get(at).asked_of.is_empty() {
            make_room(asking, now, at);
        }
    }
}

/// One of those who have a block that is urgent is to have room for it: what it was asked for last, is less urgent and
/// waits for its turn is taken back.
fn make_room<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant, at: u32) {
    let holders = |asking: &Asking<P>| {
        let talks = |view: &View| view.silent_until.is_none() && view.may_have(at);
        asking.views.iter().filter(|(_, view)| talks(view)).map(|(peer, _)| *peer).collect()
    };
    let holders: Vec<P> = holders(asking);
    let has_room = |asking: &Asking<P>, peer: &P| {
        let may_be_asked = |view: &View| {
            view.has_room(&asking.limits) && !Budget::of(asking).is_spent(asking, view)
        };
        asking.views.get(peer).is_some_and(may_be_asked)
    };
    if holders.iter().any(|peer| has_room(asking, peer)) {
        return;
    }
    for peer in holders {
        while let Some(view) = asking.views.get(&peer) {
            let is_less = |at: u32| asking.wants.urgent_place(at).is_none();
            let waits =
                view.asked.iter().filter(|(at, ask)| is_less(**at) && will_wait(view, ask, now));
            let Some((last, _)) = waits.max_by_key(|(_, ask)| (ask.at, ask.ahead)) else { break };
            let last = *last;
            asking.take_back(last, peer);
            if has_room(asking, &peer) {
                return;
            }
        }
    }
}

/// Whether a block is so far from its turn that it can be taken back before.
fn will_wait(view: &View, ask: &Ask, now: Instant) -> bool {
    if !ask.is_spoken {
        return true;
    }
    let base = view.pace.base.unwrap_or_default();
    let guard = WAIT_MIN.max(base * 2);
    if view.pace.rate == 0 {
        return now.since(ask.at) > WAIT_MIN;
    }
    let since = (view.pace.delivered - ask.delivered) as usize;
    let ahead = ask.ahead.saturating_sub(since) + ask.bytes;
    let turn = ask.at.max(view.delivered_at) + nanos(ahead as u64, view.pace.rate);
    // What is overdue waits for others.
    turn > now + guard || turn + guard < now
}

/// The open want in a set that is to be asked first: one of those named as such; otherwise the most urgent, among
/// equals the rarest, and among those the first behind a random place.
pub(super) fn choose<P: Copy + Ord>(
    wants: &Wants<P>,
    throw: u64,
    among: impl Fn(usize) -> u64,
) -> Option<u32> {
    let is_among = |at: u32| among(at as usize / 64) >> (at % 64) & 1 == 1;
    let named = wants.urgent().find(|at| wants.get(*at).asked_of.is_empty() && is_among(*at));
    if named.is_some() {
        return named;
    }
    for open in wants.open() {
        let words = open.words();
        let start = throw as usize % words;
        // Within the word as well, or all would begin at multiples of 64.
        let turn = (throw >> 32) as u32 % 64;
        let word = |at: usize| {
            let at = (start + at) % words;
            (open.word(at) & among(at)).rotate_right(turn)
        };
        let rarest = ones(words, word).take(COMPARED_MAX).map(|found| {
            let at = (start as u32 + found / 64) % words as u32 * 64 + (found % 64 + turn) % 64;
            (wants.get(at).holders, at)
        });
        let best = rarest.reduce(|best, other| if other.0 < best.0 { other } else { best });
        if let Some((_, at)) = best {
            return Some(at);
        }
    }
    None
}

/// Near the end a slow peer is not given what the others will have fetched sooner.
fn is_too_slow_for<P: Copy + Ord>(asking: &Asking<P>, view: &View, at: u32) -> bool {
    let left = asking.wants.open_len() * asking.limits.block_bytes_guess;
    if left > asking.asked_bytes || asking.wants.get(at).holders < 2 || view.pace.rate == 0 {
        return false;
    }
    let others = asking.views.values().filter(|other| other.silent_until.is_none());
    let rate: u64 = others.map(|other| other.pace.rate).sum();
    let rest = nanos((left + asking.asked_bytes) as u64, rate);
    view.takes(asking.bytes_of(at)) > rest * 2 + view.pace.base.unwrap_or_default() * 2
}

pub(super) fn handle_tick<P: Copy + Ord>(
    asking: &mut Asking<P>,
    now: Instant,
    totals: &mut Totals,
) {
    let mut silent: Vec<(P, u32)> = Vec::new();
    let asked_peers = asking.views.values().filter(|view| !view.asked.is_empty()).count() as u64;
    for (peer, view) in &mut asking.views {
        if view.silent_until.is_some_and(|until| until <= now) {
            view.silent_until = None;
            let of = if view.is_newcomer() { &mut asking.newcomers } else { &mut asking.hungry };
            of.insert(*peer);
        }
        if view.silent_at(&asking.limits).is_some_and(|at| at <= now) {
            // Where our own link is what is slow, all take turns on it: who has not had many of them
            // is not silent. While nobody takes turns, it is.
            let others = asking.pieces - view.heard_pieces;
            let is_fewer = others < PIECES_PER_TURN * asked_peers;
            if asking.pieces > view.excused_pieces && is_fewer && view.excused < EXCUSED_MAX {
                view.excused += 1;
                view.excused_pieces = asking.pieces;
                view.heard_at = now;
                continue;
            }
            let wait = asking.limits.patience.saturating_mul(1 << view.silences.min(8));
            view.silences += 1;
            view.silent_until = Some(now + wait.min(SILENT_MAX));
            silent.extend(view.asked.keys().map(|at| (*peer, *at)));
        }
    }
    for (peer, at) in silent {
        // It may be busy with others, so it is told: an answer in spite of that would be a duplicate.
        if asking.views.values().any(|view| view.silent_until.is_none() && view.has.has(at)) {
            totals.silences += u64::from(asking.take_back(at, peer));
        } else if asking
            .views
            .get(&peer)
            .is_some_and(|view| view.is_newcomer() || view.silences >= SILENCES_BEFORE_AGAIN)
        {
            asking.ask_again(at, peer);
        }
    }
    if asking.tail_at.is_some_and(|at| at <= now) {
        asking.tail_at = None;
        asking.all_are_hungry();
    }
}
