//! Stories of who wants blocks.

use std::collections::BTreeSet;

use serde_json::json;
use watchfire_bitswap::{Limits, Message, Misbehaviour, WantKind};

use super::check;
use super::fake_swarm::{FakeBehaviour, FakeSwarm, MILLI, SECOND, here};
use super::record::{FakeBlock, Input, number};

const KIB: usize = 1 << 10;

impl FakeSwarm {
    fn blocks_from(&self, peer: u64) -> usize {
        self.got.iter().filter(|(_, _, from)| *from == peer).count()
    }

    fn blocks_requested_from(&self, peer: u64) -> Vec<u8> {
        let to_it = self.sent.iter().filter(|(to, _)| *to == peer);
        let wants = to_it.flat_map(|(_, message)| &message.wants);
        let blocks = wants.filter(|want| !want.cancel && want.kind == WantKind::Block);
        blocks.map(|want| number(&want.cid)).collect()
    }
}

#[test]
fn one_peer_has_all() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, 0..24);
    swarm.want(0..24);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.blocks_from(1), 24);
    check(
        "single-seeder",
        "A peer that has everything is asked for one block, and then for more and more at a time.",
        &swarm.record,
    );
}

#[test]
fn three_peers_have_a_third_each() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    for peer in 0..3 {
        swarm.connect(
            peer + 1,
            FakeBehaviour::Honest,
            (0..30).filter(|block| u64::from(block % 3) == peer),
        );
    }
    swarm.want(0..30);
    swarm.run(20 * SECOND);
    assert_eq!([1, 2, 3].map(|peer| swarm.blocks_from(peer)), [10, 10, 10]);
    check(
        "three-partial-peers",
        "Each of three peers has a third, and is asked for that, and once for what it may have.",
        &swarm.record,
    );
}

#[test]
fn the_rarest_is_asked_for_first() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    // Everyone says what they have before anything is asked for; the first three have 20 to 23 alone.
    swarm.connect(1, FakeBehaviour::Honest, 0..24);
    swarm.connect(2, FakeBehaviour::Honest, 0..20);
    swarm.connect(3, FakeBehaviour::Honest, 0..20);
    swarm.want(0..24);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.got.len(), 24);
    let rare: Vec<usize> =
        (0..).zip(&swarm.got).filter(|(_, got)| got.1 >= 20).map(|(nth, _)| nth).collect();
    assert!(rare.iter().all(|nth| *nth < 18), "{rare:?}");
    check(
        "rarest-first",
        "Of one who has what nobody else has, that is asked for before all else.",
        &swarm.record,
    );
}

#[test]
fn who_lacks_a_block_is_not_asked_again() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, []);
    swarm.connect(2, FakeBehaviour::Honest, 0..6);
    swarm.want(0..6);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.blocks_from(2), 6);
    assert!(swarm.blocks_requested_from(1).len() <= 1);
    check("dont-have", "What a peer says it lacks is asked of another.", &swarm.record);
}

#[test]
fn what_a_leaver_owed_is_asked_of_others() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, 0..24);
    swarm.connect(2, FakeBehaviour::Honest, 0..24);
    swarm.want(0..24);
    swarm.run_until(20 * SECOND, |swarm| swarm.got.len() == 8);
    swarm.leave(1);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.got.len(), 24);
    check("peer-leaves", "What a peer owed when it left is asked of who is left.", &swarm.record);
}

#[test]
fn who_is_silent_is_asked_less_and_dropped_at_last() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Withholding, 0..6);
    swarm.want(0..6);
    swarm.run(30 * SECOND);
    swarm.connect(2, FakeBehaviour::Honest, 0..3);
    swarm.run(700 * SECOND);
    assert_eq!(
        (swarm.blocks_from(2), swarm.dropped.clone()),
        (3, vec![(1, Misbehaviour::Stalled)])
    );
    check(
        "stalled-peer",
        "A peer that claims to have blocks and never sends one is asked again, passed by, and dropped.",
        &swarm.record,
    );
}

#[test]
fn who_lies_is_dropped() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Forging, 0..6);
    swarm.want(0..6);
    swarm.run(5 * SECOND);
    swarm.connect(2, FakeBehaviour::Honest, 0..6);
    swarm.run(5 * SECOND);
    assert_eq!(
        (swarm.blocks_from(2), swarm.dropped.clone()),
        (6, vec![(1, Misbehaviour::ForgedBlocks)])
    );
    check(
        "forged-block",
        "Who was asked for a block and sends one of a name that nobody asked for is dropped.",
        &swarm.record,
    );
}

#[test]
fn who_floods_is_dropped() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Silent, []);
    for block in 100..120 {
        swarm.run(MILLI);
        if swarm.dropped.is_empty() {
            let blocks = vec![FakeBlock::new(block, 100)];
            swarm.send_from(1, Message { blocks, ..Message::default() });
        }
    }
    assert_eq!(swarm.dropped, [(1, Misbehaviour::Flooded)]);
    check(
        "flood-of-unsolicited-blocks",
        "Who was asked for nothing may send a few blocks, and no more.",
        &swarm.record,
    );
}

#[test]
fn who_was_asked_twice_may_answer_twice() {
    let mut swarm = FakeSwarm::new(KIB);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.want(0..30);
    // Providers are looked for, and who answered nothing is asked once more.
    swarm.run(1500 * MILLI);
    assert_eq!(swarm.searches, 1);
    swarm.connect(2, FakeBehaviour::Honest, 0..30);
    swarm.run(5 * SECOND);
    assert_eq!(swarm.blocks_from(2), 30);
    // What was slow on its way comes after all.
    for block in (0..30).chain(0..30) {
        let blocks = vec![FakeBlock::new(block, KIB)];
        swarm.send_from(1, Message { blocks, ..Message::default() });
    }
    assert_eq!(swarm.dropped, []);
    assert_eq!(swarm.record.exchange.totals().duplicate_blocks, 60);
    check(
        "repeated-want-haves",
        "Who was asked a second time what it has may answer with short blocks twice: that is no flood.",
        &swarm.record,
    );
}

#[test]
fn the_last_blocks_are_asked_for_twice_where_that_is_sooner() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect_at(1, FakeBehaviour::Honest, 0..16, 100, 10 * MILLI);
    swarm.connect_at(2, FakeBehaviour::Honest, 0..16, 8000, 10 * MILLI);
    swarm.want(0..16);
    swarm.run(60 * SECOND);
    assert_eq!(swarm.got.len(), 16);
    assert!(swarm.got.last().is_some_and(|(at, ..)| *at < 5 * SECOND), "{:?}", swarm.got.last());
    check(
        "endgame",
        "In the end, what a slow peer was asked for is asked of a fast one as well.",
        &swarm.record,
    );
}

#[test]
fn the_last_blocks_are_taken_from_whom_others_keep_busy() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect_at(1, FakeBehaviour::Honest, 0..18, 1000, 10 * MILLI);
    swarm.connect_at(2, FakeBehaviour::Honest, 0..18, 1000, 10 * MILLI);
    swarm.want(0..16);
    swarm.run(60 * SECOND);
    swarm.peers.get_mut(&1).expect("it is connected").behaviour = FakeBehaviour::Withholding;
    let from = swarm.now;
    swarm.want(16..18);
    swarm.run(120 * SECOND);
    let took = swarm.got.last().map_or(0, |(at, ..)| *at) - from;
    // One each. A silence would be held to be one after more than two seconds.
    assert_eq!(swarm.got.len(), 18);
    assert!(took < 2 * SECOND, "it took {} ms", took / MILLI);
    assert_eq!(swarm.record.exchange.totals().duplicate_blocks, 0);
    check(
        "endgame-unresponsive-peer",
        "In the end, what is asked of a peer that sends nothing is asked of one that has nothing to do.",
        &swarm.record,
    );
}

#[test]
fn who_has_everything_is_spared_unless_it_is_fast() {
    let from_the_source = |rate| {
        let mut swarm = FakeSwarm::new(64 * KIB);
        swarm.connect_at(1, FakeBehaviour::Honest, 0..96, rate, 10 * MILLI);
        for peer in 2..10 {
            let most = (0..96).filter(|block| (u64::from(*block) + peer) % 4 > 0);
            swarm.connect_at(peer, FakeBehaviour::Honest, most, 1000, 10 * MILLI);
        }
        swarm.want(0..96);
        swarm.run(60 * SECOND);
        assert_eq!(swarm.got.len(), 96);
        (swarm.got.iter().filter(|(.., from)| *from == 1).count(), swarm)
    };
    let (spared, _) = from_the_source(1000);
    let (used, swarm) = from_the_source(6000);
    assert!(spared <= 10 && used >= 30, "{spared} blocks, and {used} when it is fast");
    check(
        "fast-seeder",
        "Who has everything and is much faster than each of the others is asked for as much as it gives.",
        &swarm.record,
    );
}

#[test]
fn two_that_send_nothing_do_not_pass_the_last_block_to_and_fro() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect_at(1, FakeBehaviour::Honest, 0..25, 8000, 10 * MILLI);
    swarm.connect_at(2, FakeBehaviour::Honest, 0..25, 8000, 10 * MILLI);
    swarm.connect_at(3, FakeBehaviour::Honest, 0..25, 1000, 10 * MILLI);
    swarm.want(0..24);
    swarm.run(60 * SECOND);
    for quick in [1, 2] {
        swarm.peers.get_mut(&quick).expect("it is connected").behaviour =
            FakeBehaviour::Withholding;
    }
    let from = swarm.now;
    swarm.want(24..25);
    swarm.run(180 * SECOND);
    assert_eq!(swarm.got.len(), 25);
    let took = swarm.got.last().map_or(0, |(at, ..)| *at) - from;
    assert!(took < 3 * SECOND, "it took {} ms", took / MILLI);
    check(
        "endgame-no-ping-pong",
        "The last block is not asked again of whom it was taken back from in vain.",
        &swarm.record,
    );
}

#[test]
fn what_is_not_wanted_any_more_is_taken_back() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, 0..12);
    swarm.connect(2, FakeBehaviour::Silent, []);
    swarm.want(0..12);
    swarm.run_until(10 * SECOND, |swarm| swarm.got.len() == 2);
    swarm.handle_input(Input::Unwant((6..12).collect()));
    swarm.run(10 * SECOND);
    let got: BTreeSet<u8> = swarm.got.iter().map(|(_, block, _)| *block).collect();
    assert!((0..6).all(|block| got.contains(&block)));
    check(
        "cancel",
        "What is not wanted any more is taken back from all who were told of it.",
        &swarm.record,
    );
}

#[test]
fn what_is_urgent_is_asked_for_first() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, 0..40);
    swarm.connect(2, FakeBehaviour::Honest, 0..40);
    swarm.want(0..40);
    swarm.run_until(10 * SECOND, |swarm| swarm.got.len() == 4);
    swarm.handle_input(Input::Urgent(vec![30, 31, 32, 33]));
    swarm.run_until(10 * SECOND, |swarm| swarm.got.len() == 20);
    // Named before they are wanted, and not in the order of their numbers.
    swarm.handle_input(Input::Urgent(vec![45, 44]));
    swarm.peers.values_mut().for_each(|peer| peer.holds.extend(40..50));
    swarm.want(40..50);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.got.len(), 50);
    let at = |block: u8| swarm.got.iter().position(|got| got.1 == block);
    assert!([30, 31, 32, 33].iter().all(|block| at(*block) < Some(20)), "{:?}", swarm.got);
    check(
        "urgent",
        "What is named as urgent is asked for before all else, in that order, and with the highest priorities.",
        &swarm.record,
    );
}

#[test]
fn what_is_urgent_takes_the_place_of_what_waits() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    // Slow, so that much is asked for that has not come.
    swarm.connect_at(1, FakeBehaviour::Honest, 0..60, 1000, 10 * MILLI);
    swarm.connect_at(2, FakeBehaviour::Honest, 0..30, 1000, 10 * MILLI);
    swarm.want(0..60);
    swarm.run_until(20 * SECOND, |swarm| swarm.got.len() == 12);
    swarm.handle_input(Input::Urgent((40..60).rev().collect()));
    swarm.run_until(20 * SECOND, |swarm| swarm.got.len() == 20);
    swarm.handle_input(Input::Urgent((20..30).collect()));
    swarm.run(30 * SECOND);
    assert_eq!(swarm.got.len(), 60);
    check(
        "urgent-preempts",
        "Where no more is to be asked for, what waits for its turn gives way to what is urgent.",
        &swarm.record,
    );
}

#[test]
fn a_peer_that_came_to_have_something_tells_so() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, []);
    swarm.want(0..20);
    swarm.run(3 * SECOND);
    assert_eq!(swarm.searches, 2);
    for block in 0..20 {
        let Some(peer) = swarm.peers.get_mut(&1) else { break };
        peer.holds.insert(block);
        swarm.send_from(1, Message { presences: vec![here(block, true)], ..Message::default() });
        swarm.run(50 * MILLI);
    }
    swarm.run(20 * SECOND);
    assert_eq!(swarm.blocks_from(1), 20);
    check(
        "late-have",
        "While nobody has it providers are looked for, ever less often; a HAVE that comes late is acted upon.",
        &swarm.record,
    );
}

#[test]
fn a_provider_is_asked_before_it_says_anything() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.handle_input(Input::Providers(vec![2]));
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.connect(2, FakeBehaviour::Honest, 0..6);
    swarm.want(0..6);
    swarm.run(30 * SECOND);
    assert_eq!(swarm.blocks_from(2), 6);
    check(
        "provider-hint",
        "Who is said to have everything is asked for more than one block; who says nothing, for one.",
        &swarm.record,
    );
}

#[test]
fn wants_beyond_what_peers_remember_wait() {
    let limits = Limits { sent_wants_per_peer_max: 16, ..Limits::default() };
    let mut swarm = FakeSwarm::limited(16 * KIB, limits, json!({ "sent_wants_per_peer_max": 16 }));
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.connect(2, FakeBehaviour::Honest, 0..60);
    swarm.want(0..60);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.blocks_from(2), 60);
    check(
        "sent-wants-limit",
        "A peer is told of no more wants than it is sure to remember; the rest follow.",
        &swarm.record,
    );
}
