//! A bijection that spreads the bits of a number: the finaliser of `SplitMix64`. Not for secrets.

const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// Spreads all bits of a number over all bits. The function is a bijection.
pub(crate) const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(FACTORS[0]);
    bits = (bits ^ (bits >> 27)).wrapping_mul(FACTORS[1]);
    bits ^ (bits >> 31)
}

/// The inverse of [`mix`].
pub(crate) const fn unmix(mut bits: u64) -> u64 {
    bits = unshift(bits, 31).wrapping_mul(inverse(FACTORS[1]));
    bits = unshift(bits, 27).wrapping_mul(inverse(FACTORS[0]));
    unshift(bits, 30)
}

/// The inverse of `bits ^ (bits >> shift)`, for a shift of at least a third of 64, less one.
const fn unshift(bits: u64, shift: u32) -> u64 {
    bits ^ (bits >> shift) ^ (bits >> (2 * shift))
}

/// The inverse of a multiplication modulo 2⁶⁴. An odd factor is its own inverse in the lowest three
/// bits, and each of Newton's steps doubles the number of correct bits.
const fn inverse(factor: u64) -> u64 {
    let mut inverse = factor;
    let mut correct_bits = 3;
    while correct_bits < u64::BITS {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(inverse)));
        correct_bits *= 2;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_can_be_inverted() {
        let powers = (0..64).map(|bit| 1_u64 << bit);
        let edges = powers.flat_map(|power| [power, power - 1, !power]);
        for bits in edges.chain((0..10_000).map(mix)) {
            assert_eq!(unmix(mix(bits)), bits);
            assert_eq!(mix(unmix(bits)), bits);
        }
    }

    #[test]
    fn one_flipped_bit_flips_about_half_of_all_bits() {
        for bit in 0..64 {
            let flipped = (0..1_000).map(|n| (mix(n) ^ mix(n ^ 1 << bit)).count_ones());
            let mean = f64::from(flipped.sum::<u32>()) / 1_000.0;
            assert!((31.0..33.0).contains(&mean), "bit {bit} flips {mean} bits");
        }
    }
}
