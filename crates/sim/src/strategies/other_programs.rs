//! The parts that the models of boxo and go-bitswap share.

use std::collections::BTreeMap;
use std::time::Duration;

use watchfire_bitswap::{BitSet, ExchangePolicy, Requester, Response, Wanted, Wants};
use watchfire_types::Instant;

/// The state that boxo and go-bitswap keep for each peer.
#[derive(Debug, Default)]
pub(super) struct BoxoState {
    /// Before this time, no wants are sent.
    pub quiet_until: Option<Instant>,
    /// DONT_HAVEs in a row.
    pub dont_haves: u32,
    /// Whether the peer sent a HAVE or a block, so that the session sends requests to it.
    pub is_member: bool,
    /// Whether the session stopped requesting from the peer, because it lacks too many blocks.
    pub is_pruned: bool,
    /// Wanted blocks that the peer sent.
    pub blocks: u32,
    /// Smoothed time from a request to its response.
    pub latency: Option<Duration>,
}

impl BoxoState {
    pub(super) fn handle_response(&mut self, response: Response) {
        match response {
            Response::DontHave => self.dont_haves += 1,
            Response::Have | Response::Block { .. } => {
                self.dont_haves = 0;
                self.is_member = true;
                self.is_pruned = false;
            }
            Response::Duplicate => {}
        }
        if let Response::Block { latency } = response {
            self.blocks += 1;
            if let Some(took) = latency {
                self.latency = Some(self.latency.map_or(took, |latency| (latency + took) / 2));
            }
        }
    }
}

/// The minimum time between two messages with wants to one peer. It grows with the number of peers.
fn message_delay(peers: usize) -> Duration {
    let spread = Duration::from_micros(125) * u32::try_from(peers).unwrap_or(u32::MAX);
    Duration::from_millis(20).max(spread.min(Duration::from_secs(2)))
}

/// Other programs have neither our timeouts nor our ledger.
pub(super) const OTHER_PROGRAMS: ExchangePolicy = ExchangePolicy {
    has_silence_timeouts: false,
    resends_want_haves: false,
    batches_messages: false,
    serves_rarest_first: false,
};

pub(super) fn can_send<P: Ord>(peers: &BTreeMap<P, BoxoState>, now: Instant, peer: P) -> bool {
    let quiet_until = peers.get(&peer).and_then(|state| state.quiet_until);
    quiet_until.is_none_or(|until| until <= now)
}

pub(super) fn begin_quiet_time<P: Copy + Ord>(
    peers: &mut BTreeMap<P, BoxoState>,
    now: Instant,
    peer: P,
    requester: &Requester<P>,
) {
    if let Some(state) = peers.get_mut(&peer) {
        state.quiet_until = Some(now + message_delay(requester.peers().count()));
    }
}

pub(super) fn end_quiet_times<P: Copy + Ord>(
    peers: &mut BTreeMap<P, BoxoState>,
    now: Instant,
    requester: &mut Requester<P>,
) {
    for (peer, state) in peers {
        if state.quiet_until.is_some_and(|until| until <= now) {
            state.quiet_until = None;
            requester.update_peer(*peer);
        }
    }
}

/// The wants that a session may send. Other programs look ahead only a limited number of wants.
#[derive(Debug, Default)]
pub(super) struct WantFront {
    pub(super) wants: BitSet,
    /// [`Wants::changes`] at the last update, and the limit.
    updated_for: (u64, usize),
}

impl WantFront {
    /// Selects the next `wants_max` wants, the most urgent first. Returns whether they have
    /// changed.
    pub(super) fn update<P: Copy + Ord>(&mut self, wants: &Wants<P>, wants_max: usize) -> bool {
        let is_changed = self.updated_for != (wants.changes(), wants_max);
        if is_changed {
            self.updated_for = (wants.changes(), wants_max);
            let urgency = wants.iter().map(|(_, wanted)| wanted.urgency).max();
            let is_urgent = |(_, wanted): &(u32, &Wanted<P>)| Some(wanted.urgency) == urgency;
            let (urgent, others) = (wants.iter().filter(is_urgent), wants.iter());
            self.wants = BitSet::default();
            for (at, _) in urgent.take(wants_max).chain(others) {
                if self.wants.len() == wants_max {
                    break;
                }
                self.wants.insert(at);
            }
        }
        is_changed
    }

    /// The wants that are requested from no peer.
    pub(super) fn unrequested<P: Copy + Ord>(&self, wants: &Wants<P>) -> Vec<u32> {
        let is_unrequested = |at: &u32| wants.get(*at).requested_from.is_empty();
        self.wants.iter().filter(is_unrequested).collect()
    }
}
