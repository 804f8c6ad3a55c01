use std::io;
use std::path::{Path, PathBuf};

use content::{BlockError, Cid, DirectoryBuildError, ProfileError};

/// Why a store cannot do what was asked of it. What it holds is unharmed, unless the variant says
/// otherwise.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {doing} {}: {error}", path.display())]
    Io {
        /// What was to be done, such as "read".
        doing: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The disk, or this user's share of it, has no room left.
    #[error("the disk of {} is full", path.display())]
    DiskFull {
        /// What could not be written.
        path: PathBuf,
    },
    /// The store's own limit is reached, and all that is in it is pinned or being written.
    #[error("no room for {needed} bytes: {held} of {max} are taken, and none may be forgotten")]
    Full {
        /// Bytes that the block would have taken.
        needed: u64,
        /// Bytes that are taken by what may not be forgotten.
        held: u64,
        /// Most bytes that may be taken.
        max: u64,
    },
    /// Another process has this store open.
    #[error("{} is in use by process {owner}", path.display())]
    Locked {
        /// The store.
        path: PathBuf,
        /// The other process, as it wrote itself down.
        owner: String,
    },
    /// The folder has other things in it.
    #[error("{} is neither empty nor a block store", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
    },
    /// The store was made by another version of this program.
    #[error("{} is a block store of another kind: {found:?}", path.display())]
    Format {
        /// The store.
        path: PathBuf,
        /// What it says of itself.
        found: String,
    },
    /// The list of pins is not one. Opening goes no further: without it, pinned blocks could be
    /// forgotten.
    #[error("{}, line {line}: {text:?} is no CID", path.display())]
    Pins {
        /// The list.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
        /// What it says.
        text: String,
    },
    /// A block on disk was not what its name says. It is gone from the store.
    #[error("{} is damaged: it is not {cid}; it was removed", path.display())]
    Damaged {
        /// What it should have been.
        cid: Cid,
        /// Where it was.
        path: PathBuf,
    },
    /// A shared file is no longer what it was when it was shared. None of its blocks are served
    /// from it any more.
    #[error("{} was changed after it was shared: {change}; it is shared no longer", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// How that was noticed.
        change: Change,
    },
    /// A file changed while its blocks were being named.
    #[error("{} was changed while it was read", path.display())]
    ChangedMeanwhile {
        /// The file.
        path: PathBuf,
    },
    /// A name that is not UTF-8, which UnixFS cannot write down.
    #[error("the name of {} is not UTF-8", path.display())]
    NameNotUtf8 {
        /// The file.
        path: PathBuf,
    },
    /// A device, a socket or a pipe.
    #[error("{} is neither a file, nor a directory, nor a symbolic link", path.display())]
    Special {
        /// What it is.
        path: PathBuf,
    },
    /// A directory lies too many directories deep.
    #[error("{} lies more than {max} directories deep", path.display())]
    TooDeep {
        /// The directory.
        path: PathBuf,
        /// Most directories on top of one another.
        max: usize,
    },
    /// A directory cannot be put together.
    #[error("{}: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        error: DirectoryBuildError,
    },
    /// Something cannot be a private page.
    #[error("{}: {error}", path.display())]
    Private {
        /// What was to be shared.
        path: PathBuf,
        /// What is wrong with it.
        error: private::PrivateError,
    },
    /// What is to be kept in memory of shared files has a bound.
    #[error("sharing {} would take more than {max} bytes of memory", path.display())]
    TooMuchToShare {
        /// What was to be shared.
        path: PathBuf,
        /// Most bytes.
        max: usize,
    },
    /// A pin would keep more blocks than a store keeps track of.
    #[error("more than {max} blocks would be pinned")]
    TooManyPinned {
        /// Most of them.
        max: usize,
    },
    /// Nothing can be built under this profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Something is no block.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A store in memory is full.
    #[error(transparent)]
    MemoryFull(#[from] content::StoreFull),
}

/// How a file was found to be another than the one that was shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is not there any more, or cannot be opened.
    Gone,
    /// It has another length, or was written to since.
    Touched,
    /// Its bytes are others, although its length and its time are the same.
    OtherBytes,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Change::Gone => "it cannot be opened",
            Change::Touched => "its length or its time are others",
            Change::OtherBytes => "its bytes are others",
        })
    }
}

/// Says what was being done when the system refused.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::DiskFull { path: path.to_owned() }
            }
            _ => StoreError::Io { doing, path: path.to_owned(), error },
        })
    }
}
