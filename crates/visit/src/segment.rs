//! Relayed frames: a peer, and a part of a message.

use bytes::{BufMut, Bytes};
use vocab::PeerId;

/// Bytes of the peer that a frame goes to, or comes from.
const PEER_BYTES: usize = 8;
const HEAD_BYTES: usize = 12;
/// What a frame carries besides a part of a message.
pub(crate) const OVERHEAD_BYTES: usize = PEER_BYTES + HEAD_BYTES;

/// A part of a message, and its place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Chosen by the sender.
    pub message: u32,
    pub offset: usize,
    /// Bytes of the whole message.
    pub total: usize,
    pub bytes: Bytes,
}

impl Segment {
    /// Appends the frame that carries this to `to`.
    pub(crate) fn encode(&self, to: PeerId, frame: &mut Vec<u8>) {
        let word = |number: usize| u32::try_from(number).expect("a message has at most 4 MiB");
        frame.reserve(OVERHEAD_BYTES + self.bytes.len());
        frame.put_slice(&to.to_bytes());
        frame.put_u32(self.message);
        frame.put_u32(word(self.offset));
        frame.put_u32(word(self.total));
        frame.put_slice(&self.bytes);
    }

    /// Who sent a frame, and what; `None` when it is too short to be one.
    pub(crate) fn decode(frame: &Bytes) -> Option<(PeerId, Segment)> {
        let (peer, rest) = frame.split_first_chunk::<PEER_BYTES>()?;
        let (message, rest) = rest.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (total, _) = rest.split_first_chunk()?;
        let word = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes) as usize;
        let segment = Segment {
            message: u32::from_be_bytes(*message),
            offset: word(offset),
            total: word(total),
            bytes: frame.slice(OVERHEAD_BYTES..),
        };
        Some((PeerId::from_bytes(*peer), segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_peer_three_numbers_and_a_part() {
        let bytes = Bytes::from_static(b"part");
        let segment = Segment { message: 7, offset: 65_516, total: 1 << 20, bytes };
        let mut frame = Vec::new();
        segment.encode(PeerId(0x0102), &mut frame);
        let head = [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 7, 0, 0, 0xff, 0xec, 0, 0x10, 0, 0];
        assert_eq!(frame, [&head[..], b"part"].concat());
        assert_eq!(Segment::decode(&frame.into()), Some((PeerId(0x0102), segment)));
    }

    #[test]
    fn half_a_head_is_no_frame() {
        for len in 0..OVERHEAD_BYTES {
            assert_eq!(Segment::decode(&vec![1; len].into()), None, "{len}");
        }
    }
}
