//! A page that users load from each other: one block of random bytes, and the messages that carry it
//! through the relay of a Watchfire server (docs/reference/protocols/page.md). They are written here
//! again, so that the load does not share an error with the server.

use multibase::Base;
use sha2::{Digest as _, Sha256};
use watchfire_types::Rng;

pub(crate) const PEER_BYTES: usize = 8;
/// One segment of the relay carries the whole block.
const BYTES_MAX: u64 = 60_000;
const SEGMENT_HEAD_BYTES: usize = 12;
/// A user sends at most one message of each kind to a peer, so the id is used once.
const MESSAGE_ID: u32 = 1;
const RELAY: &str = "relay";
const PUSH: u8 = 0;
/// CIDv1, raw, sha2-256, 32 bytes.
const PREFIX: [u8; 4] = [1, 0x55, 0x12, 32];

#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) cid: String,
    pub(crate) topic: String,
    digest: [u8; 32],
    /// The Bitswap messages that request the block, and that carry it.
    pub(crate) request: Vec<u8>,
    pub(crate) answer: Vec<u8>,
}

/// A message of Bitswap about this page.
#[derive(Debug, PartialEq)]
pub(crate) enum PageMessage<'a> {
    Request,
    Block(&'a [u8]),
}

impl Page {
    /// A page of random bytes, the same on all machines of a load.
    pub(crate) fn random(bytes: u64, seed: u64) -> Result<Page, String> {
        if !(1..=BYTES_MAX).contains(&bytes) {
            return Err(format!("random must be between 1 and {BYTES_MAX} bytes, one block"));
        }
        let mut rng = Rng::from_seed(seed);
        let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
        let block: Vec<u8> = words.flatten().take(bytes as usize).collect();
        let digest: [u8; 32] = Sha256::digest(&block).into();
        let name = [&PREFIX[..], &digest].concat();
        let cid = multibase::encode(Base::Base32Lower, &name);
        let topic = format!("page:{cid}");
        Ok(Page { cid, topic, digest, request: request(&name), answer: answer(&block) })
    }

    /// Whether these bytes are the page.
    pub(crate) fn is_verified(&self, block: &[u8]) -> bool {
        <[u8; 32]>::from(Sha256::digest(block)) == self.digest
    }

    /// Writes the payload of a binary frame that relays a whole message to a peer.
    pub(crate) fn put_relay(
        &self,
        (join_ref, reference): (u32, u32),
        peer: &[u8; PEER_BYTES],
        message: &[u8],
        out: &mut Vec<u8>,
    ) {
        let (join_ref, reference) = (join_ref.to_string(), reference.to_string());
        let texts = [&join_ref, &reference, &self.topic, RELAY];
        out.push(PUSH);
        out.extend(texts.map(|text| text.len() as u8));
        texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
        out.extend_from_slice(peer);
        let head = [MESSAGE_ID, 0, message.len() as u32];
        out.extend(head.iter().flat_map(|number| number.to_be_bytes()));
        out.extend_from_slice(message);
    }
}

/// The sender and the message of a relayed frame, if it carries a whole message.
pub(crate) fn relayed(payload: &[u8]) -> Option<([u8; PEER_BYTES], PageMessage<'_>)> {
    let [PUSH, join_ref, topic, event, texts @ ..] = payload else { return None };
    let start = usize::from(*join_ref) + usize::from(*topic);
    let data = start + usize::from(*event);
    if texts.get(start..data)? != RELAY.as_bytes() {
        return None;
    }
    let (peer, segment) = texts.get(data..)?.split_first_chunk()?;
    Some((*peer, read(segment.get(SEGMENT_HEAD_BYTES..)?)?))
}

/// A peer id from its hexadecimal digits.
pub(crate) fn peer_id(text: &str) -> Option<[u8; PEER_BYTES]> {
    Some(u64::from_str_radix(text, 16).ok()?.to_be_bytes())
}

fn request(cid: &[u8]) -> Vec<u8> {
    let mut entry = Vec::new();
    put_field(1, cid, &mut entry);
    entry.extend_from_slice(&[2 << 3, 1]); // priority 1
    let (mut wantlist, mut message) = (Vec::new(), Vec::new());
    put_field(1, &entry, &mut wantlist);
    put_field(1, &wantlist, &mut message);
    message
}

fn answer(content: &[u8]) -> Vec<u8> {
    let (mut block, mut message) = (Vec::new(), Vec::new());
    put_field(1, &PREFIX, &mut block);
    put_field(2, content, &mut block);
    put_field(3, &block, &mut message);
    message
}

fn read(message: &[u8]) -> Option<PageMessage<'_>> {
    match *message.first()? {
        0x0a => Some(PageMessage::Request),
        0x1a => {
            let (block, _) = take_field(3, message)?;
            let (_, rest) = take_field(1, block)?;
            Some(PageMessage::Block(take_field(2, rest)?.0))
        }
        _ => None,
    }
}

/// Writes a length-delimited field of protobuf.
fn put_field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    let mut len = bytes.len();
    while len > 0x7f {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend_from_slice(bytes);
}

/// The field that `bytes` begin with, and the bytes after it.
fn take_field(number: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&tag, mut rest) = bytes.split_first()?;
    let (mut len, mut shift) = (0, 0);
    while let Some((&byte, after)) = rest.split_first()
        && shift < 28
    {
        rest = after;
        len |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return (tag == number << 3 | 2).then(|| rest.split_at_checked(len))?;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cid_is_written_as_others_write_it() {
        // `echo -n hello | ipfs add --cid-version 1`, the example of many documents.
        let digest: [u8; 32] = Sha256::digest(b"hello").into();
        let cid = multibase::encode(Base::Base32Lower, [&PREFIX[..], &digest].concat());
        assert_eq!(cid, "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq");
    }

    #[test]
    fn a_relayed_frame_has_its_sender_and_message() {
        let page = Page::random(50_000, 1).unwrap();
        for (message, is_block) in [(&page.answer, true), (&page.request, false)] {
            let mut sent = Vec::new();
            page.put_relay((2, 3), &[7; 8], message, &mut sent);
            // A push from the server has no ref, so its head is one byte shorter.
            let mut pushed = vec![PUSH, 1, page.topic.len() as u8, 5, b'2'];
            pushed.extend_from_slice(&sent[7..]);
            let (peer, received) = relayed(&pushed).unwrap();
            assert_eq!(peer, [7; 8]);
            match received {
                PageMessage::Block(block) => assert!(is_block && page.is_verified(block)),
                PageMessage::Request => assert!(!is_block),
            }
            assert_eq!(relayed(&pushed[..12]), None);
        }
        assert!(!page.is_verified(b"other"));
        assert!(Page::random(0, 1).is_err() && Page::random(70_000, 1).is_err());
    }
}
