//! The content of a page, and the messages with which visitors load it from each other through the
//! server's relay. The bench encodes messages itself, so that it does not share bugs with Watchfire.

use watchfire_content::{Cid, Codec, Multihash};
use watchfire_types::Rng;

/// One raw block: the message that carries it fits one relayed segment.
pub const CONTENT_BYTES: usize = 50_000;
pub const PEER_ID_BYTES: usize = 8;
const SEGMENT_HEAD_BYTES: usize = 12;
/// A visitor sends at most one message of each kind to a peer, so no id is used twice.
const MESSAGE_ID: u32 = 1;
const RELAY: &str = "relay";
const PUSH: u8 = 0;

/// Random bytes, the same in every process.
pub fn content() -> Vec<u8> {
    let mut rng = Rng::from_seed(1);
    std::iter::repeat_with(|| rng.next_u64().to_le_bytes()).flatten().take(CONTENT_BYTES).collect()
}

/// The CID of a page that is one raw block.
pub fn cid(content: &[u8]) -> Cid {
    Cid::v1(Codec::RAW, Multihash::sha2_256(content))
}

/// A Bitswap message that requests the block.
pub fn request(cid: &Cid) -> Vec<u8> {
    let (mut entry, mut bytes) = (Vec::new(), Vec::new());
    cid.encode_into(&mut bytes);
    put_field(1, &bytes, &mut entry);
    entry.extend_from_slice(&[2 << 3, 1]); // priority 1
    let mut wantlist = Vec::new();
    put_field(1, &entry, &mut wantlist);
    let mut message = Vec::new();
    put_field(1, &wantlist, &mut message);
    message
}

/// A Bitswap message that carries the block.
pub fn answer(content: &[u8]) -> Vec<u8> {
    const PREFIX: [u8; 4] = [1, 0x55, 0x12, 32]; // CIDv1, raw, sha2-256
    let mut block = Vec::new();
    put_field(1, &PREFIX, &mut block);
    put_field(2, content, &mut block);
    let mut message = Vec::new();
    put_field(3, &block, &mut message);
    message
}

/// A received Bitswap message of this page.
#[derive(Debug, PartialEq)]
pub enum Received<'a> {
    Request,
    Block(&'a [u8]),
}

/// Reads a message that [`request`] or [`answer`] wrote.
pub fn read(message: &[u8]) -> Option<Received<'_>> {
    match *message.first()? {
        0x0a => Some(Received::Request),
        0x1a => {
            let (block, _) = take_field(3, message)?;
            let (_, rest) = take_field(1, block)?;
            Some(Received::Block(take_field(2, rest)?.0))
        }
        _ => None,
    }
}

/// The payload of a binary frame that relays a whole message to a peer.
pub fn put_relay(topic: &str, peer: &[u8; PEER_ID_BYTES], message: &[u8], out: &mut Vec<u8>) {
    let texts = ["2", "3", topic, RELAY];
    out.push(PUSH);
    out.extend(texts.map(|text| text.len() as u8));
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
    out.extend_from_slice(peer);
    out.extend(
        [MESSAGE_ID, 0, message.len() as u32].iter().flat_map(|number| number.to_be_bytes()),
    );
    out.extend_from_slice(message);
}

/// The sender and the message of a relayed frame.
pub fn relayed(payload: &[u8]) -> Option<([u8; PEER_ID_BYTES], &[u8])> {
    let [PUSH, join_ref, topic, event, texts @ ..] = payload else { return None };
    let start = usize::from(*join_ref) + usize::from(*topic);
    let data = start + usize::from(*event);
    if texts.get(start..data)? != RELAY.as_bytes() {
        return None;
    }
    let (peer, segment) = texts.get(data..)?.split_first_chunk()?;
    Some((*peer, segment.get(SEGMENT_HEAD_BYTES..)?))
}

/// A peer id from its hexadecimal digits.
pub fn peer_id(text: &str) -> Option<[u8; PEER_ID_BYTES]> {
    Some(u64::from_str_radix(text, 16).ok()?.to_be_bytes())
}

/// Writes a length-delimited protobuf field.
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
    fn a_block_arrives_as_it_was_sent() {
        let content = content();
        let message = answer(&content);
        let Some(Received::Block(block)) = read(&message) else { panic!("a block") };
        assert!(block == content && cid(&content).is_of(block));
        assert_eq!(read(&request(&cid(&content))), Some(Received::Request));
    }

    #[test]
    fn a_relayed_frame_carries_its_sender_and_message() {
        // A push from the server has no ref, so its head is one byte shorter.
        let mut sent = Vec::new();
        put_relay("page:x", &[7; 8], b"message", &mut sent);
        let mut pushed = vec![PUSH, 1, 6, 5];
        pushed.extend_from_slice(b"2page:xrelay");
        pushed.extend_from_slice(&sent[sent.len() - 27..]);
        assert_eq!(relayed(&pushed), Some(([7; 8], &b"message"[..])));
        assert_eq!(relayed(&pushed[..12]), None);
        assert_eq!(peer_id("00000000000000ff"), Some([0, 0, 0, 0, 0, 0, 0, 255]));
    }
}
