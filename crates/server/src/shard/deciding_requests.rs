//! The upgrade requests of a shard that the backend decides about.

use slab::Slab;
use watchfire_channels::Serializer;
use watchfire_sockets::Handshake;
use watchfire_types::SocketId;

use crate::addresses::CountedAddress;
use crate::channel_api::Connected;

/// Set in the keys of these requests, not in those of clients and of other parked requests. A shard
/// has fewer than a billion of any.
pub(super) const KEY_BIT: u32 = 1 << 30;

/// The upgrade requests of one shard that wait.
#[derive(Default)]
pub(super) struct Deciding(pub Slab<Waiting>);

/// A request that waits.
pub(super) struct Waiting {
    pub socket: SocketId,
    pub handshake: Handshake,
    pub serializer: Serializer,
    pub connected: Connected,
    pub counted: CountedAddress,
}

/// Whether the key of a parked request is that of a client that the backend decides about.
pub(super) fn is_deciding_key(key: u32) -> bool {
    key & KEY_BIT != 0
}

impl Deciding {
    /// Removes a request, if this socket has the key still.
    pub fn remove(&mut self, key: u32, socket: SocketId) -> Option<Waiting> {
        let index = (key & !KEY_BIT) as usize;
        let is_same = self.0.get(index).is_some_and(|waiting| waiting.socket == socket);
        is_same.then(|| self.0.remove(index))
    }
}
