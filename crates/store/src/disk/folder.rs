use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use content::{BLOCK_BYTES_MAX, Cid, Codec, Multihash};

use crate::error::Doing;
use crate::{Key, StoreError, key_of, pieces};

/// What the file `store` says in every folder that is one of ours.
const FORMAT: &str = "watchfire block store 1\n";

/// A folder of blocks, and what else lies in it:
///
/// - `store` says what the folder is, `lock` who has it open, `pins` what must stay;
/// - `blocks/ab/<CID>` are the blocks, in up to 1024 folders named by the last two characters
///   before the last one of the CID (version 1, raw, whatever the block was called);
/// - `temp/` has what is being written. After a crash nothing in it is of use.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// Locked while this folder is open; the system unlocks it when the process ends, however.
    _lock: File,
    temporaries: AtomicU64,
}

/// A block that was found in the folder.
pub(super) struct Found {
    pub key: Key,
    pub len: u64,
    pub written_at: SystemTime,
}

impl Folder {
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(root).doing("create", root)?;
        let is_ours = check_format(root)?;
        let lock = lock(root)?;
        let folder = Folder { root: root.to_owned(), _lock: lock, temporaries: AtomicU64::new(0) };
        for part in ["blocks", "temp"] {
            let path = root.join(part);
            fs::create_dir_all(&path).doing("create", &path)?;
        }
        folder.clean()?;
        if !is_ours {
            folder.replace(&root.join("store"), FORMAT.as_bytes())?;
        }
        Ok(folder)
    }

    /// Removes what a process left that ended in the middle of writing.
    fn clean(&self) -> Result<(), StoreError> {
        let temp = self.root.join("temp");
        for entry in fs::read_dir(&temp).doing("list", &temp)? {
            let path = entry.doing("list", &temp)?.path();
            fs::remove_file(&path).doing("remove", &path)?;
        }
        Ok(())
    }

    /// All blocks in the folder, the oldest first. What cannot be one is removed.
    pub fn scan(&self) -> Result<Vec<Found>, StoreError> {
        let blocks = self.root.join("blocks");
        let mut found = Vec::new();
        for shard in fs::read_dir(&blocks).doing("list", &blocks)? {
            let shard = shard.doing("list", &blocks)?.path();
            if !shard.is_dir() {
                continue;
            }
            for entry in fs::read_dir(&shard).doing("list", &shard)? {
                let path = entry.doing("list", &shard)?.path();
                let Some(key) = self.key_at(&path) else {
                    tracing::warn!(path = %path.display(), "not a block, left alone");
                    continue;
                };
                let metadata = fs::metadata(&path).doing("look at", &path)?;
                let len = metadata.len();
                // No block is empty: the one that is needs no file. After a power cut, files are.
                if len == 0 || len > BLOCK_BYTES_MAX as u64 {
                    tracing::warn!(path = %path.display(), len, "a block was damaged, removed");
                    fs::remove_file(&path).doing("remove", &path)?;
                    continue;
                }
                let written_at = metadata.modified().doing("look at", &path)?;
                found.push(Found { key, len, written_at });
            }
        }
        found.sort_by_key(|found| (found.written_at, found.key));
        Ok(found)
    }

    fn key_at(&self, path: &Path) -> Option<Key> {
        let key = key_of(&path.file_name()?.to_str()?.parse().ok()?)?;
        (self.path_of(&key) == path).then_some(key)
    }

    pub fn path_of(&self, key: &Key) -> PathBuf {
        let name = Cid::v1(Codec::RAW, Multihash::Sha2_256(*key)).to_string();
        let shard = &name[name.len() - 3..name.len() - 1];
        self.root.join("blocks").join(shard).join(&name)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The bytes of a block's file, or a little more than `len` of them if it is longer.
    pub fn read(&self, path: &Path, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len as usize + 1);
        File::open(path)?.take(len + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes a block beside its place. The file is removed when it is dropped, unless it was put
    /// in its place.
    pub fn write(&self, bytes: &[u8]) -> Result<Temporary, StoreError> {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = Temporary { path: self.root.join("temp").join(number.to_string()) };
        let path = &temporary.path;
        let mut file = File::create_new(path).doing("create", path)?;
        pieces::write(&mut file, bytes).doing("write", path)?;
        Ok(temporary)
    }

    pub fn remove(&self, key: &Key) -> Result<(), StoreError> {
        let path = self.path_of(key);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).doing("remove", &path)
            }
            _ => Ok(()),
        }
    }

    /// Replaces a file whole, so that it is the old or the new one whatever happens.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let temporary = self.write(bytes)?;
        let written = File::open(&temporary.path).and_then(|file| file.sync_all());
        written.doing("write", &temporary.path)?;
        temporary.place(path)?;
        File::open(&self.root).and_then(|folder| folder.sync_all()).doing("write", path)
    }

    pub fn write_pins<'a>(&self, pins: impl Iterator<Item = &'a Cid>) -> Result<(), StoreError> {
        let lines: String = pins.map(|pin| format!("{pin}\n")).collect();
        self.replace(&self.root.join("pins"), lines.as_bytes())
    }

    pub fn read_pins(&self) -> Result<Vec<Cid>, StoreError> {
        let path = self.root.join("pins");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.doing("read", &path)?,
        };
        let pin = |(at, line): (usize, &str)| {
            let error =
                |_| StoreError::Pins { path: path.clone(), line: at + 1, text: line.to_owned() };
            line.parse().map_err(error)
        };
        text.lines().enumerate().map(pin).collect()
    }

    /// All that was written is on the disk when this returns, and not only with the system.
    pub fn sync(&self) -> Result<(), StoreError> {
        let all = File::open(&self.root).and_then(|root| Ok(rustix::fs::syncfs(root)?));
        all.doing("write", &self.root)
    }
}

/// Whether the folder says that it is a store; an error when it has other things in it.
fn check_format(root: &Path) -> Result<bool, StoreError> {
    let path = root.join("store");
    match fs::read_to_string(&path) {
        Ok(found) if found == FORMAT => Ok(true),
        Ok(found) => Err(StoreError::Format { path: root.to_owned(), found }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // What a first opening leaves when it ends early is no obstacle to the second.
            let ours = ["lock", "temp", "blocks"];
            for entry in fs::read_dir(root).doing("list", root)? {
                let name = entry.doing("list", root)?.file_name();
                if !ours.iter().any(|ours| name == *ours) {
                    return Err(StoreError::NotAStore { path: root.to_owned() });
                }
            }
            Ok(false)
        }
        Err(error) => Err(error).doing("read", &path),
    }
}

fn lock(root: &Path) -> Result<File, StoreError> {
    let path = root.join("lock");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.doing("create", &path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // Who it is only makes the message better.
            let _ = file.take(32).read_to_string(&mut owner);
            let owner = owner.trim().to_owned();
            return Err(StoreError::Locked { path: root.to_owned(), owner });
        }
        Err(TryLockError::Error(error)) => return Err(error).doing("lock", &path),
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.doing("write", &path)?;
    Ok(file)
}

/// A file that is not in its place yet.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Puts it in its place, in one step: nobody ever sees half of it.
    pub fn place(self, path: &Path) -> Result<(), StoreError> {
        let mut placed = fs::rename(&self.path, path);
        if let (Err(error), Some(shard)) = (&placed, path.parent())
            && error.kind() == io::ErrorKind::NotFound
        {
            fs::create_dir_all(shard).doing("create", shard)?;
            placed = fs::rename(&self.path, path);
        }
        placed.doing("write", path)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If it cannot be removed now, the next opening does it.
        let _ = fs::remove_file(&self.path);
    }
}

/// The bytes, if they are what is named.
pub(super) fn verified(cid: &Cid, bytes: Vec<u8>) -> Option<content::Block> {
    content::Block::verify(cid.clone(), Bytes::from(bytes)).ok()
}
