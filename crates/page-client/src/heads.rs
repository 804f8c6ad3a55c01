//! Heads of live pages, in a field of Bitswap messages that other implementations skip.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use watchfire_content::live::HEAD_BYTES;
use watchfire_content::protobuf::{Fields, Value, encode_field};
use watchfire_types::{Instant, PeerId};

const HEADS_FIELD: u64 = 1001;
/// Further heads of a message are ignored.
const HEADS_MAX: usize = 2;
/// How long new heads wait for others, before they are sent to all peers together.
pub(crate) const SEND_INTERVAL: Duration = Duration::from_millis(100);
/// How often a peer with an older head gets the newest one.
const REPLY_INTERVAL: Duration = Duration::from_secs(1);

/// The heads of a live page, which its peers exchange.
#[derive(Debug)]
pub struct LiveHeads {
    /// The encoded heads that the peers should have, at most two.
    pub current: watch::Receiver<Vec<Bytes>>,
    /// Takes the heads that peers send. When it is full, a head is dropped; its sender will send it
    /// again.
    pub received: mpsc::Sender<ReceivedHead>,
}

/// A head from a peer, not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedHead {
    pub peer: PeerId,
    pub bytes: Bytes,
}

/// The exchange of heads over one connection.
#[derive(Debug, Default)]
pub(crate) struct HeadExchange {
    /// When a peer last got the newest head as a reply.
    replied_at: HashMap<PeerId, Instant>,
}

impl HeadExchange {
    /// Takes the heads in a message of a peer. Returns whether the peer should get the current ones.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        peer: PeerId,
        message: &Bytes,
        live: &LiveHeads,
    ) -> bool {
        let mut is_behind = false;
        for bytes in decode(message) {
            let is_older = live.current.borrow().first().is_some_and(|head| is_older(&bytes, head));
            is_behind |= is_older;
            // Also an older head may show that the page is split.
            let _ = live.received.try_send(ReceivedHead { peer, bytes });
        }
        let last = self.replied_at.get(&peer);
        let replies = is_behind && last.is_none_or(|last| now.since(*last) >= REPLY_INTERVAL);
        if replies {
            self.replied_at.insert(peer, now);
        }
        replies
    }

    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.replied_at.remove(&peer);
    }
}

/// Encodes a Bitswap message with these heads and nothing else.
pub(crate) fn encode(heads: &[Bytes]) -> Bytes {
    let mut message = Vec::new();
    for head in heads {
        encode_field(HEADS_FIELD, Value::Bytes(head), &mut message);
    }
    message.into()
}

/// Returns the heads in a Bitswap message.
fn decode(message: &Bytes) -> Vec<Bytes> {
    let heads = Fields::new(message).map_while(Result::ok).filter_map(|field| match field {
        (HEADS_FIELD, Value::Bytes(head)) => Some(message.slice_ref(head)),
        _ => None,
    });
    heads.take(HEADS_MAX).collect()
}

/// Whether a head has a lower number than another.
fn is_older(head: &[u8], than: &[u8]) -> bool {
    head.len() == HEAD_BYTES && than.len() == HEAD_BYTES && head[48..52] < than[48..52]
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_bitswap::{Message, Protocol, message};

    fn head(number: u8) -> Bytes {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[51] = number;
        bytes.into()
    }

    #[test]
    fn heads_are_read_from_any_message_and_two_are_the_most() {
        let three = encode(&[head(1), head(2), head(3)]);
        assert_eq!(decode(&three), [head(1), head(2)]);
        let mut message = message::encode(&Message::default(), Protocol::V1_2);
        message.extend(encode(&[head(9)]));
        assert_eq!(decode(&message.into()), [head(9)]);
        assert!(decode(&Bytes::from_static(b"\xff\xff")).is_empty());
        assert!(message::decode(&three).is_ok());
    }

    #[test]
    fn a_peer_with_an_older_head_gets_the_current_ones_once_in_a_second() {
        let (_current, current) = watch::channel(vec![head(5)]);
        let (received, mut heads) = mpsc::channel(4);
        let live = LiveHeads { current, received };
        let mut exchange = HeadExchange::default();
        let mut replies = |number, seconds| {
            let now = Instant::ZERO + Duration::from_secs(seconds);
            exchange.handle(now, PeerId(1), &encode(&[head(number)]), &live)
        };
        assert!(!replies(5, 0));
        assert!(replies(4, 0) && !replies(4, 0) && replies(4, 1));
        // The channel has room for four heads.
        assert!(!replies(6, 1));
        let received: Vec<_> = std::iter::from_fn(|| heads.try_recv().ok()).collect();
        let numbers: Vec<_> = received.iter().map(|head| head.bytes[51]).collect();
        assert_eq!(numbers, [5, 4, 4, 4]);
    }
}
