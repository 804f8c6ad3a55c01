//! The fleet: the mirrors of many hosts, which fetch each blob once and give its blocks to each other
//! while they are still fetching it themselves.
//!
//! - The host that is closest to a blob's digest coordinates it ([`Coordinator`], [`lookup`]): it leases
//!   segments to the hosts that fetch from the registry, and tells hosts about each other.
//! - Hosts ask each other for the hashes of the blocks ([`hashes`]), and exchange the blocks over
//!   Bitswap. A blob of one block is sent as a whole.
//! - All hosts have the key of the fleet's private network. They believe each other's hashes, but a
//!   blob is complete only when its own digest is right.
//! - A host gives content only to hosts that could pull it themselves ([`access`]).

mod access;
mod announcements;
mod answers;
mod hashes;
mod lag;
mod lookup;
mod message;
mod region;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use watchfire_content::Cid;
use watchfire_fleet::{Assignment, Coordinator, Report};
use watchfire_p2p::{
    AddressPart, BlockSession, Dht, Host, HostLimits, HostSettings, Multiaddr, PeerId,
    RequestSettings,
};
use watchfire_store::{LockedMemoryStore, ReadBlocks, Stores};

pub(crate) use access::tag_key;
pub(crate) use hashes::KnownHashes;
pub use region::{Region, RegionError};

use crate::catalog::{Catalog, RepositoryId};
use crate::manifest_fetcher::ManifestFetcher;
use crate::oci::{Digest, Reference};
use crate::proxy::{Files, Version, url_key};
use crate::store::{Blobs, Manifest, Manifests, hash_of};
use crate::upstream::Upstream;
use access::Credentials;
use announcements::Announcements;
use lag::Lag;
use lookup::Lookup;
use message::{Contact, Request, Response, decode, encode};

/// Connections with other hosts. All hosts that fetch a blob report to one host, so a fleet that starts
/// together needs as many connections there.
const CONNECTIONS_MAX: u32 = 4096;
/// Handshakes in each direction at a time. Further ones are rejected, and tried again.
const HANDSHAKES_MAX: u32 = 256;
/// The protocol of the fleet's requests.
const PROTOCOL: &str = "/watchfire/mirror/1.0.0";
/// The protocol of the fleet's DHT.
const DHT_PROTOCOL: &str = "/watchfire/mirror/kad/1.0.0";
/// How long a request may take, with the time that its receiver waits for news.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a coordinator may take. After it the next closest host coordinates.
const COORDINATOR_TIMEOUT: Duration = Duration::from_millis(1500);
/// Coordinators that are asked in turn.
const COORDINATORS_MAX: usize = 10;
/// Requests of other hosts that are answered at a time. Further ones fail.
const ANSWERS_MAX: usize = 1_024;
/// Hosts whose addresses are kept. When the limit is reached, all are forgotten; the next reports name
/// them again.
const CONTACTS_MAX: usize = 50_000;
/// How often the addresses of `join_dns` are looked up.
const DNS_INTERVAL: Duration = Duration::from_secs(30);

/// The settings of a fleet.
#[derive(Clone, Debug)]
pub struct FleetSettings {
    /// The address on which other hosts reach this one.
    pub listen: SocketAddr,
    /// Hosts of the fleet to connect to.
    pub join: Vec<SocketAddr>,
    /// Names with a port, whose addresses are hosts of the fleet.
    pub join_dns: Vec<String>,
    /// Whether to find hosts of the local network by mDNS.
    pub mdns: bool,
    /// The key of the fleet's private network.
    pub key: [u8; 32],
    /// The region of this host. Hosts of other regions are not a part of its fleet. `None`: the hosts
    /// without a region are one fleet.
    pub region: Option<Region>,
    /// The file of the host's key pair, which is created at the first start.
    pub identity: Option<PathBuf>,
    /// Segments of one blob that all hosts together fetch from the registry at a time.
    pub leases_per_blob: usize,
}

/// Why a request to another host failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum FleetError {
    #[error("{0}")]
    Request(#[from] watchfire_p2p::RequestError),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("an answer of another kind, or an invalid one")]
    Answer,
    #[error("the mirror is stopping")]
    Stopped,
}

/// This host as a member of the fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    host: Arc<Host>,
    lookup: Lookup,
    coordinator: Mutex<Coordinator<Digest, PeerId>>,
    /// Notified when a report may give a waiting host a holder.
    reported: Notify,
    contacts: Mutex<HashMap<PeerId, Vec<Multiaddr>>>,
    credentials: Credentials,
    announcements: Announcements,
    /// The downloads that are running.
    downloads: Mutex<HashMap<Digest, Spreading>>,
    urgent: Mutex<HashMap<Digest, Vec<Cid>>>,
    blobs: Arc<Blobs>,
    manifests: Manifests,
    manifest_fetcher: Arc<ManifestFetcher>,
    catalog: Arc<Catalog>,
    files: Arc<Files>,
    started_at: Instant,
    peer_bytes: AtomicU64,
    region: Option<Region>,
    lag: Arc<Lag>,
    tasks: Mutex<JoinSet<()>>,
}

/// A running download, for the requests of other hosts.
#[derive(Clone, Debug)]
struct Spreading {
    /// `None`: the content is public.
    repository: Option<RepositoryId>,
    known: Arc<KnownHashes>,
    /// Receives the hosts that ask for hashes.
    askers: mpsc::Sender<PeerId>,
}

/// The state of the fleet, as this host sees it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FleetStatus {
    /// The id of this host.
    pub peer_id: String,
    /// The addresses of this host.
    pub addresses: Vec<String>,
    /// The region of this host; `None` if it has none.
    pub region: Option<String>,
    /// Hosts that this one knows.
    pub known_hosts: usize,
    /// Hosts that this one is connected to.
    pub connections: usize,
    /// Blobs that this host coordinates.
    pub coordinated_blobs: usize,
    /// Bytes of blobs that other hosts sent.
    pub received_bytes: u64,
    /// Bytes of blobs that this host sent to others, over Bitswap.
    pub sent_bytes: u64,
    /// Bytes that were received twice.
    pub duplicate_bytes: u64,
}

/// The blocks of the store, for other hosts.
struct StoredBlocks(Arc<Blobs>);

impl ReadBlocks for StoredBlocks {
    fn get(
        &self,
        cid: &Cid,
    ) -> Result<Option<watchfire_content::Block>, watchfire_store::StoreError> {
        let Some(hash) = hash_of(cid) else { return Ok(None) };
        Ok(self.0.block(&hash).unwrap_or_else(|error| {
            tracing::warn!(%cid, %error, "cannot read a block for another host");
            None
        }))
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        self.0.block_len(&hash_of(cid)?)
    }
}

impl Fleet {
    /// Joins the fleet.
    pub(crate) async fn start(
        settings: FleetSettings,
        upstreams: Vec<Arc<Upstream>>,
        blobs: Arc<Blobs>,
        manifests: Manifests,
        manifest_fetcher: Arc<ManifestFetcher>,
        catalog: Arc<Catalog>,
        files: Arc<Files>,
    ) -> Result<Arc<Self>, watchfire_p2p::StartError> {
        let host = HostSettings {
            listen: vec![multiaddr(settings.listen)],
            bootstrap: settings.join.iter().copied().map(multiaddr).collect(),
            local_discovery: settings.mdns,
            network_key: Some(match &settings.region {
                Some(region) => region.network_key(&settings.key),
                None => settings.key,
            }),
            identity: settings.identity,
            dht: Dht::Server,
            dht_protocol: DHT_PROTOCOL.to_owned(),
            requests: Some(RequestSettings {
                protocol: PROTOCOL.to_owned(),
                request_bytes_max: message::REQUEST_BYTES_MAX,
                response_bytes_max: message::RESPONSE_BYTES_MAX,
                timeout: REQUEST_TIMEOUT,
            }),
            limits: HostLimits {
                connections_max: CONNECTIONS_MAX,
                handshakes_max: HANDSHAKES_MAX,
                ..HostLimits::default()
            },
            // The coordinator names the hosts that have blocks.
            searches_providers: false,
            exchange: watchfire_bitswap::Limits {
                block_bytes_estimate: crate::store::BLOCK_BYTES,
                ..watchfire_bitswap::Limits::default()
            },
            ..HostSettings::default()
        };
        let stores = Stores::new(vec![Arc::new(StoredBlocks(blobs.clone()))]);
        // Blocks go into the blobs, so the host's own store is empty.
        let own = Arc::new(LockedMemoryStore::new(0));
        let host = Arc::new(Host::start(host, stores, own).await?);
        let mut seed = [0; 8];
        seed.copy_from_slice(&host.peer_id().to_bytes()[2..10]);
        let leases = settings.leases_per_blob;
        let fleet = Arc::new(Fleet {
            lookup: Lookup::new(host.clone()),
            coordinator: Mutex::new(Coordinator::new(leases, u64::from_be_bytes(seed))),
            reported: Notify::new(),
            contacts: Mutex::default(),
            credentials: Credentials::new(upstreams),
            announcements: Announcements::default(),
            downloads: Mutex::default(),
            urgent: Mutex::default(),
            blobs,
            manifests,
            manifest_fetcher,
            catalog,
            files,
            started_at: Instant::now(),
            peer_bytes: AtomicU64::new(0),
            region: settings.region,
            lag: Arc::default(),
            tasks: Mutex::default(),
            host,
        });
        let mut tasks = fleet.tasks.lock();
        tasks.spawn(answers::answer_all(fleet.clone()));
        tasks.spawn(announcements::announce_all(fleet.clone()));
        let (lag, measured) = (fleet.lag.clone(), fleet.host.clone());
        tasks.spawn(async move { lag.measure(&measured).await });
        for name in settings.join_dns {
            tasks.spawn(join_names(fleet.host.clone(), name));
        }
        drop(tasks);
        Ok(fleet)
    }

    /// Leaves the fleet.
    pub(crate) async fn stop(&self) {
        self.tasks.lock().abort_all();
        self.host.stop().await;
    }

    /// The state of the fleet.
    pub(crate) async fn status(&self) -> FleetStatus {
        let stats = self.host.stats().await.unwrap_or_default();
        FleetStatus {
            peer_id: self.host.peer_id().to_string(),
            addresses: self.host.addresses().iter().map(ToString::to_string).collect(),
            region: self.region.as_ref().map(Region::to_string),
            known_hosts: self.lookup.known().await,
            connections: stats.connections,
            coordinated_blobs: self.coordinator.lock().blobs(),
            received_bytes: self.peer_bytes.load(Ordering::Relaxed),
            sent_bytes: stats.sent_block_bytes,
            duplicate_bytes: stats.duplicate_block_bytes,
        }
    }

    /// A timeout with the time that this host is late.
    pub(crate) fn extend(&self, timeout: Duration) -> Duration {
        self.lag.extend(timeout)
    }

    /// The addresses of another host, as far as they are known.
    pub(crate) fn addresses_of(&self, id: PeerId) -> Vec<String> {
        let contacts = self.contacts.lock();
        contacts.get(&id).into_iter().flatten().map(ToString::to_string).collect()
    }

    /// Makes the hashes of a download known to other hosts.
    pub(crate) fn add_download(
        &self,
        digest: &Digest,
        repository: Option<RepositoryId>,
        known: Arc<KnownHashes>,
        askers: mpsc::Sender<PeerId>,
    ) {
        self.downloads.lock().insert(digest.clone(), Spreading { repository, known, askers });
    }

    /// The download has ended.
    pub(crate) fn remove_download(&self, digest: &Digest) {
        self.downloads.lock().remove(digest);
        self.urgent.lock().remove(digest);
    }

    /// Opens a session for the blocks of one blob.
    pub(crate) async fn open_session(&self) -> Result<BlockSession, FleetError> {
        self.host.open_session().await.map_err(|_| FleetError::Stopped)
    }

    /// Requests these blocks of a blob before all others.
    pub(crate) async fn set_urgent(&self, digest: &Digest, cids: Vec<Cid>) {
        let all = {
            let mut urgent = self.urgent.lock();
            if urgent.get(digest).is_some_and(|before| *before == cids) {
                return;
            }
            urgent.insert(digest.clone(), cids);
            urgent.values().flatten().cloned().collect()
        };
        // It fails only while the mirror stops.
        let _ = self.host.set_urgent(all).await;
    }

    /// A block was written: hosts that wait for it get it.
    pub(crate) async fn note_stored(&self, cid: Cid, bytes: usize) {
        // It fails only while the mirror stops.
        let _ = self.host.notify_block_stored(cid, bytes).await;
    }

    /// Another host sent bytes of a blob.
    pub(crate) fn count_received(&self, bytes: usize) {
        self.peer_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A number that differs from those of other downloads.
    pub(crate) fn new_list(&self) -> u64 {
        self.started_at.elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 32
    }

    /// Reports a download to the coordinator of the blob.
    pub(crate) async fn report(
        &self,
        digest: &Digest,
        report: &Report,
    ) -> Result<Assignment<PeerId>, FleetError> {
        let addresses = self.addresses();
        let request = |is_final| Request::Report {
            digest: digest.clone(),
            report: Report { lag_ms: self.lag.get().as_millis() as u64, ..report.clone() },
            addresses: addresses.clone(),
            is_final,
        };
        match self.ask_coordinator(&digest.to_string(), request).await? {
            (Response::Assignment { leases, hosts, holder, progress, report_within_ms }, _) => {
                let hosts = hosts.into_iter().map(|host| self.note_contact(host)).collect();
                let holder = holder.map(|host| self.note_contact(host));
                let report_within = Duration::from_millis(report_within_ms.min(60_000));
                Ok(Assignment { leases, hosts, holder, progress, report_within })
            }
            _ => Err(FleetError::Answer),
        }
    }

    /// Tells the coordinator that this host fetches a blob no more.
    pub(crate) async fn leave(&self, digest: &Digest) {
        let request = |_| Request::Leave { digest: digest.clone() };
        // Without it, the coordinator notices the silence.
        let _ = self.ask_coordinator(&digest.to_string(), request).await;
    }

    /// Asks a host for the hashes of a blob's blocks.
    pub(crate) async fn ask_hashes(
        &self,
        peer: PeerId,
        digest: &Digest,
        repository: Option<&RepositoryId>,
        list: u64,
        after: usize,
    ) -> Result<Option<(u64, Vec<(u32, [u8; 32])>)>, FleetError> {
        let access = self.prove(peer, &digest.to_string(), repository).await;
        let request = Request::Hashes { digest: digest.clone(), list, after, access };
        match self.ask(peer, &request, REQUEST_TIMEOUT).await? {
            (Response::Hashes { list, hashes }, _) => {
                let hashes = hashes.into_iter().map(|hash| (hash.0, hash.1));
                Ok(Some((list, hashes.collect())))
            }
            (Response::Absent, _) => Ok(None),
            _ => Err(FleetError::Answer),
        }
    }

    /// Asks a host for a whole small blob. The caller verifies it.
    pub(crate) async fn ask_blob(
        &self,
        peer: PeerId,
        digest: &Digest,
        repository: Option<&RepositoryId>,
        timeout: Duration,
    ) -> Result<Option<Bytes>, FleetError> {
        let access = self.prove(peer, &digest.to_string(), repository).await;
        let request = Request::Blob { digest: digest.clone(), access };
        match self.ask(peer, &request, timeout).await? {
            (Response::Blob, body) => Ok(Some(body)),
            (Response::Absent, _) => Ok(None),
            _ => Err(FleetError::Answer),
        }
    }

    /// Asks the fleet for a manifest, and how long ago its registry named it.
    pub(crate) async fn find_manifest(
        &self,
        id: &RepositoryId,
        reference: &Reference,
        accept: &str,
    ) -> Option<(Manifest, Duration)> {
        let key = match reference {
            Reference::Tag(tag) => tag_key(&id.registry, id.repository.as_str(), tag.as_str()),
            Reference::Digest(digest) => digest.clone(),
        };
        let request = |is_final| Request::Holders { digest: key.clone(), is_final };
        let asked = self.ask_coordinator(&key.to_string(), request).await;
        let Ok((Response::Holders { hosts }, _)) = asked else { return None };
        for host in hosts {
            let peer = self.note_contact(host);
            let found = self.ask_manifest(peer, id, reference, accept, false).await;
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// A manifest through the host that is closest to its digest, which fetches it once for all. `None`:
    /// it is this host, or that one has no manifest in time.
    pub(crate) async fn fetch_manifest(
        &self,
        id: &RepositoryId,
        digest: &Digest,
    ) -> Option<(Manifest, Duration)> {
        let closest = self.lookup.closest(&digest.to_string(), 1).await;
        let peer = closest.first().copied().filter(|peer| *peer != self.host.peer_id())?;
        self.ask_manifest(peer, id, &Reference::Digest(digest.clone()), "", true).await
    }

    /// Asks a host for a manifest. `accept` is what the client accepts, which matters for a tag.
    async fn ask_manifest(
        &self,
        peer: PeerId,
        id: &RepositoryId,
        reference: &Reference,
        accept: &str,
        fetches: bool,
    ) -> Option<(Manifest, Duration)> {
        let name = format!("{}/{}:{reference}", id.registry, id.repository);
        let access = self.prove(peer, &name, Some(id)).await;
        let request = Request::Manifest {
            registry: id.registry.clone(),
            repository: id.repository.to_string(),
            reference: reference.to_string(),
            accept: accept.to_owned(),
            fetches,
            access,
        };
        let answer = self.ask(peer, &request, self.extend(COORDINATOR_TIMEOUT)).await;
        let Ok((Response::Manifest { digest, media_type, age_seconds }, bytes)) = answer else {
            return None;
        };
        let digest = digest.parse::<Digest>().ok().filter(|digest| digest.is_of(&bytes))?;
        let is_asked = match reference {
            Reference::Tag(_) => true,
            Reference::Digest(asked) => *asked == digest,
        };
        let age = Duration::from_secs(age_seconds);
        is_asked.then_some((Manifest { digest, media_type, bytes }, age))
    }

    /// Asks the fleet for the version of a file that a host got from its server most recently.
    pub(crate) async fn find_version(&self, url: &str) -> Option<Version> {
        let key = url_key(url);
        let request = |is_final| Request::Holders { digest: key.clone(), is_final };
        let asked = self.ask_coordinator(&key.to_string(), request).await;
        let Ok((Response::Holders { hosts }, _)) = asked else { return None };
        let mut found: Option<Version> = None;
        for host in hosts {
            let peer = self.note_contact(host);
            let request = Request::File { url: url.to_owned() };
            let answer = self.ask(peer, &request, COORDINATOR_TIMEOUT).await;
            if let Ok((Response::File { version, age_seconds }, _)) = answer
                && version.url == url
                && version.is_valid()
            {
                let version = version.checked_before(Duration::from_secs(age_seconds));
                if found.as_ref().is_none_or(|other| other.checked_at < version.checked_at) {
                    found = Some(version);
                }
            }
        }
        found
    }

    /// Announces that this host has a blob or manifest, the manifest of a tag, or a file.
    pub(crate) fn announce(&self, key: &Digest) {
        self.announcements.add(key.to_string());
    }

    async fn prove(
        &self,
        to: PeerId,
        name: &str,
        repository: Option<&RepositoryId>,
    ) -> Option<message::AccessProof> {
        let repository = repository?;
        self.credentials.prove(self.host.peer_id(), to, name, repository).await
    }

    fn addresses(&self) -> Vec<Multiaddr> {
        let mut addresses = self.host.addresses();
        for address in &mut addresses {
            // The id is sent beside them.
            address.pop();
        }
        addresses
    }

    /// Keeps the addresses of a host.
    fn note_contact(&self, contact: Contact) -> PeerId {
        let mut contacts = self.contacts.lock();
        if contacts.len() >= CONTACTS_MAX {
            contacts.clear();
        }
        contacts.insert(contact.id, contact.addresses);
        contact.id
    }

    fn contact(&self, id: PeerId) -> Contact {
        let addresses = match id == self.host.peer_id() {
            true => self.addresses(),
            false => self.contacts.lock().get(&id).cloned().unwrap_or_default(),
        };
        Contact { id, addresses }
    }

    /// Sends a request to the coordinator of a key. If it does not answer, the next closest host
    /// coordinates.
    async fn ask_coordinator(
        &self,
        key: &str,
        request: impl Fn(bool) -> Request,
    ) -> Result<(Response, Bytes), FleetError> {
        let own = self.host.peer_id();
        let mut error = FleetError::Stopped;
        let mut target = None;
        let mut is_final = false;
        for _ in 0..COORDINATORS_MAX {
            let peer = match target.take() {
                Some(peer) => peer,
                None => self.lookup.closest(key, 1).await.first().copied().unwrap_or(own),
            };
            match self.ask(peer, &request(is_final || peer == own), COORDINATOR_TIMEOUT).await {
                Ok((Response::Closer { hosts }, _)) => {
                    let closer = hosts
                        .into_iter()
                        .filter(|host| Lookup::is_closer(key, host.id, peer))
                        .find(|host| !self.lookup.has_failed(host.id));
                    is_final = closer.is_none();
                    target = Some(closer.map_or(peer, |host| self.note_contact(host)));
                }
                Ok(answer) => return Ok(answer),
                Err(failed) => {
                    tracing::debug!(%peer, error = %failed, "a coordinator does not answer");
                    error = failed;
                }
            }
        }
        Err(error)
    }

    /// Sends a request to a host.
    async fn ask(
        &self,
        peer: PeerId,
        request: &Request,
        timeout: Duration,
    ) -> Result<(Response, Bytes), FleetError> {
        if peer == self.host.peer_id() {
            return Ok(answers::answer(self, peer, request.clone()).await);
        }
        let timeout = self.lag.extend(timeout);
        let sent = async {
            let contact = self.contacts.lock().get(&peer).cloned();
            let bytes = encode(request, b"");
            match self.host.request(peer, bytes.clone()).await {
                Err(_) if contact.is_some() => {
                    // The address may be unknown to the host.
                    for address in contact.into_iter().flatten() {
                        let address = address.with(AddressPart::P2p(peer));
                        if self.host.connect(address).await.is_ok() {
                            break;
                        }
                    }
                    self.host.request(peer, bytes).await
                }
                answer => answer,
            }
        };
        let asked_at = Instant::now();
        let answer = tokio::time::timeout(timeout, sent).await;
        if request.is_answered_at_once() {
            self.lag.note_round_trip(asked_at.elapsed());
        }
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                self.lookup.note_failed(peer);
                return Err(error.into());
            }
            Err(_) => {
                self.lookup.note_failed(peer);
                return Err(FleetError::Timeout(timeout));
            }
        };
        self.lookup.note_answered(peer);
        decode(&answer).map_err(|error| {
            tracing::debug!(%peer, %error, "an invalid answer");
            FleetError::Answer
        })
    }

    fn now(&self) -> watchfire_types::Instant {
        let nanos = self.started_at.elapsed().as_nanos();
        watchfire_types::Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn multiaddr(address: SocketAddr) -> Multiaddr {
    Multiaddr::from(address.ip()).with(AddressPart::Tcp(address.port()))
}

/// Connects to the hosts of a name again and again.
async fn join_names(host: Arc<Host>, name: String) {
    loop {
        match tokio::net::lookup_host(&name).await {
            Ok(addresses) => {
                for address in addresses {
                    // A host may be gone, or be this one.
                    if let Err(error) = host.connect(multiaddr(address)).await {
                        tracing::debug!(name, %address, %error, "cannot connect to a host");
                    }
                }
            }
            Err(error) => tracing::warn!(name, %error, "cannot look up the hosts of the fleet"),
        }
        tokio::time::sleep(DNS_INTERVAL).await;
    }
}
