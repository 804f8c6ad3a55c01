//! Heads of live pages, in a field of Bitswap messages that other implementations skip.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use watchfire_content::live::HEAD_BYTES;
use watchfire_content::protobuf::{Fields, Value, encode_field};
use watchfire_types::{Instant, PeerId};

const HEADS_FIELD: u64 = 1001;
/// Further heads of a message are ignored.
const HEADS_MAX: usize = 2;
/// Blocks that the only head of a message vouches for: the node of its entry, and then its content.
const VOUCHED_FIELD: u64 = 1002;
const VOUCHED_MAX: usize = 2;
/// If they are longer together, all of them are ignored.
const VOUCHED_BYTES_MAX: usize = 8192;
/// How long new heads wait for others, before they are sent to all peers together.
pub(crate) const SEND_INTERVAL: Duration = Duration::from_millis(100);
/// How often a peer with an older head gets the newest one.
const REPLY_INTERVAL: Duration = Duration::from_secs(1);

/// Peers whose heads wait to be verified. The heads of further peers are dropped; they will send them again.
const WAITING_PEERS_MAX: usize = 64;

/// The heads of a live page, which its peers exchange.
#[derive(Clone, Debug)]
pub struct LiveHeads {
    /// The heads that the peers should have.
    pub current: watch::Receiver<HeadMessage>,
    /// Takes the heads that peers send.
    pub received: HeadSender,
}

/// The heads of a page, and the blocks that come with a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadMessage {
    /// The encoded heads, at most two.
    pub heads: Vec<Bytes>,
    /// The node of the entry of the only head, and its content if that is short.
    pub vouched: Vec<Bytes>,
}

/// Heads from a peer, and the blocks that came with them, not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedHeads {
    pub peer: PeerId,
    pub message: HeadMessage,
}

/// Creates a queue of heads that wait to be verified.
///
/// It keeps the last message of each peer, so a peer that sends heads without end takes no place of another one. The peers take turns.
pub fn head_queue() -> (HeadSender, HeadReceiver) {
    let (wake, woken) = mpsc::channel(1);
    let waiting = Waiting::default();
    (HeadSender { waiting: waiting.clone(), wake }, HeadReceiver { waiting, woken })
}

type Waiting = Arc<Mutex<VecDeque<ReceivedHeads>>>;

/// The end of a `head_queue` that puts heads in.
#[derive(Clone, Debug)]
pub struct HeadSender {
    waiting: Waiting,
    wake: mpsc::Sender<()>,
}

impl HeadSender {
    /// Puts the heads of a peer in, in the place of its earlier ones.
    pub fn put(&self, received: ReceivedHeads) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = waiting.iter_mut().find(|earlier| earlier.peer == received.peer) {
            *earlier = received;
        } else if waiting.len() < WAITING_PEERS_MAX {
            waiting.push_back(received);
        }
        // When it is full, the receiver is woken already.
        let _ = self.wake.try_send(());
    }
}

/// The end of a `head_queue` that takes heads out.
#[derive(Debug)]
pub struct HeadReceiver {
    waiting: Waiting,
    woken: mpsc::Receiver<()>,
}

impl HeadReceiver {
    /// Waits for the next heads. `None` when no sender is left. It may be dropped while it waits.
    pub async fn take(&mut self) -> Option<ReceivedHeads> {
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if next.is_some() {
                return next;
            }
            self.woken.recv().await?;
        }
    }
}

/// The exchange of heads over one connection.
#[derive(Debug, Default)]
pub(crate) struct HeadExchange {
    /// When a peer last got the newest head as a reply.
    replied_at: HashMap<PeerId, Instant>,
    /// The heads that peers have sent last. They do not need them again.
    known_by: HashMap<PeerId, Bytes>,
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
        let message = decode(message);
        let Some(newest) = message.heads.last() else { return false };
        self.known_by.insert(peer, newest.clone());
        let current = live.current.borrow().heads.first().cloned();
        let is_behind =
            current.is_some_and(|head| message.heads.iter().any(|bytes| is_older(bytes, &head)));
        // Also an older head may show that the page is split.
        live.received.put(ReceivedHeads { peer, message });
        let last = self.replied_at.get(&peer);
        let replies = is_behind && last.is_none_or(|last| now.since(*last) >= REPLY_INTERVAL);
        if replies {
            self.replied_at.insert(peer, now);
        }
        replies
    }

    /// Whether the peer has sent the only current head itself.
    pub(crate) fn knows(&self, peer: PeerId, current: &HeadMessage) -> bool {
        matches!(&*current.heads, [head] if self.known_by.get(&peer) == Some(head))
    }

    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.replied_at.remove(&peer);
        self.known_by.remove(&peer);
    }
}

/// Encodes a Bitswap message with these heads and blocks, and nothing else.
pub(crate) fn encode(heads: &[Bytes], vouched: &[Bytes]) -> Bytes {
    let mut message = Vec::new();
    for head in heads {
        encode_field(HEADS_FIELD, Value::Bytes(head), &mut message);
    }
    for block in vouched {
        encode_field(VOUCHED_FIELD, Value::Bytes(block), &mut message);
    }
    message.into()
}

/// Returns the heads in a Bitswap message, and the blocks that the only one of them vouches for.
fn decode(message: &[u8]) -> HeadMessage {
    let mut heads = Vec::new();
    let mut vouched = Vec::new();
    for field in Fields::new(message).map_while(Result::ok) {
        // Copies, because the message can be much longer. One byte too many keeps a head invalid.
        match field {
            (HEADS_FIELD, Value::Bytes(head)) if heads.len() < HEADS_MAX => {
                let end = head.len().min(HEAD_BYTES + 1);
                heads.push(Bytes::copy_from_slice(&head[..end]));
            }
            (VOUCHED_FIELD, Value::Bytes(block)) if vouched.len() < VOUCHED_MAX => {
                vouched.push(block);
            }
            _ => {}
        }
    }
    let bytes: usize = vouched.iter().map(|block| block.len()).sum();
    if heads.len() != 1 || bytes > VOUCHED_BYTES_MAX {
        vouched.clear();
    }
    HeadMessage { heads, vouched: vouched.into_iter().map(Bytes::copy_from_slice).collect() }
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
        let three = encode(&[head(1), head(2), head(3)], &[]);
        assert_eq!(decode(&three).heads, [head(1), head(2)]);
        let mut message = message::encode(&Message::default(), Protocol::V1_2);
        message.extend(encode(&[head(9)], &[]));
        assert_eq!(decode(&message).heads, [head(9)]);
        assert_eq!(decode(b"\xff\xff"), HeadMessage::default());
        assert!(message::decode(&three).is_ok());
    }

    /// The web client reads the same vectors.
    #[test]
    fn messages_are_read_as_in_the_vectors() {
        const VECTORS: &str = include_str!("../../../tests/vectors/live/pages.json");
        let vectors: serde_json::Value = serde_json::from_str(VECTORS).expect("JSON");
        let bytes = |value: &serde_json::Value| {
            let text = value.as_str().expect("a text");
            let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
            Bytes::from_iter((0..text.len()).step_by(2).map(byte))
        };
        let list = |value: &serde_json::Value| -> Vec<Bytes> {
            value.as_array().expect("a list").iter().map(bytes).collect()
        };
        let messages = vectors["messages"].as_array().expect("a list");
        assert!(messages.len() > 10, "{}", messages.len());
        for message in messages {
            let expected =
                HeadMessage { heads: list(&message["heads"]), vouched: list(&message["vouched"]) };
            assert_eq!(decode(&bytes(&message["hex"])), expected, "{}", message["about"]);
        }
    }

    #[test]
    fn two_blocks_come_with_the_only_head_and_long_ones_are_ignored() {
        let block = |len: usize| Bytes::from(vec![7; len]);
        let blocks = [block(300), block(20), block(1)];
        let message = encode(&[head(1)], &blocks);
        assert_eq!(decode(&message).vouched, &blocks[..2]);
        assert!(message::decode(&message).is_ok());
        assert!(decode(&encode(&[head(1), head(2)], &blocks)).vouched.is_empty());
        assert!(decode(&encode(&[head(1)], &[block(8000), block(200)])).vouched.is_empty());
        assert_eq!(decode(&encode(&[block(5000)], &[])).heads, [block(HEAD_BYTES + 1)]);
    }

    #[test]
    fn a_peer_with_an_older_head_gets_the_current_ones_once_in_a_second() {
        let now = HeadMessage { heads: vec![head(5)], vouched: Vec::new() };
        let (_current, current) = watch::channel(now.clone());
        let live = LiveHeads { current, received: head_queue().0 };
        let mut exchange = HeadExchange::default();
        let mut replies = |number, seconds| {
            let now = Instant::ZERO + Duration::from_secs(seconds);
            exchange.handle(now, PeerId(1), &encode(&[head(number)], &[]), &live)
        };
        assert!(!replies(5, 0));
        assert!(replies(4, 0) && !replies(4, 0) && replies(4, 1));
        assert!(!replies(6, 1));
        // The last one that it sent was 6.
        assert!(!exchange.knows(PeerId(1), &now));
        exchange.handle(Instant::ZERO, PeerId(1), &encode(&[head(5)], &[]), &live);
        assert!(exchange.knows(PeerId(1), &now) && !exchange.knows(PeerId(2), &now));
    }

    #[tokio::test]
    async fn a_peer_that_sends_heads_without_end_takes_no_place_of_another() {
        let received = |peer, number| ReceivedHeads {
            peer: PeerId(peer),
            message: HeadMessage { heads: vec![head(number)], vouched: Vec::new() },
        };
        let (sender, mut receiver) = head_queue();
        for number in 0..200 {
            sender.put(received(1, number));
        }
        sender.put(received(2, 7));
        sender.put(received(1, 200));
        assert_eq!(receiver.take().await, Some(received(1, 200)));
        assert_eq!(receiver.take().await, Some(received(2, 7)));
        (0..1000).for_each(|peer| sender.put(received(peer, 1)));
        drop(sender);
        let mut left = 0;
        while receiver.take().await.is_some() {
            left += 1;
        }
        assert_eq!(left, WAITING_PEERS_MAX);
    }
}
