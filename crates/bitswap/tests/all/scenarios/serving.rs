//! Stories of a node that serves blocks.

use serde_json::json;
use watchfire_bitswap::{Limits, Message, WantKind};

use super::check;
use super::fake_swarm::{FakeBehaviour, FakeSwarm, MILLI, SECOND, cancel, presence, want};
use super::record::{Input, number};

const KIB: usize = 1 << 10;

impl FakeSwarm {
    fn blocks_to(&self, peer: u64) -> Vec<u8> {
        let to_it = self.sent.iter().filter(|(to, _)| *to == peer);
        to_it.flat_map(|(_, message)| message.blocks.iter().map(|block| block.number)).collect()
    }

    fn presences_to(&self, peer: u64) -> Vec<(u8, bool)> {
        let to_it = self.sent.iter().filter(|(to, _)| *to == peer);
        let presences = to_it.flat_map(|(_, message)| &message.presences);
        presences.map(|presence| (number(&presence.cid), presence.has_block)).collect()
    }
}

/// A node with blocks from 0 on, and peers from 1 on that receive 1 MB a second and send nothing.
fn seeder(blocks: u8, peers: u64) -> FakeSwarm {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.store_blocks(0..blocks);
    for peer in 1..=peers {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    }
    swarm
}

#[test]
fn peers_take_turns() {
    let mut swarm = seeder(36, 3);
    // Peer 1 wants many blocks before the others connect. Each peer wants other blocks.
    swarm.peer_wants(1, WantKind::Block, 0..24);
    swarm.peer_wants(2, WantKind::Block, 24..30);
    swarm.peer_wants(3, WantKind::Block, 30..36);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(3).len() == 6);
    assert!(swarm.blocks_to(1).len() <= 10 && swarm.blocks_to(2).len() >= 4);
    swarm.run(60 * SECOND);
    assert_eq!(swarm.blocks_to(1).len(), 24);
    check(
        "round-robin",
        "A peer that wants many blocks and came first takes turns with the others.",
        &swarm.record,
    );
}

#[test]
fn blocks_that_no_peer_was_sent_go_first() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.store_blocks(0..12);
    for peer in 1..4 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
        swarm.peer_wants(peer, WantKind::Block, 0..12);
    }
    swarm.run_until(60 * SECOND, |swarm| {
        swarm.sent.iter().map(|sent| sent.1.blocks.len()).sum::<usize>() >= 12
    });
    let mut first: Vec<u8> = (1..4).flat_map(|peer| swarm.blocks_to(peer)).collect();
    first.sort_unstable();
    first.dedup();
    assert!(first.len() >= 11, "{first:?}");
    swarm.run(60 * SECOND);
    check(
        "unsent-blocks-first",
        "Of peers that want the same blocks, each gets blocks first that the others were not sent.",
        &swarm.record,
    );
}

#[test]
fn a_peer_that_lacks_more_is_served_early_once_a_round() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.store_blocks(0..30);
    for peer in 1..5 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 20_000, 10 * MILLI);
    }
    // Now none of the blocks is new.
    swarm.peer_wants(4, WantKind::Block, 0..30);
    swarm.run(60 * SECOND);
    assert_eq!(swarm.blocks_to(4).len(), 30);
    for (peer, lacked) in [(1, 12), (2, 12), (3, 30)] {
        swarm.peer_wants(peer, WantKind::Block, 0..lacked);
    }
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(3).len() == 12);
    // A turn has several blocks, so one of these peers may be a turn ahead of the other.
    let others = [1, 2].map(|peer| swarm.blocks_to(peer).len());
    assert!((8..=14).contains(&(others[0] + others[1])), "{others:?}");
    assert!(others.iter().all(|sent| *sent > 2), "{others:?}");
    swarm.run(60 * SECOND);
    check(
        "furthest-behind-first",
        "A peer that lacks many more blocks than the others has two turns for one of theirs.",
        &swarm.record,
    );
}

#[test]
fn blocks_that_were_just_sent_are_left_to_other_peers() {
    let mut swarm = seeder(12, 6);
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 12);
    let new = *swarm.blocks_to(1).last().unwrap();
    for peer in 2..6 {
        swarm.peer_wants(peer, WantKind::Block, new..new + 1);
    }
    let urgent = want(new, i32::MAX, WantKind::Block);
    swarm.send_from(6, Message { wants: vec![urgent], ..Message::default() });
    swarm.run(400 * MILLI);
    let came: Vec<usize> = (2..7).map(|peer| swarm.blocks_to(peer).len()).collect();
    assert_eq!(came, [0, 0, 0, 0, 1], "only the urgent block");
    // The peers did not get it from each other.
    swarm.run(2 * SECOND);
    assert!((2..6).all(|peer| swarm.blocks_to(peer) == [new]));
    swarm.run(60 * SECOND);
    check(
        "hold-back",
        "While a seeder sends new blocks, and a moment longer, it leaves blocks to the peers that were just sent them.",
        &swarm.record,
    );
}

#[test]
fn the_block_of_one_waiting_peer_is_left_to_a_swarm() {
    let mut swarm = seeder(12, 6);
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 12);
    let new = *swarm.blocks_to(1).last().unwrap();
    // The others want a block that is not here.
    for peer in 2..6 {
        swarm.peer_wants(peer, WantKind::Block, 20..21);
    }
    swarm.peer_wants(6, WantKind::Block, new..new + 1);
    swarm.run(400 * MILLI);
    assert!(swarm.blocks_to(6).is_empty());
    swarm.run(2 * SECOND);
    assert_eq!(swarm.blocks_to(6), [new]);
    check(
        "hold-back-few-waiting",
        "Blocks that were just sent are left to other peers even if few of them wait, as long as many want a block.",
        &swarm.record,
    );
}

#[test]
fn a_peer_that_is_passed_over_does_not_get_blocks_left_to_others() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.store_blocks(0..240);
    for peer in 1..5 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
        swarm.peer_wants(peer, WantKind::Block, 60 * (peer as u8 - 1)..60 * peer as u8);
    }
    swarm.connect_at(5, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 45);
    let early = *swarm.blocks_to(1).last().unwrap();
    swarm.peer_wants(5, WantKind::Block, early..early + 1);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 52);
    assert!(swarm.blocks_to(5).is_empty());
    swarm.run(3 * SECOND);
    assert_eq!(swarm.blocks_to(5), [early]);
    check(
        "hold-back-skipped-peer",
        "A peer that is passed over again and again does not get a block that is left to other peers.",
        &swarm.record,
    );
}

#[test]
fn blocks_that_others_serve_are_left_to_them_for_longer() {
    let mut swarm = seeder(12, 6);
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 2);
    let early = swarm.blocks_to(1)[0];
    for peer in 2..7 {
        swarm.peer_wants(peer, WantKind::Block, early..early + 1);
    }
    swarm.run(100 * MILLI);
    // It got the block from peer 1.
    swarm.send_from(2, Message { wants: vec![cancel(early)], ..Message::default() });
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 12);
    assert!((2..7).all(|peer| swarm.blocks_to(peer).is_empty()));
    swarm.run(2 * SECOND);
    assert!((3..7).all(|peer| swarm.blocks_to(peer) == [early]));
    swarm.run(60 * SECOND);
    check(
        "hold-back-longer",
        "If wants for blocks that others were sent are cancelled, blocks are left to others for longer.",
        &swarm.record,
    );
}

#[test]
fn no_blocks_are_left_to_peers_that_do_not_serve() {
    let mut swarm = seeder(12, 6);
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run(60 * SECOND);
    for peer in 2..5 {
        swarm.peer_wants(peer, WantKind::Block, 0..12);
    }
    swarm.run(60 * SECOND);
    swarm.store_blocks(12..24);
    swarm.peer_wants(1, WantKind::Block, 12..24);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 24);
    let new = *swarm.blocks_to(1).last().unwrap();
    for peer in 2..7 {
        swarm.peer_wants(peer, WantKind::Block, new..new + 1);
    }
    swarm.run(SECOND);
    assert!((2..7).all(|peer| swarm.blocks_to(peer).contains(&new)));
    check(
        "hold-back-disabled",
        "If blocks that were left to others had to be sent again, no more blocks are left to them.",
        &swarm.record,
    );
}

#[test]
fn too_many_wants_are_answered_with_dont_have() {
    let limits = Limits { wants_per_peer_max: 8, ..Limits::default() };
    let mut swarm = FakeSwarm::with_limits(256 * KIB, limits, json!({ "wants_per_peer_max": 8 }));
    swarm.store_blocks(0..40);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.peer_wants(1, WantKind::Block, 0..40);
    swarm.run(60 * SECOND);
    assert_eq!(swarm.blocks_to(1).len(), 8);
    // The queue of answers holds twice the number of the wantlist.
    assert_eq!(swarm.presences_to(1), (8..24).map(|block| (block, false)).collect::<Vec<_>>());
    check(
        "wantlist-limit",
        "Wants beyond the limit of a peer are answered with DONT_HAVE, or not at all.",
        &swarm.record,
    );
}

#[test]
fn wants_can_be_cancelled_and_changed_and_replaced() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.store_blocks(0..12);
    swarm.connect_at(1, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run(100 * MILLI);
    // Two are cancelled, the last becomes the most urgent, and a want-have keeps a want-block.
    let wants =
        vec![cancel(6), cancel(7), want(11, i32::MAX, WantKind::Block), want(5, 3, WantKind::Have)];
    swarm.send_from(1, Message { wants, ..Message::default() });
    swarm.run(600 * MILLI);
    // A full wantlist replaces all earlier wants.
    swarm.send_from(
        1,
        Message { full: true, wants: vec![want(9, 1, WantKind::Block)], ..Message::default() },
    );
    swarm.run(60 * SECOND);
    let blocks = swarm.blocks_to(1);
    assert!(
        !blocks.contains(&6) && !blocks.contains(&7) && blocks.contains(&9) && blocks.contains(&11)
    );
    assert!(blocks.len() < 10, "{blocks:?}");
    check(
        "wantlist-changes",
        "Wants are cancelled, become more urgent, and are replaced by a full wantlist.",
        &swarm.record,
    );
}

#[test]
fn a_block_is_not_sent_again_before_the_peer_has_read_it() {
    let mut swarm = FakeSwarm::new(1024 * KIB);
    swarm.store_blocks(0..2);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.handle_input(Input::Acknowledged(1, 0));
    swarm.peer_wants(1, WantKind::Block, 0..2);
    swarm.run(SECOND);
    let first = swarm.blocks_to(1);
    assert_eq!(first.len(), 2, "both have left the send buffer");
    // These requests cross the blocks.
    swarm.send_from(1, Message { wants: vec![cancel(0)], ..Message::default() });
    swarm.peer_wants(1, WantKind::Block, 0..2);
    swarm.run(SECOND);
    assert_eq!(swarm.blocks_to(1), first);
    // The peer has read the first block, and has lost it since.
    swarm.handle_input(Input::Acknowledged(1, 1));
    swarm.peer_wants(1, WantKind::Block, 0..2);
    swarm.run(SECOND);
    assert_eq!(swarm.blocks_to(1), [&first[..], &first[..1]].concat());
    // The peer reads nothing for long, so the second one may be lost.
    swarm.run(10 * SECOND);
    swarm.peer_wants(1, WantKind::Block, first[1]..first[1] + 1);
    swarm.run(SECOND);
    assert_eq!(swarm.blocks_to(1), [&first[..], &first[..]].concat());
    check(
        "repeated-want-on-its-way",
        "A repeated request for a block is ignored until the peer has read the block, or nothing moves for ten seconds.",
        &swarm.record,
    );
}

#[test]
fn want_haves_are_answered() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.store_blocks(0..2);
    swarm.store.insert(2, 200);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.peer_wants(1, WantKind::Have, 0..6);
    swarm.peer_wants(1, WantKind::Block, 6..8);
    swarm.run(SECOND);
    assert_eq!(swarm.presences_to(1).len(), 7);
    // It receives HAVE for one block that is stored later, and another block itself.
    for block in [3, 6] {
        swarm.store.insert(block, swarm.block_bytes);
        swarm.handle_input(Input::Stored(block, swarm.block_bytes));
        swarm.run(SECOND);
    }
    assert_eq!(swarm.blocks_to(1), [2, 6]);
    assert_eq!(swarm.presences_to(1).last(), Some(&(3, true)));
    check(
        "want-have-answers",
        "HAVE, DONT_HAVE, a short block at once, and answers for blocks that are stored later.",
        &swarm.record,
    );
}

#[test]
fn an_unreadable_block_is_answered_with_dont_have() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.store_blocks(0..4);
    swarm.unreadable.extend([1, 2]);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.peer_wants(1, WantKind::Block, 0..4);
    swarm.run(SECOND);
    assert_eq!(swarm.blocks_to(1), [0, 3]);
    assert_eq!(swarm.presences_to(1), [(1, false), (2, false)]);
    check(
        "unreadable-block",
        "A block that is in the store and cannot be read is answered with DONT_HAVE.",
        &swarm.record,
    );
}

#[test]
fn a_peer_that_reconnects_has_no_more_reads_than_one_that_stays() {
    let limits = Limits { reading_bytes_max: 600 * KIB, ..Limits::default() };
    let mut swarm =
        FakeSwarm::with_limits(256 * KIB, limits, json!({ "reading_bytes_max": 600 * KIB }));
    swarm.store_blocks(0..4);
    // It leaves before the store has answered, again and again.
    for _ in 0..5 {
        swarm.connect(1, FakeBehaviour::Silent, []);
        swarm.peer_wants(1, WantKind::Block, 0..4);
        swarm.run(0);
        swarm.leave(1);
    }
    assert_eq!(swarm.reads, 2);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.peer_wants(1, WantKind::Block, 0..4);
    swarm.run(SECOND);
    let mut blocks = swarm.blocks_to(1);
    blocks.sort_unstable();
    assert_eq!((blocks, swarm.reads_max), (vec![0, 1, 2, 3], 2));
    check(
        "reads-after-disconnect",
        "Reads for a peer that left count until the store answers.",
        &swarm.record,
    );
}

#[test]
fn a_full_send_buffer_gets_no_more_blocks() {
    let mut swarm = FakeSwarm::new(1024 * KIB);
    swarm.store_blocks(0..12);
    // A slow peer and a fast one.
    swarm.connect_at(1, FakeBehaviour::Silent, [], 50, 10 * MILLI);
    swarm.connect_at(2, FakeBehaviour::Silent, [], 4000, 10 * MILLI);
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.peer_wants(2, WantKind::Block, 0..12);
    swarm.run_until(30 * SECOND, |swarm| swarm.blocks_to(2).len() == 12);
    assert!(swarm.blocks_to(1).len() < 4, "{:?}", swarm.blocks_to(1));
    swarm.run(400 * SECOND);
    assert_eq!(swarm.blocks_to(1).len(), 12);
    check(
        "full-send-buffer",
        "A peer whose send buffer is full gets nothing until it has room; the others have their turns.",
        &swarm.record,
    );
}

#[test]
fn peers_that_read_nothing_do_not_delay_others_for_long() {
    let mut swarm = FakeSwarm::new(1024 * KIB);
    swarm.store_blocks(0..32);
    for peer in 1..4 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1, 10 * MILLI);
        swarm.peer_wants(peer, WantKind::Block, 0..4);
    }
    swarm.connect_at(4, FakeBehaviour::Silent, [], 4000, 10 * MILLI);
    swarm.peer_wants(4, WantKind::Block, 8..32);
    // Blocks without room are not sent, and bytes that stand still stop counting.
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(4).len() == 24);
    assert!(swarm.now < 20 * SECOND, "{} s", swarm.now / SECOND);
    check(
        "stuck-receivers",
        "Bytes that stand still on their way to slow peers stop counting, and other peers get their blocks.",
        &swarm.record,
    );
}

#[test]
fn two_leechers_with_half_of_the_blocks_each_exchange_them() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.store_blocks(0..8);
    swarm.connect(1, FakeBehaviour::Honest, 8..16);
    swarm.want(8..16);
    swarm.peer_wants(1, WantKind::Block, 0..8);
    swarm.run(20 * SECOND);
    assert_eq!((swarm.received.len(), swarm.blocks_to(1).len()), (8, 8));
    // It announces a block that it has received.
    swarm.send_from(1, Message { presences: vec![presence(3, true)], ..Message::default() });
    swarm.run(SECOND);
    check("two-leechers", "Two peers with a half each send and receive at once.", &swarm.record);
}
