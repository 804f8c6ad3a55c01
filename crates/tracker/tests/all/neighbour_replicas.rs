//! Neighbours depend only on the seed and the set of peers.

use std::collections::BTreeMap;
use std::time::Duration;

use watchfire_tracker::{Change, FULL_MESH_PEERS_MAX, Rings};
use watchfire_types::{Instant, PeerId, Rng};

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn rings_of(k: usize, seed: u64, peers: impl IntoIterator<Item = PeerId>) -> Rings {
    let mut rings = Rings::new(k, seed);
    peers.into_iter().for_each(|peer| drop(rings.join(peer)));
    rings
}

/// The neighbours of a peer, overall and by ring.
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

/// A measure of how uneven the counts are; for random counts, about the number of counts.
fn chi_square(counts: impl Iterator<Item = u32> + Clone) -> f64 {
    let expected = f64::from(counts.clone().sum::<u32>()) / counts.clone().count() as f64;
    counts.map(|count| (f64::from(count) - expected).powi(2) / expected).sum()
}

#[test]
fn replicas_agree_in_any_order_of_joins_and_leaves() {
    for seed in 0..200 {
        let mut rng = Rng::from_seed(seed);
        let k = 1 + rng.below(4) as usize;
        let crowd = 1 + rng.below(40);
        let mut members: Vec<PeerId> = (0..crowd).map(|_| PeerId(rng.next_u64())).collect();
        let first = rings_of(k, seed, members.iter().copied());
        for _ in 0..5 {
            rng.shuffle(&mut members);
            let mut other = Rings::new(k, seed);
            let mut temporary = Vec::new();
            for &peer in &members {
                other.join(peer);
                match rng.below(4) {
                    0 => {
                        let other_peer = PeerId(rng.next_u64());
                        other.join(other_peer);
                        temporary.push(other_peer);
                    }
                    1 => drop(temporary.pop().map(|other_peer| other.leave(other_peer))),
                    2 => drop((other.leave(peer), other.join(peer))),
                    _ => {
                        other.reserve(peer, at(1));
                        other.join(peer);
                    }
                }
            }
            temporary.into_iter().for_each(|other_peer| drop(other.leave(other_peer)));
            assert_eq!(places(&first, k), places(&other, k), "seed {seed}");
            let mut peers: Vec<PeerId> = other.peers().collect();
            peers.sort();
            members.sort();
            assert_eq!(peers, members, "seed {seed}");
        }
    }
}

#[test]
fn a_leave_undoes_the_changes_of_a_join() {
    for others in 0..=2 * FULL_MESH_PEERS_MAX as u64 {
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
fn another_seed_gives_other_rings() {
    let rings = |seed| places(&rings_of(2, seed, (0..100).map(PeerId)), 2);
    assert_eq!(rings(1), rings(1));
    assert_ne!(rings(1), rings(2));
}

/// A ring's order, starting with one peer.
fn order(rings: &Rings, ring: usize, from: PeerId) -> Vec<PeerId> {
    let after = |&peer: &PeerId| Some(rings.around(peer, ring)?.1);
    std::iter::successors(Some(from), after).take(rings.len()).collect()
}

#[test]
fn all_orders_of_a_ring_are_equally_likely() {
    // Ids and seeds are sequences, so that all randomness comes from the rings.
    let mut times = BTreeMap::<Vec<PeerId>, u32>::new();
    for seed in 0..24_000 {
        let rings = rings_of(1, seed, (0..5).map(PeerId));
        *times.entry(order(&rings, 0, PeerId(0))).or_default() += 1;
    }
    assert_eq!(times.len(), 24, "five peers have 24 orders around a ring");
    let chi_square = chi_square(times.values().copied());
    assert!(chi_square < 50.0, "{chi_square}: a chance of one in a thousand");
}

#[test]
fn all_pairs_of_orders_of_two_rings_are_equally_likely() {
    for pair in [[0, 1], [0, 2], [1, 2]] {
        let mut times = BTreeMap::<_, u32>::new();
        for seed in 0..36_000 {
            let rings = rings_of(3, seed, (0..4).map(PeerId));
            *times.entry(pair.map(|ring| order(&rings, ring, PeerId(0)))).or_default() += 1;
        }
        assert_eq!(times.len(), 36, "six orders on each of two rings");
        let chi_square = chi_square(times.values().copied());
        assert!(chi_square < 67.0, "{chi_square}: a chance of one in a thousand");
    }
}

#[test]
fn neighbours_on_one_ring_are_anywhere_on_another() {
    const PEERS: u64 = 20_000;
    let mut rng = Rng::from_seed(7);
    let random: Vec<PeerId> = (0..PEERS).map(|_| PeerId(rng.next_u64())).collect();
    let high: Vec<PeerId> = (0..PEERS).map(|id| PeerId(id << 44)).collect();
    for peers in [random, (0..PEERS).map(PeerId).collect(), high] {
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
            assert!(chi_square < 44.0, "{chi_square}: a chance of one in a thousand");
        }
    }
}
