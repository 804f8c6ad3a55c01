use std::sync::{Arc, Condvar, Mutex};

use watchfire_content::{Block, Cid};
use watchfire_p2p::Host;
use watchfire_store::{LockedMemoryStore, ReadBlocks, StoreError, Stores};

use crate::{Node, settings, until, within};

/// Says that it has everything, and gives something else.
struct Liar;

impl ReadBlocks for Liar {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        Ok(Some(Block::raw(format!("not {cid}").into()).unwrap()))
    }

    fn len_of(&self, _: &Cid) -> Option<u64> {
        Some(1 << 20)
    }
}

/// Says that it has everything, and gives nothing until it is let go.
#[derive(Default)]
struct Staller {
    is_let_go: Mutex<bool>,
    let_go: Condvar,
}

impl ReadBlocks for Staller {
    fn get(&self, _: &Cid) -> Result<Option<Block>, StoreError> {
        let mut is_let_go = self.is_let_go.lock().unwrap();
        while !*is_let_go {
            is_let_go = self.let_go.wait(is_let_go).unwrap();
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
async fn a_peer_that_lies_is_dropped_and_the_content_comes_from_the_others() {
    let (honest, leecher) = (Node::start().await, Node::start().await);
    let root = honest.add(20_000_000, 1);
    let liar = host_with(Liar).await;
    within(leecher.host.connect(liar.addresses()[0].clone())).await.unwrap();
    // Of two who have it, one that is slow to answer may be asked to give back what it was asked for, and never lie.
    let meets_the_other = async {
        until(async || leecher.stats().await.dropped_peers == 1).await;
        leecher.connect(&honest).await;
    };
    tokio::join!(leecher.fetch(&root), meets_the_other);
    assert_eq!(leecher.blocks(), honest.blocks());
    assert_eq!(leecher.stats().await.dropped_peers, 1);
}

#[tokio::test]
async fn a_peer_that_stalls_holds_nothing_up() {
    let (honest, leecher) = (Node::start().await, Node::start().await);
    let root = honest.add(20_000_000, 2);
    let staller = Arc::new(Staller::default());
    let stalls = host_with(staller.clone()).await;
    within(leecher.host.connect(stalls.addresses()[0].clone())).await.unwrap();
    leecher.connect(&honest).await;
    leecher.fetch(&root).await;
    assert_eq!(leecher.blocks(), honest.blocks());
    *staller.is_let_go.lock().unwrap() = true;
    staller.let_go.notify_all();
}
