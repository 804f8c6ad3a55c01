//! Length-prefixed messages on a stream.

use bytes::Bytes;
use watchfire_bitswap::message::{decode as decode_message, encode_framed};
use watchfire_bitswap::{Message, Protocol, leaves};
use watchfire_content::varint;

/// Decodes a message and hashes its blocks. The error is for logs.
pub(crate) fn decode(bytes: &Bytes, protocol: Protocol) -> Result<Message, String> {
    match protocol {
        Protocol::Leaves => leaves::decode(bytes).map_err(|error| error.to_string()),
        _ => decode_message(bytes).map_err(|error| error.to_string()),
    }
}

/// Encodes a message and its length, as chunks to send one after the other.
pub(crate) fn encode(message: &Message, protocol: Protocol) -> Vec<Bytes> {
    match protocol {
        Protocol::Leaves => leaves::encode(message),
        _ => vec![encode_framed(message, protocol).into()],
    }
}

/// The number of bytes that [`encode`] returns.
pub(crate) fn encoded_len(message: &Message, protocol: Protocol) -> usize {
    let len = message.encoded_len(protocol);
    match protocol {
        // This length includes the length prefixes of the frames.
        Protocol::Leaves => len,
        _ => varint::encoded_len(len as u64) + len,
    }
}
