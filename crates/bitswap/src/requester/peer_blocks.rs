use crate::bit_set::BitSet;

/// How likely a peer has a block before it has sent HAVE or DONT_HAVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProviderHint {
    /// The peer sent DONT_HAVE, or a first block was requested already. Request nothing more.
    Unlikely,
    /// Nothing is known of the peer. Request one block.
    Unknown,
    /// The peer was found as a provider, or its protocol has no HAVE. Request up to its window.
    Likely,
}

/// The wanted blocks that a peer has and lacks, as far as this node knows.
#[derive(Debug)]
pub(crate) struct PeerBlocks {
    pub has: BitSet,
    pub lacks: BitSet,
    /// Wants for which the peer announces HAVE by a list. They need no want-have.
    pub announced: BitSet,
    pub provider_hint: ProviderHint,
}

impl PeerBlocks {
    pub(crate) fn new(is_likely: bool) -> Self {
        PeerBlocks {
            has: BitSet::default(),
            lacks: BitSet::default(),
            announced: BitSet::default(),
            provider_hint: if is_likely { ProviderHint::Likely } else { ProviderHint::Unknown },
        }
    }

    /// Whether the peer has a block, according to the peer or to a provider record.
    pub(crate) fn may_have(&self, at: u32) -> bool {
        self.has.has(at) || (self.provider_hint == ProviderHint::Likely && !self.lacks.has(at))
    }

    /// Forgets a want whose number will be used again.
    pub(crate) fn forget(&mut self, at: u32) {
        self.has.remove(at);
        self.lacks.remove(at);
        self.announced.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_likely_provider_may_have_every_block_that_it_did_not_deny() {
        let mut blocks = PeerBlocks::new(true);
        blocks.lacks.insert(1);
        assert!(blocks.may_have(0) && !blocks.may_have(1));
        let mut blocks = PeerBlocks::new(false);
        blocks.has.insert(1);
        assert!(!blocks.may_have(0) && blocks.may_have(1));
        blocks.forget(1);
        assert!(!blocks.may_have(1));
    }
}
