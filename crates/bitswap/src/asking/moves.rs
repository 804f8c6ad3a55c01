//! What one was asked for is asked of another instead.

use std::collections::BTreeSet;
use std::time::Duration;

use vocab::Instant;

use super::bits::ones;
use super::budget::Budget;
use super::ours::choose;
use super::view::{Ask, View, nanos};
use super::{Asking, COMPARED_MAX};
use crate::{Protocol, Totals};

/// How often is looked what idle peers could take over.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Shortest time for which a block has been waited for before an idle peer is asked instead. On a busy machine nobody is
/// idle for long, and what is moved sooner is often on its way.
const WAITED_MIN: Duration = Duration::from_millis(400);

/// More peers than this who have everything are none of whom too little is asked.
const SOURCES_MAX: usize = 2;

/// Shortest time without a piece of a block after which a peer is held to serve others.
const STANDSTILL_MIN: Duration = Duration::from_millis(200);

/// Time after which a peer that was to give a block back, and did not, is not waited for any longer than others are.
const RETURNED_WITHIN: Duration = Duration::from_secs(1);

/// A block that is asked of one peer has come to another as well, who is asked for nothing: as many of those who wait
/// for it as are its share ask it instead. So none has a long line while others have nothing to send.
pub(super) fn ask_the_new_holder<P: Copy + Ord>(
    asking: &mut Asking<P>,
    now: Instant,
    at: u32,
    holder: P,
) {
    let Some(wanted) = asking.wants.find_at(at) else { return };
    let [server] = wanted.asked_of[..] else { return };
    let holders = wanted.holders as usize;
    let gives_back = asking.views.get(&server).is_some_and(|view| view.gives_back(at));
    let is_idle = |view: &View| view.asked.is_empty() && view.silent_until.is_none();
    if gives_back
        && asking.views.get(&holder).is_some_and(is_idle)
        && asking.dice.below(holders) == 0
    {
        asking.give_back(now, at, server, holder);
    }
}

/// Looks now and then who could be asked besides those who are, or instead of them.
pub(super) fn look_around<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant) {
    if now.since(asking.moved_at) < LOOK_INTERVAL {
        return;
    }
    asking.moved_at = now;
    ask_the_sources(asking, now);
    ask_the_idle(asking, now);
}

/// Where one or two have everything, each is always asked for a block that nobody else has, though others are asked for
/// as much as they may be: what nobody asks a source for, nobody will have. It waits there while it is crowded; those who
/// give back what they were asked for are told when it has come from another.
fn ask_the_sources<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant) {
    let live = asking.wants.live();
    let sources = asking.views.iter().filter(|(_, view)| view.has.has_all(live));
    let sources: Vec<P> = sources.map(|(peer, _)| *peer).take(SOURCES_MAX + 1).collect();
    if sources.len() > SOURCES_MAX {
        return;
    }
    for &peer in &sources {
        let Some(view) = asking.views.get(&peer) else { continue };
        let gives_back = view.protocol == Protocol::Leaves;
        if !gives_back || !view.asked.is_empty() || view.silent_until.is_some() {
            continue;
        }
        let throw = asking.dice.throw();
        let rarest = choose(&asking.wants, throw, |at| view.has.word(at));
        let is_theirs_alone = |at: &u32| asking.wants.get(*at).holders as usize <= sources.len();
        if let Some(at) = rarest.filter(is_theirs_alone) {
            asking.ask(now, at, peer);
        }
    }
}

/// Who is asked for nothing and has what others are asked for is asked for something of that instead: for what we have
/// waited for the longest. Those others have more to send than they can, or it would have come, and we cannot ask for
/// anything else while we wait for as much as we may. What they send just now comes from them all the same.
fn ask_the_idle<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant) {
    let movable = asking.views.iter().flat_map(|(peer, view)| {
        let asks = view.asked.iter().filter(|(at, ask)| is_movable(asking, view, **at, ask));
        asks.map(|(at, ask)| (ask.at, *at, *peer))
    });
    let movable = movable.filter(|(asked_at, ..)| now.since(*asked_at) >= WAITED_MIN);
    let mut movable: Vec<(Instant, u32, P)> = movable.collect();
    if movable.is_empty() {
        return;
    }
    movable.sort_unstable();
    let budget = Budget::of(asking);
    let is_promised: BTreeSet<P> = asking.returns.values().copied().collect();
    let is_idle = |(peer, view): &(&P, &View)| {
        let talks = view.silent_until.is_none() && !view.is_newcomer();
        view.asked.is_empty() && talks && !budget.is_slow(view) && !is_promised.contains(peer)
    };
    let mut idle: Vec<P> = asking.views.iter().filter(is_idle).map(|(peer, _)| *peer).collect();
    if idle.is_empty() {
        return;
    }
    // Everybody else who waits looks for somebody too.
    let first = asking.dice.below(idle.len());
    idle.rotate_left(first);
    for peer in idle {
        let Some(view) = asking.views.get(&peer) else { continue };
        if let Some(which) = movable.iter().position(|(_, at, _)| view.has.has(*at)) {
            let (_, at, other) = movable.remove(which);
            asking.give_back(now, at, other, peer);
        }
    }
}

/// Whether a block may come from another than from whom it was asked of.
fn is_movable<P: Copy + Ord>(asking: &Asking<P>, asked: &View, at: u32, ask: &Ask) -> bool {
    let is_next = (asked.pace.delivered - ask.delivered) as usize >= ask.ahead;
    let is_asked_of_one = asking.wants.get(at).asked_of.len() == 1;
    asked.gives_back(at)
        && is_asked_of_one
        && !(asked.is_sending && is_next)
        && asking.wants.urgent_place(at).is_none()
}

/// An idle peer takes over what another has not come to, or in the tail is asked as well.
pub(super) fn take_over<P: Copy + Ord>(
    asking: &mut Asking<P>,
    now: Instant,
    peer: P,
    totals: &mut Totals,
) -> bool {
    let Some(view) = asking.views.get_mut(&peer) else { return false };
    if view.looked_around_at.is_some_and(|at| now.since(at) < LOOK_INTERVAL) {
        return false;
    }
    view.looked_around_at = Some(now);
    let Some(view) = asking.views.get(&peer) else { return false };
    let live = asking.wants.live();
    let here: Vec<u32> =
        ones(live.words(), |at| live.word(at) & view.has.word(at)).take(COMPARED_MAX).collect();
    if view.is_idler() {
        return false;
    }
    let mut best: Option<(Duration, u32, P, bool)> = None;
    for at in here {
        let wanted = asking.wants.get(at);
        let [other] = wanted.asked_of[..] else { continue };
        let Some(theirs) = asking.views.get(&other) else { continue };
        let Some(ask) = theirs.asked.get(&at) else { continue };
        let is_tail = asking.wants.open_len() == 0;
        if ask.returned_at.is_some_and(|at| now.since(at) < RETURNED_WITHIN) {
            continue;
        }
        // Who had its chance is not given another, or two that send nothing would pass it to and fro.
        let has_chance = is_tail && !view.late.has(&wanted.cid);
        // What was not given back may be under way.
        let found = match has_chance && waits_in_vain(view, theirs, ask, now) {
            true => Some((now.since(ask.at), true)),
            false => comes_sooner(view, theirs, ask, now)
                .map(|(wait, is_safe)| (wait, is_safe && ask.returned_at.is_none())),
        };
        let Some((wait, is_safe)) = found else { continue };
        if best.as_ref().is_none_or(|best| (is_safe, wait) > (best.3, best.0)) {
            best = Some((wait, at, other, is_safe));
        }
    }
    let Some((_, at, other, is_safe)) = best else { return false };
    if asking.views.get(&other).is_some_and(|view| view.gives_back(at)) {
        asking.give_back(now, at, other, peer);
        return false;
    }
    if is_safe {
        asking.take_back(at, other);
    } else {
        let budget = asking.wanted_total * asking.limits.hedges_per_mille as usize / 1000;
        if asking.wants.open_len() > 0 || asking.hedges >= budget.max(1) {
            return false;
        }
        asking.hedges += 1;
        totals.hedges += 1;
    }
    asking.ask(now, at, peer);
    true
}

/// Whether a block would come much sooner from an idle peer than from whom it was asked of: for how long it is still
/// waited for there, and whether it can be taken back before it is sent.
fn comes_sooner(idle: &View, asked: &View, ask: &Ask, now: Instant) -> Option<(Duration, bool)> {
    let since = (asked.pace.delivered - ask.delivered) as usize;
    let ahead = ask.ahead.saturating_sub(since);
    let base = asked.pace.base.unwrap_or_default();
    let before = match asked.pace.rate {
        0 => Duration::ZERO,
        rate => nanos(ahead as u64, rate),
    };
    let own = nanos(ask.bytes as u64, asked.pace.rate.max(1)).min(now.since(ask.at));
    let wait = before + own;
    if wait <= idle.takes(ask.bytes) * 2 + base {
        return None;
    }
    // A cancel that gets there before the block's turn makes no duplicate. One that was overtaken
    // by many others is being kept for later.
    let is_overtaken = since > ask.ahead + 8 * ask.bytes;
    let is_unlikely = is_overtaken || asked.is_idler();
    Some((wait, is_unlikely || before > base * 2 + Duration::from_millis(50)))
}

/// Whether a block has been waited for as long as an idle peer usually takes, at one that serves others: nothing of a
/// block comes from there, for longer than is usual there. It is unlikely to be sent just now.
fn waits_in_vain(idle: &View, asked: &View, ask: &Ask, now: Instant) -> bool {
    let usual = asked.pace.base.unwrap_or_default() * 2 + STANDSTILL_MIN;
    !asked.is_sending
        && now.since(asked.sent_at.max(ask.at)) > usual.max(asked.gap)
        && idle.pace.usual.is_some_and(|usual| now.since(ask.at) > usual)
}
