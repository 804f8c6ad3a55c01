//! Private pages: shares files encrypted, without a copy, and decrypts pages to files.

mod content;
mod export;
mod files;

pub use export::{PrivateReader, export_private};
pub use files::{PrivateFiles, private_cid_of};
