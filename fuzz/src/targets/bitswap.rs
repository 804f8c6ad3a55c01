use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use watchfire_bitswap::message::{FrameReader, MESSAGE_BYTES_MAX, decode, encode};
use watchfire_bitswap::{Exchange, Message, Output, Payload, Protocol, Want};
use watchfire_content::{Cid, Codec, Multihash};
use watchfire_types::Instant;

/// A message that decodes is encoded in the computed length, and decodes to the same message.
pub fn bitswap_message(bytes: &[u8]) {
    let Ok(mut message) = decode(&Bytes::copy_from_slice(bytes)) else { return };
    (message.skipped_entries, message.skipped_blocks) = (0, 0);
    let encoded = encode(&message, Protocol::V1_2);
    assert_eq!(encoded.len(), message.encoded_len(Protocol::V1_2));
    assert_eq!(decode(&encoded.into()), Ok(message));
}

/// A stream in pieces of any size (the first byte) decodes to the same frames.
pub fn bitswap_frames(bytes: &[u8]) {
    let Some((piece_bytes, stream)) = bytes.split_first() else { return };
    let at_once = frames(stream, stream.len().max(1));
    assert_eq!(frames(stream, usize::from(*piece_bytes).max(1)), at_once);
}

/// The frames of a stream, each after its length, and whether it ended with an error.
fn frames(stream: &[u8], piece_bytes: usize) -> (Vec<u8>, bool) {
    let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
    for piece in stream.chunks(piece_bytes) {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => {
                    assert!(frame.len() <= MESSAGE_BYTES_MAX);
                    frames.extend_from_slice(&(frame.len() as u32).to_le_bytes());
                    frames.extend_from_slice(&frame);
                }
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

/// A block that is only a CID and a length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FakeBlock(Cid, usize);

impl Payload for FakeBlock {
    fn cid(&self) -> &Cid {
        &self.0
    }

    fn len(&self) -> usize {
        self.1
    }
}

fn fake_block(number: u8) -> FakeBlock {
    let mut digest = [7; 32];
    digest[0] = number % 32;
    FakeBlock(Cid::v1(Codec::RAW, Multihash::Sha2_256(digest)), 1 + usize::from(number % 32) * 5000)
}

/// For any inputs in any order, an exchange returns finitely many outputs. A step has 2 bytes.
pub fn bitswap_exchange(bytes: &[u8]) {
    let Some((first, steps)) = bytes.split_first() else { return };
    let mut exchange: Exchange<u8, FakeBlock> = Exchange::new(Default::default(), (*first).into());
    let (mut now, mut store) = (Instant::ZERO, BTreeSet::new());
    let session = exchange.start_session(now);
    for step in steps.chunks_exact(2) {
        let (peer, value) = (step[0] >> 4 & 3, step[1]);
        match step[0] & 15 {
            0 => {
                let protocols = [Protocol::V1_2, Protocol::V1_1, Protocol::V1_0];
                exchange.handle_connected(now, peer, protocols[usize::from(value) % 3]);
            }
            1 => exchange.handle_disconnected(now, peer),
            2 => exchange.handle_writable(now, peer, usize::from(value) << 10),
            3 => exchange.want(now, session, [Want::new(fake_block(value).0)]),
            4 => exchange.cancel_wants(now, session, [&fake_block(value).0]),
            5 if store.insert(fake_block(value).0) => {
                exchange.handle_stored(now, &fake_block(value).0, fake_block(value).1)
            }
            6 => {
                let blocks = vec![fake_block(value)];
                exchange.handle_message(now, peer, Message { blocks, ..Message::default() });
            }
            7 => exchange.handle_message(now, peer, message_from(value, steps)),
            8 => {
                now += Duration::from_millis(u64::from(value) * 20);
                exchange.handle_tick(now);
            }
            _ => exchange.handle_partial_message(now, peer),
        }
        for count in 0.. {
            assert!(count < 10_000, "the exchange returned 10,000 outputs in one step");
            let Some(output) = exchange.poll_output() else { break };
            match output {
                Output::Lookup { cid } => {
                    let len = store.contains(&cid).then(|| fake_block(cid.hash().digest()[0]).1);
                    exchange.handle_lookup(now, &cid, len);
                }
                Output::ListLinks { node } => exchange.handle_links(now, &node, None),
                Output::Read { peer, cid } => {
                    let block = store.contains(&cid).then(|| fake_block(cid.hash().digest()[0]));
                    exchange.handle_read(now, peer, &cid, block);
                }
                Output::BlockReceived { block, .. } => {
                    store.insert(block.0.clone());
                    exchange.handle_stored(now, &block.0, block.1);
                }
                Output::FindProviders { session, .. } => {
                    exchange.handle_providers(now, session, &[0, 1])
                }
                Output::Send { .. } | Output::Answered { .. } | Output::DropPeer { .. } => {}
            }
        }
    }
}

/// A message with wants, cancels and presences that the bytes determine.
fn message_from(value: u8, bytes: &[u8]) -> Message<FakeBlock> {
    let mut message = Message::default();
    for (index, byte) in bytes.iter().take(usize::from(value % 16)).enumerate() {
        let cid = fake_block(byte.wrapping_add(value)).0;
        if index.is_multiple_of(3) {
            message.presences.push(watchfire_bitswap::Presence { cid, has_block: byte & 1 == 0 });
            continue;
        }
        message.wants.push(watchfire_bitswap::WantEntry {
            cid,
            priority: i32::from(*byte),
            cancel: byte & 6 == 6,
            kind: if byte & 8 == 0 {
                watchfire_bitswap::WantKind::Have
            } else {
                watchfire_bitswap::WantKind::Block
            },
            send_dont_have: byte & 16 == 0,
        });
    }
    message
}
