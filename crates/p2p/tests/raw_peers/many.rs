//! More peers than a host has room for, and less of a machine than it would like.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use watchfire_bitswap::WantKind;
use watchfire_p2p::{HostLimits, HostSettings};
use watchfire_store::{LockedMemoryStore, WriteBlocks};

use crate::raw::{Raw, want, within};
use crate::{file, host, host_with, put};

#[tokio::test]
async fn peers_that_are_of_no_use_make_room_for_others() {
    let limits = HostLimits {
        connections_max: 8,
        trim_grace_period: Duration::ZERO,
        ..HostLimits::default()
    };
    let (host, kept) = host_with(HostSettings { limits, ..HostSettings::default() }).await;
    let long = put(&kept, 1, 5000);
    let mut useful = Raw::connect(&host).await;
    let mut idle = Vec::new();
    for _ in 0..24 {
        useful.want(vec![want(&long, WantKind::Block, true)]).await;
        assert!(useful.hear_of(&long).await.has_block(&long), "it is kept all the time");
        let mut newcomer = Raw::connect(&host).await;
        newcomer.want(vec![want(&long, WantKind::Have, true)]).await;
        assert!(newcomer.hear_of(&long).await.haves.contains(&long));
        idle.push(newcomer);
    }
    let stats = host.stats().await.unwrap();
    assert!(stats.connections <= 8, "{}", stats.connections);
    assert!(stats.trimmed_peers >= 24 + 1 - 8, "{}", stats.trimmed_peers);
    assert_eq!(stats.dropped_peers, 0);
    host.stop().await;
}

/// Takes processor time from all else until it is dropped.
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
async fn on_a_machine_without_time_nobody_who_is_well_is_dropped() {
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
