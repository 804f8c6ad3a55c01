//! Messages as they lie in a stream: each behind its length.

use bitswap::message::{decode as decode_message, encode_framed};
use bitswap::{Message, Protocol, leaves};
use bytes::Bytes;
use content::varint;

/// Reads a message, and hashes the blocks in it; or says why it cannot be read.
pub(crate) fn decode(bytes: &Bytes, protocol: Protocol) -> Result<Message, String> {
    match protocol {
        Protocol::Leaves => leaves::decode(bytes).map_err(|error| error.to_string()),
        _ => decode_message(bytes).map_err(|error| error.to_string()),
    }
}

/// The message behind its length, in pieces that follow one another.
pub(crate) fn encode(message: &Message, protocol: Protocol) -> Vec<Bytes> {
    match protocol {
        Protocol::Leaves => leaves::encode(message),
        _ => vec![encode_framed(message, protocol).into()],
    }
}

/// Bytes that [`encode`] makes.
pub(crate) fn len(message: &Message, protocol: Protocol) -> usize {
    let len = message.encoded_len(protocol);
    match protocol {
        // Its frames are counted with their lengths.
        Protocol::Leaves => len,
        _ => varint::encoded_len(len as u64) + len,
    }
}
