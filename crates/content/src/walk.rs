use std::collections::BTreeMap;

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
/// For what a root consists of, what of it is missing, and what to serve, to export or to forget.
/// Nodes are followed, blocks of any other codec have no links. Nodes come before what they link
/// to, in the order of the links, each block where it is met first.
///
/// However often a block is linked, it is known once: work is in proportion to the bytes of the
/// blocks that are there, memory to their number, and both have the bound that is given. Sizes that
/// nodes declare are not looked at; [`FileReader`] does that.
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
    /// All that was ever met, and where in `ahead` it is; `None` when it was visited.
    known: BTreeMap<Cid, Option<usize>>,
    /// What is still to be visited, the next one last, and never a gap. What is met again is moved
    /// to the end and leaves a gap.
    ahead: Vec<Option<Cid>>,
    gaps: usize,
}

impl Walk {
    /// A walk from `root` over at most `blocks_max` blocks, of which it remembers the CIDs.
    pub fn new(root: Cid, blocks_max: usize) -> Self {
        let known = BTreeMap::from([(root.clone(), Some(0))]);
        Walk { blocks_max, known, ahead: vec![Some(root)], gaps: 0 }
    }

    /// The block to give to [`Walk::take`], or to [`Walk::pass`] over; `None` when all that can be
    /// reached was visited.
    pub fn next(&self) -> Option<&Cid> {
        self.ahead.last().and_then(Option::as_ref)
    }

    /// Blocks that are known and not visited yet, the next one first: what to ask others for.
    pub fn wanted(&self) -> impl Iterator<Item = &Cid> {
        self.ahead.iter().rev().flatten()
    }

    /// Visits the next block.
    ///
    /// # Panics
    /// When it is not the block that [`Walk::next`] names.
    pub fn take(&mut self, block: &Block) -> Result<(), WalkError> {
        let cid = self.next().expect("not all was visited").clone();
        assert_eq!(cid.hash(), block.cid().hash(), "the next block is another");
        let mut links = Vec::new();
        if cid.codec() == Codec::DAG_PB {
            let node = Node::decode(block.bytes());
            links = node.map_err(|error| WalkError::DagPb { cid: cid.clone(), error })?.links;
        }
        self.pass();
        for link in links.into_iter().rev() {
            self.meet(link.cid)?;
        }
        Ok(())
    }

    /// Goes on without the next block. What is behind it stays unknown in this walk.
    pub fn pass(&mut self) {
        let Some(Some(cid)) = self.ahead.pop() else { return };
        self.known.insert(cid, None);
        while let Some(None) = self.ahead.last() {
            self.ahead.pop();
            self.gaps -= 1;
        }
    }

    /// Goes on to the next block in a store in memory.
    pub fn visit(&mut self, store: &impl BlockStore) -> Result<Visit, WalkError> {
        let Some(cid) = self.next() else { return Ok(Visit::End) };
        match Block::implied_by(cid).or_else(|| store.get(cid)) {
            Some(block) => self.take(&block).map(|()| Visit::Here(block)),
            None => {
                let missing = cid.clone();
                self.pass();
                Ok(Visit::Missing(missing))
            }
        }
    }

    fn meet(&mut self, cid: Cid) -> Result<(), WalkError> {
        match self.known.get(&cid) {
            Some(None) => return Ok(()),
            Some(Some(before)) => {
                self.ahead[*before] = None;
                self.gaps += 1;
            }
            None if self.known.len() >= self.blocks_max => {
                return Err(WalkError::TooManyBlocks { max: self.blocks_max });
            }
            None => {}
        }
        self.known.insert(cid.clone(), Some(self.ahead.len()));
        self.ahead.push(Some(cid));
        // Only then, so that closing them costs no more than making them did.
        if self.gaps > self.ahead.len() / 2 {
            self.close_gaps();
        }
        Ok(())
    }

    fn close_gaps(&mut self) {
        self.ahead.retain(Option::is_some);
        self.gaps = 0;
        for (at, cid) in self.ahead.iter().enumerate() {
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

    /// A directory of two files that share their first node.
    fn put_directory(store: &mut MemoryStore) -> Root {
        let mut builder = DirectoryBuilder::new(PROFILE);
        builder.insert("a", &put_file(store, "abcdef")).unwrap();
        builder.insert("b", &put_file(store, "abcdgh")).unwrap();
        builder.finish(&mut |block| store.put(block)).unwrap()
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

    /// A node with these links, kept.
    fn put_node(store: &mut MemoryStore, links: &[&Cid]) -> Cid {
        let link = |cid: &&Cid| Link { cid: (*cid).clone(), name: None, tsize: None };
        let node = Node { links: links.iter().map(link).collect(), ..Node::default() };
        let block = Block::dag_pb(crate::Version::V1, node.encode().into()).unwrap();
        store.put(block.clone()).unwrap();
        block.cid().clone()
    }

    #[test]
    fn a_block_is_visited_where_it_is_met_first() {
        let mut store = MemoryStore::new(1 << 20);
        let leaves = ["a", "b", "c"].map(|text| Block::raw(text.into()).unwrap());
        leaves.iter().for_each(|leaf| store.put(leaf.clone()).unwrap());
        let [a, b, c] = leaves.each_ref().map(Block::cid);
        // The root links to `c` too, after `b`; the first node below it comes before.
        let first = put_node(&mut store, &[a, c]);
        let cid = put_node(&mut store, &[&first, b, c, b]);
        let root = Root { cid: cid.clone(), dag_bytes: 0, file_bytes: 0 };
        let (here, _) = visits(&store, &root);
        let order: Vec<_> = here.iter().map(Block::cid).collect();
        assert_eq!(order, [&cid, &first, a, c, b]);
    }

    #[test]
    fn a_billion_ways_to_one_block_are_one() {
        let mut store = MemoryStore::new(8 << 20);
        let leaf = Block::raw("x".into()).unwrap();
        let mut cid = leaf.cid().clone();
        store.put(leaf).unwrap();
        for _ in 0..4 {
            cid = put_node(&mut store, &vec![&cid; 1000]);
        }
        let mut walk = Walk::new(cid, 5);
        let mut visited = 0;
        while walk.visit(&store).unwrap() != Visit::End {
            visited += 1;
            assert!(walk.ahead.len() <= 2, "{}", walk.ahead.len());
        }
        assert_eq!(visited, 5);
    }

    #[test]
    fn depth_is_no_recursion() {
        let mut store = MemoryStore::new(32 << 20);
        let mut cid = Block::raw("x".into()).unwrap().cid().clone();
        for _ in 0..100_000 {
            cid = put_node(&mut store, &[&cid]);
        }
        let root = Root { cid: cid.clone(), dag_bytes: 0, file_bytes: 0 };
        let mut walk = Walk::new(root.cid, 200_000);
        while let Visit::Here(_) = walk.visit(&store).unwrap() {}
        assert_eq!(walk.known.len(), 100_001);
        let mut short = Walk::new(cid, 1000);
        let end = loop {
            if let Err(error) = short.visit(&store) {
                break error;
            }
        };
        assert_eq!(end, WalkError::TooManyBlocks { max: 1000 });
    }
}
