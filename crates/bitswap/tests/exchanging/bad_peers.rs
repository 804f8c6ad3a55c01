//! Peers that lie, flood, or fall silent.

use watchfire_bitswap::{Message, Misbehaviour, Presence, Protocol};
use watchfire_types::Instant;

use crate::net::{FakeBlock, Links, Net, cid, toys};

fn trio() -> Net {
    let mut net = Net::new();
    for _ in 0..3 {
        net.add(Links::mib_a_second(50, 50));
    }
    net
}

fn haves(blocks: &[FakeBlock]) -> Message<FakeBlock> {
    let have = |block: &FakeBlock| Presence { cid: block.cid.clone(), is_here: true };
    Message { presences: blocks.iter().map(have).collect(), ..Message::default() }
}

#[test]
fn who_answers_with_other_blocks_is_dropped_and_others_are_asked() {
    let mut net = trio();
    let blocks = toys(20, 50_000);
    net.connect(1, 2, Protocol::V1_2);
    net.nodes[2].is_mute = true;
    net.want_all(1, &blocks);
    net.say(2, 1, haves(&blocks));
    net.run(1, |_| false);
    let lies = (1000..1003).map(|n| FakeBlock { cid: cid(n), len: 50_000 }).collect();
    net.say(2, 1, Message { blocks: lies, ..Message::default() });
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::ForgedBlocks)]);
    net.connect(0, 1, Protocol::V1_2);
    net.store(0, &blocks);
    assert!(net.run(10, Net::all_done));
}

#[test]
fn who_lies_once_is_dropped_though_it_was_asked_for_a_single_block() {
    let mut net = trio();
    let blocks = toys(1, 50_000);
    net.connect(0, 1, Protocol::V1_2);
    net.connect(1, 2, Protocol::V1_2);
    net.nodes[2].is_mute = true;
    net.want_all(1, &blocks);
    net.say(2, 1, haves(&blocks));
    net.run(1, |_| false);
    net.say(2, 1, Message { blocks: toys(1001, 50_000).split_off(1000), ..Message::default() });
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::ForgedBlocks)]);
    net.store(0, &blocks);
    assert!(net.run(1, Net::all_done), "the liar's share was asked of another at once");
}

#[test]
fn who_only_claims_to_have_blocks_is_asked_for_one_at_first() {
    let mut net = trio();
    let blocks = toys(20, 50_000);
    net.connect(1, 2, Protocol::V1_2);
    net.nodes[2].is_mute = true;
    net.want_all(1, &blocks);
    net.say(2, 1, haves(&blocks));
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].exchange.peer(2).unwrap().requested_blocks, 1);
    let first = blocks.iter().take(19).cloned().collect();
    net.say(2, 1, Message { blocks: first, ..Message::default() });
    net.run(1, |net| net.nodes[1].got == 19);
    assert_eq!(net.nodes[1].dropped, [], "what is wanted is welcome");
}

#[test]
fn short_blocks_that_several_peers_give_at_once_are_no_flood() {
    let mut net = Net::new();
    for _ in 0..9 {
        net.add(Links::mib_a_second(10, 10));
    }
    let blocks = toys(300, 900);
    for giver in 1..9 {
        net.store(giver, &blocks);
        net.connect(0, giver, Protocol::V1_2);
    }
    net.want_all(0, &blocks);
    assert!(net.run(60, Net::all_done));
    net.run(60, |_| false);
    assert_eq!(net.nodes[0].dropped, []);
}

#[test]
fn who_sends_what_nobody_asked_for_is_dropped() {
    let mut net = trio();
    net.connect(1, 2, Protocol::V1_2);
    for n in 0..20 {
        let block = FakeBlock { cid: cid(n), len: 1000 };
        net.say(2, 1, Message { blocks: vec![block], ..Message::default() });
    }
    net.run(10, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::Flooded)]);
    let totals = net.nodes[1].exchange.totals();
    assert_eq!((totals.unsolicited_blocks, totals.blocks_in, totals.dropped_peers), (17, 0, 1));
}

#[test]
fn what_a_silent_peer_has_is_taken_from_another() {
    let mut net = trio();
    let blocks = toys(20, 50_000);
    net.connect(0, 1, Protocol::V1_2);
    net.connect(1, 2, Protocol::V1_2);
    net.store(0, &blocks);
    net.nodes[2].is_mute = true;
    net.say(2, 1, haves(&blocks));
    net.run(1, |_| false);
    net.want_all(1, &blocks);
    net.say(2, 1, haves(&blocks));
    assert!(net.run(60, Net::all_done));
    assert!(net.nodes[1].done_at < Some(Instant::from_nanos(30_000_000_000)));
}

#[test]
fn who_claims_and_never_sends_is_dropped_in_the_end() {
    let mut net = trio();
    let blocks = toys(3, 50_000);
    net.connect(1, 2, Protocol::V1_2);
    net.nodes[2].is_mute = true;
    net.want_all(1, &blocks);
    net.say(2, 1, haves(&blocks));
    net.run(3600, |net| !net.nodes[1].dropped.is_empty());
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::Stalled)]);
    assert!(net.now.as_secs() >= 600);
}

#[test]
fn a_message_from_nobody_changes_nothing() {
    let mut net = trio();
    let now = net.now;
    net.nodes[0].exchange.handle_message(now, 9, haves(&toys(5, 1)));
    assert_eq!(net.nodes[0].exchange.poll_output(), None);
    assert_eq!(net.nodes[0].exchange.totals().messages_in, 0);
}
