//! The list in memory.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use parking_lot::{Mutex, RwLock};
use watchfire_content::{Cid, Multihash};

use super::file::{DenyFile, DenyFileError, Stamp};

/// The list as it was when the file was last read. An entry blocks content by its hash, under every
/// form of its CID.
#[derive(Debug, Default)]
pub(crate) struct DenyList {
    /// `None` without a list.
    file: Option<DenyFile>,
    read: Mutex<Option<Stamp>>,
    hashes: RwLock<HashSet<Multihash>>,
}

impl DenyList {
    /// Reads the list from a file. An empty path means no list. A file that does not exist is an
    /// error, because a misspelt path would block nothing.
    pub fn open(path: &Path) -> Result<Self, DenyFileError> {
        if path.as_os_str().is_empty() {
            return Ok(DenyList::default());
        }
        let denied = DenyList { file: Some(DenyFile::new(path)), ..DenyList::default() };
        denied.refresh()?;
        Ok(denied)
    }

    /// Whether there is a file.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Whether content is blocked.
    pub fn holds(&self, cid: &Cid) -> bool {
        let hashes = self.hashes.read();
        hashes.contains(cid.hash())
    }

    /// Whether a page is blocked, by its name.
    pub fn holds_page(&self, page: &str) -> bool {
        self.is_on() && page.parse().is_ok_and(|cid| self.holds(&cid))
    }

    pub fn len(&self) -> usize {
        self.hashes.read().len()
    }

    /// Reads the file if it changed. Returns whether it changed. When it cannot be read, the list
    /// stays as it was.
    pub fn refresh(&self) -> Result<bool, DenyFileError> {
        let Some(file) = &self.file else { return Ok(false) };
        let mut read = self.read.lock();
        let now = file.stamp()?;
        if *read == Some(now) {
            return Ok(false);
        }
        let list = file.read()?;
        if let Some((line, text)) = list.unreadable.first() {
            let others = list.unreadable.len() - 1;
            tracing::warn!(line, text, others, "a line of the deny-list has no CID");
        }
        tracing::info!(denied = list.hashes.len(), "read the deny-list");
        *self.hashes.write() = list.hashes;
        *read = Some(now);
        Ok(true)
    }

    /// Adds a CID. Returns false when the list has it already.
    pub fn add(&self, cid: &Cid) -> Result<bool, DenyFileError> {
        self.change(cid, true)
    }

    /// Removes a CID. Returns false when the list does not have it.
    pub fn remove(&self, cid: &Cid) -> Result<bool, DenyFileError> {
        self.change(cid, false)
    }

    fn change(&self, cid: &Cid, is_denied: bool) -> Result<bool, DenyFileError> {
        let file = self.file.as_ref().ok_or_else(|| DenyFileError::Unreadable {
            cause: io::Error::new(io::ErrorKind::NotFound, "pages.deny_file is not set"),
        })?;
        self.refresh()?;
        if self.holds(cid) == is_denied {
            return Ok(false);
        }
        if is_denied { file.append(cid) } else { file.remove(cid) }?;
        self.refresh()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::NamedTempFile;

    use super::*;

    const RAW: &str = "bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
    const FOLDER: &str = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi";

    fn list(text: &str) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    fn cid(text: &str) -> Cid {
        text.parse().unwrap()
    }

    #[test]
    fn a_line_is_a_cid_or_a_link_and_may_have_a_comment() {
        let folder_v0 = "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR";
        let text =
            format!("# ours\n\n  {RAW}  # by mail, 2026\nhttps://host/p/{folder_v0}#file=a\n");
        let file = list(&text);
        let denied = DenyList::open(file.path()).unwrap();
        assert_eq!(denied.len(), 2);
        assert!(denied.holds_page(RAW));
        assert!(denied.holds_page(FOLDER), "the same content, named by a CIDv0 in the list");
        assert!(denied.holds(&cid(folder_v0)));
        let same_bytes_as_folder =
            Cid::v1(watchfire_content::Codec::DAG_PB, cid(RAW).hash().clone());
        assert!(denied.holds(&same_bytes_as_folder));
    }

    #[test]
    fn a_line_is_a_link_as_people_have_it() {
        let capitals = RAW.to_uppercase();
        for line in [
            &capitals,
            &format!("(https://host/p/{RAW})."),
            &format!("https://{RAW}.ipfs.dweb.link/"),
            &format!("ipfs://{RAW}"),
        ] {
            let file = list(&format!("{line}\n"));
            let denied = DenyList::open(file.path()).unwrap();
            assert!(denied.holds_page(RAW), "{line}");
        }
    }

    #[test]
    fn a_line_without_a_cid_is_skipped_and_the_others_apply() {
        let file = list(&format!("bafynothing\n{RAW}\n\u{0}\u{1}\n"));
        let denied = DenyList::open(file.path()).unwrap();
        assert!(denied.holds_page(RAW));
        assert_eq!(denied.len(), 1);
    }

    #[test]
    fn a_change_of_the_file_applies_after_a_refresh() {
        let file = list("");
        let denied = DenyList::open(file.path()).unwrap();
        assert!(!denied.refresh().unwrap());
        fs::write(file.path(), format!("{RAW}\n")).unwrap();
        assert!(denied.refresh().unwrap());
        assert!(denied.holds_page(RAW));
        fs::remove_file(file.path()).unwrap();
        assert!(denied.refresh().is_err());
        assert!(denied.holds_page(RAW), "a missing file unblocks nothing");
    }

    #[test]
    fn adding_and_removing_keep_the_other_lines() {
        let file = list("# ours, without an end of line");
        let denied = DenyList::open(file.path()).unwrap();
        assert!(denied.add(&cid(RAW)).unwrap());
        assert!(denied.add(&cid(FOLDER)).unwrap());
        assert!(!denied.add(&cid(RAW)).unwrap());
        // Another process uses the same file.
        let other = DenyList::open(file.path()).unwrap();
        assert!(other.remove(&cid(RAW)).unwrap());
        assert!(!other.remove(&cid(RAW)).unwrap());
        assert!(denied.refresh().unwrap());
        assert!(!denied.holds_page(RAW) && denied.holds_page(FOLDER));
        let text = fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, format!("# ours, without an end of line\n{FOLDER}\n"));
    }

    #[test]
    fn a_missing_file_is_an_error_and_an_empty_path_means_no_list() {
        let missing = Path::new("/nowhere/denied.txt");
        assert!(DenyList::open(missing).is_err());
        let none = DenyList::open(Path::new("")).unwrap();
        assert!(!none.is_on() && !none.holds_page(RAW));
        assert!(none.add(&cid(RAW)).is_err());
    }
}
