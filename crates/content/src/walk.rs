use std::collections::BTreeMap;

use crate::dag_pb::{DagPbError, Node};
use crate::{Block, BlockStore, Cid, Codec};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkStep {
    /// A block that is stored. Its links are visited later.
    Block(Block),
    /// A block that is not stored. The walk does not visit the blocks below it.
    Missing(Cid),
    /// All blocks were visited.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    #[error("{cid} is not a dag-pb node: {error}")]
    DagPb { cid: Cid, error: DagPbError },
    #[error("the DAG has more than {max} blocks, which is the limit")]
    TooManyBlocks { max: usize },
}

/// Visits every block below a root once, through files and nested directories.
///
/// A walk finds the blocks of a root, and which of them are missing. A node comes before the blocks
/// that it links to, and links are followed in their order. Blocks of other codecs have no links.
///
/// A block that is linked several times is visited once, at its first position. Time grows with the
/// bytes of the blocks and memory with their number, up to the limit. Declared sizes are not
/// checked; [`FileReader`] checks them.
///
/// [`FileReader`]: crate::FileReader
///
/// ```
/// use watchfire_content::{Block, BlockStore, MemoryStore, WalkStep, Walk};
///
/// let block = Block::raw("hi".into()).unwrap();
/// let mut store = MemoryStore::new(1024);
/// store.put(block.clone()).unwrap();
///
/// let mut walk = Walk::new(block.cid().clone(), 100);
/// assert_eq!(walk.step(&store), Ok(WalkStep::Block(block)));
/// assert_eq!(walk.step(&store), Ok(WalkStep::End));
/// ```
#[derive(Clone, Debug)]
pub struct Walk {
    blocks_max: usize,
    /// All known blocks with their positions in `pending`; `None` for visited blocks.
    known: BTreeMap<Cid, Option<usize>>,
    /// The blocks to visit, the next one last. The last entry is never a gap. A block that is
    /// linked again moves to the end and leaves a gap.
    pending: Vec<Option<Cid>>,
    gaps: usize,
}

impl Walk {
    /// Creates a walk from `root` over at most `blocks_max` blocks. It keeps their CIDs in memory.
    pub fn new(root: Cid, blocks_max: usize) -> Self {
        let known = BTreeMap::from([(root.clone(), Some(0))]);
        Walk { blocks_max, known, pending: vec![Some(root)], gaps: 0 }
    }

    /// Returns the block to pass to [`Walk::take`], or to [`Walk::skip`]; `None` at the end.
    pub fn next(&self) -> Option<&Cid> {
        self.pending.last().and_then(Option::as_ref)
    }

    /// Returns the known blocks that were not visited yet, the next one first.
    pub fn wanted(&self) -> impl Iterator<Item = &Cid> {
        self.pending.iter().rev().flatten()
    }

    /// Visits the next block.
    ///
    /// # Panics
    /// Panics if it is not the block of [`Walk::next`].
    pub fn take(&mut self, block: &Block) -> Result<(), WalkError> {
        let cid = self.next().expect("the walk has not ended").clone();
        assert_eq!(cid.hash(), block.cid().hash(), "the block is not the next one");
        let mut links = Vec::new();
        if cid.codec() == Codec::DAG_PB {
            let node = Node::decode(block.bytes());
            links = node.map_err(|error| WalkError::DagPb { cid: cid.clone(), error })?.links;
        }
        self.skip();
        for link in links.into_iter().rev() {
            self.add_link(link.cid)?;
        }
        Ok(())
    }

    /// Skips the next block, and the blocks that only it links to.
    pub fn skip(&mut self) {
        let Some(Some(cid)) = self.pending.pop() else { return };
        self.known.insert(cid, None);
        while let Some(None) = self.pending.last() {
            self.pending.pop();
            self.gaps -= 1;
        }
    }

    /// Visits the next block of an in-memory store.
    pub fn step(&mut self, store: &impl BlockStore) -> Result<WalkStep, WalkError> {
        let Some(cid) = self.next() else { return Ok(WalkStep::End) };
        match Block::from_cid(cid).or_else(|| store.get(cid)) {
            Some(block) => self.take(&block).map(|()| WalkStep::Block(block)),
            None => {
                let missing = cid.clone();
                self.skip();
                Ok(WalkStep::Missing(missing))
            }
        }
    }

    fn add_link(&mut self, cid: Cid) -> Result<(), WalkError> {
        match self.known.get(&cid) {
            Some(None) => return Ok(()),
            Some(Some(before)) => {
                self.pending[*before] = None;
                self.gaps += 1;
            }
            None if self.known.len() >= self.blocks_max => {
                return Err(WalkError::TooManyBlocks { max: self.blocks_max });
            }
            None => {}
        }
        self.known.insert(cid.clone(), Some(self.pending.len()));
        self.pending.push(Some(cid));
        // Closing gaps only when they are the majority costs no more than creating them.
        if self.gaps > self.pending.len() / 2 {
            self.close_gaps();
        }
        Ok(())
    }

    fn close_gaps(&mut self) {
        self.pending.retain(Option::is_some);
        self.gaps = 0;
        for (at, cid) in self.pending.iter().enumerate() {
            let cid = cid.as_ref().expect("there are no gaps");
            self.known.insert(cid.clone(), Some(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dag_pb::Link;
    use crate::{DirectoryBuilder, FileBuilder, MemoryStore, Profile, Root};

    const PROFILE: Profile = Profile { chunk_bytes: 2, links_max: 2, ..Profile::UNIXFS_V1_2025 };

    fn put_file(store: &mut MemoryStore, text: &str) -> Root {
        let mut builder = FileBuilder::new(PROFILE).unwrap();
        builder.write(text.as_bytes(), &mut |block| store.put(block)).unwrap();
        builder.finish(&mut |block| store.put(block)).unwrap()
    }

    /// Stores a directory of two files that share their first node.
    fn put_directory(store: &mut MemoryStore) -> Root {
        let mut builder = DirectoryBuilder::new(PROFILE);
        builder.insert("a", &put_file(store, "abcdef")).unwrap();
        builder.insert("b", &put_file(store, "abcdgh")).unwrap();
        builder.finish(&mut |block| store.put(block)).unwrap()
    }

    fn walk_all(store: &MemoryStore, root: &Root) -> (Vec<Block>, Vec<Cid>) {
        let mut walk = Walk::new(root.cid.clone(), 100);
        let (mut here, mut missing) = (Vec::new(), Vec::new());
        loop {
            match walk.step(store).unwrap() {
                WalkStep::Block(block) => here.push(block),
                WalkStep::Missing(cid) => missing.push(cid),
                WalkStep::End => return (here, missing),
            }
        }
    }

    #[test]
    fn every_block_is_visited_once_although_it_is_linked_twice() {
        let mut store = MemoryStore::new(1 << 20);
        let root = put_directory(&mut store);
        let (here, missing) = walk_all(&store, &root);
        assert_eq!((here.len(), missing.len()), (store.len(), 0));
        let leaves: Vec<_> = here.iter().filter(|block| block.bytes().len() == 2).collect();
        let leaves: Vec<_> = leaves.iter().map(|block| &block.bytes()[..]).collect();
        assert_eq!(leaves, [b"ab", b"cd", b"ef", b"gh"]);
    }

    #[test]
    fn a_missing_block_is_reported_and_the_walk_continues() {
        let mut store = MemoryStore::new(1 << 20);
        let root = put_directory(&mut store);
        let shared = Block::raw("ab".into()).unwrap();
        store.remove(shared.cid());
        let (here, missing) = walk_all(&store, &root);
        assert_eq!((here.len(), missing), (store.len(), vec![shared.cid().clone()]));
    }

    #[test]
    fn a_walk_over_too_many_blocks_fails() {
        let mut store = MemoryStore::new(1 << 20);
        let root = put_directory(&mut store);
        // The directory and its first file reach the limit.
        let mut walk = Walk::new(root.cid, 2);
        assert_eq!(walk.step(&store), Err(WalkError::TooManyBlocks { max: 2 }));
    }

    fn put_node(store: &mut MemoryStore, links: &[&Cid]) -> Cid {
        let link = |cid: &&Cid| Link { cid: (*cid).clone(), name: None, tsize: None };
        let node = Node { links: links.iter().map(link).collect(), ..Node::default() };
        let block = Block::dag_pb(crate::Version::V1, node.encode().into()).unwrap();
        store.put(block.clone()).unwrap();
        block.cid().clone()
    }

    #[test]
    fn a_block_is_visited_at_its_first_position() {
        let mut store = MemoryStore::new(1 << 20);
        let leaves = ["a", "b", "c"].map(|text| Block::raw(text.into()).unwrap());
        leaves.iter().for_each(|leaf| store.put(leaf.clone()).unwrap());
        let [a, b, c] = leaves.each_ref().map(Block::cid);
        // The root links to `c` too, after `b`; the first node below it comes before.
        let first = put_node(&mut store, &[a, c]);
        let cid = put_node(&mut store, &[&first, b, c, b]);
        let root = Root { cid: cid.clone(), dag_bytes: 0, file_bytes: 0 };
        let (here, _) = walk_all(&store, &root);
        let order: Vec<_> = here.iter().map(Block::cid).collect();
        assert_eq!(order, [&cid, &first, a, c, b]);
    }

    #[test]
    fn a_billion_links_to_one_block_are_one_visit() {
        let mut store = MemoryStore::new(8 << 20);
        let leaf = Block::raw("x".into()).unwrap();
        let mut cid = leaf.cid().clone();
        store.put(leaf).unwrap();
        for _ in 0..4 {
            cid = put_node(&mut store, &vec![&cid; 1000]);
        }
        let mut walk = Walk::new(cid, 5);
        let mut visited = 0;
        while walk.step(&store).unwrap() != WalkStep::End {
            visited += 1;
            assert!(walk.pending.len() <= 2, "{}", walk.pending.len());
        }
        assert_eq!(visited, 5);
    }

    #[test]
    fn a_deep_dag_does_not_overflow_the_stack() {
        let mut store = MemoryStore::new(32 << 20);
        let mut cid = Block::raw("x".into()).unwrap().cid().clone();
        for _ in 0..100_000 {
            cid = put_node(&mut store, &[&cid]);
        }
        let root = Root { cid: cid.clone(), dag_bytes: 0, file_bytes: 0 };
        let mut walk = Walk::new(root.cid, 200_000);
        while let WalkStep::Block(_) = walk.step(&store).unwrap() {}
        assert_eq!(walk.known.len(), 100_001);
        let mut short = Walk::new(cid, 1000);
        let end = loop {
            if let Err(error) = short.step(&store) {
                break error;
            }
        };
        assert_eq!(end, WalkError::TooManyBlocks { max: 1000 });
    }
}
