//! What a host answers to those who want something.

use futures::{AsyncReadExt, AsyncWriteExt};
use watchfire_bitswap::message::MESSAGE_BYTES_MAX;
use watchfire_bitswap::{Message, WantKind};
use watchfire_content::{Block, Cid, Codec, Multihash, varint};
use watchfire_store::WriteBlocks;

use crate::raw::{Raw, cancel, want, within};
use crate::{block, host, put};

/// Too long to be sent to who only asks whether it is there.
const LONG: usize = 5000;

#[tokio::test]
async fn a_question_is_answered_by_have_a_small_block_dont_have_or_silence() {
    let (host, kept) = host().await;
    let (long, short) = (put(&kept, 1, LONG), put(&kept, 2, 20));
    let (missing, silent) = (block(3, LONG).cid().clone(), block(4, LONG).cid().clone());
    let mut peer = Raw::connect(&host).await;
    for send_dont_have in [true, false] {
        peer.want(vec![want(&long, WantKind::Have, send_dont_have)]).await;
        let heard = peer.hear_of(&long).await;
        assert!(heard.haves.contains(&long) && heard.blocks.is_empty());
        peer.want(vec![want(&short, WantKind::Have, send_dont_have)]).await;
        assert!(peer.hear_of(&short).await.has_block(&short));
    }
    peer.want(vec![want(&silent, WantKind::Have, false), want(&missing, WantKind::Have, true)])
        .await;
    let mut heard = peer.hear_of(&missing).await;
    assert!(heard.dont_haves.contains(&missing));
    // What is said now comes behind an answer that should not have been.
    peer.want(vec![want(&long, WantKind::Block, true)]).await;
    let later = peer.hear_of(&long).await;
    assert!(later.has_block(&long));
    heard.dont_haves.extend(later.dont_haves);
    assert!(!heard.dont_haves.contains(&silent), "silence was asked for");
    host.stop().await;
}

#[tokio::test]
async fn what_comes_later_is_sent_to_who_waits_and_not_to_who_does_not_any_more() {
    let (host, kept) = host().await;
    let fence = put(&kept, 0, 20);
    let (waited, cancelled) = (block(1, LONG), block(2, LONG));
    let mut peer = Raw::connect(&host).await;
    let wants = [&waited, &cancelled].map(|block| want(block.cid(), WantKind::Block, true));
    peer.want(wants.to_vec()).await;
    peer.hear_of(cancelled.cid()).await;
    peer.want(vec![cancel(cancelled.cid()), want(&fence, WantKind::Block, false)]).await;
    peer.hear_of(&fence).await;
    for block in [&cancelled, &waited] {
        kept.put(block).unwrap();
        host.notify_block_stored(block.cid().clone(), LONG).await.unwrap();
    }
    let heard = peer.hear_of(waited.cid()).await;
    assert!(heard.has_block(waited.cid()) && !heard.has_block(cancelled.cid()));
    peer.want(vec![want(&fence, WantKind::Block, false)]).await;
    assert!(!peer.hear_of(&fence).await.has_block(cancelled.cid()));
    host.stop().await;
}

#[tokio::test]
async fn who_speaks_old_versions_gets_blocks_whatever_the_question() {
    for protocols in [&["/ipfs/bitswap/1.1.0"], &["/ipfs/bitswap/1.0.0"], &["/ipfs/bitswap"]] {
        let (host, kept) = host().await;
        let long = put(&kept, 1, LONG);
        let missing = block(2, LONG).cid().clone();
        let mut peer = Raw::speaking(&host, protocols).await;
        peer.want(vec![want(&missing, WantKind::Block, true), want(&long, WantKind::Block, true)])
            .await;
        let message = peer.hear().await;
        assert!(message.presences.is_empty(), "{protocols:?} has no presences");
        assert_eq!(message.blocks.len(), 1);
        assert_eq!(message.blocks[0].bytes(), block(1, LONG).bytes());
        host.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_its_stream_and_nothing_else() {
    let (host, kept) = host().await;
    let long = put(&kept, 1, LONG);
    let mut peer = Raw::connect(&host).await;
    peer.want(vec![want(&long, WantKind::Have, true)]).await;
    peer.hear_of(&long).await;

    let mut other = peer.stream().await;
    let mut length = Vec::new();
    varint::encode(MESSAGE_BYTES_MAX as u64 + 1, &mut length);
    other.write_all(&length).await.unwrap();
    other.flush().await.unwrap();
    let mut nothing = [0; 1];
    let end = within(other.read(&mut nothing)).await;
    assert!(!matches!(end, Ok(1..)), "it is reset or closed: {end:?}");

    peer.want(vec![want(&long, WantKind::Block, true)]).await;
    assert!(peer.hear_of(&long).await.has_block(&long));
    let stats = host.stats().await.unwrap();
    assert_eq!((stats.malformed_messages, stats.dropped_peers, stats.peers), (1, 0, 1));
    host.stop().await;
}

#[tokio::test]
async fn many_messages_come_on_one_stream_and_one_message_on_many() {
    let (host, kept) = host().await;
    let cids: Vec<Cid> = (0..200).map(|number| put(&kept, number, LONG)).collect();
    let mut peer = Raw::connect(&host).await;
    for cid in &cids[..100] {
        peer.want(vec![want(cid, WantKind::Block, true)]).await;
    }
    for cid in &cids[100..] {
        let mut out = peer.stream().await;
        let wants = vec![want(cid, WantKind::Block, true)];
        let message = Message { wants, ..Message::default() };
        let bytes =
            watchfire_bitswap::message::encode_framed(&message, watchfire_bitswap::Protocol::V1_2);
        out.write_all(&bytes).await.unwrap();
        out.close().await.unwrap();
    }
    let mut came = std::collections::BTreeSet::new();
    while came.len() < cids.len() {
        came.extend(peer.hear().await.blocks.iter().map(|block| block.cid().clone()));
    }
    assert_eq!(host.stats().await.unwrap().sent_blocks, 200, "each came once");
    host.stop().await;
}

#[tokio::test]
async fn of_more_wants_than_are_remembered_the_first_are() {
    let (host, kept) = host().await;
    let here = put(&kept, 0, LONG);
    let missing: Vec<Cid> = (1..1026).map(|n| block(n, LONG).cid().clone()).collect();
    let mut peer = Raw::connect(&host).await;
    peer.want(missing.iter().map(|cid| want(cid, WantKind::Have, true)).collect()).await;
    let refused = peer.hear_many(1024).await.dont_haves;
    assert_eq!(refused.len(), 1024);
    assert!(!refused.contains(&missing[1024]), "the last was not read");

    // The ledger is full now, so what is wanted next is refused though it is here; and no longer
    // when the others are taken back.
    peer.want(vec![want(&missing[1024], WantKind::Block, true)]).await;
    assert!(peer.hear_of(&missing[1024]).await.dont_haves.contains(&missing[1024]));
    peer.want(missing[..1024].iter().map(cancel).collect()).await;
    peer.want(vec![want(&here, WantKind::Block, true)]).await;
    assert!(peer.hear_of(&here).await.has_block(&here));
    assert_eq!(host.stats().await.unwrap().dropped_peers, 0);
    host.stop().await;
}

#[tokio::test]
async fn a_want_for_what_a_cid_says_by_itself_spoils_no_other() {
    let (host, kept) = host().await;
    let long = put(&kept, 1, LONG);
    let identity = Cid::v1(Codec::RAW, Multihash::identity(b"hello").unwrap());
    let empty = Block::raw(Vec::new().into()).unwrap();
    let mut peer = Raw::connect(&host).await;
    peer.want(vec![
        want(&identity, WantKind::Block, true),
        want(empty.cid(), WantKind::Block, true),
        want(&long, WantKind::Block, true),
    ])
    .await;
    let mut heard = peer.hear_of(&long).await;
    while !heard.has_block(empty.cid()) {
        heard.blocks.extend(peer.hear_of(empty.cid()).await.blocks);
    }
    let stats = host.stats().await.unwrap();
    assert_eq!((stats.malformed_messages, stats.dropped_peers), (0, 0));
    host.stop().await;
}
