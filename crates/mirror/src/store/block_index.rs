//! Finds the blocks of all blobs by their hashes, to send them to other hosts.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use parking_lot::RwLock;
use watchfire_content::{Checksums, Cid, Codec, Multihash};

use super::block_list::BlockHash;
use crate::oci::Digest;

/// The places of all blocks. An entry may be out of date: its blob was removed since.
#[derive(Debug)]
pub struct BlockIndex {
    places: RwLock<HashMap<BlockHash, BlockPlace>>,
    /// Recognises blocks that this process has hashed before.
    pub(super) checksums: Checksums,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    pub digest: Arc<Digest>,
    pub block: u32,
    pub len: u32,
}

impl Default for BlockIndex {
    fn default() -> Self {
        // An unknown seed: nobody can make other bytes with the checksum of a block.
        let seed = RandomState::new().build_hasher().finish();
        BlockIndex { places: RwLock::default(), checksums: Checksums::new(seed) }
    }
}

impl BlockIndex {
    pub(super) fn insert(&self, hash: BlockHash, digest: &Arc<Digest>, block: usize, len: usize) {
        let number = |value: usize| u32::try_from(value).expect("a blob has fewer blocks");
        let place = BlockPlace { digest: digest.clone(), block: number(block), len: number(len) };
        self.places.write().insert(hash, place);
    }

    pub fn get(&self, hash: &BlockHash) -> Option<BlockPlace> {
        self.places.read().get(hash).cloned()
    }

    pub(super) fn remove(&self, hash: &BlockHash) {
        self.places.write().remove(hash);
    }
}

pub fn cid_of(hash: BlockHash) -> Cid {
    Cid::v1(Codec::RAW, Multihash::Sha2_256(hash))
}

/// The hash in a CID; `None` if it is of another kind.
pub fn hash_of(cid: &Cid) -> Option<BlockHash> {
    match cid.hash() {
        Multihash::Sha2_256(hash) => Some(*hash),
        Multihash::Identity(_) => None,
    }
}
