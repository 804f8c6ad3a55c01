use std::collections::VecDeque;

use watchfire_content::Cid;
use watchfire_types::Instant;

use crate::Protocol;

/// Blocks in a send buffer that are remembered. Repeated requests for older ones are sent twice.
const BLOCKS_MAX: usize = 256;

/// The state of the buffer that carries messages to a peer.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    pub protocol: Protocol,
    pub room: usize,
    /// The most room so far.
    room_max: usize,
    /// Bytes of messages with blocks in the buffer, as computed from the room.
    held: usize,
    /// The part of these bytes that moves to the peer. Bytes that stood still do not count.
    pub moving: usize,
    /// Bytes of all messages with blocks that were pushed so far.
    pushed: u64,
    /// Blocks in the buffer, the oldest first, each with the value of `pushed` after its message.
    blocks: VecDeque<(Cid, u64)>,
    /// Only urgent messages are sent before this.
    pub delayed_until: Instant,
    /// When the last message was sent.
    pub message_sent_at: Instant,
    pub blocks_out: u64,
    pub bytes_out: u64,
}

impl SendBuffer {
    pub(crate) const fn new(now: Instant, protocol: Protocol) -> Self {
        SendBuffer {
            protocol,
            room: 0,
            room_max: 0,
            held: 0,
            moving: 0,
            pushed: 0,
            blocks: VecDeque::new(),
            delayed_until: now,
            message_sent_at: now,
            blocks_out: 0,
            bytes_out: 0,
        }
    }

    /// Sets the room. Returns how many moving bytes have left the buffer.
    pub(crate) fn set_room(&mut self, bytes: usize) -> usize {
        self.room = bytes;
        self.room_max = self.room_max.max(bytes);
        if bytes == 0 {
            return 0;
        }
        self.held = self.held.min(self.room_max - bytes);
        let moving = self.moving.min(self.held);
        let left = std::mem::replace(&mut self.moving, moving) - moving;
        let emptied = self.pushed - self.held as u64;
        while self.blocks.pop_front_if(|(_, pushed)| *pushed <= emptied).is_some() {}
        left
    }

    /// A message with these blocks enters the buffer.
    pub(crate) fn push(&mut self, message_bytes: usize, blocks: impl Iterator<Item = Cid>) {
        self.held += message_bytes;
        self.moving += message_bytes;
        self.pushed += message_bytes as u64;
        self.blocks.extend(blocks.map(|cid| (cid, self.pushed)));
        self.blocks.drain(..self.blocks.len().saturating_sub(BLOCKS_MAX));
    }

    /// Bytes in the buffer stand still, and do not count as moving any more.
    pub(crate) const fn give_up(&mut self) {
        self.moving = 0;
    }

    /// Whether a block is in the buffer already. A peer behind a slow buffer requests it again.
    pub(crate) fn has_block(&self, cid: &Cid) -> bool {
        self.blocks.iter().any(|(other, _)| other == cid)
    }
}

#[cfg(test)]
mod tests {
    use watchfire_content::{Codec, Multihash};

    use super::*;

    #[test]
    fn a_block_is_in_the_buffer_until_the_room_shows_that_it_left() {
        let cid = |number| Cid::v1(Codec::RAW, Multihash::Sha2_256([number; 32]));
        let mut buffer = SendBuffer::new(Instant::ZERO, Protocol::V1_2);
        assert_eq!(buffer.set_room(1000), 0);
        buffer.push(300, [cid(1)].into_iter());
        buffer.push(300, [cid(2)].into_iter());
        assert_eq!(buffer.set_room(600), 200);
        assert!(buffer.has_block(&cid(1)) && buffer.has_block(&cid(2)));
        assert_eq!(buffer.set_room(700), 100);
        assert!(!buffer.has_block(&cid(1)) && buffer.has_block(&cid(2)));
        buffer.give_up();
        assert_eq!(buffer.set_room(1000), 0);
        assert!(!buffer.has_block(&cid(2)));
    }
}
