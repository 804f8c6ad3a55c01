//! The encoding of `/watchfire/leaves/1` streams.

use bytes::Bytes;
use watchfire_content::varint::{self, VarintError};
use watchfire_content::{Block, BlockError, Cid, CidError, Prefix};

use super::{ListMessage, MessageError, Ranges, RangesError};
use crate::{Message, Payload, Protocol};

/// The kinds of frames. The first is a message of Bitswap 1.2.
mod kind {
    pub(super) const BITSWAP: u8 = 0;
    pub(super) const SUBSCRIBE: u8 = 1;
    pub(super) const UNSUBSCRIBE: u8 = 2;
    pub(super) const REJECT: u8 = 3;
    pub(super) const HAVE_ONLY: u8 = 4;
    pub(super) const HAVE_MORE: u8 = 5;
    pub(super) const DONT_HAVE: u8 = 6;
    pub(super) const REQUEST: u8 = 7;
    pub(super) const CANCEL: u8 = 8;
    pub(super) const LEAF: u8 = 9;
    pub(super) const CANCEL_QUEUED: u8 = 10;
}

/// The start of a long block is copied into the piece before it, until that piece has this length.
/// Otherwise a few header bytes would travel in a packet of their own.
const COPIED_BYTES: usize = 16 * 1024;

/// Why bytes are not a valid frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("cannot read a frame: unknown kind {kind:?}")]
    UnknownKind {
        /// Its kind; `None` when the frame is empty.
        kind: Option<u8>,
    },
    #[error(transparent)]
    Varint(#[from] VarintError),
    #[error("cannot read the number {value}: it has more than 32 bits")]
    Number { value: u64 },
    #[error(transparent)]
    Ranges(#[from] RangesError),
    #[error("cannot read a frame: {extra} bytes follow its end")]
    TrailingBytes { extra: usize },
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    Cid(#[from] CidError),
    #[error(transparent)]
    Block(#[from] BlockError),
}

/// Encodes a message as frames, each after its length. Write the pieces in order. A long leaf
/// shares the bytes of its block, except for its start.
pub fn encode(message: &Message<Block>) -> Vec<Bytes> {
    let (mut pieces, mut small) = (Vec::new(), Vec::new());
    for list_message in &message.leaves {
        start_frame(list_message_len(list_message), &mut small);
        encode_list_message(list_message, &mut small);
        if let ListMessage::Leaf { block, .. } = list_message {
            let data = block.bytes();
            let copied = data.len().min(COPIED_BYTES.saturating_sub(small.len()));
            small.extend_from_slice(&data[..copied]);
            if copied < data.len() {
                pieces.push(std::mem::take(&mut small).into());
                pieces.push(data.slice(copied..));
            }
        }
    }
    if has_rest(message) {
        let protocol = Protocol::V1_2;
        start_frame(1 + message.encoded_len(protocol), &mut small);
        small.push(kind::BITSWAP);
        small.extend_from_slice(&super::encode(message, protocol));
    }
    if !small.is_empty() {
        pieces.push(small.into());
    }
    pieces
}

/// Bytes that [`encode`] produces.
pub fn encoded_len<B: Payload>(message: &Message<B>) -> usize {
    let framed = |len: usize| varint::encoded_len(len as u64) + len;
    let leaves = message.leaves.iter().map(|it| framed(list_message_len(it))).sum::<usize>();
    let rest = has_rest(message).then(|| framed(1 + message.encoded_len(Protocol::V1_2)));
    leaves + rest.unwrap_or(0)
}

/// Reads a frame without its length, and hashes its blocks. A leaf's block shares the bytes.
pub fn decode(frame: &Bytes) -> Result<Message<Block>, FrameError> {
    let kind = frame.first().copied().ok_or(FrameError::UnknownKind { kind: None })?;
    if kind == kind::BITSWAP {
        return Ok(super::decode(&frame.slice(1..))?);
    }
    let mut body = Body { frame, at: 1 };
    let list_message = match kind {
        kind::SUBSCRIBE => {
            let (list, leaves) = (body.number()?, body.number()?);
            match Cid::decode(&frame[body.at..]) {
                Ok(node) => ListMessage::Subscribe { list, node, leaves },
                // A node with an unknown hash function cannot be verified.
                Err(CidError::Hash { .. }) => return Ok(skipped_entries()),
                Err(error) => return Err(error.into()),
            }
        }
        kind::UNSUBSCRIBE => ListMessage::Unsubscribe { list: body.last_number()? },
        kind::REJECT => ListMessage::Reject { list: body.last_number()? },
        kind::HAVE_ONLY | kind::HAVE_MORE => {
            let (list, leaves) = (body.number()?, body.ranges()?);
            ListMessage::Have { list, is_complete: kind == kind::HAVE_ONLY, leaves }
        }
        kind::DONT_HAVE => ListMessage::DontHave { list: body.number()?, leaves: body.ranges()? },
        kind::REQUEST => {
            let (list, priority) = (body.number()?, body.number()?);
            ListMessage::Request { list, priority, leaves: body.ranges()? }
        }
        kind::CANCEL => ListMessage::Cancel { list: body.number()?, leaves: body.ranges()? },
        kind::CANCEL_QUEUED => {
            ListMessage::CancelQueued { list: body.number()?, leaves: body.ranges()? }
        }
        kind::LEAF => {
            let (list, leaf, prefix_len) = (body.number()?, body.number()?, body.number()?);
            let end = body.at.saturating_add(prefix_len as usize);
            let prefix = frame.get(body.at..end).ok_or(VarintError::Truncated)?;
            let prefix = match Prefix::decode(prefix) {
                Ok(prefix) => prefix,
                Err(CidError::Hash { .. }) => return Ok(skipped_block()),
                Err(error) => return Err(error.into()),
            };
            match Block::from_prefix(prefix, frame.slice(end..))? {
                Some(block) => ListMessage::Leaf { list, leaf, block },
                None => return Ok(skipped_block()),
            }
        }
        kind => return Err(FrameError::UnknownKind { kind: Some(kind) }),
    };
    Ok(Message { leaves: vec![list_message], ..Message::default() })
}

/// Whether a Bitswap frame follows the list messages. An empty message is sent as such a frame.
fn has_rest<B>(message: &Message<B>) -> bool {
    message.has_bitswap() || message.leaves.is_empty()
}

fn skipped_entries() -> Message {
    Message { skipped_entries: 1, ..Message::default() }
}

fn skipped_block() -> Message {
    Message { skipped_blocks: 1, ..Message::default() }
}

/// The unread rest of a frame.
struct Body<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl Body<'_> {
    fn number(&mut self) -> Result<u32, FrameError> {
        let (value, read) = varint::decode(&self.frame[self.at..])?;
        self.at += read;
        u32::try_from(value).map_err(|_| FrameError::Number { value })
    }

    fn last_number(&mut self) -> Result<u32, FrameError> {
        let number = self.number()?;
        match self.frame.len() - self.at {
            0 => Ok(number),
            extra => Err(FrameError::TrailingBytes { extra }),
        }
    }

    fn ranges(&mut self) -> Result<Ranges, FrameError> {
        Ok(Ranges::decode(&self.frame[self.at..])?)
    }
}

fn start_frame(len: usize, bytes: &mut Vec<u8>) {
    varint::encode(len as u64, bytes);
}

fn number_len(number: u32) -> usize {
    varint::encoded_len(number.into())
}

/// Bytes of a list message's frame, without its length.
fn list_message_len<B: Payload>(list_message: &ListMessage<B>) -> usize {
    1 + match list_message {
        ListMessage::Subscribe { list, node, leaves } => {
            number_len(*list) + number_len(*leaves) + node.encoded_len()
        }
        ListMessage::Unsubscribe { list } | ListMessage::Reject { list } => number_len(*list),
        ListMessage::Have { list, leaves, .. }
        | ListMessage::DontHave { list, leaves }
        | ListMessage::Cancel { list, leaves }
        | ListMessage::CancelQueued { list, leaves } => number_len(*list) + leaves.encoded_len(),
        ListMessage::Request { list, priority, leaves } => {
            number_len(*list) + number_len(*priority) + leaves.encoded_len()
        }
        ListMessage::Leaf { list, leaf, block } => {
            let prefix = block.cid().prefix().encode(block.len()).len();
            number_len(*list) + number_len(*leaf) + 1 + prefix + block.len()
        }
    }
}

/// Writes the frame of a list message, without its length and the bytes of its block.
fn encode_list_message(list_message: &ListMessage, bytes: &mut Vec<u8>) {
    let (kind, list) = match list_message {
        ListMessage::Subscribe { list, .. } => (kind::SUBSCRIBE, list),
        ListMessage::Unsubscribe { list } => (kind::UNSUBSCRIBE, list),
        ListMessage::Reject { list } => (kind::REJECT, list),
        ListMessage::Have { list, is_complete: true, .. } => (kind::HAVE_ONLY, list),
        ListMessage::Have { list, is_complete: false, .. } => (kind::HAVE_MORE, list),
        ListMessage::DontHave { list, .. } => (kind::DONT_HAVE, list),
        ListMessage::Request { list, .. } => (kind::REQUEST, list),
        ListMessage::Cancel { list, .. } => (kind::CANCEL, list),
        ListMessage::CancelQueued { list, .. } => (kind::CANCEL_QUEUED, list),
        ListMessage::Leaf { list, .. } => (kind::LEAF, list),
    };
    bytes.push(kind);
    varint::encode((*list).into(), bytes);
    match list_message {
        ListMessage::Subscribe { node, leaves, .. } => {
            varint::encode((*leaves).into(), bytes);
            node.encode_into(bytes);
        }
        ListMessage::Unsubscribe { .. } | ListMessage::Reject { .. } => {}
        ListMessage::Have { leaves, .. }
        | ListMessage::DontHave { leaves, .. }
        | ListMessage::Cancel { leaves, .. }
        | ListMessage::CancelQueued { leaves, .. } => {
            leaves.encode_into(bytes);
        }
        ListMessage::Request { priority, leaves, .. } => {
            varint::encode((*priority).into(), bytes);
            leaves.encode_into(bytes);
        }
        ListMessage::Leaf { leaf, block, .. } => {
            varint::encode((*leaf).into(), bytes);
            let prefix = block.cid().prefix().encode(block.bytes().len());
            varint::encode(prefix.len() as u64, bytes);
            bytes.extend_from_slice(&prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use watchfire_content::{Codec, Multihash, Version};

    use super::*;
    use crate::{Presence, WantEntry, WantKind};
    use watchfire_types::Rng;

    fn cid(text: &str) -> Cid {
        Cid::v1(Codec::RAW, Multihash::sha2_256(text.as_bytes()))
    }

    fn list_messages() -> Vec<ListMessage> {
        let leaves: Ranges = [0, 1, 2, 70, 65_535].into_iter().collect();
        let list = 300;
        let block = |len: usize| Block::raw(vec![7; len].into()).unwrap();
        let version_0 = Block::dag_pb(Version::V0, vec![10, 0].into()).unwrap();
        vec![
            ListMessage::Subscribe { list, node: cid("node"), leaves: 65_536 },
            ListMessage::Unsubscribe { list },
            ListMessage::Reject { list: u32::MAX },
            ListMessage::Have { list, is_complete: true, leaves: leaves.clone() },
            ListMessage::Have { list, is_complete: false, leaves: leaves.clone() },
            ListMessage::Have { list, is_complete: true, leaves: Ranges::default() },
            ListMessage::DontHave { list, leaves: leaves.clone() },
            ListMessage::Request {
                list,
                priority: i32::MAX.unsigned_abs(),
                leaves: leaves.clone(),
            },
            ListMessage::Cancel { list, leaves: leaves.clone() },
            ListMessage::CancelQueued { list, leaves },
            ListMessage::Leaf { list, leaf: 0, block: block(0) },
            ListMessage::Leaf { list, leaf: 65_535, block: block(100_000) },
            ListMessage::Leaf { list, leaf: 1, block: block(3) },
            ListMessage::Leaf { list, leaf: 2, block: version_0 },
        ]
    }

    /// Splits pieces into frames with a reader.
    fn cut(pieces: &[Bytes]) -> Vec<Bytes> {
        let mut reader = crate::message::FrameReader::default();
        let mut frames = Vec::new();
        for piece in pieces {
            reader.push(piece);
            while let Some(frame) = reader.next_frame().unwrap() {
                frames.push(frame);
            }
        }
        assert!(!reader.is_inside_frame());
        frames
    }

    #[test]
    fn every_message_survives_encoding_in_the_computed_length() {
        let want = |kind| WantEntry {
            cid: cid("want"),
            priority: 9,
            cancel: false,
            kind,
            send_dont_have: true,
        };
        let rest = Message {
            wants: vec![want(WantKind::Have), want(WantKind::Block)],
            presences: vec![Presence { cid: cid("here"), has_block: true }],
            blocks: vec![Block::raw("block".into()).unwrap()],
            ..Message::default()
        };
        let message = Message { leaves: list_messages(), ..rest.clone() };
        let pieces = encode(&message);
        let len: usize = pieces.iter().map(Bytes::len).sum();
        assert_eq!(len, encoded_len(&message));
        assert_eq!(len, message.encoded_len(Protocol::Leaves));
        let mut decoded: Vec<Message> =
            cut(&pieces).iter().map(|frame| decode(frame).unwrap()).collect();
        assert_eq!(decoded.pop(), Some(rest));
        let decoded: Vec<ListMessage> =
            decoded.into_iter().flat_map(|message| message.leaves).collect();
        assert_eq!(decoded, list_messages());
    }

    #[test]
    fn a_split_message_is_as_long_as_the_whole() {
        let presences = vec![Presence { cid: cid("here"), has_block: true }];
        let without_block = Message { leaves: list_messages(), presences, ..Message::default() };
        let block = Block::raw("block".into()).unwrap();
        let with_block = Message { blocks: vec![block], ..without_block.clone() };
        for message in [without_block, with_block] {
            let has_blocks = !message.blocks.is_empty();
            let (rest, blocks) = message.clone().apart();
            assert_eq!(encoded_len(&rest) + encoded_len(&blocks), encoded_len(&message));
            assert_eq!(rest.payloads().count(), 0);
            assert_eq!(blocks.payloads().count(), message.payloads().count());
            let count = rest.leaves.len() + blocks.leaves.len();
            assert_eq!((count, rest.presences.is_empty()), (message.leaves.len(), has_blocks));
        }
        let (rest, blocks) = Message::<Block>::default().apart();
        assert!(rest.is_empty() && blocks.is_empty());
    }

    #[test]
    fn a_long_leaf_is_not_copied() {
        let block = Block::raw(vec![1; 1 << 20].into()).unwrap();
        let leaf = ListMessage::Leaf { list: 1, leaf: 2, block: block.clone() };
        let pieces = encode(&Message { leaves: vec![leaf], ..Message::default() });
        assert_eq!(pieces.len(), 2);
        assert!(pieces[0].len() >= COPIED_BYTES);
        let end = block.bytes().len();
        assert_eq!(pieces[1].as_ptr(), block.bytes().slice(end - pieces[1].len()..).as_ptr());
    }

    #[test]
    fn an_empty_message_is_still_a_frame() {
        let pieces = encode(&Message::default());
        assert_eq!(cut(&pieces).len(), 1);
        assert_eq!(decode(&cut(&pieces)[0]), Ok(Message::default()));
    }

    #[test]
    fn a_frame_that_is_cut_short_is_an_error_and_never_a_panic() {
        for message in list_messages() {
            let is_list = matches!(
                message,
                ListMessage::Have { .. }
                    | ListMessage::DontHave { .. }
                    | ListMessage::Cancel { .. }
                    | ListMessage::CancelQueued { .. }
            );
            let is_leaf = matches!(message, ListMessage::Leaf { .. } | ListMessage::Request { .. });
            let pieces = encode(&Message { leaves: vec![message], ..Message::default() });
            let frame = cut(&pieces).remove(0);
            for end in 0..frame.len().min(64) {
                let cut = decode(&frame.slice(..end));
                // It can decode as fewer runs, or as a shorter leaf with another CID.
                assert!(cut.is_err() || is_list || is_leaf, "{end} of {frame:?}");
            }
        }
    }

    #[test]
    fn a_damaged_frame_is_rejected_or_decodes_to_what_it_encodes() {
        let pieces = encode(&Message { leaves: list_messages(), ..Message::default() });
        let frames = cut(&pieces);
        let mut rng = Rng::from_seed(7);
        let mut accepted = 0;
        for _ in 0..20_000 {
            let mut frame = frames[rng.index(frames.len())].to_vec();
            frame.truncate(rng.index(200));
            for _ in 0..=rng.index(3) {
                let at = rng.index(frame.len().min(16));
                match (rng.index(3), frame.get_mut(at)) {
                    (0, Some(byte)) => *byte ^= 1 << rng.index(8),
                    (1, Some(_)) => drop(frame.drain(at..at + 1)),
                    _ => frame.insert(at, rng.next_u64() as u8),
                }
            }
            let Ok(mut decoded) = decode(&frame.into()) else { continue };
            accepted += 1;
            (decoded.skipped_entries, decoded.skipped_blocks) = (0, 0);
            let pieces = encode(&decoded);
            assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), encoded_len(&decoded));
            assert_eq!(decode(&cut(&pieces)[0]), Ok(decoded));
        }
        assert!((1000..19_000).contains(&accepted), "{accepted} were accepted");
    }

    #[test]
    fn unknown_kinds_and_bytes_after_the_end_are_rejected() {
        let decode = |bytes: &'static [u8]| decode(&Bytes::from_static(bytes)).unwrap_err();
        assert_eq!(decode(&[]), FrameError::UnknownKind { kind: None });
        assert_eq!(decode(&[11]), FrameError::UnknownKind { kind: Some(11) });
        assert_eq!(decode(&[kind::UNSUBSCRIBE, 1, 2, 3]), FrameError::TrailingBytes { extra: 2 });
        let large = [kind::REJECT, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(matches!(super::decode(&large.to_vec().into()), Err(FrameError::Number { .. })));
        assert!(matches!(decode(&[kind::SUBSCRIBE, 1, 1, 9]), FrameError::Cid(_)));
    }

    #[test]
    fn blocks_with_unknown_hash_functions_are_skipped() {
        let blake3 = [1, 0x55, 0x1e, 0x20];
        let mut leaf = vec![kind::LEAF, 0, 0, 4];
        leaf.extend(blake3);
        leaf.extend([9; 10]);
        assert_eq!(decode(&leaf.into()).unwrap().skipped_blocks, 1);
        let mut subscribe = vec![kind::SUBSCRIBE, 0, 9];
        subscribe.extend(blake3);
        subscribe.extend([9; 32]);
        assert_eq!(decode(&subscribe.into()).unwrap().skipped_entries, 1);
    }
}
