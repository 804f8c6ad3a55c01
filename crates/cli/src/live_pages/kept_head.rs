//! The newest head of a live page, beside its blocks in a store on disk. With it the page begins again when the program starts again, also
//! when no other peer has the page.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use watchfire_content::Cid;
use watchfire_content::live::{HEAD_BYTES, Head, History};

/// The file with the head of one page. One process at a time has the store open.
pub struct KeptHead {
    path: PathBuf,
    /// The number of the head in the file.
    number: u32,
}

impl KeptHead {
    pub fn new(store: &Path, page: &Cid) -> Self {
        KeptHead { path: store.join("heads").join(page.to_string()), number: 0 }
    }

    /// Returns the head of an earlier run, which is not verified.
    pub fn read(&self) -> Option<Bytes> {
        let mut bytes = Vec::new();
        let file = File::open(&self.path).ok()?;
        file.take(HEAD_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
        Some(bytes.into())
    }

    /// Stores the newest head once all entries up to it are here.
    pub fn follow(&mut self, history: &History) {
        let newest = history.heads().next().filter(|_| history.split().is_none());
        let Some(head) = newest.filter(|head| head.number > self.number) else { return };
        if !history.is_complete() {
            return;
        }
        self.number = head.number;
        if let Err(error) = self.write(head) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "cannot store the head of a live page");
        }
    }

    /// Replaces the file: a process that is killed leaves the one before.
    fn write(&self, head: &Head) -> io::Result<()> {
        let temporary = self.path.with_extension("part");
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&temporary, head.bytes())?;
        fs::rename(&temporary, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_content::live::{Beginning, Form, NewEntry, PublisherKey};

    fn append(history: &mut History, key: &PublisherKey) {
        let content = watchfire_content::Block::raw("text".into()).expect("a short text");
        let new = NewEntry {
            time_ms: 0,
            form: Form::Text,
            name: String::new(),
            content: content.cid().clone(),
            content_bytes: 4,
        };
        history.append(key, new).expect("an entry");
    }

    #[test]
    fn the_newest_head_of_a_complete_history_is_read_again() {
        let key = PublisherKey::from_seed(&[9; 32]);
        let beginning = Beginning { key: key.public(), time_ms: 0, title: String::new() };
        let page = beginning.block().expect("a short title").cid().clone();
        let mut history = History::new(page.clone(), beginning.clone());
        let folder = tempfile::tempdir().expect("a folder");
        let mut kept = KeptHead::new(folder.path(), &page);
        kept.follow(&history);
        assert_eq!(kept.read(), None);
        append(&mut history, &key);
        append(&mut history, &key);
        kept.follow(&history);
        let read = kept.read().expect("it was written");
        let newest = history.heads().next().expect("a head");
        assert_eq!(read[..], newest.bytes()[..]);
        // Another reader has the head, and not the entries.
        let mut behind = History::new(page.clone(), beginning);
        behind.offer(&read).expect("a valid head");
        let mut other = KeptHead::new(&folder.path().join("other"), &page);
        other.follow(&behind);
        assert_eq!(other.read(), None);
    }
}
