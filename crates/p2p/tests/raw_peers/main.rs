//! A host and peers that other programs could be, made by hand.

mod asking;
mod giving;
mod many;
mod raw;

use std::sync::Arc;

use watchfire_content::{Block, Cid, FileBuilder, Profile};
use watchfire_p2p::{Host, HostSettings};
use watchfire_store::{LockedMemoryStore, Stores, WriteBlocks};

use raw::{Raw, within};

impl Raw {
    /// A peer that speaks 1.2.
    async fn connect(host: &Host) -> Raw {
        Raw::speaking(host, &["/ipfs/bitswap/1.2.0"]).await
    }

    /// A peer that speaks these versions and nothing else.
    async fn speaking(host: &Host, protocols: &'static [&'static str]) -> Raw {
        Raw::dial(host.addresses()[0].clone(), protocols).await
    }

    /// Whether the host ended the connection.
    async fn is_cut_off(&mut self) -> bool {
        while within(self.heard.recv()).await.is_some() {}
        true
    }
}

/// A host on loopback, and what it has.
async fn host() -> (Host, Arc<LockedMemoryStore>) {
    host_with(HostSettings::default()).await
}

async fn host_with(settings: HostSettings) -> (Host, Arc<LockedMemoryStore>) {
    let listen = vec!["/ip4/127.0.0.1/tcp/0".parse().expect("an address")];
    let kept = Arc::new(LockedMemoryStore::new(256 << 20));
    let settings = HostSettings { listen, ..settings };
    let host = Host::start(settings, Stores::default(), kept.clone()).await.expect("a host");
    (host, kept)
}

/// Puts a block of so many bytes into a store; each number is another.
fn put(kept: &Arc<LockedMemoryStore>, number: u64, bytes: usize) -> Cid {
    let block = block(number, bytes);
    kept.put(&block).expect("there is room");
    block.cid().clone()
}

fn block(number: u64, bytes: usize) -> Block {
    let mut content = vec![0; bytes];
    content[..8].copy_from_slice(&number.to_le_bytes());
    Block::raw(content.into()).expect("a block")
}

/// A file of so many leaves, as blocks, its root last.
fn file(leaves: u64, leaf_bytes: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    let profile = Profile { chunk_bytes: leaf_bytes, ..Profile::UNIXFS_V1_2025 };
    let mut builder = FileBuilder::new(profile).expect("a profile");
    let mut keep = |block| {
        blocks.push(block);
        Ok::<_, std::convert::Infallible>(())
    };
    for leaf in 0..leaves {
        builder.write(block(leaf, leaf_bytes).bytes(), &mut keep).expect("it can be kept");
    }
    builder.finish(&mut keep).expect("it can be kept");
    blocks
}
