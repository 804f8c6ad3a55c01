//! How far a fetch has come: which blocks of a DAG are known, and which comes next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use content::dag_pb::{DagPbError, Node};
use content::{BLOCK_BYTES_MAX, Cid, Codec, Multihash};

use super::Reach;
use crate::settings::FetchLimits;

/// Blocks that are known and not asked for, beyond which few further nodes are opened.
const AHEAD_MAX: usize = 16 * 1024;
/// Nodes asked for at once whose links may be many.
const HEAVY_ASKED_MAX: usize = 64;

/// Why a DAG is not followed to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DagError {
    /// A block is not a node although its CID says so.
    #[error("{cid} is not dag-pb: {error}")]
    DagPb {
        /// The block.
        cid: Cid,
        /// What is wrong with it.
        error: DagPbError,
    },
    /// More nodes with links than a fetch may know.
    #[error("more than {max} nodes have links")]
    TooManyNodes {
        /// Most of them.
        max: usize,
    },
    /// Nodes in nodes in nodes.
    #[error("nodes lie more than {max} deep")]
    TooDeep {
        /// Deepest of them.
        max: usize,
    },
}

/// The blocks of one DAG that are ahead, without clock, network or disk.
///
/// Nodes whose subtrees are large come first, so that the skeleton is soon known and all leaves
/// can be asked for; but only while there are not enough leaves ahead, so that memory does not
/// grow with the content. Every node is opened once, whatever links to it: a billion links to one
/// block are one block.
#[derive(Debug)]
pub(crate) struct Frontier {
    reach: Reach,
    limits: FetchLimits,
    /// Nodes of large subtrees, the next one last.
    heavy: Vec<Ahead>,
    /// Everything else, the next one first.
    light: VecDeque<Ahead>,
    /// What is asked for, how deep it lies, and whether it is heavy.
    asked: BTreeMap<Cid, (usize, bool)>,
    heavy_asked: usize,
    /// Nodes with links that were opened.
    opened: BTreeSet<Cid>,
}

impl Frontier {
    pub(crate) fn new(root: Cid, reach: Reach, limits: FetchLimits) -> Self {
        Frontier {
            reach,
            limits,
            heavy: vec![Ahead { cid: root, bytes: None, depth: 0, is_heavy: true }],
            light: VecDeque::new(),
            asked: BTreeMap::new(),
            heavy_asked: 0,
            opened: BTreeSet::new(),
        }
    }

    /// A block that is needed next, how deep it lies and whether it is heavy: found here and told
    /// to [`Frontier::found`], or asked for and told to [`Frontier::ask`]. `None` while enough is
    /// asked for, and at the end.
    pub(crate) fn next(&mut self) -> Option<Ahead> {
        loop {
            if self.asked.len() >= self.limits.wants_max {
                return None;
            }
            let may_open = self.light.len() < AHEAD_MAX && self.heavy_asked < HEAVY_ASKED_MAX;
            let ahead = match self.heavy.pop_if(|_| may_open) {
                Some(ahead) => ahead,
                None => match self.light.pop_front() {
                    Some(ahead) => ahead,
                    None if self.heavy_asked == 0 => self.heavy.pop()?,
                    None => return None,
                },
            };
            if !self.opened.contains(&ahead.cid) && !self.asked.contains_key(&ahead.cid) {
                return Some(ahead);
            }
        }
    }

    /// Notes that a block was asked for.
    pub(crate) fn ask(&mut self, ahead: Ahead) {
        self.heavy_asked += usize::from(ahead.is_heavy);
        self.asked.insert(ahead.cid, (ahead.depth, ahead.is_heavy));
    }

    /// The name by which a block was asked for, when it is another than this of the same hash.
    pub(crate) fn name_asked(&self, cid: &Cid) -> Option<Cid> {
        if self.asked.contains_key(cid) {
            return None;
        }
        let hash = cid.hash();
        let version_0 = match hash {
            Multihash::Sha2_256(digest) => Some(Cid::v0(*digest)),
            Multihash::Identity(_) => None,
        };
        let version_1 = [Codec::RAW, Codec::DAG_PB].map(|codec| Cid::v1(codec, hash.clone()));
        version_1.into_iter().chain(version_0).find(|name| self.asked.contains_key(name))
    }

    /// Opens a block that was asked for; whether it was.
    pub(crate) fn arrived(&mut self, cid: &Cid, bytes: &Bytes) -> Result<bool, DagError> {
        let Some((depth, is_heavy)) = self.asked.remove(cid) else { return Ok(false) };
        self.heavy_asked -= usize::from(is_heavy);
        self.open(cid, depth, bytes)?;
        Ok(true)
    }

    /// Opens a block that was here.
    pub(crate) fn found(&mut self, ahead: &Ahead, bytes: &Bytes) -> Result<(), DagError> {
        self.open(&ahead.cid, ahead.depth, bytes)
    }

    fn open(&mut self, cid: &Cid, depth: usize, bytes: &Bytes) -> Result<(), DagError> {
        if cid.codec() != Codec::DAG_PB || self.reach == Reach::Block {
            return Ok(());
        }
        let node = Node::decode(bytes);
        let node = node.map_err(|error| DagError::DagPb { cid: cid.clone(), error })?;
        if node.links.is_empty() {
            return Ok(());
        }
        let max = self.limits.nodes_max;
        if self.opened.len() == max {
            return Err(DagError::TooManyNodes { max });
        }
        let max = self.limits.depth_max;
        if depth == max {
            return Err(DagError::TooDeep { max });
        }
        self.opened.insert(cid.clone());
        let mut heavy = Vec::new();
        // Within one node most of a billion links to one block are next to each other.
        let mut previous: Option<Cid> = None;
        for link in node.links {
            if previous.as_ref() == Some(&link.cid) || self.opened.contains(&link.cid) {
                continue;
            }
            previous = Some(link.cid.clone());
            // A size that lies costs memory for one node's links, and they are bounded.
            let is_small = link.tsize.is_some_and(|bytes| bytes <= BLOCK_BYTES_MAX as u64);
            if link.cid.codec() == Codec::DAG_PB && !is_small {
                let (cid, bytes) = (link.cid, None);
                heavy.push(Ahead { cid, bytes, depth: depth + 1, is_heavy: true });
            } else {
                let bytes = link.tsize.filter(|_| is_small).and_then(|bytes| bytes.try_into().ok());
                let cid = link.cid;
                self.light.push_back(Ahead { cid, bytes, depth: depth + 1, is_heavy: false });
            }
        }
        self.heavy.extend(heavy.into_iter().rev());
        Ok(())
    }

    /// Whether this is a node with links that was opened.
    pub(crate) fn is_opened(&self, cid: &Cid) -> bool {
        self.opened.contains(cid)
    }

    /// Whether every block was opened.
    pub(crate) fn is_done(&self) -> bool {
        self.asked.is_empty() && self.heavy.is_empty() && self.light.is_empty()
    }
}

/// A block that is needed, and where in the DAG it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) cid: Cid,
    /// Its bytes, as its node says; whatever it says, a hint.
    pub(crate) bytes: Option<u32>,
    depth: usize,
    /// Much is behind it.
    pub(crate) is_heavy: bool,
}

#[cfg(test)]
mod tests {
    use content::dag_pb::{FieldOrder, Link};
    use content::{Block, BlockStore, FileBuilder, MemoryStore, Profile, Version};

    use super::*;

    fn node(links: &[(&Cid, u64)]) -> Block {
        let link =
            |&(cid, tsize): &(&Cid, u64)| Link { cid: cid.clone(), name: None, tsize: Some(tsize) };
        let links = links.iter().map(link).collect();
        let node = Node { links, data: None, order: FieldOrder::default() };
        Block::dag_pb(Version::V1, node.encode().into()).unwrap()
    }

    /// All blocks that a fetch asks for when nothing is here, in order.
    fn follow(root: &Cid, store: &MemoryStore, limits: FetchLimits) -> Result<Vec<Cid>, DagError> {
        let mut frontier = Frontier::new(root.clone(), Reach::Whole, limits);
        let mut order = Vec::new();
        while !frontier.is_done() {
            let mut batch = Vec::new();
            while let Some(ahead) = frontier.next() {
                batch.push(ahead.cid.clone());
                frontier.ask(ahead);
            }
            assert!(!batch.is_empty(), "a frontier that is not done has something ahead");
            for cid in batch {
                let block = store.get(&cid).expect("a block of the DAG");
                assert!(frontier.arrived(&cid, block.bytes())?);
                order.push(cid);
            }
        }
        Ok(order)
    }

    #[test]
    fn every_block_of_a_file_is_asked_for_once_and_never_too_many_together() {
        let mut store = MemoryStore::new(64 << 20);
        let profile = Profile { chunk_bytes: 1024, ..Profile::UNIXFS_V1_2025 };
        let profile = Profile { links_max: 10, ..profile };
        let mut builder = FileBuilder::new(profile).unwrap();
        let bytes: Vec<u8> =
            (0..2_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        builder.write(&bytes, &mut |block| store.put(block)).unwrap();
        let root = builder.finish(&mut |block| store.put(block)).unwrap();
        let limits = FetchLimits { wants_max: 50, ..FetchLimits::default() };
        let order = follow(&root.cid, &store, limits).unwrap();
        assert_eq!(order.len(), store.len());
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), store.len());
    }

    #[test]
    fn a_billion_links_to_one_block_are_one_block() {
        let mut store = MemoryStore::new(64 << 20);
        let leaf = Block::raw("x".into()).unwrap();
        let mut top = leaf.clone();
        store.put(leaf).unwrap();
        for _ in 0..5 {
            let cid = top.cid().clone();
            top = node(&vec![(&cid, u64::MAX); 10_000]);
            store.put(top.clone()).unwrap();
        }
        let order = follow(top.cid(), &store, FetchLimits::default()).unwrap();
        assert_eq!(order.len(), 6);
    }

    #[test]
    fn a_chain_that_is_too_deep_and_nodes_that_are_too_many_fail() {
        let mut store = MemoryStore::new(1 << 20);
        let leaf = Block::raw("x".into()).unwrap();
        let mut top = leaf.clone();
        store.put(leaf).unwrap();
        for _ in 0..5 {
            let cid = top.cid().clone();
            top = node(&[(&cid, 1)]);
            store.put(top.clone()).unwrap();
        }
        let with = |depth_max, nodes_max| {
            let limits = FetchLimits { depth_max, nodes_max, ..FetchLimits::default() };
            follow(top.cid(), &store, limits).map(|order| order.len())
        };
        assert_eq!(with(5, 5), Ok(6));
        assert_eq!(with(4, 5), Err(DagError::TooDeep { max: 4 }));
        assert_eq!(with(5, 4), Err(DagError::TooManyNodes { max: 4 }));
    }

    #[test]
    fn a_block_that_is_no_node_is_named() {
        let bytes = Bytes::from_static(b"\xff\xff");
        let block = Block::dag_pb(Version::V0, bytes).unwrap();
        let mut store = MemoryStore::new(1024);
        store.put(block.clone()).unwrap();
        let error = follow(block.cid(), &store, FetchLimits::default()).unwrap_err();
        assert!(matches!(error, DagError::DagPb { cid, .. } if cid == *block.cid()));
    }
}
