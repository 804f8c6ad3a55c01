use std::fmt;

/// One event loop of the server: a core with its own listener, slab and hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// A client's connection within one shard.
///
/// The index names a slot, which is reused; the generation tells its tenants apart, so an id kept
/// past its socket's end finds nobody instead of a stranger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    /// The slot in the shard's slab.
    pub index: u32,
    /// How many sockets this slot has held before.
    pub generation: u32,
}

impl fmt::Debug for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "socket {}.{}", self.index, self.generation)
    }
}
