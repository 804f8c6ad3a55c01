//! A place is kept for a peer that may come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rings::{Change, Rings};
use vocab::{Instant, PeerId};

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn rings_of(peers: u64) -> Rings {
    let mut rings = Rings::new(2, 7);
    (0..peers).for_each(|peer| drop(rings.join(PeerId(peer))));
    rings
}

/// Who stands around a peer on both rings.
fn around(rings: &Rings, peer: u64) -> [(PeerId, PeerId); 2] {
    [0, 1].map(|ring| rings.around(PeerId(peer), ring).expect("the peer has a place"))
}

#[test]
fn who_comes_back_in_time_has_the_same_neighbours() {
    let mut rings = rings_of(50);
    let before = around(&rings, 7);
    rings.vacate(PeerId(7), at(10));
    assert!(rings.is_vacant(PeerId(7)));
    assert_eq!(around(&rings, 7), before);
    assert_eq!(rings.handle_tick(at(9)), []);

    assert_eq!(rings.join(PeerId(7)), []);
    assert!(!rings.is_vacant(PeerId(7)));
    assert_eq!(rings.handle_tick(at(11)), []);
    assert_eq!(around(&rings, 7), before);
}

#[test]
fn a_newcomer_takes_nobodys_place() {
    let mut rings = rings_of(50);
    let place = around(&rings, 7);
    rings.vacate(PeerId(9), at(12));
    rings.vacate(PeerId(7), at(10));
    rings.join(PeerId(100));
    assert_eq!((rings.len(), rings.vacancies()), (51, 2));

    rings.leave(PeerId(100));
    assert_eq!(around(&rings, 7), place);
    assert_eq!(rings.expired(at(12)), Some(PeerId(7)), "the first whose time is over");
}

#[test]
fn a_place_whose_peer_does_not_come_back_is_closed_at_its_time() {
    let mut rings = rings_of(50);
    let [(left, right), _] = around(&rings, 7);
    rings.vacate(PeerId(7), at(10));
    assert_eq!(rings.next_wake(), Some(at(10)));
    assert_eq!(rings.expired(at(9)), None);

    assert_eq!(rings.expired(at(10)), Some(PeerId(7)));
    assert!(!rings.handle_tick(at(10)).is_empty());
    assert!(!rings.has(PeerId(7)));
    assert_eq!(rings.around(left, 0).unwrap().1, right);
    assert_eq!((rings.next_wake(), rings.vacancies()), (None, 0));
}

#[test]
fn a_place_vacated_again_is_kept_until_the_later_call_says() {
    let mut rings = rings_of(3);
    rings.vacate(PeerId(1), at(10));
    rings.vacate(PeerId(1), at(20));
    assert_eq!(rings.handle_tick(at(19)), []);
    assert_eq!(rings.vacancies(), 1);
    rings.vacate(PeerId(4), at(20));
    assert_eq!(rings.vacancies(), 1, "who was never there has no place to keep");
    rings.leave(PeerId(1));
    assert_eq!(rings.vacancies(), 0);
}

#[test]
fn the_last_vacancy_leaves_nothing() {
    let mut rings = rings_of(30);
    (0..30).for_each(|peer| rings.vacate(PeerId(peer), at(peer)));
    rings.handle_tick(at(30));
    assert!(rings.is_empty());
    assert_eq!(rings.vacancies(), 0);
}

/// `SplitMix64`, so that a failing seed can be replayed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % n
    }
}

#[test]
fn changes_tell_who_is_whose_neighbour_through_any_churn_with_vacancies() {
    for seed in 1..=60 {
        let mut dice = Dice(seed);
        let mut rings = Rings::new(2, seed);
        let mut links = BTreeSet::new();
        // The vacancies as a model keeps them: a peer's time, by peer.
        let mut vacant = BTreeMap::new();
        let mut present = BTreeSet::new();
        let crowd = 6 + dice.below(30);
        for now in 0..500 {
            let peer = PeerId(dice.below(crowd));
            let changes = match dice.below(5) {
                0 | 1 => {
                    vacant.remove(&peer);
                    present.insert(peer);
                    rings.join(peer)
                }
                2 => {
                    vacant.remove(&peer);
                    present.remove(&peer);
                    rings.leave(peer)
                }
                3 => {
                    let until = at(now + dice.below(40));
                    if present.remove(&peer) || vacant.contains_key(&peer) {
                        vacant.insert(peer, until);
                    }
                    rings.vacate(peer, until);
                    Vec::new()
                }
                _ => {
                    vacant.retain(|_, until| *until > at(now));
                    rings.handle_tick(at(now))
                }
            };
            for change in changes {
                let is_news = match change {
                    Change::Linked(a, b) => links.insert((a, b)),
                    Change::Unlinked(a, b) => links.remove(&(a, b)),
                };
                assert!(is_news, "seed {seed}: {change:?} is no news");
            }
            check(&rings, &links, &vacant, &present, seed);
        }
    }
}

fn check(
    rings: &Rings,
    links: &BTreeSet<(PeerId, PeerId)>,
    vacant: &BTreeMap<PeerId, Instant>,
    present: &BTreeSet<PeerId>,
    seed: u64,
) {
    assert_eq!(rings.vacancies(), vacant.len(), "seed {seed}");
    assert_eq!(rings.len(), vacant.len() + present.len(), "seed {seed}");
    assert_eq!(rings.next_wake(), vacant.values().min().copied(), "seed {seed}");
    let mut said = BTreeSet::new();
    for &peer in present.iter().chain(vacant.keys()) {
        assert!(rings.has(peer), "seed {seed}: {peer:?} lost its place");
        assert_eq!(rings.is_vacant(peer), vacant.contains_key(&peer), "seed {seed}");
        for other in rings.neighbours(peer) {
            said.insert((peer.min(other), peer.max(other)));
        }
        for ring in 0..2 {
            let (before, after) = rings.around(peer, ring).expect("a place");
            assert_eq!(rings.around(before, ring).unwrap().1, peer, "seed {seed}");
            assert_eq!(rings.around(after, ring).unwrap().0, peer, "seed {seed}");
        }
    }
    assert_eq!(&said, links, "seed {seed}");
}
