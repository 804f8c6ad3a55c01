//! Seeds that all processes of a server have in common.

use std::hash::{DefaultHasher, Hash, Hasher};

/// What all processes of a server mix their seeds from.
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
    /// The seed for one thing: the same in all processes, and unlike that of any other thing.
    pub fn of(self, name: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.0, name).hash(&mut hasher);
        hasher.finish()
    }
}
