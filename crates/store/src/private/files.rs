use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchfire_content::encryption::{self, RecordCipher};
use watchfire_content::{Block, BlockStore, Cid, FileBuilder, MemoryStore, Profile, Root};

use super::content::{ContentError, PrivateContent};
use crate::shared::{LOCATION_COST_BYTES, UnsharedFiles};
use crate::{FileChange, Key, ReadBlocks, StoreError, UnsharedFile, key_of};

/// Private pages of files and directories, without a copy or an encrypted file on disk. Each record
/// is sealed when it is requested.
///
/// A shared file must not change. Sealing different content under one nonce would reveal both, so
/// every record is hashed after sealing and returned only if it is unchanged. Otherwise the whole
/// page is no longer shared; see [`PrivateFiles::take_unshared`].
///
/// ```
/// use watchfire_content::encryption::Key;
/// use watchfire_store::{PrivateFiles, ReadBlocks};
///
/// # let file = std::env::temp_dir().join(format!("watchfire-private-doc-{}", std::process::id()));
/// std::fs::write(&file, "Hello, world!\n")?;
/// let pages = PrivateFiles::new(1 << 20);
/// let root = pages.share(&file, &Key::from_bytes([7; 32]), false, &mut |_| {})?;
/// let block = pages.get(&root.cid)?.unwrap();
/// assert!(!block.bytes().windows(5).any(|bytes| bytes == b"Hello"));
/// # std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PrivateFiles {
    memory_bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pages: BTreeMap<u32, Arc<Page>>,
    next_page: u32,
    leaves: BTreeMap<Key, Leaf>,
    nodes: MemoryStore,
    unshared: UnsharedFiles,
}

#[derive(Debug)]
struct Page {
    content: PrivateContent,
    records: RecordCipher,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    page: u32,
    record: u64,
    bytes: u32,
}

impl Page {
    fn scan(path: &Path, key: &encryption::Key, skips_hidden: bool) -> Result<Self, StoreError> {
        let (index, content) = PrivateContent::scan(path, skips_hidden)?;
        let wrong = |error| StoreError::Private { path: path.to_owned(), error };
        let records = RecordCipher::for_sealing(key, index.layout().map_err(wrong)?);
        Ok(Page { content, records, path: path.to_owned() })
    }

    /// Seals the page once and passes all blocks of the ciphertext to `take`, leaves with the
    /// number of their record.
    fn build(
        &self,
        take: &mut dyn FnMut(Option<u64>, Block) -> Result<(), StoreError>,
    ) -> Result<Root, StoreError> {
        let mut builder = FileBuilder::new(Profile::UNIXFS_V1_2025)?;
        let mut record = 0;
        let mut emit = |block: Block| {
            let is_leaf = block.cid().codec() == watchfire_content::Codec::RAW;
            let of = is_leaf.then_some(record);
            record += u64::from(is_leaf);
            take(of, block)
        };
        for record in 0..self.records.layout().records() {
            let sealed = self.content.seal(&self.records, record).map_err(|error| match error {
                ContentError::Changed(path, _) => StoreError::ChangedDuringRead { path },
                ContentError::Store(error) => error,
            })?;
            builder.write(&sealed, &mut emit)?;
        }
        builder.finish(&mut emit)
    }
}

/// Returns the CID of the file or directory at `path` as a private page under this key. Nothing is
/// stored.
pub fn private_cid_of(
    path: &Path,
    key: &encryption::Key,
    skips_hidden: bool,
    on_leaf: &mut dyn FnMut(u64),
) -> Result<Root, StoreError> {
    Page::scan(path, key, skips_hidden)?.build(&mut |record, block| {
        if record.is_some() {
            on_leaf(block.bytes().len() as u64);
        }
        Ok(())
    })
}

impl PrivateFiles {
    /// Creates a store without pages. Names and locations take at most `memory_bytes_max` bytes.
    pub const fn new(memory_bytes_max: usize) -> Self {
        let state = State {
            pages: BTreeMap::new(),
            next_page: 0,
            leaves: BTreeMap::new(),
            nodes: MemoryStore::new(memory_bytes_max),
            unshared: UnsharedFiles::new(),
        };
        PrivateFiles { memory_bytes_max, state: Mutex::new(state) }
    }

    /// Shares the file or directory at `path` as a private page. The key must not have been used
    /// for another page. The files are read once, and `on_leaf` is called with the length of every
    /// leaf.
    ///
    /// After an error nothing of it is shared.
    pub fn share(
        &self,
        path: &Path,
        key: &encryption::Key,
        skips_hidden: bool,
        on_leaf: &mut dyn FnMut(u64),
    ) -> Result<Root, StoreError> {
        // A relative path would change its meaning with the working directory.
        let absolute = std::path::absolute(path);
        let path = crate::error::IoContext::doing(absolute, "access", path)?;
        let page = Page::scan(&path, key, skips_hidden)?;
        let max = self.memory_bytes_max;
        let room = max.saturating_sub(self.state.lock().cost());
        let mut cost = page.content.cost();
        let (mut leaves, mut nodes) = (Vec::new(), Vec::new());
        let root = page.build(&mut |record, block| {
            match (record, key_of(block.cid())) {
                (Some(record), Some(key)) => {
                    let bytes =
                        u32::try_from(block.bytes().len()).expect("blocks are at most 2 MiB");
                    leaves.push((key, record, bytes));
                    cost += LOCATION_COST_BYTES;
                    on_leaf(bytes.into());
                }
                _ => {
                    cost += block.bytes().len() + watchfire_content::STORED_BLOCK_OVERHEAD_BYTES;
                    nodes.push(block);
                }
            }
            if cost > room {
                return Err(StoreError::ShareMemoryFull { path: path.clone(), max });
            }
            Ok(())
        })?;
        let mut state = self.state.lock();
        for node in nodes {
            state.nodes.put(node)?;
        }
        let number = state.next_page;
        state.next_page += 1;
        for (key, record, bytes) in leaves {
            state.leaves.insert(key, Leaf { page: number, record, bytes });
        }
        state.pages.insert(number, Arc::new(page));
        Ok(root)
    }

    /// Returns the number of shared pages.
    pub fn pages(&self) -> usize {
        self.state.lock().pages.len()
    }

    /// Returns the changed files since the last call, at most the last 1024. The page of each is no
    /// longer shared.
    pub fn take_unshared(&self) -> Vec<UnsharedFile> {
        self.state.lock().unshared.take()
    }

    fn unshare(&self, number: u32, path: PathBuf, change: FileChange) -> StoreError {
        let mut state = self.state.lock();
        if state.pages.remove(&number).is_some() {
            state.leaves.retain(|_, leaf| leaf.page != number);
            tracing::warn!(path = %path.display(), %change, "stopped sharing a private page: a file changed");
            state.unshared.push(&path, change);
        }
        StoreError::Changed { path, change }
    }
}

impl State {
    fn cost(&self) -> usize {
        let pages = self.pages.values().map(|page| size_of::<Page>() + page.content.cost());
        pages.sum::<usize>() + self.leaves.len() * LOCATION_COST_BYTES + self.nodes.bytes()
    }
}

impl ReadBlocks for PrivateFiles {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let Some(key) = key_of(cid) else { return Ok(Block::from_cid(cid)) };
        let (leaf, page) = {
            let state = self.state.lock();
            if let Some(node) = state.nodes.get(cid) {
                return Ok(Some(node));
            }
            let Some(leaf) = state.leaves.get(&key).copied() else { return Ok(None) };
            (leaf, Arc::clone(&state.pages[&leaf.page]))
        };
        let sealed = match page.content.seal(&page.records, leaf.record) {
            Ok(sealed) => sealed,
            Err(ContentError::Changed(path, change)) => {
                return Err(self.unshare(leaf.page, path, change));
            }
            Err(ContentError::Store(error)) => return Err(error),
        };
        match Block::verify(cid.clone(), sealed.into()) {
            Ok(block) => Ok(Some(block)),
            Err(_) => {
                let path = page.content.file_of(&page.records, leaf.record);
                let path = path.unwrap_or_else(|| page.path.clone());
                Err(self.unshare(leaf.page, path, FileChange::ContentDiffers))
            }
        }
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let Some(key) = key_of(cid) else {
            return Block::from_cid(cid).map(|block| block.bytes().len() as u64);
        };
        let state = self.state.lock();
        if let Some(node) = state.nodes.get(cid) {
            return Some(node.bytes().len() as u64);
        }
        state.leaves.get(&key).map(|leaf| leaf.bytes.into())
    }
}
