//! Hosts with the leaves protocol, and hosts without it.

use watchfire_bitswap::Protocol;
use watchfire_p2p::HostSettings;

use super::{Node, settings, wait_until};

async fn node_without_leaves() -> Node {
    Node::with(HostSettings { leaves: false, ..settings() }).await
}

/// The protocols that a host uses with its peers.
async fn protocols(one: &Node) -> Vec<Protocol> {
    let peers = one.host.peers().await.unwrap();
    peers.into_iter().map(|peer| peer.protocol).collect()
}

#[tokio::test]
async fn two_hosts_use_leaves_if_both_support_it_and_bitswap_otherwise() {
    let (one, other) = (Node::start().await, Node::start().await);
    let root = one.add(20_000_000, 1);
    other.connect(&one).await;
    other.fetch(&root).await;
    assert_eq!(other.blocks(), one.blocks());
    assert_eq!(protocols(&other).await, [Protocol::Leaves]);
    assert_eq!(protocols(&one).await, [Protocol::Leaves]);
    let stats = one.stats().await;
    let overhead = stats.sent_bytes - stats.sent_block_bytes;
    assert!(overhead < 2000, "{overhead} bytes besides twenty blocks");

    let plain = node_without_leaves().await;
    plain.connect(&one).await;
    plain.fetch(&root).await;
    assert_eq!(plain.blocks(), one.blocks());
    assert_eq!(protocols(&plain).await, [Protocol::V1_2]);
    assert_eq!(
        protocols(&one).await.iter().filter(|protocol| **protocol == Protocol::V1_2).count(),
        1
    );
}

#[tokio::test]
async fn hosts_with_and_without_leaves_form_one_swarm() {
    let seeder = Node::start().await;
    let root = seeder.add(30_000_000, 2);
    let leechers = [Node::start().await, node_without_leaves().await, Node::start().await];
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
async fn leaves_are_fetched_from_all_peers_that_have_them() {
    let (one, other, leecher) = (Node::start().await, Node::start().await, Node::start().await);
    let root = one.add(30_000_000, 3);
    assert_eq!(other.add(30_000_000, 3), root);
    leecher.connect(&one).await;
    leecher.connect(&other).await;
    // Otherwise one peer may send all blocks before the other is connected.
    wait_until(async || leecher.stats().await.peers == 2).await;
    let fetched = leecher.fetch(&root).await.progress;
    assert_eq!(leecher.blocks(), one.blocks());
    assert_eq!(fetched.peers, 2);
}
