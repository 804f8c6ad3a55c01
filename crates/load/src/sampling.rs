//! Random choices of a scenario. All of them follow from its seed.

use watchfire_types::Rng;

/// A number from the exponential distribution with mean 1: the waits of a Poisson process.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.fraction()).ln()
}

/// The index of one of several entries, chosen by weight. The sum of the weights must not be 0.
pub(crate) fn weighted(rng: &mut Rng, weights: impl Iterator<Item = f64> + Clone) -> usize {
    let mut left = rng.fraction() * weights.clone().sum::<f64>();
    let mut chosen = 0;
    for (index, weight) in weights.enumerate() {
        if weight > 0.0 {
            chosen = index;
            if left < weight {
                break;
            }
            left -= weight;
        }
    }
    chosen
}

/// The seed for one purpose of one user. It is computed again when needed, so that no user has to
/// store it.
pub(crate) fn seed_for(seed: u64, user: u64, purpose: u64) -> u64 {
    let mut rng = Rng::from_seed(seed ^ user.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let mixed = rng.next_u64() ^ purpose.wrapping_mul(0xa076_1d64_78bd_642f);
    Rng::from_seed(mixed).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_of_a_user_has_a_seed_of_its_own() {
        assert_eq!(seed_for(1, 2, 3), seed_for(1, 2, 3));
        assert_ne!(seed_for(1, 2, 3), seed_for(1, 3, 2));
    }

    #[test]
    fn entries_are_chosen_in_proportion_to_their_weights() {
        let mut rng = Rng::from_seed(1);
        let mut chosen = [0_u32; 3];
        for _ in 0..10_000 {
            chosen[weighted(&mut rng, [1.0, 0.0, 3.0].into_iter())] += 1;
        }
        assert_eq!(chosen[1], 0);
        assert!((2300..2700).contains(&chosen[0]), "{chosen:?}");
    }

    #[test]
    fn exponential_numbers_have_a_mean_of_one() {
        let mut rng = Rng::from_seed(1);
        let mean = (0..10_000).map(|_| exponential(&mut rng)).sum::<f64>() / 10_000.0;
        assert!((0.95..1.05).contains(&mean), "{mean}");
    }
}
