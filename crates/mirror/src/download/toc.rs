//! Reads the table of contents (TOC) of an eStargz layer: which chunks of files are where in the blob.
//!
//! The blob is a row of gzip members. A member has the bytes of a chunk, and behind them the tar headers of the files
//! that follow, up to the next chunk. So two members have the same bytes only if these headers are equal too, and the
//! key of a member is made from both. It has the length as well: another compression most often gives another length.
//!
//! The bounds: a TOC of 8 MiB, 32 MiB uncompressed, with 200,000 entries. Offsets ascend and are inside the blob. A
//! TOC that is otherwise is ignored.

use std::fmt;
use std::io::Read as _;
use std::ops::Range;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// The size of the footer, which is the end of the blob.
pub(super) const FOOTER_BYTES: usize = 51;
const TOC_BYTES_MAX: u64 = 8 << 20;
const UNCOMPRESSED_BYTES_MAX: u64 = 32 << 20;
const ENTRIES_MAX: usize = 200_000;
const TAR_HEADER_BYTES: usize = 512;

/// A gzip member with a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) key: [u8; 32],
    pub(super) place: Range<u64>,
}

/// The place of the TOC in a blob of this size with this footer. `None`: the blob has none.
pub(super) fn toc_place(footer: &[u8; FOOTER_BYTES], size: u64) -> Option<Range<u64>> {
    // A gzip header with the extra field `SG`: 16 hexadecimal digits, and a name.
    let is_footer = footer.starts_with(&[0x1f, 0x8b, 8, 4])
        && footer[12..14] == *b"SG"
        && footer[32..38] == *b"STARGZ";
    let digits = std::str::from_utf8(&footer[16..32]).ok().filter(|_| is_footer)?;
    let start = u64::from_str_radix(digits, 16).ok()?;
    let end = size.checked_sub(FOOTER_BYTES as u64)?;
    (start < end && end - start <= TOC_BYTES_MAX).then_some(start..end)
}

/// The members of a blob whose TOC starts at `end`. `None`: the TOC is not valid, or too large.
pub(super) fn members(toc: &[u8], end: u64) -> Option<Vec<Member>> {
    let mut tar = Vec::new();
    GzDecoder::new(toc).take(UNCOMPRESSED_BYTES_MAX + 1).read_to_end(&mut tar).ok()?;
    if tar.len() as u64 > UNCOMPRESSED_BYTES_MAX {
        return None;
    }
    let (header, rest) = tar.split_at_checked(TAR_HEADER_BYTES)?;
    let digits = std::str::from_utf8(&header[124..136]).ok()?;
    let len = usize::from_str_radix(digits.trim_matches(['\0', ' ']), 8).ok()?;
    let toc: Toc = serde_json::from_slice(rest.get(..len)?).ok()?;
    toc.entries.finish(end)
}

#[derive(Deserialize)]
struct Toc {
    #[serde(deserialize_with = "read_entries")]
    entries: Members,
}

/// The fields of an entry, as they are written. Others do not change the bytes of the layer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(default)]
    offset: u64,
    #[serde(borrow)]
    chunk_digest: Option<&'a RawValue>,
    #[serde(borrow)]
    chunk_offset: Option<&'a RawValue>,
    #[serde(borrow)]
    chunk_size: Option<&'a RawValue>,
    #[serde(borrow)]
    inner_offset: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    size: Option<&'a RawValue>,
    #[serde(borrow)]
    modtime: Option<&'a RawValue>,
    #[serde(borrow)]
    link_name: Option<&'a RawValue>,
    #[serde(borrow)]
    mode: Option<&'a RawValue>,
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(borrow)]
    gid: Option<&'a RawValue>,
    #[serde(borrow)]
    user_name: Option<&'a RawValue>,
    #[serde(borrow)]
    group_name: Option<&'a RawValue>,
    #[serde(borrow)]
    dev_major: Option<&'a RawValue>,
    #[serde(borrow)]
    dev_minor: Option<&'a RawValue>,
    #[serde(borrow)]
    xattrs: Option<&'a RawValue>,
}

/// The members so far. The last one has begun at `start`.
#[derive(Default)]
struct Members {
    done: Vec<Member>,
    start: u64,
    hasher: Sha256,
}

impl Members {
    fn hash(&mut self, fields: &[Option<&RawValue>]) {
        for field in fields {
            self.hasher.update(field.map_or("", RawValue::get));
            self.hasher.update([0]);
        }
    }

    /// Returns false if the entry is not valid.
    fn add(&mut self, entry: &Entry<'_>) -> bool {
        self.hash(&[entry.name, entry.r#type, entry.size, entry.modtime, entry.link_name]);
        self.hash(&[entry.mode, entry.uid, entry.gid, entry.user_name, entry.group_name]);
        self.hash(&[entry.dev_major, entry.dev_minor, entry.xattrs]);
        if entry.offset == 0 {
            return true;
        }
        if entry.offset < self.start || entry.chunk_digest.is_none() {
            return false;
        }
        if entry.offset > self.start {
            self.end_member(entry.offset);
        }
        self.hash(&[entry.chunk_digest, entry.chunk_offset, entry.chunk_size, entry.inner_offset]);
        true
    }

    fn end_member(&mut self, end: u64) {
        let mut hasher = std::mem::take(&mut self.hasher);
        hasher.update((end - self.start).to_le_bytes());
        self.done.push(Member { key: hasher.finalize().into(), place: self.start..end });
        self.start = end;
    }

    fn finish(mut self, end: u64) -> Option<Vec<Member>> {
        if self.start >= end {
            return None;
        }
        self.end_member(end);
        Some(self.done)
    }
}

/// Reads the entries one by one, so that a list of many empty values takes no memory.
fn read_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Members;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Members, A::Error> {
            let mut members = Members::default();
            let mut count = 0;
            while let Some(entry) = list.next_element::<Entry<'de>>()? {
                count += 1;
                if count > ENTRIES_MAX || !members.add(&entry) {
                    return Err(A::Error::custom("an entry is not valid"));
                }
            }
            Ok(members)
        }
    }

    deserializer.deserialize_seq(Entries)
}
