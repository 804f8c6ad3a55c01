//! Bytes: messages of Bitswap as they are on a stream, and files cut into blocks.

use std::any::Any;
use std::convert::Infallible;
use std::hint::black_box;

use bytes::Bytes;
use watchfire_bitswap::message::{FrameReader, decode, encode_framed};
use watchfire_bitswap::{Message, Presence, Protocol, WantEntry, WantKind};
use watchfire_content::{Block, FileBuilder, Profile};

const ENTRIES: u32 = 64;
const BLOCKS: u32 = 4;
const BLOCK_BYTES: usize = 1 << 10;
const FILE_BYTES: usize = 256 << 10;
const CHUNK_BYTES: usize = 16 << 10;
/// The bytes of one read of a socket.
const READ_BYTES: usize = 4 << 10;

fn block(number: u32) -> Block {
    let bytes = vec![number as u8; BLOCK_BYTES];
    Block::raw(Bytes::from(bytes)).expect("the block is short")
}

/// A round is a message with wants, presences and a few blocks: encoded, read in pieces, decoded and hashed.
pub fn encode_and_decode(rounds: u32) -> Box<dyn Any> {
    let blocks: Vec<Block> = (0..ENTRIES).map(block).collect();
    let want = |block: &Block| WantEntry {
        cid: block.cid().clone(),
        priority: 1,
        cancel: false,
        kind: WantKind::Block,
        send_dont_have: true,
    };
    let presence = |block: &Block| Presence { cid: block.cid().clone(), has_block: true };
    let message = Message {
        wants: blocks.iter().map(want).collect(),
        presences: blocks.iter().map(presence).collect(),
        blocks: blocks[..BLOCKS as usize].to_vec(),
        ..Message::default()
    };
    let mut reader = FrameReader::default();
    for _ in 0..rounds {
        let bytes = encode_framed(&message, Protocol::V1_2);
        bytes.chunks(READ_BYTES).for_each(|read| reader.push(read));
        let frame = reader.next_frame().expect("the length is valid").expect("all has arrived");
        let decoded = decode(&frame).expect("the message is valid");
        assert_eq!(decoded.blocks.len(), message.blocks.len());
        black_box(decoded);
    }
    Box::new((message, reader))
}

/// A round is a file of [`FILE_BYTES`] that is cut into blocks, which are hashed.
pub fn build_file(rounds: u32) -> Box<dyn Any> {
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at % 251) as u8).collect();
    let profile = Profile { chunk_bytes: CHUNK_BYTES, ..Profile::UNIXFS_V1_2025 };
    let mut keep = |block: Block| {
        black_box(block);
        Ok::<(), Infallible>(())
    };
    for _ in 0..rounds {
        let mut builder = FileBuilder::new(profile).expect("the profile is valid");
        let Ok(()) = builder.write(&bytes, &mut keep);
        let Ok(root) = builder.finish(&mut keep);
        black_box(root);
    }
    Box::new(bytes)
}
