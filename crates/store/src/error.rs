use std::io;
use std::path::{Path, PathBuf};

use watchfire_content::{BlockError, Cid, DirectoryBuildError, ProfileError};

/// An error of a store. The stored blocks are unchanged, unless the variant describes a change.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the file system failed.
    #[error("cannot {doing} {}: {error}", path.display())]
    Io {
        /// The operation, such as "read".
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        error: io::Error,
    },
    /// The disk or the user's quota is full.
    #[error("cannot write {}: the disk is full", path.display())]
    DiskFull { path: PathBuf },
    /// The limit of the store is reached, and all its blocks are pinned or being written.
    #[error(
        "cannot store {needed} bytes: pinned blocks take {held} of {max} bytes; unpin some or raise \
         the limit"
    )]
    Full {
        /// Bytes that the block needs.
        needed: u64,
        /// Bytes of blocks that cannot be evicted.
        held: u64,
        max: u64,
    },
    /// Another process has this store open.
    #[error("cannot open {}: process {owner} has it open", path.display())]
    Locked {
        path: PathBuf,
        /// The id of the other process, from the lock file.
        owner: String,
    },
    #[error("cannot open {} as a block store: it contains other files; use an empty folder", path.display())]
    NotAStore { path: PathBuf },
    /// Another version of this program created the store.
    #[error("cannot open the block store {}: its format {found:?} is unknown", path.display())]
    UnknownFormat { path: PathBuf, found: String },
    /// The list of pins is invalid. The store is not opened, because pinned blocks could be
    /// evicted.
    #[error("cannot read the pins in {}, line {line}: {text:?} is not a CID", path.display())]
    InvalidPin {
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        text: String,
    },
    /// The file of a block was damaged. The block was removed from the store.
    #[error("{} was damaged and removed: it did not contain {cid}", path.display())]
    Damaged { cid: Cid, path: PathBuf },
    /// A shared file has changed. Its blocks are no longer served.
    #[error("{} is no longer shared: {change}; share it again", path.display())]
    Changed { path: PathBuf, change: FileChange },
    /// A file changed while it was read.
    #[error("cannot read {}: it changed during the read; try again", path.display())]
    ChangedDuringRead { path: PathBuf },
    /// A file name is not UTF-8, which UnixFS requires.
    #[error("cannot share {}: its name is not UTF-8", path.display())]
    NameNotUtf8 { path: PathBuf },
    /// A device, a socket or a pipe.
    #[error("cannot share {}: it is not a file, a directory or a symbolic link", path.display())]
    UnsupportedFileType { path: PathBuf },
    /// A directory is nested too deeply.
    #[error("cannot share {}: it is nested more than {max} directories deep", path.display())]
    TooDeep { path: PathBuf, max: usize },
    /// An entry of a directory is invalid.
    #[error("cannot share {}: {error}", path.display())]
    Directory { path: PathBuf, error: DirectoryBuildError },
    /// A private page cannot be created.
    #[error("cannot share {} privately: {error}", path.display())]
    Private {
        /// The file or directory.
        path: PathBuf,
        error: watchfire_content::encryption::PrivateError,
    },
    #[error("cannot share {}: it needs more than the {max} bytes of memory for shared files", path.display())]
    ShareMemoryFull {
        /// The file or directory.
        path: PathBuf,
        max: usize,
    },
    #[error("cannot pin more than {max} blocks: unpin some or raise the limit")]
    TooManyPinned { max: usize },
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error(transparent)]
    MemoryFull(#[from] watchfire_content::StoreFull),
}

/// How a shared file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It was removed or cannot be opened.
    Missing,
    /// Its length or its modification time differs.
    Modified,
    /// Its bytes differ, although its length and its modification time are the same.
    ContentDiffers,
}

impl std::fmt::Display for FileChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FileChange::Missing => "it cannot be opened",
            FileChange::Modified => "its length or modification time differs",
            FileChange::ContentDiffers => "its content differs",
        })
    }
}

/// Adds the operation and the path to an I/O error.
pub(crate) trait IoContext<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::DiskFull { path: path.to_owned() }
            }
            _ => StoreError::Io { doing, path: path.to_owned(), error },
        })
    }
}
