use bytes::Bytes;

use crate::dag_pb::{DagPbError, Link, Node};
use crate::unixfs::{Kind, UnixFs, UnixFsError};
use crate::{Block, BlockStore, Cid, Codec};

/// The largest depth of a file: the nodes from the root to a leaf, including both.
///
/// Importers reach a depth of 16 only for files that are larger than any disk.
pub const FILE_DEPTH_MAX: usize = 32;

/// The result of [`FileReader::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes of the file; never empty.
    Bytes(Bytes),
    /// This block is needed next and is not stored. Read again when it is.
    Missing(Cid),
    /// The file is complete.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("a block of codec {codec} is not part of a file")]
    Codec { codec: Codec },
    #[error("a part of the file is not a dag-pb node: {0}")]
    DagPb(DagPbError),
    #[error("a part of the file is not UnixFS: {0}")]
    UnixFs(UnixFsError),
    #[error("a node of kind {kind:?} is not part of a file")]
    Kind { kind: Kind },
    #[error("a file of {file_bytes} bytes exceeds the limit of {max} bytes")]
    TooLarge {
        /// Bytes of the file, as its root declares.
        file_bytes: u64,
        max: u64,
    },
    #[error("a part of the file has {found} bytes where {declared} were declared")]
    Size { declared: u64, found: u64 },
    #[error("the sum of the sizes of a file overflows")]
    SizeOverflow,
    #[error("a part of the file has {links} links but {block_sizes} sizes")]
    BlockSizes { links: usize, block_sizes: usize },
    /// A link to an empty part. Importers create none, and many of them would cost unbounded time.
    #[error("a part of the file is empty")]
    EmptyPart,
    #[error("a part of the file has a name")]
    NamedPart,
    #[error("the file is more than {max} nodes deep, which is the limit")]
    TooDeep { max: usize },
}

impl From<UnixFsError> for ReadError {
    fn from(cause: UnixFsError) -> Self {
        ReadError::UnixFs(cause)
    }
}

impl From<DagPbError> for ReadError {
    fn from(cause: DagPbError) -> Self {
        ReadError::DagPb(cause)
    }
}

/// A part of the file that was not read yet.
#[derive(Clone, Debug)]
struct Part {
    cid: Cid,
    /// The length that its parent declares; `None` for the root.
    declared: Option<u64>,
    /// The number of nodes above it.
    depth: usize,
}

/// Reads a file from its blocks, in order.
///
/// The reader returns bytes only if their block is verified and all declared sizes from the root
/// down match. So a file is never longer than its root declares, and time and memory are
/// proportional to its length: empty parts are rejected, the depth is at most [`FILE_DEPTH_MAX`],
/// and of each level only the unread links are kept.
///
/// ```
/// use watchfire_content::{Block, BlockStore, FileReader, MemoryStore, Read};
///
/// let block = Block::raw("hi".into()).unwrap();
/// let mut store = MemoryStore::new(1024);
/// let mut reader = FileReader::new(block.cid().clone(), u64::MAX);
///
/// assert_eq!(reader.read(&store), Ok(Read::Missing(block.cid().clone())));
/// store.put(block).unwrap();
/// assert_eq!(reader.read(&store), Ok(Read::Bytes("hi".into())));
/// assert_eq!(reader.read(&store), Ok(Read::End));
/// ```
#[derive(Clone, Debug)]
pub struct FileReader {
    file_bytes_max: u64,
    file_bytes: Option<u64>,
    read_bytes: u64,
    /// The parts that were not read yet, the next one last.
    parts: Vec<Part>,
}

impl FileReader {
    /// Creates a reader of the file `root`. Reading fails if it has more than `file_bytes_max`
    /// bytes.
    pub fn new(root: Cid, file_bytes_max: u64) -> Self {
        let root = Part { cid: root, declared: None, depth: 0 };
        FileReader { file_bytes_max, file_bytes: None, read_bytes: 0, parts: vec![root] }
    }

    /// Returns the length of the file, as its root declares; `None` until the root was read.
    pub const fn file_bytes(&self) -> Option<u64> {
        self.file_bytes
    }

    /// Returns the number of bytes that were returned or skipped so far.
    pub const fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns the known unread parts in the order of the file. A part is known as soon as its
    /// parent was read.
    pub fn wanted(&self) -> impl Iterator<Item = &Cid> {
        self.parts.iter().rev().map(|part| &part.cid)
    }

    /// Like [`FileReader::wanted`], up to this offset of the file.
    pub fn wanted_until(&self, offset: u64) -> impl Iterator<Item = &Cid> {
        let mut at = self.read_bytes;
        let parts = self.parts.iter().rev().take_while(move |part| {
            let begins = at;
            at = at.saturating_add(part.declared.unwrap_or(0));
            begins < offset
        });
        parts.map(|part| &part.cid)
    }

    /// Skips the parts that end at or before this offset. Their blocks are not needed. Parts are
    /// read whole, so the next bytes may begin before the offset. Call it again after each node,
    /// whose parts were unknown before.
    pub fn skip_to(&mut self, offset: u64) {
        while let Some(Part { declared: Some(bytes), .. }) = self.parts.last()
            && let Some(end) = self.read_bytes.checked_add(*bytes)
            && end <= offset
        {
            self.read_bytes = end;
            self.parts.pop();
        }
    }

    /// Returns the block to pass to [`FileReader::take`]; `None` when the file is complete.
    pub fn next(&self) -> Option<&Cid> {
        self.parts.last().map(|part| &part.cid)
    }

    /// Processes the next block and returns the bytes of the file in it, which may be empty. After
    /// an error, each call returns the same error.
    ///
    /// # Panics
    /// Panics if it is not the block of [`FileReader::next`].
    pub fn take(&mut self, block: &Block) -> Result<Bytes, ReadError> {
        let part = self.parts.last().expect("the file is not complete");
        let content = Content::decode(&block.read_as(&part.cid))?;
        self.check(part, &content)?;
        let depth = part.depth + 1;
        if part.declared.is_none() {
            self.file_bytes = Some(content.file_bytes);
        }
        self.parts.pop();
        let below = content.links.into_iter().zip(content.block_sizes).rev();
        self.parts.extend(below.map(|(link, size)| Part {
            cid: link.cid,
            declared: Some(size),
            depth,
        }));
        self.read_bytes += content.data.len() as u64;
        Ok(content.data)
    }

    /// Returns the next bytes of the file from an in-memory store. Fails like [`FileReader::take`].
    pub fn read(&mut self, store: &impl BlockStore) -> Result<Read, ReadError> {
        while let Some(cid) = self.next() {
            let block = Block::from_cid(cid).or_else(|| store.get(cid));
            let Some(block) = block else { return Ok(Read::Missing(cid.clone())) };
            let bytes = self.take(&block)?;
            if !bytes.is_empty() {
                return Ok(Read::Bytes(bytes));
            }
        }
        Ok(Read::End)
    }

    fn check(&self, part: &Part, content: &Content) -> Result<(), ReadError> {
        let found = content.file_bytes;
        match part.declared {
            Some(declared) if declared != found => return Err(ReadError::Size { declared, found }),
            None if found > self.file_bytes_max => {
                return Err(ReadError::TooLarge { file_bytes: found, max: self.file_bytes_max });
            }
            Some(_) | None => {}
        }
        let max = FILE_DEPTH_MAX;
        let is_too_deep = !content.links.is_empty() && part.depth + 1 >= max;
        if is_too_deep { Err(ReadError::TooDeep { max }) } else { Ok(()) }
    }
}

/// The part of a file in one block.
struct Content {
    /// The bytes in the block itself, which precede the bytes of its links.
    data: Bytes,
    links: Vec<Link>,
    block_sizes: Vec<u64>,
    /// The total length of the block's own bytes and its links.
    file_bytes: u64,
}

impl Content {
    fn decode(block: &Block) -> Result<Self, ReadError> {
        match block.cid().codec() {
            Codec::RAW => {
                let data = block.bytes().clone();
                let file_bytes = data.len() as u64;
                Ok(Content { data, links: Vec::new(), block_sizes: Vec::new(), file_bytes })
            }
            Codec::DAG_PB => Self::from_node(Node::decode(block.bytes())?),
            codec => Err(ReadError::Codec { codec }),
        }
    }

    fn from_node(node: Node) -> Result<Self, ReadError> {
        let unixfs = UnixFs::decode(&node.data.unwrap_or_default())?;
        let (links, block_sizes) = (node.links, unixfs.block_sizes);
        if !matches!(unixfs.kind, Kind::File | Kind::Raw) {
            return Err(ReadError::Kind { kind: unixfs.kind });
        }
        if links.len() != block_sizes.len() {
            let (links, block_sizes) = (links.len(), block_sizes.len());
            return Err(ReadError::BlockSizes { links, block_sizes });
        }
        if block_sizes.contains(&0) {
            return Err(ReadError::EmptyPart);
        }
        if links.iter().any(|link| link.name.as_ref().is_some_and(|name| !name.is_empty())) {
            return Err(ReadError::NamedPart);
        }
        let data = unixfs.data.unwrap_or_default();
        let found = block_sizes
            .iter()
            .try_fold(data.len() as u64, |sum, size| sum.checked_add(*size))
            .ok_or(ReadError::SizeOverflow)?;
        match unixfs.filesize {
            Some(declared) if declared != found => Err(ReadError::Size { declared, found }),
            _ => Ok(Content { data, links, block_sizes, file_bytes: found }),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    #[error("block {cid} is missing")]
    Missing { cid: Cid },
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Returns the whole file `root`. Fails if it has more than `file_bytes_max` bytes.
///
/// Memory grows with the actual bytes, not with the declared length. A file of one leaf shares the
/// bytes of the leaf.
pub fn assemble(
    store: &impl BlockStore,
    root: &Cid,
    file_bytes_max: u64,
) -> Result<Bytes, AssembleError> {
    let mut reader = FileReader::new(root.clone(), file_bytes_max);
    let mut next = || match reader.read(store)? {
        Read::Bytes(bytes) => Ok(Some(bytes)),
        Read::Missing(cid) => Err(AssembleError::Missing { cid }),
        Read::End => Ok(None),
    };
    let Some(first) = next()? else { return Ok(Bytes::new()) };
    let Some(second) = next()? else { return Ok(first) };
    let mut file = [first, second].concat();
    while let Some(bytes) = next()? {
        file.extend_from_slice(&bytes);
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileBuilder, MemoryStore, Profile, Root, Version};

    /// Stores a file with a small number of links, so that it has many levels.
    fn stored(bytes: &[u8], chunk_bytes: usize, links_max: usize) -> (MemoryStore, Root) {
        let mut store = MemoryStore::new(1 << 20);
        let profile = Profile { chunk_bytes, links_max, ..Profile::UNIXFS_V1_2025 };
        let mut builder = FileBuilder::new(profile).unwrap();
        let mut put = |block| store.put(block);
        builder.write(bytes, &mut put).unwrap();
        let root = builder.finish(&mut put).unwrap();
        (store, root)
    }

    fn put(store: &mut MemoryStore, block: Block) -> Cid {
        let cid = block.cid().clone();
        store.put(block).unwrap();
        cid
    }

    /// Stores a node of a file, with links to `parts` and the sizes declared for them.
    fn put_node(store: &mut MemoryStore, parts: &[(Cid, u64)], filesize: Option<u64>) -> Cid {
        let link = |cid: &Cid| Link { cid: cid.clone(), name: Some(String::new()), tsize: None };
        let block_sizes = parts.iter().map(|(_, size)| *size).collect();
        let file = UnixFs { filesize, block_sizes, ..UnixFs::new(Kind::File) };
        let links = parts.iter().map(|(cid, _)| link(cid)).collect();
        let node = Node { links, data: Some(file.encode().into()), ..Node::default() };
        put(store, Block::dag_pb(Version::V1, node.encode().into()).unwrap())
    }

    fn leaf(store: &mut MemoryStore, text: &'static str) -> Cid {
        put(store, Block::raw(text.into()).unwrap())
    }

    fn refused(store: &MemoryStore, root: &Cid) -> ReadError {
        match assemble(store, root, 1000) {
            Err(AssembleError::Read(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_built_file_is_read_back() {
        let bytes: Vec<u8> = (0..200).collect();
        for len in [0, 1, 6, 7, 8, 21, 22, 200] {
            let (store, root) = stored(&bytes[..len], 7, 3);
            assert_eq!(assemble(&store, &root.cid, 200).unwrap(), bytes[..len]);
        }
    }

    #[test]
    fn a_reader_continues_after_a_missing_block_is_stored() {
        let (whole, root) = stored(b"abcdef", 2, 2);
        let mut store = MemoryStore::new(1 << 20);
        let mut reader = FileReader::new(root.cid, 6);
        let (mut file, mut fetched) = (Vec::new(), 0);
        loop {
            match reader.read(&store).unwrap() {
                Read::Bytes(bytes) => file.extend_from_slice(&bytes),
                Read::Missing(cid) => {
                    assert_eq!(reader.wanted().next(), Some(&cid));
                    store.put(whole.get(&cid).unwrap()).unwrap();
                    fetched += 1;
                }
                Read::End => break,
            }
        }
        assert_eq!((&file[..], fetched), (&b"abcdef"[..], whole.len()));
        assert_eq!((reader.file_bytes(), reader.read_bytes()), (Some(6), 6));
    }

    #[test]
    fn a_file_over_the_limit_is_rejected_at_its_root() {
        let (store, root) = stored(b"abcdef", 2, 2);
        let error = ReadError::TooLarge { file_bytes: 6, max: 5 };
        assert_eq!(assemble(&store, &root.cid, 5), Err(AssembleError::Read(error)));
    }

    #[test]
    fn wrong_sizes_are_rejected() {
        let mut store = MemoryStore::new(1 << 20);
        let two = leaf(&mut store, "ab");
        let size = |declared, found| ReadError::Size { declared, found };

        let sum = put_node(&mut store, &[(two.clone(), 2)], Some(3));
        assert_eq!(refused(&store, &sum), size(3, 2));
        let part = put_node(&mut store, &[(two.clone(), 3)], Some(3));
        assert_eq!(refused(&store, &part), size(3, 2));
        let inner = put_node(&mut store, &[(two.clone(), 2)], Some(2));
        let outer = put_node(&mut store, &[(inner, 4)], Some(4));
        assert_eq!(refused(&store, &outer), size(4, 2));
        let endless = put_node(&mut store, &[(two.clone(), u64::MAX), (two.clone(), 2)], None);
        assert_eq!(refused(&store, &endless), ReadError::SizeOverflow);
        let undeclared = put_node(&mut store, &[(two, 2)], None);
        assert_eq!(assemble(&store, &undeclared, 2).unwrap(), "ab");
    }

    #[test]
    fn missing_sizes_and_empty_parts_are_rejected() {
        let mut store = MemoryStore::new(1 << 20);
        let nothing = leaf(&mut store, "");
        let empty = put_node(&mut store, &[(nothing, 0)], Some(0));
        assert_eq!(refused(&store, &empty), ReadError::EmptyPart);

        let links = vec![Link { cid: empty, name: None, tsize: None }];
        let file = UnixFs { filesize: Some(0), ..UnixFs::new(Kind::File) };
        let node = Node { links, data: Some(file.encode().into()), ..Node::default() };
        let unsized_link =
            put(&mut store, Block::dag_pb(Version::V1, node.encode().into()).unwrap());
        let error = ReadError::BlockSizes { links: 1, block_sizes: 0 };
        assert_eq!(refused(&store, &unsized_link), error);
    }

    #[test]
    fn a_file_that_is_too_deep_is_rejected() {
        let mut store = MemoryStore::new(1 << 20);
        let mut root = leaf(&mut store, "ab");
        for _ in 1..FILE_DEPTH_MAX {
            root = put_node(&mut store, &[(root, 2)], Some(2));
        }
        assert_eq!(assemble(&store, &root, 2).unwrap(), "ab");
        let deeper = put_node(&mut store, &[(root, 2)], Some(2));
        assert_eq!(refused(&store, &deeper), ReadError::TooDeep { max: FILE_DEPTH_MAX });
    }

    #[test]
    fn a_small_dag_of_a_huge_file_costs_only_the_part_that_is_read() {
        let mut store = MemoryStore::new(1 << 20);
        let (mut root, mut size) = (leaf(&mut store, "a"), 1);
        for _ in 0..6 {
            let parts = vec![(root, size); 1000];
            size *= 1000;
            root = put_node(&mut store, &parts, Some(size));
        }
        let mut reader = FileReader::new(root, u64::MAX);
        for _ in 0..1000 {
            assert_eq!(reader.read(&store), Ok(Read::Bytes("a".into())));
        }
        assert_eq!(reader.file_bytes(), Some(10_u64.pow(18)));
        assert!(reader.wanted().count() <= 6 * 1000);
    }

    #[test]
    fn the_bytes_of_a_node_precede_those_of_its_links() {
        let mut store = MemoryStore::new(1 << 20);
        let behind = leaf(&mut store, "behind");
        let links = vec![Link { cid: behind, name: None, tsize: None }];
        let file = UnixFs {
            data: Some("before ".into()),
            filesize: Some(13),
            block_sizes: vec![6],
            ..UnixFs::new(Kind::Raw)
        };
        let node = Node { links, data: Some(file.encode().into()), ..Node::default() };
        let root = put(&mut store, Block::dag_pb(Version::V0, node.encode().into()).unwrap());
        assert_eq!(assemble(&store, &root, 13).unwrap(), "before behind");
    }

    #[test]
    fn inline_and_empty_blocks_are_read_without_a_store() {
        let store = MemoryStore::new(0);
        let inline = "bafkqaatine".parse().unwrap();
        assert_eq!(assemble(&store, &inline, 2).unwrap(), "hi");
        let empty = Block::raw(Bytes::new()).unwrap();
        assert_eq!(assemble(&store, empty.cid(), 0).unwrap(), "");
    }

    #[test]
    fn the_error_names_the_kind_of_a_node_that_is_not_a_file() {
        let mut store = MemoryStore::new(1 << 20);
        let directory = crate::DirectoryBuilder::new(Profile::default());
        let root = directory.finish(&mut |block| store.put(block)).unwrap();
        assert_eq!(refused(&store, &root.cid), ReadError::Kind { kind: Kind::Directory });
        let shard = UnixFs::new(Kind::HamtShard).encode();
        let shard = Node { data: Some(shard.into()), ..Node::default() };
        let shard = put(&mut store, Block::dag_pb(Version::V1, shard.encode().into()).unwrap());
        assert_eq!(refused(&store, &shard), ReadError::Kind { kind: Kind::HamtShard });
    }
}
