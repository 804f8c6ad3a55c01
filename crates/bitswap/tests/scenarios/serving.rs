//! Stories of who has blocks that others want.

use bitswap::{Limits, Message, WantKind};
use serde_json::json;

use super::check;
use super::record::{Input, number};
use super::world::{MILLI, Manner, SECOND, World, cancel, here, want};

const KIB: usize = 1 << 10;

impl World {
    fn blocks_to(&self, peer: u64) -> Vec<u8> {
        let to_it = self.sent.iter().filter(|(to, _)| *to == peer);
        to_it.flat_map(|(_, message)| message.blocks.iter().map(|block| block.number)).collect()
    }

    fn told(&self, peer: u64) -> Vec<(u8, bool)> {
        let to_it = self.sent.iter().filter(|(to, _)| *to == peer);
        let presences = to_it.flat_map(|(_, message)| &message.presences);
        presences.map(|presence| (number(&presence.cid), presence.is_here)).collect()
    }
}

#[test]
fn peers_take_turns() {
    let mut world = World::new(256 * KIB);
    world.hold(0..36);
    for peer in 1..4 {
        world.connect_at(peer, Manner::Mute, [], 1000, 10 * MILLI);
    }
    // One wants a great deal before the others come; each wants something else.
    world.asks(1, WantKind::Block, 0..24);
    world.asks(2, WantKind::Block, 24..30);
    world.asks(3, WantKind::Block, 30..36);
    world.run_until(60 * SECOND, |world| world.blocks_to(3).len() == 6);
    assert!(world.blocks_to(1).len() <= 10 && world.blocks_to(2).len() >= 4);
    world.run(60 * SECOND);
    assert_eq!(world.blocks_to(1).len(), 24);
    check(
        "turns",
        "Who wants much and came first waits as often for the others as they for it.",
        &world.record,
    );
}

#[test]
fn what_nobody_has_goes_first() {
    let mut world = World::new(256 * KIB);
    world.hold(0..12);
    for peer in 1..4 {
        world.connect_at(peer, Manner::Mute, [], 1000, 10 * MILLI);
        world.asks(peer, WantKind::Block, 0..12);
    }
    world.run_until(60 * SECOND, |world| {
        world.sent.iter().map(|sent| sent.1.blocks.len()).sum::<usize>() >= 12
    });
    let mut first: Vec<u8> = (1..4).flat_map(|peer| world.blocks_to(peer)).collect();
    first.sort_unstable();
    first.dedup();
    assert!(first.len() >= 11, "{first:?}");
    world.run(60 * SECOND);
    check(
        "fresh-first",
        "Of those who want the same, each gets first what the others have not got.",
        &world.record,
    );
}

#[test]
fn who_lacks_more_goes_before_once_a_round() {
    let mut world = World::new(256 * KIB);
    world.hold(0..30);
    for peer in 1..5 {
        world.connect_at(peer, Manner::Mute, [], 20_000, 10 * MILLI);
    }
    // Nothing of it is new any more.
    world.asks(4, WantKind::Block, 0..30);
    world.run(60 * SECOND);
    assert_eq!(world.blocks_to(4).len(), 30);
    for (peer, lacked) in [(1, 12), (2, 12), (3, 30)] {
        world.asks(peer, WantKind::Block, 0..lacked);
    }
    world.run_until(60 * SECOND, |world| world.blocks_to(3).len() == 12);
    // Several blocks a turn, so that one of them may be a turn ahead of the other.
    let others = [1, 2].map(|peer| world.blocks_to(peer).len());
    assert!((8..=14).contains(&(others[0] + others[1])), "{others:?}");
    assert!(others.iter().all(|sent| *sent > 2), "{others:?}");
    world.run(60 * SECOND);
    check(
        "far-behind",
        "Who lacks much more than the others has two turns for one of theirs.",
        &world.record,
    );
}

#[test]
fn what_others_were_just_sent_is_left_to_them() {
    let mut world = World::new(256 * KIB);
    world.hold(0..12);
    for peer in 1..7 {
        world.connect_at(peer, Manner::Mute, [], 1000, 10 * MILLI);
    }
    world.asks(1, WantKind::Block, 0..12);
    world.run_until(60 * SECOND, |world| world.blocks_to(1).len() == 12);
    let new = *world.blocks_to(1).last().unwrap();
    for peer in 2..6 {
        world.asks(peer, WantKind::Block, new..new + 1);
    }
    let urgent = want(new, i32::MAX, WantKind::Block);
    world.says(6, Message { wants: vec![urgent], ..Message::default() });
    world.run(400 * MILLI);
    let came: Vec<usize> = (2..7).map(|peer| world.blocks_to(peer).len()).collect();
    assert_eq!(came, [0, 0, 0, 0, 1], "but for what is urgent");
    // They did not get it of one another.
    world.run(2 * SECOND);
    assert!((2..6).all(|peer| world.blocks_to(peer) == [new]));
    world.run(60 * SECOND);
    check(
        "left-to-others",
        "While it sends what nobody has, and a moment longer, who has everything leaves to others what they were just sent.",
        &world.record,
    );
}

#[test]
fn what_one_of_a_crowd_waits_for_is_left_to_the_others() {
    let mut world = World::new(256 * KIB);
    world.hold(0..12);
    for peer in 1..7 {
        world.connect_at(peer, Manner::Mute, [], 1000, 10 * MILLI);
    }
    world.asks(1, WantKind::Block, 0..12);
    world.run_until(60 * SECOND, |world| world.blocks_to(1).len() == 12);
    let new = *world.blocks_to(1).last().unwrap();
    // The others want what is not here.
    for peer in 2..6 {
        world.asks(peer, WantKind::Block, 20..21);
    }
    world.asks(6, WantKind::Block, new..new + 1);
    world.run(400 * MILLI);
    assert!(world.blocks_to(6).is_empty());
    world.run(2 * SECOND);
    assert_eq!(world.blocks_to(6), [new]);
    check(
        "left-by-one",
        "What others were just sent is left to them though few wait for something, as long as many want something.",
        &world.record,
    );
}

#[test]
fn who_is_passed_over_does_not_get_what_is_left_to_others() {
    let mut world = World::new(256 * KIB);
    world.hold(0..240);
    for peer in 1..5 {
        world.connect_at(peer, Manner::Mute, [], 1000, 10 * MILLI);
        world.asks(peer, WantKind::Block, 60 * (peer as u8 - 1)..60 * peer as u8);
    }
    world.connect_at(5, Manner::Mute, [], 1000, 10 * MILLI);
    world.run_until(60 * SECOND, |world| world.blocks_to(1).len() == 45);
    let early = *world.blocks_to(1).last().unwrap();
    world.asks(5, WantKind::Block, early..early + 1);
    world.run_until(60 * SECOND, |world| world.blocks_to(1).len() == 52);
    assert!(world.blocks_to(5).is_empty());
    world.run(3 * SECOND);
    assert_eq!(world.blocks_to(5), [early]);
    check(
        "passed-over",
        "Who is passed over again and again is not sent for that what is left to others.",
        &world.record,
    );
}

#[test]
fn what_others_serve_is_left_to_them_for_longer() {
    let mut world = World::new(256 * KIB);
    world.hold(0..12);
    for peer in 1..7 {
        world.connect_at(peer, Manner::Mute, [], 1000, 10 * MILLI);
    }
    world.asks(1, WantKind::Block, 0..12);
    world.run_until(60 * SECOND, |world| world.blocks_to(1).len() == 2);
    let early = world.blocks_to(1)[0];
    for peer in 2..7 {
        world.asks(peer, WantKind::Block, early..early + 1);
    }
    world.run(100 * MILLI);
    // It had it of the first.
    world.says(2, Message { wants: vec![cancel(early)], ..Message::default() });
    world.run_until(60 * SECOND, |world| world.blocks_to(1).len() == 12);
    assert!((2..7).all(|peer| world.blocks_to(peer).is_empty()));
    world.run(2 * SECOND);
    assert!((3..7).all(|peer| world.blocks_to(peer) == [early]));
    world.run(60 * SECOND);
    check(
        "left-for-longer",
        "Where wants for what others were sent are taken back, they are left to others for longer.",
        &world.record,
    );
}

#[test]
fn where_nobody_serves_anybody_nothing_is_left_to_others() {
    let mut world = World::new(256 * KIB);
    world.hold(0..12);
    for peer in 1..7 {
        world.connect_at(peer, Manner::Mute, [], 1000, 10 * MILLI);
    }
    world.asks(1, WantKind::Block, 0..12);
    world.run(60 * SECOND);
    for peer in 2..5 {
        world.asks(peer, WantKind::Block, 0..12);
    }
    world.run(60 * SECOND);
    world.hold(12..24);
    world.asks(1, WantKind::Block, 12..24);
    world.run_until(60 * SECOND, |world| world.blocks_to(1).len() == 24);
    let new = *world.blocks_to(1).last().unwrap();
    for peer in 2..7 {
        world.asks(peer, WantKind::Block, new..new + 1);
    }
    world.run(SECOND);
    assert!((2..7).all(|peer| world.blocks_to(peer).contains(&new)));
    check(
        "left-to-nobody",
        "Who had to send again what it had left to others leaves them nothing any more.",
        &world.record,
    );
}

#[test]
fn who_wants_too_much_is_told_so() {
    let limits = Limits { wants_per_peer_max: 8, ..Limits::default() };
    let mut world = World::limited(256 * KIB, limits, json!({ "wants_per_peer_max": 8 }));
    world.hold(0..40);
    world.connect(1, Manner::Mute, []);
    world.asks(1, WantKind::Block, 0..40);
    world.run(60 * SECOND);
    assert_eq!(world.blocks_to(1).len(), 8);
    // Nor is more said at a time than twice that.
    assert_eq!(world.told(1), (8..24).map(|block| (block, false)).collect::<Vec<_>>());
    check(
        "too-many-wants",
        "Wants beyond those that are remembered of a peer are answered with DONT_HAVE, or not at all.",
        &world.record,
    );
}

#[test]
fn wants_change() {
    let mut world = World::new(256 * KIB);
    world.hold(0..12);
    world.connect_at(1, Manner::Mute, [], 1000, 10 * MILLI);
    world.asks(1, WantKind::Block, 0..12);
    world.run(100 * MILLI);
    // Some are taken back, the last becomes the most urgent, and what was a question becomes a want.
    let wants =
        vec![cancel(6), cancel(7), want(11, i32::MAX, WantKind::Block), want(5, 3, WantKind::Have)];
    world.says(1, Message { wants, ..Message::default() });
    world.run(600 * MILLI);
    // A whole list replaces all earlier wants.
    world.says(
        1,
        Message { full: true, wants: vec![want(9, 1, WantKind::Block)], ..Message::default() },
    );
    world.run(60 * SECOND);
    let blocks = world.blocks_to(1);
    assert!(
        !blocks.contains(&6) && !blocks.contains(&7) && blocks.contains(&9) && blocks.contains(&11)
    );
    assert!(blocks.len() < 10, "{blocks:?}");
    check(
        "wants-change",
        "Wants are taken back, become more urgent, and are replaced by a whole list.",
        &world.record,
    );
}

#[test]
fn questions_are_answered() {
    let mut world = World::new(256 * KIB);
    world.hold(0..2);
    world.store.insert(2, 200);
    world.connect(1, Manner::Mute, []);
    world.asks(1, WantKind::Have, 0..6);
    world.asks(1, WantKind::Block, 6..8);
    world.run(SECOND);
    assert_eq!(world.told(1).len(), 7);
    // It is told of what comes later, and sent what it wanted.
    for block in [3, 6] {
        world.store.insert(block, world.block_bytes);
        world.tell(Input::Have(block, world.block_bytes));
        world.run(SECOND);
    }
    assert_eq!(world.blocks_to(1), [2, 6]);
    assert_eq!(world.told(1).last(), Some(&(3, true)));
    check(
        "questions",
        "HAVE, DONT_HAVE, a small block at once, and what comes later.",
        &world.record,
    );
}

#[test]
fn a_block_that_cannot_be_read_is_said_to_be_lacking() {
    let mut world = World::new(256 * KIB);
    world.hold(0..4);
    world.unreadable.extend([1, 2]);
    world.connect(1, Manner::Mute, []);
    world.asks(1, WantKind::Block, 0..4);
    world.run(SECOND);
    assert_eq!(world.blocks_to(1), [0, 3]);
    assert_eq!(world.told(1), [(1, false), (2, false)]);
    check(
        "unreadable",
        "Blocks that were there and cannot be read are answered with DONT_HAVE.",
        &world.record,
    );
}

#[test]
fn who_comes_and_goes_has_no_more_read_than_who_stays() {
    let limits = Limits { reading_bytes_max: 600 * KIB, ..Limits::default() };
    let mut world = World::limited(256 * KIB, limits, json!({ "reading_bytes_max": 600 * KIB }));
    world.hold(0..4);
    // It is gone before the store has answered, again and again.
    for _ in 0..5 {
        world.connect(1, Manner::Mute, []);
        world.asks(1, WantKind::Block, 0..4);
        world.run(0);
        world.leave(1);
    }
    assert_eq!(world.reads, 2);
    world.connect(1, Manner::Mute, []);
    world.asks(1, WantKind::Block, 0..4);
    world.run(SECOND);
    let mut blocks = world.blocks_to(1);
    blocks.sort_unstable();
    assert_eq!((blocks, world.reads_most), (vec![0, 1, 2, 3], 2));
    check(
        "who-comes-back",
        "What is being read for who has left counts until the store answers.",
        &world.record,
    );
}

#[test]
fn a_full_pipe_gets_no_more() {
    let mut world = World::new(1024 * KIB);
    world.hold(0..12);
    // A slow one, and one that reads nothing at all for a while.
    world.connect_at(1, Manner::Mute, [], 50, 10 * MILLI);
    world.connect_at(2, Manner::Mute, [], 4000, 10 * MILLI);
    world.asks(1, WantKind::Block, 0..12);
    world.asks(2, WantKind::Block, 0..12);
    world.run_until(30 * SECOND, |world| world.blocks_to(2).len() == 12);
    assert!(world.blocks_to(1).len() < 4, "{:?}", world.blocks_to(1));
    world.run(400 * SECOND);
    assert_eq!(world.blocks_to(1).len(), 12);
    check(
        "a-full-pipe",
        "A peer whose pipe is full gets nothing until it has room; the others have their turn.",
        &world.record,
    );
}

#[test]
fn those_who_take_nothing_keep_nobody_waiting_for_long() {
    let mut world = World::new(1024 * KIB);
    world.hold(0..32);
    for peer in 1..4 {
        world.connect_at(peer, Manner::Mute, [], 1, 10 * MILLI);
        world.asks(peer, WantKind::Block, 0..4);
    }
    world.connect_at(4, Manner::Mute, [], 4000, 10 * MILLI);
    world.asks(4, WantKind::Block, 8..32);
    // What the others have no room for is not sent to them, and what they were sent does not count for ever.
    world.run_until(60 * SECOND, |world| world.blocks_to(4).len() == 24);
    assert!(world.now < 20 * SECOND, "{} s", world.now / SECOND);
    check(
        "who-takes-nothing",
        "What stands still on its way to some counts no more, and others get what they want.",
        &world.record,
    );
}

#[test]
fn two_that_have_a_half_each_exchange_them() {
    let mut world = World::new(256 * KIB);
    world.hold(0..8);
    world.connect(1, Manner::Honest, 8..16);
    world.want(8..16);
    world.asks(1, WantKind::Block, 0..8);
    world.run(20 * SECOND);
    assert_eq!((world.got.len(), world.blocks_to(1).len()), (8, 8));
    // What it came to have in the meantime is news to us as well.
    world.says(1, Message { presences: vec![here(3, true)], ..Message::default() });
    world.run(SECOND);
    check("two-halves", "Two that have a half each give and take at once.", &world.record);
}
