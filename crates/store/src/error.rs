use std::io;
use std::path::{Path, PathBuf};

use watchfire_content::{BlockError, Cid, DirectoryBuildError, ProfileError};

/// An error of a store. The stored blocks are unchanged, unless the variant describes a change.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {doing} {}: {error}", path.display())]
    Io {
        /// The operation, such as "read".
        doing: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    #[error("cannot write {}: the disk is full", path.display())]
    DiskFull { path: PathBuf },
    #[error(
        "cannot store {needed} bytes: pinned blocks take {held} of {max} bytes; unpin some or raise \
         the limit"
    )]
    Full { needed: u64, held: u64, max: u64 },
    #[error("cannot open {}: process {owner} has it open", path.display())]
    Locked { path: PathBuf, owner: String },
    #[error("cannot use the folder {}: another user has made it; remove it, or choose another folder", path.display())]
    NotOwn { path: PathBuf },
    #[error("cannot open {} as a block store: it contains other files; use an empty folder", path.display())]
    NotAStore { path: PathBuf },
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
    #[error("{} was damaged and removed: it did not contain {cid}", path.display())]
    Damaged { cid: Cid, path: PathBuf },
    #[error("{} is no longer shared: {change}; share it again", path.display())]
    Changed { path: PathBuf, change: FileChange },
    #[error("cannot read {}: it changed during the read; try again", path.display())]
    ChangedDuringRead { path: PathBuf },
    #[error("cannot share {}: its name is not UTF-8", path.display())]
    NameNotUtf8 { path: PathBuf },
    #[error("cannot share {}: it is not a file, a directory or a symbolic link", path.display())]
    UnsupportedFileType { path: PathBuf },
    #[error("cannot share {}: it is nested more than {max} directories deep", path.display())]
    TooDeep { path: PathBuf, max: usize },
    #[error("cannot share {}: {error}", path.display())]
    Directory { path: PathBuf, error: DirectoryBuildError },
    #[error("cannot share {} privately: {error}", path.display())]
    Private { path: PathBuf, error: watchfire_content::encryption::PrivateError },
    #[error("cannot share {}: it needs more than the {max} bytes of memory for shared files", path.display())]
    ShareMemoryFull { path: PathBuf, max: usize },
    #[error("cannot pin more than {max} blocks: unpin some or raise the limit")]
    TooManyPinned { max: usize },
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error(transparent)]
    MemoryFull(#[from] watchfire_content::StoreFull),
}

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
