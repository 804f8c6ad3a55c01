use std::collections::VecDeque;
use std::time::Duration;

use watchfire_content::Cid;
use watchfire_types::Instant;

use crate::Protocol;

/// Blocks on their way that are remembered. Repeated requests for older ones are sent twice.
const BLOCKS_MAX: usize = 256;

/// When nothing moves for this time, what left the buffer may be lost, and is sent again to a peer
/// that requests it again.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// A block on its way to a peer.
#[derive(Debug)]
struct CarriedBlock {
    cid: Cid,
    /// The value of [`SendBuffer::pushed`] after its message.
    pushed: u64,
    /// The number of its message.
    message: u64,
}

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
    /// How many messages with blocks were pushed so far.
    messages: u64,
    /// How many of these the peer has read; `None` if it does not say so.
    acknowledged: Option<u64>,
    /// Blocks on their way, the oldest first.
    blocks: VecDeque<CarriedBlock>,
    /// When a message with blocks was last pushed, left the buffer, or was acknowledged.
    moved_at: Instant,
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
            messages: 0,
            acknowledged: None,
            blocks: VecDeque::new(),
            moved_at: now,
            delayed_until: now,
            message_sent_at: now,
            blocks_out: 0,
            bytes_out: 0,
        }
    }

    /// Sets the room. Returns how many moving bytes have left the buffer.
    pub(crate) fn set_room(&mut self, now: Instant, bytes: usize) -> usize {
        self.room = bytes;
        self.room_max = self.room_max.max(bytes);
        if bytes == 0 {
            return 0;
        }
        self.held = self.held.min(self.room_max - bytes);
        let moving = self.moving.min(self.held);
        let left = std::mem::replace(&mut self.moving, moving) - moving;
        if left > 0 {
            self.moved_at = now;
        }
        self.forget_arrived();
        left
    }

    /// A message with these blocks enters the buffer.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        message_bytes: usize,
        blocks: impl Iterator<Item = Cid>,
    ) {
        self.held += message_bytes;
        self.moving += message_bytes;
        self.pushed += message_bytes as u64;
        self.messages += 1;
        self.moved_at = now;
        let (pushed, message) = (self.pushed, self.messages);
        self.blocks.extend(blocks.map(|cid| CarriedBlock { cid, pushed, message }));
        self.blocks.drain(..self.blocks.len().saturating_sub(BLOCKS_MAX));
    }

    /// The peer has read this many messages with blocks. Earlier ones that it has not read are lost.
    pub(crate) fn acknowledge(&mut self, now: Instant, messages: u64) {
        let before = self.acknowledged.unwrap_or_default();
        if messages > before {
            self.moved_at = now;
        }
        self.acknowledged = Some(messages.max(before));
        self.forget_arrived();
    }

    fn forget_arrived(&mut self) {
        let (emptied, acknowledged) = (self.pushed - self.held as u64, self.acknowledged);
        let has_arrived = |block: &mut CarriedBlock| {
            block.pushed <= emptied && acknowledged.is_none_or(|read| block.message <= read)
        };
        while self.blocks.pop_front_if(has_arrived).is_some() {}
    }

    /// Bytes in the buffer stand still, and do not count as moving any more.
    pub(crate) const fn give_up(&mut self) {
        self.moving = 0;
    }

    /// Whether a block is on its way already. A peer requests it again when its first request crossed
    /// the block, or when a slow buffer delays the block.
    pub(crate) fn has_block(&self, now: Instant, cid: &Cid) -> bool {
        let emptied = self.pushed - self.held as u64;
        let may_be_lost = now.since(self.moved_at) >= UNACKNOWLEDGED_MAX;
        let mut carried = self.blocks.iter().filter(|block| block.cid == *cid);
        carried.any(|block| block.pushed > emptied || !may_be_lost)
    }
}

#[cfg(test)]
mod tests {
    use watchfire_content::{Codec, Multihash};

    use super::*;

    const START: Instant = Instant::ZERO;

    fn cid(number: u8) -> Cid {
        Cid::v1(Codec::RAW, Multihash::Sha2_256([number; 32]))
    }

    /// A buffer of 1,000 bytes with two messages of 300, and a block in each.
    fn filled() -> SendBuffer {
        let mut buffer = SendBuffer::new(START, Protocol::V1_2);
        assert_eq!(buffer.set_room(START, 1000), 0);
        buffer.push(START, 300, [cid(1)].into_iter());
        buffer.push(START, 300, [cid(2)].into_iter());
        buffer
    }

    fn carried(buffer: &SendBuffer, now: Instant) -> [bool; 2] {
        [1, 2].map(|number| buffer.has_block(now, &cid(number)))
    }

    #[test]
    fn a_block_is_in_the_buffer_until_the_room_shows_that_it_left() {
        let mut buffer = filled();
        assert_eq!(buffer.set_room(START, 600), 200);
        assert_eq!(carried(&buffer, START), [true, true]);
        assert_eq!(buffer.set_room(START, 700), 100);
        assert_eq!(carried(&buffer, START), [false, true]);
        buffer.give_up();
        assert_eq!(buffer.set_room(START, 1000), 0);
        assert_eq!(carried(&buffer, START), [false, false]);
    }

    #[test]
    fn a_block_is_on_its_way_until_a_peer_that_acknowledges_has_read_it() {
        let mut buffer = filled();
        buffer.acknowledge(START, 0);
        buffer.set_room(START, 1000);
        assert_eq!(carried(&buffer, START), [true, true]);
        buffer.acknowledge(START, 1);
        assert_eq!(carried(&buffer, START), [false, true]);
        // An older number changes nothing.
        buffer.acknowledge(START, 0);
        assert_eq!(carried(&buffer, START), [false, true]);
        let later = START + UNACKNOWLEDGED_MAX;
        assert_eq!(carried(&buffer, later), [false, false], "it may be lost");
        // The peer has read what followed the first block of these.
        let mut buffer = filled();
        buffer.acknowledge(START, 2);
        assert_eq!(carried(&buffer, later), [true, true], "both are in the buffer");
        buffer.set_room(later, 1000);
        assert_eq!(carried(&buffer, later), [false, false]);
    }
}
