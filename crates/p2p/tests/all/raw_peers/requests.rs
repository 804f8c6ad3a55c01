//! The requests of a host to peers that may have blocks, and its reactions to their replies.

use std::collections::BTreeMap;
use std::time::Duration;

use watchfire_bitswap::{Message, Presence, WantKind};
use watchfire_content::{Block, Cid};
use watchfire_p2p::{Fetch, FetchError, Fetched};
use watchfire_store::ReadBlocks;

use super::raw::{RawPeer, within};
use super::{block, file, host};

/// The number of requests for each block, of want-haves, and of requests for a DONT_HAVE.
#[derive(Debug, Default)]
struct Requests {
    blocks: BTreeMap<Cid, usize>,
    want_haves: usize,
    dont_haves: usize,
}

/// Serves requests, each block after a pause, until the fetch ends.
async fn serve(
    peer: &mut RawPeer,
    blocks: &[Block],
    pause: Duration,
    fetch: &mut Fetch,
) -> (Result<Fetched, FetchError>, Requests) {
    let mut requests = Requests::default();
    loop {
        let message = tokio::select! {
            message = peer.receive() => message,
            end = fetch.finished() => return (end, requests),
        };
        for want in message.wants.into_iter().filter(|want| !want.cancel) {
            let found = blocks.iter().find(|block| block.cid().hash() == want.cid.hash());
            requests.dont_haves += usize::from(want.send_dont_have);
            match (want.kind, found) {
                (WantKind::Have, found) => {
                    requests.want_haves += 1;
                    let presence = Presence { cid: want.cid, has_block: found.is_some() };
                    let presences = vec![presence];
                    peer.send(&Message { presences, ..Message::default() }).await;
                }
                (WantKind::Block, Some(block)) => {
                    *requests.blocks.entry(want.cid).or_default() += 1;
                    tokio::time::sleep(pause).await;
                    let blocks = vec![block.clone()];
                    peer.send(&Message { blocks, ..Message::default() }).await;
                }
                (WantKind::Block, None) => {}
            }
        }
    }
}

#[tokio::test]
async fn a_peer_with_an_old_version_gets_no_want_haves() {
    for protocols in [&["/ipfs/bitswap/1.1.0"], &["/ipfs/bitswap/1.0.0"]] {
        let (host, store) = host().await;
        let blocks = file(20, 10_000);
        let root = blocks.last().unwrap().cid();
        let mut peer = RawPeer::connect_with(&host, protocols).await;
        let mut fetch = host.fetch(root.clone()).await.unwrap();
        let (fetched, requests) =
            within(serve(&mut peer, &blocks, Duration::ZERO, &mut fetch)).await;
        assert_eq!(fetched.unwrap().progress.fetched_blocks, 21, "{protocols:?}");
        assert_eq!((requests.want_haves, requests.dont_haves), (0, 0), "{protocols:?}");
        assert!(requests.blocks.values().all(|times| *times == 1), "{requests:?}");
        for block in &blocks {
            assert_eq!(store.get(block.cid()).unwrap().as_ref(), Some(block));
        }
        host.stop().await;
    }
}

#[tokio::test]
async fn a_slow_peer_gets_one_request_for_each_block_and_stays_connected() {
    let (host, _) = host().await;
    let blocks = file(12, 10_000);
    let root = blocks.last().unwrap().cid();
    let mut peer = RawPeer::connect(&host).await;
    let mut fetch = host.fetch(root.clone()).await.unwrap();
    let pause = Duration::from_millis(150);
    let (fetched, requests) = within(serve(&mut peer, &blocks, pause, &mut fetch)).await;
    assert_eq!(fetched.unwrap().progress.fetched_blocks, 13);
    assert!(requests.blocks.len() == 13 && requests.blocks.values().all(|times| *times == 1));
    let stats = host.stats().await.unwrap();
    assert_eq!((stats.duplicate_block_bytes, stats.dropped_peers, stats.peers), (0, 0, 1));
    host.stop().await;
}

#[tokio::test]
async fn one_block_is_fetched_without_its_links() {
    let (host, store) = host().await;
    let blocks = file(3, 10_000);
    let root = blocks.last().unwrap().cid();
    let mut peer = RawPeer::connect(&host).await;
    let mut fetch = host.fetch_block(root.clone()).await.unwrap();
    let (fetched, requests) = within(serve(&mut peer, &blocks, Duration::ZERO, &mut fetch)).await;
    assert_eq!(fetched.unwrap().progress.fetched_blocks, 1);
    assert_eq!(requests.blocks.keys().collect::<Vec<_>>(), [root]);
    assert!(store.has(root) && !store.has(blocks[0].cid()));
    host.stop().await;
}

#[tokio::test]
async fn a_peer_that_sends_unsolicited_blocks_is_dropped_and_another_is_used() {
    let (host, _) = host().await;
    let blocks = file(3, 10_000);
    let root = blocks.last().unwrap().cid();
    let mut malicious = RawPeer::connect(&host).await;
    let mut fetch = host.fetch(root.clone()).await.unwrap();
    let presences = vec![Presence { cid: root.clone(), has_block: true }];
    malicious.send(&Message { presences, ..Message::default() }).await;
    while !malicious.receive().await.wants.iter().any(|want| want.kind == WantKind::Block) {}
    let unsolicited = (900..910).map(|number| block(number, 1000)).collect();
    malicious.send(&Message { blocks: unsolicited, ..Message::default() }).await;
    assert!(malicious.disconnects().await);

    let mut honest = RawPeer::connect(&host).await;
    let (fetched, _) = within(serve(&mut honest, &blocks, Duration::ZERO, &mut fetch)).await;
    assert_eq!(fetched.unwrap().progress.fetched_blocks, 4);
    assert_eq!(host.stats().await.unwrap().dropped_peers, 1);
    host.stop().await;
}

#[tokio::test]
async fn a_peer_that_sends_many_malformed_messages_is_dropped() {
    let (host, _) = host().await;
    let mut peer = RawPeer::connect(&host).await;
    for _ in 0..17 {
        peer.send_bytes(&[3, 0xff, 0xff, 0xff]).await;
    }
    assert!(peer.disconnects().await);
    let stats = host.stats().await.unwrap();
    assert_eq!((stats.malformed_messages, stats.dropped_peers), (17, 1));
    host.stop().await;
}
