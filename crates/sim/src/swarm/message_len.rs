//! The lengths that messages would have if they were encoded.

use watchfire_bitswap::{Message, Payload, leaves};
use watchfire_content::Cid;

use crate::dag::FakeBlock;
use crate::strategies::Strategy;

/// Bytes around a want besides its CID: tags, lengths, priority, kind and flags.
const WANT_BYTES: usize = 14;
/// Bytes around the CID of a cancel.
const CANCEL_BYTES: usize = 8;
/// Bytes around the CID of a HAVE or DONT_HAVE.
const PRESENCE_BYTES: usize = 6;
/// Bytes around a block: tags, lengths, and its CID's prefix.
const BLOCK_BYTES: usize = 18;
/// Bytes of the message itself: its length, the wantlist's, and the stream's own.
const MESSAGE_BYTES: usize = 24;

/// The length of a message on the wire. Each entry may be a few bytes off.
pub(crate) fn message_len(message: &Message<FakeBlock>, strategy: Strategy) -> u64 {
    if strategy == Strategy::Watchfire {
        return leaves::encoded_len(message) as u64;
    }
    let wants = message
        .wants
        .iter()
        .map(|want| cid_bytes(&want.cid) + if want.cancel { CANCEL_BYTES } else { WANT_BYTES });
    let presences = message.presences.iter().map(|one| cid_bytes(&one.cid) + PRESENCE_BYTES);
    let blocks = message.blocks.iter().map(|block| block.len() + BLOCK_BYTES);
    (MESSAGE_BYTES + wants.chain(presences).chain(blocks).sum::<usize>()) as u64
}

fn cid_bytes(cid: &Cid) -> usize {
    cid.encoded_len()
}

#[cfg(test)]
mod tests {
    use watchfire_bitswap::message::encode_framed;
    use watchfire_bitswap::{Presence, Protocol, WantEntry, WantKind};
    use watchfire_content::Block;

    use super::*;
    use crate::dag::{Dag, FileShape};

    #[test]
    fn lengths_are_close_to_those_of_real_messages() {
        let dag = Dag::new(FileShape { bytes: 9 << 20, block_bytes: 1 << 18, links_max: 99 }, 1);
        let want = |block| WantEntry {
            cid: dag.cid(block).clone(),
            priority: 2_000_000_000,
            cancel: block % 3 == 0,
            kind: WantKind::Block,
            send_dont_have: true,
        };
        let presence = |block| Presence { cid: dag.cid(block).clone(), has_block: block % 2 == 0 };
        let wants: Vec<_> = (0..30).map(want).collect();
        let presences: Vec<_> = (0..30).map(presence).collect();
        let simulated = Message {
            wants: wants.clone(),
            presences: presences.clone(),
            blocks: vec![dag.fake_block(1)],
            ..Message::default()
        };
        let block = Block::raw(vec![0; simulated.blocks[0].len()].into()).unwrap();
        let real = Message { wants, presences, blocks: vec![block], ..Message::default() };
        let real = encode_framed(&real, Protocol::V1_2).len() as f64;
        let ratio = message_len(&simulated, Strategy::Boxo) as f64 / real;
        assert!((0.999..1.001).contains(&ratio), "{ratio}");
    }
}
