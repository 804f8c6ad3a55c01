//! Messages that a client sent while its join waits.

use std::collections::VecDeque;

/// Bytes that a client may send while its join waits. When it sends more, its socket is closed with
/// 1013, or its session ends.
pub(super) const PENDING_BYTES_MAX: usize = 1 << 20;
/// The overhead of one message, in bytes.
const PENDING_OVERHEAD_BYTES: usize = 64;
/// The close code for a client that sends too much: try again later.
pub(super) const TRY_AGAIN_LATER: u16 = 1013;

/// A message that waits.
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

/// The messages of one client.
#[derive(Default)]
pub(super) struct PendingMessages {
    pub messages: VecDeque<PendingMessage>,
    pub bytes: usize,
}
