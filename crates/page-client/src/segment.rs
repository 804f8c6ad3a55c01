//! The payload of relayed frames: a peer id and a segment of a message.

use bytes::{BufMut, Bytes};
use watchfire_types::PeerId;

/// Bytes of the id of the receiver or the sender.
const PEER_BYTES: usize = 8;
const HEADER_BYTES: usize = 12;
/// Bytes of a frame besides the segment's own bytes.
pub(crate) const OVERHEAD_BYTES: usize = PEER_BYTES + HEADER_BYTES;

/// Shorter messages are sent before longer ones, so that a want does not wait behind a block.
pub(crate) const SHORT_BYTES_MAX: usize = 16 << 10;

/// A message that may have to be sent, or sent again on the other path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsentMessage {
    pub id: u32,
    pub bytes: Bytes,
    /// Whether the host was told that the message is sent. Its end is reported once.
    pub is_reported: bool,
    /// Whether the server has relayed the whole message, which may still be on its way.
    pub is_relayed: bool,
}

/// A part of a message and its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The number of the message, chosen by the sender.
    pub message: u32,
    pub offset: usize,
    /// Bytes of the whole message.
    pub total: usize,
    pub bytes: Bytes,
}

impl Segment {
    /// Appends the payload for the receiver `to` to a frame.
    pub(crate) fn encode(&self, to: PeerId, frame: &mut Vec<u8>) {
        frame.reserve(OVERHEAD_BYTES + self.bytes.len());
        frame.put_slice(&to.to_bytes());
        self.encode_body(frame);
    }

    /// Appends the segment without a peer id.
    pub(crate) fn encode_body(&self, frame: &mut Vec<u8>) {
        let u32_of = |number: usize| u32::try_from(number).expect("a message has at most 4 MiB");
        frame.put_u32(self.message);
        frame.put_u32(u32_of(self.offset));
        frame.put_u32(u32_of(self.total));
        frame.put_slice(&self.bytes);
    }

    /// Returns the sender and the segment; `None` if the payload is too short.
    pub(crate) fn decode(frame: &Bytes) -> Option<(PeerId, Segment)> {
        let (peer, _) = frame.split_first_chunk::<PEER_BYTES>()?;
        let segment = Self::decode_body(&frame.slice(PEER_BYTES..))?;
        Some((PeerId::from_bytes(*peer), segment))
    }

    /// Decodes a segment without a peer id; `None` if the payload is too short.
    pub(crate) fn decode_body(payload: &Bytes) -> Option<Segment> {
        let (message, rest) = payload.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (total, _) = rest.split_first_chunk()?;
        let usize_of = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes) as usize;
        Some(Segment {
            message: u32::from_be_bytes(*message),
            offset: usize_of(offset),
            total: usize_of(total),
            bytes: payload.slice(HEADER_BYTES..),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_a_peer_id_three_numbers_and_the_bytes() {
        let bytes = Bytes::from_static(b"part");
        let segment = Segment { message: 7, offset: 65_516, total: 1 << 20, bytes };
        let mut frame = Vec::new();
        segment.encode(PeerId(0x0102), &mut frame);
        let head = [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 7, 0, 0, 0xff, 0xec, 0, 0x10, 0, 0];
        assert_eq!(frame, [&head[..], b"part"].concat());
        assert_eq!(Segment::decode(&frame.into()), Some((PeerId(0x0102), segment)));
    }

    #[test]
    fn a_payload_without_a_whole_header_is_rejected() {
        for len in 0..OVERHEAD_BYTES {
            assert_eq!(Segment::decode(&vec![1; len].into()), None, "{len}");
        }
    }
}
