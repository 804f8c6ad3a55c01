//! The format of messages between the processes of a server.
//!
//! The first four bytes are the [name](PartName) of the part that the message belongs to; the rest is a
//! postcard encoding of that part's own message type. A message that is sent within a span begins
//! with [`TRACED`] and the place of the span in its trace.
//!
//! Machines may have other settings and other features, so a message may be for a part that its
//! receiver does not have. Their messages have the same [format](super::format::FORMAT): machines of
//! another format are not linked.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use watchfire_traces::TraceContext;

use super::load::ProcessLoad;
use super::part_name::{PartId, PartName};

/// Precedes the place of a span; no name of a part begins with it.
pub(super) const TRACED: u8 = u8::MAX;
/// Bytes of [`TRACED`], the id of the trace and the id of the span.
const TRACE_BYTES: usize = 1 + 16 + 8;

/// A message of the cluster itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    /// How many connections a process has: the sender alone, or all that the sender knows.
    Load(Vec<(u16, ProcessLoad)>),
    /// A request of one part to the same part in another process.
    Request {
        /// Chosen by the sender, repeated in the response.
        number: u64,
        part: PartId,
        body: &'a [u8],
    },
    /// The response to a request.
    Response { number: u64, body: &'a [u8] },
    /// The sender does not have the part that a request is for.
    NoPart { number: u64 },
}

/// Encodes a message of one part.
pub(super) fn encode(part: PartName, message: &impl Serialize) -> Bytes {
    encode_within(watchfire_traces::current(), part, message)
}

/// Encodes a message that is sent within a span.
pub(super) fn encode_within(
    span: Option<TraceContext>,
    part: PartName,
    message: &impl Serialize,
) -> Bytes {
    let encoded = match span {
        None => postcard::to_stdvec(&(part.id(), message)),
        Some(TraceContext { trace_id, span_id, .. }) => {
            postcard::to_stdvec(&(TRACED, trace_id, span_id, part.id(), message))
        }
    };
    encoded.expect("messages are plain data").into()
}

/// Encodes a message without the name of its part, as the body of a request.
pub(super) fn encode_body(message: &(impl Serialize + ?Sized)) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages are plain data")
}

/// Splits a message into the span within which it was sent, the name of its part, and the part's own
/// message.
pub(super) fn split(bytes: &[u8]) -> Option<(Option<TraceContext>, PartId, &[u8])> {
    let (span, bytes) = match bytes.first()? {
        &TRACED => {
            let (span, rest) = bytes.split_first_chunk::<TRACE_BYTES>()?;
            let (trace_id, span_id) = span[1..].split_first_chunk()?;
            let span_id = span_id.try_into().ok()?;
            (Some(TraceContext { trace_id: *trace_id, span_id, is_sampled: true }), rest)
        }
        _ => (None, bytes),
    };
    bytes.split_first_chunk().map(|(part, body)| (span, *part, body))
}

/// Samples of the messages, and of their beginnings.
#[cfg(test)]
pub(super) fn samples() -> Vec<crate::cluster::Samples> {
    let load = ProcessLoad { people: 1, connections: 2 };
    let span = TraceContext { trace_id: [1; 16], span_id: [2; 8], is_sampled: true };
    let endpoint = PartName::own("endpoint");
    let [plain, traced] =
        [None, Some(span)].map(|span| encode_within(span, endpoint, &"text").to_vec());
    vec![
        crate::cluster::samples!(enum Message<'_>:
            Message::Load(vec![(1, load)]),
            Message::Request { number: 1, part: [1, 2, 3, 4], body: b"b" },
            Message::Response { number: 1, body: b"b" },
            Message::NoPart { number: 1 },
        ),
        crate::cluster::Samples { name: "the frame of a message", encoded: vec![plain, traced] },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_decoded_as_it_was_encoded() {
        let bytes = encode(PartName::CLUSTER, &Message::Response { number: 7, body: b"metrics" });
        let (span, part, body) = split(&bytes).unwrap();
        assert_eq!((span, part), (None, PartName::CLUSTER.id()));
        assert!(matches!(
            postcard::from_bytes(body),
            Ok(Message::Response { number: 7, body: b"metrics" })
        ));
    }

    #[test]
    fn a_message_within_a_span_carries_its_place() {
        let span = TraceContext { trace_id: [200; 16], span_id: [201; 8], is_sampled: true };
        let endpoint = PartName::own("endpoint");
        let bytes = encode_within(Some(span), endpoint, &"text");
        let (found, part, body) = split(&bytes).unwrap();
        assert_eq!((found, part), (Some(span), endpoint.id()));
        assert_eq!(postcard::from_bytes(body), Ok("text"));
        for end in 0..TRACE_BYTES + size_of::<PartId>() {
            assert!(split(&bytes[..end]).is_none());
        }
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        let bytes = encode_body(&Message::Request { number: 300, part: [2; 4], body: b"ab" });
        for end in 0..bytes.len() {
            assert!(postcard::from_bytes::<Message<'_>>(&bytes[..end]).is_err());
        }
    }
}
