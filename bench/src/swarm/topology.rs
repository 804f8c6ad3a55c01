//! Which leechers dial each other.

use super::system::Topology;
use watchfire_types::Rng;

/// Other leechers that a leecher dials in the topology `Few`; on average as many dial it.
pub const FEW: usize = 4;

/// For each leecher, the earlier leechers that it dials. All know the seeder.
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
    fn few_dials_distinct_leechers_depending_on_the_seed() {
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
    fn in_a_star_leechers_do_not_dial_each_other() {
        assert_eq!(dials(Topology::Star, 3, 1), vec![Vec::<usize>::new(); 3]);
    }
}
