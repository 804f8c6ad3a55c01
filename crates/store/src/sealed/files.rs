use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use content::{Block, BlockStore, Cid, FileBuilder, MemoryStore, Profile, Root};
use private::Records;

use super::content::{Content, Unread};
use crate::shared::{PLACE_COST_BYTES, WITHDRAWN_MAX};
use crate::{Change, Key, ReadBlocks, StoreError, Withdrawn, key_of, locked};

/// Private pages of files and directories that stay where they lie: neither copied nor sealed on
/// disk. Each record is sealed when it is asked for.
///
/// A file must stay as it is. Sealing other content under a nonce that was used before would give
/// both away, so every record is hashed after it was sealed again, and leaves only when it is what
/// it was; else the whole page is shared no longer ([`PrivateFiles::take_withdrawn`]).
///
/// ```
/// use private::Key;
/// use store::{PrivateFiles, ReadBlocks};
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
    withdrawn: VecDeque<Withdrawn>,
}

#[derive(Debug)]
struct Page {
    content: Content,
    records: Records,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    page: u32,
    record: u64,
    bytes: u32,
}

impl Page {
    fn at(path: &Path, key: &private::Key, skips_hidden: bool) -> Result<Self, StoreError> {
        let (index, content) = Content::at(path, skips_hidden)?;
        let refused = |error| StoreError::Private { path: path.to_owned(), error };
        let records = Records::sealing(key, index.layout().map_err(refused)?);
        Ok(Page { content, records, path: path.to_owned() })
    }

    /// Seals it once, and gives all blocks of the ciphertext to `take`: leaves with their record.
    fn build(
        &self,
        take: &mut dyn FnMut(Option<u64>, Block) -> Result<(), StoreError>,
    ) -> Result<Root, StoreError> {
        let mut builder = FileBuilder::new(Profile::UNIXFS_V1_2025)?;
        let mut record = 0;
        let mut emit = |block: Block| {
            let is_leaf = block.cid().codec() == content::Codec::RAW;
            let of = is_leaf.then_some(record);
            record += u64::from(is_leaf);
            take(of, block)
        };
        for record in 0..self.records.layout().records() {
            let sealed =
                self.content.seal(&self.records, record).map_err(|unread| match unread {
                    Unread::Changed(path, _) => StoreError::ChangedMeanwhile { path },
                    Unread::Store(error) => error,
                })?;
            builder.write(&sealed, &mut emit)?;
        }
        builder.finish(&mut emit)
    }
}

/// The CID of what lies at `path`, as a private page under this key. Nothing is kept, and no
/// ciphertext leaves.
pub fn private_cid_of(
    path: &Path,
    key: &private::Key,
    skips_hidden: bool,
    tell: &mut dyn FnMut(u64),
) -> Result<Root, StoreError> {
    Page::at(path, key, skips_hidden)?.build(&mut |record, block| {
        if record.is_some() {
            tell(block.bytes().len() as u64);
        }
        Ok(())
    })
}

impl PrivateFiles {
    /// Nothing is shared yet. Names and places take up to `memory_bytes_max` bytes of memory.
    pub const fn new(memory_bytes_max: usize) -> Self {
        let state = State {
            pages: BTreeMap::new(),
            next_page: 0,
            leaves: BTreeMap::new(),
            nodes: MemoryStore::new(memory_bytes_max),
            withdrawn: VecDeque::new(),
        };
        PrivateFiles { memory_bytes_max, state: Mutex::new(state) }
    }

    /// Shares the file or directory at `path` as a page that `key` opens, and that never opened
    /// another. It is read once; `tell` is told of the bytes of every leaf.
    ///
    /// All of it or, after an error, nothing.
    pub fn share(
        &self,
        path: &Path,
        key: &private::Key,
        skips_hidden: bool,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Root, StoreError> {
        // A relative path would lead elsewhere when the process changes its directory.
        let absolute = std::path::absolute(path);
        let path = crate::error::Doing::doing(absolute, "look at", path)?;
        let page = Page::at(&path, key, skips_hidden)?;
        let max = self.memory_bytes_max;
        let room = max.saturating_sub(locked(&self.state).cost());
        let mut cost = page.content.cost();
        let (mut leaves, mut nodes) = (Vec::new(), Vec::new());
        let root = page.build(&mut |record, block| {
            match (record, key_of(block.cid())) {
                (Some(record), Some(key)) => {
                    let bytes = u32::try_from(block.bytes().len()).expect("a block is short");
                    leaves.push((key, record, bytes));
                    cost += PLACE_COST_BYTES;
                    tell(bytes.into());
                }
                _ => {
                    cost += block.bytes().len() + content::STORED_BLOCK_OVERHEAD_BYTES;
                    nodes.push(block);
                }
            }
            if cost > room {
                return Err(StoreError::TooMuchToShare { path: path.clone(), max });
            }
            Ok(())
        })?;
        let mut state = locked(&self.state);
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

    /// Pages that are shared.
    pub fn pages(&self) -> usize {
        locked(&self.state).pages.len()
    }

    /// The files that were found to be changed since this was last asked, each of which ended its
    /// page; at most 1024, the oldest are forgotten first.
    pub fn take_withdrawn(&self) -> Vec<Withdrawn> {
        locked(&self.state).withdrawn.drain(..).collect()
    }

    fn withdraw(&self, number: u32, path: PathBuf, change: Change) -> StoreError {
        let mut state = locked(&self.state);
        if state.pages.remove(&number).is_some() {
            state.leaves.retain(|_, leaf| leaf.page != number);
            tracing::warn!(path = %path.display(), %change, "a private page was withdrawn");
            if state.withdrawn.len() == WITHDRAWN_MAX {
                state.withdrawn.pop_front();
            }
            state.withdrawn.push_back(Withdrawn { path: path.clone(), change });
        }
        StoreError::Changed { path, change }
    }
}

impl State {
    fn cost(&self) -> usize {
        let pages = self.pages.values().map(|page| size_of::<Page>() + page.content.cost());
        pages.sum::<usize>() + self.leaves.len() * PLACE_COST_BYTES + self.nodes.bytes()
    }
}

impl ReadBlocks for PrivateFiles {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        let Some(key) = key_of(cid) else { return Ok(Block::implied_by(cid)) };
        let (leaf, page) = {
            let state = locked(&self.state);
            if let Some(node) = state.nodes.get(cid) {
                return Ok(Some(node));
            }
            let Some(leaf) = state.leaves.get(&key).copied() else { return Ok(None) };
            (leaf, Arc::clone(&state.pages[&leaf.page]))
        };
        let sealed = match page.content.seal(&page.records, leaf.record) {
            Ok(sealed) => sealed,
            Err(Unread::Changed(path, change)) => {
                return Err(self.withdraw(leaf.page, path, change));
            }
            Err(Unread::Store(error)) => return Err(error),
        };
        match Block::verify(cid.clone(), sealed.into()) {
            Ok(block) => Ok(Some(block)),
            Err(_) => {
                let path = page.content.file_of(&page.records, leaf.record);
                let path = path.unwrap_or_else(|| page.path.clone());
                Err(self.withdraw(leaf.page, path, Change::OtherBytes))
            }
        }
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        let Some(key) = key_of(cid) else {
            return Block::implied_by(cid).map(|block| block.bytes().len() as u64);
        };
        let state = locked(&self.state);
        if let Some(node) = state.nodes.get(cid) {
            return Some(node.bytes().len() as u64);
        }
        state.leaves.get(&key).map(|leaf| leaf.bytes.into())
    }
}
