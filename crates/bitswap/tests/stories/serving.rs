//! Stories of who has blocks that others want.

use serde_json::json;
use watchfire_bitswap::{Limits, Message, WantKind};

use super::check;
use super::fake_swarm::{FakeBehaviour, FakeSwarm, MILLI, SECOND, cancel, here, want};
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
        presences.map(|presence| (number(&presence.cid), presence.is_here)).collect()
    }
}

#[test]
fn peers_take_turns() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..36);
    for peer in 1..4 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    }
    // One wants a great deal before the others come; each wants something else.
    swarm.peer_wants(1, WantKind::Block, 0..24);
    swarm.peer_wants(2, WantKind::Block, 24..30);
    swarm.peer_wants(3, WantKind::Block, 30..36);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(3).len() == 6);
    assert!(swarm.blocks_to(1).len() <= 10 && swarm.blocks_to(2).len() >= 4);
    swarm.run(60 * SECOND);
    assert_eq!(swarm.blocks_to(1).len(), 24);
    check(
        "round-robin",
        "Who wants much and came first waits as often for the others as they for it.",
        &swarm.record,
    );
}

#[test]
fn what_nobody_has_goes_first() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..12);
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
        "Of those who want the same, each gets first what the others have not got.",
        &swarm.record,
    );
}

#[test]
fn who_lacks_more_goes_before_once_a_round() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..30);
    for peer in 1..5 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 20_000, 10 * MILLI);
    }
    // Nothing of it is new any more.
    swarm.peer_wants(4, WantKind::Block, 0..30);
    swarm.run(60 * SECOND);
    assert_eq!(swarm.blocks_to(4).len(), 30);
    for (peer, lacked) in [(1, 12), (2, 12), (3, 30)] {
        swarm.peer_wants(peer, WantKind::Block, 0..lacked);
    }
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(3).len() == 12);
    // Several blocks a turn, so that one of them may be a turn ahead of the other.
    let others = [1, 2].map(|peer| swarm.blocks_to(peer).len());
    assert!((8..=14).contains(&(others[0] + others[1])), "{others:?}");
    assert!(others.iter().all(|sent| *sent > 2), "{others:?}");
    swarm.run(60 * SECOND);
    check(
        "furthest-behind-first",
        "Who lacks much more than the others has two turns for one of theirs.",
        &swarm.record,
    );
}

#[test]
fn what_others_were_just_sent_is_left_to_them() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..12);
    for peer in 1..7 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    }
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
    assert_eq!(came, [0, 0, 0, 0, 1], "but for what is urgent");
    // They did not get it of one another.
    swarm.run(2 * SECOND);
    assert!((2..6).all(|peer| swarm.blocks_to(peer) == [new]));
    swarm.run(60 * SECOND);
    check(
        "hold-back",
        "While it sends what nobody has, and a moment longer, who has everything leaves to others what they were just sent.",
        &swarm.record,
    );
}

#[test]
fn what_one_of_a_crowd_waits_for_is_left_to_the_others() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..12);
    for peer in 1..7 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    }
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 12);
    let new = *swarm.blocks_to(1).last().unwrap();
    // The others want what is not here.
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
        "What others were just sent is left to them though few wait for something, as long as many want something.",
        &swarm.record,
    );
}

#[test]
fn who_is_passed_over_does_not_get_what_is_left_to_others() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..240);
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
        "Who is passed over again and again is not sent for that what is left to others.",
        &swarm.record,
    );
}

#[test]
fn what_others_serve_is_left_to_them_for_longer() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..12);
    for peer in 1..7 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    }
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 2);
    let early = swarm.blocks_to(1)[0];
    for peer in 2..7 {
        swarm.peer_wants(peer, WantKind::Block, early..early + 1);
    }
    swarm.run(100 * MILLI);
    // It had it of the first.
    swarm.send_from(2, Message { wants: vec![cancel(early)], ..Message::default() });
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(1).len() == 12);
    assert!((2..7).all(|peer| swarm.blocks_to(peer).is_empty()));
    swarm.run(2 * SECOND);
    assert!((3..7).all(|peer| swarm.blocks_to(peer) == [early]));
    swarm.run(60 * SECOND);
    check(
        "hold-back-longer",
        "Where wants for what others were sent are taken back, they are left to others for longer.",
        &swarm.record,
    );
}

#[test]
fn where_nobody_serves_anybody_nothing_is_left_to_others() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..12);
    for peer in 1..7 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    }
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run(60 * SECOND);
    for peer in 2..5 {
        swarm.peer_wants(peer, WantKind::Block, 0..12);
    }
    swarm.run(60 * SECOND);
    swarm.hold(12..24);
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
        "Who had to send again what it had left to others leaves them nothing any more.",
        &swarm.record,
    );
}

#[test]
fn who_wants_too_much_is_told_so() {
    let limits = Limits { wants_per_peer_max: 8, ..Limits::default() };
    let mut swarm = FakeSwarm::limited(256 * KIB, limits, json!({ "wants_per_peer_max": 8 }));
    swarm.hold(0..40);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.peer_wants(1, WantKind::Block, 0..40);
    swarm.run(60 * SECOND);
    assert_eq!(swarm.blocks_to(1).len(), 8);
    // Nor is more said at a time than twice that.
    assert_eq!(swarm.presences_to(1), (8..24).map(|block| (block, false)).collect::<Vec<_>>());
    check(
        "wantlist-limit",
        "Wants beyond those that are remembered of a peer are answered with DONT_HAVE, or not at all.",
        &swarm.record,
    );
}

#[test]
fn wants_change() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..12);
    swarm.connect_at(1, FakeBehaviour::Silent, [], 1000, 10 * MILLI);
    swarm.peer_wants(1, WantKind::Block, 0..12);
    swarm.run(100 * MILLI);
    // Some are taken back, the last becomes the most urgent, and what was a question becomes a want.
    let wants =
        vec![cancel(6), cancel(7), want(11, i32::MAX, WantKind::Block), want(5, 3, WantKind::Have)];
    swarm.send_from(1, Message { wants, ..Message::default() });
    swarm.run(600 * MILLI);
    // A whole list replaces all earlier wants.
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
        "Wants are taken back, become more urgent, and are replaced by a whole list.",
        &swarm.record,
    );
}

#[test]
fn questions_are_answered() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..2);
    swarm.store.insert(2, 200);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.peer_wants(1, WantKind::Have, 0..6);
    swarm.peer_wants(1, WantKind::Block, 6..8);
    swarm.run(SECOND);
    assert_eq!(swarm.presences_to(1).len(), 7);
    // It is told of what comes later, and sent what it wanted.
    for block in [3, 6] {
        swarm.store.insert(block, swarm.block_bytes);
        swarm.handle_input(Input::Have(block, swarm.block_bytes));
        swarm.run(SECOND);
    }
    assert_eq!(swarm.blocks_to(1), [2, 6]);
    assert_eq!(swarm.presences_to(1).last(), Some(&(3, true)));
    check(
        "want-have-answers",
        "HAVE, DONT_HAVE, a small block at once, and what comes later.",
        &swarm.record,
    );
}

#[test]
fn a_block_that_cannot_be_read_is_said_to_be_lacking() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..4);
    swarm.unreadable.extend([1, 2]);
    swarm.connect(1, FakeBehaviour::Silent, []);
    swarm.peer_wants(1, WantKind::Block, 0..4);
    swarm.run(SECOND);
    assert_eq!(swarm.blocks_to(1), [0, 3]);
    assert_eq!(swarm.presences_to(1), [(1, false), (2, false)]);
    check(
        "unreadable-block",
        "Blocks that were there and cannot be read are answered with DONT_HAVE.",
        &swarm.record,
    );
}

#[test]
fn who_comes_and_goes_has_no_more_read_than_who_stays() {
    let limits = Limits { reading_bytes_max: 600 * KIB, ..Limits::default() };
    let mut swarm =
        FakeSwarm::limited(256 * KIB, limits, json!({ "reading_bytes_max": 600 * KIB }));
    swarm.hold(0..4);
    // It is gone before the store has answered, again and again.
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
    assert_eq!((blocks, swarm.reads_most), (vec![0, 1, 2, 3], 2));
    check(
        "reads-after-disconnect",
        "What is being read for who has left counts until the store answers.",
        &swarm.record,
    );
}

#[test]
fn a_full_pipe_gets_no_more() {
    let mut swarm = FakeSwarm::new(1024 * KIB);
    swarm.hold(0..12);
    // A slow one, and one that reads nothing at all for a while.
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
        "A peer whose pipe is full gets nothing until it has room; the others have their turn.",
        &swarm.record,
    );
}

#[test]
fn those_who_take_nothing_keep_nobody_waiting_for_long() {
    let mut swarm = FakeSwarm::new(1024 * KIB);
    swarm.hold(0..32);
    for peer in 1..4 {
        swarm.connect_at(peer, FakeBehaviour::Silent, [], 1, 10 * MILLI);
        swarm.peer_wants(peer, WantKind::Block, 0..4);
    }
    swarm.connect_at(4, FakeBehaviour::Silent, [], 4000, 10 * MILLI);
    swarm.peer_wants(4, WantKind::Block, 8..32);
    // What the others have no room for is not sent to them, and what they were sent does not count for ever.
    swarm.run_until(60 * SECOND, |swarm| swarm.blocks_to(4).len() == 24);
    assert!(swarm.now < 20 * SECOND, "{} s", swarm.now / SECOND);
    check(
        "stuck-receivers",
        "What stands still on its way to some counts no more, and others get what they want.",
        &swarm.record,
    );
}

#[test]
fn two_that_have_a_half_each_exchange_them() {
    let mut swarm = FakeSwarm::new(256 * KIB);
    swarm.hold(0..8);
    swarm.connect(1, FakeBehaviour::Honest, 8..16);
    swarm.want(8..16);
    swarm.peer_wants(1, WantKind::Block, 0..8);
    swarm.run(20 * SECOND);
    assert_eq!((swarm.got.len(), swarm.blocks_to(1).len()), (8, 8));
    // What it came to have in the meantime is news to us as well.
    swarm.send_from(1, Message { presences: vec![here(3, true)], ..Message::default() });
    swarm.run(SECOND);
    check("two-leechers", "Two that have a half each give and take at once.", &swarm.record);
}
