//! The format of messages between the processes of a server.
//!
//! The first byte is the number of the [part](super::part) that the message belongs to; the rest
//! is a postcard encoding of that part's own message type. All processes run the same program with
//! the same settings, so the numbers agree and the format may change with every build.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::load::ProcessLoad;

/// The number of the cluster itself; parts have numbers from 1.
pub(super) const CLUSTER: u8 = 0;

/// A message of the cluster itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    /// How many connections a process has: the sender alone, or all that the sender knows.
    Load(Vec<(u16, ProcessLoad)>),
    /// A request of one part to the same part in another process.
    Request {
        /// Chosen by the sender, repeated in the response.
        number: u64,
        part: u8,
        body: &'a [u8],
    },
    /// The response to a request.
    Response { number: u64, text: &'a str },
}

/// Encodes a message of one part.
pub(super) fn encode(part: u8, message: &impl Serialize) -> Bytes {
    postcard::to_stdvec(&(part, message)).expect("messages are plain data").into()
}

/// Encodes a message without the number of its part, as the body of a request.
pub(super) fn encode_body(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages are plain data")
}

/// Splits a message into the number of its part and the part's own message.
pub(super) fn split(bytes: &[u8]) -> Option<(u8, &[u8])> {
    bytes.split_first().map(|(part, body)| (*part, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_decoded_as_it_was_encoded() {
        let bytes = encode(CLUSTER, &Message::Response { number: 7, text: "metrics" });
        let (part, body) = split(&bytes).unwrap();
        assert_eq!(part, CLUSTER);
        assert!(matches!(
            postcard::from_bytes(body),
            Ok(Message::Response { number: 7, text: "metrics" })
        ));
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        let bytes = encode_body(&Message::Request { number: 300, part: 2, body: b"ab" });
        for end in 0..bytes.len() {
            assert!(postcard::from_bytes::<Message<'_>>(&bytes[..end]).is_err());
        }
    }
}
