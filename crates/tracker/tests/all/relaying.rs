//! Relay budgets, and the selection of holders.

use std::collections::BTreeMap;
use std::time::Duration;

use watchfire_tracker::{Have, PageLimits, Pages, RelayRefusal};
use watchfire_types::{PeerId, Rng};

use crate::{ALICE, BOB, CAROL, PAGE, at};

/// Alice has all, Bob some, Carol nothing. A page relays 4 kB a second, a peer 2 kB.
fn pages() -> Pages<&'static str> {
    let mut pages = Pages::new(PageLimits {
        relay_bytes_per_second_per_page: 4_000,
        relay_bytes_per_second_per_peer: 2_000,
        relay_burst: Duration::from_secs(1),
        ..PageLimits::default()
    });
    pages.join(at(0), PAGE, ALICE, "alice", Have::All).unwrap();
    pages.join(at(0), PAGE, BOB, "bob", Have::Some).unwrap();
    pages.join(at(0), PAGE, CAROL, "carol", Have::Nothing).unwrap();
    pages
}

#[test]
fn bytes_are_sent_to_the_address_of_their_destination() {
    let mut pages = pages();
    assert_eq!(pages.relay(at(0), PAGE, ALICE, BOB, 1_000), Ok("bob"));
    assert_eq!(pages.relay(at(0), PAGE, BOB, ALICE, 1_000), Ok("alice"));
}

#[test]
fn peers_outside_the_page_neither_send_nor_receive() {
    let mut pages = pages();
    let refused = Err(RelayRefusal::NoSuchPeer);
    assert_eq!(pages.relay(at(0), PAGE, ALICE, PeerId(9), 1), refused);
    assert_eq!(pages.relay(at(0), PAGE, PeerId(9), ALICE, 1), refused);
    assert_eq!(pages.relay(at(0), "bafyother", ALICE, BOB, 1), refused);
    assert_eq!(pages.relay(at(0), PAGE, ALICE, ALICE, 1), refused);
    pages.leave(at(0), PAGE, BOB);
    assert_eq!(pages.relay(at(0), PAGE, ALICE, BOB, 1), refused);
}

#[test]
fn a_peer_over_its_budget_gets_the_time_to_wait() {
    let mut pages = pages();
    assert_eq!(pages.relay(at(0), PAGE, ALICE, BOB, 2_000), Ok("bob"));
    let retry_after = Duration::from_millis(500);
    let refused = Err(RelayRefusal::PeerBudget { retry_after });
    assert_eq!(pages.relay(at(0), PAGE, ALICE, BOB, 1_000), refused);
    assert_eq!(pages.relay(at(499), PAGE, BOB, ALICE, 1_000), Ok("alice"));
    assert_eq!(pages.relay(at(500), PAGE, ALICE, BOB, 1_000), Ok("bob"));
}

#[test]
fn peers_within_their_own_budgets_share_the_pages_budget() {
    let mut pages = pages();
    assert_eq!(pages.relay(at(0), PAGE, ALICE, BOB, 2_000), Ok("bob"));
    assert_eq!(pages.relay(at(0), PAGE, BOB, CAROL, 2_000), Ok("carol"));
    let retry_after = Duration::from_millis(500);
    let refused = Err(RelayRefusal::PageBudget { retry_after });
    assert_eq!(pages.relay(at(0), PAGE, CAROL, ALICE, 2_000), refused);
    assert_eq!(pages.relay(at(500), PAGE, CAROL, ALICE, 2_000), Ok("alice"));
}

#[test]
fn a_refused_frame_is_not_charged() {
    let mut pages = pages();
    pages.relay(at(0), PAGE, ALICE, BOB, 2_000).unwrap();
    for _ in 0..100 {
        pages.relay(at(0), PAGE, ALICE, BOB, 1_000).unwrap_err();
    }
    assert_eq!(pages.relay(at(0), PAGE, BOB, ALICE, 1_000), Ok("alice"));
    assert_eq!(pages.relay(at(500), PAGE, ALICE, BOB, 1_000), Ok("bob"));
}

#[test]
fn holders_come_before_partial_peers_and_peers_without_blocks_are_excluded() {
    let pages = pages();
    let holders = [(ALICE, Have::All), (BOB, Have::Some)];
    assert_eq!(pages.peers_with_blocks(PAGE, CAROL, 9, 0), holders);
    assert_eq!(pages.peers_with_blocks(PAGE, CAROL, 1, 0), holders[..1]);
    assert_eq!(pages.peers_with_blocks(PAGE, ALICE, 9, 0), holders[1..]);
    assert_eq!(pages.peers_with_blocks("bafyother", ALICE, 9, 0), []);
}

#[test]
fn requests_are_spread_over_the_holders() {
    let mut pages = Pages::new(PageLimits::default());
    for holder in 0..10 {
        pages.join(at(0), PAGE, PeerId(holder), (), Have::All).unwrap();
    }
    let mut named = BTreeMap::<PeerId, u32>::new();
    for seed in 0..1_000 {
        let [(holder, _)] = pages.peers_with_blocks(PAGE, PeerId(99), 1, seed)[..] else {
            panic!()
        };
        *named.entry(holder).or_default() += 1;
    }
    assert_eq!(named.len(), 10);
    assert!(named.values().all(|times| (60..140).contains(times)), "{named:?}");
}

#[test]
fn the_order_of_peers_is_correct_after_every_change() {
    let mut rng = Rng::from_seed(1);
    let mut pages = Pages::new(PageLimits::default());
    let mut model = BTreeMap::new();
    for step in 0..20_000 {
        let (peer, have) =
            (PeerId(rng.below(40)), [Have::Nothing, Have::Some, Have::All][rng.below(3) as usize]);
        match rng.below(3) {
            0 => {
                pages.join(at(step), PAGE, peer, peer, have).unwrap();
                model.insert(peer, have);
            }
            1 => {
                pages.progress(at(step), PAGE, peer, have);
                model.entry(peer).and_modify(|known| *known = have);
            }
            _ => {
                pages.leave(at(step), PAGE, peer);
                model.remove(&peer);
            }
        }
        pages.handle_tick(at(step));
        while pages.poll_output().is_some() {}
        for peer in (0..40).map(PeerId) {
            let expected = model.get(&peer).map(|&have| (peer, have));
            assert_eq!(pages.peer(PAGE, peer), expected, "step {step}");
        }
        let mut named = pages.peers_with_blocks(PAGE, PeerId(99), 99, step);
        assert!(named.is_sorted_by_key(|(_, have)| std::cmp::Reverse(*have)), "{named:?}");
        named.sort();
        let holders = model.iter().filter(|(_, have)| **have != Have::Nothing);
        assert!(named.into_iter().eq(holders.map(|(&peer, &have)| (peer, have))));
        let is_available = model.values().any(|have| *have == Have::All);
        assert_eq!(pages.available(), usize::from(is_available));
        assert_eq!(pages.counts(PAGE).map_or(0, |counts| counts.watching), model.len());
    }
}
