//! Closes idle connections before the connection limit is reached.

use std::collections::BTreeMap;
use std::time::Duration;

use libp2p::PeerId;
use tokio::time::Instant;

/// Selects the connections to close when there are too many.
///
/// Only block transfers count as use. Otherwise a peer could stay connected for ever by requesting
/// blocks that do not exist.
#[derive(Debug)]
pub(super) struct ConnectionTrimmer {
    connections_max: usize,
    grace_period: Duration,
    /// For each connected peer, when a block last moved, or when the peer connected.
    used_at: BTreeMap<PeerId, Instant>,
}

impl ConnectionTrimmer {
    pub(super) fn new(connections_max: u32, grace_period: Duration) -> Self {
        let connections_max = connections_max as usize;
        ConnectionTrimmer { connections_max, grace_period, used_at: BTreeMap::new() }
    }

    /// A connection with a peer was established. It may be one of several.
    pub(super) fn handle_connected(&mut self, peer: PeerId, now: Instant) {
        self.used_at.entry(peer).or_insert(now);
    }

    /// A block was received from a peer or sent to it.
    pub(super) fn note_block_moved(&mut self, peer: PeerId, now: Instant) {
        if let Some(at) = self.used_at.get_mut(&peer) {
            *at = now;
        }
    }

    /// The last connection with a peer was closed.
    pub(super) fn handle_disconnected(&mut self, peer: &PeerId) {
        self.used_at.remove(peer);
    }

    /// Returns the peers to disconnect, the longest unused first. Protected peers are never among
    /// them.
    ///
    /// Above seven eighths of the limit, this selects the number of peers that is needed to reach three
    /// quarters. Peers within the grace period are not selected.
    pub(super) fn surplus(
        &self,
        connections: usize,
        now: Instant,
        is_protected: impl Fn(&PeerId) -> bool,
    ) -> Vec<PeerId> {
        if connections <= self.connections_max / 8 * 7 + self.connections_max % 8 {
            return Vec::new();
        }
        let too_many = connections - self.connections_max / 4 * 3;
        let is_unused = |at: Instant| now.saturating_duration_since(at) >= self.grace_period;
        let mut unused: Vec<(Instant, PeerId)> = self
            .used_at
            .iter()
            .filter(|(peer, at)| is_unused(**at) && !is_protected(peer))
            .map(|(peer, at)| (*at, *peer))
            .collect();
        unused.sort_unstable();
        unused.into_iter().take(too_many).map(|(_, peer)| peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_peers_are_trimmed_but_new_and_protected_peers_are_not() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut trimmer = ConnectionTrimmer::new(16, Duration::from_secs(20));
        let peers: Vec<PeerId> = (0..15).map(|_| PeerId::random()).collect();
        for (second, peer) in (0..).zip(&peers) {
            trimmer.handle_connected(*peer, at(second));
        }
        assert_eq!(trimmer.surplus(15, at(19), |_| false), [], "all are within the grace period");
        assert_eq!(trimmer.surplus(14, at(60), |_| false), [], "there are not too many");
        trimmer.note_block_moved(peers[1], at(59));
        trimmer.handle_disconnected(&peers[2]);
        let protected = peers[3];
        let surplus = trimmer.surplus(15, at(60), |peer| *peer == protected);
        assert_eq!(surplus, [peers[0], peers[4], peers[5]]);
    }
}
