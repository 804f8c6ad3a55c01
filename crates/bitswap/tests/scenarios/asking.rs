//! Stories of who wants blocks.

use std::collections::BTreeSet;

use bitswap::{Limits, Message, Misbehaviour, WantKind};
use serde_json::json;

use super::check;
use super::record::{Input, Toy, number};
use super::world::{MILLI, Manner, SECOND, World, here};

const KIB: usize = 1 << 10;

impl World {
    fn from(&self, peer: u64) -> usize {
        self.got.iter().filter(|(_, _, from)| *from == peer).count()
    }

    fn asked_of(&self, peer: u64) -> Vec<u8> {
        let to_it = self.sent.iter().filter(|(to, _)| *to == peer);
        let wants = to_it.flat_map(|(_, message)| &message.wants);
        let blocks = wants.filter(|want| !want.cancel && want.kind == WantKind::Block);
        blocks.map(|want| number(&want.cid)).collect()
    }
}

#[test]
fn one_peer_has_all() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Honest, 0..24);
    world.want(0..24);
    world.run(20 * SECOND);
    assert_eq!(world.from(1), 24);
    check(
        "one-peer-has-all",
        "A peer that has everything is asked for one block, and then for more and more at a time.",
        &world.record,
    );
}

#[test]
fn three_peers_have_a_third_each() {
    let mut world = World::new(256 * KIB);
    for peer in 0..3 {
        world.connect(
            peer + 1,
            Manner::Honest,
            (0..30).filter(|block| u64::from(block % 3) == peer),
        );
    }
    world.want(0..30);
    world.run(20 * SECOND);
    assert_eq!([1, 2, 3].map(|peer| world.from(peer)), [10, 10, 10]);
    check(
        "three-thirds",
        "Each of three peers has a third, and is asked for that, and once for what it may have.",
        &world.record,
    );
}

#[test]
fn the_rarest_is_asked_for_first() {
    let mut world = World::new(256 * KIB);
    // Everyone says what they have before anything is asked for; the first three have 20 to 23 alone.
    world.connect(1, Manner::Honest, 0..24);
    world.connect(2, Manner::Honest, 0..20);
    world.connect(3, Manner::Honest, 0..20);
    world.want(0..24);
    world.run(20 * SECOND);
    assert_eq!(world.got.len(), 24);
    let rare: Vec<usize> =
        (0..).zip(&world.got).filter(|(_, got)| got.1 >= 20).map(|(nth, _)| nth).collect();
    assert!(rare.iter().all(|nth| *nth < 18), "{rare:?}");
    check(
        "rarest-first",
        "Of one who has what nobody else has, that is asked for before all else.",
        &world.record,
    );
}

#[test]
fn who_lacks_a_block_is_not_asked_again() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Honest, []);
    world.connect(2, Manner::Honest, 0..6);
    world.want(0..6);
    world.run(20 * SECOND);
    assert_eq!(world.from(2), 6);
    assert!(world.asked_of(1).len() <= 1);
    check("dont-have", "What a peer says it lacks is asked of another.", &world.record);
}

#[test]
fn what_a_leaver_owed_is_asked_of_others() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Honest, 0..24);
    world.connect(2, Manner::Honest, 0..24);
    world.want(0..24);
    world.run_until(20 * SECOND, |world| world.got.len() == 8);
    world.leave(1);
    world.run(20 * SECOND);
    assert_eq!(world.got.len(), 24);
    check("a-peer-leaves", "What a peer owed when it left is asked of who is left.", &world.record);
}

#[test]
fn who_is_silent_is_asked_less_and_dropped_at_last() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Stingy, 0..6);
    world.want(0..6);
    world.run(30 * SECOND);
    world.connect(2, Manner::Honest, 0..3);
    world.run(700 * SECOND);
    assert_eq!((world.from(2), world.dropped.clone()), (3, vec![(1, Misbehaviour::Stalled)]));
    check(
        "stalled",
        "A peer that claims to have blocks and never sends one is asked again, passed by, and dropped.",
        &world.record,
    );
}

#[test]
fn who_lies_is_dropped() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Liar, 0..6);
    world.want(0..6);
    world.run(5 * SECOND);
    world.connect(2, Manner::Honest, 0..6);
    world.run(5 * SECOND);
    assert_eq!((world.from(2), world.dropped.clone()), (6, vec![(1, Misbehaviour::Lied)]));
    check(
        "a-liar",
        "Who was asked for a block and sends one of a name that nobody asked for is dropped.",
        &world.record,
    );
}

#[test]
fn who_floods_is_dropped() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Mute, []);
    for block in 100..120 {
        world.run(MILLI);
        if world.dropped.is_empty() {
            let blocks = vec![Toy::new(block, 100)];
            world.says(1, Message { blocks, ..Message::default() });
        }
    }
    assert_eq!(world.dropped, [(1, Misbehaviour::Flooded)]);
    check(
        "a-flood",
        "Who was asked for nothing may send a few blocks, and no more.",
        &world.record,
    );
}

#[test]
fn who_was_asked_twice_may_answer_twice() {
    let mut world = World::new(KIB);
    world.connect(1, Manner::Mute, []);
    world.want(0..30);
    // Providers are looked for, and who answered nothing is asked once more.
    world.run(1500 * MILLI);
    assert_eq!(world.searches, 1);
    world.connect(2, Manner::Honest, 0..30);
    world.run(5 * SECOND);
    assert_eq!(world.from(2), 30);
    // What was slow on its way comes after all.
    for block in (0..30).chain(0..30) {
        let blocks = vec![Toy::new(block, KIB)];
        world.says(1, Message { blocks, ..Message::default() });
    }
    assert_eq!(world.dropped, []);
    assert_eq!(world.record.exchange.totals().duplicate_blocks, 60);
    check(
        "asked-twice",
        "Who was asked a second time what it has may answer with short blocks twice: that is no flood.",
        &world.record,
    );
}

#[test]
fn the_last_blocks_are_asked_for_twice_where_that_is_sooner() {
    let mut world = World::new(256 * KIB);
    world.connect_at(1, Manner::Honest, 0..16, 100, 10 * MILLI);
    world.connect_at(2, Manner::Honest, 0..16, 8000, 10 * MILLI);
    world.want(0..16);
    world.run(60 * SECOND);
    assert_eq!(world.got.len(), 16);
    assert!(world.got.last().is_some_and(|(at, ..)| *at < 5 * SECOND), "{:?}", world.got.last());
    check(
        "the-tail",
        "In the end, what a slow peer was asked for is asked of a fast one as well.",
        &world.record,
    );
}

#[test]
fn the_last_blocks_are_taken_from_whom_others_keep_busy() {
    let mut world = World::new(256 * KIB);
    world.connect_at(1, Manner::Honest, 0..18, 1000, 10 * MILLI);
    world.connect_at(2, Manner::Honest, 0..18, 1000, 10 * MILLI);
    world.want(0..16);
    world.run(60 * SECOND);
    world.peers.get_mut(&1).expect("it is connected").manner = Manner::Stingy;
    let from = world.now;
    world.want(16..18);
    world.run(120 * SECOND);
    let took = world.got.last().map_or(0, |(at, ..)| *at) - from;
    // One each. A silence would be held to be one after more than two seconds.
    assert_eq!(world.got.len(), 18);
    assert!(took < 2 * SECOND, "it took {} ms", took / MILLI);
    assert_eq!(world.record.exchange.totals().duplicate_blocks, 0);
    check(
        "kept-busy",
        "In the end, what is asked of a peer that sends nothing is asked of one that has nothing to do.",
        &world.record,
    );
}

#[test]
fn who_has_everything_is_spared_unless_it_is_fast() {
    let from_the_source = |rate| {
        let mut world = World::new(64 * KIB);
        world.connect_at(1, Manner::Honest, 0..96, rate, 10 * MILLI);
        for peer in 2..10 {
            let most = (0..96).filter(|block| (u64::from(*block) + peer) % 4 > 0);
            world.connect_at(peer, Manner::Honest, most, 1000, 10 * MILLI);
        }
        world.want(0..96);
        world.run(60 * SECOND);
        assert_eq!(world.got.len(), 96);
        (world.got.iter().filter(|(.., from)| *from == 1).count(), world)
    };
    let (spared, _) = from_the_source(1000);
    let (used, world) = from_the_source(6000);
    assert!(spared <= 10 && used >= 30, "{spared} blocks, and {used} when it is fast");
    check(
        "a-fast-source",
        "Who has everything and is much faster than each of the others is asked for as much as it gives.",
        &world.record,
    );
}

#[test]
fn two_that_send_nothing_do_not_pass_the_last_block_to_and_fro() {
    let mut world = World::new(256 * KIB);
    world.connect_at(1, Manner::Honest, 0..25, 8000, 10 * MILLI);
    world.connect_at(2, Manner::Honest, 0..25, 8000, 10 * MILLI);
    world.connect_at(3, Manner::Honest, 0..25, 1000, 10 * MILLI);
    world.want(0..24);
    world.run(60 * SECOND);
    for quick in [1, 2] {
        world.peers.get_mut(&quick).expect("it is connected").manner = Manner::Stingy;
    }
    let from = world.now;
    world.want(24..25);
    world.run(180 * SECOND);
    assert_eq!(world.got.len(), 25);
    let took = world.got.last().map_or(0, |(at, ..)| *at) - from;
    assert!(took < 3 * SECOND, "it took {} ms", took / MILLI);
    check(
        "to-and-fro",
        "The last block is not asked again of whom it was taken back from in vain.",
        &world.record,
    );
}

#[test]
fn what_is_not_wanted_any_more_is_taken_back() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Honest, 0..12);
    world.connect(2, Manner::Mute, []);
    world.want(0..12);
    world.run_until(10 * SECOND, |world| world.got.len() == 2);
    world.tell(Input::Unwant((6..12).collect()));
    world.run(10 * SECOND);
    let got: BTreeSet<u8> = world.got.iter().map(|(_, block, _)| *block).collect();
    assert!((0..6).all(|block| got.contains(&block)));
    check(
        "cancel",
        "What is not wanted any more is taken back from all who were told of it.",
        &world.record,
    );
}

#[test]
fn what_is_urgent_is_asked_for_first() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Honest, 0..40);
    world.connect(2, Manner::Honest, 0..40);
    world.want(0..40);
    world.run_until(10 * SECOND, |world| world.got.len() == 4);
    world.tell(Input::Urgent(vec![30, 31, 32, 33]));
    world.run_until(10 * SECOND, |world| world.got.len() == 20);
    // Named before they are wanted, and not in the order of their numbers.
    world.tell(Input::Urgent(vec![45, 44]));
    world.peers.values_mut().for_each(|peer| peer.holds.extend(40..50));
    world.want(40..50);
    world.run(20 * SECOND);
    assert_eq!(world.got.len(), 50);
    let at = |block: u8| world.got.iter().position(|got| got.1 == block);
    assert!([30, 31, 32, 33].iter().all(|block| at(*block) < Some(20)), "{:?}", world.got);
    check(
        "urgent",
        "What is named as urgent is asked for before all else, in that order, and with the highest priorities.",
        &world.record,
    );
}

#[test]
fn what_is_urgent_takes_the_place_of_what_waits() {
    let mut world = World::new(256 * KIB);
    // Slow, so that much is asked for that has not come.
    world.connect_at(1, Manner::Honest, 0..60, 1000, 10 * MILLI);
    world.connect_at(2, Manner::Honest, 0..30, 1000, 10 * MILLI);
    world.want(0..60);
    world.run_until(20 * SECOND, |world| world.got.len() == 12);
    world.tell(Input::Urgent((40..60).rev().collect()));
    world.run_until(20 * SECOND, |world| world.got.len() == 20);
    world.tell(Input::Urgent((20..30).collect()));
    world.run(30 * SECOND);
    assert_eq!(world.got.len(), 60);
    check(
        "urgent-makes-room",
        "Where no more is to be asked for, what waits for its turn gives way to what is urgent.",
        &world.record,
    );
}

#[test]
fn a_peer_that_came_to_have_something_tells_so() {
    let mut world = World::new(256 * KIB);
    world.connect(1, Manner::Honest, []);
    world.want(0..20);
    world.run(3 * SECOND);
    assert_eq!(world.searches, 2);
    for block in 0..20 {
        let Some(peer) = world.peers.get_mut(&1) else { break };
        peer.holds.insert(block);
        world.says(1, Message { presences: vec![here(block, true)], ..Message::default() });
        world.run(50 * MILLI);
    }
    world.run(20 * SECOND);
    assert_eq!(world.from(1), 20);
    check(
        "news",
        "While nobody has it providers are looked for, ever less often; a HAVE that comes late is acted upon.",
        &world.record,
    );
}

#[test]
fn a_provider_is_asked_before_it_says_anything() {
    let mut world = World::new(256 * KIB);
    world.tell(Input::Providers(vec![2]));
    world.connect(1, Manner::Mute, []);
    world.connect(2, Manner::Honest, 0..6);
    world.want(0..6);
    world.run(30 * SECOND);
    assert_eq!(world.from(2), 6);
    check(
        "a-provider",
        "Who is said to have everything is asked for more than one block; who says nothing, for one.",
        &world.record,
    );
}

#[test]
fn wants_beyond_what_peers_remember_wait() {
    let limits = Limits { asks_per_peer_max: 16, ..Limits::default() };
    let mut world = World::limited(16 * KIB, limits, json!({ "asks_per_peer_max": 16 }));
    world.connect(1, Manner::Mute, []);
    world.connect(2, Manner::Honest, 0..60);
    world.want(0..60);
    world.run(20 * SECOND);
    assert_eq!(world.from(2), 60);
    check(
        "few-asks",
        "A peer is told of no more wants than it is sure to remember; the rest follow.",
        &world.record,
    );
}
