//! More peers than the connection limit, and a busy machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use watchfire_bitswap::WantKind;
use watchfire_p2p::{HostLimits, HostSettings};
use watchfire_store::{LockedMemoryStore, WriteBlocks};

use super::raw::{RawPeer, want, within};
use super::{file, host, host_with, put};

#[tokio::test]
async fn unused_peers_are_disconnected_to_make_room_for_new_ones() {
    let limits = HostLimits {
        connections_max: 8,
        trim_grace_period: Duration::ZERO,
        ..HostLimits::default()
    };
    let (host, store) = host_with(HostSettings { limits, ..HostSettings::default() }).await;
    let long = put(&store, 1, 5000);
    let mut useful = RawPeer::connect(&host).await;
    let mut idle = Vec::new();
    for _ in 0..24 {
        useful.want(vec![want(&long, WantKind::Block, true)]).await;
        assert!(useful.receive_until(&long).await.has_block(&long), "it stays connected");
        let mut new_peer = RawPeer::connect(&host).await;
        new_peer.want(vec![want(&long, WantKind::Have, true)]).await;
        assert!(new_peer.receive_until(&long).await.haves.contains(&long));
        idle.push(new_peer);
    }
    let stats = host.stats().await.unwrap();
    assert!(stats.connections <= 8, "{}", stats.connections);
    assert!(stats.trimmed_peers >= 24 + 1 - 8, "{}", stats.trimmed_peers);
    assert_eq!(stats.dropped_peers, 0);
    host.stop().await;
}

/// Keeps processors busy until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn new(threads: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let is_over = is_over.clone();
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Load(is_over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn no_healthy_peer_is_dropped_on_a_busy_machine() {
    let (seeder, seeded) = host().await;
    let blocks = file(64, 1 << 20);
    blocks.iter().for_each(|block| seeded.put(block).unwrap());
    let root = blocks.last().unwrap().cid();
    let load = Load::new(8);
    let mut leechers = Vec::new();
    for _ in 0..2 {
        let (leecher, _): (_, Arc<LockedMemoryStore>) = host().await;
        leecher.connect(seeder.addresses()[0].clone()).await.unwrap();
        let fetch = leecher.fetch(root.clone()).await.unwrap();
        leechers.push((leecher, fetch));
    }
    for (leecher, fetch) in &mut leechers {
        let fetched = within(fetch.finished()).await.unwrap();
        assert_eq!(fetched.progress.fetched_blocks, blocks.len() as u64);
        let stats = leecher.stats().await.unwrap();
        assert_eq!((stats.dropped_peers, stats.duplicate_block_bytes), (0, 0));
    }
    drop(load);
    assert_eq!(seeder.stats().await.unwrap().dropped_peers, 0);
    for host in leechers.into_iter().map(|(host, _)| host).chain([seeder]) {
        host.stop().await;
    }
}
