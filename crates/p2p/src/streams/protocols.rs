//! The negotiation of the protocol of a stream, and the encoding of messages in each protocol.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;

use bytes::Bytes;
use libp2p::core::UpgradeInfo;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade};
use libp2p::{Stream, StreamProtocol};
use watchfire_bitswap::message::{decode as decode_message, encode_framed};
use watchfire_bitswap::{Message, Protocol, leaves};
use watchfire_content::varint;

/// The protocols that a host supports, in order of preference: leaves if it is enabled, then the
/// versions of Bitswap.
#[derive(Clone, Debug)]
pub(crate) struct SupportedProtocols(Arc<Vec<NamedProtocol>>);

/// A protocol and its ID in the negotiation.
#[derive(Clone, Debug)]
pub(crate) struct NamedProtocol {
    name: StreamProtocol,
    protocol: Protocol,
}

impl AsRef<str> for NamedProtocol {
    fn as_ref(&self) -> &str {
        self.name.as_ref()
    }
}

impl SupportedProtocols {
    pub(crate) fn new(has_leaves: bool) -> Self {
        let named = |(name, protocol)| NamedProtocol { name: StreamProtocol::new(name), protocol };
        let leaves = has_leaves.then_some((leaves::PROTOCOL_ID, Protocol::Leaves));
        let protocols = leaves.into_iter().chain(Protocol::IDS).map(named);
        SupportedProtocols(Arc::new(protocols.collect()))
    }
}

impl UpgradeInfo for SupportedProtocols {
    type Info = NamedProtocol;
    type InfoIter = std::vec::IntoIter<NamedProtocol>;

    fn protocol_info(&self) -> Self::InfoIter {
        Vec::clone(&self.0).into_iter()
    }
}

impl InboundUpgrade<Stream> for SupportedProtocols {
    type Output = (Stream, Protocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, negotiated: NamedProtocol) -> Self::Future {
        ready(Ok((stream, negotiated.protocol)))
    }
}

impl OutboundUpgrade<Stream> for SupportedProtocols {
    type Output = (Stream, Protocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, negotiated: NamedProtocol) -> Self::Future {
        ready(Ok((stream, negotiated.protocol)))
    }
}

/// Decodes a message and hashes its blocks. The error is for logs.
pub(super) fn decode(bytes: &Bytes, protocol: Protocol) -> Result<Message, String> {
    match protocol {
        Protocol::Leaves => leaves::decode(bytes).map_err(|error| error.to_string()),
        _ => decode_message(bytes).map_err(|error| error.to_string()),
    }
}

/// Encodes a message and its length, as chunks to send one after the other.
pub(super) fn encode(message: &Message, protocol: Protocol) -> Vec<Bytes> {
    match protocol {
        Protocol::Leaves => leaves::encode(message),
        _ => vec![encode_framed(message, protocol).into()],
    }
}

/// The number of bytes that [`encode`] returns.
pub(super) fn encoded_len(message: &Message, protocol: Protocol) -> usize {
    let len = message.encoded_len(protocol);
    match protocol {
        // This length includes the length prefixes of the frames.
        Protocol::Leaves => len,
        _ => varint::encoded_len(len as u64) + len,
    }
}
