//! Reservations for peers that may return.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watchfire_tracker::{Change, Rings};
use watchfire_types::{Instant, PeerId, Rng};

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn rings_of(peers: u64) -> Rings {
    let mut rings = Rings::new(2, 7);
    (0..peers).for_each(|peer| drop(rings.join(PeerId(peer))));
    rings
}

fn around(rings: &Rings, peer: u64) -> [(PeerId, PeerId); 2] {
    [0, 1].map(|ring| rings.around(PeerId(peer), ring).expect("the peer has a place"))
}

#[test]
fn a_peer_that_returns_in_time_has_the_same_neighbours() {
    let mut rings = rings_of(50);
    let before = around(&rings, 7);
    rings.reserve(PeerId(7), at(10));
    assert!(rings.is_reserved(PeerId(7)));
    assert_eq!(around(&rings, 7), before);
    assert_eq!(rings.handle_tick(at(9)), []);

    assert_eq!(rings.join(PeerId(7)), []);
    assert!(!rings.is_reserved(PeerId(7)));
    assert_eq!(rings.handle_tick(at(11)), []);
    assert_eq!(around(&rings, 7), before);
}

#[test]
fn a_new_peer_takes_no_reserved_place() {
    let mut rings = rings_of(50);
    let place = around(&rings, 7);
    rings.reserve(PeerId(9), at(12));
    rings.reserve(PeerId(7), at(10));
    rings.join(PeerId(100));
    assert_eq!((rings.len(), rings.reservations()), (51, 2));

    rings.leave(PeerId(100));
    assert_eq!(around(&rings, 7), place);
    assert_eq!(rings.expired(at(12)), Some(PeerId(7)), "the one that expired first");
}

#[test]
fn an_expired_reservation_is_removed() {
    let mut rings = rings_of(50);
    let [(left, right), _] = around(&rings, 7);
    rings.reserve(PeerId(7), at(10));
    assert_eq!(rings.next_wake(), Some(at(10)));
    assert_eq!(rings.expired(at(9)), None);

    assert_eq!(rings.expired(at(10)), Some(PeerId(7)));
    assert!(!rings.handle_tick(at(10)).is_empty());
    assert!(!rings.has(PeerId(7)));
    assert_eq!(rings.around(left, 0).unwrap().1, right);
    assert_eq!((rings.next_wake(), rings.reservations()), (None, 0));
}

#[test]
fn a_second_reservation_replaces_the_time_of_the_first() {
    let mut rings = rings_of(3);
    rings.reserve(PeerId(1), at(10));
    rings.reserve(PeerId(1), at(20));
    assert_eq!(rings.handle_tick(at(19)), []);
    assert_eq!(rings.reservations(), 1);
    rings.reserve(PeerId(4), at(20));
    assert_eq!(rings.reservations(), 1, "an unknown peer has no place to reserve");
    rings.leave(PeerId(1));
    assert_eq!(rings.reservations(), 0);
}

#[test]
fn the_last_reservation_leaves_no_state_behind() {
    let mut rings = rings_of(30);
    (0..30).for_each(|peer| rings.reserve(PeerId(peer), at(peer)));
    rings.handle_tick(at(30));
    assert!(rings.is_empty());
    assert_eq!(rings.reservations(), 0);
}

#[test]
fn changes_describe_the_neighbours_through_any_churn_with_reservations() {
    for seed in 1..=60 {
        let mut rng = Rng::from_seed(seed);
        let mut rings = Rings::new(2, seed);
        let mut links = BTreeSet::new();
        // A model of the reservations: the expiry time by peer.
        let mut reserved = BTreeMap::new();
        let mut present = BTreeSet::new();
        let crowd = 6 + rng.below(30);
        for now in 0..500 {
            let peer = PeerId(rng.below(crowd));
            let changes = match rng.below(5) {
                0 | 1 => {
                    reserved.remove(&peer);
                    present.insert(peer);
                    rings.join(peer)
                }
                2 => {
                    reserved.remove(&peer);
                    present.remove(&peer);
                    rings.leave(peer)
                }
                3 => {
                    let until = at(now + rng.below(40));
                    if present.remove(&peer) || reserved.contains_key(&peer) {
                        reserved.insert(peer, until);
                    }
                    rings.reserve(peer, until);
                    Vec::new()
                }
                _ => {
                    reserved.retain(|_, until| *until > at(now));
                    rings.handle_tick(at(now))
                }
            };
            for change in changes {
                let is_change = match change {
                    Change::Linked(a, b) => links.insert((a, b)),
                    Change::Unlinked(a, b) => links.remove(&(a, b)),
                };
                assert!(is_change, "seed {seed}: {change:?} changes nothing");
            }
            check(&rings, &links, &reserved, &present, seed);
        }
    }
}

fn check(
    rings: &Rings,
    links: &BTreeSet<(PeerId, PeerId)>,
    reserved: &BTreeMap<PeerId, Instant>,
    present: &BTreeSet<PeerId>,
    seed: u64,
) {
    assert_eq!(rings.reservations(), reserved.len(), "seed {seed}");
    assert_eq!(rings.len(), reserved.len() + present.len(), "seed {seed}");
    assert_eq!(rings.next_wake(), reserved.values().min().copied(), "seed {seed}");
    let mut pairs = BTreeSet::new();
    for &peer in present.iter().chain(reserved.keys()) {
        assert!(rings.has(peer), "seed {seed}: {peer:?} lost its place");
        assert_eq!(rings.is_reserved(peer), reserved.contains_key(&peer), "seed {seed}");
        for other in rings.neighbours(peer) {
            pairs.insert((peer.min(other), peer.max(other)));
        }
        for ring in 0..2 {
            let (before, after) = rings.around(peer, ring).expect("a place");
            assert_eq!(rings.around(before, ring).unwrap().1, peer, "seed {seed}");
            assert_eq!(rings.around(after, ring).unwrap().0, peer, "seed {seed}");
        }
    }
    assert_eq!(&pairs, links, "seed {seed}");
}
