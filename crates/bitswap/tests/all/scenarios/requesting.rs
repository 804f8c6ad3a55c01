//! Stories of a node that requests blocks.

use std::collections::BTreeSet;

use serde_json::json;
use watchfire_bitswap::{Limits, Message, Misbehaviour, WantKind};
use watchfire_types::Instant;

use super::check;
use super::fake_swarm::{FakeBehaviour, FakeSwarm, MILLI, SECOND, presence};
use super::record::{FakeBlock, Input, number};

const KIB: usize = 1 << 10;

impl FakeSwarm {
    fn blocks_from(&self, peer: u64) -> usize {
        self.received.iter().filter(|(_, _, from)| *from == peer).count()
    }

    /// The blocks that were cancelled at a peer, from this message on.
    fn cancelled_at(&self, peer: u64, from: usize) -> Vec<u8> {
        let to_it = self.sent[from..].iter().filter(|(to, _)| *to == peer);
        let cancels = to_it.flat_map(|(_, message)| &message.wants).filter(|want| want.cancel);
        cancels.map(|want| number(&want.cid)).collect()
    }

    fn blocks_requested_from(&self, peer: u64) -> Vec<u8> {
        let to_it = self.sent.iter().filter(|(to, _)| *to == peer);
        let wants = to_it.flat_map(|(_, message)| &message.wants);
        let blocks = wants.filter(|want| !want.cancel && want.kind == WantKind::Block);
        blocks.map(|want| number(&want.cid)).collect()
    }
}

#[test]
fn a_seeder_sends_all_blocks() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, 0..24);
    swarm.want(0..24);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.blocks_from(1), 24);
    check(
        "single-seeder",
        "A seeder gets one request first, and then more and more at a time.",
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
        "Each of three peers has a third, and gets requests for it, and one for a block that it may have.",
        &swarm.record,
    );
}

#[test]
fn the_rarest_block_is_requested_first() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    // All peers announce their blocks before requests start. Only peer 1 has 20 to 23.
    swarm.connect(1, FakeBehaviour::Honest, 0..24);
    swarm.connect(2, FakeBehaviour::Honest, 0..20);
    swarm.connect(3, FakeBehaviour::Honest, 0..20);
    swarm.want(0..24);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.received.len(), 24);
    let rare: Vec<usize> =
        (0..).zip(&swarm.received).filter(|(_, got)| got.1 >= 20).map(|(nth, _)| nth).collect();
    assert!(rare.iter().all(|nth| *nth < 18), "{rare:?}");
    check(
        "rarest-first",
        "Blocks that only one peer has are requested from it before all others.",
        &swarm.record,
    );
}

#[test]
fn a_peer_that_lacks_a_block_gets_no_second_request() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, []);
    swarm.connect(2, FakeBehaviour::Honest, 0..6);
    swarm.want(0..6);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.blocks_from(2), 6);
    assert!(swarm.blocks_requested_from(1).len() <= 1);
    check("dont-have", "After DONT_HAVE, a block is requested from another peer.", &swarm.record);
}

#[test]
fn requests_of_a_peer_that_leaves_go_to_others() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, 0..24);
    swarm.connect(2, FakeBehaviour::Honest, 0..24);
    swarm.want(0..24);
    swarm.run_until(20 * SECOND, |swarm| swarm.received.len() == 8);
    swarm.leave(1);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.received.len(), 24);
    check("peer-leaves", "When a peer leaves, its requests go to the other peers.", &swarm.record);
}

#[test]
fn a_silent_peer_gets_fewer_requests_and_is_dropped_in_the_end() {
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
        "A peer that claims to have blocks and never sends one gets retries, then no requests, and is dropped.",
        &swarm.record,
    );
}

#[test]
fn a_peer_that_forges_blocks_is_dropped() {
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
        "A peer that had a request and sends a block with a CID that was never wanted is dropped.",
        &swarm.record,
    );
}

#[test]
fn a_peer_that_floods_is_dropped() {
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
        "A peer without requests may send a few blocks; when it sends more, it is dropped.",
        &swarm.record,
    );
}

#[test]
fn a_repeated_want_have_may_be_answered_twice() {
    let mut swarm = FakeSwarm::new(KIB);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.want(0..30);
    // A search for providers ends, and unanswered want-haves are sent again.
    swarm.run(1500 * MILLI);
    assert_eq!(swarm.searches, 1);
    swarm.connect(2, FakeBehaviour::Honest, 0..30);
    swarm.run(5 * SECOND);
    assert_eq!(swarm.blocks_from(2), 30);
    // The slow answers arrive after all.
    for block in (0..30).chain(0..30) {
        let blocks = vec![FakeBlock::new(block, KIB)];
        swarm.send_from(1, Message { blocks, ..Message::default() });
    }
    assert_eq!(swarm.dropped, []);
    assert_eq!(swarm.record.exchange.totals().duplicate_blocks, 60);
    check(
        "repeated-want-haves",
        "A peer that received a want-have twice may answer twice with a short block: that is no flood.",
        &swarm.record,
    );
}

#[test]
fn the_last_blocks_are_requested_twice_if_that_is_sooner() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect_at(1, FakeBehaviour::Honest, 0..16, 100, 10 * MILLI);
    swarm.connect_at(2, FakeBehaviour::Honest, 0..16, 8000, 10 * MILLI);
    swarm.want(0..16);
    swarm.run(60 * SECOND);
    assert_eq!(swarm.received.len(), 16);
    let last = swarm.received.last();
    assert!(last.is_some_and(|(at, ..)| *at < 5 * SECOND), "{last:?}");
    check(
        "endgame",
        "In the endgame, a block that is requested from a slow peer is requested from a fast one as well.",
        &swarm.record,
    );
}

#[test]
fn the_last_requests_move_away_from_peers_that_serve_others() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect_at(1, FakeBehaviour::Honest, 0..18, 1000, 10 * MILLI);
    swarm.connect_at(2, FakeBehaviour::Honest, 0..18, 1000, 10 * MILLI);
    swarm.want(0..16);
    swarm.run(60 * SECOND);
    swarm.peers.get_mut(&1).expect("it is connected").behaviour = FakeBehaviour::Withholding;
    let from = swarm.now;
    swarm.want(16..18);
    swarm.run(120 * SECOND);
    let took = swarm.received.last().map_or(0, |(at, ..)| *at) - from;
    // One block from each. A silence times out only after more than two seconds.
    assert_eq!(swarm.received.len(), 18);
    assert!(took < 2 * SECOND, "it took {} ms", took / MILLI);
    assert_eq!(swarm.record.exchange.totals().duplicate_blocks, 0);
    check(
        "endgame-unresponsive-peer",
        "In the endgame, a request moves from a peer that sends nothing to an idle one.",
        &swarm.record,
    );
}

#[test]
fn requests_of_a_session_that_will_want_more_blocks_stay_with_peers_that_serve_others() {
    let seconds = |is_growing| {
        let mut swarm = FakeSwarm::new(256 * KIB);
        swarm.connect_at(1, FakeBehaviour::Honest, 0..18, 1000, 10 * MILLI);
        swarm.connect_at(2, FakeBehaviour::Honest, 0..18, 1000, 10 * MILLI);
        swarm.record.set_growing(Instant::ZERO, is_growing);
        swarm.want(0..16);
        swarm.run(60 * SECOND);
        swarm.peers.get_mut(&1).expect("it is connected").behaviour = FakeBehaviour::Withholding;
        let from = swarm.now;
        swarm.want(16..18);
        swarm.run(120 * SECOND);
        assert_eq!(swarm.received.len(), 18);
        (swarm.received.last().map_or(0, |(at, ..)| *at) - from) as f64 / SECOND as f64
    };
    // The same wants, but without more to come they are the last.
    assert!(seconds(false) < 2.0, "{}", seconds(false));
    // Only a timeout moves the request.
    assert!(seconds(true) > 2.0, "{}", seconds(true));
}

#[test]
fn a_seeder_is_spared_unless_it_is_fast() {
    let from_seeder = |rate| {
        let mut swarm = FakeSwarm::new(64 * KIB);
        swarm.connect_at(1, FakeBehaviour::Honest, 0..96, rate, 10 * MILLI);
        for peer in 2..10 {
            let most = (0..96).filter(|block| (u64::from(*block) + peer) % 4 > 0);
            swarm.connect_at(peer, FakeBehaviour::Honest, most, 1000, 10 * MILLI);
        }
        swarm.want(0..96);
        swarm.run(60 * SECOND);
        assert_eq!(swarm.received.len(), 96);
        (swarm.received.iter().filter(|(.., from)| *from == 1).count(), swarm)
    };
    let (spared, _) = from_seeder(1000);
    let (used, swarm) = from_seeder(6000);
    assert!(spared <= 10 && used >= 30, "{spared} blocks, and {used} when it is fast");
    check(
        "fast-seeder",
        "A seeder that is much faster than each other peer gets as many requests as it can serve.",
        &swarm.record,
    );
}

#[test]
fn two_peers_that_send_nothing_do_not_exchange_the_last_request() {
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
    assert_eq!(swarm.received.len(), 25);
    let took = swarm.received.last().map_or(0, |(at, ..)| *at) - from;
    assert!(took < 3 * SECOND, "it took {} ms", took / MILLI);
    check(
        "endgame-no-ping-pong",
        "The last request does not return to a peer that it was taken from without an answer.",
        &swarm.record,
    );
}

#[test]
fn blocks_that_are_not_wanted_any_more_are_cancelled() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, 0..12);
    swarm.connect(2, FakeBehaviour::Silent, []);
    swarm.want(0..12);
    swarm.run_until(10 * SECOND, |swarm| swarm.received.len() == 2);
    swarm.handle_input(Input::CancelWants((6..12).collect()));
    swarm.run(10 * SECOND);
    let got: BTreeSet<u8> = swarm.received.iter().map(|(_, block, _)| *block).collect();
    assert!((0..6).all(|block| got.contains(&block)));
    check(
        "cancel",
        "A block that is not wanted any more is cancelled at all peers that received the want.",
        &swarm.record,
    );
}

#[test]
fn urgent_blocks_are_requested_first() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, 0..40);
    swarm.connect(2, FakeBehaviour::Honest, 0..40);
    swarm.want(0..40);
    swarm.run_until(10 * SECOND, |swarm| swarm.received.len() == 4);
    swarm.handle_input(Input::Urgent(vec![30, 31, 32, 33]));
    swarm.run_until(10 * SECOND, |swarm| swarm.received.len() == 20);
    // These are set before they are wanted, and not in the order of their numbers.
    swarm.handle_input(Input::Urgent(vec![45, 44]));
    swarm.peers.values_mut().for_each(|peer| peer.holds.extend(40..50));
    swarm.want(40..50);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.received.len(), 50);
    let at = |block: u8| swarm.received.iter().position(|got| got.1 == block);
    assert!([30, 31, 32, 33].iter().all(|block| at(*block) < Some(20)), "{:?}", swarm.received);
    check(
        "urgent",
        "Urgent blocks are requested before all others, in their order, and with the highest priorities.",
        &swarm.record,
    );
}

#[test]
fn urgent_blocks_take_the_place_of_waiting_requests() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    // Slow, so that many requests are open.
    swarm.connect_at(1, FakeBehaviour::Honest, 0..60, 1000, 10 * MILLI);
    swarm.connect_at(2, FakeBehaviour::Honest, 0..30, 1000, 10 * MILLI);
    swarm.want(0..60);
    swarm.run_until(20 * SECOND, |swarm| swarm.received.len() == 12);
    swarm.handle_input(Input::Urgent((40..60).rev().collect()));
    swarm.run_until(20 * SECOND, |swarm| swarm.received.len() == 20);
    swarm.handle_input(Input::Urgent((20..30).collect()));
    swarm.run(30 * SECOND);
    assert_eq!(swarm.received.len(), 60);
    check(
        "urgent-preempts",
        "When no more can be requested, waiting requests are cancelled for urgent blocks.",
        &swarm.record,
    );
}

#[test]
fn urgent_blocks_on_their_way_from_their_only_holder_come_once() {
    let mut swarm = FakeSwarm::new(1024 * KIB);
    swarm.connect_at(1, FakeBehaviour::Honest, 0..16, 20_000, 5 * MILLI);
    swarm.want(0..16);
    swarm.run_until(20 * SECOND, |swarm| swarm.received.len() == 4);
    // This node is busy: what has left the peer is read late, and all requests are overdue.
    swarm.peers.get_mut(&1).expect("it is connected").delay = 600 * MILLI;
    while swarm.received.len() < 16 && swarm.now < 30 * SECOND {
        let missing = (0..16).filter(|block| !swarm.store.contains_key(block));
        let urgent = missing.take(4).collect();
        swarm.handle_input(Input::Urgent(urgent));
        swarm.run(150 * MILLI);
    }
    swarm.run(5 * SECOND);
    assert_eq!(swarm.received.len(), 16);
    assert_eq!(swarm.record.exchange.totals().duplicate_blocks, 0);
    check(
        "urgent-at-the-only-holder",
        "An urgent block that should have arrived is not requested again from the only peer that has it.",
        &swarm.record,
    );
}

#[test]
fn the_only_holder_of_an_urgent_block_sends_it_sooner() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect_at(1, FakeBehaviour::Honest, 0..40, 1000, 10 * MILLI);
    swarm.want(0..40);
    swarm.run_until(20 * SECOND, |swarm| swarm.received.len() == 12);
    let requested = swarm.blocks_requested_from(1);
    let last = *requested.last().expect("a request waits");
    let before = swarm.sent.len();
    swarm.handle_input(Input::Urgent(vec![last]));
    // A second call with the same block changes nothing.
    swarm.handle_input(Input::Urgent(vec![last]));
    let wants = |(_, message): &(u64, Message<FakeBlock>)| message.wants.clone();
    let wants: Vec<_> = swarm.sent[before..].iter().flat_map(wants).collect();
    let sent = wants.iter().map(|want| (number(&want.cid), want.priority, want.cancel));
    assert_eq!(sent.collect::<Vec<_>>(), [(last, i32::MAX, false)]);
    let received = swarm.received.len();
    swarm.run(20 * SECOND);
    let at = swarm.received.iter().position(|(_, block, _)| *block == last);
    assert!(at <= Some(received + 1), "{at:?}, {received} before");
    assert_eq!(swarm.record.exchange.totals().duplicate_blocks, 0);
    check(
        "urgent-raises-priority",
        "A request that waits at the only peer that has its block gets the priority of an urgent one.",
        &swarm.record,
    );
}

#[test]
fn urgent_blocks_keep_their_order_when_the_first_is_near_its_turn() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect_at(1, FakeBehaviour::Honest, 0..40, 1000, 10 * MILLI);
    swarm.want(0..40);
    swarm.run_until(20 * SECOND, |swarm| swarm.received.len() == 12);
    let received = swarm.received.len();
    let next = swarm.next_from(1).expect("a request waits");
    let mut urgent = vec![next];
    urgent
        .extend(swarm.blocks_requested_from(1).into_iter().rev().filter(|at| *at != next).take(2));
    while swarm.received.len() < 40 && swarm.now < 30 * SECOND {
        let missing = urgent.iter().copied().filter(|block| !swarm.store.contains_key(block));
        let missing = missing.collect();
        swarm.handle_input(Input::Urgent(missing));
        let before = swarm.received.len();
        swarm.run_until(SECOND, |swarm| swarm.received.len() > before);
    }
    let place = |block: &u8| swarm.received.iter().position(|(_, other, _)| other == block);
    let places: Vec<_> = urgent.iter().filter_map(place).collect();
    assert!(places.is_sorted() && places.len() == 3, "{places:?}");
    assert!(places[0] <= received + 1, "the first keeps its turn: {places:?}, {received} before");
    assert!(places[2] <= received + 4, "{places:?}, {received} before");
    assert_eq!(swarm.record.exchange.totals().duplicate_blocks, 0);
    check(
        "urgent-keeps-order",
        "A request does not overtake a more urgent one that is near its turn at the same peer.",
        &swarm.record,
    );
}

#[test]
fn a_peer_that_was_asked_twice_gets_a_cancel_when_its_block_comes() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.want(0..2);
    let presences = vec![presence(0, true), presence(1, true)];
    swarm.send_from(1, Message { presences, ..Message::default() });
    swarm.run(11 * SECOND);
    let first = swarm.blocks_requested_from(1);
    assert!(first.len() >= 2 && first.iter().all(|block| *block == first[0]), "{first:?}");
    let from = swarm.sent.len();
    let blocks = vec![FakeBlock::new(first[0], swarm.block_bytes)];
    swarm.send_from(1, Message { blocks, ..Message::default() });
    assert_eq!(swarm.cancelled_at(1, from), [first[0]]);
    // A peer that was asked once gets none.
    let second = 1 - first[0];
    assert_eq!(swarm.blocks_requested_from(1).last(), Some(&second));
    let from = swarm.sent.len();
    let blocks = vec![FakeBlock::new(second, swarm.block_bytes)];
    swarm.send_from(1, Message { blocks, ..Message::default() });
    assert!(swarm.cancelled_at(1, from).is_empty());
    check(
        "cancel-after-a-repeated-request",
        "A peer whose request was repeated gets a cancel when the block comes, because it may still have the second request.",
        &swarm.record,
    );
}

#[test]
fn a_late_have_leads_to_a_request() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.connect(1, FakeBehaviour::Honest, []);
    swarm.want(0..20);
    swarm.run(3 * SECOND);
    assert_eq!(swarm.searches, 2);
    for block in 0..20 {
        let Some(peer) = swarm.peers.get_mut(&1) else { break };
        peer.holds.insert(block);
        let presences = vec![presence(block, true)];
        swarm.send_from(1, Message { presences, ..Message::default() });
        swarm.run(50 * MILLI);
    }
    swarm.run(20 * SECOND);
    assert_eq!(swarm.blocks_from(1), 20);
    check(
        "late-have",
        "While no peer has the blocks, searches for providers repeat at growing intervals; a late HAVE leads to a request.",
        &swarm.record,
    );
}

#[test]
fn a_provider_gets_requests_before_it_answers() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.handle_input(Input::Providers(vec![2]));
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.connect(2, FakeBehaviour::Honest, 0..6);
    swarm.want(0..6);
    swarm.run(30 * SECOND);
    assert_eq!(swarm.blocks_from(2), 6);
    check(
        "provider-hint",
        "A provider gets several requests before it answers; another peer gets one.",
        &swarm.record,
    );
}

#[test]
fn wants_beyond_what_peers_remember_wait() {
    let limits = Limits { sent_wants_per_peer_max: 16, ..Limits::default() };
    let mut swarm =
        FakeSwarm::with_limits(16 * KIB, limits, json!({ "sent_wants_per_peer_max": 16 }));
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.connect(2, FakeBehaviour::Honest, 0..60);
    swarm.want(0..60);
    swarm.run(20 * SECOND);
    assert_eq!(swarm.blocks_from(2), 60);
    check(
        "sent-wants-limit",
        "A peer receives no more wants than it is sure to remember; the rest follow.",
        &swarm.record,
    );
}
