//! The messages that processes send to each other over NATS.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The most bytes of a packet besides its data.
pub(crate) const OVERHEAD_BYTES: usize = 64;

/// A message from one process to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Packet<'a> {
    /// The sender's node, and a number that is new at each start of its process.
    pub from: u16,
    pub incarnation: u64,
    /// The number of the link. The process that opens a link chooses it.
    pub link: u64,
    #[serde(borrow)]
    pub body: Body<'a>,
}

/// The content of a packet, for its link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body<'a> {
    /// The sender wants this link.
    Open,
    /// The receiver of [`Body::Open`] has the link, too.
    Accept,
    /// The next bytes of the stream.
    Data {
        /// The number of this packet among those with data, from 0.
        number: u64,
        bytes: &'a [u8],
    },
    /// The packets that the sender has received.
    Ack(Ack),
    /// How many packets with data the sender has sent. The receiver answers with an
    /// [`Body::Ack`], so a lost packet is noticed even if no other follows it.
    Probe { sent: u64 },
    /// The link has ended, or is not known.
    Close,
}

/// The packets that one side of a link has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ack {
    /// The number of the packet that is expected next: all before it have arrived.
    pub expected: u64,
    /// Packets whose bytes have left the receiver's queue.
    pub consumed: u64,
    /// Whether to send the packets from `expected` on again.
    pub is_missing: bool,
}

impl Packet<'_> {
    pub fn encode(&self) -> Bytes {
        postcard::to_stdvec(self).expect("packets are plain data").into()
    }
}

impl<'a> Packet<'a> {
    pub fn decode(bytes: &'a [u8]) -> Option<Packet<'a>> {
        postcard::from_bytes(bytes).ok()
    }
}

#[cfg(test)]
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let ack = Ack { expected: 1, consumed: 2, is_missing: true };
    let data = Body::Data { number: 1, bytes: b"b" };
    let bodies =
        [Body::Open, Body::Accept, data, Body::Ack(ack), Body::Probe { sent: 1 }, Body::Close];
    let encoded = bodies.clone().map(|body| postcard::to_stdvec(&body).expect("it is plain data"));
    crate::nats::tests::assert_all_variants::<Body<'_>>(&encoded, &mut [0; 64]);
    let packet = |body| Packet { from: 1, incarnation: 2, link: 3, body }.encode().to_vec();
    bodies.map(packet).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_decoded_as_it_was_encoded_and_a_truncated_one_is_not() {
        let body = Body::Data { number: 300, bytes: b"abc" };
        let packet = Packet { from: 70, incarnation: u64::MAX, link: 1 << 40, body };
        let encoded = packet.encode();
        assert_eq!(Packet::decode(&encoded), Some(packet));
        for end in 0..encoded.len() {
            assert_eq!(Packet::decode(&encoded[..end]), None);
        }
    }

    #[test]
    fn the_largest_numbers_of_a_packet_fit_into_its_overhead() {
        let bytes = [7; 64 * 1024];
        let body = Body::Data { number: u64::MAX, bytes: &bytes };
        let packet = Packet { from: u16::MAX, incarnation: u64::MAX, link: u64::MAX, body };
        assert!(packet.encode().len() <= bytes.len() + OVERHEAD_BYTES);
    }
}
