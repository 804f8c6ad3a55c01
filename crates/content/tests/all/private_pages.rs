//! `private/pages.json`: the format of private pages.

use serde::Deserialize;
use watchfire_content::encryption::{
    Decryptor, Entry, Index, IndexError, Key, Kind, Layout, Output, PrivateError, RecordCipher,
};

use crate::from_hex;

#[derive(Deserialize)]
struct Vectors {
    key: String,
    key_in_link: String,
    padded: Vec<(u64, u64)>,
    pages: Vec<Page>,
    refused: Vec<Refused>,
    index_refused: Vec<RefusedIndex>,
}

#[derive(Deserialize)]
struct Page {
    page: String,
    record_bytes: u32,
    name: String,
    is_directory: bool,
    entries: Vec<PageEntry>,
    cid: String,
    sealed_bytes: usize,
    sealed_sha256: String,
    starts: String,
    ends: String,
}

#[derive(Deserialize)]
struct PageEntry {
    path: String,
    kind: String,
    bytes: Option<usize>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    why: String,
    page: String,
    key: Option<String>,
    flip: Option<usize>,
    cut: Option<usize>,
    append: Option<String>,
    swap: Option<(usize, usize)>,
    error: String,
    record: Option<u64>,
}

#[derive(Deserialize)]
struct RefusedIndex {
    why: String,
    hex: String,
    error: String,
}

fn vectors() -> Vectors {
    crate::vectors("private/pages.json")
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn key_of(hex: &str) -> Key {
    Key::from_bytes(from_hex(hex).try_into().expect("32 bytes"))
}

impl Page {
    fn files(&self) -> Vec<Vec<u8>> {
        let bytes = |entry: &PageEntry| match &entry.text {
            Some(text) => text.clone().into_bytes(),
            None => (0..entry.bytes.unwrap_or(0)).map(|at| (at % 251) as u8).collect(),
        };
        self.entries.iter().map(bytes).collect()
    }

    fn index(&self) -> Index {
        let entries = self.entries.iter().zip(self.files()).map(|(entry, file)| Entry {
            path: entry.path.clone(),
            kind: match &*entry.kind {
                "file" => Kind::File,
                "directory" => Kind::Directory,
                "symlink" => Kind::Symlink,
                kind => panic!("{kind}"),
            },
            bytes: file.len() as u64,
        });
        let entries = entries.collect();
        Index { name: self.name.clone(), is_directory: self.is_directory, entries }
    }

    fn sealed(&self, key: &Key) -> Vec<u8> {
        let index = self.index();
        let bytes = index.content_bytes().expect("the content is short");
        let layout = Layout::with_record_bytes(bytes, self.record_bytes).expect("it fits");
        let records = RecordCipher::for_sealing(key, layout);
        let mut content = index.encode().expect("the index is valid");
        self.files().iter().for_each(|file| content.extend(file));
        content.resize(layout.content_bytes() as usize, 0);
        let mut sealed = records.header().to_vec();
        for record in 0..layout.records() {
            let (from, to) = layout.content_range(record);
            sealed.extend(records.seal(record, content[from as usize..to as usize].to_vec()));
        }
        assert_eq!(sealed.len() as u64, layout.sealed_bytes());
        sealed
    }
}

/// Decrypts a page in pieces of this length.
fn unsealed(key: &Key, sealed: &[u8], piece: usize) -> Result<(Index, Vec<Vec<u8>>), PrivateError> {
    let mut decryptor = Decryptor::new(key, sealed.len() as u64);
    let mut outputs = Vec::new();
    sealed.chunks(piece).try_for_each(|piece| decryptor.take(piece, &mut outputs))?;
    decryptor.finish()?;
    let mut outputs = outputs.into_iter();
    let Some(Output::Index(index)) = outputs.next() else { panic!("the index comes first") };
    let mut files = vec![Vec::new(); index.entries.len()];
    for output in outputs {
        let Output::Bytes { entry, bytes } = output else { panic!("one index") };
        files[entry].extend(bytes);
    }
    Ok((index, files))
}

#[test]
fn pages_are_sealed_identically_and_decrypted_again() {
    let vectors = vectors();
    let key = key_of(&vectors.key);
    assert_eq!(key.to_link(), vectors.key_in_link);
    assert_eq!(vectors.key_in_link.parse(), Ok(key.clone()));
    for page in &vectors.pages {
        let name = &page.page;
        let sealed = page.sealed(&key);
        assert_eq!(sealed.len(), page.sealed_bytes, "{name}");
        assert_eq!(to_hex(&sealed[..96]), page.starts, "{name}");
        assert_eq!(to_hex(&sealed[sealed.len() - 16..]), page.ends, "{name}");
        let watchfire_content::Multihash::Sha2_256(digest) =
            watchfire_content::Multihash::sha2_256(&sealed)
        else {
            unreachable!("sha2_256 returns this variant")
        };
        assert_eq!(to_hex(&digest), page.sealed_sha256, "{name}");
        let mut builder =
            watchfire_content::FileBuilder::new(watchfire_content::Profile::default())
                .expect("the default profile is valid");
        let mut forget = |_| Ok::<(), std::convert::Infallible>(());
        builder.write(&sealed, &mut forget).expect("nothing fails");
        let root = builder.finish(&mut forget).expect("nothing fails");
        assert_eq!(root.cid.to_string(), page.cid, "{name}");
        for piece in [sealed.len(), 100_000, 997] {
            assert_eq!(unsealed(&key, &sealed, piece), Ok((page.index(), page.files())), "{name}");
        }
    }
}

#[test]
fn lengths_are_padded_identically() {
    for (bytes, padded) in vectors().padded {
        assert_eq!(watchfire_content::encryption::padded(bytes), padded, "{bytes}");
    }
}

#[test]
fn changed_pages_are_rejected_with_the_cause() {
    let vectors = vectors();
    for refused in &vectors.refused {
        let why = &refused.why;
        let page = vectors.pages.iter().find(|page| page.page == refused.page).expect("a page");
        let mut sealed = page.sealed(&key_of(&vectors.key));
        if let Some(at) = refused.flip {
            sealed[at] ^= 1;
        }
        if let Some((a, b)) = refused.swap {
            let record = page.record_bytes as usize;
            let (a, b) = (a * record, b * record);
            for at in 0..record {
                sealed.swap(a + at, b + at);
            }
        }
        sealed.truncate(refused.cut.unwrap_or(usize::MAX));
        sealed.extend(from_hex(refused.append.as_deref().unwrap_or_default()));
        let key = key_of(refused.key.as_ref().unwrap_or(&vectors.key));
        let error = unsealed(&key, &sealed, 1000).expect_err(why);
        let (name, record) = match error {
            PrivateError::WrongKey => ("WrongKey", None),
            PrivateError::Changed { record } => ("Changed", Some(record)),
            PrivateError::Length { .. } => ("Length", None),
            PrivateError::NotPrivate => ("NotPrivate", None),
            PrivateError::UnsupportedVersion => ("Version", None),
            error => panic!("{why}: {error:?}"),
        };
        assert_eq!((name, record), (&*refused.error, refused.record), "{why}");
    }
}

#[test]
fn invalid_indexes_are_rejected_with_the_cause() {
    for refused in vectors().index_refused {
        let name = match Index::decode(&from_hex(&refused.hex)).expect_err(&refused.why) {
            IndexError::Truncated => "Cut",
            IndexError::TrailingBytes => "Trailing",
            IndexError::TooLong { .. } => "TooLong",
            IndexError::TooManyEntries { .. } => "TooManyEntries",
            IndexError::UnknownKind { .. } => "Kind",
            IndexError::NotOneFile => "NotOneFile",
            IndexError::NotUtf8 => "Utf8",
            IndexError::InvalidPath { .. } => "Path",
            IndexError::WrongOrder { .. } => "Order",
            IndexError::InvalidSize { .. } => "Size",
        };
        assert_eq!(name, refused.error, "{}", refused.why);
    }
}
