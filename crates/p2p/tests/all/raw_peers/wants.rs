//! The replies of a host to wants.

use futures::{AsyncReadExt, AsyncWriteExt};
use watchfire_bitswap::message::MESSAGE_BYTES_MAX;
use watchfire_bitswap::{Message, WantKind};
use watchfire_content::{Block, Cid, Codec, Multihash, varint};
use watchfire_store::WriteBlocks;

use super::raw::{RawPeer, cancel, want, within};
use super::{block, host, put};

/// Too long to be sent in reply to a want-have.
const LONG: usize = 5000;

#[tokio::test]
async fn the_reply_to_a_want_have_is_have_a_small_block_dont_have_or_nothing() {
    let (host, store) = host().await;
    let (long, short) = (put(&store, 1, LONG), put(&store, 2, 20));
    let (missing, silent) = (block(3, LONG).cid().clone(), block(4, LONG).cid().clone());
    let mut peer = RawPeer::connect(&host).await;
    for send_dont_have in [true, false] {
        peer.want(vec![want(&long, WantKind::Have, send_dont_have)]).await;
        let received = peer.receive_until(&long).await;
        assert!(received.haves.contains(&long) && received.blocks.is_empty());
        peer.want(vec![want(&short, WantKind::Have, send_dont_have)]).await;
        assert!(peer.receive_until(&short).await.has_block(&short));
    }
    peer.want(vec![want(&silent, WantKind::Have, false), want(&missing, WantKind::Have, true)])
        .await;
    let mut received = peer.receive_until(&missing).await;
    assert!(received.dont_haves.contains(&missing));
    // A wrong reply would arrive before the reply to this want.
    peer.want(vec![want(&long, WantKind::Block, true)]).await;
    let later = peer.receive_until(&long).await;
    assert!(later.has_block(&long));
    received.dont_haves.extend(later.dont_haves);
    assert!(!received.dont_haves.contains(&silent), "no DONT_HAVE was requested");
    host.stop().await;
}

#[tokio::test]
async fn a_block_that_is_stored_later_is_sent_unless_its_want_was_cancelled() {
    let (host, store) = host().await;
    let fence = put(&store, 0, 20);
    let (waited, cancelled) = (block(1, LONG), block(2, LONG));
    let mut peer = RawPeer::connect(&host).await;
    let wants = [&waited, &cancelled].map(|block| want(block.cid(), WantKind::Block, true));
    peer.want(wants.to_vec()).await;
    peer.receive_until(cancelled.cid()).await;
    peer.want(vec![cancel(cancelled.cid()), want(&fence, WantKind::Block, false)]).await;
    peer.receive_until(&fence).await;
    for block in [&cancelled, &waited] {
        store.put(block).unwrap();
        host.notify_block_stored(block.cid().clone(), LONG).await.unwrap();
    }
    let received = peer.receive_until(waited.cid()).await;
    assert!(received.has_block(waited.cid()) && !received.has_block(cancelled.cid()));
    peer.want(vec![want(&fence, WantKind::Block, false)]).await;
    assert!(!peer.receive_until(&fence).await.has_block(cancelled.cid()));
    host.stop().await;
}

#[tokio::test]
async fn peers_with_old_versions_receive_blocks_only() {
    for protocols in [&["/ipfs/bitswap/1.1.0"], &["/ipfs/bitswap/1.0.0"], &["/ipfs/bitswap"]] {
        let (host, store) = host().await;
        let long = put(&store, 1, LONG);
        let missing = block(2, LONG).cid().clone();
        let mut peer = RawPeer::connect_with(&host, protocols).await;
        peer.want(vec![want(&missing, WantKind::Block, true), want(&long, WantKind::Block, true)])
            .await;
        let message = peer.receive().await;
        assert!(message.presences.is_empty(), "{protocols:?} has no presences");
        assert_eq!(message.blocks.len(), 1);
        assert_eq!(message.blocks[0].bytes(), block(1, LONG).bytes());
        host.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_only_its_stream() {
    let (host, store) = host().await;
    let long = put(&store, 1, LONG);
    let mut peer = RawPeer::connect(&host).await;
    peer.want(vec![want(&long, WantKind::Have, true)]).await;
    peer.receive_until(&long).await;

    let mut other = peer.stream().await;
    let mut length = Vec::new();
    varint::encode(MESSAGE_BYTES_MAX as u64 + 1, &mut length);
    other.write_all(&length).await.unwrap();
    other.flush().await.unwrap();
    let mut byte = [0; 1];
    let end = within(other.read(&mut byte)).await;
    assert!(!matches!(end, Ok(1..)), "the stream is not reset or closed: {end:?}");

    peer.want(vec![want(&long, WantKind::Block, true)]).await;
    assert!(peer.receive_until(&long).await.has_block(&long));
    let stats = host.stats().await.unwrap();
    assert_eq!((stats.malformed_messages, stats.dropped_peers, stats.peers), (1, 0, 1));
    host.stop().await;
}

#[tokio::test]
async fn a_host_receives_many_messages_on_one_stream_and_on_many_streams() {
    let (host, store) = host().await;
    let cids: Vec<Cid> = (0..200).map(|number| put(&store, number, LONG)).collect();
    let mut peer = RawPeer::connect(&host).await;
    for cid in &cids[..100] {
        peer.want(vec![want(cid, WantKind::Block, true)]).await;
    }
    for cid in &cids[100..] {
        let mut stream = peer.stream().await;
        let wants = vec![want(cid, WantKind::Block, true)];
        let message = Message { wants, ..Message::default() };
        let bytes =
            watchfire_bitswap::message::encode_framed(&message, watchfire_bitswap::Protocol::V1_2);
        stream.write_all(&bytes).await.unwrap();
        stream.close().await.unwrap();
    }
    let mut received = std::collections::BTreeSet::new();
    while received.len() < cids.len() {
        received.extend(peer.receive().await.blocks.iter().map(|block| block.cid().clone()));
    }
    assert_eq!(host.stats().await.unwrap().sent_blocks, 200, "each block was sent once");
    host.stop().await;
}

#[tokio::test]
async fn the_first_wants_are_stored_up_to_the_limit() {
    let (host, store) = host().await;
    let here = put(&store, 0, LONG);
    let missing: Vec<Cid> = (1..1026).map(|n| block(n, LONG).cid().clone()).collect();
    let mut peer = RawPeer::connect(&host).await;
    peer.want(missing.iter().map(|cid| want(cid, WantKind::Have, true)).collect()).await;
    let dont_haves = peer.receive_count(1024).await.dont_haves;
    assert_eq!(dont_haves.len(), 1024);
    assert!(!dont_haves.contains(&missing[1024]), "the last want was ignored");

    // The ledger is full, so the host sends DONT_HAVE for the next want. After cancels, it has
    // room.
    peer.want(vec![want(&missing[1024], WantKind::Block, true)]).await;
    assert!(peer.receive_until(&missing[1024]).await.dont_haves.contains(&missing[1024]));
    peer.want(missing[..1024].iter().map(cancel).collect()).await;
    peer.want(vec![want(&here, WantKind::Block, true)]).await;
    assert!(peer.receive_until(&here).await.has_block(&here));
    assert_eq!(host.stats().await.unwrap().dropped_peers, 0);
    host.stop().await;
}

#[tokio::test]
async fn wants_for_identity_cids_and_empty_blocks_do_not_affect_other_wants() {
    let (host, store) = host().await;
    let long = put(&store, 1, LONG);
    let identity = Cid::v1(Codec::RAW, Multihash::identity(b"hello").unwrap());
    let empty = Block::raw(Vec::new().into()).unwrap();
    let mut peer = RawPeer::connect(&host).await;
    peer.want(vec![
        want(&identity, WantKind::Block, true),
        want(empty.cid(), WantKind::Block, true),
        want(&long, WantKind::Block, true),
    ])
    .await;
    let mut received = peer.receive_until(&long).await;
    while !received.has_block(empty.cid()) {
        received.blocks.extend(peer.receive_until(empty.cid()).await.blocks);
    }
    let stats = host.stats().await.unwrap();
    assert_eq!((stats.malformed_messages, stats.dropped_peers), (0, 0));
    host.stop().await;
}
