//! The sizes of blobs, in the order of their last use.

use hashlink::LinkedHashMap;

use crate::oci::Digest;

/// The sizes of blobs, the longest unused first.
#[derive(Debug, Default)]
pub(super) struct Lru {
    sizes: LinkedHashMap<Digest, u64>,
    bytes: u64,
}

impl Lru {
    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn digests(&self) -> Vec<Digest> {
        self.sizes.keys().cloned().collect()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a blob, or replaces its size. It is the last used one.
    pub(super) fn insert(&mut self, digest: Digest, bytes: u64) {
        self.bytes -= self.sizes.insert(digest, bytes).unwrap_or_default();
        self.bytes += bytes;
    }

    pub(super) fn remove(&mut self, digest: &Digest) {
        self.bytes -= self.sizes.remove(digest).unwrap_or_default();
    }

    pub(super) fn touch(&mut self, digest: &Digest) {
        self.sizes.to_back(digest);
    }

    /// The longest unused blob for which `is_allowed` is true.
    pub(super) fn oldest(&self, is_allowed: impl Fn(&Digest) -> bool) -> Option<Digest> {
        self.sizes.keys().find(|digest| is_allowed(digest)).cloned()
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
