use std::cmp::Ordering;

use super::layout::sum_of;
use super::{CONTENT_BYTES_MAX, IndexError, Layout, PrivateError};

/// The longest index in bytes.
pub const INDEX_BYTES_MAX: u64 = 16 << 20;
pub const ENTRIES_MAX: usize = 65_536;
/// The longest path in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// The largest number of names in a path.
pub const NAMES_MAX: usize = 32;
/// The longest target of a symbolic link in bytes.
pub const TARGET_BYTES_MAX: u64 = 4096;

/// The longest name of the page in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of the length before the index.
const LENGTH_BYTES: usize = 4;

/// The names and sizes of the content of a private page.
///
/// The bytes of the entries follow the index, in its order and without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The name of the page; may be empty.
    pub name: String,
    /// Whether the page is a directory; otherwise it is a single file.
    pub is_directory: bool,
    /// Sorted by path, name by name. A single file has an empty path.
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The names, separated by slashes.
    pub path: String,
    pub kind: Kind,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    /// An empty directory. Other directories follow from the paths of their entries.
    Directory,
    /// A symbolic link; its bytes are its target.
    Symlink,
}

impl Index {
    /// Returns the layout of content with this index.
    pub fn layout(&self) -> Result<Layout, PrivateError> {
        Layout::for_content(self.content_bytes()?)
    }

    /// Returns the length of the index and of all entries.
    pub fn content_bytes(&self) -> Result<u64, PrivateError> {
        let head = self.encode()?.len() as u64;
        let sizes = self.entries.iter().map(|entry| entry.bytes);
        let too_large = |_| PrivateError::TooLarge { max: CONTENT_BYTES_MAX };
        sum_of([head].into_iter().chain(sizes)).map_err(too_large)
    }

    /// Encodes the beginning of the content: the length of the index, and the index.
    pub fn encode(&self) -> Result<Vec<u8>, PrivateError> {
        self.check()?;
        let mut index = vec![self.is_directory.into()];
        write_text(&mut index, &self.name);
        index.extend((self.entries.len() as u32).to_be_bytes());
        for Entry { path, kind, bytes } in &self.entries {
            index.push(*kind as u8);
            write_text(&mut index, path);
            index.extend(bytes.to_be_bytes());
        }
        let (len, max) = (index.len() as u64, INDEX_BYTES_MAX);
        if len > max {
            return Err(IndexError::TooLong { len, max }.into());
        }
        let length = u32::try_from(len).expect("the length was checked").to_be_bytes();
        Ok([&length[..], &index].concat())
    }

    /// Returns the bytes of the length and the index at the start of the content; `None` if too few
    /// bytes are known.
    pub(crate) fn encoded_bytes(content: &[u8]) -> Result<Option<usize>, IndexError> {
        let Some(length) = content.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let (len, max) = (u64::from(u32::from_be_bytes(*length)), INDEX_BYTES_MAX);
        if len > max {
            return Err(IndexError::TooLong { len, max });
        }
        Ok(Some(LENGTH_BYTES + len as usize))
    }

    /// Decodes the output of [`Index::encode`]. Other bytes are rejected.
    ///
    /// Names are untrusted: no decoded path leads out of the page.
    pub fn decode(content: &[u8]) -> Result<Self, IndexError> {
        let bytes = Index::encoded_bytes(content)?.ok_or(IndexError::Truncated)?;
        let mut reader = Reader(content.get(LENGTH_BYTES..bytes).ok_or(IndexError::Truncated)?);
        if content.len() > bytes {
            return Err(IndexError::TrailingBytes);
        }
        let is_directory = match reader.byte()? {
            0 => false,
            1 => true,
            kind => return Err(IndexError::UnknownKind { kind }),
        };
        let name = reader.text()?;
        let (entries, max) = (u32::from_be_bytes(reader.array()?), ENTRIES_MAX as u64);
        if u64::from(entries) > max {
            return Err(IndexError::TooManyEntries { entries: entries.into(), max });
        }
        let mut index = Index { name, is_directory, entries: Vec::new() };
        for _ in 0..entries {
            let kind = match reader.byte()? {
                0 => Kind::File,
                1 => Kind::Directory,
                2 => Kind::Symlink,
                kind => return Err(IndexError::UnknownKind { kind }),
            };
            let path = reader.text()?;
            let bytes = u64::from_be_bytes(reader.array()?);
            index.entries.push(Entry { path, kind, bytes });
        }
        if !reader.0.is_empty() {
            return Err(IndexError::TrailingBytes);
        }
        index.check()?;
        Ok(index)
    }

    fn check(&self) -> Result<(), IndexError> {
        let (entries, max) = (self.entries.len() as u64, ENTRIES_MAX as u64);
        if entries > max {
            return Err(IndexError::TooManyEntries { entries, max });
        }
        if !self.name.is_empty() && (!is_name(&self.name) || self.name.len() > NAME_BYTES_MAX) {
            return Err(IndexError::InvalidPath { path: self.name.clone() });
        }
        if !self.is_directory {
            return match &*self.entries {
                [Entry { path, kind: Kind::File, .. }] if path.is_empty() => self.check_sizes(),
                _ => Err(IndexError::NotOneFile),
            };
        }
        for entry in &self.entries {
            let names = entry.path.split('/').count();
            let is_path = entry.path.split('/').all(is_name);
            if !is_path || names > NAMES_MAX || entry.path.len() > PATH_BYTES_MAX {
                return Err(IndexError::InvalidPath { path: entry.path.clone() });
            }
        }
        for pair in self.entries.windows(2) {
            let [before, after] = pair else { unreachable!("windows of two") };
            let below = after.path.strip_prefix(&*before.path);
            let is_below = below.is_some_and(|rest| rest.starts_with('/'));
            let is_ordered = order(&before.path, &after.path) == Ordering::Less;
            // Only empty directories have an entry.
            if !is_ordered || is_below {
                return Err(IndexError::WrongOrder { path: after.path.clone() });
            }
        }
        self.check_sizes()
    }

    fn check_sizes(&self) -> Result<(), IndexError> {
        for Entry { path, kind, bytes } in &self.entries {
            let is_possible = match kind {
                Kind::File => true,
                Kind::Directory => *bytes == 0,
                Kind::Symlink => (1..=TARGET_BYTES_MAX).contains(bytes),
            };
            if !is_possible {
                return Err(IndexError::InvalidSize { path: path.clone(), bytes: *bytes });
            }
        }
        sum_of(self.entries.iter().map(|entry| entry.bytes)).map(|_| ())
    }

    pub fn sort(&mut self) {
        self.entries.sort_by(|a, b| order(&a.path, &b.path));
    }
}

/// Compares paths name by name, so that the content of a directory is contiguous.
fn order(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

/// Whether `name` is a single valid name, not a path.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn write_text(into: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).expect("names were checked");
    into.extend(len.to_be_bytes());
    into.extend(text.as_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], IndexError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(IndexError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], IndexError> {
        Ok(self.take(LEN)?.try_into().expect("the length matches"))
    }

    fn byte(&mut self) -> Result<u8, IndexError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String, IndexError> {
        let len = u16::from_be_bytes(self.array()?);
        let text = str::from_utf8(self.take(len.into())?).map_err(|_| IndexError::NotUtf8)?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind, bytes: u64) -> Entry {
        Entry { path: path.into(), kind, bytes }
    }

    fn directory(entries: Vec<Entry>) -> Index {
        Index { name: "trip".into(), is_directory: true, entries }
    }

    fn file(path: &str) -> Entry {
        entry(path, Kind::File, 1)
    }

    #[test]
    fn an_encoded_index_is_decoded_again() {
        let one = Index { entries: vec![entry("", Kind::File, 9)], ..Index::default() };
        let many = directory(vec![
            file("a/b/c.txt"),
            entry("a/empty", Kind::Directory, 0),
            entry("a-b", Kind::Symlink, 3),
            file("日記\\😀"),
        ]);
        for index in [one, many, directory(vec![])] {
            let encoded = index.encode().unwrap();
            assert_eq!(Index::decode(&encoded), Ok(index));
            for cut in 0..encoded.len() {
                assert!(Index::decode(&encoded[..cut]).is_err());
            }
            let more = [&encoded[..], &[0]].concat();
            assert_eq!(Index::decode(&more), Err(IndexError::TrailingBytes));
        }
    }

    #[test]
    fn paths_out_of_the_page_are_rejected() {
        let long = "x".repeat(5000);
        let deep = "x/".repeat(32) + "x";
        let names = ["", "/etc/passwd", "..", "a/../b", ".", "a//b", "a/", "a\0b", &long, &deep];
        for path in names {
            let refused = directory(vec![file(path)]).encode();
            let error = IndexError::InvalidPath { path: path.into() };
            assert_eq!(refused, Err(PrivateError::Index(error)), "{path}");
        }
        for name in ["../x", "a/b", ".."] {
            let index = Index { name: name.into(), ..directory(vec![]) };
            assert!(matches!(
                index.encode(),
                Err(PrivateError::Index(IndexError::InvalidPath { .. }))
            ));
        }
    }

    #[test]
    fn unsorted_and_repeated_entries_are_rejected() {
        let refused = |entries| match directory(entries).encode() {
            Err(PrivateError::Index(IndexError::WrongOrder { path })) => path,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(vec![file("b"), file("a")]), "a");
        assert_eq!(refused(vec![file("a"), file("a")]), "a");
        assert_eq!(refused(vec![file("a"), file("a/b")]), "a/b");
        assert_eq!(refused(vec![entry("a", Kind::Symlink, 1), file("a/b")]), "a/b");
        let mut index = directory(vec![file("a-b"), file("a/c"), file("a.b"), file("a/b/d")]);
        index.sort();
        let paths: Vec<_> = index.entries.iter().map(|entry| &*entry.path).collect();
        assert_eq!(paths, ["a/b/d", "a/c", "a-b", "a.b"]);
        assert!(index.encode().is_ok());
    }

    #[test]
    fn impossible_sizes_are_rejected() {
        for wrong in [
            entry("a", Kind::Directory, 1),
            entry("a", Kind::Symlink, 0),
            entry("a", Kind::Symlink, 4097),
            entry("a", Kind::File, u64::MAX),
            entry("a", Kind::File, CONTENT_BYTES_MAX + 1),
        ] {
            let refused = directory(vec![wrong]).encode();
            assert!(matches!(refused, Err(PrivateError::Index(IndexError::InvalidSize { .. }))));
        }
        let half = CONTENT_BYTES_MAX / 2 + 1;
        let sum = directory(vec![entry("a", Kind::File, half), entry("b", Kind::File, half)]);
        assert!(sum.encode().is_err());
    }

    #[test]
    fn a_page_of_a_single_file_has_exactly_one_file() {
        for entries in [
            vec![],
            vec![file("a")],
            vec![entry("", Kind::Symlink, 1)],
            vec![entry("", Kind::File, 1), entry("", Kind::File, 1)],
        ] {
            let index = Index { entries, ..Index::default() };
            assert_eq!(index.encode(), Err(PrivateError::Index(IndexError::NotOneFile)));
        }
    }

    #[test]
    fn a_wrong_length_allocates_no_memory() {
        let error = IndexError::TooLong { len: u32::MAX.into(), max: INDEX_BYTES_MAX };
        assert_eq!(Index::decode(&[0xff; 4]), Err(error));
        let mut encoded = directory(vec![]).encode().unwrap();
        let at = encoded.len() - 4;
        encoded[at..].copy_from_slice(&u32::MAX.to_be_bytes());
        let error = IndexError::TooManyEntries { entries: u32::MAX.into(), max: 65_536 };
        assert_eq!(Index::decode(&encoded), Err(error));
    }
}
