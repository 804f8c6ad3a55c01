//! Bitswap before HAVE, as go-bitswap did it, for comparison.
//!
//! Nobody can say what it has, so wants are split over groups of peers, and each is asked of a whole group. More
//! groups mean fewer duplicates and a slower search; their number follows the duplicates seen.

use std::time::Duration;

use vocab::Instant;

use super::Asking;

/// Wants that are asked of everyone while nobody is known to have anything.
const BROADCAST_MAX: usize = 4;

/// Wants that are asked of somebody at a time.
const LIVE_MAX: usize = 32;

/// Into how many groups the peers are split.
#[derive(Debug)]
pub(crate) struct Split {
    groups: usize,
    duplicates: f64,
    turn: usize,
}

impl Default for Split {
    fn default() -> Self {
        Split { groups: 2, duplicates: 0.3, turn: 0 }
    }
}

impl Split {
    /// A block came; whether it was here already.
    pub(crate) fn saw(&mut self, is_duplicate: bool) {
        self.duplicates = self.duplicates * 0.95 + if is_duplicate { 0.05 } else { 0.0 };
        if self.duplicates > 0.4 && self.groups < 16 {
            self.groups += 1;
            self.duplicates = 0.3;
        } else if self.duplicates < 0.2 && self.groups > 2 {
            self.groups -= 1;
            self.duplicates = 0.3;
        }
    }
}

pub(super) fn fill<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant) {
    asking.hungry.clear();
    asking.newcomers.clear();
    asking.front.look(&asking.wants, LIVE_MAX);
    if asking.wants.len() == 0 {
        asking.searches.rest();
        return;
    }
    let members = asking.views.iter().filter(|(_, view)| view.habit.is_member);
    let members: Vec<P> = members.map(|(peer, _)| *peer).collect();
    let wanted = asking.front.open(&asking.wants);
    if members.is_empty() {
        let everyone: Vec<P> = asking.views.keys().copied().collect();
        for at in wanted.into_iter().take(BROADCAST_MAX) {
            ask_all(asking, now, at, &everyone);
        }
        return;
    }
    for at in wanted {
        let groups = asking.old.groups.min(members.len());
        let group = asking.old.turn % groups;
        asking.old.turn += 1;
        let start = asking.dice.below(groups);
        let group: Vec<P> =
            members.iter().copied().skip((group + start) % groups).step_by(groups).collect();
        ask_all(asking, now, at, &group);
    }
}

fn ask_all<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant, at: u32, peers: &[P]) {
    for peer in peers {
        if !asking.wants.get(at).asked_of.contains(peer) {
            asking.ask(now, at, *peer);
        }
    }
}

/// After so long without any block, all that is asked of somebody is asked of everyone.
fn idle_at<P: Copy + Ord>(asking: &Asking<P>) -> Option<Instant> {
    let latencies = asking.views.values().filter_map(|view| view.habit.latency);
    let slowest = latencies.max().unwrap_or_default();
    let wait = Duration::from_millis(500) + slowest * 3;
    (asking.wants.len() > 0).then(|| asking.last_block_at + wait)
}

pub(super) fn handle_tick<P: Copy + Ord>(asking: &mut Asking<P>, now: Instant) {
    for (peer, view) in &mut asking.views {
        if view.habit.quiet_until.is_some_and(|until| until <= now) {
            view.habit.quiet_until = None;
            asking.touched.insert(*peer);
        }
    }
    if idle_at(asking).is_some_and(|at| at <= now) {
        asking.last_block_at = now;
        asking.front.look(&asking.wants, LIVE_MAX);
        let wanted: Vec<u32> = asking.front.bits.iter().collect();
        let everyone: Vec<P> = asking.views.keys().copied().collect();
        for at in wanted {
            ask_all(asking, now, at, &everyone);
        }
    }
}

pub(super) fn next_wake<P: Copy + Ord>(asking: &Asking<P>) -> Option<Instant> {
    let quiet = asking.views.values().filter_map(|view| view.habit.quiet_until);
    quiet.chain(idle_at(asking)).min()
}
