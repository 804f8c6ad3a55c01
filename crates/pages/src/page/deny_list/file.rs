//! The file of a deny-list: one CID on each line.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use watchfire_content::{Cid, Multihash};

/// The largest file that is read: some 800,000 CIDs.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Lines without a CID that are kept for the log.
const UNREADABLE_MAX: usize = 10;

/// Why a deny-list cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DenyFileError {
    #[error("cannot use the deny-list: {cause}")]
    Unreadable { cause: io::Error },
    #[error(
        "cannot read the deny-list: it has {bytes} bytes, and the most is {FILE_BYTES_MAX}; remove entries"
    )]
    TooLong { bytes: u64 },
}

impl From<io::Error> for DenyFileError {
    fn from(cause: io::Error) -> Self {
        DenyFileError::Unreadable { cause }
    }
}

/// A file with one CID on each line.
#[derive(Debug)]
pub(super) struct DenyFile {
    path: PathBuf,
}

/// Identifies one version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
}

/// The contents of a file.
pub(super) struct List {
    pub hashes: HashSet<Multihash>,
    /// Lines without a CID, with their numbers.
    pub unreadable: Vec<(usize, String)>,
}

impl DenyFile {
    pub fn new(path: &Path) -> Self {
        DenyFile { path: path.to_owned() }
    }

    pub fn stamp(&self) -> io::Result<Stamp> {
        fs::metadata(&self.path).map(|file| Stamp::of(&file))
    }

    pub fn read(&self) -> Result<List, DenyFileError> {
        let file = File::open(&self.path)?;
        let bytes = file.metadata()?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(DenyFileError::TooLong { bytes });
        }
        let mut list = List { hashes: HashSet::new(), unreadable: Vec::new() };
        let lines = BufReader::new(file.take(FILE_BYTES_MAX)).split(b'\n').zip(1..);
        for (line, number) in lines {
            let line = line?;
            let text = String::from_utf8_lossy(&line);
            match cid_of(&text) {
                Ok(Some(cid)) => {
                    list.hashes.insert(cid.hash().clone());
                }
                Ok(None) => {}
                Err(()) if list.unreadable.len() < UNREADABLE_MAX => {
                    list.unreadable.push((number, text.chars().take(100).collect()));
                }
                Err(()) => {}
            }
        }
        Ok(list)
    }

    pub fn append(&self, cid: &Cid) -> io::Result<()> {
        let mut file = self.locked()?;
        let len = file.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if len > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        let start = if last == [b'\n'] { "" } else { "\n" };
        file.write_all(format!("{start}{cid}\n").as_bytes())?;
        file.sync_data()
    }

    /// Removes every line that names this content.
    pub fn remove(&self, cid: &Cid) -> io::Result<()> {
        let mut file = self.locked()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let kept = text.split_inclusive(|byte| *byte == b'\n').filter(|line| {
            let named = cid_of(&String::from_utf8_lossy(line));
            !named.is_ok_and(|named| named.is_some_and(|named| named.hash() == cid.hash()))
        });
        let kept: Vec<u8> = kept.flatten().copied().collect();
        // A process that reads meanwhile gets the whole old list or the whole new one.
        let beside = self.path.with_extension("new");
        let mut new = File::create(&beside)?;
        new.set_permissions(file.metadata()?.permissions())?;
        new.write_all(&kept)?;
        new.sync_data()?;
        fs::rename(&beside, &self.path)
    }

    /// Opens and locks the file. No other process of the server changes it until the handle closes.
    fn locked(&self) -> io::Result<File> {
        loop {
            let file = OpenOptions::new().read(true).append(true).open(&self.path)?;
            file.lock()?;
            // Another process may have replaced the file while this one waited for the lock.
            if file.metadata()?.ino() == fs::metadata(&self.path)?.ino() {
                return Ok(file);
            }
        }
    }
}

impl Stamp {
    fn of(file: &fs::Metadata) -> Self {
        let changed_at = (file.mtime(), file.mtime_nsec());
        Stamp { inode: file.ino(), bytes: file.len(), changed_at }
    }
}

/// The CID on a line, alone or in a link or path. `None` for an empty line or a comment.
fn cid_of(line: &str) -> Result<Option<Cid>, ()> {
    let line = line.trim();
    let text = match line.find('#') {
        // In a link, the part after `#` may be the name of a file.
        Some(0) => return Ok(None),
        Some(at) => line[..at].trim_end(),
        None => line,
    };
    if text.is_empty() {
        return Ok(None);
    }
    // A CID has only letters and digits: in a path, in the host of a gateway, or in brackets.
    let mut parts = text.split(|c: char| !c.is_ascii_alphanumeric());
    parts.find_map(|part| part.parse().ok()).map(Some).ok_or(())
}
