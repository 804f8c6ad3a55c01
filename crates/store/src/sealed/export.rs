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
    /// Once the root is here, which tells how long the whole is.
    unsealing: Option<Unsealing>,
}

impl PrivateReader {
    /// Of the page whose ciphertext is `root`, unless it has more than so many bytes.
    pub fn new(root: Cid, key: &Key, bytes_max: u64) -> Self {
        // Padding adds 12 % at most, and records less than one.
        let reader = FileReader::new(root, bytes_max.saturating_add(bytes_max / 4 + (1 << 20)));
        PrivateReader { reader, key: key.clone(), unsealing: None }
    }

    /// The block that must be here to go on; `None` at the end.
    pub fn next(&self) -> Option<&Cid> {
        self.reader.next()
    }

    /// Takes that block, and adds what it opens to `outputs`.
    pub fn take(&mut self, block: &Block, outputs: &mut Vec<Output>) -> Result<(), ExportError> {
        let broken = |error| ExportError::File { name: block.cid().to_string(), error };
        let bytes = self.reader.take(block).map_err(broken)?;
        let Some(sealed_bytes) = self.reader.file_bytes() else { return Ok(()) };
        let key = &self.key;
        let unsealing = self.unsealing.get_or_insert_with(|| Unsealing::new(key, sealed_bytes));
        Ok(unsealing.take(&bytes, outputs)?)
    }

    /// Nothing more comes; an error when something should.
    pub fn finish(self) -> Result<(), ExportError> {
        let unsealing = self.unsealing.ok_or(PrivateError::NotPrivate)?;
        Ok(unsealing.finish()?)
    }
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
    let mut reader = PrivateReader::new(root.clone(), key, limits.bytes_max);
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
