use std::collections::BTreeSet;

use crate::dag_pb::{DagPbError, Node};
use crate::{Block, BlockStore, Cid, Codec};

/// What [`Walk::visit`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A block that is here; its links will be visited later.
    Here(Block),
    /// A block that the store has not. What is behind it stays unknown in this walk.
    Missing(Cid),
    /// All that can be reached was visited.
    End,
}

/// Why a walk stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// A block is not a node although its CID says so.
    #[error("{cid} is not dag-pb: {error}")]
    DagPb {
        /// The block.
        cid: Cid,
        /// What is wrong with it.
        error: DagPbError,
    },
    /// More blocks are linked than the walk was allowed to know.
    #[error("more than {max} blocks are linked")]
    TooManyBlocks {
        /// Most of them.
        max: usize,
    },
}

/// Visits every block that can be reached from a root, each once, whatever it is a part of: files,
/// directories, directories in directories.
///
/// For what a root consists of, what of it is missing, and what to serve or to forget. Nodes are
/// followed, blocks of any other codec have no links. Sizes are not looked at; [`FileReader`]
/// does that.
///
/// [`FileReader`]: crate::FileReader
///
/// ```
/// use content::{Block, BlockStore, MemoryStore, Visit, Walk};
///
/// let block = Block::raw("hi".into()).unwrap();
/// let mut store = MemoryStore::new(1024);
/// store.put(block.clone()).unwrap();
///
/// let mut walk = Walk::new(block.cid().clone(), 100);
/// assert_eq!(walk.visit(&store), Ok(Visit::Here(block)));
/// assert_eq!(walk.visit(&store), Ok(Visit::End));
/// ```
#[derive(Clone, Debug)]
pub struct Walk {
    blocks_max: usize,
    /// All that was ever put on the way, so that nothing is visited twice.
    known: BTreeSet<Cid>,
    /// What is still to be visited, the next one last.
    ahead: Vec<Cid>,
}

impl Walk {
    /// A walk from `root` over at most `blocks_max` blocks, of which it remembers the CIDs.
    pub fn new(root: Cid, blocks_max: usize) -> Self {
        Walk { blocks_max, known: BTreeSet::from([root.clone()]), ahead: vec![root] }
    }

    /// Goes on to the next block, nodes before what they link to, in the order of the links.
    pub fn visit(&mut self, store: &impl BlockStore) -> Result<Visit, WalkError> {
        let Some(cid) = self.ahead.pop() else { return Ok(Visit::End) };
        let Some(block) = Block::implied_by(&cid).or_else(|| store.get(&cid)) else {
            return Ok(Visit::Missing(cid));
        };
        if cid.codec() == Codec::DAG_PB {
            let node = Node::decode(block.bytes());
            let node = node.map_err(|error| WalkError::DagPb { cid, error })?;
            let first = self.ahead.len();
            for link in node.links {
                if self.known.contains(&link.cid) {
                    continue;
                }
                if self.known.len() == self.blocks_max {
                    return Err(WalkError::TooManyBlocks { max: self.blocks_max });
                }
                self.known.insert(link.cid.clone());
                self.ahead.push(link.cid);
            }
            self.ahead[first..].reverse();
        }
        Ok(Visit::Here(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DirectoryBuilder, FileBuilder, MemoryStore, Profile, Root};

    const PROFILE: Profile = Profile { chunk_bytes: 2, links_max: 2, ..Profile::UNIXFS_V1_2025 };

    fn put_file(store: &mut MemoryStore, text: &str) -> Root {
        let mut builder = FileBuilder::new(PROFILE).unwrap();
        builder.write(text.as_bytes(), &mut |block| store.put(block)).unwrap();
        builder.finish(&mut |block| store.put(block)).unwrap()
    }

    /// A directory of two files that share their first node.
    fn put_directory(store: &mut MemoryStore) -> Root {
        let mut builder = DirectoryBuilder::new(PROFILE);
        builder.insert("a", &put_file(store, "abcdef")).unwrap();
        builder.insert("b", &put_file(store, "abcdgh")).unwrap();
        let (block, root) = builder.finish();
        store.put(block).unwrap();
        root
    }

    fn visits(store: &MemoryStore, root: &Root) -> (Vec<Block>, Vec<Cid>) {
        let mut walk = Walk::new(root.cid.clone(), 100);
        let (mut here, mut missing) = (Vec::new(), Vec::new());
        loop {
            match walk.visit(store).unwrap() {
                Visit::Here(block) => here.push(block),
                Visit::Missing(cid) => missing.push(cid),
                Visit::End => return (here, missing),
            }
        }
    }

    #[test]
    fn every_block_is_visited_once_although_it_is_linked_twice() {
        let mut store = MemoryStore::new(1 << 20);
        let root = put_directory(&mut store);
        let (here, missing) = visits(&store, &root);
        assert_eq!((here.len(), missing.len()), (store.len(), 0));
        let leaves: Vec<_> = here.iter().filter(|block| block.bytes().len() == 2).collect();
        let leaves: Vec<_> = leaves.iter().map(|block| &block.bytes()[..]).collect();
        assert_eq!(leaves, [b"ab", b"cd", b"ef", b"gh"]);
    }

    #[test]
    fn what_is_missing_is_named_and_the_walk_goes_on_beside_it() {
        let mut store = MemoryStore::new(1 << 20);
        let root = put_directory(&mut store);
        let shared = Block::raw("ab".into()).unwrap();
        store.remove(shared.cid());
        let (here, missing) = visits(&store, &root);
        assert_eq!((here.len(), missing), (store.len(), vec![shared.cid().clone()]));
    }

    #[test]
    fn a_walk_knows_only_so_many_blocks() {
        let mut store = MemoryStore::new(1 << 20);
        let root = put_directory(&mut store);
        // The directory and its first file; the second file is one too many.
        let mut walk = Walk::new(root.cid, 2);
        assert_eq!(walk.visit(&store), Err(WalkError::TooManyBlocks { max: 2 }));
    }
}
