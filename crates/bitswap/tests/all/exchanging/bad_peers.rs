//! Peers that forge blocks, flood, or fall silent.

use watchfire_bitswap::{Message, Misbehaviour, Presence, Protocol};
use watchfire_types::Instant;

use super::net::{FakeBlock, Links, Net, cid, fake_blocks};

fn trio() -> Net {
    let mut net = Net::new();
    for _ in 0..3 {
        net.add(Links::mib_per_second(50, 50));
    }
    net
}

fn haves(blocks: &[FakeBlock]) -> Message<FakeBlock> {
    let have = |block: &FakeBlock| Presence { cid: block.cid.clone(), has_block: true };
    Message { presences: blocks.iter().map(have).collect(), ..Message::default() }
}

/// Node 1 wants blocks that peer 2 claims to have. The test decides what peer 2 sends.
fn with_claims_of_peer_2(blocks: &[FakeBlock]) -> Net {
    let mut net = trio();
    net.connect(1, 2, Protocol::V1_2);
    net.nodes[2].is_mute = true;
    net.want_all(1, blocks);
    net.send(2, 1, haves(blocks));
    net
}

#[test]
fn a_peer_that_sends_other_blocks_is_dropped_and_its_requests_go_to_another() {
    let blocks = fake_blocks(20, 50_000);
    let mut net = with_claims_of_peer_2(&blocks);
    net.run(1, |_| false);
    let forged = (1000..1003).map(|n| FakeBlock { cid: cid(n), len: 50_000 }).collect();
    net.send(2, 1, Message { blocks: forged, ..Message::default() });
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::ForgedBlocks)]);
    net.connect(0, 1, Protocol::V1_2);
    net.store(0, &blocks);
    assert!(net.run(10, Net::all_done));
}

#[test]
fn a_peer_that_forges_its_only_requested_block_is_dropped() {
    let mut net = trio();
    let blocks = fake_blocks(1, 50_000);
    net.connect(0, 1, Protocol::V1_2);
    net.connect(1, 2, Protocol::V1_2);
    net.nodes[2].is_mute = true;
    net.want_all(1, &blocks);
    net.send(2, 1, haves(&blocks));
    net.run(1, |_| false);
    let forged = fake_blocks(1001, 50_000).split_off(1000);
    net.send(2, 1, Message { blocks: forged, ..Message::default() });
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::ForgedBlocks)]);
    net.store(0, &blocks);
    assert!(net.run(1, Net::all_done), "the forger's request goes to another peer at once");
}

#[test]
fn a_peer_that_only_claims_to_have_blocks_gets_one_request_at_first() {
    let blocks = fake_blocks(20, 50_000);
    let mut net = with_claims_of_peer_2(&blocks);
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].exchange.peer(2).unwrap().requested_blocks, 1);
    let first = blocks.iter().take(19).cloned().collect();
    net.send(2, 1, Message { blocks: first, ..Message::default() });
    net.run(1, |net| net.nodes[1].received == 19);
    assert_eq!(net.nodes[1].dropped, [], "wanted blocks need no request");
}

#[test]
fn short_blocks_from_several_peers_at_once_are_not_a_flood() {
    let mut net = Net::new();
    for _ in 0..9 {
        net.add(Links::mib_per_second(10, 10));
    }
    let blocks = fake_blocks(300, 900);
    for sender in 1..9 {
        net.store(sender, &blocks);
        net.connect(0, sender, Protocol::V1_2);
    }
    net.want_all(0, &blocks);
    assert!(net.run(60, Net::all_done));
    net.run(60, |_| false);
    assert_eq!(net.nodes[0].dropped, []);
}

#[test]
fn a_peer_that_keeps_sending_unsolicited_blocks_is_dropped() {
    let mut net = trio();
    net.connect(1, 2, Protocol::V1_2);
    for n in 0..20 {
        let block = FakeBlock { cid: cid(n), len: 1000 };
        net.send(2, 1, Message { blocks: vec![block], ..Message::default() });
    }
    net.run(10, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::Flooded)]);
    let totals = net.nodes[1].exchange.totals();
    assert_eq!((totals.unsolicited_blocks, totals.blocks_in, totals.dropped_peers), (17, 0, 1));
}

#[test]
fn requests_to_a_silent_peer_move_to_another() {
    let mut net = trio();
    let blocks = fake_blocks(20, 50_000);
    net.connect(0, 1, Protocol::V1_2);
    net.connect(1, 2, Protocol::V1_2);
    net.store(0, &blocks);
    net.nodes[2].is_mute = true;
    net.send(2, 1, haves(&blocks));
    net.run(1, |_| false);
    net.want_all(1, &blocks);
    net.send(2, 1, haves(&blocks));
    assert!(net.run(60, Net::all_done));
    assert!(net.nodes[1].done_at < Some(Instant::from_nanos(30_000_000_000)));
}

#[test]
fn a_peer_that_claims_blocks_and_never_sends_them_is_dropped() {
    let blocks = fake_blocks(3, 50_000);
    let mut net = with_claims_of_peer_2(&blocks);
    net.run(3600, |net| !net.nodes[1].dropped.is_empty());
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::Stalled)]);
    assert!(net.now.as_secs() >= 600);
}

#[test]
fn a_message_of_an_unconnected_peer_is_ignored() {
    let mut net = trio();
    let now = net.now;
    net.nodes[0].exchange.handle_message(now, 9, haves(&fake_blocks(5, 1)));
    assert_eq!(net.nodes[0].exchange.poll_output(), None);
    assert_eq!(net.nodes[0].exchange.totals().messages_in, 0);
}
