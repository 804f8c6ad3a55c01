//! Private pages: content as records that only the key in the link opens.
//!
//! Everything of a private page (names, kinds, sizes, bytes) is one file of ciphertext, which peers
//! fetch, check and serve like any other file without being able to read it. This crate is its
//! format, which `docs/protocols/private.md` writes down; `web/src/private` is the same in the
//! browser.
//!
//! - [`Key`]: what stands in the fragment of a link.
//! - [`Layout`]: which byte of the content is in which record, and how large the whole is.
//! - [`Records`]: seals and opens one record at a time, in any order.
//! - [`Index`]: the names and sizes of what is inside.
//! - [`Unsealing`]: the ciphertext in its order in, files out; of a record either all is
//!   authenticated, or nothing comes out.
//!
//! ```
//! use private::{Entry, Index, Key, Kind, Output, Records, Unsealing};
//!
//! let key = Key::from_bytes([7; 32]);
//! let entry = Entry { path: String::new(), kind: Kind::File, bytes: 5 };
//! let index = Index { name: "hello.txt".into(), is_directory: false, entries: vec![entry] };
//! let records = Records::sealing(&key, index.layout()?);
//!
//! let mut content = index.encode()?;
//! content.extend(b"Hello");
//! content.resize(records.layout().content_bytes() as usize, 0);
//! let mut sealed = records.header().to_vec();
//! sealed.extend(records.seal(0, content));
//!
//! let mut unsealing = Unsealing::new(&key, sealed.len() as u64);
//! let mut outputs = Vec::new();
//! unsealing.take(&sealed, &mut outputs)?;
//! assert_eq!(outputs[0], Output::Index(index));
//! assert_eq!(outputs[1], Output::Bytes { entry: 0, bytes: b"Hello".to_vec() });
//! # unsealing.finish()?;
//! # Ok::<(), private::PrivateError>(())
//! ```
//!
//! Absent on purpose: files, dice, and blocks. Keys are made by whoever has dice; what is shared
//! is cut into blocks by whoever shares it.

mod error;
mod index;
mod key;
mod layout;
mod records;
mod unsealing;

pub use error::{IndexError, PrivateError};
pub use index::{
    ENTRIES_MAX, Entry, INDEX_BYTES_MAX, Index, Kind, NAMES_MAX, PATH_BYTES_MAX, TARGET_BYTES_MAX,
};
pub use key::{Key, KeyError};
pub use layout::{CONTENT_BYTES_MAX, Layout, RECORD_BYTES, RECORD_BYTES_MIN, TAG_BYTES, padded};
pub use records::{HEADER_BYTES, MAGIC, Records, is_sealed};
pub use unsealing::{Output, Unsealing};
