//! The files of a store.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::error::{IoContext as _, StoreError};
use super::lru::Entry;
use crate::oci::{Algorithm, Digest};

const BLOCKS: &str = ".blocks";
const START: &str = ".start";
/// The number of the next file that is written.
static WRITES: AtomicU64 = AtomicU64::new(0);
/// A clock may be set back by this without an effect.
const CLOCK_STEP_SECONDS: u64 = 10;
/// The ending of a file that is being written.
const UNFINISHED: &str = ".unfinished";

/// The folder of a store, locked by this process.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    /// The blobs of containerd, which are read in place.
    containerd: Option<Arc<PathBuf>>,
    _lock: Arc<File>,
}

#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) entry: Entry,
    pub(super) bytes: u64,
    modified: SystemTime,
}

impl Folder {
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        for part in ["blobs", "partial", "manifests", "repositories", "containerd", "files"] {
            let path = root.join(part);
            fs::create_dir_all(&path).context("create", &path)?;
        }
        let path = root.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .context("open", &path)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let root = root.to_owned();
                Ok(Folder { root, containerd: None, _lock: Arc::new(lock) })
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::InUse { path: root.to_owned() }),
            Err(error) => Err(error.into()).context("lock", &path),
        }
    }

    /// Reads blobs also from the content store of containerd: its folder `blobs`.
    pub fn with_containerd(self, blobs: Option<PathBuf>) -> Self {
        Folder { containerd: blobs.map(Arc::new), ..self }
    }

    /// The place of a blob in the content store of containerd, if it is used.
    pub(super) fn containerd_blob(&self, digest: &Digest) -> Option<PathBuf> {
        let blobs = self.containerd.as_ref()?;
        Some(blobs.join(digest.algorithm().name()).join(digest.hex()))
    }

    /// The list of blocks of a blob in the content store of containerd.
    pub(super) fn containerd_list(&self, digest: &Digest) -> PathBuf {
        let name = format!("{}-{}", digest.algorithm().name(), digest.hex());
        Folder::block_list(&self.root.join("containerd").join(name))
    }

    /// Removes the lists of blobs that containerd has no more.
    pub(super) fn remove_old_containerd_lists(&self) -> Result<(), StoreError> {
        for path in entries(&self.root.join("containerd"))? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let digest = name.strip_suffix(BLOCKS).map(|name| name.replacen('-', ":", 1).parse());
            let blob = match digest {
                Some(Ok(digest)) => self.containerd_blob(&digest),
                _ => None,
            };
            if blob.is_none_or(|blob| !blob.exists()) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    pub(super) fn containerd_digests(&self) -> Result<Vec<Digest>, StoreError> {
        let Some(blobs) = &self.containerd else { return Ok(Vec::new()) };
        let mut digests = Vec::new();
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            for path in entries(&blobs.join(algorithm.name()))? {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                digests.extend(format!("{}:{name}", algorithm.name()).parse::<Digest>());
            }
        }
        Ok(digests)
    }

    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        self.sharded("blobs", digest)
    }

    pub(super) fn partial(&self, digest: &Digest) -> PathBuf {
        let name = format!("{}-{}", digest.algorithm().name(), digest.hex());
        self.root.join("partial").join(name)
    }

    pub(super) fn manifest(&self, digest: &Digest) -> PathBuf {
        self.sharded("manifests", digest)
    }

    pub(crate) fn repositories(&self) -> PathBuf {
        self.root.join("repositories")
    }

    /// The folder with the version of each file of the proxy hosts.
    pub(crate) fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// A new file that is gone when it is closed, and the path for errors about it.
    pub(crate) fn unnamed_file(&self) -> Result<(File, PathBuf), StoreError> {
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join("partial").join(format!("spool.{number}{UNFINISHED}"));
        let options = File::options().create(true).truncate(true).read(true).write(true).clone();
        let file = options.open(&path).context("create", &path)?;
        remove(&path)?;
        Ok((file, path))
    }

    fn sharded(&self, part: &str, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.root.join(part).join(digest.algorithm().name()).join(&hex[..2]).join(hex)
    }

    pub(super) fn block_list(blob: &Path) -> PathBuf {
        with_ending(blob, BLOCKS)
    }

    /// The order of a blob, whose place is where it is when it is complete.
    pub(super) fn start_order(blob: &Path) -> PathBuf {
        with_ending(blob, START)
    }

    pub(super) fn remove_blob(&self, digest: &Digest) -> Result<(), StoreError> {
        for blob in [self.blob(digest), self.partial(digest)] {
            remove(&blob)?;
            remove(&Folder::block_list(&blob))?;
        }
        remove(&Folder::start_order(&self.blob(digest)))?;
        // The next reader of a blob of containerd hashes it again.
        remove(&self.containerd_list(digest))
    }

    /// The blobs and manifests of the folder, the longest unused first.
    pub(super) fn scan(&self) -> Result<Vec<FoundFile>, StoreError> {
        let mut found = Vec::new();
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            for (part, entry) in [
                ("blobs", Entry::Blob as fn(Digest) -> Entry),
                ("manifests", Entry::Manifest as fn(Digest) -> Entry),
            ] {
                for shard in entries(&self.root.join(part).join(algorithm.name()))? {
                    for path in entries(&shard)? {
                        self.remove_old_order(&path, algorithm)?;
                        found.extend(found_file(&path, algorithm, entry, |name| name)?);
                    }
                }
            }
            for path in entries(&self.root.join("partial"))? {
                let prefix = format!("{}-", algorithm.name());
                found.extend(found_file(&path, algorithm, Entry::Blob, |name| {
                    name.strip_prefix(&prefix).unwrap_or_default()
                })?);
            }
        }
        found.sort_by_key(|file: &FoundFile| file.modified);
        Ok(found)
    }

    /// Removes a file if it is the order of a blob that is gone.
    fn remove_old_order(&self, path: &Path, algorithm: Algorithm) -> Result<(), StoreError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(hex) = name.strip_suffix(START) else { return Ok(()) };
        match format!("{}:{hex}", algorithm.name()).parse::<Digest>() {
            Ok(digest) if !self.blob(&digest).exists() && !self.partial(&digest).exists() => {
                remove(path)
            }
            _ => Ok(()),
        }
    }
}

/// The entry of a file; `None` if the file is none, such as a list of blocks.
fn found_file(
    path: &Path,
    algorithm: Algorithm,
    entry: impl FnOnce(Digest) -> Entry,
    hex: impl FnOnce(&str) -> &str,
) -> Result<Option<FoundFile>, StoreError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.ends_with(UNFINISHED) {
        remove(path)?;
        return Ok(None);
    }
    let Ok(digest) = format!("{}:{}", algorithm.name(), hex(name)).parse() else {
        return Ok(None);
    };
    let entry = entry(digest);
    let metadata = fs::metadata(path).context("read", path)?;
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(Some(FoundFile { entry, bytes: metadata.len(), modified }))
}

/// The paths in a folder, which may not exist.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()
            .context("list", folder),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).context("list", folder),
    }
}

pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Removes a file, which may not exist.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("remove", path),
        _ => Ok(()),
    }
}

/// Appends to a file, which is created if it does not exist.
pub(crate) fn append(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let file = File::options().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(bytes)).context("write", path)
}

/// Writes a file that is there completely or not at all, except after a power failure: it is not synced.
/// Each reader recognises a damaged file.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> Result<(), StoreError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context("create", folder)?;
    }
    // Several requests may write one file at the same time, with the same content.
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let unfinished = with_ending(path, &format!(".{number}{UNFINISHED}"));
    let write = || {
        let mut file = File::create(&unfinished)?;
        parts.iter().try_for_each(|part| file.write_all(part))
    };
    let written = write().context("write", &unfinished);
    if written.is_err() {
        remove(&unfinished)?;
        return written;
    }
    fs::rename(&unfinished, path).context("write", path)
}

/// The time since a moment of [`unix_seconds`]. A moment in the future, which a clock that was wrong has left, is as
/// old as possible.
pub(crate) fn age(moment: u64) -> Duration {
    let now = unix_seconds();
    Duration::from_secs(if moment > now + CLOCK_STEP_SECONDS {
        now
    } else {
        now.saturating_sub(moment)
    })
}

/// Seconds since 1970, for records on disk.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
