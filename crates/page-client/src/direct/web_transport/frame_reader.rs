//! Cuts the bytes of a stream into frames.

use bytes::{Buf, Bytes, BytesMut};

use crate::direct::path::FRAME_BYTES_MAX;

pub(super) const LENGTH_BYTES: usize = 2;

/// A frame that is empty or too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidLength;

/// Holds the start of a frame whose end has not arrived.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    buffer: BytesMut,
}

impl FrameReader {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole frame. `None` if more bytes must arrive first.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, InvalidLength> {
        let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*length));
        if !(1..=FRAME_BYTES_MAX).contains(&length) {
            return Err(InvalidLength);
        }
        if self.buffer.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_BYTES);
        // A copy: a part of the buffer would keep the whole buffer while its message is incomplete.
        let frame = Bytes::copy_from_slice(&self.buffer[..length]);
        self.buffer.advance(length);
        Ok(Some(frame))
    }
}

/// Appends a frame and its length to the bytes of a stream.
pub(super) fn write_frame(frame: &[u8], bytes: &mut Vec<u8>) {
    let length = u16::try_from(frame.len()).expect("a frame has at most 16 KiB");
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_from_pieces_of_any_size() {
        let frames = [vec![1], vec![2; 300], vec![3; FRAME_BYTES_MAX]];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| write_frame(frame, &mut bytes));
        for piece in [1, 7, 1000, bytes.len()] {
            let mut reader = FrameReader::default();
            let mut read = Vec::new();
            for piece in bytes.chunks(piece) {
                reader.push(piece);
                while let Some(frame) = reader.next().unwrap() {
                    read.push(frame.to_vec());
                }
            }
            assert_eq!(read, frames, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_frame_does_not_keep_the_buffer() {
        let mut bytes = Vec::new();
        write_frame(&[1], &mut bytes);
        write_frame(&[2; 300], &mut bytes);
        let mut reader = FrameReader::default();
        reader.push(&bytes);
        assert!(reader.next().unwrap().unwrap().is_unique());
    }

    #[test]
    fn empty_and_long_frames_are_rejected_before_they_arrive() {
        for length in [0, FRAME_BYTES_MAX as u16 + 1, u16::MAX] {
            let mut reader = FrameReader::default();
            reader.push(&length.to_be_bytes());
            assert_eq!(reader.next(), Err(InvalidLength), "{length}");
        }
    }
}
