//! The last version of each file.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::version::{Version, url_key};
use crate::oci::Digest;
use crate::store::{Folder, StoreError};

/// Files whose versions are kept. When the limit is reached, the one that was checked first is removed;
/// its next request asks the server again.
const FILES_MAX: usize = 10_000;
/// Versions take at most this part of the store, each of them a block of 4 KiB.
const STORE_PART_BYTES: u64 = 16 * 4096;

/// The last version of each file, in memory and on disk.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    files_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    versions: HashMap<String, Arc<Version>>,
    keys: HashSet<Digest>,
}

impl Files {
    /// Reads the versions of a store of at most `bytes_max`.
    pub(crate) fn open(store: &Folder, bytes_max: u64) -> Result<Self, StoreError> {
        let files_max = usize::try_from(bytes_max / STORE_PART_BYTES).unwrap_or(FILES_MAX);
        let folder = store.files();
        let mut state = State::default();
        for path in crate::store::entries(&folder)? {
            let text = fs::read(&path).unwrap_or_default();
            match serde_json::from_slice::<Version>(&text) {
                Ok(version) if version.is_valid() => state.insert(version),
                Ok(_) | Err(_) => {
                    tracing::warn!(path = %path.display(), "removed a damaged version of a file");
                    crate::store::remove(&path)?;
                }
            }
        }
        Ok(Files { folder, files_max: files_max.clamp(1, FILES_MAX), state: Mutex::new(state) })
    }

    pub(crate) fn get(&self, url: &str) -> Option<Arc<Version>> {
        self.state.lock().versions.get(url).cloned()
    }

    /// Whether this is the key of the last version of a file.
    pub(crate) fn has(&self, key: &Digest) -> bool {
        self.state.lock().keys.contains(key)
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.state.lock().versions.keys().cloned().collect()
    }

    /// The number of files, and the first of them in the order of their URLs.
    pub(crate) fn first(&self, files_max: usize) -> (usize, Vec<Arc<Version>>) {
        let mut versions: Vec<_> = self.state.lock().versions.values().cloned().collect();
        versions.sort_unstable_by(|one, other| one.url.cmp(&other.url));
        let count = versions.len();
        versions.truncate(files_max);
        (count, versions)
    }

    /// The server named a version.
    pub(crate) fn put(&self, version: Version) -> Result<Arc<Version>, StoreError> {
        let mut state = self.state.lock();
        while !state.versions.contains_key(&version.url) && state.versions.len() >= self.files_max {
            let oldest = state.versions.values().min_by_key(|version| version.checked_at).cloned();
            let Some(oldest) = oldest else { break };
            self.remove_from(&mut state, &oldest.url)?;
        }
        let json = serde_json::to_vec(&version).expect("a version has a JSON form");
        crate::store::write_whole(&self.path(&version.url), &[&json])?;
        let url = version.url.clone();
        state.insert(version);
        Ok(state.versions[&url].clone())
    }

    pub(crate) fn remove(&self, url: &str) -> Result<(), StoreError> {
        self.remove_from(&mut self.state.lock(), url)
    }

    /// The next request for a file asks its server, if the last version is still this one.
    pub(crate) fn expire(&self, version: &Version) {
        let mut state = self.state.lock();
        let Some(known) = state.versions.get_mut(&version.url) else { return };
        if known.key() == version.key() {
            *known = Arc::new(Version { checked_at: 0, ..version.clone() });
        }
    }

    fn remove_from(&self, state: &mut State, url: &str) -> Result<(), StoreError> {
        let Some(version) = state.versions.remove(url) else { return Ok(()) };
        state.keys.remove(&version.key());
        crate::store::remove(&self.path(url))
    }

    fn path(&self, url: &str) -> PathBuf {
        self.folder.join(url_key(url).hex())
    }
}

impl State {
    fn insert(&mut self, version: Version) {
        let key = version.key();
        if let Some(before) = self.versions.insert(version.url.clone(), Arc::new(version)) {
            self.keys.remove(&before.key());
        }
        self.keys.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_kept_on_disk() {
        let root = tempfile::tempdir().unwrap();
        let version = |url: &str, etag: &str| Version {
            url: url.to_owned(),
            etag: etag.to_owned(),
            length: 1,
            body_etag: None,
            headers: Default::default(),
            checked_at: 5,
        };
        let (old, new) = (version("http://a/1", "\"1\""), version("http://a/1", "\"2\""));
        let gone = version("http://a/2", "\"1\"");
        {
            let store = Folder::open(root.path()).unwrap();
            let files = Files::open(&store, 1 << 30).unwrap();
            for version in [&old, &new, &gone] {
                files.put(version.clone()).unwrap();
            }
            files.remove(&gone.url).unwrap();
            fs::write(store.files().join("bad"), "{").unwrap();
        }
        let store = Folder::open(root.path()).unwrap();
        let files = Files::open(&store, 1 << 30).unwrap();
        assert!(!store.files().join("bad").exists());
        assert_eq!(files.get(&new.url).as_deref(), Some(&new));
        assert_eq!(files.get(&gone.url), None);
        assert!(files.has(&new.key()) && !files.has(&old.key()) && !files.has(&gone.key()));
        assert_eq!(files.first(0), (1, vec![]));
        files.expire(&old);
        assert_eq!(files.get(&new.url).unwrap().checked_at, 5);
        files.expire(&new);
        assert_eq!(files.get(&new.url).unwrap().checked_at, 0);
        drop(files);
        let files = Files::open(&store, 2 * STORE_PART_BYTES).unwrap();
        for number in 0..5 {
            files.put(version(&format!("http://a/{number}"), "\"1\"")).unwrap();
        }
        assert_eq!(files.first(0).0, 2, "a small store has few versions");
    }
}
