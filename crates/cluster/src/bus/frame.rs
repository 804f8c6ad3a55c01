//! Frames of a link: a length (4 bytes, little-endian), a kind (1 byte) and a payload.

use thiserror::Error;

use crate::bus::TOPIC_BYTES_MAX;

/// Bytes of a frame's length field, which counts the bytes after it.
const LENGTH: usize = 4;

/// Bytes before a message.
pub(crate) const HEADER: usize = LENGTH + 1;

/// Bytes of a sequence number.
const SEQ: usize = 8;

/// Bytes of an acknowledgement.
pub(crate) const ACK: usize = HEADER + SEQ;

/// Largest buffer that a decoder keeps between two partial frames.
const KEPT_BYTES_MAX: usize = 64 * 1024;

const SUBSCRIBE: u8 = 1;
const UNSUBSCRIBE: u8 = 2;
const ACKNOWLEDGE: u8 = 3;
const MESSAGE: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The sender has subscribers on the topic.
    Subscribe {
        /// The number to acknowledge with [`Frame::Ack`]; 0 requests no acknowledgement.
        seq: u64,
        topic: &'a str,
    },
    /// The sender has no subscribers on the topic any more.
    Unsubscribe {
        topic: &'a str,
    },
    /// All frames up to the announcement with this number have been handled.
    Ack {
        seq: u64,
    },
    Message(&'a [u8]),
}

/// An invalid frame. Its link must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("empty frame")]
    Empty,
    #[error("a frame has {len} bytes, the maximum is {max}")]
    Oversized { len: usize, max: usize },
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    #[error("a frame of kind {kind} has {len} bytes")]
    WrongLength {
        kind: u8,
        /// Its length in bytes.
        len: usize,
    },
    #[error("a topic is not UTF-8")]
    InvalidUtf8,
}

impl Frame<'_> {
    /// Appends the frame's bytes.
    ///
    /// ```
    /// use watchfire_cluster::bus::frame::{Decoder, Frame};
    ///
    /// let mut bytes = Vec::new();
    /// Frame::Subscribe { seq: 7, topic: "rooms:lobby" }.encode(&mut bytes);
    /// let mut decoder = Decoder::new(1000);
    /// let frame = decoder.decode(&mut bytes.as_slice()).unwrap();
    /// assert_eq!(frame, Some(Frame::Subscribe { seq: 7, topic: "rooms:lobby" }));
    /// ```
    pub fn encode(&self, into: &mut Vec<u8>) {
        let (kind, seq, rest) = match *self {
            Frame::Subscribe { seq, topic } => (SUBSCRIBE, Some(seq), topic.as_bytes()),
            Frame::Unsubscribe { topic } => (UNSUBSCRIBE, None, topic.as_bytes()),
            Frame::Ack { seq } => (ACKNOWLEDGE, Some(seq), &[][..]),
            Frame::Message(message) => (MESSAGE, None, message),
        };
        into.extend(length(rest.len() + seq.map_or(0, |_| SEQ)));
        into.push(kind);
        into.extend(seq.iter().flat_map(|seq| seq.to_le_bytes()));
        into.extend_from_slice(rest);
    }

    fn parse(frame: &[u8]) -> Result<Frame<'_>, FrameError> {
        let (&kind, rest) = frame.split_first().ok_or(FrameError::Empty)?;
        let wrong = FrameError::WrongLength { kind, len: frame.len() };
        let seq = |rest: &[u8]| rest.first_chunk().map(|seq| u64::from_le_bytes(*seq));
        match kind {
            SUBSCRIBE => {
                let seq = seq(rest).ok_or(wrong)?;
                Ok(Frame::Subscribe { seq, topic: topic(&rest[SEQ..], wrong)? })
            }
            UNSUBSCRIBE => Ok(Frame::Unsubscribe { topic: topic(rest, wrong)? }),
            ACKNOWLEDGE if rest.len() == SEQ => Ok(Frame::Ack { seq: seq(rest).ok_or(wrong)? }),
            ACKNOWLEDGE => Err(wrong),
            MESSAGE => Ok(Frame::Message(rest)),
            _ => Err(FrameError::UnknownKind(kind)),
        }
    }
}

fn topic(bytes: &[u8], wrong: FrameError) -> Result<&str, FrameError> {
    if bytes.len() > TOPIC_BYTES_MAX {
        return Err(wrong);
    }
    std::str::from_utf8(bytes).map_err(|_| FrameError::InvalidUtf8)
}

/// The length field of a frame with this number of bytes after its kind.
fn length(rest: usize) -> [u8; LENGTH] {
    u32::try_from(rest + 1).expect("a frame's length was checked").to_le_bytes()
}

pub(crate) fn message_header(len: usize) -> [u8; HEADER] {
    let [a, b, c, d] = length(len);
    [a, b, c, d, MESSAGE]
}

/// A whole acknowledgement frame.
pub(crate) fn ack(seq: u64) -> [u8; ACK] {
    let mut frame = [0; ACK];
    frame[..LENGTH].copy_from_slice(&length(SEQ));
    frame[LENGTH] = ACKNOWLEDGE;
    frame[HEADER..].copy_from_slice(&seq.to_le_bytes());
    frame
}

/// Splits the bytes of a link into frames.
///
/// A frame that arrives whole is decoded in place. A partial frame is buffered, in at most twice
/// the bytes that have arrived.
pub struct Decoder {
    /// A partial frame, or the one returned last.
    partial: Vec<u8>,
    /// Whether the frame in `partial` has been returned.
    is_returned: bool,
    len_max: usize,
}

impl Decoder {
    /// A decoder for messages of at most this size; announcements have a limit of their own.
    pub fn new(message_bytes_max: usize) -> Self {
        let len_max = message_bytes_max.max(SEQ + TOPIC_BYTES_MAX).saturating_add(1);
        Decoder { partial: Vec::new(), is_returned: false, len_max }
    }

    /// Decodes the next frame and advances `input`. `None` means that all of it was consumed and
    /// more is needed. After an error, the decoder must not be used.
    pub fn decode<'frame, 'input: 'frame>(
        &'frame mut self,
        input: &mut &'input [u8],
    ) -> Result<Option<Frame<'frame>>, FrameError> {
        if std::mem::take(&mut self.is_returned) {
            self.partial.clear();
            self.partial.shrink_to(KEPT_BYTES_MAX);
        }
        if self.partial.is_empty() {
            if let Some(len) = self.frame_len(input)?
                && let Some((frame, rest)) = input.split_at_checked(LENGTH + len)
            {
                *input = rest;
                return Frame::parse(&frame[LENGTH..]).map(Some);
            }
            self.fill(input, usize::MAX);
            return Ok(None);
        }
        self.fill(input, LENGTH);
        let Some(len) = self.frame_len(&self.partial)? else { return Ok(None) };
        self.fill(input, LENGTH + len);
        self.is_returned = self.partial.len() == LENGTH + len;
        if self.is_returned { Frame::parse(&self.partial[LENGTH..]).map(Some) } else { Ok(None) }
    }

    pub fn buffered_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Consumes input until the buffer has this number of bytes.
    fn fill(&mut self, input: &mut &[u8], until: usize) {
        let missing = until.saturating_sub(self.partial.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.partial.extend_from_slice(taken);
        *input = rest;
    }

    fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(length) = bytes.first_chunk() else { return Ok(None) };
        let len = u32::from_le_bytes(*length) as usize;
        match len {
            0 => Err(FrameError::Empty),
            len if len > self.len_max => Err(FrameError::Oversized { len, max: self.len_max }),
            len => Ok(Some(len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_one(bytes: &[u8]) -> Result<Option<String>, FrameError> {
        let mut decoder = Decoder::new(100);
        let mut input = bytes;
        let frame = decoder.decode(&mut input)?.map(|frame| format!("{frame:?}"));
        assert!(input.is_empty());
        Ok(frame)
    }

    #[test]
    fn frames_decode_from_pieces_of_any_size() {
        let frames = [
            Frame::Subscribe { seq: 1, topic: "rooms:ä" },
            Frame::Message(b""),
            Frame::Unsubscribe { topic: "" },
            Frame::Ack { seq: u64::MAX },
            Frame::Message(&[9; 100]),
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        for piece_len in 1..=bytes.len() {
            let (mut decoder, mut decoded) = (Decoder::new(100), Vec::new());
            for mut piece in bytes.chunks(piece_len) {
                while let Some(frame) = decoder.decode(&mut piece).unwrap() {
                    decoded.push(format!("{frame:?}"));
                }
                assert!(piece.is_empty());
            }
            assert_eq!(decoded, frames.map(|frame| format!("{frame:?}")));
        }
    }

    #[test]
    fn separately_written_headers_equal_those_of_encoded_frames() {
        let mut bytes = Vec::new();
        Frame::Message(&[7; 300]).encode(&mut bytes);
        assert_eq!(message_header(300)[..], bytes[..HEADER]);
        bytes.clear();
        Frame::Ack { seq: 77 }.encode(&mut bytes);
        assert_eq!(ack(77)[..], bytes);
    }

    #[test]
    fn invalid_frames_are_errors_that_name_the_cause() {
        assert_eq!(decode_one(&[0, 0, 0, 0]), Err(FrameError::Empty));
        assert_eq!(decode_one(&[1, 0, 0, 0, 9]), Err(FrameError::UnknownKind(9)));
        let wrong = |kind, len| Err(FrameError::WrongLength { kind, len });
        assert_eq!(decode_one(&[3, 0, 0, 0, ACKNOWLEDGE, 1, 2]), wrong(ACKNOWLEDGE, 3));
        assert_eq!(decode_one(&[2, 0, 0, 0, SUBSCRIBE, 1]), wrong(SUBSCRIBE, 2));
        assert_eq!(decode_one(&[2, 0, 0, 0, UNSUBSCRIBE, 0xff]), Err(FrameError::InvalidUtf8));
        let max = SEQ + TOPIC_BYTES_MAX + 1;
        let oversized = FrameError::Oversized { len: 0xffff_ffff, max };
        assert_eq!(decode_one(&[0xff; 4]), Err(oversized));
    }

    #[test]
    fn a_topic_over_the_limit_is_refused() {
        let mut bytes = Vec::new();
        Frame::Unsubscribe { topic: &"t".repeat(TOPIC_BYTES_MAX + 1) }.encode(&mut bytes);
        let len = TOPIC_BYTES_MAX + 2;
        assert_eq!(decode_one(&bytes), Err(FrameError::WrongLength { kind: UNSUBSCRIBE, len }));
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut decoder = Decoder::new(1 << 30);
        assert_eq!(decoder.decode(&mut &[0, 0, 0, 0x10, MESSAGE, 1][..]), Ok(None));
        assert!(decoder.buffered_bytes() <= 64);
    }

    #[test]
    fn the_buffer_of_a_large_message_is_freed() {
        let mut bytes = Vec::new();
        Frame::Message(&vec![1; 1 << 20]).encode(&mut bytes);
        let mut decoder = Decoder::new(1 << 20);
        let (mut first, mut second) = bytes.split_at(5000);
        assert_eq!(decoder.decode(&mut first), Ok(None));
        assert!(decoder.decode(&mut second).unwrap().is_some());
        assert_eq!(decoder.decode(&mut second), Ok(None));
        assert!(decoder.buffered_bytes() <= KEPT_BYTES_MAX);
    }
}
