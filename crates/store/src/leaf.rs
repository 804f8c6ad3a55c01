//! A leaf in a file: the location of its bytes, and the block that they make.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use watchfire_content::dag_pb::Node;
use watchfire_content::unixfs::{Kind, UnixFs};
use watchfire_content::{Block, Checksum, Checksums};

use crate::error::IoContext;
use crate::{PooledBuffer, StoreError};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub offset: u64,
    pub bytes: u32,
    /// The length of the block. It is larger if the block is a node that contains the bytes.
    pub block_bytes: u32,
    /// The checksum of the block when it was written or shared.
    pub checksum: Checksum,
}

impl Leaf {
    /// The leaf of this block, whose `bytes` are in the file from `offset` on.
    pub fn new(block: &Block, offset: u64, bytes: u32, checksums: &Checksums) -> Self {
        let block_bytes = length(block.bytes());
        Leaf { offset, bytes, block_bytes, checksum: checksums.of(block) }
    }

    /// Reads the bytes of the block, which are not verified yet; `None` beyond the end of the file.
    pub fn read(&self, file: &File, path: &Path) -> Result<Option<Bytes>, StoreError> {
        let is_node = self.block_bytes != self.bytes;
        read_block(file, self.offset, self.bytes, is_node, path)
    }
}

pub(crate) fn length(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len()).expect("blocks are at most 2 MiB")
}

/// Reads the bytes of a block, and wraps them in a node if it is one; `None` beyond the end of the
/// file.
pub(crate) fn read_block(
    file: &File,
    offset: u64,
    bytes: u32,
    is_node: bool,
    path: &Path,
) -> Result<Option<Bytes>, StoreError> {
    let mut found = PooledBuffer::with_len(bytes as usize);
    match file.read_exact_at(&mut found, offset) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read.doing("read", path)?,
    }
    let found = found.freeze();
    Ok(Some(if is_node { wrap_in_node(found).into() } else { found }))
}

/// Encodes the node in which importers without raw leaves wrap the bytes of a leaf.
pub(crate) fn wrap_in_node(bytes: Bytes) -> Vec<u8> {
    let filesize = Some(bytes.len() as u64);
    let data = (!bytes.is_empty()).then_some(bytes);
    let leaf = UnixFs { data, filesize, ..UnixFs::new(Kind::File) };
    Node { data: Some(leaf.encode().into()), ..Node::default() }.encode()
}
