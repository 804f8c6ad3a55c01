//! The content that IPFS peers may get, by the hashes of its blocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;
use watchfire_content::{Block, Cid, Root};
use watchfire_store::ReadBlocks;

use super::{Content, Place, Places};
use crate::store::{Blobs, BlockHash, hash_of};

#[derive(Debug, Default)]
struct State {
    roots: BTreeMap<Content, Root>,
    /// Several contents may have one block.
    places: HashMap<BlockHash, BTreeMap<Content, Place>>,
}

/// The leaves of blobs are read from the files of the store. So the leaves of a blob that has left the store are not
/// served even before it is removed here.
#[derive(Debug)]
pub(super) struct Published {
    blobs: Arc<Blobs>,
    state: RwLock<State>,
}

impl Published {
    pub(super) fn new(blobs: Arc<Blobs>) -> Self {
        Published { blobs, state: RwLock::default() }
    }

    pub(super) fn insert(&self, content: Content, (root, places): (Root, Places)) {
        let mut state = self.state.write();
        for (hash, place) in places {
            state.places.entry(hash).or_default().insert(content.clone(), place);
        }
        state.roots.insert(content, root);
    }

    /// Removes contents, and returns those that were there. It looks at all blocks once.
    pub(super) fn remove(&self, contents: &BTreeSet<Content>) -> Vec<(Content, Root)> {
        let mut state = self.state.write();
        state.places.retain(|_, places| {
            places.retain(|content, _| !contents.contains(content));
            !places.is_empty()
        });
        contents.iter().filter_map(|content| state.roots.remove_entry(content)).collect()
    }

    pub(super) fn root(&self, content: &Content) -> Option<Root> {
        self.state.read().roots.get(content).cloned()
    }

    pub(super) fn roots(&self) -> Vec<(Content, Root)> {
        let state = self.state.read();
        state.roots.iter().map(|(content, root)| (content.clone(), root.clone())).collect()
    }
}

impl ReadBlocks for Published {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, watchfire_store::StoreError> {
        let Some(hash) = hash_of(cid) else { return Ok(None) };
        let places = self.state.read().places.get(&hash).cloned().unwrap_or_default();
        let read = |place: &Place| match place {
            Place::Node(block) => Some(block.clone()),
            Place::Leaf { digest, block, .. } => {
                let blob = self.blobs.complete(digest).ok()??;
                let is_same = blob.block_hash(*block) == Some(hash);
                self.blobs.read(&blob, *block).ok()?.filter(|_| is_same)
            }
        };
        Ok(places.values().find_map(read))
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let state = self.state.read();
        Some(match state.places.get(&hash_of(cid)?)?.values().next()? {
            Place::Leaf { len, .. } => *len as u64,
            Place::Node(block) => block.bytes().len() as u64,
        })
    }
}
