//! Blocks that no store of the host has, but that can be obtained when a peer requests them.

use watchfire_content::Cid;

/// The kind of peer that requests a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// A libp2p peer.
    Libp2p,
    /// A peer of an [`ExternalTransport`](crate::ExternalTransport).
    External,
}

/// Obtains blocks that no store has.
pub trait FallbackSource: Send + Sync {
    /// A peer requests a block that no store has, or that it is not served from there. Returns whether
    /// the source tries to obtain it.
    ///
    /// After `true` the caller must report the outcome with
    /// [`Host::notify_block_obtained`](crate::Host::notify_block_obtained) or
    /// [`Host::notify_block_unavailable`](crate::Host::notify_block_unavailable). Until then the
    /// host does not answer peers of this kind. After `false` the host answers that it does not have it.
    ///
    /// Runs on the host's thread, perhaps many times for one block; it must not block.
    fn request(&self, cid: &Cid, origin: RequestOrigin) -> bool;

    /// Whether the source can obtain a block now. Then the host answers with HAVE a peer that asks only
    /// whether the block is here, and obtains nothing.
    ///
    /// Like [`FallbackSource::request`], it must not block.
    fn can_obtain(&self, _cid: &Cid, _origin: RequestOrigin) -> bool {
        false
    }

    /// Whether the host may send peers of this kind a block that a store has. It asks before each
    /// answer, and again before it sends the block.
    ///
    /// It must not block.
    fn is_served(&self, _cid: &Cid, _origin: RequestOrigin) -> bool {
        true
    }
}

/// A source that obtains nothing.
#[derive(Debug)]
pub(crate) struct NoFallback;

impl FallbackSource for NoFallback {
    fn request(&self, _: &Cid, _: RequestOrigin) -> bool {
        false
    }
}
