//! The disk space of the files of the store, in the order of their last use.

use hashlink::LinkedHashMap;

use super::blob::block_count;
use super::block_list::HASH_BYTES;
use crate::oci::Digest;

/// A file takes whole blocks of the disk. Most file systems have blocks of this size.
const DISK_BLOCK_BYTES: u64 = 4096;

/// A blob, complete or not, or a manifest. One digest may be both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    Blob(Digest),
    Manifest(Digest),
}

/// The disk space of a blob of this size, with the list of its blocks.
pub(super) fn disk_bytes_of_blob(bytes: u64) -> u64 {
    let list = (block_count(bytes) * HASH_BYTES) as u64;
    disk_bytes(bytes).saturating_add(disk_bytes(list))
}

pub(super) const fn disk_bytes(bytes: u64) -> u64 {
    // A registry may name any size.
    bytes.div_ceil(DISK_BLOCK_BYTES).saturating_mul(DISK_BLOCK_BYTES)
}

/// The bytes that blobs and manifests take on disk, the longest unused first.
#[derive(Debug, Default)]
pub(super) struct Lru {
    sizes: LinkedHashMap<Entry, u64>,
    bytes: u64,
}

impl Lru {
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.sizes.keys()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an entry, or replaces its size. It is the last used one.
    pub(super) fn insert(&mut self, entry: Entry, bytes: u64) {
        self.bytes -= self.sizes.insert(entry, bytes).unwrap_or_default();
        self.bytes += bytes;
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.bytes -= self.sizes.remove(entry).unwrap_or_default();
    }

    pub(super) fn touch(&mut self, entry: &Entry) {
        self.sizes.to_back(entry);
    }

    /// The longest unused entry for which `is_allowed` is true.
    pub(super) fn oldest(&self, is_allowed: impl Fn(&Entry) -> bool) -> Option<Entry> {
        self.sizes.keys().find(|entry| is_allowed(entry)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_entry_is_the_oldest() {
        let entry = |name: &str| Entry::Blob(Digest::sha256(name.as_bytes()));
        let mut lru = Lru::default();
        for name in ["a", "b", "c"] {
            lru.insert(entry(name), 10);
        }
        lru.touch(&entry("a"));
        assert_eq!(lru.oldest(|_| true), Some(entry("b")));
        assert_eq!(lru.oldest(|one| *one != entry("b")), Some(entry("c")));
        lru.insert(entry("b"), 5);
        lru.remove(&entry("c"));
        lru.remove(&entry("c"));
        assert_eq!((lru.entries().count(), lru.bytes()), (2, 15));
        assert_eq!(lru.oldest(|_| true), Some(entry("a")));
    }

    #[test]
    fn a_file_takes_whole_blocks_of_the_disk() {
        let bytes = [0, 1, 4096, 4097, 1 << 20, 129 << 20].map(disk_bytes_of_blob);
        let megabyte = 1 << 20;
        let expected = [0, 8192, 8192, 12_288, megabyte + 4096, 129 * megabyte + 8192];
        assert_eq!(bytes, expected);
    }
}
