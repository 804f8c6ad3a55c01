//! What a host asks of those who may have something, and what it makes of their answers.

use std::collections::BTreeMap;
use std::time::Duration;

use watchfire_bitswap::{Message, Presence, WantKind};
use watchfire_content::{Block, Cid};
use watchfire_p2p::{Fetch, FetchError, Fetched};
use watchfire_store::ReadBlocks;

use crate::raw::{Raw, within};
use crate::{block, file, host};

/// How often each block was asked for, and whether it was only asked whether there are any.
#[derive(Debug, Default)]
struct Asked {
    blocks: BTreeMap<Cid, usize>,
    questions: usize,
    dont_haves: usize,
}

/// Gives what is asked for, each block after a pause, until the fetch ends.
async fn give(
    peer: &mut Raw,
    blocks: &[Block],
    pause: Duration,
    fetch: &mut Fetch,
) -> (Result<Fetched, FetchError>, Asked) {
    let mut asked = Asked::default();
    loop {
        let message = tokio::select! {
            message = peer.hear() => message,
            end = fetch.finished() => return (end, asked),
        };
        for want in message.wants.into_iter().filter(|want| !want.cancel) {
            let found = blocks.iter().find(|block| block.cid().hash() == want.cid.hash());
            asked.dont_haves += usize::from(want.send_dont_have);
            match (want.kind, found) {
                (WantKind::Have, found) => {
                    asked.questions += 1;
                    let presence = Presence { cid: want.cid, is_here: found.is_some() };
                    let presences = vec![presence];
                    peer.say(&Message { presences, ..Message::default() }).await;
                }
                (WantKind::Block, Some(block)) => {
                    *asked.blocks.entry(want.cid).or_default() += 1;
                    tokio::time::sleep(pause).await;
                    let blocks = vec![block.clone()];
                    peer.say(&Message { blocks, ..Message::default() }).await;
                }
                (WantKind::Block, None) => {}
            }
        }
    }
}

#[tokio::test]
async fn who_speaks_old_versions_is_asked_for_blocks_alone() {
    for protocols in [&["/ipfs/bitswap/1.1.0"], &["/ipfs/bitswap/1.0.0"]] {
        let (host, kept) = host().await;
        let blocks = file(20, 10_000);
        let root = blocks.last().unwrap().cid();
        let mut peer = Raw::speaking(&host, protocols).await;
        let mut fetch = host.fetch(root.clone()).await.unwrap();
        let (fetched, asked) = within(give(&mut peer, &blocks, Duration::ZERO, &mut fetch)).await;
        assert_eq!(fetched.unwrap().progress.fetched_blocks, 21, "{protocols:?}");
        assert_eq!((asked.questions, asked.dont_haves), (0, 0), "{protocols:?}");
        assert!(asked.blocks.values().all(|times| *times == 1), "{asked:?}");
        for block in &blocks {
            assert_eq!(kept.get(block.cid()).unwrap().as_ref(), Some(block));
        }
        host.stop().await;
    }
}

#[tokio::test]
async fn who_answers_slowly_is_asked_once_for_each_block_and_kept() {
    let (host, _) = host().await;
    let blocks = file(12, 10_000);
    let root = blocks.last().unwrap().cid();
    let mut peer = Raw::connect(&host).await;
    let mut fetch = host.fetch(root.clone()).await.unwrap();
    let pause = Duration::from_millis(150);
    let (fetched, asked) = within(give(&mut peer, &blocks, pause, &mut fetch)).await;
    assert_eq!(fetched.unwrap().progress.fetched_blocks, 13);
    assert!(asked.blocks.len() == 13 && asked.blocks.values().all(|times| *times == 1));
    let stats = host.stats().await.unwrap();
    assert_eq!((stats.duplicate_block_bytes, stats.dropped_peers, stats.peers), (0, 0, 1));
    host.stop().await;
}

#[tokio::test]
async fn one_block_is_fetched_without_what_it_links_to() {
    let (host, kept) = host().await;
    let blocks = file(3, 10_000);
    let root = blocks.last().unwrap().cid();
    let mut peer = Raw::connect(&host).await;
    let mut fetch = host.fetch_block(root.clone()).await.unwrap();
    let (fetched, asked) = within(give(&mut peer, &blocks, Duration::ZERO, &mut fetch)).await;
    assert_eq!(fetched.unwrap().progress.fetched_blocks, 1);
    assert_eq!(asked.blocks.keys().collect::<Vec<_>>(), [root]);
    assert!(kept.has(root) && !kept.has(blocks[0].cid()));
    host.stop().await;
}

#[tokio::test]
async fn who_lies_is_cut_off_and_another_is_asked() {
    let (host, _) = host().await;
    let blocks = file(3, 10_000);
    let root = blocks.last().unwrap().cid();
    let mut liar = Raw::connect(&host).await;
    let mut fetch = host.fetch(root.clone()).await.unwrap();
    let presences = vec![Presence { cid: root.clone(), is_here: true }];
    liar.say(&Message { presences, ..Message::default() }).await;
    while !liar.hear().await.wants.iter().any(|want| want.kind == WantKind::Block) {}
    let lies = (900..910).map(|number| block(number, 1000)).collect();
    liar.say(&Message { blocks: lies, ..Message::default() }).await;
    assert!(liar.is_cut_off().await);

    let mut honest = Raw::connect(&host).await;
    let (fetched, _) = within(give(&mut honest, &blocks, Duration::ZERO, &mut fetch)).await;
    assert_eq!(fetched.unwrap().progress.fetched_blocks, 4);
    assert_eq!(host.stats().await.unwrap().dropped_peers, 1);
    host.stop().await;
}

#[tokio::test]
async fn who_keeps_sending_what_is_no_message_is_cut_off() {
    let (host, _) = host().await;
    let mut peer = Raw::connect(&host).await;
    for _ in 0..17 {
        peer.say_bytes(&[3, 0xff, 0xff, 0xff]).await;
    }
    assert!(peer.is_cut_off().await);
    let stats = host.stats().await.unwrap();
    assert_eq!((stats.malformed_messages, stats.dropped_peers), (17, 1));
    host.stop().await;
}
