use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use watchfire_content::{BLOCK_BYTES_MAX, Cid, Codec, Multihash};

use crate::error::IoContext;
use crate::{Key, StoreError, chunked_write, key_of};

/// The content of the file `store`, which marks a folder as a block store.
const FORMAT: &str = "watchfire block store 1\n";
/// Attempts to open a folder that other processes remove meanwhile.
const OPENINGS_MAX: u32 = 100;

/// The folder of a block store:
///
/// - `store` contains the format, `lock` the id of the process that has it open, `pins` the pins;
/// - `blocks/ab/<CID>` are the blocks. The CID is version 1 with the codec raw, whatever CID the
///   block was stored under. `ab` are the third-last and second-last characters of the CID, so
///   there are up to 1024 folders;
/// - `temp/` contains files that are being written. After a crash they are removed.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// Locked while the folder is open. The system unlocks it when the process ends. `None` after
    /// [`Folder::remove_all`].
    lock: Mutex<Option<File>>,
    temporaries: AtomicU64,
}

/// A block that was found in the folder.
pub(super) struct Found {
    pub key: Key,
    pub len: u64,
    pub written_at: SystemTime,
}

impl Folder {
    /// Opens the folder, and creates it if it does not exist. `is_own`: it must be the user's own, see
    /// [`create_own_folder`].
    pub fn open(root: &Path, is_own: bool) -> Result<Self, StoreError> {
        let mut openings = 1;
        let (lock, is_store) = loop {
            match lock(root, is_own) {
                // The process that had it open is removing it.
                Err(StoreError::Io { error, .. })
                    if error.kind() == io::ErrorKind::NotFound && openings < OPENINGS_MAX =>
                {
                    openings += 1;
                }
                locked => break locked?,
            }
        };
        let lock = Mutex::new(Some(lock));
        let folder = Folder { root: root.to_owned(), lock, temporaries: AtomicU64::new(0) };
        for part in ["blocks", "temp"] {
            let path = root.join(part);
            fs::create_dir_all(&path).doing("create", &path)?;
        }
        folder.clean()?;
        if !is_store {
            folder.replace(&root.join("store"), FORMAT.as_bytes())?;
        }
        Ok(folder)
    }

    /// Removes the folder and all that is in it. A process that opens it meanwhile finds it locked, or
    /// creates it again.
    pub fn remove_all(&self) -> Result<(), StoreError> {
        let root = &self.root;
        let removing = |path: &Path| match path.symlink_metadata()?.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        // Without the file `store`, other files would be those of another program.
        let last = ["store", "lock"].map(|name| root.join(name));
        for entry in fs::read_dir(root).doing("list", root)? {
            let path = entry.doing("list", root)?.path();
            if !last.contains(&path) {
                removing(&path).doing("remove", &path)?;
            }
        }
        last.iter().try_for_each(|path| removing(path).doing("remove", path))?;
        // Over NFS and FUSE, an open file that is removed stays in its folder under another name.
        drop(self.lock.lock().take());
        match fs::remove_dir(root) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Ok(())
            }
            removed => removed.doing("remove", root),
        }
    }

    /// Removes the incomplete files of a process that was killed.
    fn clean(&self) -> Result<(), StoreError> {
        let temp = self.root.join("temp");
        for entry in fs::read_dir(&temp).doing("list", &temp)? {
            let path = entry.doing("list", &temp)?.path();
            fs::remove_file(&path).doing("remove", &path)?;
        }
        Ok(())
    }

    /// Returns all blocks in the folder, the oldest first. Files of an invalid length are removed.
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
                    tracing::warn!(path = %path.display(), "ignored a file that is not a block");
                    continue;
                };
                let metadata = fs::metadata(&path).doing("access", &path)?;
                let len = metadata.len();
                // An empty block is not stored. An empty file is left by a power failure.
                if len == 0 || len > BLOCK_BYTES_MAX as u64 {
                    tracing::warn!(path = %path.display(), len, "removed a damaged block");
                    fs::remove_file(&path).doing("remove", &path)?;
                    continue;
                }
                let written_at = metadata.modified().doing("access", &path)?;
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

    /// Reads the file of a block. If it is longer than `len`, it reads one byte more than `len`.
    pub fn read(&self, path: &Path, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len as usize + 1);
        File::open(path)?.take(len + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes a temporary file. It is removed when it is dropped without [`Temporary::move_to`].
    pub fn write(&self, bytes: &[u8]) -> Result<Temporary, StoreError> {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = Temporary { path: self.root.join("temp").join(number.to_string()) };
        let path = &temporary.path;
        let mut file = File::create_new(path).doing("create", path)?;
        chunked_write::write(&mut file, bytes).doing("write", path)?;
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

    /// Replaces a file atomically and syncs it.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let temporary = self.write(bytes)?;
        let written = File::open(&temporary.path).and_then(|file| file.sync_all());
        written.doing("write", &temporary.path)?;
        temporary.move_to(path)?;
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
            let error = |_| StoreError::InvalidPin {
                path: path.clone(),
                line: at + 1,
                text: line.to_owned(),
            };
            line.parse().map_err(error)
        };
        text.lines().enumerate().map(pin).collect()
    }

    pub fn sync(&self) -> Result<(), StoreError> {
        let all = File::open(&self.root).and_then(|root| Ok(rustix::fs::syncfs(root)?));
        all.doing("write", &self.root)
    }
}

/// Returns whether the folder is a store. Fails if it contains other files.
fn check_format(root: &Path) -> Result<bool, StoreError> {
    let path = root.join("store");
    match fs::read_to_string(&path) {
        Ok(found) if found == FORMAT => Ok(true),
        Ok(found) => Err(StoreError::UnknownFormat { path: root.to_owned(), found }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // These files are left if the first opening was interrupted.
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

/// Creates a folder for this user alone, as for temporary files in a folder to which other users can
/// write. One of them could have made it before, and have put a link to a file of this user into it. So
/// a folder that exists must belong to this user.
pub fn create_own_folder(path: &Path) -> Result<(), StoreError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).doing("create", parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created.doing("create", path),
    }
    let found = path.symlink_metadata().doing("access", path)?;
    let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if is_own { Ok(()) } else { Err(StoreError::NotOwn { path: path.to_owned() }) }
}

/// Locks a folder, and creates it if it does not exist. Fails with `NotFound` if another process removes
/// it meanwhile. Returns whether it is a store already.
fn lock(root: &Path, is_own: bool) -> Result<(File, bool), StoreError> {
    match is_own {
        true => create_own_folder(root)?,
        false => fs::create_dir_all(root).doing("create", root)?,
    }
    let path = root.join("lock");
    let mut options = File::options();
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let created = options.clone().create_new(true).open(&path);
    let is_new = created.is_ok();
    let opened = match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(&path),
        created => created,
    };
    let mut file = opened.doing("create", &path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // The owner only improves the error message.
            let _ = file.take(32).read_to_string(&mut owner);
            let owner = owner.trim().to_owned();
            return Err(StoreError::Locked { path: root.to_owned(), owner });
        }
        Err(TryLockError::Error(error)) => return Err(error).doing("lock", &path),
    }
    let of_path = path.symlink_metadata().doing("lock", &path)?;
    let of_file = file.metadata().doing("lock", &path)?;
    if (of_path.dev(), of_path.ino()) != (of_file.dev(), of_file.ino()) {
        return Err(io::Error::from(io::ErrorKind::NotFound)).doing("lock", &path);
    }
    let is_store = check_format(root).inspect_err(|_| {
        if is_new {
            // The folder is that of another program.
            let _ = fs::remove_file(&path);
        }
    })?;
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.doing("write", &path)?;
    Ok((file, is_store))
}

/// A file that was not moved to its final path yet.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Moves the file to its final path atomically.
    pub fn move_to(self, path: &Path) -> Result<(), StoreError> {
        let mut renamed = fs::rename(&self.path, path);
        if let (Err(error), Some(shard)) = (&renamed, path.parent())
            && error.kind() == io::ErrorKind::NotFound
        {
            fs::create_dir_all(shard).doing("create", shard)?;
            renamed = fs::rename(&self.path, path);
        }
        renamed.doing("write", path)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If this fails, the next opening removes the file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the block if the bytes match its CID.
pub(super) fn verified(cid: &Cid, bytes: Vec<u8>) -> Option<watchfire_content::Block> {
    watchfire_content::Block::verify(cid.clone(), Bytes::from(bytes)).ok()
}
