//! The hashing of tables, when a collection gives memory back, and the end of a list of slots.

use std::hash::{BuildHasher, DefaultHasher, Hasher};

/// Hashes with a seed from the driver, so that clients cannot choose colliding names, and the same
/// seed replays the same run.
///
/// The standard library's own random seeding cannot be replayed.
#[derive(Clone, Copy)]
pub(crate) struct Seeded(pub u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

/// Omits the seed, to keep it out of traces.
impl std::fmt::Debug for Seeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seeded")
    }
}

/// No index: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// Whether a collection should shrink because much of its capacity is unused.
///
/// Shrink to twice the length, so that growing and shrinking in turns does not always copy.
pub(crate) fn should_shrink(len: usize, capacity: usize) -> bool {
    capacity > 4 * len + 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_hashes_differently_under_another_seed() {
        assert_eq!(Seeded(1).hash_one("lobby"), Seeded(1).hash_one("lobby"));
        assert_ne!(Seeded(1).hash_one("lobby"), Seeded(2).hash_one("lobby"));
    }
}
