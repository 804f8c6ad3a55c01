//! Which leechers dial each other.

use super::system::Topology;
use watchfire_types::Rng;

/// How many others a leecher dials who knows only a few; as many again will have dialled it.
pub const FEW: usize = 4;

/// For each leecher the earlier ones that it dials. The seeder is known to all of them.
pub fn dials(topology: Topology, leechers: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = Rng::from_seed(seed);
    let earlier = |leecher: usize| match topology {
        Topology::Star => Vec::new(),
        Topology::Mesh => (0..leecher).collect(),
        Topology::Few => {
            let mut others: Vec<usize> = (0..leecher).collect();
            while others.len() > FEW {
                others.swap_remove(rng.index(others.len()));
            }
            others
        }
    };
    (0..leechers).map(earlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_mesh_every_pair_is_connected_once() {
        let dials = dials(Topology::Mesh, 32, 1);
        assert_eq!(dials.iter().map(Vec::len).sum::<usize>(), 32 * 31 / 2);
        assert!(dials.iter().enumerate().all(|(own, others)| others.iter().all(|one| *one < own)));
    }

    #[test]
    fn a_few_others_are_different_ones_and_the_same_for_the_same_seed() {
        let few = dials(Topology::Few, 32, 7);
        assert_eq!(few, dials(Topology::Few, 32, 7));
        assert_ne!(few, dials(Topology::Few, 32, 8));
        for (own, others) in few.iter().enumerate() {
            assert_eq!(others.len(), own.min(FEW));
            assert!(others.iter().all(|one| *one < own));
            let mut once = others.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), others.len());
        }
    }

    #[test]
    fn in_a_star_nobody_dials_but_the_seeder() {
        assert_eq!(dials(Topology::Star, 3, 1), vec![Vec::<usize>::new(); 3]);
    }
}
