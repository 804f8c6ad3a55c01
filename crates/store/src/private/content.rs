use std::fs::{self, File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use watchfire_content::encryption::{ENTRIES_MAX, Entry, Index, IndexError, Kind, RecordCipher};

use crate::error::IoContext;
use crate::import::Stamp;
use crate::{DIRECTORY_DEPTH_MAX, FileChange, StoreError};

/// The plaintext of a private page, read from its files when it is needed.
#[derive(Debug)]
pub struct PrivateContent {
    /// The index, encoded.
    head: Vec<u8>,
    /// In the order of the index, without empty entries.
    parts: Vec<Part>,
}

/// A range of the content and its source.
#[derive(Debug)]
struct Part {
    offset: u64,
    bytes: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    File(PathBuf, Stamp),
    Target(String),
}

/// An error while the content is read again.
pub enum ContentError {
    Changed(PathBuf, FileChange),
    /// The read failed, perhaps temporarily.
    Store(StoreError),
}

impl PrivateContent {
    /// Lists the files below `path` without reading them.
    pub fn scan(path: &Path, skips_hidden: bool) -> Result<(Index, Self), StoreError> {
        let mut scan = Scan { skips_hidden, found: Vec::new() };
        let metadata = fs::metadata(path).doing("access", path)?;
        let is_directory = metadata.is_dir();
        if is_directory {
            scan.directory(path, "", 0)?;
        } else {
            scan.add(path, &metadata, String::new(), 0)?;
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let entries = scan.found.iter().map(|(entry, _)| entry.clone()).collect();
        let mut index = Index { name: name.unwrap_or_default(), is_directory, entries };
        index.sort();
        let wrong = |error| StoreError::Private { path: path.to_owned(), error };
        let head = index.encode().map_err(wrong)?;
        let mut sources: std::collections::BTreeMap<String, Source> = scan
            .found
            .into_iter()
            .filter_map(|(entry, source)| Some((entry.path, source?)))
            .collect();
        let mut bytes = head.len() as u64;
        let mut parts = Vec::new();
        for entry in index.entries.iter().filter(|entry| entry.bytes > 0) {
            let source = sources.remove(&entry.path).expect("an entry with bytes has a source");
            parts.push(Part { offset: bytes, bytes: entry.bytes, source });
            bytes += entry.bytes;
        }
        Ok((index, PrivateContent { head, parts }))
    }

    /// The approximate memory that it takes.
    pub fn cost(&self) -> usize {
        let of_source = |part: &Part| match &part.source {
            Source::File(path, _) => path.as_os_str().len(),
            Source::Target(target) => target.len(),
        };
        let parts = self.parts.iter().map(|part| size_of::<Part>() + of_source(part));
        self.head.len() + parts.sum::<usize>()
    }

    /// Returns the ciphertext of a record. The first record begins with the header.
    pub fn seal(&self, records: &RecordCipher, record: u64) -> Result<Vec<u8>, ContentError> {
        let (from, to) = records.layout().content_range(record);
        let sealed = records.seal(record, self.read(from, to)?);
        Ok(if record == 0 { [records.header(), &sealed[..]].concat() } else { sealed })
    }

    /// Returns a range of the content, with padding.
    fn read(&self, from: u64, to: u64) -> Result<Vec<u8>, ContentError> {
        let mut content = vec![0; usize::try_from(to - from).expect("records are at most 1 MiB")];
        let overlap = |offset: u64, bytes: u64| {
            let (start, end) = (from.max(offset), to.min(offset + bytes));
            // The offset in the part, and the range in the result.
            (start < end).then(|| (start - offset, (start - from) as usize..(end - from) as usize))
        };
        if let Some((at, range)) = overlap(0, self.head.len() as u64) {
            let at = at as usize;
            content[range.clone()].copy_from_slice(&self.head[at..at + range.len()]);
        }
        let first = self.parts.partition_point(|part| part.offset + part.bytes <= from);
        for part in self.parts[first..].iter().take_while(|part| part.offset < to) {
            let Some((at, range)) = overlap(part.offset, part.bytes) else { continue };
            match &part.source {
                Source::File(path, stamp) => read_at(path, stamp, at, &mut content[range])?,
                Source::Target(target) => {
                    let at = at as usize;
                    let bytes = &target.as_bytes()[at..at + range.len()];
                    content[range].copy_from_slice(bytes);
                }
            }
        }
        Ok(content)
    }

    /// Returns the file of a record; `None` if the record spans several files, or none.
    pub fn file_of(&self, records: &RecordCipher, record: u64) -> Option<PathBuf> {
        let (from, to) = records.layout().content_range(record);
        let first = self.parts.partition_point(|part| part.offset + part.bytes <= from);
        let mut within = self.parts[first..].iter().take_while(|part| part.offset < to);
        match (within.next(), within.next()) {
            (Some(Part { source: Source::File(path, _), .. }), None) => Some(path.clone()),
            _ => None,
        }
    }
}

fn read_at(path: &Path, stamp: &Stamp, at: u64, into: &mut [u8]) -> Result<(), ContentError> {
    let changed = |change| ContentError::Changed(path.to_owned(), change);
    let file = match File::open(path) {
        Err(error) if crate::shared::is_permanent(error.kind()) => {
            return Err(changed(FileChange::Missing));
        }
        opened => opened.doing("read", path).map_err(ContentError::Store)?,
    };
    let metadata = file.metadata().doing("access", path).map_err(ContentError::Store)?;
    if Stamp::of(&metadata) != *stamp {
        return Err(changed(FileChange::Modified));
    }
    match file.read_exact_at(into, at) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(changed(FileChange::Modified))
        }
        read => read.doing("read", path).map_err(ContentError::Store),
    }
}

struct Scan {
    skips_hidden: bool,
    found: Vec<(Entry, Option<Source>)>,
}

impl Scan {
    fn add(
        &mut self,
        path: &Path,
        metadata: &Metadata,
        name: String,
        depth: usize,
    ) -> Result<(), StoreError> {
        let kind = metadata.file_type();
        let (kind, bytes, source) = if kind.is_file() {
            let file = Source::File(path.to_owned(), Stamp::of(metadata));
            (Kind::File, metadata.len(), Some(file))
        } else if kind.is_symlink() {
            let target = fs::read_link(path).doing("read", path)?;
            let target = target.into_os_string().into_string();
            let target = target.map_err(|_| StoreError::NameNotUtf8 { path: path.to_owned() })?;
            (Kind::Symlink, target.len() as u64, Some(Source::Target(target)))
        } else if kind.is_dir() {
            return self.directory(path, &name, depth);
        } else {
            return Err(StoreError::UnsupportedFileType { path: path.to_owned() });
        };
        self.push(Entry { path: name, kind, bytes }, source, path)
    }

    fn directory(&mut self, path: &Path, name: &str, depth: usize) -> Result<(), StoreError> {
        if depth >= DIRECTORY_DEPTH_MAX {
            let max = DIRECTORY_DEPTH_MAX;
            return Err(StoreError::TooDeep { path: path.to_owned(), max });
        }
        let before = self.found.len();
        for (below, path) in crate::import::names(path, self.skips_hidden)? {
            let metadata = fs::symlink_metadata(&path).doing("access", &path)?;
            let name = if name.is_empty() { below } else { format!("{name}/{below}") };
            self.add(&path, &metadata, name, depth + 1)?;
        }
        if self.found.len() == before && !name.is_empty() {
            let entry = Entry { path: name.to_owned(), kind: Kind::Directory, bytes: 0 };
            self.push(entry, None, path)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        entry: Entry,
        source: Option<Source>,
        path: &Path,
    ) -> Result<(), StoreError> {
        let max = ENTRIES_MAX as u64;
        if self.found.len() as u64 == max {
            let error = IndexError::TooManyEntries { entries: max + 1, max };
            return Err(StoreError::Private { path: path.to_owned(), error: error.into() });
        }
        self.found.push((entry, source));
        Ok(())
    }
}
