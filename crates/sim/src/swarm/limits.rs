//! The limits of an exchange, which it must not exceed at any time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Swarm;
use super::node::Peer;
use crate::strategies::Strategy;

/// Up to this number of connected peers, a node's limits are checked at every wake.
const PEERS_CHECKED_ALWAYS: usize = 12;
/// The minimum time between two checks of a node with more peers.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Swarm<'_> {
    /// Checks that the state of an exchange is within its limits.
    pub(super) fn check(&mut self, peer: Peer) {
        let (now, limits) = (self.now, &self.plan.limits);
        // The other strategies have no such limit.
        let requests_max = match self.plan.strategy {
            Strategy::Watchfire => limits.sent_wants_per_peer_max,
            Strategy::Boxo | Strategy::GoBitswap => usize::MAX,
        };
        let node = &mut self.nodes[peer.0 as usize];
        // A node with many peers wakes often.
        if node.peers.len() > PEERS_CHECKED_ALWAYS && now.since(node.checked_at) < CHECK_INTERVAL {
            return;
        }
        node.checked_at = now;
        let known: BTreeSet<Peer> = node.exchange.peers().collect();
        let mut found = Vec::new();
        if known != node.peers {
            found.push(format!("it has {} of {} peers", known.len(), node.peers.len()));
        }
        for other in known {
            let Some(totals) = node.exchange.peer(other) else { continue };
            if totals.wants > limits.wants_per_peer_max {
                found.push(format!("it stores {} wants of peer {}", totals.wants, other.0));
            }
            if totals.requested_blocks > requests_max {
                found.push(format!("{} requests to peer {}", totals.requested_blocks, other.0));
            }
        }
        for violation in found {
            self.record_violation(peer, format_args!("{violation}"));
        }
    }
}
