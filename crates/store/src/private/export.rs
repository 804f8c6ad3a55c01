use std::fs::{self, File};
use std::path::{Path, PathBuf};

use watchfire_content::encryption::{Decryptor, Entry, Index, Key, Kind, Output, PrivateError};
use watchfire_content::{Block, Cid, FileReader};

use crate::error::IoContext;
use crate::export::{ENTRY_BYTES, Unfinished, link_or_file, name_of};
use crate::names::SavedPaths;
use crate::{ExportError, ExportLimits, Exported, ReadBlocks, chunked_write};

/// Decrypts a private page from its blocks, in the order of the ciphertext. It returns
/// authenticated bytes only.
#[derive(Debug)]
pub struct PrivateReader {
    reader: FileReader,
    key: Key,
    /// The path of the wanted file or directory; empty for the whole page.
    inside: String,
    /// The size limit of the wanted content.
    bytes_max: u64,
    /// `None` until the root was read, which declares the total length.
    decryptor: Option<Decryptor>,
    /// The records of the wanted path, once the index is known; `None` for a whole page.
    part: Option<Part>,
}

/// The records of a part of a page, and the range of their ciphertext.
#[derive(Clone, Copy, Debug)]
struct Part {
    last_record: u64,
    from: u64,
    to: u64,
}

impl PrivateReader {
    /// Creates a reader of the page whose ciphertext has the root `root`. If `inside` is not empty,
    /// it reads the index and this path only; bytes of neighbouring entries may be returned too.
    /// Fails if the wanted content has more than `bytes_max` bytes.
    pub fn new(root: Cid, key: &Key, inside: &str, bytes_max: u64) -> Self {
        // Padding adds at most 12 %, and tags less than 1 %.
        let whole_max = bytes_max.saturating_add(bytes_max / 4 + (1 << 20));
        let reader = FileReader::new(root, if inside.is_empty() { whole_max } else { u64::MAX });
        let inside = inside.to_owned();
        PrivateReader { reader, key: key.clone(), inside, bytes_max, decryptor: None, part: None }
    }

    /// Returns the next block; `None` at the end.
    pub fn next(&self) -> Option<&Cid> {
        let is_over = self.part.is_some_and(|part| self.reader.read_bytes() >= part.to);
        if is_over { None } else { self.reader.next() }
    }

    /// Returns the known blocks that are needed next.
    pub fn wanted(&self) -> impl Iterator<Item = &Cid> {
        // Before the index was read, only the next block is known to be needed.
        let is_known = self.part.is_some() || self.inside.is_empty();
        let to = self.part.map_or(u64::MAX, |part| part.to);
        self.reader.wanted_until(to).take(if is_known { usize::MAX } else { 1 })
    }

    /// Returns the length of the wanted ciphertext after the index, once it is known.
    pub fn part_bytes(&self) -> Option<u64> {
        self.part.map(|part| part.to - part.from)
    }

    /// Processes the block of [`PrivateReader::next`], and adds decrypted content to `outputs`.
    pub fn take(&mut self, block: &Block, outputs: &mut Vec<Output>) -> Result<(), ExportError> {
        let broken = |error| ExportError::File { name: block.cid().to_string(), error };
        let at = self.reader.read_bytes();
        let bytes = self.reader.take(block).map_err(broken)?;
        if let Some(part) = self.part {
            self.reader.skip_to(part.from);
        }
        let Some(sealed_bytes) = self.reader.file_bytes() else { return Ok(()) };
        let key = &self.key;
        let decryptor = self.decryptor.get_or_insert_with(|| Decryptor::new(key, sealed_bytes));
        // A block is read whole, but the record may begin within it.
        let skipped = self.part.map_or(0, |part| part.from.saturating_sub(at));
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(bytes.len());
        let before = outputs.len();
        decryptor.take(&bytes[skipped..], outputs)?;
        if self.part.is_none() && !self.inside.is_empty() {
            let index = outputs[before..].iter().find_map(|output| match output {
                Output::Index(index) => Some(index),
                Output::Bytes { .. } => None,
            });
            if let Some(index) = index {
                let part = part_of(index, &self.inside, decryptor, self.bytes_max)?;
                self.reader.skip_to(part.from);
                self.part = Some(part);
            }
        }
        Ok(())
    }

    /// Ends the reading. Fails if content is missing.
    pub fn finish(self) -> Result<(), ExportError> {
        let decryptor = self.decryptor.ok_or(PrivateError::NotPrivate)?;
        match self.part {
            Some(part) if decryptor.record() > part.last_record => Ok(()),
            _ => Ok(decryptor.finish()?),
        }
    }
}

/// Finds the records of the path `inside`, and skips to them.
fn part_of(
    index: &Index,
    inside: &str,
    decryptor: &mut Decryptor,
    bytes_max: u64,
) -> Result<Part, ExportError> {
    let sum: u64 = index.entries.iter().map(|entry| entry.bytes).sum();
    let mut at = index.content_bytes()? - sum;
    let mut within: Option<(u64, u64)> = None;
    for entry in &index.entries {
        if rest_of(&entry.path, inside).is_some() {
            // Entries are sorted by path, so those below one directory are contiguous.
            within = Some((within.map_or(at, |(from, _)| from), at + entry.bytes));
        }
        at += entry.bytes;
    }
    let Some((from, to)) = within else {
        return Err(ExportError::NotInPrivatePage { name: inside.to_owned() });
    };
    if to - from > bytes_max {
        return Err(ExportError::TooManyBytes { max: bytes_max });
    }
    let layout = *decryptor.layout().expect("the index was in a record");
    // A path without bytes needs no further record.
    let last_record = if from == to { 0 } else { layout.record_index_at(to - 1) };
    let first_record = if from == to { 0 } else { layout.record_index_at(from) };
    let opened = decryptor.record();
    decryptor.skip_to(first_record);
    let from = if first_record > opened { layout.sealed_range(first_record).0 } else { 0 };
    let to = if last_record < opened { 0 } else { layout.sealed_range(last_record).1 };
    Ok(Part { last_record, from: from.min(to), to })
}

/// The part of `path` after `inside`, which is empty for `inside` itself; `None` if it is not below.
fn rest_of<'a>(path: &'a str, inside: &str) -> Option<&'a str> {
    match path.strip_prefix(inside)? {
        rest if inside.is_empty() || rest.is_empty() => Some(rest),
        rest => rest.strip_prefix('/'),
    }
}

/// Writes the content of a private page to `path`, which must not exist: the whole page, or the
/// path `inside` if it is not empty. It holds one record at a time. `on_progress` is called with
/// the total bytes written so far.
///
/// As with [`export`](crate::export), the result appears atomically. No name leads outside of
/// `path`.
pub fn export_private(
    blocks: &dyn ReadBlocks,
    root: &Cid,
    key: &Key,
    inside: &str,
    path: &Path,
    limits: &ExportLimits,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Exported, ExportError> {
    let unfinished = Unfinished::beside(path)?;
    let mut reader = PrivateReader::new(root.clone(), key, inside, limits.bytes_max);
    let mut writer = None;
    let mut exported = Exported::default();
    let mut outputs = Vec::new();
    while let Some(cid) = reader.next() {
        let found = Block::from_cid(cid).map_or_else(|| blocks.get(cid), |it| Ok(Some(it)))?;
        let block = found.ok_or_else(|| ExportError::Missing { cid: cid.clone() })?;
        reader.take(&block, &mut outputs)?;
        for output in outputs.drain(..) {
            match output {
                Output::Index(index) => {
                    let new = FileWriter::start(&index, inside, &unfinished.path, limits)?;
                    exported.entries = new.paths.iter().flatten().count();
                    writer = Some(new);
                }
                Output::Bytes { entry, bytes } => {
                    let writer = writer.as_mut().expect("the index comes first");
                    exported.bytes += writer.write(entry, &bytes)?;
                    on_progress(exported.bytes);
                }
            }
        }
    }
    reader.finish()?;
    unfinished.move_to(path)?;
    Ok(exported)
}

struct FileWriter {
    entries: Vec<Entry>,
    /// The path of each entry; `None` for those that are not wanted.
    paths: Vec<Option<PathBuf>>,
    file: Option<(usize, File)>,
    /// The bytes of the target of a symbolic link so far.
    target: Vec<u8>,
}

impl FileWriter {
    /// Creates the directories and empty files. An empty file keeps the name of a symbolic link.
    fn start(
        index: &Index,
        inside: &str,
        path: &Path,
        limits: &ExportLimits,
    ) -> Result<Self, ExportError> {
        let rests: Vec<_> =
            index.entries.iter().map(|entry| rest_of(&entry.path, inside)).collect();
        let wanted = || index.entries.iter().zip(&rests).filter(|(_, rest)| rest.is_some());
        let is_all = inside.is_empty() && index.is_directory;
        if wanted().next().is_none() && !is_all {
            return Err(ExportError::NotInPrivatePage { name: inside.to_owned() });
        }
        // As in `export`: a single file counts its own bytes only.
        let counted = |(entry, rest): (&Entry, &Option<&str>)| match rest {
            Some("") => entry.bytes,
            _ => entry.bytes.max(ENTRY_BYTES),
        };
        if wanted().map(counted).sum::<u64>() > limits.bytes_max {
            return Err(ExportError::TooManyBytes { max: limits.bytes_max });
        }
        if wanted().count() > limits.entries_max {
            return Err(ExportError::TooManyEntries { max: limits.entries_max });
        }
        let is_file = |entry: &Entry| entry.kind != Kind::Directory;
        if wanted().all(|(entry, rest)| *rest == Some("") && is_file(entry)) && !is_all {
            File::create_new(path).doing("create", path)?;
        } else {
            fs::create_dir(path).doing("create", path)?;
        }
        let mut saved = SavedPaths::below(path);
        let mut create = |entry: &Entry, rest: &str| match rest {
            "" => Ok(path.to_owned()),
            rest if is_file(entry) => saved.file(rest),
            rest => saved.folder(rest),
        };
        let entries = index.entries.iter().zip(&rests);
        let paths = entries.map(|(entry, rest)| rest.map(|rest| create(entry, rest)).transpose());
        let paths = paths.collect::<Result<_, _>>()?;
        Ok(FileWriter { entries: index.entries.clone(), paths, file: None, target: Vec::new() })
    }

    /// Writes the next bytes of an entry. Returns how many of them were wanted.
    fn write(&mut self, entry: usize, bytes: &[u8]) -> Result<u64, ExportError> {
        let Some(path) = &self.paths[entry] else { return Ok(0) };
        if self.entries[entry].kind == Kind::Symlink {
            self.target.extend_from_slice(bytes);
            if self.target.len() as u64 == self.entries[entry].bytes {
                let wrong = |_| ExportError::InvalidLinkTarget { name: name_of(path) };
                let target = String::from_utf8(std::mem::take(&mut self.target)).map_err(wrong)?;
                if target.contains('\0') {
                    return Err(ExportError::InvalidLinkTarget { name: name_of(path) });
                }
                let linked = fs::remove_file(path).and_then(|()| link_or_file(&target, path));
                linked.doing("create", path)?;
            }
            return Ok(bytes.len() as u64);
        }
        let file = match &mut self.file {
            Some((open, file)) if *open == entry => file,
            other => {
                let file = File::options().write(true).open(path).doing("write", path)?;
                &mut other.insert((entry, file)).1
            }
        };
        chunked_write::write(file, bytes).doing("write", path)?;
        Ok(bytes.len() as u64)
    }
}
