//! The frontier of a fetch: the blocks of a DAG that are known and not fetched yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use watchfire_content::dag_pb::{DagPbError, Node};
use watchfire_content::{BLOCK_BYTES_MAX, Cid, Codec, Multihash};

use crate::settings::FetchLimits;

/// Pending leaves. While there are more, no further inner node is requested.
const PENDING_LEAVES_MAX: usize = 16 * 1024;
/// Inner nodes that are requested at the same time. Each may have many links.
const REQUESTED_INNER_NODES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchScope {
    Block,
    /// All blocks that the root links to, directly or through other nodes.
    Dag,
}

/// Why a DAG cannot be fetched completely.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DagError {
    #[error("{cid} is not a dag-pb node: {error}")]
    DagPb { cid: Cid, error: DagPbError },
    #[error("the DAG has more than {max} nodes with links, which is the limit")]
    TooManyNodes { max: usize },
    #[error("the DAG is more than {max} levels deep, which is the limit")]
    TooDeep { max: usize },
}

/// Selects the blocks of one DAG to request next, without a clock, a network or a disk.
///
/// Inner nodes, which have large subtrees, come first, because more leaves can be requested once
/// they arrive. With enough pending leaves, inner nodes wait, so that memory does not grow with the
/// content. Each node is expanded once, so a billion links to one block cause one request.
#[derive(Debug)]
pub(crate) struct Frontier {
    scope: FetchScope,
    limits: FetchLimits,
    /// Pending inner nodes, the next one last.
    inner_nodes: Vec<PendingBlock>,
    /// Pending leaves and nodes of small subtrees, the next one first.
    leaves: VecDeque<PendingBlock>,
    /// For each requested block, its depth and whether it is an inner node.
    requested: BTreeMap<Cid, (usize, bool)>,
    requested_inner_nodes: usize,
    /// Nodes whose links are known.
    expanded: BTreeSet<Cid>,
}

impl Frontier {
    pub(crate) fn new(root: Cid, scope: FetchScope, limits: FetchLimits) -> Self {
        Frontier {
            scope,
            limits,
            inner_nodes: vec![PendingBlock { cid: root, bytes: None, depth: 0, is_inner: true }],
            leaves: VecDeque::new(),
            requested: BTreeMap::new(),
            requested_inner_nodes: 0,
            expanded: BTreeSet::new(),
        }
    }

    /// Returns the next block. The caller passes it to [`Frontier::handle_present`] if it is in a
    /// store, or to [`Frontier::handle_requested`]. `None` while enough blocks are requested, and
    /// at the end.
    pub(crate) fn next(&mut self) -> Option<PendingBlock> {
        loop {
            if self.requested.len() >= self.limits.wants_max {
                return None;
            }
            let is_inner_next = self.leaves.len() < PENDING_LEAVES_MAX
                && self.requested_inner_nodes < REQUESTED_INNER_NODES_MAX;
            let pending = match self.inner_nodes.pop_if(|_| is_inner_next) {
                Some(pending) => pending,
                None => match self.leaves.pop_front() {
                    Some(pending) => pending,
                    None if self.requested_inner_nodes == 0 => self.inner_nodes.pop()?,
                    None => return None,
                },
            };
            if !self.expanded.contains(&pending.cid) && !self.requested.contains_key(&pending.cid) {
                return Some(pending);
            }
        }
    }

    pub(crate) fn handle_requested(&mut self, pending: PendingBlock) {
        self.requested_inner_nodes += usize::from(pending.is_inner);
        self.requested.insert(pending.cid, (pending.depth, pending.is_inner));
    }

    /// Returns the CID under which a block was requested, if that is another CID of the same hash.
    pub(crate) fn requested_cid(&self, cid: &Cid) -> Option<Cid> {
        if self.requested.contains_key(cid) {
            return None;
        }
        let hash = cid.hash();
        let version_0 = match hash {
            Multihash::Sha2_256(digest) => Some(Cid::v0(*digest)),
            Multihash::Identity(_) => None,
        };
        let version_1 = [Codec::RAW, Codec::DAG_PB].map(|codec| Cid::v1(codec, hash.clone()));
        version_1.into_iter().chain(version_0).find(|cid| self.requested.contains_key(cid))
    }

    /// A block arrived. Returns whether it was requested.
    pub(crate) fn handle_arrived(&mut self, cid: &Cid, bytes: &Bytes) -> Result<bool, DagError> {
        let Some((depth, is_inner)) = self.requested.remove(cid) else { return Ok(false) };
        self.requested_inner_nodes -= usize::from(is_inner);
        self.expand(cid, depth, bytes)?;
        Ok(true)
    }

    pub(crate) fn handle_present(
        &mut self,
        pending: &PendingBlock,
        bytes: &Bytes,
    ) -> Result<(), DagError> {
        self.expand(&pending.cid, pending.depth, bytes)
    }

    /// Adds the links of a node.
    fn expand(&mut self, cid: &Cid, depth: usize, bytes: &Bytes) -> Result<(), DagError> {
        if cid.codec() != Codec::DAG_PB || self.scope == FetchScope::Block {
            return Ok(());
        }
        let node = Node::decode(bytes);
        let node = node.map_err(|error| DagError::DagPb { cid: cid.clone(), error })?;
        if node.links.is_empty() {
            return Ok(());
        }
        let max = self.limits.nodes_max;
        if self.expanded.len() == max {
            return Err(DagError::TooManyNodes { max });
        }
        let max = self.limits.depth_max;
        if depth == max {
            return Err(DagError::TooDeep { max });
        }
        self.expanded.insert(cid.clone());
        let mut inner_nodes = Vec::new();
        // Repeated links to one block are mostly next to each other.
        let mut previous: Option<Cid> = None;
        for link in node.links {
            if previous.as_ref() == Some(&link.cid) || self.expanded.contains(&link.cid) {
                continue;
            }
            previous = Some(link.cid.clone());
            // A wrong size costs the memory of one node's links, which is bounded.
            let is_small = link.tsize.is_some_and(|bytes| bytes <= BLOCK_BYTES_MAX as u64);
            if link.cid.codec() == Codec::DAG_PB && !is_small {
                let (cid, bytes) = (link.cid, None);
                inner_nodes.push(PendingBlock { cid, bytes, depth: depth + 1, is_inner: true });
            } else {
                let bytes = link.tsize.filter(|_| is_small).and_then(|bytes| bytes.try_into().ok());
                let cid = link.cid;
                self.leaves.push_back(PendingBlock {
                    cid,
                    bytes,
                    depth: depth + 1,
                    is_inner: false,
                });
            }
        }
        self.inner_nodes.extend(inner_nodes.into_iter().rev());
        Ok(())
    }

    /// Whether the links of this node are known.
    pub(crate) fn is_expanded(&self, cid: &Cid) -> bool {
        self.expanded.contains(cid)
    }

    /// Whether all blocks are fetched.
    pub(crate) fn is_done(&self) -> bool {
        self.requested.is_empty() && self.inner_nodes.is_empty() && self.leaves.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingBlock {
    pub(crate) cid: Cid,
    /// The length that its parent declares: a hint, not verified.
    pub(crate) bytes: Option<u32>,
    depth: usize,
    /// Whether the block is a node with a large subtree.
    pub(crate) is_inner: bool,
}

#[cfg(test)]
mod tests {
    use watchfire_content::dag_pb::{FieldOrder, Link};
    use watchfire_content::{Block, BlockStore, FileBuilder, MemoryStore, Profile, Version};

    use super::*;

    fn node(links: &[(&Cid, u64)]) -> Block {
        let link =
            |&(cid, tsize): &(&Cid, u64)| Link { cid: cid.clone(), name: None, tsize: Some(tsize) };
        let links = links.iter().map(link).collect();
        let node = Node { links, data: None, order: FieldOrder::default() };
        Block::dag_pb(Version::V1, node.encode().into()).unwrap()
    }

    /// Returns all blocks that a fetch into an empty store requests, in order.
    fn fetch_all(
        root: &Cid,
        store: &MemoryStore,
        limits: FetchLimits,
    ) -> Result<Vec<Cid>, DagError> {
        let mut frontier = Frontier::new(root.clone(), FetchScope::Dag, limits);
        let mut order = Vec::new();
        while !frontier.is_done() {
            let mut batch = Vec::new();
            while let Some(pending) = frontier.next() {
                batch.push(pending.cid.clone());
                frontier.handle_requested(pending);
            }
            assert!(!batch.is_empty(), "a frontier that is not done has a pending block");
            for cid in batch {
                let block = store.get(&cid).expect("a block of the DAG");
                assert!(frontier.handle_arrived(&cid, block.bytes())?);
                order.push(cid);
            }
        }
        Ok(order)
    }

    #[test]
    fn every_block_of_a_file_is_requested_once_within_the_request_limit() {
        let mut store = MemoryStore::new(64 << 20);
        let profile = Profile { chunk_bytes: 1024, ..Profile::UNIXFS_V1_2025 };
        let profile = Profile { links_max: 10, ..profile };
        let mut builder = FileBuilder::new(profile).unwrap();
        let bytes: Vec<u8> =
            (0..2_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        builder.write(&bytes, &mut |block| store.put(block)).unwrap();
        let root = builder.finish(&mut |block| store.put(block)).unwrap();
        let limits = FetchLimits { wants_max: 50, ..FetchLimits::default() };
        let order = fetch_all(&root.cid, &store, limits).unwrap();
        assert_eq!(order.len(), store.len());
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), store.len());
    }

    #[test]
    fn a_billion_links_to_one_block_cause_one_request() {
        let mut store = MemoryStore::new(64 << 20);
        let leaf = Block::raw("x".into()).unwrap();
        let mut top = leaf.clone();
        store.put(leaf).unwrap();
        for _ in 0..5 {
            let cid = top.cid().clone();
            top = node(&vec![(&cid, u64::MAX); 10_000]);
            store.put(top.clone()).unwrap();
        }
        let order = fetch_all(top.cid(), &store, FetchLimits::default()).unwrap();
        assert_eq!(order.len(), 6);
    }

    #[test]
    fn a_dag_that_is_too_deep_or_has_too_many_nodes_is_rejected() {
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
            fetch_all(top.cid(), &store, limits).map(|order| order.len())
        };
        assert_eq!(with(5, 5), Ok(6));
        assert_eq!(with(4, 5), Err(DagError::TooDeep { max: 4 }));
        assert_eq!(with(5, 4), Err(DagError::TooManyNodes { max: 4 }));
    }

    #[test]
    fn the_error_names_the_block_that_is_not_a_node() {
        let bytes = Bytes::from_static(b"\xff\xff");
        let block = Block::dag_pb(Version::V0, bytes).unwrap();
        let mut store = MemoryStore::new(1024);
        store.put(block.clone()).unwrap();
        let error = fetch_all(block.cid(), &store, FetchLimits::default()).unwrap_err();
        assert!(matches!(error, DagError::DagPb { cid, .. } if cid == *block.cid()));
    }
}
