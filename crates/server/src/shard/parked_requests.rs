//! The requests that features parked in a shard.

use slab::Slab;
use watchfire_types::{Instant, SocketId};

/// Set in the keys of parked requests, not in those of clients. A shard has fewer than two billion
/// of either.
pub(super) const KEY_BIT: u32 = 1 << 31;

/// The parked requests of one shard.
#[derive(Default)]
pub(super) struct ParkedRequests {
    pub waiting: Slab<Waiting>,
    /// The index that the sweep checked last.
    pub swept: usize,
}

/// A request that waits.
pub(super) struct Waiting {
    pub socket: SocketId,
    pub client: u64,
    pub since: Instant,
}

/// Whether a key is that of a parked request.
pub(super) fn is_parked_key(key: u32) -> bool {
    key & KEY_BIT != 0
}

/// The index of a parked request, from its key.
pub(super) fn index_of(key: u32) -> usize {
    (key & !KEY_BIT) as usize
}
