mod folder;
mod index;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Mutex;

use content::dag_pb::Node;
use content::{Block, Checksums, Cid, Codec};

use crate::error::Doing;
use crate::{Key, ReadBlocks, StoreError, WriteBlocks, checksums, key_of, locked};
use folder::{Folder, verified};
use index::Index;

/// What a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// Most bytes of blocks, each counted in whole pages of 4 KiB.
    pub bytes_max: u64,
    /// Most blocks that pins may keep, those counted that are not here (yet). Each takes about 50
    /// bytes of memory.
    pub pinned_blocks_max: usize,
}

impl Default for DiskLimits {
    fn default() -> Self {
        DiskLimits { bytes_max: 10 << 30, pinned_blocks_max: 4_000_000 }
    }
}

/// What a store holds, and what became of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTotals {
    /// Blocks that are here.
    pub blocks: u64,
    /// Bytes that they take, in whole pages.
    pub bytes: u64,
    /// Blocks that pins keep, those counted that are not here.
    pub pinned_blocks: u64,
    /// Blocks that were forgotten to make room, since the store was opened.
    pub forgotten: u64,
    /// Blocks that were found to be damaged and removed, since the store was opened.
    pub damaged: u64,
}

/// A folder of blocks, each in a file of its own that is named by its CID.
///
/// - **Killed at any moment**, a process leaves whole blocks: a file gets its name only when all
///   of it is written. What was half-written is removed when the store is opened again.
/// - **A power cut** can take what was written since the last [`DiskStore::sync`]: blocks are not
///   forced onto the disk one by one, which would cost more than all else. It cannot make a wrong
///   block pass for a right one: every block is hashed when it is read first, later its checksum
///   is compared, and one that is damaged is removed, and reported once. The list of pins is forced onto the disk each time.
/// - **Full**: the blocks that were not used for longest go first, but none that is pinned (see
///   [`DiskStore::pin`]). If that is not enough, or the disk is full, the new block is refused and
///   all that is here stays. How old a block is, is known since the store was opened; before, by
///   when it was written.
/// - **One process** at a time: a second one is told who has the store open.
///
/// Threads share it; readers and writers of different blocks do not wait for one another's bytes.
///
/// ```
/// use content::Block;
/// use store::{DiskLimits, DiskStore, ReadBlocks, WriteBlocks};
///
/// # let folder = std::env::temp_dir().join(format!("watchfire-store-doc-{}", std::process::id()));
/// let block = Block::raw("hi".into())?;
/// let store = DiskStore::open(&folder, DiskLimits::default())?;
/// store.put(&block)?;
/// drop(store);
///
/// let store = DiskStore::open(&folder, DiskLimits::default())?;
/// assert_eq!(store.get(block.cid())?, Some(block));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DiskStore {
    limits: DiskLimits,
    folder: Folder,
    checksums: Checksums,
    /// Taken before `state` when both are.
    pins: Mutex<BTreeSet<Cid>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    index: Index,
    forgotten: u64,
    damaged: u64,
}

impl DiskStore {
    /// Opens the store in `folder`, which is made if it is not there.
    ///
    /// Looks at every block's file, reads every node that is pinned, and forgets what is too much
    /// under these limits.
    pub fn open(folder: &Path, limits: DiskLimits) -> Result<Self, StoreError> {
        let folder = Folder::open(folder)?;
        let mut index = Index::new(limits.bytes_max);
        for found in folder.scan()? {
            index.insert(found.key, found.len);
        }
        let pins = folder.read_pins()?.into_iter().collect();
        let state = Mutex::new(State { index, forgotten: 0, damaged: 0 });
        let pinned = Mutex::new(BTreeSet::new());
        let store = DiskStore { limits, folder, checksums: checksums(), pins: pinned, state };
        store.keep_below(&pins)?;
        *locked(&store.pins) = pins;
        {
            let mut state = locked(&store.state);
            let forgotten = state.index.make_room();
            store.forget(&mut state, forgotten)?;
        }
        Ok(store)
    }

    /// Lets everything stay that can be reached from `root`, over restarts too, until
    /// [`DiskStore::unpin`].
    ///
    /// What is not here yet counts from when it comes: pin a root before fetching it, and nothing
    /// of it is forgotten on the way. Whether it was not pinned before.
    pub fn pin(&self, root: &Cid) -> Result<bool, StoreError> {
        let mut pins = locked(&self.pins);
        if pins.contains(root) {
            return Ok(false);
        }
        if let Err(error) = self.keep_below(std::iter::once(root)) {
            // The blocks that were to stay because of this root alone need not.
            self.keep_only(&pins)?;
            return Err(error);
        }
        pins.insert(root.clone());
        if let Err(error) = self.folder.write_pins(pins.iter()) {
            pins.remove(root);
            self.keep_only(&pins)?;
            return Err(error);
        }
        Ok(true)
    }

    /// Takes back [`DiskStore::pin`]; whether it was pinned. What no other pin keeps may be
    /// forgotten from now on, and is when room is needed.
    pub fn unpin(&self, root: &Cid) -> Result<bool, StoreError> {
        let mut pins = locked(&self.pins);
        if !pins.remove(root) {
            return Ok(false);
        }
        if let Err(error) = self.folder.write_pins(pins.iter()) {
            pins.insert(root.clone());
            return Err(error);
        }
        self.keep_only(&pins)?;
        Ok(true)
    }

    /// The roots that are pinned.
    pub fn pins(&self) -> Vec<Cid> {
        locked(&self.pins).iter().cloned().collect()
    }

    /// Forgets a block, whether or not a pin keeps it; whether it was here.
    pub fn remove(&self, cid: &Cid) -> Result<bool, StoreError> {
        let Some(key) = key_of(cid) else { return Ok(false) };
        let mut state = locked(&self.state);
        self.folder.remove(&key)?;
        Ok(state.index.remove(&key))
    }

    /// Forces all that was put so far onto the disk: it survives a power cut.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.folder.sync()
    }

    /// What is here.
    pub fn totals(&self) -> DiskTotals {
        let state = locked(&self.state);
        DiskTotals {
            blocks: state.index.blocks() as u64,
            bytes: state.index.bytes(),
            pinned_blocks: state.index.pinned() as u64,
            forgotten: state.forgotten,
            damaged: state.damaged,
        }
    }

    /// Where the store lies.
    pub fn folder(&self) -> &Path {
        self.folder.root()
    }

    /// Removes the files of blocks whose entries are gone.
    fn forget(&self, state: &mut State, keys: Vec<Key>) -> Result<(), StoreError> {
        for key in keys {
            state.forgotten += 1;
            self.folder.remove(&key)?;
        }
        Ok(())
    }

    /// Lets all that can be reached from these stay, beside what does already.
    fn keep_below<'a>(&self, roots: impl IntoIterator<Item = &'a Cid>) -> Result<(), StoreError> {
        let mut ahead: Vec<Cid> = roots.into_iter().cloned().collect();
        while let Some(cid) = ahead.pop() {
            let is_node = cid.codec() == Codec::DAG_PB;
            if let Some(key) = key_of(&cid) {
                // First the pin, then the look: whoever puts it meanwhile looks after putting, so
                // that one of the two sees the other.
                let mut state = locked(&self.state);
                if !state.index.pin(key, is_node) {
                    continue;
                }
                self.check_pinned(state.index.pinned())?;
            }
            if is_node {
                ahead.extend(self.links_of(&cid)?);
            }
        }
        Ok(())
    }

    /// Lets what can be reached from these stay, and nothing else.
    fn keep_only(&self, roots: &BTreeSet<Cid>) -> Result<(), StoreError> {
        let mut pinned = HashMap::new();
        let mut ahead: Vec<Cid> = roots.iter().cloned().collect();
        while let Some(cid) = ahead.pop() {
            let is_node = cid.codec() == Codec::DAG_PB;
            if let Some(key) = key_of(&cid) {
                let known = pinned.get(&key).copied();
                if known.is_some_and(|was_node: bool| was_node || !is_node) {
                    continue;
                }
                pinned.insert(key, is_node);
                self.check_pinned(pinned.len())?;
            }
            if is_node {
                ahead.extend(self.links_of(&cid)?);
            }
        }
        locked(&self.state).index.replace_pins(pinned);
        Ok(())
    }

    fn check_pinned(&self, pinned: usize) -> Result<(), StoreError> {
        let max = self.limits.pinned_blocks_max;
        if pinned > max { Err(StoreError::TooManyPinned { max }) } else { Ok(()) }
    }

    /// What a node links to; nothing when it is not here, or is none.
    fn links_of(&self, cid: &Cid) -> Result<Vec<Cid>, StoreError> {
        match self.get(cid) {
            Ok(Some(block)) => Ok(links(&block)),
            Ok(None) | Err(StoreError::Damaged { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The block's file is not what it should be: it goes.
    fn withdraw(&self, cid: &Cid, key: &Key) -> StoreError {
        let mut state = locked(&self.state);
        if state.index.remove(key) {
            state.damaged += 1;
        }
        match self.folder.remove(key) {
            Ok(()) => StoreError::Damaged { cid: cid.clone(), path: self.folder.path_of(key) },
            Err(error) => error,
        }
    }
}

fn links(block: &Block) -> Vec<Cid> {
    let links = Node::decode(block.bytes()).map(|node| node.links).unwrap_or_default();
    links.into_iter().map(|link| link.cid).collect()
}

impl ReadBlocks for DiskStore {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        if let Some(block) = Block::implied_by(cid) {
            return Ok(Some(block));
        }
        let Some(key) = key_of(cid) else { return Ok(None) };
        let (len, checksum) = {
            let mut state = locked(&self.state);
            let Some(len) = state.index.touch(&key) else { return Ok(None) };
            (len, state.index.checksum_of(&key))
        };
        let path = self.folder.path_of(&key);
        let read = match self.folder.read(&path, len) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // It was forgotten since the look, and perhaps put again since the reading: nothing comes
                // or goes while the state is held.
                let state = locked(&self.state);
                if state.index.len_of(&key).is_none() {
                    return Ok(None);
                }
                self.folder.read(&path, len)
            }
            read => read,
        };
        match read {
            Ok(bytes) => match checksum {
                Some(checksum) => match self.checksums.recognise(cid, bytes.into(), checksum) {
                    Some(block) => Ok(Some(block)),
                    None => Err(self.withdraw(cid, &key)),
                },
                None => match verified(cid, bytes) {
                    Some(block) => {
                        let checksum = self.checksums.of(&block);
                        locked(&self.state).index.set_checksum(&key, checksum);
                        Ok(Some(block))
                    }
                    None => Err(self.withdraw(cid, &key)),
                },
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.withdraw(cid, &key)),
            Err(error) => Err(error).doing("read", &path),
        }
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        if let Some(block) = Block::implied_by(cid) {
            return Some(block.bytes().len() as u64);
        }
        locked(&self.state).index.len_of(&key_of(cid)?)
    }
}

impl WriteBlocks for DiskStore {
    fn put(&self, block: &Block) -> Result<(), StoreError> {
        let (Some(key), false) = (key_of(block.cid()), block.bytes().is_empty()) else {
            return Ok(());
        };
        let len = block.bytes().len() as u64;
        {
            let mut state = locked(&self.state);
            if state.index.touch(&key).is_some() {
                return Ok(());
            }
            let max = self.limits.bytes_max;
            let room = state.index.reserve(len);
            let forgotten = room.map_err(|index::NoRoom { held }| StoreError::Full {
                needed: index::cost(len),
                held,
                max,
            })?;
            if let Err(error) = self.forget(&mut state, forgotten) {
                state.index.release(len);
                return Err(error);
            }
        }
        let checksum = self.checksums.of(block);
        let written = self.folder.write(block.bytes());
        let mut state = locked(&self.state);
        match written.and_then(|file| file.place(&self.folder.path_of(&key))) {
            Ok(()) => {
                state.index.commit(key, len);
                state.index.set_checksum(&key, checksum);
            }
            Err(error) => {
                state.index.release(len);
                return Err(error);
            }
        };
        let is_pinned_node = state.index.is_pinned_node(&key);
        drop(state);
        if is_pinned_node {
            let _pins = locked(&self.pins);
            // Perhaps the pin ended meanwhile.
            let is_still = locked(&self.state).index.is_pinned_node(&key);
            if is_still {
                self.keep_below(&links(block))?;
            }
        }
        Ok(())
    }
}
