//! Everything that waits in a shard: requests that a feature parked, upgrade requests about which the backend
//! decides, joins of clients that read slowly, and messages that arrive before their join ends.
//!
//! A parked request has a key with one of two high bits, so that it differs from the keys of clients. A
//! shard has fewer than a billion of any.

use std::any::Any;
use std::collections::VecDeque;

use slab::Slab;
use watchfire_channels::Serializer;
use watchfire_sockets::Handshake;
use watchfire_types::{Instant, SocketId};

use crate::addresses::CountedAddress;
use crate::channel_api::{ChannelAddress, Connected};

/// Set in the keys of requests that a feature parked.
const PARKED_BIT: u32 = 1 << 31;
/// Set in the keys of upgrade requests about which the backend decides.
const UPGRADE_BIT: u32 = 1 << 30;

/// Bytes that a client may send while its join waits. When it sends more, its socket is closed with
/// 1013, or its session ends.
pub(super) const PENDING_BYTES_MAX: usize = 1 << 20;
/// The overhead of one message, in bytes.
const PENDING_OVERHEAD_BYTES: usize = 64;

/// The requests that features parked.
#[derive(Default)]
pub(super) struct ParkedRequests {
    pub waiting: Slab<WaitingRequest>,
    /// The index that the sweep checked last.
    pub swept: usize,
}

pub(super) struct WaitingRequest {
    pub socket: SocketId,
    pub client: u64,
    pub since: Instant,
}

impl ParkedRequests {
    pub fn insert(&mut self, request: WaitingRequest) -> u32 {
        Self::key_of(self.waiting.insert(request))
    }

    pub fn key_of(index: usize) -> u32 {
        index as u32 | PARKED_BIT
    }

    pub fn index_of(key: u32) -> usize {
        (key & !PARKED_BIT) as usize
    }

    pub fn has_form(key: u32) -> bool {
        key & PARKED_BIT != 0
    }
}

/// The upgrade requests about which the backend decides.
#[derive(Default)]
pub(super) struct WaitingUpgrades(pub Slab<WaitingUpgrade>);

pub(super) struct WaitingUpgrade {
    pub socket: SocketId,
    pub handshake: Handshake,
    pub serializer: Serializer,
    pub connected: Connected,
    pub counted: CountedAddress,
}

impl WaitingUpgrades {
    pub fn insert(&mut self, request: WaitingUpgrade) -> u32 {
        self.0.insert(request) as u32 | UPGRADE_BIT
    }

    /// Removes a request, if this socket has the key still.
    pub fn remove(&mut self, key: u32, socket: SocketId) -> Option<WaitingUpgrade> {
        let index = (key & !UPGRADE_BIT) as usize;
        let is_same = self.0.get(index).is_some_and(|waiting| waiting.socket == socket);
        is_same.then(|| self.0.remove(index))
    }

    pub fn has_form(key: u32) -> bool {
        key & UPGRADE_BIT != 0
    }
}

/// A join that waits for room in its client's queue.
pub(super) struct CrowdedJoin {
    pub until: Instant,
    pub address: ChannelAddress,
    /// The message that continues it, if its channel let it wait before.
    pub continued: Option<Box<dyn Any + Send>>,
}

/// The messages that one client sent while its join waits.
#[derive(Default)]
pub(super) struct PendingMessages {
    pub messages: VecDeque<PendingMessage>,
    pub bytes: usize,
}

pub(super) enum PendingMessage {
    Text(Box<str>),
    Binary(Box<[u8]>),
}

impl PendingMessage {
    pub fn cost_bytes(&self) -> usize {
        PENDING_OVERHEAD_BYTES
            + match self {
                PendingMessage::Text(text) => text.len(),
                PendingMessage::Binary(bytes) => bytes.len(),
            }
    }
}
