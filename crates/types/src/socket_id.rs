use std::fmt;

/// One event loop of the server: a core with its own listener, slab and hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// A client's connection within one shard.
///
/// The index names a slot of the slab, which is reused. The generation makes the id unique: the id
/// of a closed socket matches no later socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    /// The slot in the shard's slab.
    pub index: u32,
    /// The number of sockets that had this slot before.
    pub generation: u32,
}

impl fmt::Debug for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "socket {}.{}", self.index, self.generation)
    }
}
