//! Hosts that speak of leaves, and hosts that do not.

use watchfire_bitswap::Protocol;
use watchfire_p2p::HostSettings;

use crate::{Node, settings, until};

async fn plain() -> Node {
    Node::with(HostSettings { leaves: false, ..settings() }).await
}

/// What a host speaks with its peers.
async fn spoken(one: &Node) -> Vec<Protocol> {
    let peers = one.host.peers().await.unwrap();
    peers.into_iter().map(|peer| peer.protocol).collect()
}

#[tokio::test]
async fn leaves_are_spoken_where_both_can_and_bitswap_where_one_cannot() {
    let (one, other) = (Node::start().await, Node::start().await);
    let root = one.add(20_000_000, 1);
    other.connect(&one).await;
    other.fetch(&root).await;
    assert_eq!(other.blocks(), one.blocks());
    assert_eq!(spoken(&other).await, [Protocol::Leaves]);
    assert_eq!(spoken(&one).await, [Protocol::Leaves]);
    let stats = one.stats().await;
    let overhead = stats.sent_bytes - stats.sent_block_bytes;
    assert!(overhead < 2000, "{overhead} bytes beyond twenty blocks");

    let plain = plain().await;
    plain.connect(&one).await;
    plain.fetch(&root).await;
    assert_eq!(plain.blocks(), one.blocks());
    assert_eq!(spoken(&plain).await, [Protocol::V1_2]);
    assert_eq!(spoken(&one).await.iter().filter(|spoken| **spoken == Protocol::V1_2).count(), 1);
}

#[tokio::test]
async fn a_swarm_of_both_kinds_is_one() {
    let seeder = Node::start().await;
    let root = seeder.add(30_000_000, 2);
    let leechers = [Node::start().await, plain().await, Node::start().await];
    for (at, leecher) in leechers.iter().enumerate() {
        leecher.connect(&seeder).await;
        for other in &leechers[..at] {
            leecher.connect(other).await;
        }
    }
    futures::future::join_all(leechers.iter().map(|leecher| leecher.fetch(&root))).await;
    for leecher in &leechers {
        assert_eq!(leecher.blocks(), seeder.blocks());
        assert_eq!(leecher.stats().await.dropped_peers, 0);
    }
}

#[tokio::test]
async fn leaves_come_from_all_who_have_them() {
    let (one, other, leecher) = (Node::start().await, Node::start().await, Node::start().await);
    let root = one.add(30_000_000, 3);
    assert_eq!(other.add(30_000_000, 3), root);
    leecher.connect(&one).await;
    leecher.connect(&other).await;
    // Else all of it may have come from the one before the other can be asked.
    until(async || leecher.stats().await.peers == 2).await;
    let fetched = leecher.fetch(&root).await.progress;
    assert_eq!(leecher.blocks(), one.blocks());
    assert_eq!(fetched.peers, 2);
}
