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
    /// A peer requests a block that no store has. Returns whether the source tries to obtain it.
    ///
    /// After `true` the caller must report the outcome with
    /// [`Host::notify_block_stored`](crate::Host::notify_block_stored) or
    /// [`Host::notify_block_unavailable`](crate::Host::notify_block_unavailable). Until then the
    /// host does not answer the peer. After `false` the host answers that it does not have it.
    ///
    /// Runs on the host's thread, perhaps many times for one block; it must not block.
    fn request(&self, cid: &Cid, origin: RequestOrigin) -> bool;
}

/// A source that obtains nothing.
#[derive(Debug)]
pub(crate) struct NoFallback;

impl FallbackSource for NoFallback {
    fn request(&self, _: &Cid, _: RequestOrigin) -> bool {
        false
    }
}
