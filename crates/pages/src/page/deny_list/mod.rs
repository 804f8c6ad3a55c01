//! The operator's list of blocked pages.
//!
//! The list is a file. An editor, a script and the calls of `/admin/denied` change it, and every
//! process of the server checks whether it changed.

mod file;
mod list;
mod watcher;

pub use file::DenyFileError;
pub(crate) use list::DenyList;
pub(crate) use watcher::DenyListWatcher;
