//! Pages that nobody is introduced on: the operator's list.
//!
//! The list is a file, and nothing but the file: an operator's editor, a script and the calls of
//! `/admin/denied` change it, and every process of the server looks whether it has.

mod file;
mod watch;

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Mutex, RwLock};

use content::{Cid, Multihash};

use crate::presence::lock;
use file::{DenyFile, Stamp};

pub use file::DenyFileError;
pub(crate) use watch::Watch;

/// The list, as it was when the file was last read. Content is denied by its hash, whichever way
/// its CID is written.
#[derive(Debug, Default)]
pub(crate) struct Denied {
    /// Absent when there is no list.
    file: Option<DenyFile>,
    read: Mutex<Option<Stamp>>,
    hashes: RwLock<HashSet<Multihash>>,
}

impl Denied {
    /// The list in a file, which must be there: a name misspelt would deny nothing. No name: no list.
    pub fn open(path: &Path) -> Result<Self, DenyFileError> {
        if path.as_os_str().is_empty() {
            return Ok(Denied::default());
        }
        let denied = Denied { file: Some(DenyFile::new(path)), ..Denied::default() };
        denied.refresh()?;
        Ok(denied)
    }

    /// Whether there is a list at all.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    pub fn holds(&self, cid: &Cid) -> bool {
        let hashes = self.hashes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        hashes.contains(cid.hash())
    }

    /// As [`Denied::holds`], for the name of a page.
    pub fn holds_page(&self, page: &str) -> bool {
        self.is_on() && page.parse().is_ok_and(|cid| self.holds(&cid))
    }

    /// How many are denied.
    pub fn len(&self) -> usize {
        self.hashes.read().unwrap_or_else(std::sync::PoisonError::into_inner).len()
    }

    /// Read the file if it has changed; true when it had. What cannot be read leaves the list as it
    /// was.
    pub fn refresh(&self) -> Result<bool, DenyFileError> {
        let Some(file) = &self.file else { return Ok(false) };
        let mut read = lock(&self.read);
        let now = file.stamp()?;
        if *read == Some(now) {
            return Ok(false);
        }
        let list = file.read()?;
        if let Some((line, text)) = list.unreadable.first() {
            let others = list.unreadable.len() - 1;
            tracing::warn!(line, text, others, "no CID on this line of the deny-list");
        }
        tracing::info!(denied = list.hashes.len(), "the deny-list is read");
        *self.hashes.write().unwrap_or_else(std::sync::PoisonError::into_inner) = list.hashes;
        *read = Some(now);
        Ok(true)
    }

    /// Put a CID on the list; false when it is there already.
    pub fn add(&self, cid: &Cid) -> Result<bool, DenyFileError> {
        self.change(cid, true)
    }

    /// Take a CID off the list; false when it is not there.
    pub fn remove(&self, cid: &Cid) -> Result<bool, DenyFileError> {
        self.change(cid, false)
    }

    fn change(&self, cid: &Cid, is_denied: bool) -> Result<bool, DenyFileError> {
        let file = self.file.as_ref().ok_or_else(|| DenyFileError::Unreadable {
            source: io::Error::new(io::ErrorKind::NotFound, "there is no deny-list"),
        })?;
        self.refresh()?;
        if self.holds(cid) == is_denied {
            return Ok(false);
        }
        if is_denied { file.append(cid) } else { file.strike(cid) }?;
        self.refresh()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    const RAW: &str = "bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
    const FOLDER: &str = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi";

    /// A file of this test alone, gone when it is over.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, text: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("watchfire-{}-{name}", std::process::id()));
            fs::write(&path, text).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_file(&self.0).ok();
        }
    }

    fn cid(text: &str) -> Cid {
        text.parse().unwrap()
    }

    #[test]
    fn a_line_is_a_cid_or_a_link_and_may_have_a_comment() {
        let folder_v0 = "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR";
        let text =
            format!("# ours\n\n  {RAW}  # by mail, 2026\nhttps://host/p/{folder_v0}#file=a\n");
        let scratch = Scratch::new("lines", &text);
        let denied = Denied::open(&scratch.0).unwrap();
        assert_eq!(denied.len(), 2);
        assert!(denied.holds_page(RAW));
        assert!(denied.holds_page(FOLDER), "the same content under its other name");
        assert!(denied.holds(&cid(folder_v0)));
        let same_bytes_as_folder = Cid::v1(content::Codec::DAG_PB, cid(RAW).hash().clone());
        assert!(denied.holds(&same_bytes_as_folder));
    }

    #[test]
    fn a_line_that_is_none_is_passed_over_and_the_others_hold() {
        let scratch = Scratch::new("bad-line", &format!("bafynothing\n{RAW}\n\u{0}\u{1}\n"));
        let denied = Denied::open(&scratch.0).unwrap();
        assert!(denied.holds_page(RAW));
        assert_eq!(denied.len(), 1);
    }

    #[test]
    fn what_is_written_to_the_file_holds_after_a_look_at_it() {
        let scratch = Scratch::new("edited", "");
        let denied = Denied::open(&scratch.0).unwrap();
        assert!(!denied.refresh().unwrap());
        fs::write(&scratch.0, format!("{RAW}\n")).unwrap();
        assert!(denied.refresh().unwrap());
        assert!(denied.holds_page(RAW));
        fs::remove_file(&scratch.0).unwrap();
        assert!(denied.refresh().is_err());
        assert!(denied.holds_page(RAW), "a list that is gone lifts nothing");
    }

    #[test]
    fn a_call_adds_and_strikes_and_leaves_the_rest_as_it_was() {
        let scratch = Scratch::new("calls", "# ours, without an end of line");
        let denied = Denied::open(&scratch.0).unwrap();
        assert!(denied.add(&cid(RAW)).unwrap());
        assert!(denied.add(&cid(FOLDER)).unwrap());
        assert!(!denied.add(&cid(RAW)).unwrap());
        // Two processes with the same file.
        let other = Denied::open(&scratch.0).unwrap();
        assert!(other.remove(&cid(RAW)).unwrap());
        assert!(!other.remove(&cid(RAW)).unwrap());
        assert!(denied.refresh().unwrap());
        assert!(!denied.holds_page(RAW) && denied.holds_page(FOLDER));
        let text = fs::read_to_string(&scratch.0).unwrap();
        assert_eq!(text, format!("# ours, without an end of line\n{FOLDER}\n"));
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error_and_no_name_is_none() {
        let missing = Path::new("/nowhere/denied.txt");
        assert!(Denied::open(missing).is_err());
        let none = Denied::open(Path::new("")).unwrap();
        assert!(!none.is_on() && !none.holds_page(RAW));
        assert!(none.add(&cid(RAW)).is_err());
    }
}
