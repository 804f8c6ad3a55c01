//! Seeds that all processes of a server have in common.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The base of a server's seeds, equal in all its processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(pub u64);

impl From<&[u8; 32]> for Seed {
    fn from(secret: &[u8; 32]) -> Self {
        let mut hasher = DefaultHasher::new();
        secret.hash(&mut hasher);
        Seed(hasher.finish())
    }
}

impl Seed {
    /// The seed for one purpose: equal in all processes, and different for each name.
    pub fn of(self, name: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.0, name).hash(&mut hasher);
        hasher.finish()
    }
}
