//! Blobs and images by their CIDs: IPFS peers get what is public from here, and this host gets blobs from them.
//!
//! **Only public content is published**: that of a repository for which this mirror has no credentials, and which its
//! registry gives to a client without any. The mirror asks for each blob and manifest, once while it runs. The settings
//! alone would not tell: the credentials of a pull may have been removed since.
//!
//! **No block is stored twice.** The blocks of a blob on disk are the leaves of its DAG. Only the nodes above them and
//! the manifests are kept, in memory: about 50 bytes for each MiB of the store.
//!
//! **An image is a folder** in the OCI image layout, which links digests to CIDs: `blobs/sha256/<hex>` is the blob with
//! that digest. So a manifest stays as it is, with its digest and its signatures, and other programs read and write such
//! folders. An annotation with a CID would make another manifest of it.
//!
//! **Content from IPFS is verified twice**: each block by its CID, and the blob by the digest in the manifest.
//!
//! The bounds: [`ANNOUNCED_MAX`] roots are announced, [`ANNOUNCING_MAX`] at a time; [`KNOWN_MAX`] CIDs of blobs are
//! kept; and the limits of the libp2p host.

mod dag;
mod published;
mod reader;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use hashlink::LinkedHashMap;
use http::{StatusCode, header};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use watchfire_content::{Block, Cid, Root};
use watchfire_p2p::{Host, HostSettings};
use watchfire_store::{LockedMemoryStore, Stores};

use crate::images::{Accept, Catalog, IPFS, RepositoryId};
use crate::oci::{ByteRange, Digest, Manifest, Reference};
use crate::store::{Blobs, BlockHash, Manifests, StoreError, hash_of};
use crate::upstream::{BlobBody, MANIFEST_BYTES_MAX, Upstream, UpstreamError};
use dag::ManifestJson;
use published::Published;
use reader::{FileStream, Reader};

/// Roots that are announced to content routing. Further ones are served, and not announced.
const ANNOUNCED_MAX: usize = 1024;
/// Announcements that run at the same time. The others wait.
const ANNOUNCING_MAX: usize = 16;
/// How often to look for roots that are not announced.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);
/// CIDs of public blobs that are kept after the blobs have left the store. The oldest one is forgotten.
const KNOWN_MAX: usize = 10_000;
/// How often to ask about content again that was not public, if the store does not change.
const ROUND_INTERVAL: Duration = Duration::from_secs(60);
/// How long a registry is not asked again about content that it refused, or does not have any more.
const REFUSED_FOR: Duration = Duration::from_secs(3600);
/// Changes of the store within this time are handled together.
const BATCH: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum IpfsError {
    #[error(
        "no IPFS peer sent {cid} within {waited:?}; check that a peer has it, and name that peer with --set p2p.bootstrap"
    )]
    NoBlock { cid: Cid, waited: Duration },
    #[error(
        "cannot use ipfs://{cid}: {cause}; the CID of an image is that of a folder in the OCI image layout"
    )]
    NotImage { cid: Cid, cause: String },
    #[error("the mirror is stopping")]
    Stopped,
}

/// Content with a root, in the order in which roots are announced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// The folder of the image with this manifest.
    Image(Digest),
    Manifest(Digest),
    Blob(Digest),
}

impl Content {
    const fn digest(&self) -> &Digest {
        let (Content::Image(digest) | Content::Manifest(digest) | Content::Blob(digest)) = self;
        digest
    }
}

#[derive(Clone, Debug)]
enum Place {
    Leaf { digest: Arc<Digest>, block: usize, len: usize },
    Node(Block),
}

type Places = Vec<(BlockHash, Place)>;

/// An image, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentCid {
    /// `image` for the folder with everything in it, `manifest`, `config` or `layer`.
    pub kind: String,
    /// Of an image, that of its manifest.
    pub digest: String,
    /// `None`, like the CID: the store does not have it, or not all of the image is public.
    pub bytes: Option<u64>,
    pub cid: Option<String>,
    /// Whether IPFS peers get it.
    pub is_public: bool,
}

/// A registry with the credentials of the settings, and without any.
pub(crate) type OpenUpstream = (Arc<Upstream>, Arc<Upstream>);

#[derive(Debug)]
pub(crate) struct Ipfs {
    host: Host,
    published: Arc<Published>,
    known: Mutex<LinkedHashMap<Digest, (Cid, u64)>>,
    blobs: Arc<Blobs>,
    manifests: Manifests,
    catalog: Arc<Catalog>,
    upstreams: Vec<OpenUpstream>,
    announced: Mutex<BTreeSet<Content>>,
    refused: Mutex<HashMap<(RepositoryId, Digest), Instant>>,
    /// The blobs of each public manifest; `None` if it is not that of an image.
    parts: Mutex<HashMap<Digest, Option<Arc<[Digest]>>>>,
    tasks: Mutex<JoinSet<()>>,
}

/// The state of registries, as one look at the store has learned it.
#[derive(Default)]
struct Round {
    /// The registries that do not answer.
    down: HashSet<String>,
    /// Whether a repository is used without credentials. A look may run a helper program.
    is_open: HashMap<RepositoryId, bool>,
}

/// A blob, as a file of IPFS.
#[derive(Clone, Debug)]
pub(crate) struct IpfsFile {
    ipfs: Arc<Ipfs>,
    root: Cid,
    pub(crate) bytes: u64,
}

/// The name of all content that was received from IPFS peers.
pub(crate) fn content_of_peers() -> RepositoryId {
    let repository = "ipfs".parse().expect("it is a valid name");
    RepositoryId { registry: IPFS.to_owned(), repository }
}

impl Ipfs {
    pub(crate) async fn start(
        settings: HostSettings,
        (blobs, manifests): (Arc<Blobs>, Manifests),
        catalog: Arc<Catalog>,
        upstreams: Vec<OpenUpstream>,
    ) -> Result<Arc<Self>, watchfire_p2p::StartError> {
        let published = Arc::new(Published::new(blobs.clone()));
        let stores = Stores::new(vec![published.clone()]);
        // Received blocks go into the blobs, so the host's own store is empty.
        let host = Host::start(settings, stores, Arc::new(LockedMemoryStore::new(0))).await?;
        let ipfs = Arc::new(Ipfs {
            host,
            published,
            known: Mutex::default(),
            blobs,
            manifests,
            catalog,
            upstreams,
            announced: Mutex::default(),
            refused: Mutex::default(),
            parts: Mutex::default(),
            tasks: Mutex::default(),
        });
        let mut tasks = ipfs.tasks.lock();
        tasks.spawn(publish_all(Arc::downgrade(&ipfs), ipfs.blobs.clone()));
        tasks.spawn(announce_all(Arc::downgrade(&ipfs)));
        drop(tasks);
        Ok(ipfs)
    }

    pub(crate) async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        self.host.stop().await;
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.host.addresses().iter().map(ToString::to_string).collect()
    }

    /// The CID of a public blob, and its size. The blob may have left the store.
    pub(crate) fn known(&self, digest: &Digest) -> Option<(Cid, u64)> {
        self.known.lock().get(digest).cloned()
    }

    /// The digests of [`Ipfs::known`].
    pub(crate) fn known_digests(&self) -> Vec<Digest> {
        self.known.lock().keys().cloned().collect()
    }

    pub(crate) fn file(self: &Arc<Self>, root: Cid, bytes: u64) -> IpfsFile {
        IpfsFile { ipfs: self.clone(), root, bytes }
    }

    /// Whether strangers may have a blob.
    pub(crate) fn is_public(&self, digest: &Digest) -> bool {
        self.published.root(&Content::Blob(digest.clone())).is_some()
            || self.catalog.member(&content_of_peers(), digest).is_some()
    }

    /// The file of a blob in the folder of an image.
    pub(crate) async fn find_blob(
        self: &Arc<Self>,
        image: &Cid,
        digest: &Digest,
    ) -> Result<Cid, IpfsError> {
        let path = ["blobs", digest.algorithm().name(), &digest.hex()];
        Reader::open(self.clone()).await?.resolve(image, &path).await
    }

    /// A manifest of an image. A tag is that of the only manifest, or of the index if there are several.
    pub(crate) async fn manifest(
        self: &Arc<Self>,
        image: &Cid,
        reference: &Reference,
    ) -> Result<Manifest, IpfsError> {
        let invalid = |cause: String| IpfsError::NotImage { cid: image.clone(), cause };
        let bytes_max = MANIFEST_BYTES_MAX as u64;
        let mut reader = Reader::open(self.clone()).await?;
        let index = reader.resolve(image, &["index.json"]).await?;
        let index = reader.read(index, bytes_max).await?;
        let json: ManifestJson = serde_json::from_slice(&index)
            .map_err(|error| invalid(format!("its index.json is invalid: {error}")))?;
        let digest = match (reference, json.manifests.as_deref()) {
            (Reference::Digest(digest), _) => digest.clone(),
            (Reference::Tag(_), Some([only])) => {
                only.digest.parse().map_err(|error| invalid(format!("{error}")))?
            }
            (Reference::Tag(_), _) => Digest::sha256(&index),
        };
        let bytes = match digest.is_of(&index) {
            true => index,
            false => {
                let file = self.find_blob(image, &digest).await?;
                Reader::open(self.clone()).await?.read(file, bytes_max).await?
            }
        };
        let json = serde_json::from_slice::<ManifestJson>(&bytes).ok();
        let media_type = json.filter(|_| digest.is_of(&bytes)).and_then(|json| {
            let by_content = json.config.map(|_| dag::MANIFEST_TYPE);
            let by_content = by_content.or(json.manifests.map(|_| dag::INDEX_TYPE));
            json.media_type.or(by_content.map(str::to_owned))
        });
        let is_wrong = || invalid(format!("{digest} has other bytes, or is not a manifest"));
        Ok(Manifest { media_type: media_type.ok_or_else(is_wrong)?, digest, bytes })
    }

    /// Compares the published content with the store.
    async fn publish(&self) {
        let (blobs, manifests) = (self.blobs.clone(), self.manifests.clone());
        let listed = tokio::task::spawn_blocking(move || stored(&blobs, &manifests)).await;
        // It fails only while the mirror stops.
        let Ok(stored) = listed else { return };
        let published = self.published.roots().into_iter().map(|(content, _)| content);
        let is_gone = |one: &Content| !matches!(one, Content::Image(_)) && !stored.contains(one);
        self.withdraw(published.filter(is_gone).collect()).await;
        self.refused.lock().retain(|_, at| at.elapsed() < REFUSED_FOR);
        let mut round = Round::default();
        for content in stored {
            if self.published.root(&content).is_none()
                && self.can_publish(&content, &mut round).await
                && let Some(built) = self.places(content.clone()).await
            {
                if let Content::Blob(digest) = &content {
                    let mut known = self.known.lock();
                    known.insert(digest.clone(), (built.0.cid.clone(), built.0.file_bytes));
                    if known.len() > KNOWN_MAX {
                        known.pop_front();
                    }
                }
                self.published.insert(content, built);
            }
        }
        self.publish_images().await;
    }

    /// Publishes the images of which all is public, and withdraws the others.
    async fn publish_images(&self) {
        let roots: BTreeMap<Content, Root> = self.published.roots().into_iter().collect();
        let root = |content: Content| roots.get(&content).cloned();
        self.parts.lock().retain(|digest, _| root(Content::Manifest(digest.clone())).is_some());
        let mut gone = BTreeSet::new();
        for content in roots.keys() {
            let (Content::Image(digest) | Content::Manifest(digest)) = content else { continue };
            let image = Content::Image(digest.clone());
            let mut files = None;
            if let Some(of_manifest) = root(Content::Manifest(digest.clone()))
                && let Some(parts) = self.parts_of(digest).await
            {
                let blobs =
                    parts.iter().map(|one| Some((one.clone(), root(Content::Blob(one.clone()))?)));
                let manifest = Some((digest.clone(), of_manifest));
                files = [manifest].into_iter().chain(blobs).collect::<Option<BTreeMap<_, _>>>();
            }
            match (files, roots.contains_key(&image)) {
                (None, true) => drop(gone.insert(image)),
                (Some(files), false) => {
                    if let Some(built) = self.build_image(digest, files).await {
                        self.published.insert(image, built);
                    }
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        self.withdraw(gone).await;
    }

    /// Whether content is public. Registries that do not answer are not asked again in this round.
    async fn can_publish(&self, content: &Content, round: &mut Round) -> bool {
        let digest = content.digest();
        for id in self.catalog.repositories_with(digest) {
            let RepositoryId { registry, repository } = &id;
            if registry == IPFS {
                return true;
            }
            let mut upstreams = self.upstreams.iter();
            let found = upstreams.find(|(upstream, _)| upstream.registry().name() == registry);
            let found = found.filter(|_| !round.down.contains(registry));
            let Some((upstream, anonymous)) = found else { continue };
            let key = (id.clone(), digest.clone());
            if self.refused.lock().contains_key(&key) {
                continue;
            }
            let is_open = match round.is_open.get(&id).copied() {
                Some(is_open) => is_open,
                None => {
                    let found = upstream.credential_text(repository.as_str()).await;
                    let is_open = matches!(found, Ok(None));
                    round.is_open.insert(id.clone(), is_open);
                    is_open
                }
            };
            if !is_open {
                continue;
            }
            let asked = match content {
                Content::Blob(digest) => anonymous.blob_size(repository, digest).await.map(drop),
                _ => {
                    let (reference, accept) =
                        (Reference::Digest(digest.clone()), Accept::default());
                    let head = anonymous.manifest_head(repository, &reference, &accept.header);
                    head.await.map(drop)
                }
            };
            match asked {
                Ok(()) => return true,
                Err(error) if error.is_outage() => drop(round.down.insert(registry.clone())),
                Err(error) => {
                    tracing::debug!(%digest, %error, "content is not public");
                    self.refused.lock().insert(key, Instant::now());
                }
            }
        }
        false
    }

    async fn places(&self, content: Content) -> Option<(Root, Places)> {
        let (blobs, manifests) = (self.blobs.clone(), self.manifests.clone());
        let built = tokio::task::spawn_blocking(move || places_of(&blobs, &manifests, &content));
        built.await.ok()?.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read content for IPFS peers");
            None
        })
    }

    /// The blobs of an image. `None`: it is not the manifest of an image. A manifest is read once.
    async fn parts_of(&self, digest: &Digest) -> Option<Arc<[Digest]>> {
        let known = self.parts.lock().get(digest).cloned();
        if let Some(parts) = known {
            return parts;
        }
        let (manifests, name) = (self.manifests.clone(), digest.clone());
        let read = tokio::task::spawn_blocking(move || manifests.get(&name)).await;
        let manifest = read.ok()?.ok()??;
        let parts: Option<Arc<[Digest]>> = dag::blobs_of(&manifest.bytes).map(Arc::from);
        self.parts.lock().insert(digest.clone(), parts.clone());
        parts
    }

    /// The folder of an image, whose manifest and blobs are `files`.
    async fn build_image(
        &self,
        digest: &Digest,
        files: BTreeMap<Digest, Root>,
    ) -> Option<(Root, Places)> {
        let (manifests, digest) = (self.manifests.clone(), digest.clone());
        let built = tokio::task::spawn_blocking(move || {
            let manifest = manifests.get(&digest).ok()??;
            dag::of_image(&manifest, &files).map(with_places)
        });
        built.await.ok()?
    }

    async fn withdraw(&self, contents: BTreeSet<Content>) {
        if contents.is_empty() {
            return;
        }
        for (content, root) in self.published.remove(&contents) {
            self.stop_announcing(&content, root).await;
        }
    }

    async fn stop_announcing(&self, content: &Content, root: Root) {
        let is_announced = self.announced.lock().remove(content);
        if is_announced {
            // It fails only while the mirror stops.
            let _ = self.host.stop_providing(root.cid).await;
        }
    }

    async fn announce(&self, content: Content, root: Root) {
        match self.host.provide(root.cid.clone()).await {
            Ok(()) => {
                self.announced.lock().insert(content.clone());
                // It may have been withdrawn meanwhile.
                if self.published.root(&content).is_none() {
                    self.stop_announcing(&content, root).await;
                }
            }
            Err(error) => tracing::debug!(?content, %error, "cannot announce content"),
        }
    }
}

/// Publishes what is public until the mirror is dropped.
async fn publish_all(ipfs: Weak<Ipfs>, blobs: Arc<Blobs>) {
    while let Some(ipfs) = ipfs.upgrade() {
        ipfs.publish().await;
        drop(ipfs);
        let _ = timeout(ROUND_INTERVAL, blobs.changed()).await;
        sleep(BATCH).await;
    }
}

/// Announces roots within the limits until the mirror is dropped. A root that could not be announced is tried again.
async fn announce_all(ipfs: Weak<Ipfs>) {
    while let Some(ipfs) = ipfs.upgrade() {
        // Without a peer of the DHT, an announcement would reach nobody, and succeed.
        if ipfs.host.known_peers().await.is_ok_and(|peers| !peers.is_empty()) {
            let mut roots = ipfs.published.roots();
            // New ones that come earlier in the order replace the last ones.
            let further = roots.split_off(roots.len().min(ANNOUNCED_MAX));
            for (content, root) in further {
                ipfs.stop_announcing(&content, root).await;
            }
            roots.retain(|(content, _)| !ipfs.announced.lock().contains(content));
            let announce =
                async |(content, root): (Content, Root)| ipfs.announce(content, root).await;
            stream::iter(roots).for_each_concurrent(ANNOUNCING_MAX, announce).await;
        }
        drop(ipfs);
        sleep(ANNOUNCE_INTERVAL).await;
    }
}

/// The complete content of the store.
fn stored(blobs: &Blobs, manifests: &Manifests) -> BTreeSet<Content> {
    let manifests: BTreeSet<_> = manifests.digests().into_iter().collect();
    let complete = blobs.digests().into_iter().filter(|one| !blobs.has_part(one));
    let of_containerd = blobs.containerd_digests().unwrap_or_default().into_iter();
    // containerd has manifests among its blobs.
    let of_containerd = of_containerd.filter(|digest| !manifests.contains(digest));
    let complete = complete.chain(of_containerd).map(Content::Blob);
    complete.chain(manifests.iter().cloned().map(Content::Manifest)).collect()
}

fn with_places((root, nodes): (Root, Vec<Block>)) -> (Root, Places) {
    let nodes = nodes.into_iter();
    (root, nodes.filter_map(|node| Some((hash_of(node.cid())?, Place::Node(node)))).collect())
}

/// The root of a blob or manifest, and its blocks. `None`: the store does not have it.
fn places_of(
    blobs: &Blobs,
    manifests: &Manifests,
    content: &Content,
) -> Result<Option<(Root, Places)>, StoreError> {
    let digest = match content {
        Content::Blob(digest) => Arc::new(digest.clone()),
        Content::Manifest(digest) => {
            let manifest = manifests.get(digest)?;
            let found = manifest.and_then(|manifest| dag::of_bytes(&manifest.bytes));
            return Ok(found.map(with_places));
        }
        Content::Image(_) => return Ok(None),
    };
    let Some(blob) = blobs.complete(&digest)? else { return Ok(None) };
    let Some((root, mut places)) = dag::of_blob(&blob).map(with_places) else { return Ok(None) };
    for block in 0..blob.blocks() {
        let (digest, (_, len)) = (digest.clone(), blob.block_range(block));
        let leaf = Place::Leaf { digest, block, len };
        places.extend(blob.block_hash(block).map(|hash| (hash, leaf)));
    }
    Ok(Some((root, places)))
}

/// The CIDs of an image, and of its parts, which may be private. `None`: the store has no such manifest.
pub(crate) fn cids_of(
    ipfs: Option<&Ipfs>,
    (blobs, manifests): (&Blobs, &Manifests),
    digest: &Digest,
) -> Result<Option<Vec<ContentCid>>, StoreError> {
    let named = manifests.get(digest)?.and_then(|manifest| dag::blobs_of(&manifest.bytes));
    let Some(named) = named else { return Ok(None) };
    let mut contents = vec![
        ("image", Content::Image(digest.clone())),
        ("manifest", Content::Manifest(digest.clone())),
    ];
    let kinds = ["config"].into_iter().chain(std::iter::repeat("layer"));
    contents.extend(kinds.zip(named.into_iter().map(Content::Blob)));
    let cid = |(kind, content): (&str, Content)| {
        let public = ipfs.and_then(|ipfs| ipfs.published.root(&content));
        let is_public = public.is_some();
        let root = match public {
            None => places_of(blobs, manifests, &content)?.map(|(root, _)| root),
            public => public,
        };
        let bytes = |root: &Root| match content {
            Content::Image(_) => root.dag_bytes,
            Content::Manifest(_) | Content::Blob(_) => root.file_bytes,
        };
        let (bytes, cid) = root.map(|root| (bytes(&root), root.cid.to_string())).unzip();
        let (kind, digest) = (kind.to_owned(), content.digest().to_string());
        Ok(ContentCid { kind, digest, bytes, cid, is_public })
    };
    contents.into_iter().map(cid).collect::<Result<_, _>>().map(Some)
}

impl IpfsFile {
    /// The name of a download from here.
    pub(crate) fn name(&self) -> String {
        format!("{IPFS}{}", self.root)
    }

    /// Whether strangers may have the blob, so that it does not matter where its bytes are from.
    pub(crate) fn is_public(&self, digest: &Digest) -> bool {
        self.ipfs.is_public(digest) || self.ipfs.known(digest).is_some()
    }

    /// Peers sent the blob, and it has this digest.
    pub(crate) fn note_fetched(&self, digest: &Digest) {
        let bytes = Some(self.bytes);
        self.ipfs.catalog.note_member(&content_of_peers(), digest, bytes, Duration::ZERO);
    }

    /// The bytes, or a range of them, as a registry would send them.
    pub(crate) async fn request(
        &self,
        range: Option<ByteRange>,
    ) -> Result<BlobBody, UpstreamError> {
        let reader = Reader::open(self.ipfs.clone()).await;
        let reader = reader.map_err(|error| UpstreamError::invalid("IPFS", error.to_string()))?;
        let ends = range.map_or((0, self.bytes), |range| (range.start, range.end + 1));
        let file = FileStream::new(reader, self.root.clone(), ends, self.bytes);
        let bytes = stream::try_unfold(file, async |mut file| {
            let next = file.next().await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(next.map(|bytes| (bytes, file)))
        });
        let mut head = http::Response::builder().header(header::ACCEPT_RANGES, "bytes");
        if let Some(ByteRange { start, end }) = range {
            let value = format!("bytes {start}-{end}/{}", self.bytes);
            head = head.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, value);
        }
        let response = head.body(reqwest::Body::wrap_stream(bytes)).expect("the headers are valid");
        Ok(BlobBody::of(response.into(), range, Some(self.bytes), "IPFS"))
    }
}
