use std::collections::BTreeSet;
use std::time::Duration;

use ::bitswap::message::{FrameReader, MESSAGE_BYTES_MAX, decode, encode};
use ::bitswap::{Behaviour, Exchange, Message, Output, Payload, Protocol, Want};
use ::content::{Cid, Codec, Multihash};
use bytes::Bytes;
use vocab::Instant;

/// What is a message is written in as many bytes as promised, and read as it was meant.
pub fn bitswap_message(bytes: &[u8]) {
    let Ok(mut message) = decode(&Bytes::copy_from_slice(bytes)) else { return };
    (message.passed_over, message.passed_over_blocks) = (0, 0);
    let written = encode(&message, Protocol::V1_2);
    assert_eq!(written.len(), message.encoded_len(Protocol::V1_2));
    assert_eq!(decode(&written.into()), Ok(message));
}

/// The same messages are cut out of a stream however it comes (the first byte says in pieces of which
/// size), and no more is held than came.
pub fn bitswap_frames(bytes: &[u8]) {
    let Some((piece_bytes, stream)) = bytes.split_first() else { return };
    let at_once = frames(stream, stream.len().max(1));
    assert_eq!(frames(stream, usize::from(*piece_bytes).max(1)), at_once);
}

/// The frames of a stream, and whether it went wrong.
fn frames(stream: &[u8], piece_bytes: usize) -> (Vec<Bytes>, bool) {
    let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
    for piece in stream.chunks(piece_bytes) {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    assert!(frames.iter().all(|frame| frame.len() <= MESSAGE_BYTES_MAX));
    (frames, false)
}

/// A block of which only the name and the length exist.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Toy(Cid, usize);

impl Payload for Toy {
    fn cid(&self) -> &Cid {
        &self.0
    }

    fn len(&self) -> usize {
        self.1
    }
}

fn toy(number: u8) -> Toy {
    let mut digest = [7; 32];
    digest[0] = number % 32;
    Toy(Cid::v1(Codec::RAW, Multihash::Sha2_256(digest)), 1 + usize::from(number % 32) * 5000)
}

/// Whatever peers say and in whatever order things happen, an exchange puts out what is due and comes
/// to rest: two bytes are a step.
pub fn bitswap_exchange(bytes: &[u8]) {
    let behaviours = [Behaviour::Ours, Behaviour::Kubo12, Behaviour::Old11];
    let Some((first, steps)) = bytes.split_first() else { return };
    let behaviour = behaviours[usize::from(*first) % behaviours.len()];
    let mut exchange: Exchange<u8, Toy> = Exchange::new(Default::default(), behaviour, 1);
    let (mut now, mut store) = (Instant::ZERO, BTreeSet::new());
    let session = exchange.start(now);
    for step in steps.chunks_exact(2) {
        let (peer, value) = (step[0] >> 4 & 3, step[1]);
        match step[0] & 15 {
            0 => {
                let protocols = [Protocol::V1_2, Protocol::V1_1, Protocol::V1_0];
                exchange.connected(now, peer, protocols[usize::from(value) % 3]);
            }
            1 => exchange.disconnected(now, peer),
            2 => exchange.writable(now, peer, usize::from(value) << 10),
            3 => exchange.want(now, session, [Want::new(toy(value).0)]),
            4 => exchange.unwant(now, session, [&toy(value).0]),
            5 if store.insert(toy(value).0) => exchange.have(now, &toy(value).0, toy(value).1),
            6 => {
                let blocks = vec![toy(value)];
                exchange.received(now, peer, Message { blocks, ..Message::default() });
            }
            7 => exchange.received(now, peer, said(value, steps)),
            8 => {
                now += Duration::from_millis(u64::from(value) * 20);
                exchange.handle_tick(now);
            }
            _ => exchange.arriving(now, peer),
        }
        for count in 0.. {
            assert!(count < 10_000, "there is no end to what it wants done");
            let Some(output) = exchange.poll_output() else { break };
            match output {
                Output::Look { cid } => {
                    let len = store.contains(&cid).then(|| toy(cid.hash().digest()[0]).1);
                    exchange.found(now, &cid, len);
                }
                Output::List { node } => exchange.listed(now, &node, None),
                Output::Read { peer, cid } => {
                    let block = store.contains(&cid).then(|| toy(cid.hash().digest()[0]));
                    exchange.read(now, peer, &cid, block);
                }
                Output::Got { block, .. } => {
                    store.insert(block.0.clone());
                    exchange.have(now, &block.0, block.1);
                }
                Output::FindProviders { session, .. } => exchange.providers(now, session, &[0, 1]),
                Output::Send { .. } | Output::Drop { .. } => {}
            }
        }
    }
}

/// What a peer says: wants, cancels and presences, of blocks that the dice chose.
fn said(value: u8, dice: &[u8]) -> Message<Toy> {
    let mut message = Message::default();
    for (at, byte) in dice.iter().take(usize::from(value % 16)).enumerate() {
        let cid = toy(byte.wrapping_add(value)).0;
        if at.is_multiple_of(3) {
            message.presences.push(::bitswap::Presence { cid, is_here: byte & 1 == 0 });
            continue;
        }
        message.wants.push(::bitswap::WantEntry {
            cid,
            priority: i32::from(*byte),
            cancel: byte & 6 == 6,
            kind: if byte & 8 == 0 {
                ::bitswap::WantKind::Have
            } else {
                ::bitswap::WantKind::Block
            },
            send_dont_have: byte & 16 == 0,
        });
    }
    message
}
