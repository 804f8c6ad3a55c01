use std::sync::{Arc, Condvar, Mutex};

use watchfire_content::{Block, Cid};
use watchfire_p2p::Host;
use watchfire_store::{LockedMemoryStore, ReadBlocks, StoreError, Stores};

use super::{Node, settings, wait_until, within};

/// Claims to have each block, and returns a different one.
struct ForgingStore;

impl ReadBlocks for ForgingStore {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        Ok(Some(Block::raw(format!("not {cid}").into()).unwrap()))
    }

    fn len_of(&self, _: &Cid) -> Option<u64> {
        Some(1 << 20)
    }
}

/// Claims to have each block, and blocks each read until it is released.
#[derive(Default)]
struct StallingStore {
    is_released: Mutex<bool>,
    released: Condvar,
}

impl ReadBlocks for StallingStore {
    fn get(&self, _: &Cid) -> Result<Option<Block>, StoreError> {
        let mut is_released = self.is_released.lock().unwrap();
        while !*is_released {
            is_released = self.released.wait(is_released).unwrap();
        }
        Ok(None)
    }

    fn len_of(&self, _: &Cid) -> Option<u64> {
        Some(1 << 20)
    }
}

async fn host_with(store: impl ReadBlocks + 'static) -> Host {
    let stores = Stores::new(vec![Arc::new(store)]);
    Host::start(settings(), stores, Arc::new(LockedMemoryStore::new(0))).await.unwrap()
}

#[tokio::test]
async fn a_peer_that_sends_forged_blocks_is_dropped_and_others_serve_the_content() {
    let (honest, leecher) = (Node::start().await, Node::start().await);
    let root = honest.add(20_000_000, 1);
    let malicious = host_with(ForgingStore).await;
    within(leecher.host.connect(malicious.addresses()[0].clone())).await.unwrap();
    // With both connected, a slow malicious peer could get cancels before it sends a forged block.
    let connect_honest = async {
        wait_until(async || leecher.stats().await.dropped_peers == 1).await;
        leecher.connect(&honest).await;
    };
    tokio::join!(leecher.fetch(&root), connect_honest);
    assert_eq!(leecher.blocks(), honest.blocks());
    assert_eq!(leecher.stats().await.dropped_peers, 1);
}

#[tokio::test]
async fn a_stalled_peer_does_not_stop_a_fetch() {
    let (honest, leecher) = (Node::start().await, Node::start().await);
    let root = honest.add(20_000_000, 2);
    let store = Arc::new(StallingStore::default());
    let stalled = host_with(store.clone()).await;
    within(leecher.host.connect(stalled.addresses()[0].clone())).await.unwrap();
    leecher.connect(&honest).await;
    leecher.fetch(&root).await;
    assert_eq!(leecher.blocks(), honest.blocks());
    *store.is_released.lock().unwrap() = true;
    store.released.notify_all();
}
