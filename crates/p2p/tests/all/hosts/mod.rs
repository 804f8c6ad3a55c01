//! Hosts that exchange blocks over loopback.

mod bad_peers;
mod leaves;
mod private;
mod questions;
mod requests;
mod transfers;

use std::sync::Arc;
use std::time::Duration;
use watchfire_types::Rng;

use watchfire_content::{Block, Cid, FileBuilder, Profile};
use watchfire_p2p::{Fetched, Host, HostSettings, HostStats};
use watchfire_store::{LockedMemoryStore, ReadBlocks, Stores, WriteBlocks};

/// The longest wait for any event, for slow machines.
const TIMEOUT: Duration = Duration::from_secs(120);

const STORE_BYTES: usize = 256 << 20;

fn settings() -> HostSettings {
    let listen = vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()];
    HostSettings { listen, ..HostSettings::default() }
}

struct Node {
    host: Host,
    store: Arc<LockedMemoryStore>,
}

impl Node {
    async fn start() -> Self {
        Self::with(settings()).await
    }

    async fn with(settings: HostSettings) -> Self {
        let store = Arc::new(LockedMemoryStore::new(STORE_BYTES));
        let host = Host::start(settings, Stores::default(), store.clone()).await.unwrap();
        Node { host, store }
    }

    /// Stores a file of this length, with blocks that all differ.
    fn add(&self, bytes: usize, seed: u64) -> Cid {
        let mut builder = FileBuilder::new(Profile::UNIXFS_V1_2025).unwrap();
        let mut put = |block: Block| self.store.put(&block);
        let mut rng = Rng::from_seed(seed);
        let mut piece = Vec::with_capacity(1 << 16);
        let mut left = bytes;
        while left > 0 {
            piece.resize(left.min(1 << 16), 0);
            rng.fill(&mut piece);
            left -= piece.len();
            builder.write(&piece, &mut put).unwrap();
        }
        builder.finish(&mut put).unwrap().cid
    }

    async fn connect(&self, other: &Node) {
        let address = other.host.addresses()[0].clone();
        let peer = within(self.host.connect(address)).await.unwrap();
        assert_eq!(peer, other.host.peer_id());
    }

    async fn fetch(&self, root: &Cid) -> Fetched {
        let mut fetch = self.host.fetch(root.clone()).await.unwrap();
        within(fetch.finished()).await.unwrap()
    }

    async fn stats(&self) -> HostStats {
        within(self.host.stats()).await.unwrap()
    }

    fn blocks(&self) -> usize {
        self.store.lock().len()
    }

    fn has(&self, cid: &Cid) -> bool {
        self.store.has(cid)
    }
}

async fn wait_until(mut condition: impl AsyncFnMut() -> bool) {
    let polls = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(polls).await;
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("no timeout")
}
