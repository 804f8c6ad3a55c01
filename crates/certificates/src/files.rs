//! The state of the files of a certificate.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use watchfire_sockets::TlsFiles;

/// Identifies the versions of both files, or the errors of looking for them. Symbolic links are
/// followed, so a link that is replaced is a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileVersions([Result<Version, io::ErrorKind>; 2]);

/// Identifies one version of a file. A copy with the old times still changes `status_changed_at`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
    status_changed_at: (i64, i64),
}

impl FileVersions {
    pub fn of(files: &TlsFiles) -> Self {
        FileVersions([&files.cert, &files.key].map(|path| version(path)))
    }
}

fn version(path: &Path) -> Result<Version, io::ErrorKind> {
    let file = fs::metadata(path).map_err(|error| error.kind())?;
    Ok(Version {
        device: file.dev(),
        inode: file.ino(),
        bytes: file.len(),
        changed_at: (file.mtime(), file.mtime_nsec()),
        status_changed_at: (file.ctime(), file.ctime_nsec()),
    })
}
