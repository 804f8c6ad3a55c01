use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use content::{Block, Cid, FileReader};
use private::{Entry, Index, Key, Kind, Output, PrivateError, Unsealing};

use crate::error::Doing;
use crate::export::{Unfinished, name_of};
use crate::{ExportError, ExportLimits, Exported, ReadBlocks, pieces};

/// Reads a private page from its blocks, in the order of its ciphertext: as they come, or when all
/// are here. Of what is not authenticated nothing comes out.
#[derive(Debug)]
pub struct PrivateReader {
    reader: FileReader,
    key: Key,
    /// What is wanted of it; empty for all.
    inside: String,
    /// Most bytes that are wanted.
    bytes_max: u64,
    /// Once the root is here, which tells how long the whole is.
    unsealing: Option<Unsealing>,
    /// Of a part alone, and once the index tells where it is: which records it lies in, and from
    /// where to where their ciphertext goes.
    part: Option<Part>,
}

/// Where a part of a page lies.
#[derive(Clone, Copy, Debug)]
struct Part {
    last_record: u64,
    from: u64,
    to: u64,
}

impl PrivateReader {
    /// Of the page whose ciphertext is `root`, unless more than so many bytes are wanted of it: of
    /// all, or, where `inside` is not empty, of what is there. Then only the blocks are asked for
    /// that have the names, and that; bytes of its neighbours may come out beside it.
    pub fn new(root: Cid, key: &Key, inside: &str, bytes_max: u64) -> Self {
        // Padding adds 12 % at most, and records less than one.
        let whole_max = bytes_max.saturating_add(bytes_max / 4 + (1 << 20));
        let reader = FileReader::new(root, if inside.is_empty() { whole_max } else { u64::MAX });
        let inside = inside.to_owned();
        PrivateReader { reader, key: key.clone(), inside, bytes_max, unsealing: None, part: None }
    }

    /// The block that must be here to go on; `None` at the end.
    pub fn next(&self) -> Option<&Cid> {
        let is_over = self.part.is_some_and(|part| self.reader.read_bytes() >= part.to);
        if is_over { None } else { self.reader.next() }
    }

    /// The blocks that are needed next, as far as they are known: all of them are needed.
    pub fn wanted(&self) -> impl Iterator<Item = &Cid> {
        // Until the names are here nobody knows what else is.
        let is_known = self.part.is_some() || self.inside.is_empty();
        let to = self.part.map_or(u64::MAX, |part| part.to);
        self.reader.wanted_until(to).take(if is_known { usize::MAX } else { 1 })
    }

    /// Bytes of ciphertext that are needed behind the names, once that is known.
    pub fn part_bytes(&self) -> Option<u64> {
        self.part.map(|part| part.to - part.from)
    }

    /// Takes the block that [`PrivateReader::next`] names, and adds what it opens to `outputs`.
    pub fn take(&mut self, block: &Block, outputs: &mut Vec<Output>) -> Result<(), ExportError> {
        let broken = |error| ExportError::File { name: block.cid().to_string(), error };
        let at = self.reader.read_bytes();
        let bytes = self.reader.take(block).map_err(broken)?;
        if let Some(part) = self.part {
            self.reader.skip_to(part.from);
        }
        let Some(sealed_bytes) = self.reader.file_bytes() else { return Ok(()) };
        let key = &self.key;
        let unsealing = self.unsealing.get_or_insert_with(|| Unsealing::new(key, sealed_bytes));
        // A part of the file is read whole, though the record may begin within it.
        let passed = self.part.map_or(0, |part| part.from.saturating_sub(at));
        let passed = usize::try_from(passed).unwrap_or(usize::MAX).min(bytes.len());
        let before = outputs.len();
        unsealing.take(&bytes[passed..], outputs)?;
        if self.part.is_none() && !self.inside.is_empty() {
            let index = outputs[before..].iter().find_map(|output| match output {
                Output::Index(index) => Some(index),
                Output::Bytes { .. } => None,
            });
            if let Some(index) = index {
                let part = part_of(index, &self.inside, unsealing, self.bytes_max)?;
                self.reader.skip_to(part.from);
                self.part = Some(part);
            }
        }
        Ok(())
    }

    /// Nothing more comes; an error when something should.
    pub fn finish(self) -> Result<(), ExportError> {
        let unsealing = self.unsealing.ok_or(PrivateError::NotPrivate)?;
        match self.part {
            Some(part) if unsealing.record() > part.last_record => Ok(()),
            _ => Ok(unsealing.finish()?),
        }
    }
}

/// Where what is at `inside` lies; the reading goes on there.
fn part_of(
    index: &Index,
    inside: &str,
    unsealing: &mut Unsealing,
    bytes_max: u64,
) -> Result<Part, ExportError> {
    let sum: u64 = index.entries.iter().map(|entry| entry.bytes).sum();
    let mut at = index.content_bytes()? - sum;
    let mut within: Option<(u64, u64)> = None;
    for entry in &index.entries {
        if is_below(&entry.path, inside) {
            // Entries are in the order of their paths, so that those below one lie together.
            within = Some((within.map_or(at, |(from, _)| from), at + entry.bytes));
        }
        at += entry.bytes;
    }
    let Some((from, to)) = within else {
        return Err(ExportError::NotInside { name: inside.to_owned() });
    };
    if to - from > bytes_max {
        return Err(ExportError::TooManyBytes { max: bytes_max });
    }
    let layout = *unsealing.layout().expect("the index was in a record");
    // What has no bytes needs no more than what is here.
    let last_record = if from == to { 0 } else { layout.record_at(to - 1) };
    let first_record = if from == to { 0 } else { layout.record_at(from) };
    let opened = unsealing.record();
    unsealing.skip_to(first_record);
    let from = if first_record > opened { layout.sealed_of(first_record).0 } else { 0 };
    let to = if last_record < opened { 0 } else { layout.sealed_of(last_record).1 };
    Ok(Part { last_record, from: from.min(to), to })
}

/// Whether a path is that, or below it.
fn is_below(path: &str, inside: &str) -> bool {
    path.strip_prefix(inside).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Writes what is inside a private page to `path`, where nothing may be yet: all of it, or what is
/// at `inside` alone. Holds one record at a time; `tell` is told the bytes that were written.
///
/// As with [`export`](crate::export), it appears whole, in one step, or not at all, and no name
/// leads anywhere but below `path`.
pub fn export_private(
    blocks: &dyn ReadBlocks,
    root: &Cid,
    key: &Key,
    inside: &str,
    path: &Path,
    limits: &ExportLimits,
    tell: &mut dyn FnMut(u64),
) -> Result<Exported, ExportError> {
    if path.symlink_metadata().is_ok() {
        return Err(ExportError::Exists { path: path.to_owned() });
    }
    let unfinished = Unfinished::beside(path);
    let mut reader = PrivateReader::new(root.clone(), key, inside, limits.bytes_max);
    let mut writing = None;
    let mut exported = Exported::default();
    let mut outputs = Vec::new();
    while let Some(cid) = reader.next() {
        let found = Block::implied_by(cid).map_or_else(|| blocks.get(cid), |it| Ok(Some(it)))?;
        let block = found.ok_or_else(|| ExportError::Missing { cid: cid.clone() })?;
        reader.take(&block, &mut outputs)?;
        for output in outputs.drain(..) {
            match output {
                Output::Index(index) => {
                    let plan = Writing::begin(&index, inside, &unfinished.path, limits)?;
                    exported.entries = plan.places.iter().flatten().count();
                    writing = Some(plan);
                }
                Output::Bytes { entry, bytes } => {
                    let writing = writing.as_mut().expect("the index comes first");
                    exported.bytes += writing.write(entry, &bytes)?;
                    tell(exported.bytes);
                }
            }
        }
    }
    reader.finish()?;
    unfinished.place(path)?;
    Ok(exported)
}

/// What is being written, and where.
struct Writing {
    entries: Vec<Entry>,
    /// Where each entry goes; `None` for what is not wanted.
    places: Vec<Option<PathBuf>>,
    file: Option<(usize, File)>,
    /// Of a symbolic link, as much of where it leads as came.
    target: Vec<u8>,
}

impl Writing {
    /// Makes the directories, and what has no bytes.
    fn begin(
        index: &Index,
        inside: &str,
        path: &Path,
        limits: &ExportLimits,
    ) -> Result<Self, ExportError> {
        let below = |entry: &Entry| match entry.path.strip_prefix(inside)? {
            "" => Some(path.to_owned()),
            rest if inside.is_empty() => Some(path.join(rest)),
            rest => Some(path.join(rest.strip_prefix('/')?)),
        };
        let places: Vec<_> = index.entries.iter().map(below).collect();
        let is_all = inside.is_empty() && index.is_directory;
        if places.iter().all(Option::is_none) && !is_all {
            return Err(ExportError::NotInside { name: inside.to_owned() });
        }
        let wanted = || index.entries.iter().zip(&places).filter(|(_, place)| place.is_some());
        let bytes: u64 = wanted().map(|(entry, _)| entry.bytes).sum();
        if bytes > limits.bytes_max {
            return Err(ExportError::TooManyBytes { max: limits.bytes_max });
        }
        if wanted().count() > limits.entries_max {
            return Err(ExportError::TooManyEntries { max: limits.entries_max });
        }
        if is_all {
            fs::create_dir(path).doing("create", path)?;
        }
        for (entry, place) in wanted() {
            let place = place.as_ref().expect("it is wanted");
            if place != path {
                let parent = place.parent().expect("it is below");
                fs::create_dir_all(parent).doing("create", parent)?;
            }
            match entry.kind {
                Kind::Directory => fs::create_dir_all(place).doing("create", place)?,
                Kind::File if entry.bytes == 0 => {
                    File::create_new(place).doing("create", place)?;
                }
                Kind::File | Kind::Symlink => {}
            }
        }
        Ok(Writing { entries: index.entries.clone(), places, file: None, target: Vec::new() })
    }

    /// The next bytes of an entry; says how many of them were wanted.
    fn write(&mut self, entry: usize, bytes: &[u8]) -> Result<u64, ExportError> {
        let Some(path) = &self.places[entry] else { return Ok(0) };
        if self.entries[entry].kind == Kind::Symlink {
            self.target.extend_from_slice(bytes);
            if self.target.len() as u64 == self.entries[entry].bytes {
                let wrong = |_| ExportError::Target { name: name_of(path) };
                let target = String::from_utf8(std::mem::take(&mut self.target)).map_err(wrong)?;
                if target.contains('\0') {
                    return Err(ExportError::Target { name: name_of(path) });
                }
                symlink(target, path).doing("create", path)?;
            }
            return Ok(bytes.len() as u64);
        }
        let file = match &mut self.file {
            Some((open, file)) if *open == entry => file,
            other => &mut other.insert((entry, File::create_new(path).doing("create", path)?)).1,
        };
        pieces::write(file, bytes).doing("write", path)?;
        Ok(bytes.len() as u64)
    }
}
