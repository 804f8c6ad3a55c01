//! The images that clients have pulled: tags, manifests, and which blobs belong to which repository.
//!
//! A blob is stored once, but it is served under a repository only if an upstream registry let this
//! mirror pull it from there. The catalog keeps those answers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::oci::{Digest, Reference, Repository, Tag};
use crate::store::{Folder, StoreError, unix_seconds};

/// The most repositories that are kept. When the limit is reached, the one that was written first is
/// removed; its next pull asks the registry again.
const REPOSITORIES_MAX: usize = 10_000;
/// The most tags, and manifests, of one repository that are kept. When the limit is reached, the one
/// that was checked first is removed.
const ENTRIES_MAX: usize = 2_000;
/// The most lists of media types for which the manifest of one tag is kept. When the limit is reached,
/// the one that was checked first is removed.
const ACCEPTS_MAX: usize = 8;

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
    repositories: Mutex<HashMap<RepositoryId, Record>>,
}

/// One repository, as its file has it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    registry: String,
    repository: String,
    tags: BTreeMap<String, Tagged>,
    /// When the registry last gave each manifest.
    manifests: BTreeMap<String, Listed>,
    /// Blobs and manifests without a manifest that names them, and when the registry had them.
    others: BTreeMap<String, u64>,
    #[serde(skip)]
    members: HashMap<Digest, u64>,
}

/// The answers of a registry for one tag. They depend on the media types that a client accepts: a client
/// without lists gets the manifest of one platform.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Tagged {
    named: Vec<Named>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Named {
    accept: String,
    digest: String,
    checked_at: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listed {
    checked_at: u64,
    /// The blobs and manifests that it names, and their sizes if it tells them.
    names: BTreeMap<String, Option<u64>>,
}

fn age(checked_at: u64) -> Duration {
    Duration::from_secs(unix_seconds().saturating_sub(checked_at))
}

impl Catalog {
    pub fn open(store: &Folder) -> Result<Self, StoreError> {
        let folder = store.repositories();
        let mut repositories = HashMap::new();
        for path in crate::store::entries(&folder)? {
            let text = fs::read(&path).unwrap_or_default();
            let record = serde_json::from_slice::<Record>(&text).ok();
            let found = record.and_then(|record| Some((record.id()?, record.with_members())));
            match found {
                Some((id, record)) => drop(repositories.insert(id, record)),
                None => {
                    tracing::warn!(path = %path.display(), "removed a damaged file of the catalog");
                    crate::store::remove(&path)?;
                }
            }
        }
        Ok(Catalog { folder, repositories: Mutex::new(repositories) })
    }

    /// The last answer for a tag, for a client that accepts the same media types.
    pub fn tag(&self, id: &RepositoryId, tag: &Tag, accept: &str) -> Option<TagRecord> {
        self.tag_records(id, tag).into_iter().find(|record| record.accept == accept)
    }

    /// The last answers for a tag, the newest first: one for each list of media types.
    pub fn tag_records(&self, id: &RepositoryId, tag: &Tag) -> Vec<TagRecord> {
        let repositories = self.repositories.lock();
        let tagged = repositories.get(id).and_then(|record| record.tags.get(tag.as_str()));
        let named = tagged.map_or(&[][..], |tagged| &tagged.named);
        let records = named.iter().rev().filter_map(|named| {
            let (digest, accept) = (named.digest.parse().ok()?, named.accept.clone());
            Some(TagRecord { digest, age: age(named.checked_at), accept })
        });
        records.collect()
    }

    /// How long ago the registry last let this mirror pull a blob or manifest from a repository.
    /// `None`: it never did.
    pub fn member(&self, id: &RepositoryId, digest: &Digest) -> Option<Duration> {
        let repositories = self.repositories.lock();
        repositories.get(id)?.members.get(digest).map(|checked_at| age(*checked_at))
    }

    /// The registry let this mirror pull a manifest with these bytes, by this reference. `accept` is the
    /// key of the media types that were asked for.
    pub fn note_manifest(
        &self,
        id: &RepositoryId,
        reference: &Reference,
        accept: &str,
        digest: &Digest,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let names = named_content(bytes);
        self.update(id, |record| {
            if let Reference::Tag(tag) = reference {
                let tagged = record.tags.entry(tag.as_str().to_owned()).or_default();
                tagged.note(accept, digest);
                shorten(&mut record.tags, Tagged::checked_at);
            }
            let names = names.iter().map(|(digest, size)| (digest.to_string(), *size)).collect();
            record
                .manifests
                .insert(digest.to_string(), Listed { checked_at: unix_seconds(), names });
            shorten(&mut record.manifests, |listed| listed.checked_at);
            record.members = record.members();
        })
    }

    /// The registry has a blob or manifest in this repository.
    pub fn note_member(&self, id: &RepositoryId, digest: &Digest) -> Result<(), StoreError> {
        self.update(id, |record| {
            if !record.touch(digest) {
                record.others.insert(digest.to_string(), unix_seconds());
                shorten(&mut record.others, |checked_at| *checked_at);
                record.members = record.members();
            }
        })
    }

    /// The registry has no such tag any more, for a client that accepts these media types.
    pub fn remove_tag(&self, id: &RepositoryId, tag: &Tag, accept: &str) -> Result<(), StoreError> {
        if self.tag(id, tag, accept).is_none() {
            return Ok(());
        }
        self.update(id, |record| {
            let Some(tagged) = record.tags.get_mut(tag.as_str()) else { return };
            tagged.named.retain(|named| named.accept != accept);
            if tagged.named.is_empty() {
                record.tags.remove(tag.as_str());
            }
        })
    }

    /// The repositories from which the registry let this mirror pull a blob or manifest.
    pub fn repositories_with(&self, digest: &Digest) -> Vec<RepositoryId> {
        let repositories = self.repositories.lock();
        let with = repositories.iter().filter(|(_, record)| record.members.contains_key(digest));
        with.map(|(id, _)| id.clone()).collect()
    }

    /// The size of a blob, as a manifest names it.
    pub fn size(&self, id: &RepositoryId, digest: &Digest) -> Option<u64> {
        let repositories = self.repositories.lock();
        let record = repositories.get(id)?;
        let name = digest.to_string();
        record.manifests.values().find_map(|listed| listed.names.get(&name).copied().flatten())
    }

    pub fn tags(&self) -> Vec<(RepositoryId, String)> {
        let repositories = self.repositories.lock();
        let tags = repositories
            .iter()
            .flat_map(|(id, record)| record.tags.keys().map(|tag| (id.clone(), tag.clone())));
        tags.collect()
    }

    pub fn manifests(&self) -> HashSet<Digest> {
        let repositories = self.repositories.lock();
        let names = repositories.values().flat_map(|record| record.manifests.keys());
        names.filter_map(|name| name.parse().ok()).collect()
    }

    /// The number of tags, and the first of them: `<registry>/<repository>:<tag>` and the digest of each.
    pub fn first_images(&self, images_max: usize) -> (usize, Vec<(String, String)>) {
        let repositories = self.repositories.lock();
        let mut ids: Vec<_> = repositories.iter().collect();
        ids.sort_unstable_by_key(|(id, _)| *id);
        let count = ids.iter().map(|(_, record)| record.tags.len()).sum();
        let images = ids.into_iter().flat_map(|(id, record)| {
            record.tags.iter().map(move |(tag, tagged)| {
                (format!("{}/{}:{tag}", id.registry, id.repository), tagged.digest())
            })
        });
        (count, images.take(images_max).collect())
    }

    fn update(
        &self,
        id: &RepositoryId,
        change: impl FnOnce(&mut Record),
    ) -> Result<(), StoreError> {
        let mut repositories = self.repositories.lock();
        if !repositories.contains_key(id) && repositories.len() >= REPOSITORIES_MAX {
            let oldest = repositories.iter().min_by_key(|(_, record)| record.last_checked());
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                repositories.remove(&oldest);
                crate::store::remove(&self.path(&oldest))?;
            }
        }
        let record = repositories.entry(id.clone()).or_insert_with(|| Record {
            registry: id.registry.clone(),
            repository: id.repository.to_string(),
            ..Record::default()
        });
        change(record);
        let text = serde_json::to_vec(record).expect("a record has a JSON form");
        crate::store::write_whole(&self.path(id), &[&text])
    }

    fn path(&self, id: &RepositoryId) -> PathBuf {
        let name = format!("{}\0{}", id.registry, id.repository);
        self.folder.join(Digest::sha256(name.as_bytes()).hex())
    }
}

impl Tagged {
    /// The registry named a manifest for a client that accepts these media types.
    fn note(&mut self, accept: &str, digest: &Digest) {
        self.named.retain(|named| named.accept != accept);
        if self.named.len() >= ACCEPTS_MAX {
            self.named.remove(0);
        }
        let (accept, digest) = (accept.to_owned(), digest.to_string());
        self.named.push(Named { accept, digest, checked_at: unix_seconds() });
    }

    /// The manifest that was named last.
    fn digest(&self) -> String {
        self.named.last().map_or(String::new(), |named| named.digest.clone())
    }

    fn checked_at(&self) -> u64 {
        self.named.last().map_or(0, |named| named.checked_at)
    }
}

impl Record {
    fn id(&self) -> Option<RepositoryId> {
        let repository = self.repository.parse().ok()?;
        Some(RepositoryId { registry: self.registry.clone(), repository })
    }

    fn with_members(mut self) -> Self {
        self.members = self.members();
        self
    }

    /// Every digest that belongs to the repository, with the time of the latest check.
    fn members(&self) -> HashMap<Digest, u64> {
        let mut members: HashMap<Digest, u64> = HashMap::new();
        let mut add = |text: &str, checked_at: u64| {
            if let Ok(digest) = text.parse() {
                let latest = members.entry(digest).or_default();
                *latest = checked_at.max(*latest);
            }
        };
        for (digest, listed) in &self.manifests {
            add(digest, listed.checked_at);
            listed.names.keys().for_each(|name| add(name, listed.checked_at));
        }
        self.others.iter().for_each(|(digest, checked_at)| add(digest, *checked_at));
        members
    }

    /// Renews a manifest that the registry still has. Returns whether it is known.
    fn touch(&mut self, digest: &Digest) -> bool {
        let Some(listed) = self.manifests.get_mut(&digest.to_string()) else { return false };
        listed.checked_at = unix_seconds();
        self.members = self.members();
        true
    }

    fn last_checked(&self) -> u64 {
        let tags = self.tags.values().map(Tagged::checked_at);
        let manifests = self.manifests.values().map(|listed| listed.checked_at);
        tags.chain(manifests).max().unwrap_or_default()
    }
}

fn shorten<T>(entries: &mut BTreeMap<String, T>, checked_at: impl Fn(&T) -> u64) {
    while entries.len() > ENTRIES_MAX {
        let oldest = entries.iter().min_by_key(|(_, entry)| checked_at(entry));
        let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { return };
        entries.remove(&oldest);
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

    #[test]
    fn a_catalog_remembers_what_belongs_to_a_repository() {
        let root = tempfile::tempdir().unwrap();
        let id = |name: &str| RepositoryId {
            registry: "a.example".into(),
            repository: name.parse().unwrap(),
        };
        let (layer, config, lone) =
            (Digest::sha256(b"layer"), Digest::sha256(b"config"), Digest::sha256(b"lone"));
        let text = format!(
            r#"{{"config": {{"digest": "{config}"}}, "layers": [{{"digest": "{layer}"}}, {{"digest": "x"}}]}}"#
        );
        let manifest = Digest::sha256(text.as_bytes());
        let tag: Tag = "v1".parse().unwrap();
        {
            let store = Folder::open(root.path()).unwrap();
            let catalog = Catalog::open(&store).unwrap();
            assert_eq!(catalog.member(&id("x"), &layer), None);
            let reference = Reference::Tag(tag.clone());
            catalog.note_manifest(&id("x"), &reference, "a/b", &manifest, text.as_bytes()).unwrap();
            catalog.note_member(&id("x"), &lone).unwrap();
            fs::write(store.repositories().join("bad"), "{").unwrap();
        }
        let store = Folder::open(root.path()).unwrap();
        let catalog = Catalog::open(&store).unwrap();
        for digest in [&layer, &config, &manifest, &lone] {
            assert!(catalog.member(&id("x"), digest).is_some(), "{digest}");
            assert!(catalog.member(&id("y"), digest).is_none(), "{digest}");
        }
        assert_eq!(catalog.tag(&id("x"), &tag, "a/b").unwrap().digest, manifest);
        assert_eq!(catalog.tag(&id("x"), &tag, "a/c"), None);
        let image = ("a.example/x:v1".to_owned(), manifest.to_string());
        assert_eq!(catalog.first_images(1), (1, vec![image]));
        assert_eq!(catalog.first_images(0), (1, vec![]));
        catalog.remove_tag(&id("x"), &tag, "a/c").unwrap();
        assert_eq!(catalog.tag_records(&id("x"), &tag).len(), 1);
        catalog.remove_tag(&id("x"), &tag, "a/b").unwrap();
        assert_eq!(catalog.tag_records(&id("x"), &tag), []);
        assert_eq!(catalog.first_images(1), (0, vec![]));
        assert!(!store.repositories().join("bad").exists());
    }

    #[test]
    fn a_tag_has_one_answer_for_each_list_of_media_types() {
        let mut tagged = Tagged::default();
        let digest = |name: &str| Digest::sha256(name.as_bytes());
        tagged.note("a", &digest("old"));
        for number in 1..ACCEPTS_MAX {
            tagged.note(&number.to_string(), &digest("x"));
        }
        tagged.note("a", &digest("new"));
        assert_eq!((tagged.named.len(), tagged.digest()), (ACCEPTS_MAX, digest("new").to_string()));
        tagged.note("one more", &digest("x"));
        assert_eq!((tagged.named.len(), tagged.named[0].accept.as_str()), (ACCEPTS_MAX, "2"));
        // A store of an earlier version: its tags are asked for again.
        let earlier: Tagged = serde_json::from_str(r#"{"digest":"x","checked_at":1}"#).unwrap();
        assert!(earlier.named.is_empty());
    }

    #[test]
    fn names_are_found_in_every_form_of_manifest() {
        let digest = |name: &str| Digest::sha256(name.as_bytes());
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
