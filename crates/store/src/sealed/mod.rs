//! Private pages on disk: made from files that stay where they lie, and written out as files.

mod content;
mod export;
mod files;

pub use export::{PrivateReader, export_private};
pub use files::{PrivateFiles, private_cid_of};
