//! Messages as they lie in a stream: each behind its length.

use bitswap::message::{MessageError, decode as decode_message, encode_framed};
use bitswap::{Message, Protocol};
use bytes::Bytes;
use content::varint;

/// Reads a message, and hashes the blocks in it.
pub(crate) fn decode(bytes: &Bytes) -> Result<Message, MessageError> {
    decode_message(bytes)
}

/// The message behind its length.
pub(crate) fn encode(message: &Message, protocol: Protocol) -> Bytes {
    encode_framed(message, protocol).into()
}

/// Bytes that [`encode`] makes.
pub(crate) fn len(message: &Message, protocol: Protocol) -> usize {
    let len = message.encoded_len(protocol);
    varint::encoded_len(len as u64) + len
}
