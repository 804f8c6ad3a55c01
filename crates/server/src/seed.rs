//! Seeds that all processes of a server have in common.

use watchfire_types::FixedHash;

/// The base of a server's seeds, equal in all its processes, also of different releases.
#[derive(Clone, Copy, Debug)]
pub struct Seed(pub u64);

impl From<&[u8; 32]> for Seed {
    fn from(secret: &[u8; 32]) -> Self {
        Seed(FixedHash::new(0).bytes(secret).finish())
    }
}

impl Seed {
    /// The seed for one purpose: equal in all processes, and different for each name.
    pub fn of(self, name: &str) -> u64 {
        FixedHash::new(self.0).text(name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes of two builds compute the same neighbours during a rolling upgrade.
    #[test]
    fn the_seeds_of_a_secret_never_change() {
        let seed = Seed::from(&[7; 32]);
        assert_eq!(seed.0, SEED);
        assert_eq!(seed.of("bafy"), SEED_OF_BAFY);
    }

    const SEED: u64 = 0xab2a_8808_13c6_16c9;
    const SEED_OF_BAFY: u64 = 0x4e6b_b1b1_7161_7a9e;
}
