use std::collections::BTreeMap;
use std::time::Duration;

use libp2p::PeerId;
use tokio::time::Instant;

/// Which peers are of use, and which are given up when there are too many.
///
/// What counts is that blocks move: anyone can stay connected, and want what nobody has.
#[derive(Debug)]
pub(super) struct Trimming {
    connections_max: usize,
    grace: Duration,
    /// Of those that are connected: when a block moved last, or else when they came.
    used_at: BTreeMap<PeerId, Instant>,
}

impl Trimming {
    pub(super) fn new(connections_max: u32, grace: Duration) -> Self {
        let connections_max = connections_max as usize;
        Trimming { connections_max, grace, used_at: BTreeMap::new() }
    }

    /// A peer is connected, perhaps once more.
    pub(super) fn connected(&mut self, peer: PeerId, now: Instant) {
        self.used_at.entry(peer).or_insert(now);
    }

    /// A block came from a peer, or was sent to it.
    pub(super) fn used(&mut self, peer: PeerId, now: Instant) {
        if let Some(at) = self.used_at.get_mut(&peer) {
            *at = now;
        }
    }

    /// The last connection with a peer ended.
    pub(super) fn gone(&mut self, peer: &PeerId) {
        self.used_at.remove(peer);
    }

    /// Whom to part from while so many connections are open, the longest unused first; never from
    /// those that `is_kept`.
    pub(super) fn surplus(
        &self,
        connections: usize,
        now: Instant,
        is_kept: impl Fn(&PeerId) -> bool,
    ) -> Vec<PeerId> {
        if connections <= self.connections_max / 8 * 7 + self.connections_max % 8 {
            return Vec::new();
        }
        let too_many = connections - self.connections_max / 4 * 3;
        let is_unused = |at: Instant| now.saturating_duration_since(at) >= self.grace;
        let mut unused: Vec<(Instant, PeerId)> = self
            .used_at
            .iter()
            .filter(|(peer, at)| is_unused(**at) && !is_kept(peer))
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
    fn who_was_of_no_use_for_longest_makes_room_and_newcomers_do_not() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut trimming = Trimming::new(16, Duration::from_secs(20));
        let peers: Vec<PeerId> = (0..15).map(|_| PeerId::random()).collect();
        for (second, peer) in (0..).zip(&peers) {
            trimming.connected(*peer, at(second));
        }
        assert_eq!(trimming.surplus(15, at(19), |_| false), [], "all have come just now");
        assert_eq!(trimming.surplus(14, at(60), |_| false), [], "there are not too many");
        trimming.used(peers[1], at(59));
        trimming.gone(&peers[2]);
        let kept = peers[3];
        let surplus = trimming.surplus(15, at(60), |peer| *peer == kept);
        assert_eq!(surplus, [peers[0], peers[4], peers[5]]);
    }
}
