//! A host and handwritten peers, which behave as other implementations may.

mod many_peers;
mod raw;
mod requests;
mod wants;

use std::sync::Arc;

use watchfire_content::{Block, Cid, FileBuilder, Profile};
use watchfire_p2p::{Host, HostSettings};
use watchfire_store::{LockedMemoryStore, Stores, WriteBlocks};

use raw::{RawPeer, within};

impl RawPeer {
    /// Connects a peer with Bitswap 1.2.
    async fn connect(host: &Host) -> RawPeer {
        RawPeer::connect_with(host, &["/ipfs/bitswap/1.2.0"]).await
    }

    /// Connects a peer that supports only these versions.
    async fn connect_with(host: &Host, protocols: &'static [&'static str]) -> RawPeer {
        RawPeer::dial(host.addresses()[0].clone(), protocols).await
    }

    /// Waits until the host ends the connection.
    async fn disconnects(&mut self) -> bool {
        while within(self.received.recv()).await.is_some() {}
        true
    }
}

async fn host() -> (Host, Arc<LockedMemoryStore>) {
    host_with(HostSettings::default()).await
}

async fn host_with(settings: HostSettings) -> (Host, Arc<LockedMemoryStore>) {
    let listen = vec!["/ip4/127.0.0.1/tcp/0".parse().expect("an address")];
    let store = Arc::new(LockedMemoryStore::new(256 << 20));
    let settings = HostSettings { listen, ..settings };
    let host = Host::start(settings, Stores::default(), store.clone()).await.expect("a host");
    (host, store)
}

/// Stores a block of this length. Each number makes a different block.
fn put(store: &Arc<LockedMemoryStore>, number: u64, bytes: usize) -> Cid {
    let block = block(number, bytes);
    store.put(&block).expect("there is room");
    block.cid().clone()
}

fn block(number: u64, bytes: usize) -> Block {
    let mut content = vec![0; bytes];
    content[..8].copy_from_slice(&number.to_le_bytes());
    Block::raw(content.into()).expect("a block")
}

/// The blocks of a file with this number of leaves, the root last.
fn file(leaves: u64, leaf_bytes: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    let profile = Profile { chunk_bytes: leaf_bytes, ..Profile::UNIXFS_V1_2025 };
    let mut builder = FileBuilder::new(profile).expect("a profile");
    let mut push = |block| {
        blocks.push(block);
        Ok::<_, std::convert::Infallible>(())
    };
    for leaf in 0..leaves {
        builder.write(block(leaf, leaf_bytes).bytes(), &mut push).expect("pushing cannot fail");
    }
    builder.finish(&mut push).expect("pushing cannot fail");
    blocks
}
