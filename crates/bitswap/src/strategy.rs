use std::fmt::Debug;

use watchfire_types::Instant;

use crate::Totals;
use crate::requester::{ExchangePolicy, Requester, Response, WantHaves};

/// Chooses which blocks to request from which peers, and when to request them from another peer.
///
/// [`RarestFirst`](crate::RarestFirst) is the strategy of Watchfire. A simulation can use others.
pub trait RequestStrategy<P: Copy + Ord>: Debug + Send {
    /// The policy of the requester and the ledger. Read once, at the start.
    fn policy(&self) -> ExchangePolicy {
        ExchangePolicy::default()
    }

    /// Requests what can be requested now. Called after each batch of inputs.
    fn request_blocks(&mut self, now: Instant, requester: &mut Requester<P>, totals: &mut Totals);

    fn handle_tick(&mut self, now: Instant, requester: &mut Requester<P>, totals: &mut Totals);

    /// When to call [`RequestStrategy::handle_tick`]; `None` while no timer runs. The requester
    /// handles timeouts of silent peers.
    fn next_wake(&self, requester: &Requester<P>) -> Option<Instant>;

    /// The blocks to request first have changed.
    fn handle_urgent(&mut self, _now: Instant, _requester: &mut Requester<P>) {}

    fn handle_connected(&mut self, _peer: P) {}

    fn handle_disconnected(&mut self, _peer: P) {}

    fn handle_response(&mut self, _peer: P, _response: Response) {}

    /// Whether wants may be sent to a peer now.
    fn can_send(&self, _now: Instant, _peer: P) -> bool {
        true
    }

    /// The wants to send to a peer as want-haves; `None` for none.
    fn want_haves(&self, requester: &Requester<P>, peer: P) -> Option<WantHaves<'_>>;

    /// Wants were sent to a peer.
    fn handle_sent(&mut self, _now: Instant, _peer: P, _requester: &Requester<P>) {}
}
