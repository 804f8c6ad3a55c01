//! The fleet: the mirrors of many hosts, which fetch each blob once and give its blocks to each other
//! while they are still fetching it themselves. This is the part of one host.
//!
//! **Without it**, each of 200 hosts fetches each layer from the registry, and its uplink is the limit. If hosts
//! passed on only whole layers, each generation would wait for the one before: 1 GiB takes 9 s on links of
//! 1 Gbit/s, 200 hosts are eight generations, and the last host has the layer after 69 s. Block by block, a host
//! sends on the first of its 1,024 blocks after 9 ms.
//!
//! A registry names only the digest of a whole layer, so nobody knows the hashes of its blocks before some host
//! has fetched them. Therefore a host does this for a layer (`download/spread.rs`):
//!
//! 1. It finds the coordinator in its own table: the host whose hashed id is closest to the hashed digest
//!    ([`lookup`]). A host that knows a closer one answers with its address. When a coordinator does not answer
//!    within 1.5 s (4 s if it has answered lately), the next closest host coordinates; up to ten are asked in turn
//!    ([`questions`]). A host that has answered lately and is late for any other request still gets the reports.
//! 2. It reports what it has, and gets leases and the names of other hosts ([`watchfire_fleet::Coordinator`]).
//! 3. It asks eight of these hosts for the hashes that they know, with requests that wait up to 5 s for news, and
//!    asks back the hosts that ask it, sixteen in all ([`hashes`]). A host knows a hash before it has the block.
//! 4. It requests the blocks over Bitswap, rarest first, and verifies each by its hash. At the same time it
//!    fetches its leased segments from the registry, without the blocks whose hashes it learns meanwhile.
//! 5. When it has all blocks, it announces the blob to the three closest hosts, and again every four minutes.
//!
//! While a container starts from a blob, a host requests and leases only the blocks that the start reads, and those
//! of the order that another host recorded (`store/start_order.rs`); the rest follows (`download/start.rs`). The order comes
//! with the first hashes.
//!
//! The next layers of an image are fetched before a client asks for them (`download/ahead.rs`).
//!
//! A blob of one block is sent as a whole. A holder that does not send it is not named to the same host again; when
//! no other holder is left, that host gets the lease. A host that is asked for a blob which it has no more tells the
//! coordinator. When nothing arrives at any host for 2 s (10 s while this host receives other blobs), or the asked hosts
//! have nothing, a host may fetch segments that others have; after 30 s it fetches the blob alone. When no new block and
//! no part of any block arrives for a second, or no new block for 10 s, a host also fetches the blocks of its segments
//! that other hosts should send. When the registry sends nothing for 3 s, it takes no lease for 10 s, so that another
//! host tries.
//!
//! Hosts believe each other only in part. All have the key of the fleet's private network. A wrong hash costs a
//! download, not a wrong image: a blob is complete only when its own digest is right, and otherwise this host
//! fetches it alone. A host gives content only to hosts that could pull it themselves ([`access`]). The host that is
//! closest to a blob asks the registry, for all hosts, whether a repository has the blob; they believe its answer.
//!
//! Other regions are fleets of their own. [`links`] says when this region takes a blob from one of them.
//!
//! The bounds: 4,096 connections, 1,024 requests of other hosts that are answered at a time (further ones fail),
//! the addresses of 50,000 hosts, requests of 1 MiB and answers of 5 MiB.

mod access;
mod announcements;
mod answers;
mod hashes;
mod lag;
mod links;
mod lookup;
mod message;
mod questions;
mod region;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use watchfire_content::Cid;
use watchfire_fleet::Coordinator;
use watchfire_p2p::{
    AddressPart, BlockSession, Dht, Host, HostLimits, HostSettings, Multiaddr, PeerId,
    RequestSettings,
};
use watchfire_store::{LockedMemoryStore, ReadBlocks, Stores};

pub(crate) use access::tag_key;
pub(crate) use hashes::KnownHashes;
pub(crate) use links::{LinkedRegion, RegionContent, RegionCopy};
pub use links::{RegionLink, RegionLinkError, RegionStatus};
pub use region::{Region, RegionError};

use crate::images::{Access, Catalog, ManifestFetcher, RepositoryId};
use crate::ipfs::Ipfs;
use crate::oci::Digest;
use crate::proxy::Files;
use crate::store::{Blobs, Manifests, hash_of};
use crate::upstream::Upstream;
use access::Credentials;
use announcements::Announcements;
use lag::Lag;
use lookup::Lookup;
use message::Contact;

/// Connections with other hosts. All hosts that fetch a blob report to one host, so a fleet that starts
/// together needs a connection for each host there.
const CONNECTIONS_MAX: u32 = 4096;
/// Handshakes in each direction at a time. Further ones are rejected, and tried again.
const HANDSHAKES_MAX: u32 = 256;
/// It counts up when hosts of two versions would not understand each other: then they are two fleets.
const PROTOCOL: &str = "/watchfire/mirror/1.1.0";
const DHT_PROTOCOL: &str = "/watchfire/mirror/kad/1.1.0";
/// How long a request may take, with the time that its receiver waits for news.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a coordinator may take. After it the next closest host coordinates.
const COORDINATOR_TIMEOUT: Duration = Duration::from_millis(1500);
/// Requests of other hosts that are answered at a time. Further ones fail.
const ANSWERS_MAX: usize = 1_024;
/// Hosts whose addresses are kept. When the limit is reached, all are forgotten; the next reports name
/// them again.
const CONTACTS_MAX: usize = 50_000;
/// How often the addresses of `join_dns` are looked up.
const DNS_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct FleetSettings {
    /// The address on which other hosts reach this one.
    pub listen: SocketAddr,
    pub join: Vec<SocketAddr>,
    /// Names with a port, whose addresses are hosts of the fleet.
    pub join_dns: Vec<String>,
    /// Whether to find hosts of the local network by mDNS.
    pub mdns: bool,
    /// The key of the fleet's private network.
    pub key: [u8; 32],
    /// The key that `key` replaces, while hosts of the fleet still have it.
    pub key_before: Option<[u8; 32]>,
    /// The region of this host. Hosts of other regions are not a part of its fleet. `None`: the hosts
    /// without a region are one fleet.
    pub region: Option<Region>,
    /// Hosts of other regions, from which this region takes blobs.
    pub links: Vec<RegionLink>,
    /// The price of what a registry sends. Only links with a lower price are used.
    pub registry_price: f64,
    /// The file of the host's key pair, which is created at the first start.
    pub identity: Option<PathBuf>,
    /// Segments of one blob that all hosts together fetch from the registry at a time.
    pub leases_per_blob: usize,
}

impl FleetSettings {
    /// The settings of a libp2p host in the network of a region.
    fn host(&self, region: Option<&Region>) -> HostSettings {
        let in_region = |key: &[u8; 32]| region.map_or(*key, |region| region.network_key(key));
        HostSettings {
            listen: vec![multiaddr(self.listen)],
            bootstrap: self.join.iter().copied().map(multiaddr).collect(),
            local_discovery: self.mdns,
            network_key: Some(in_region(&self.key)),
            network_key_before: self.key_before.as_ref().map(in_region),
            identity: self.identity.clone(),
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
        }
    }
}

/// Why a request to another host failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum FleetError {
    #[error(transparent)]
    Request(#[from] watchfire_p2p::RequestError),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("an answer of another kind, or an invalid one")]
    Answer,
    #[error("none of its addresses can be reached; check --region-link")]
    Unreachable,
    #[error("the mirror is stopping")]
    Stopped,
}

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
    downloads: Mutex<HashMap<Digest, Spreading>>,
    urgent: Mutex<HashMap<Digest, Vec<Cid>>>,
    blobs: Arc<Blobs>,
    manifests: Manifests,
    manifest_fetcher: Arc<ManifestFetcher>,
    catalog: Arc<Catalog>,
    access: Arc<Access>,
    files: Arc<Files>,
    ipfs: Option<Arc<Ipfs>>,
    started_at: Instant,
    peer_bytes: AtomicU64,
    region: Option<Region>,
    /// The cheapest is the first.
    links: Vec<Arc<LinkedRegion>>,
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

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FleetStatus {
    pub peer_id: String,
    pub addresses: Vec<String>,
    /// The region of this host; `None` if it has none.
    pub region: Option<String>,
    /// The linked regions that are cheaper than the registry.
    #[serde(default)]
    pub regions: Vec<RegionStatus>,
    pub known_hosts: usize,
    pub connections: usize,
    pub coordinated_blobs: usize,
    /// Bytes of blobs that other hosts sent.
    pub received_bytes: u64,
    /// Bytes of blobs that this host sent to others, over Bitswap.
    pub sent_bytes: u64,
    /// Bytes that were received twice.
    pub duplicate_bytes: u64,
}

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

/// The stores of this host.
pub(crate) struct HostStores {
    pub blobs: Arc<Blobs>,
    pub manifests: Manifests,
    pub catalog: Arc<Catalog>,
    pub files: Arc<Files>,
    pub ipfs: Option<Arc<Ipfs>>,
}

impl Fleet {
    pub(crate) async fn start(
        settings: FleetSettings,
        upstreams: Vec<Arc<Upstream>>,
        stores: HostStores,
        manifest_fetcher: Arc<ManifestFetcher>,
        access: Arc<Access>,
    ) -> Result<Arc<Self>, watchfire_p2p::StartError> {
        if settings.key_before == Some(settings.key) {
            tracing::warn!(
                "--fleet-key and --fleet-key-before have the same key; the new key belongs in --fleet-key"
            );
        }
        let HostStores { blobs, manifests, catalog, files, ipfs } = stores;
        let stores = Stores::new(vec![Arc::new(StoredBlocks(blobs.clone()))]);
        // Blocks go into the blobs, so the host's own store is empty.
        let own = Arc::new(LockedMemoryStore::new(0));
        let host =
            Arc::new(Host::start(settings.host(settings.region.as_ref()), stores, own).await?);
        let links = links::open_links(&settings).await?;
        let mut seed = [0; 8];
        seed.copy_from_slice(&host.peer_id().to_bytes()[2..10]);
        let leases = settings.leases_per_blob;
        let fleet = Arc::new(Fleet {
            lookup: Lookup::new(host.clone()),
            coordinator: Mutex::new(Coordinator::new(leases, u64::from_be_bytes(seed))),
            reported: Notify::new(),
            contacts: Mutex::default(),
            credentials: Credentials::new(upstreams, catalog.clone()),
            announcements: Announcements::default(),
            downloads: Mutex::default(),
            urgent: Mutex::default(),
            blobs,
            manifests,
            manifest_fetcher,
            catalog,
            access,
            files,
            ipfs,
            started_at: Instant::now(),
            peer_bytes: AtomicU64::new(0),
            region: settings.region,
            links,
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

    pub(crate) async fn stop(&self) {
        self.tasks.lock().abort_all();
        self.host.stop().await;
        futures::future::join_all(self.links.iter().map(|region| region.stop())).await;
    }

    pub(crate) async fn status(&self) -> FleetStatus {
        let stats = self.host.stats().await.unwrap_or_default();
        FleetStatus {
            peer_id: self.host.peer_id().to_string(),
            addresses: self.host.addresses().iter().map(ToString::to_string).collect(),
            region: self.region.as_ref().map(Region::to_string),
            regions: self.links.iter().map(|region| region.status()).collect(),
            known_hosts: self.lookup.known().await,
            connections: stats.connections,
            coordinated_blobs: self.coordinator.lock().blobs(),
            received_bytes: self.received_bytes(),
            sent_bytes: stats.sent_block_bytes,
            duplicate_bytes: stats.duplicate_block_bytes,
        }
    }

    /// Bytes of blobs that other hosts sent.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.peer_bytes.load(Ordering::Relaxed)
    }

    /// Grows while other hosts, also of linked regions, send parts of messages.
    pub(crate) fn parts_received(&self) -> u64 {
        let linked = self.links.iter().map(|region| region.parts_received());
        self.host.parts_received() + linked.sum::<u64>()
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

    pub(crate) fn remove_download(&self, digest: &Digest) {
        self.downloads.lock().remove(digest);
        self.urgent.lock().remove(digest);
    }

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

    /// A number that no other download has.
    pub(crate) fn new_list(&self) -> u64 {
        self.started_at.elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 32
    }

    /// Announces that this host has a blob or manifest, the manifest of a tag, or a file.
    pub(crate) fn announce(&self, key: &Digest) {
        self.announcements.add(key.to_string());
    }

    fn addresses(&self) -> Vec<Multiaddr> {
        let mut addresses = self.host.addresses();
        for address in &mut addresses {
            // The id is sent beside them.
            address.pop();
        }
        addresses
    }

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
