//! The sizes of blobs, in the order of their last use.

use std::collections::{BTreeMap, HashMap};

use crate::oci::Digest;

/// The sizes of blobs, in the order of their last use.
#[derive(Debug, Default)]
pub(super) struct Lru {
    by_digest: HashMap<Digest, Entry>,
    by_use: BTreeMap<u64, Digest>,
    bytes: u64,
    /// The number of the next use.
    next_use: u64,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    last_use: u64,
}

impl Lru {
    pub(super) fn len(&self) -> usize {
        self.by_digest.len()
    }

    pub(super) fn digests(&self) -> Vec<Digest> {
        self.by_digest.keys().cloned().collect()
    }

    /// The size of all blobs.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a blob, or replaces its size. It is the last used one.
    pub(super) fn insert(&mut self, digest: Digest, bytes: u64) {
        self.remove(&digest);
        self.bytes += bytes;
        let last_use = self.next_use;
        self.next_use += 1;
        self.by_use.insert(last_use, digest.clone());
        self.by_digest.insert(digest, Entry { bytes, last_use });
    }

    pub(super) fn remove(&mut self, digest: &Digest) {
        if let Some(entry) = self.by_digest.remove(digest) {
            self.by_use.remove(&entry.last_use);
            self.bytes -= entry.bytes;
        }
    }

    /// Notes a use.
    pub(super) fn touch(&mut self, digest: &Digest) {
        if let Some(bytes) = self.by_digest.get(digest).map(|entry| entry.bytes) {
            self.insert(digest.clone(), bytes);
        }
    }

    /// The longest unused blob for which `is_allowed` is true.
    pub(super) fn oldest(&self, is_allowed: impl Fn(&Digest) -> bool) -> Option<Digest> {
        self.by_use.values().find(|digest| is_allowed(digest)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_blob_is_the_oldest() {
        let digest = |name: &str| Digest::sha256(name.as_bytes());
        let mut lru = Lru::default();
        for name in ["a", "b", "c"] {
            lru.insert(digest(name), 10);
        }
        lru.touch(&digest("a"));
        assert_eq!(lru.oldest(|_| true), Some(digest("b")));
        assert_eq!(lru.oldest(|one| *one != digest("b")), Some(digest("c")));
        lru.insert(digest("b"), 5);
        lru.remove(&digest("c"));
        lru.remove(&digest("c"));
        assert_eq!((lru.len(), lru.bytes()), (2, 15));
        assert_eq!(lru.oldest(|_| true), Some(digest("a")));
    }
}
