//! The images that clients have pulled: tags, and which content belongs to which repository.
//!
//! **A name gives no right.** A blob is stored once, but it is served under a repository only if the upstream
//! registry let this mirror pull it from there. A manifest may name any digest, also that of a private layer of
//! another repository, so the names in a manifest tell sizes and nothing else.
//!
//! **One small write for each change.** A repository has a file and a lock of its own, and a change appends a line of
//! about 200 bytes to that file. An answer that names what is known already writes nothing; its time is kept in memory,
//! so after a restart the registry is asked once more. One file for a repository that is written as a whole would cost
//! a repository with 2,000 tags 2 MB for each pull. A file with more than twice the lines that it needs is written
//! anew. Nothing is synced: a line that a power failure damages is skipped, and its registry is asked again. So it is
//! after a change that cannot be written, such as to a full disk: the change is in memory, and the pull goes on.
//!
//! The bounds: [`REPOSITORIES_MAX`], and for each of them [`TAGS_MAX`] and [`CONTENT_MAX`].

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hashlink::LinkedHashMap;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use crate::oci::{Digest, Reference, Repository, Tag};
use crate::store::{Folder, StoreError, age, unix_seconds};

/// The name of IPFS where others have the name of a registry. No registry can have it.
pub(crate) const IPFS: &str = "ipfs://";
/// The most repositories that are kept. When the limit is reached, the one whose registry was asked first is
/// removed; its next pull asks the registry again.
const REPOSITORIES_MAX: usize = 10_000;
/// The most tags of one repository that are kept. When the limit is reached, the one that was checked first
/// is removed.
const TAGS_MAX: usize = 2_000;
/// The most blobs and manifests of one repository that are kept. When the limit is reached, the one that was
/// checked or named first is removed.
const CONTENT_MAX: usize = 20_000;
/// The most lists of media types for which the manifest of one tag is kept. When the limit is reached,
/// the one that was checked first is removed.
const ACCEPTS_MAX: usize = 8;
/// The most names in one manifest that are kept.
const NAMES_MAX: usize = 1_000;
/// Lines that a file may have beyond twice those that it needs.
const SPARE_LINES: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryId {
    pub registry: String,
    pub repository: Repository,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRecord {
    pub digest: Digest,
    /// How long ago the registry named it.
    pub age: Duration,
    /// The media types that were asked for: the key of an `Accept`.
    pub accept: String,
}

#[derive(Debug)]
pub struct Catalog {
    folder: PathBuf,
    repositories: RwLock<HashMap<RepositoryId, Arc<Mutex<Record>>>>,
}

/// One repository. Its tags and its content are in the order of their last check.
#[derive(Debug, Default)]
struct Record {
    /// The answers of the registry for each tag. They depend on the media types that a client accepts: a
    /// client without lists gets the manifest of one platform.
    tags: LinkedHashMap<String, Vec<Named>>,
    content: LinkedHashMap<Digest, Content>,
    /// The credentials of this host for it, as a short hash, and since when it has others than before.
    credentials: Option<(u32, u64)>,
    /// When it was read from disk; 0 for a new one. Other credentials may have been used before.
    read_at: u64,
    /// The lines of its file.
    lines: usize,
    /// When its registry was last asked.
    checked_at: u64,
}

#[derive(Debug)]
struct Named {
    accept: String,
    digest: Digest,
    checked_at: u64,
}

/// A blob or manifest.
#[derive(Debug, Default)]
struct Content {
    /// When the registry last let this mirror pull it from the repository. `None`: a manifest names it.
    checked_at: Option<u64>,
    size: Option<u64>,
}

/// A line of a repository's file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    /// The first line.
    Repository { registry: String, repository: String },
    /// The registry named the manifest of a tag; without a digest, it has no such tag any more.
    Tag { tag: String, accept: String, digest: Option<String>, at: u64 },
    /// The registry has a blob or manifest; without a time, a manifest names it.
    Content { digest: String, at: Option<u64>, size: Option<u64> },
    /// The registry no longer lets this mirror pull it.
    Gone { digest: String },
    /// This host has other credentials for the repository.
    Credentials { hash: u32, at: u64 },
}

fn moment(age: Duration) -> u64 {
    unix_seconds().saturating_sub(age.as_secs())
}

impl Catalog {
    pub fn open(store: &Folder) -> Result<Self, StoreError> {
        let folder = store.repositories();
        let mut repositories = HashMap::new();
        for path in crate::store::entries(&folder)? {
            match read(&path) {
                Some((id, record)) => {
                    repositories.insert(id, Arc::new(Mutex::new(record)));
                }
                None => {
                    tracing::warn!(path = %path.display(), "removed a file of the catalog that is damaged or of an earlier version; its registry is asked again");
                    crate::store::remove(&path)?;
                }
            }
        }
        Ok(Catalog { folder, repositories: RwLock::new(repositories) })
    }

    fn record(&self, id: &RepositoryId) -> Option<Arc<Mutex<Record>>> {
        self.repositories.read().get(id).cloned()
    }

    /// The last answer for a tag, for a client that accepts the same media types.
    pub fn tag(&self, id: &RepositoryId, tag: &Tag, accept: &str) -> Option<TagRecord> {
        self.tag_records(id, tag).into_iter().find(|record| record.accept == accept)
    }

    /// The last answers for a tag, the newest first: one for each list of media types.
    pub fn tag_records(&self, id: &RepositoryId, tag: &Tag) -> Vec<TagRecord> {
        let Some(record) = self.record(id) else { return Vec::new() };
        let record = record.lock();
        let named = record.tags.get(tag.as_str()).map_or(&[][..], Vec::as_slice);
        let records = named.iter().rev().map(|named| TagRecord {
            digest: named.digest.clone(),
            age: age(named.checked_at),
            accept: named.accept.clone(),
        });
        records.collect()
    }

    /// How long ago the registry last let this mirror pull a blob or manifest from a repository.
    /// `None`: it never did.
    pub fn member(&self, id: &RepositoryId, digest: &Digest) -> Option<Duration> {
        self.record(id)?.lock().content.get(digest)?.checked_at.map(age)
    }

    /// Notes which credentials this host has for a repository. After a change, what the registry said before gives
    /// other hosts no right any more.
    pub fn note_credentials(&self, id: &RepositoryId, hash: u32) {
        let Some(record) = self.record(id) else { return };
        let (before, read_at) = {
            let record = record.lock();
            (record.credentials, record.read_at)
        };
        if before.is_none_or(|(before, _)| before != hash) {
            let at = before.map_or(read_at, |_| unix_seconds());
            self.update(id, vec![Change::Credentials { hash, at }]);
        }
    }

    /// Whether an answer of this age was given to the credentials that this host has now.
    pub fn is_for_own_credentials(&self, id: &RepositoryId, answer: Duration) -> bool {
        let Some(record) = self.record(id) else { return true };
        let record = record.lock();
        answer < age(record.credentials.map_or(record.read_at, |(_, at)| at))
    }

    /// Whether a manifest of a repository names a blob or manifest. That gives no right to it.
    pub fn names(&self, id: &RepositoryId, digest: &Digest) -> bool {
        self.record(id).is_some_and(|record| record.lock().content.contains_key(digest))
    }

    /// The size of a blob, as the registry or a manifest names it.
    pub fn size(&self, id: &RepositoryId, digest: &Digest) -> Option<u64> {
        self.record(id)?.lock().content.get(digest)?.size
    }

    /// Blobs of a repository that have at least `bytes_min`, those that were checked last first.
    pub fn large_content(&self, id: &RepositoryId, bytes_min: u64, count: usize) -> Vec<Digest> {
        let Some(record) = self.record(id) else { return Vec::new() };
        let record = record.lock();
        let is_large = |content: &Content| content.size.is_some_and(|size| size >= bytes_min);
        let large = record.content.iter().rev().filter(|(_, content)| is_large(content));
        large.map(|(digest, _)| digest.clone()).take(count).collect()
    }

    /// The registry let this mirror pull a manifest with these bytes, by this reference, so long ago. `accept`
    /// is the key of the media types that were asked for.
    pub fn note_manifest(
        &self,
        id: &RepositoryId,
        reference: &Reference,
        accept: &str,
        manifest: (&Digest, &[u8]),
        age: Duration,
    ) {
        let ((digest, bytes), at) = (manifest, moment(age));
        let named = named_content(bytes).into_iter().take(NAMES_MAX);
        let mut changes: Vec<_> = named
            .map(|(digest, size)| Change::Content { digest: digest.to_string(), at: None, size })
            .collect();
        let (digest, size) = (digest.to_string(), Some(bytes.len() as u64));
        changes.push(Change::Content { digest: digest.clone(), at: Some(at), size });
        if let Reference::Tag(tag) = reference {
            let (tag, accept) = (tag.as_str().to_owned(), accept.to_owned());
            changes.push(Change::Tag { tag, accept, digest: Some(digest), at });
        }
        self.update(id, changes);
    }

    /// The registry had a blob or manifest in this repository so long ago.
    pub fn note_member(
        &self,
        id: &RepositoryId,
        digest: &Digest,
        size: Option<u64>,
        age: Duration,
    ) {
        let (digest, at) = (digest.to_string(), Some(moment(age)));
        self.update(id, vec![Change::Content { digest, at, size }]);
    }

    /// The registry no longer lets this mirror pull a blob or manifest from this repository.
    pub fn remove_member(&self, id: &RepositoryId, digest: &Digest) {
        if self.member(id, digest).is_some() {
            self.update(id, vec![Change::Gone { digest: digest.to_string() }]);
        }
    }

    /// The registry has no such tag any more, for a client that accepts these media types.
    pub fn remove_tag(&self, id: &RepositoryId, tag: &Tag, accept: &str) {
        if self.tag(id, tag, accept).is_some() {
            let (tag, accept) = (tag.as_str().to_owned(), accept.to_owned());
            self.update(id, vec![Change::Tag { tag, accept, digest: None, at: unix_seconds() }]);
        }
    }

    /// The repositories from which the registry let this mirror pull a blob or manifest.
    pub fn repositories_with(&self, digest: &Digest) -> Vec<RepositoryId> {
        let has = |record: &Record| {
            record.content.get(digest).is_some_and(|content| content.checked_at.is_some())
        };
        let repositories = self.repositories.read();
        let with = repositories.iter().filter(|(_, record)| has(&record.lock()));
        with.map(|(id, _)| id.clone()).collect()
    }

    pub fn tags(&self) -> Vec<(RepositoryId, String)> {
        let repositories = self.repositories.read();
        let tags = repositories.iter().flat_map(|(id, record)| {
            let tags: Vec<_> = record.lock().tags.keys().cloned().collect();
            tags.into_iter().map(|tag| (id.clone(), tag))
        });
        tags.collect()
    }

    /// The number of tags, and the first of them: `<registry>/<repository>:<tag>` and the digest of each.
    pub fn first_images(&self, images_max: usize) -> (usize, Vec<(String, String)>) {
        let repositories = self.repositories.read();
        let mut ids: Vec<_> = repositories.iter().collect();
        ids.sort_unstable_by_key(|(id, _)| *id);
        let count = ids.iter().map(|(_, record)| record.lock().tags.len()).sum();
        let images = ids.into_iter().flat_map(|(id, record)| {
            let record = record.lock();
            let last = record.tags.iter().filter_map(|(tag, named)| Some((tag, named.last()?)));
            let mut images: Vec<_> = last
                .map(|(tag, last)| {
                    let name = format!("{}/{}:{tag}", id.registry, id.repository);
                    (name, last.digest.to_string())
                })
                .collect();
            images.sort_unstable();
            images
        });
        (count, images.take(images_max).collect())
    }

    /// Takes over changes, and appends those that say something new to the file of the repository.
    fn update(&self, id: &RepositoryId, changes: Vec<Change>) {
        let record = self.record_or_new(id);
        let mut record = record.lock();
        let new = changes.into_iter().filter(|change| record.apply(change)).collect();
        if let Err(error) = self.write(id, &mut record, new) {
            tracing::warn!(%error, "cannot store what a registry said; it is asked again after a restart");
        }
    }

    fn write(
        &self,
        id: &RepositoryId,
        record: &mut Record,
        mut new: Vec<Change>,
    ) -> Result<(), StoreError> {
        let path = self.path(id);
        if record.lines > 2 * record.lines_needed() + SPARE_LINES {
            let all: Vec<_> = [header(id)].into_iter().chain(record.changes()).collect();
            crate::store::write_whole(&path, &[&lines(&all)])?;
            record.lines = all.len();
            return Ok(());
        }
        if new.is_empty() {
            return Ok(());
        }
        if record.lines == 0 {
            new.insert(0, header(id));
        }
        crate::store::append(&path, &lines(&new))?;
        record.lines += new.len();
        Ok(())
    }

    fn record_or_new(&self, id: &RepositoryId) -> Arc<Mutex<Record>> {
        if let Some(record) = self.record(id) {
            return record;
        }
        let mut repositories = self.repositories.write();
        if !repositories.contains_key(id) && repositories.len() >= REPOSITORIES_MAX {
            // A repository that is being changed is not the oldest.
            let oldest = repositories.iter().min_by_key(|(_, record)| {
                record.try_lock().map_or(u64::MAX, |record| record.checked_at)
            });
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                repositories.remove(&oldest);
                // A file that stays is read at the next start.
                let _ = crate::store::remove(&self.path(&oldest));
            }
        }
        repositories.entry(id.clone()).or_default().clone()
    }

    fn path(&self, id: &RepositoryId) -> PathBuf {
        let name = format!("{}\0{}", id.registry, id.repository);
        self.folder.join(Digest::sha256(name.as_bytes()).hex())
    }
}

/// Reads the file of a repository. A line that is damaged is skipped.
fn read(path: &Path) -> Option<(RepositoryId, Record)> {
    let text = fs::read(path).ok()?;
    let mut changes =
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let Some(Change::Repository { registry, repository }) = changes.next() else { return None };
    // Content from IPFS peers is public.
    let read_at = if registry == IPFS { 0 } else { unix_seconds() };
    let mut record = Record { lines: 1, read_at, ..Record::default() };
    for change in changes {
        record.apply(&change);
        record.lines += 1;
    }
    Some((RepositoryId { registry, repository: repository.parse().ok()? }, record))
}

fn header(id: &RepositoryId) -> Change {
    Change::Repository { registry: id.registry.clone(), repository: id.repository.to_string() }
}

/// Each line begins with its line end, so that a line which was cut off ends there.
fn lines(changes: &[Change]) -> Vec<u8> {
    let mut text = Vec::new();
    for change in changes {
        text.push(b'\n');
        serde_json::to_writer(&mut text, change).expect("a change has a JSON form");
    }
    text
}

impl Record {
    /// Takes over a change. Returns whether it says more than that the registry was asked again.
    fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Repository { .. } => false,
            Change::Tag { tag, accept, digest, at } => {
                let mut named = self.tags.remove(tag).unwrap_or_default();
                let place = named.iter().position(|named| named.accept == *accept);
                let before = place.map(|place| named.remove(place).digest);
                let digest = digest.as_ref().and_then(|digest| digest.parse::<Digest>().ok());
                let is_new = before != digest;
                if let Some(digest) = digest {
                    if named.len() >= ACCEPTS_MAX {
                        named.remove(0);
                    }
                    named.push(Named { accept: accept.clone(), digest, checked_at: *at });
                }
                if !named.is_empty() {
                    self.tags.insert(tag.clone(), named);
                }
                if self.tags.len() > TAGS_MAX {
                    self.tags.pop_front();
                }
                self.checked_at = self.checked_at.max(*at);
                is_new
            }
            Change::Content { digest, at, size } => {
                let Ok(digest) = digest.parse::<Digest>() else { return false };
                let before = self.content.remove(&digest);
                let (asked_at, known) =
                    before.as_ref().map_or((None, None), |before| (before.checked_at, before.size));
                // The registry knows the size better than a manifest does.
                let size = if at.is_some() { size.or(known) } else { known.or(*size) };
                let checked_at = at.or(asked_at);
                let is_new =
                    before.is_none() || size != known || asked_at.is_some() != checked_at.is_some();
                self.content.insert(digest, Content { checked_at, size });
                if self.content.len() > CONTENT_MAX {
                    self.content.pop_front();
                }
                self.checked_at = self.checked_at.max(at.unwrap_or_default());
                is_new
            }
            Change::Credentials { hash, at } => {
                self.credentials = Some((*hash, *at));
                true
            }
            Change::Gone { digest } => {
                digest.parse().is_ok_and(|digest| self.content.remove::<Digest>(&digest).is_some())
            }
        }
    }

    fn lines_needed(&self) -> usize {
        2 + self.content.len() + self.tags.values().map(Vec::len).sum::<usize>()
    }

    /// The changes that make this record.
    fn changes(&self) -> Vec<Change> {
        let content = self.content.iter().map(|(digest, content)| Change::Content {
            digest: digest.to_string(),
            at: content.checked_at,
            size: content.size,
        });
        let tags = self.tags.iter().flat_map(|(tag, named)| {
            named.iter().map(|named| Change::Tag {
                tag: tag.clone(),
                accept: named.accept.clone(),
                digest: Some(named.digest.to_string()),
                at: named.checked_at,
            })
        });
        let credentials = self.credentials.map(|(hash, at)| Change::Credentials { hash, at });
        content.chain(tags).chain(credentials).collect()
    }
}

/// The parts of a manifest that name other content. An index may name itself: nothing follows the
/// names here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    config: Option<Descriptor>,
    layers: Vec<Descriptor>,
    manifests: Vec<Descriptor>,
    blobs: Vec<Descriptor>,
    #[serde(rename = "fsLayers")]
    fs_layers: Vec<SchemaOneLayer>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    size: Option<u64>,
}

#[derive(Deserialize)]
struct SchemaOneLayer {
    #[serde(rename = "blobSum")]
    blob_sum: String,
}

/// The layers of an image with their sizes, in their order. None for a manifest of something else.
pub(crate) fn layers_of(manifest: &[u8]) -> Vec<(Digest, Option<u64>)> {
    let names = serde_json::from_slice::<Names>(manifest).unwrap_or_default();
    let layers = names.layers.into_iter();
    layers.filter_map(|layer| Some((layer.digest.parse().ok()?, layer.size))).collect()
}

/// The digests of the blobs and manifests that a manifest names, with their sizes.
fn named_content(manifest: &[u8]) -> HashMap<Digest, Option<u64>> {
    let Ok(names) = serde_json::from_slice::<Names>(manifest) else { return HashMap::new() };
    let descriptors = [names.layers, names.manifests, names.blobs].into_iter().flatten();
    let found = descriptors.chain(names.config).map(|named| (named.digest, named.size));
    let layers = names.fs_layers.into_iter().map(|layer| (layer.blob_sum, None));
    found.chain(layers).filter_map(|(digest, size)| Some((digest.parse().ok()?, size))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> RepositoryId {
        RepositoryId { registry: "a.example".into(), repository: name.parse().unwrap() }
    }

    fn digest(name: &str) -> Digest {
        Digest::sha256(name.as_bytes())
    }

    /// Notes that a tag of the repository `x` is a manifest with this text.
    fn note(catalog: &Catalog, tag: &Tag, accept: &str, text: &str) -> Digest {
        let reference = Reference::Tag(tag.clone());
        let manifest = (&digest(text), text.as_bytes());
        catalog.note_manifest(&id("x"), &reference, accept, manifest, Duration::ZERO);
        digest(text)
    }

    fn bytes_on_disk(catalog: &Catalog) -> u64 {
        fs::metadata(catalog.path(&id("x"))).unwrap().len()
    }

    #[test]
    fn a_catalog_remembers_what_belongs_to_a_repository() {
        let root = tempfile::tempdir().unwrap();
        let (layer, config, lone, gone) =
            (digest("layer"), digest("config"), digest("lone"), digest("gone"));
        let text = format!(
            r#"{{"config": {{"digest": "{config}"}}, "layers": [{{"digest": "{layer}", "size": 5}}, {{"digest": "x"}}]}}"#
        );
        let tag: Tag = "v1".parse().unwrap();
        let note_member = |catalog: &Catalog, digest, age| {
            catalog.note_member(&id("x"), digest, None, age);
        };
        {
            let store = Folder::open(root.path()).unwrap();
            let catalog = Catalog::open(&store).unwrap();
            note(&catalog, &tag, "a/b", &text);
            note_member(&catalog, &lone, Duration::from_secs(1000));
            note_member(&catalog, &gone, Duration::ZERO);
            catalog.remove_member(&id("x"), &gone);
            // A file of an earlier version, and a line that was cut off.
            fs::write(store.repositories().join("bad"), r#"{"registry":"a.example"}"#).unwrap();
            crate::store::append(&catalog.path(&id("x")), b"\n{\"content\"").unwrap();
            note_member(&catalog, &config, Duration::ZERO);
        }
        let store = Folder::open(root.path()).unwrap();
        let catalog = Catalog::open(&store).unwrap();
        for one in [&config, &digest(&text), &lone] {
            assert!(catalog.member(&id("x"), one).is_some(), "{one}");
            assert!(catalog.member(&id("y"), one).is_none(), "{one}");
            assert_eq!(catalog.repositories_with(one), [id("x")]);
        }
        assert!(catalog.member(&id("x"), &lone).unwrap() >= Duration::from_secs(1000));
        // A name gives no right.
        assert_eq!(
            (catalog.member(&id("x"), &layer), catalog.repositories_with(&layer)),
            (None, vec![])
        );
        assert!(catalog.names(&id("x"), &layer) && !catalog.names(&id("x"), &gone));
        assert_eq!(catalog.size(&id("x"), &layer), Some(5));
        assert_eq!(catalog.tag(&id("x"), &tag, "a/b").unwrap().digest, digest(&text));
        assert_eq!(catalog.tag(&id("x"), &tag, "a/c"), None);
        let image = ("a.example/x:v1".to_owned(), digest(&text).to_string());
        assert_eq!(catalog.first_images(1), (1, vec![image]));
        assert_eq!(catalog.first_images(0), (1, vec![]));
        catalog.remove_tag(&id("x"), &tag, "a/c");
        assert_eq!(catalog.tag_records(&id("x"), &tag).len(), 1);
        catalog.remove_tag(&id("x"), &tag, "a/b");
        assert_eq!(catalog.tag_records(&id("x"), &tag), []);
        assert_eq!(catalog.first_images(1), (0, vec![]));
        assert!(!store.repositories().join("bad").exists());
    }

    #[test]
    fn a_pull_of_a_repository_with_many_tags_writes_little_and_no_other_repository_waits() {
        let root = tempfile::tempdir().unwrap();
        let store = Folder::open(root.path()).unwrap();
        let catalog = Catalog::open(&store).unwrap();
        let tag = |number: usize| format!("v{number}").parse::<Tag>().unwrap();
        (0..=TAGS_MAX).for_each(|number| drop(note(&catalog, &tag(number), "a/b", "{}")));
        assert_eq!(catalog.first_images(0).0, TAGS_MAX);
        let before = bytes_on_disk(&catalog);
        note(&catalog, &tag(7), "a/b", "{}");
        assert_eq!(bytes_on_disk(&catalog), before, "an unchanged tag writes nothing");
        note(&catalog, &tag(7), "a/b", "{ }");
        assert!(bytes_on_disk(&catalog) - before < 500);
        let record = catalog.record(&id("x")).unwrap();
        let _changing = record.lock();
        catalog.note_member(&id("y"), &digest("a"), None, Duration::ZERO);
    }

    #[test]
    fn content_from_before_credentials_were_noted_may_belong_to_others() {
        let root = tempfile::tempdir().unwrap();
        let open = || Catalog::open(&Folder::open(root.path()).unwrap()).unwrap();
        let is_own = |catalog: &Catalog, name: &str| {
            let answer = catalog.member(&id(name), &digest("a")).unwrap();
            catalog.is_for_own_credentials(&id(name), answer)
        };
        {
            let catalog = open();
            for name in ["x", "y", "z"] {
                catalog.note_member(&id(name), &digest("a"), None, Duration::from_secs(10));
                assert!(is_own(&catalog, name));
            }
            catalog.note_credentials(&id("z"), 0);
        }
        for _ in 0..2 {
            let catalog = open();
            assert!(!is_own(&catalog, "x") && !is_own(&catalog, "y") && is_own(&catalog, "z"));
            for (name, hash) in [("x", 7), ("y", 0), ("z", 0)] {
                catalog.note_credentials(&id(name), hash);
            }
            assert!(!is_own(&catalog, "x") && !is_own(&catalog, "y") && is_own(&catalog, "z"));
        }
    }

    #[test]
    fn an_answer_from_the_future_is_old_and_the_next_one_counts() {
        let root = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&Folder::open(root.path()).unwrap()).unwrap();
        let at = Some(unix_seconds() + 1_000_000);
        let change = Change::Content { digest: digest("a").to_string(), at, size: None };
        catalog.update(&id("x"), vec![change]);
        let year = Duration::from_secs(31_536_000);
        assert!(catalog.member(&id("x"), &digest("a")).unwrap() > year);
        catalog.note_member(&id("x"), &digest("a"), None, Duration::ZERO);
        assert!(catalog.member(&id("x"), &digest("a")).unwrap() < year);
    }

    #[test]
    fn a_change_that_cannot_be_written_is_kept_in_memory() {
        let root = tempfile::tempdir().unwrap();
        let store = Folder::open(root.path()).unwrap();
        let catalog = Catalog::open(&store).unwrap();
        fs::remove_dir(store.repositories()).unwrap();
        catalog.note_member(&id("x"), &digest("a"), None, Duration::ZERO);
        fs::create_dir(store.repositories()).unwrap();
        catalog.note_member(&id("x"), &digest("b"), None, Duration::ZERO);
        assert!(catalog.member(&id("x"), &digest("a")).is_some());
        let (_, record) = read(&catalog.path(&id("x"))).unwrap();
        assert!(record.content.contains_key(&digest("b")));
    }

    #[test]
    fn a_file_does_not_grow_with_the_number_of_changes() {
        let root = tempfile::tempdir().unwrap();
        let tag: Tag = "v1".parse().unwrap();
        let text = |number: usize| format!("{{\"a\": {}}}", number % 10);
        {
            let catalog = Catalog::open(&Folder::open(root.path()).unwrap()).unwrap();
            (0..3000).for_each(|number| drop(note(&catalog, &tag, "a/b", &text(number))));
            assert!(bytes_on_disk(&catalog) < 300_000);
        }
        let catalog = Catalog::open(&Folder::open(root.path()).unwrap()).unwrap();
        assert_eq!(catalog.tag(&id("x"), &tag, "a/b").unwrap().digest, digest(&text(9)));
        (0..10).for_each(|one| assert!(catalog.names(&id("x"), &digest(&text(one)))));
    }

    #[test]
    fn a_tag_has_one_answer_for_each_list_of_media_types() {
        let root = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&Folder::open(root.path()).unwrap()).unwrap();
        let tag: Tag = "v1".parse().unwrap();
        let accepts = |catalog: &Catalog| -> Vec<String> {
            let records = catalog.tag_records(&id("x"), &tag).into_iter().rev();
            records.map(|record| record.accept).collect()
        };
        for accept in ["a", "1", "2", "3", "4", "5", "6", "7"] {
            note(&catalog, &tag, accept, "old");
        }
        note(&catalog, &tag, "a", "new");
        assert_eq!(accepts(&catalog), ["1", "2", "3", "4", "5", "6", "7", "a"]);
        note(&catalog, &tag, "one more", "new");
        assert_eq!(accepts(&catalog).first().unwrap(), "2");
        assert_eq!(accepts(&catalog).len(), ACCEPTS_MAX);
    }

    #[test]
    fn names_are_found_in_every_form_of_manifest() {
        let text = format!(
            r#"{{"manifests": [{{"digest": "{}", "size": 7}}], "blobs": [{{"digest": "{}"}}], "fsLayers": [{{"blobSum": "{}"}}]}}"#,
            digest("a"),
            digest("b"),
            digest("c")
        );
        let named = named_content(text.as_bytes());
        let wanted = [("a", Some(7)), ("b", None), ("c", None)];
        assert_eq!(named, wanted.map(|(name, size)| (digest(name), size)).into());
        for text in ["", "[", "{\"layers\": 1}", "{\"layers\": [{}]}"] {
            assert!(named_content(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
