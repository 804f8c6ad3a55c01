//! Bitswap 1.2 as boxo does it, for comparison.
//!
//! A session has all of its wants told at once, as p2plab's walker wants them; kubo's own walkers look ahead
//! 10 or 32 blocks. Absent: the search for one random want every minute.

use std::time::Duration;

use vocab::Instant;

use super::Asking;
use super::view::View;
use crate::Totals;

/// Wants that are told to everyone while nobody is known to have anything.
const BROADCAST_MAX: usize = 64;

/// DONT_HAVEs in a row, said or supposed, after which a peer is not asked any more.
const DONT_HAVES_MAX: u32 = 16;

/// How long a peer's queue waits between messages.
pub(super) fn pause(peers: usize) -> Duration {
    let spread = Duration::from_micros(125) * u32::try_from(peers).unwrap_or(u32::MAX);
    Duration::from_millis(20).max(spread.min(Duration::from_secs(2)))
}

/// Every want goes as a want-block to one peer; [`Asking::speak`] tells the others.
pub(super) fn fill<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant) {
    asking.hungry.clear();
    asking.newcomers.clear();
    let has_members = asking.views.values().any(|view| view.habit.is_member);
    let wants_max = if has_members { usize::MAX } else { BROADCAST_MAX };
    if asking.wants.len() == 0 {
        asking.front.look(&asking.wants, wants_max);
        asking.searches.rest();
        return;
    }
    if asking.front.look(&asking.wants, wants_max) {
        // What has come into sight is told to all.
        asking.touched.extend(asking.views.keys());
    }
    for at in asking.front.open(&asking.wants) {
        let members = || {
            let views = asking.views.iter();
            views.filter(|(_, view)| view.habit.is_member && !view.habit.is_pruned)
        };
        let rank = |view: &View| match () {
            () if view.has.has(at) => 2,
            () if !view.lacks.has(at) => 1,
            () => 0,
        };
        let best = members().map(|(_, view)| rank(view)).max().unwrap_or(0);
        if best == 0 {
            continue;
        }
        let best = || members().filter(|(_, view)| rank(view) == best);
        let weight = |view: &View| 1 + view.habit.firsts as usize;
        let mut throw = asking.dice.below(best().map(|(_, view)| weight(view)).sum());
        let chosen = best().find(|(_, view)| {
            let is_it = throw < weight(view);
            throw = throw.saturating_sub(weight(view));
            is_it
        });
        if let Some((&peer, _)) = chosen {
            asking.ask(now, at, peer);
        }
    }
}

/// How long a peer may take to answer before it is supposed not to have the block.
fn timeout(view: &View) -> Duration {
    let (least, most) = (Duration::from_millis(50), Duration::from_secs(7));
    view.habit.latency.map_or(Duration::from_secs(5), |latency| (latency * 2).clamp(least, most))
}

/// After so long without any block, all who were found wanting are asked again.
fn idle_at<P: Copy + Ord>(asking: &Asking<P>) -> Option<Instant> {
    (asking.wants.len() > 0).then(|| asking.last_block_at + Duration::from_millis(500) * 3)
}

pub(super) fn handle_tick<P: Copy + Ord>(
    asking: &mut Asking<P>,
    now: Instant,
    totals: &mut Totals,
) {
    let mut late = Vec::new();
    for (peer, view) in &mut asking.views {
        if view.habit.quiet_until.is_some_and(|until| until <= now) {
            view.habit.quiet_until = None;
            asking.touched.insert(*peer);
        }
        let timeout = timeout(view);
        let asked = view.asked.iter().filter(|(_, ask)| ask.at + timeout <= now);
        late.extend(asked.map(|(at, _)| (*peer, *at)));
    }
    for (peer, at) in late {
        totals.silences += 1;
        asking.give_up_on(at, peer);
        let Some(view) = asking.views.get_mut(&peer) else { continue };
        if !view.has.has(at) {
            view.lacks.insert(at);
        }
        view.habit.dont_haves += 1;
        if view.habit.dont_haves > DONT_HAVES_MAX {
            view.habit.is_pruned = true;
        }
    }
    if idle_at(asking).is_some_and(|at| at <= now) {
        asking.last_block_at = now;
        for (peer, view) in &mut asking.views {
            view.habit.is_pruned = false;
            view.habit.dont_haves = 0;
            view.lacks = Default::default();
            view.told = Default::default();
            asking.touched.insert(*peer);
        }
    }
}

pub(super) fn next_wake<P: Copy + Ord>(asking: &Asking<P>) -> Option<Instant> {
    let quiet = asking.views.values().filter_map(|view| view.habit.quiet_until);
    let late = asking.views.values().filter_map(|view| {
        let oldest = view.asked.values().map(|ask| ask.at).min();
        oldest.map(|at| at + timeout(view))
    });
    quiet.chain(late).chain(idle_at(asking)).min()
}
