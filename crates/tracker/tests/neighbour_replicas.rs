//! Who is whose neighbour follows from the seed and from who is there.

use std::collections::BTreeMap;
use std::time::Duration;

use watchfire_tracker::{Change, MESH_MAX, Rings};
use watchfire_types::{Instant, PeerId, Rng};

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn rings_of(k: usize, seed: u64, peers: impl IntoIterator<Item = PeerId>) -> Rings {
    let mut rings = Rings::new(k, seed);
    peers.into_iter().for_each(|peer| drop(rings.join(peer)));
    rings
}

/// All that can be asked about where a peer is.
#[derive(Debug, PartialEq)]
struct Place {
    peer: PeerId,
    neighbours: Vec<PeerId>,
    around: Vec<Option<(PeerId, PeerId)>>,
}

fn places(rings: &Rings, k: usize) -> Vec<Place> {
    let place = |peer| {
        let around = (0..=k).map(|ring| rings.around(peer, ring)).collect();
        Place { peer, neighbours: rings.neighbours(peer), around }
    };
    rings.peers().map(place).collect()
}

/// How far counts are from all being the same; about as much as there are counts when only chance
/// is at work.
fn chi_square(counts: impl Iterator<Item = u32> + Clone) -> f64 {
    let expected = f64::from(counts.clone().sum::<u32>()) / counts.clone().count() as f64;
    counts.map(|count| (f64::from(count) - expected).powi(2) / expected).sum()
}

#[test]
fn replicas_agree_whatever_they_heard_of_first() {
    for seed in 0..200 {
        let mut rng = Rng::from_seed(seed);
        let k = 1 + rng.below(4) as usize;
        let crowd = 1 + rng.below(40);
        let mut members: Vec<PeerId> = (0..crowd).map(|_| PeerId(rng.next_u64())).collect();
        let first = rings_of(k, seed, members.iter().copied());
        for _ in 0..5 {
            rng.shuffle(&mut members);
            let mut other = Rings::new(k, seed);
            let mut passers_by = Vec::new();
            for &peer in &members {
                other.join(peer);
                match rng.below(4) {
                    0 => {
                        let stranger = PeerId(rng.next_u64());
                        other.join(stranger);
                        passers_by.push(stranger);
                    }
                    1 => drop(passers_by.pop().map(|stranger| other.leave(stranger))),
                    2 => drop((other.leave(peer), other.join(peer))),
                    _ => {
                        other.reserve(peer, at(1));
                        other.join(peer);
                    }
                }
            }
            passers_by.into_iter().for_each(|stranger| drop(other.leave(stranger)));
            assert_eq!(places(&first, k), places(&other, k), "seed {seed}");
            let mut peers: Vec<PeerId> = other.peers().collect();
            peers.sort();
            members.sort();
            assert_eq!(peers, members, "seed {seed}");
        }
    }
}

#[test]
fn who_joins_and_leaves_leaves_everything_as_it_was() {
    for others in 0..=2 * MESH_MAX as u64 {
        let mut rings = rings_of(3, others, (0..others).map(PeerId));
        let before = places(&rings, 3);
        let mut joined = rings.join(PeerId(99));
        let undone = rings.leave(PeerId(99)).into_iter().map(|change| match change {
            Change::Linked(a, b) => Change::Unlinked(a, b),
            Change::Unlinked(a, b) => Change::Linked(a, b),
        });
        let mut undone: Vec<Change> = undone.collect();
        undone.sort();
        joined.sort();
        assert_eq!((joined, before), (undone, places(&rings, 3)), "among {others}");
    }
}

#[test]
fn another_seed_makes_other_rings() {
    let rings = |seed| places(&rings_of(2, seed, (0..100).map(PeerId)), 2);
    assert_eq!(rings(1), rings(1));
    assert_ne!(rings(1), rings(2));
}

/// A ring's order, from one peer on.
fn order(rings: &Rings, ring: usize, from: PeerId) -> Vec<PeerId> {
    let after = |&peer: &PeerId| Some(rings.around(peer, ring)?.1);
    std::iter::successors(Some(from), after).take(rings.len()).collect()
}

#[test]
fn every_order_of_a_ring_is_as_likely() {
    // Ids in a sequence, and seeds too: all that is random is what the rings make of them.
    let mut times = BTreeMap::<Vec<PeerId>, u32>::new();
    for seed in 0..24_000 {
        let rings = rings_of(1, seed, (0..5).map(PeerId));
        *times.entry(order(&rings, 0, PeerId(0))).or_default() += 1;
    }
    assert_eq!(times.len(), 24, "five stand around a ring in so many orders");
    let chi_square = chi_square(times.values().copied());
    assert!(chi_square < 50.0, "{chi_square}: one in a thousand by chance");
}

#[test]
fn every_two_orders_of_two_rings_are_as_likely() {
    for pair in [[0, 1], [0, 2], [1, 2]] {
        let mut times = BTreeMap::<_, u32>::new();
        for seed in 0..36_000 {
            let rings = rings_of(3, seed, (0..4).map(PeerId));
            *times.entry(pair.map(|ring| order(&rings, ring, PeerId(0)))).or_default() += 1;
        }
        assert_eq!(times.len(), 36, "six orders on each of two rings");
        let chi_square = chi_square(times.values().copied());
        assert!(chi_square < 67.0, "{chi_square}: one in a thousand by chance");
    }
}

#[test]
fn who_is_next_on_one_ring_is_anywhere_on_another() {
    const PEERS: u64 = 20_000;
    let mut rng = Rng::from_seed(7);
    let rolled: Vec<PeerId> = (0..PEERS).map(|_| PeerId(rng.next_u64())).collect();
    let high: Vec<PeerId> = (0..PEERS).map(|id| PeerId(id << 44)).collect();
    for peers in [rolled, (0..PEERS).map(PeerId).collect(), high] {
        let rings = rings_of(3, 7, peers.iter().copied());
        for [first, second] in [[0, 1], [1, 2], [2, 0]] {
            let order = order(&rings, second, peers[0]);
            let places: BTreeMap<PeerId, u64> = order.into_iter().zip(0..).collect();
            let mut distances = [0; 20];
            for &peer in &peers {
                let (_, next) = rings.around(peer, first).unwrap();
                let distance = (places[&next] + PEERS - places[&peer]) % PEERS;
                distances[(distance * 20 / PEERS) as usize] += 1;
            }
            let chi_square = chi_square(distances.into_iter());
            assert!(chi_square < 44.0, "{chi_square}: one in a thousand by chance");
        }
    }
}
