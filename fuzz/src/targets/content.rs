use bytes::Bytes;
use watchfire_content::car::{self, CarItem, CarReader};
use watchfire_content::dag_pb::{FieldOrder, Link, Node};
use watchfire_content::unixfs::{Kind, UnixFs};
use watchfire_content::{
    Block, BlockStore, Cid, Directory, DirectoryBuilder, DirectoryReader, FileBuilder, FileReader,
    MemoryStore, Multihash, Prefix, Profile, Read, Root, Version, Walk, WalkStep, assemble, list,
};

/// A CID in base32, or in the base58 of version 0, is written as the text it was parsed from. One in another base is
/// written in base32. Each decodes again.
pub fn cid_text(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(cid) = Cid::parse(text) else { return };
    let written = cid.to_string();
    assert_eq!(Cid::parse(&written).as_ref(), Ok(&cid));
    let is_in_another_base = text.starts_with(['z', 'f', 'F', 'k', 'K', 'B']);
    assert!(written == text || is_in_another_base, "{text} is written as {written}");
    assert_eq!(Cid::decode(&cid.encode()), Ok(cid));
}

/// A binary CID that decodes encodes to the same bytes.
pub fn cid_bytes(bytes: &[u8]) {
    let Ok(cid) = Cid::decode(bytes) else { return };
    assert_eq!(cid.encode(), bytes);
    assert_eq!(cid.encoded_len(), bytes.len());
    assert_eq!(Cid::parse(&cid.to_string()), Ok(cid));
}

/// A prefix that decodes makes CIDs with that prefix, and encodes to an equal prefix.
pub fn cid_prefix(bytes: &[u8]) {
    let Ok(prefix) = Prefix::decode(bytes) else { return };
    let cid = prefix.cid_of(b"something").expect("the content is short enough for any hash");
    assert!(cid.is_of(b"something"));
    assert_eq!(cid.prefix(), prefix);
    assert_eq!(Prefix::decode(&prefix.encode(9)), Ok(prefix));
}

/// A node that decodes encodes to the same bytes.
pub fn dag_pb(bytes: &[u8]) {
    let Ok(node) = Node::decode(&Bytes::copy_from_slice(bytes)) else { return };
    assert_eq!(node.encode(), bytes);
    assert_eq!(node.encoded_len(), bytes.len());
}

/// UnixFS data that decodes encodes to the same bytes.
pub fn unixfs(bytes: &[u8]) {
    let Ok(unixfs) = UnixFs::decode(&Bytes::copy_from_slice(bytes)) else { return };
    assert_eq!(unixfs.encode(), bytes);
}

/// A dag-pb block of any bytes, read as a directory, a sharded directory and a file.
pub fn block(bytes: &[u8]) {
    let Ok(block) = Block::dag_pb(Version::V1, Bytes::copy_from_slice(bytes)) else { return };
    if let Ok(directory) = Directory::decode(&block) {
        for entry in directory.entries() {
            assert!(!entry.name.is_empty() && !entry.name.contains(['/', '\0']));
            assert_eq!(directory.find(&entry.name), Some(entry));
        }
    }
    let mut reader = DirectoryReader::new(block.cid().clone(), 1000);
    if let Ok(entries) = reader.take(&block) {
        assert!(entries.len() + reader.wanted().count() <= 1000);
    }
    let mut store = MemoryStore::new(1 << 20);
    store.put(block.clone()).expect("there is room for one block");
    read_file(&store, block.cid(), 1 << 20);
}

/// Maximum bytes of a file that the targets read to its end.
const FILE_BYTES_MAX: u64 = 16 * 1024;

/// Maximum links of a node in the generated DAGs.
const LINKS_MAX: usize = 500;

/// A DAG of valid blocks. The input determines the links and their declared sizes, which may be
/// false. Reading the DAG ends, yields the declared bytes, and takes little memory.
pub fn dag(bytes: &[u8]) {
    let mut dag = GeneratedDag { store: MemoryStore::new(4 << 20), roots: Vec::new() };
    let mut program = bytes.iter().copied();
    while let (Some(step), true) = (program.next(), dag.roots.len() < 64) {
        dag.run_step(step, &mut program);
    }
    let GeneratedDag { store, roots } = dag;
    let Some((root, _)) = roots.last() else { return };
    read_file(&store, root, FILE_BYTES_MAX);
    read_start(&store, root);
    walk(&store, root, roots.len() + 1);
}

/// The blocks that were generated so far, each with the file size that it has or declares.
struct GeneratedDag {
    store: MemoryStore,
    roots: Vec<(Cid, u64)>,
}

impl GeneratedDag {
    fn run_step(&mut self, step: u8, program: &mut impl Iterator<Item = u8>) {
        let mut number = || program.next().unwrap_or(0);
        match step % 8 {
            0 => {
                let leaf = Bytes::from(vec![step; usize::from(number() % 8)]);
                let size = leaf.len() as u64;
                self.add(Block::raw(leaf), size);
            }
            1 => {
                let parts: Vec<_> = (0..step >> 4).map(|_| self.part(number(), number())).collect();
                self.add_file(parts, None, number());
            }
            2 => {
                let part = self.part(number(), 0);
                let links = usize::from(number()) * LINKS_MAX / 255;
                self.add_file(vec![part; links], None, number());
            }
            3 => {
                let part = self.part(number(), number());
                self.add_file(vec![part], Some(vec![step; usize::from(number() % 4)]), number());
            }
            4 => {
                let part = self.part(number(), number());
                for _ in 0..step >> 2 {
                    let (below, size) = self.roots.last().cloned().unwrap_or(part.clone());
                    self.add_file(vec![(below, size)], None, 0);
                }
            }
            5 => self.add_directory((0..step >> 4).map(|_| (number(), number())).collect()),
            6 => {
                let len = number();
                let data: Vec<u8> = program.take(len.into()).collect();
                self.add(Block::dag_pb(Version::V0, data.into()), len.into());
            }
            _ => {
                let inline = vec![step; usize::from(number() % 130)];
                let Some(hash) = Multihash::identity(&inline) else { return };
                self.roots
                    .push((Cid::v1(watchfire_content::Codec::RAW, hash), inline.len() as u64));
            }
        }
    }

    /// A link to a generated block or to a missing one, with the size to declare for it.
    fn part(&self, index: u8, distortion: u8) -> (Cid, u64) {
        let back = usize::from(index) % (self.roots.len() + 1);
        let missing =
            (Cid::v1(watchfire_content::Codec::RAW, Multihash::sha2_256(&[index; 33])), 33);
        let (cid, size) = self.roots.iter().rev().nth(back).cloned().unwrap_or(missing);
        let declared = match distortion % 16 {
            1 => 0,
            2 => u64::MAX,
            3 => size.wrapping_add(1),
            4 => size.wrapping_sub(1),
            5 => u64::MAX / 2,
            _ => size,
        };
        (cid, declared)
    }

    fn add_file(&mut self, parts: Vec<(Cid, u64)>, data: Option<Vec<u8>>, shape: u8) {
        let own = data.as_ref().map_or(0, Vec::len) as u64;
        let size = parts.iter().fold(own, |sum, (_, size)| sum.wrapping_add(*size));
        let file = UnixFs {
            data: data.map(Bytes::from),
            filesize: (shape & 1 == 0).then_some(size),
            block_sizes: parts.iter().map(|(_, size)| *size).collect(),
            ..UnixFs::new(if shape & 2 == 0 { Kind::File } else { Kind::Raw })
        };
        let name = (shape & 4 == 0).then(String::new);
        let links = parts.into_iter().map(|(cid, size)| Link {
            cid,
            name: name.clone(),
            tsize: (shape & 8 == 0).then_some(size),
        });
        let order = if shape & 16 == 0 { FieldOrder::LinksFirst } else { FieldOrder::DataFirst };
        let node = Node { links: links.collect(), data: Some(file.encode().into()), order };
        self.add(Block::dag_pb(Version::V1, node.encode().into()), size);
    }

    fn add_directory(&mut self, entries: Vec<(u8, u8)>) {
        let links = entries.into_iter().map(|(index, name)| {
            let (cid, size) = self.part(index, 0);
            let name = char::from(name).to_string().repeat(usize::from(name % 3));
            Link { cid, name: Some(name), tsize: Some(size) }
        });
        let data = UnixFs::new(Kind::Directory).encode();
        let node = Node { links: links.collect(), data: Some(data.into()), ..Node::default() };
        self.add(Block::dag_pb(Version::V1, node.encode().into()), 0);
    }

    fn add(&mut self, block: Result<Block, watchfire_content::BlockError>, size: u64) {
        let Ok(block) = block else { return };
        let cid = block.cid().clone();
        if self.store.put(block).is_ok() {
            self.roots.push((cid, size));
        }
    }
}

/// Reads a file to its end, an error or a missing block. It yields at most the declared bytes.
fn read_file(store: &MemoryStore, root: &Cid, file_bytes_max: u64) {
    let mut reader = FileReader::new(root.clone(), file_bytes_max);
    let mut file = Vec::new();
    let end = loop {
        match reader.read(store) {
            Ok(Read::Bytes(bytes)) => {
                assert!(!bytes.is_empty());
                file.extend_from_slice(&bytes);
                assert_eq!(reader.read_bytes(), file.len() as u64);
                assert!(reader.file_bytes() >= Some(file.len() as u64));
            }
            end => break end,
        }
    };
    assert!(file.len() as u64 <= file_bytes_max);
    match &end {
        Ok(Read::End) => assert_eq!(reader.file_bytes(), Some(file.len() as u64)),
        Ok(Read::Missing(cid)) => assert!(!store.has(cid)),
        _ => {}
    }
    let assembled = assemble(store, root, file_bytes_max);
    assert_eq!(assembled.ok().map(|bytes| bytes == file), (end == Ok(Read::End)).then_some(true));
}

/// Reads the start of a file of any declared size.
fn read_start(store: &MemoryStore, root: &Cid) {
    let mut reader = FileReader::new(root.clone(), u64::MAX);
    for _ in 0..200 {
        let Ok(Read::Bytes(_)) = reader.read(store) else { return };
        assert!(reader.wanted().count() <= watchfire_content::FILE_DEPTH_MAX * LINKS_MAX);
    }
}

/// Visits each block once, and at most `blocks_max` of them.
fn walk(store: &MemoryStore, root: &Cid, blocks_max: usize) {
    let mut walk = Walk::new(root.clone(), blocks_max);
    let mut visited = Vec::new();
    loop {
        match walk.step(store) {
            Ok(WalkStep::Block(block)) => visited.push(block.cid().clone()),
            Ok(WalkStep::Missing(cid)) => visited.push(cid),
            Ok(WalkStep::End) | Err(_) => break,
        }
    }
    assert!(visited.len() <= blocks_max);
    visited.sort();
    assert!(visited.windows(2).all(|pair| pair[0] != pair[1]));
}

/// A file that is built reads back the same, for any profile and pieces of any size.
pub fn file(bytes: &[u8]) {
    let [chunk, links, shape, piece, file @ ..] = bytes else { return };
    let profile = Profile {
        cid_version: if shape & 1 == 0 { Version::V0 } else { Version::V1 },
        raw_leaves: shape & 2 == 0,
        chunk_bytes: usize::from(*chunk),
        links_max: usize::from(*links),
        ..Profile::default()
    };
    let Ok(mut builder) = FileBuilder::new(profile) else { return };
    let file = &file[..file.len().min(300)];
    let mut store = MemoryStore::new(1 << 20);
    let mut put = |block| store.put(block);
    for piece in file.chunks(usize::from(*piece).max(1)) {
        builder.write(piece, &mut put).expect("there is room");
    }
    let root = builder.finish(&mut put).expect("there is room");
    assert_eq!(root.file_bytes, file.len() as u64);
    assert_eq!(assemble(&store, &root.cid, root.file_bytes).expect("the file was built"), file);
}

/// Names of a directory, one a line. The directory lists exactly the accepted names, sorted.
pub fn directory_names(bytes: &[u8]) {
    let Ok(names) = str::from_utf8(bytes) else { return };
    let root = Root { cid: Cid::v0([0; 32]), dag_bytes: 1, file_bytes: 1 };
    let mut builder = DirectoryBuilder::new(Profile::default());
    let mut accepted: Vec<&str> =
        names.split('\n').filter(|name| builder.insert(name, &root).is_ok()).collect();
    accepted.sort_unstable();
    let mut store = MemoryStore::new(4 << 20);
    let root = builder.finish(&mut |block| store.put(block)).expect("there is room");
    let directory = list(&store, &root.cid, accepted.len()).expect("the directory was built");
    assert!(directory.entries().iter().map(|entry| &entry.name[..]).eq(accepted));
}

/// An archive in pieces; the first byte plus one is their size. A complete archive that is written
/// again has the same roots and blocks.
pub fn car_archive(bytes: &[u8]) {
    let [piece, archive @ ..] = bytes else { return };
    let Some((roots, blocks)) = read_archive(archive, usize::from(*piece) + 1) else { return };
    let mut written = car::header(&roots);
    for block in &blocks {
        written.extend(car::section_head(block));
        written.extend_from_slice(block.bytes());
    }
    assert_eq!(read_archive(&written, written.len()), Some((roots, blocks)));
}

fn read_archive(archive: &[u8], piece: usize) -> Option<(Vec<Cid>, Vec<Block>)> {
    let (mut roots, mut blocks) = (None, Vec::new());
    let mut reader = CarReader::default();
    for piece in archive.chunks(piece) {
        reader.push(piece);
        while let Some(item) = reader.next().ok()? {
            match item {
                CarItem::Roots(cids) => assert!(roots.replace(cids).is_none(), "roots come once"),
                CarItem::Block(block) => blocks.push(block),
            }
        }
    }
    reader.finish().ok()?;
    Some((roots.expect("a complete archive has roots"), blocks))
}
