use std::collections::BTreeSet;

/// Peers that may have room for more requests.
#[derive(Debug)]
pub(crate) struct ReadyPeers<P> {
    /// Peers that sent a useful block before.
    pub proven: BTreeSet<P>,
    /// Peers that never did. They get one request each at first.
    pub unproven: BTreeSet<P>,
}

impl<P: Ord> ReadyPeers<P> {
    pub(crate) const fn new() -> Self {
        ReadyPeers { proven: BTreeSet::new(), unproven: BTreeSet::new() }
    }

    pub(crate) fn insert(&mut self, peer: P, is_unproven: bool) {
        if is_unproven {
            self.unproven.insert(peer)
        } else {
            self.proven.insert(peer)
        };
    }

    pub(crate) fn remove(&mut self, peer: &P) {
        self.proven.remove(peer);
        self.unproven.remove(peer);
    }

    pub(crate) fn clear(&mut self) {
        self.proven.clear();
        self.unproven.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_leaves_is_in_neither_set() {
        let mut ready = ReadyPeers::new();
        ready.insert(1, true);
        ready.insert(1, false);
        ready.insert(2, true);
        ready.remove(&1);
        assert!(ready.proven.is_empty() && ready.unproven == BTreeSet::from([2]));
        ready.clear();
        assert!(ready.unproven.is_empty());
    }
}
