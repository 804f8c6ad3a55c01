//! The lifecycle of a page, from the first peer to the last.

use watchfire_tracker::{Counts, Have, JoinError, NodeCounts, Output, PageLimits, Pages};
use watchfire_types::{Instant, PeerId};

use crate::{ALICE, BOB, CAROL, PAGE, at, counts};

fn pages() -> Pages<PeerId> {
    Pages::new(PageLimits::default())
}

fn join(pages: &mut Pages<PeerId>, now: Instant, peer: PeerId, have: Have) -> Counts {
    pages.join(now, PAGE, peer, peer, have).unwrap()
}

/// The pending events, abbreviated.
fn events(pages: &mut Pages<PeerId>) -> Vec<String> {
    let outputs = std::iter::from_fn(|| pages.poll_output());
    outputs
        .map(|output| match output {
            Output::Counts { counts: c, .. } => {
                format!("{} {} {}", c.watching, c.holders, c.partial)
            }
            Output::Available { .. } => "available".into(),
            Output::Unavailable { .. } => "unavailable".into(),
        })
        .collect()
}

#[test]
fn a_peer_that_joins_gets_its_counts_in_the_reply() {
    let mut pages = pages();
    assert_eq!(join(&mut pages, at(0), ALICE, Have::All), counts(1, 1, 0));
    assert_eq!(join(&mut pages, at(0), BOB, Have::Some), counts(2, 1, 1));
    assert_eq!(join(&mut pages, at(0), CAROL, Have::Nothing), counts(3, 1, 1));
}

#[test]
fn nodes_are_counted_separately() {
    let mut pages = Pages::new(PageLimits::default()).with_node_test(|peer| *peer >= BOB);
    let nodes = |watching, holders, partial| NodeCounts { watching, holders, partial };
    assert_eq!(join(&mut pages, at(0), ALICE, Have::All).nodes, nodes(0, 0, 0));
    assert_eq!(join(&mut pages, at(0), BOB, Have::Some).nodes, nodes(1, 0, 1));
    assert_eq!(join(&mut pages, at(0), CAROL, Have::Nothing).nodes, nodes(2, 0, 1));
    pages.progress(at(0), PAGE, CAROL, Have::All);
    pages.progress(at(0), PAGE, ALICE, Have::Nothing);
    assert_eq!(pages.counts(PAGE).unwrap(), Counts { nodes: nodes(2, 1, 1), ..counts(3, 1, 1) });
    // The new address belongs to a tab.
    pages.join(at(0), PAGE, BOB, ALICE, Have::All).unwrap();
    assert_eq!(pages.counts(PAGE).unwrap().nodes, nodes(1, 1, 0));
    pages.leave(at(0), PAGE, CAROL);
    assert_eq!(pages.counts(PAGE).unwrap(), counts(2, 1, 0));
}

#[test]
fn a_change_of_only_the_node_counts_is_sent() {
    let mut pages = Pages::new(PageLimits::default()).with_node_test(|address| *address == CAROL);
    join(&mut pages, at(0), ALICE, Have::All);
    join(&mut pages, at(0), BOB, Have::Nothing);
    events(&mut pages);
    pages.handle_tick(at(5_000));
    events(&mut pages);
    pages.join(at(10_000), PAGE, BOB, CAROL, Have::Nothing).unwrap();
    assert_eq!(events(&mut pages), ["2 1 0"]);
}

#[test]
fn a_page_is_available_from_its_first_holder_to_its_last() {
    let mut pages = pages();
    join(&mut pages, at(0), BOB, Have::Nothing);
    assert_eq!(events(&mut pages), [""; 0]);
    join(&mut pages, at(0), ALICE, Have::All);
    assert_eq!(events(&mut pages), ["available", "2 1 0"]);
    pages.leave(at(5_000), PAGE, ALICE);
    assert_eq!(events(&mut pages), ["unavailable", "1 0 0"]);
}

#[test]
fn a_page_stays_available_while_another_peer_holds_it() {
    let mut pages = pages();
    join(&mut pages, at(0), ALICE, Have::All);
    join(&mut pages, at(0), BOB, Have::Some);
    pages.progress(at(2_000), PAGE, BOB, Have::All);
    pages.leave(at(4_000), PAGE, ALICE);
    assert_eq!(events(&mut pages), ["available", "2 1 1", "2 2 0", "1 1 0"]);
}

#[test]
fn partial_copies_do_not_make_a_page_available() {
    let mut pages = pages();
    join(&mut pages, at(0), ALICE, Have::Some);
    join(&mut pages, at(0), BOB, Have::Some);
    assert_eq!(events(&mut pages), ["2 0 2"]);
}

#[test]
fn counts_are_sent_at_most_once_a_second() {
    let mut pages = pages();
    join(&mut pages, at(0), ALICE, Have::All);
    events(&mut pages);
    for peer in 2..=100 {
        join(&mut pages, at(peer), PeerId(peer), Have::Nothing);
    }
    assert_eq!(events(&mut pages), ["2 1 0"]);
    assert_eq!(pages.next_wake(), Some(at(1_002)));
    pages.handle_tick(at(1_001));
    assert_eq!(events(&mut pages), [""; 0]);
    pages.handle_tick(at(1_002));
    assert_eq!(events(&mut pages), ["100 1 0"]);
    assert_eq!(pages.next_wake(), None);
}

#[test]
fn counts_that_changed_back_are_not_sent() {
    let mut pages = pages();
    join(&mut pages, at(0), ALICE, Have::All);
    join(&mut pages, at(0), BOB, Have::Nothing);
    events(&mut pages);
    pages.progress(at(10), PAGE, BOB, Have::Some);
    pages.progress(at(20), PAGE, BOB, Have::Nothing);
    assert_eq!(pages.next_wake(), None);
    pages.handle_tick(at(5_000));
    assert_eq!(events(&mut pages), [""; 0]);
}

#[test]
fn counts_that_changed_back_are_sent_if_a_join_reply_had_others() {
    let mut pages = pages();
    join(&mut pages, at(0), ALICE, Have::All);
    join(&mut pages, at(0), BOB, Have::All);
    assert_eq!(events(&mut pages), ["available", "2 2 0"]);

    // Alice reloads: she leaves, returns without blocks, and soon has all again.
    pages.leave(at(10), PAGE, ALICE);
    assert_eq!(join(&mut pages, at(20), CAROL, Have::Nothing), counts(2, 1, 0));
    pages.progress(at(30), PAGE, CAROL, Have::All);
    assert_eq!(events(&mut pages), [""; 0]);
    assert_eq!(pages.next_wake(), Some(at(1_000)));
    pages.handle_tick(at(1_000));
    assert_eq!(events(&mut pages), ["2 2 0"]);
    assert_eq!(pages.next_wake(), None);
}

#[test]
fn a_holder_that_changes_constantly_causes_two_events_per_second() {
    let mut pages = pages();
    join(&mut pages, at(0), BOB, Have::Nothing);
    join(&mut pages, at(0), ALICE, Have::All);
    for millis in 1..=500 {
        let have = if millis % 2 == 0 { Have::All } else { Have::Nothing };
        pages.progress(at(millis), PAGE, ALICE, have);
    }
    pages.progress(at(501), PAGE, ALICE, Have::Nothing);
    assert_eq!(events(&mut pages), ["available", "2 1 0", "unavailable"]);
    pages.progress(at(502), PAGE, ALICE, Have::All);
    pages.handle_tick(at(1_000));
    assert_eq!(events(&mut pages), ["available"]);
}

#[test]
fn a_page_without_peers_is_forgotten_completely() {
    let mut pages = pages();
    join(&mut pages, at(0), ALICE, Have::All);
    join(&mut pages, at(0), BOB, Have::Nothing);
    join(&mut pages, at(1), CAROL, Have::Nothing);
    events(&mut pages);
    for peer in [BOB, CAROL, ALICE] {
        pages.leave(at(2), PAGE, peer);
    }
    assert_eq!((pages.len(), pages.available(), pages.next_wake()), (0, 0, None));
    assert_eq!(events(&mut pages), ["unavailable"]);
    assert_eq!((pages.counts(PAGE), pages.peer(PAGE, ALICE)), (None, None));
    assert_eq!(join(&mut pages, at(3), BOB, Have::Nothing), counts(1, 0, 0));
}

#[test]
fn a_peer_that_joins_again_gets_the_new_address_and_counts_once() {
    let mut pages = Pages::new(PageLimits::default());
    pages.join(at(0), PAGE, ALICE, "old", Have::All).unwrap();
    assert_eq!(pages.join(at(0), PAGE, ALICE, "new", Have::Some), Ok(counts(1, 0, 1)));
    assert_eq!(pages.peer(PAGE, ALICE), Some(("new", Have::Some)));
}

#[test]
fn a_full_page_refuses_the_next_peer_and_keeps_the_others() {
    let limits = PageLimits { peers_per_page_max: 2, ..PageLimits::default() };
    let mut pages = Pages::new(limits);
    join(&mut pages, at(0), ALICE, Have::All);
    join(&mut pages, at(0), BOB, Have::All);
    let refused = pages.join(at(0), PAGE, CAROL, CAROL, Have::All);
    assert_eq!(refused, Err(JoinError::PageFull { max: 2 }));
    assert_eq!(pages.counts(PAGE), Some(counts(2, 2, 0)));
    pages.leave(at(0), PAGE, ALICE);
    assert_eq!(join(&mut pages, at(0), CAROL, Have::All), counts(2, 2, 0));
}

#[test]
fn at_the_limit_of_pages_open_ones_still_accept_peers() {
    let limits = PageLimits { pages_max: 1, ..PageLimits::default() };
    let mut pages = Pages::new(limits);
    join(&mut pages, at(0), ALICE, Have::All);
    let refused = pages.join(at(0), "bafyother", BOB, BOB, Have::All);
    assert_eq!(refused, Err(JoinError::TooManyPages { max: 1 }));
    assert_eq!(join(&mut pages, at(0), BOB, Have::Some), counts(2, 1, 1));
}

#[test]
fn changes_of_an_unknown_page_or_peer_are_ignored() {
    let mut pages = pages();
    pages.progress(at(0), PAGE, ALICE, Have::All);
    pages.leave(at(0), PAGE, ALICE);
    join(&mut pages, at(0), ALICE, Have::Some);
    pages.progress(at(0), PAGE, BOB, Have::All);
    pages.leave(at(0), PAGE, BOB);
    assert_eq!(pages.counts(PAGE), Some(counts(1, 0, 1)));
}
