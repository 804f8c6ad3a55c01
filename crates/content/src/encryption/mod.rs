//! The format of private pages: content in encrypted records, with the key in the link.
//!
//! A private page, including its names, kinds and sizes, is one file of ciphertext. Peers fetch,
//! verify and serve it like any other file. The format is specified in
//! `docs/reference/protocols/private-pages.md`; `web/packages/pages/src/encryption` implements it in the browser.
//!
//! - [`Key`]: the key in the fragment of a link.
//! - [`Layout`]: how the content is divided into records.
//! - [`RecordCipher`]: encrypts and decrypts single records, in any order.
//! - [`Index`]: the names and sizes of the files.
//! - [`Decryptor`]: decrypts the ciphertext in order. It returns authenticated bytes only.
//!
//! ```
//! use watchfire_content::encryption::{Entry, Index, Key, Kind, Output, RecordCipher, Decryptor};
//!
//! let key = Key::from_bytes([7; 32]);
//! let entry = Entry { path: String::new(), kind: Kind::File, bytes: 5 };
//! let index = Index { name: "hello.txt".into(), is_directory: false, entries: vec![entry] };
//! let records = RecordCipher::for_sealing(&key, index.layout()?);
//!
//! let mut content = index.encode()?;
//! content.extend(b"Hello");
//! content.resize(records.layout().content_bytes() as usize, 0);
//! let mut sealed = records.header().to_vec();
//! sealed.extend(records.seal(0, content));
//!
//! let mut decryptor = Decryptor::new(&key, sealed.len() as u64);
//! let mut outputs = Vec::new();
//! decryptor.take(&sealed, &mut outputs)?;
//! assert_eq!(outputs[0], Output::Index(index));
//! assert_eq!(outputs[1], Output::Bytes { entry: 0, bytes: b"Hello".to_vec() });
//! # decryptor.finish()?;
//! # Ok::<(), watchfire_content::encryption::PrivateError>(())
//! ```
//!
//! Absent on purpose: files, random numbers and blocks. The caller creates keys and splits the
//! ciphertext into blocks.

mod decryptor;
mod error;
mod index;
mod key;
mod layout;
mod records;

pub use decryptor::{Decryptor, Output};
pub use error::{IndexError, PrivateError};
pub use index::{
    ENTRIES_MAX, Entry, INDEX_BYTES_MAX, Index, Kind, NAMES_MAX, PATH_BYTES_MAX, TARGET_BYTES_MAX,
};
pub use key::{Key, KeyError};
pub use layout::{
    CONTENT_BYTES_MAX, HEADER_BYTES, Layout, RECORD_BYTES, RECORD_BYTES_MIN, TAG_BYTES, padded,
};
pub use records::{MAGIC, RecordCipher, is_sealed};
