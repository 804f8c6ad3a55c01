use bytes::Bytes;

use crate::dag_pb::{Link, Node};
use crate::unixfs::{Kind, UnixFs};
use crate::{Block, Cid, Profile, ProfileError};

/// The root of a built file or directory, with the values that a link to it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub cid: Cid,
    /// The total size of its blocks, each counted as often as it is linked: the link's `tsize`.
    pub dag_bytes: u64,
    /// The length of the file; 0 for directories and symbolic links.
    pub file_bytes: u64,
}

/// Splits a stream of bytes into the blocks of a file.
///
/// It holds one chunk, and the links of one node for each level of the tree. Each block is emitted
/// as soon as it is full: leaves in the order of the file, a node after the blocks that it links
/// to, the root last.
///
/// ```
/// use watchfire_content::{FileBuilder, Profile};
///
/// let mut blocks = Vec::new();
/// let mut keep = |block| Ok::<(), std::convert::Infallible>(blocks.push(block));
///
/// let mut builder = FileBuilder::new(Profile::UNIXFS_V1_2025).unwrap();
/// builder.write(b"Hello, ", &mut keep).unwrap();
/// builder.write(b"world!\n", &mut keep).unwrap();
/// let root = builder.finish(&mut keep).unwrap();
///
/// assert_eq!(root.file_bytes, 14);
/// assert_eq!(blocks.last().unwrap().cid(), &root.cid);
/// ```
#[derive(Debug)]
pub struct FileBuilder {
    profile: Profile,
    chunk: Vec<u8>,
    /// The children of the current node of each level, from the leaves upward.
    levels: Vec<Vec<Root>>,
}

impl FileBuilder {
    pub fn new(profile: Profile) -> Result<Self, ProfileError> {
        profile.check()?;
        Ok(FileBuilder { profile, chunk: Vec::new(), levels: Vec::new() })
    }

    /// Adds the next bytes of the file, in pieces of any size.
    ///
    /// If `emit` fails, its error is returned. The builder must not be used afterwards.
    pub fn write<E>(
        &mut self,
        mut bytes: &[u8],
        emit: &mut impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let room = self.profile.chunk_bytes - self.chunk.len();
            let (next, rest) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(next);
            bytes = rest;
            if self.chunk.len() == self.profile.chunk_bytes {
                self.emit_leaf(emit)?;
            }
        }
        Ok(())
    }

    /// Adds the next chunk of a file as a raw leaf that exists elsewhere, and is not emitted. The profile must have
    /// raw leaves, and no bytes may have been written.
    pub fn add_leaf<E>(
        &mut self,
        cid: Cid,
        bytes: u64,
        emit: &mut impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        debug_assert!(self.profile.raw_leaves && self.chunk.is_empty());
        self.push(0, Root { cid, dag_bytes: bytes, file_bytes: bytes }, emit)
    }

    /// Completes the file: emits the remaining blocks and returns the root.
    pub fn finish<E>(mut self, emit: &mut impl FnMut(Block) -> Result<(), E>) -> Result<Root, E> {
        // An empty file is one empty leaf.
        if !self.chunk.is_empty() || self.levels.is_empty() {
            self.emit_leaf(emit)?;
        }
        let mut level = 0;
        loop {
            let is_top = level + 1 == self.levels.len();
            if is_top && self.levels[level].len() == 1 {
                return Ok(self.levels[level].swap_remove(0));
            }
            self.emit_node(level, emit)?;
            level += 1;
        }
    }

    fn emit_leaf<E>(&mut self, emit: &mut impl FnMut(Block) -> Result<(), E>) -> Result<(), E> {
        // The next chunk probably has the same length.
        let next = Vec::with_capacity(self.chunk.len());
        let chunk = Bytes::from(std::mem::replace(&mut self.chunk, next).into_boxed_slice());
        let file_bytes = chunk.len() as u64;
        let block = if self.profile.raw_leaves {
            Block::raw(chunk)
        } else {
            let data = (!chunk.is_empty()).then_some(chunk);
            let leaf = UnixFs { data, filesize: Some(file_bytes), ..UnixFs::new(Kind::File) };
            let node = Node { data: Some(leaf.encode().into()), ..Node::default() };
            Block::dag_pb(self.profile.cid_version, node.encode().into())
        };
        let block = block.expect("a checked profile makes leaves that fit into blocks");
        let dag_bytes = block.bytes().len() as u64;
        let leaf = Root { cid: block.cid().clone(), dag_bytes, file_bytes };
        emit(block)?;
        self.push(0, leaf, emit)
    }

    /// Adds a child to the current node of `level`. A full node is emitted only when the next child
    /// arrives, because a full node without a sibling is the root.
    fn push<E>(
        &mut self,
        level: usize,
        child: Root,
        emit: &mut impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        if level == self.levels.len() {
            self.levels.push(Vec::new());
        }
        if self.levels[level].len() == self.profile.links_max {
            self.emit_node(level, emit)?;
        }
        self.levels[level].push(child);
        Ok(())
    }

    fn emit_node<E>(
        &mut self,
        level: usize,
        emit: &mut impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        let children = std::mem::take(&mut self.levels[level]);
        let block_sizes: Vec<u64> = children.iter().map(|child| child.file_bytes).collect();
        let file_bytes = block_sizes.iter().sum();
        let below: u64 = children.iter().map(|child| child.dag_bytes).sum();
        let file = UnixFs { filesize: Some(file_bytes), block_sizes, ..UnixFs::new(Kind::File) };
        let links = children.into_iter().map(|child| Link {
            cid: child.cid,
            name: Some(String::new()),
            tsize: Some(child.dag_bytes),
        });
        let node =
            Node { links: links.collect(), data: Some(file.encode().into()), ..Node::default() };
        let block = Block::dag_pb(self.profile.cid_version, node.encode().into())
            .expect("a checked profile makes nodes that fit into blocks");
        let dag_bytes = below + block.bytes().len() as u64;
        let parent = Root { cid: block.cid().clone(), dag_bytes, file_bytes };
        emit(block)?;
        self.push(level + 1, parent, emit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{CHUNK_BYTES_MAX, FILE_LINKS_MAX};

    fn built(profile: Profile, pieces: &[&[u8]]) -> (Root, Vec<Block>) {
        let mut blocks = Vec::new();
        let mut keep = |block| {
            blocks.push(block);
            Ok::<(), std::convert::Infallible>(())
        };
        let mut builder = FileBuilder::new(profile).unwrap();
        for piece in pieces {
            builder.write(piece, &mut keep).unwrap();
        }
        let root = builder.finish(&mut keep).unwrap();
        (root, blocks)
    }

    fn narrow(chunk_bytes: usize, links_max: usize) -> Profile {
        Profile { chunk_bytes, links_max, ..Profile::UNIXFS_V1_2025 }
    }

    #[test]
    fn the_sizes_of_the_written_pieces_do_not_change_the_blocks() {
        let bytes: Vec<u8> = (0..100).collect();
        let at_once = built(narrow(7, 3), &[&bytes]);
        for piece in 1..20 {
            let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
            assert_eq!(built(narrow(7, 3), &pieces), at_once);
        }
    }

    #[test]
    fn a_file_of_one_chunk_is_a_single_leaf() {
        for len in [0, 1, 7] {
            let (root, blocks) = built(narrow(7, 2), &[&vec![5; len]]);
            assert_eq!(blocks.len(), 1);
            assert_eq!((root.file_bytes, root.dag_bytes), (len as u64, len as u64));
        }
    }

    #[test]
    fn a_full_node_gets_a_parent_only_with_a_sibling() {
        let leaves_and_nodes = |len| built(narrow(1, 3), &[&vec![0; len]]).1.len();
        assert_eq!(leaves_and_nodes(3), 3 + 1);
        // The fourth leaf gets a node of its own: all leaves are equally far from the root.
        assert_eq!(leaves_and_nodes(4), 4 + 2 + 1);
        assert_eq!(leaves_and_nodes(9), 9 + 3 + 1);
        assert_eq!(leaves_and_nodes(10), 10 + 4 + 2 + 1);
    }

    #[test]
    fn an_error_of_emit_is_returned() {
        let mut builder = FileBuilder::new(narrow(1, 2)).unwrap();
        assert_eq!(builder.write(b"x", &mut |_| Err("full")), Err("full"));
    }

    #[test]
    fn the_largest_profile_builds_valid_blocks() {
        let widest = narrow(1, FILE_LINKS_MAX);
        let (_, blocks) = built(widest, &[&vec![0; FILE_LINKS_MAX]]);
        assert_eq!(blocks.len(), FILE_LINKS_MAX + 1);
        let longest =
            Profile { chunk_bytes: CHUNK_BYTES_MAX, raw_leaves: false, ..Profile::KUBO_DEFAULT };
        assert_eq!(built(longest, &[&vec![0; CHUNK_BYTES_MAX]]).1.len(), 1);
    }

    #[test]
    fn an_invalid_profile_is_rejected() {
        let refused =
            |chunk_bytes, links_max| FileBuilder::new(narrow(chunk_bytes, links_max)).unwrap_err();
        let max = CHUNK_BYTES_MAX;
        assert_eq!(refused(0, 2), ProfileError::ChunkBytes { chunk_bytes: 0, max });
        assert_eq!(refused(max + 1, 2), ProfileError::ChunkBytes { chunk_bytes: max + 1, max });
        assert_eq!(refused(1, 1), ProfileError::LinksMax { links_max: 1, max: FILE_LINKS_MAX });
    }
}
