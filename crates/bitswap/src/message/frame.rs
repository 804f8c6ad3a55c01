use std::mem;

use bytes::{Buf, Bytes, BytesMut};
use watchfire_content::varint::{self, VarintError};

use super::{MESSAGE_BYTES_MAX, MessageError};

/// Splits a stream into messages.
///
/// It holds at most [`MESSAGE_BYTES_MAX`] and one push, if frames are taken out after each push.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: BytesMut,
    is_refused: bool,
}

/// Most bytes of the length before a message.
const LENGTH_BYTES_MAX: usize = varint::encoded_len(MESSAGE_BYTES_MAX as u64);

impl FrameReader {
    /// Adds bytes of the stream. After an error they are ignored.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.is_refused {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The next message without its length, or `None` until all of it has arrived. After an error
    /// the stream cannot be read any further.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, MessageError> {
        match self.cut() {
            Err(error) => {
                self.is_refused = true;
                self.bytes = BytesMut::new();
                Err(error)
            }
            frame => frame,
        }
    }

    /// Whether part of a message has arrived. Then the stream must not end.
    pub fn is_inside_frame(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn cut(&mut self) -> Result<Option<Bytes>, MessageError> {
        let (len, start) = match varint::decode(&self.bytes) {
            Ok(read) => read,
            Err(VarintError::Truncated) if self.bytes.len() < LENGTH_BYTES_MAX => return Ok(None),
            Err(_) => return Err(MessageError::InvalidLength),
        };
        let max = MESSAGE_BYTES_MAX;
        let whole = usize::try_from(len).ok().filter(|len| *len <= max);
        let end = start + whole.ok_or(MessageError::TooLong { len, max })?;
        if self.bytes.len() < end {
            return Ok(None);
        }
        // A buffer that ends with this frame is handed out whole. Otherwise later bytes would share
        // its memory and keep it alive.
        let mut frame = if self.bytes.len() == end {
            mem::take(&mut self.bytes).freeze()
        } else {
            self.bytes.split_to(end).freeze()
        };
        frame.advance(start);
        Ok(Some(frame))
    }
}
