//! The settings of a mirror.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use watchfire_p2p::HostSettings;

use crate::fleet::FleetSettings;
use crate::upstream::Registry;

#[derive(Clone, Debug)]
pub struct MirrorSettings {
    /// The address on which container engines reach the mirror.
    pub listen: SocketAddr,
    /// DNS names under which clients reach the mirror. A client on this host that uses another name is
    /// refused, because a web page could have made the name. If there are names, every such client is.
    pub names: Vec<String>,
    /// The registries. A request that names none goes to the first.
    pub upstreams: Vec<Registry>,
    /// The servers of files that are served below `/proxy/`. No other server is asked.
    pub proxy_hosts: Vec<Registry>,
    pub store: PathBuf,
    /// The folder `blobs` of containerd's content store, if its blobs are read in place.
    pub containerd_blobs: Option<PathBuf>,
    /// The size of the store. When it is full, the least recently used blobs are removed.
    pub store_bytes_max: u64,
    /// Files with credentials for the registries.
    pub credentials: Vec<PathBuf>,
    /// Networks that are not public, to which registries may redirect.
    pub redirect_networks: Vec<IpNet>,
    /// How long the manifest of a tag is served without asking the registry again.
    pub tag_ttl: Duration,
    /// How long content is served without asking the registry whether this mirror may still pull it.
    pub access_ttl: Duration,
    /// Whether stored content is served while the registry is down.
    pub offline_ok: bool,
    /// How long a client waits for the first byte. After it the client gets 404, and goes to the
    /// registry itself.
    pub first_byte_timeout: Duration,
    /// How long a client waits for the first byte of a file. It is longer, because no client of files
    /// goes to the server itself; the client gets 504.
    pub file_first_byte_timeout: Duration,
    /// How long a client waits for the next byte. After it the connection is closed.
    pub progress_timeout: Duration,
    /// The requests that fetch one blob at the same time, if the registry sends ranges.
    pub connections_per_blob: usize,
    /// The fleet to join. `None`: this mirror is for one host.
    pub fleet: Option<FleetSettings>,
    /// The libp2p host through which IPFS peers get public blobs by their CIDs. `None`: there is none.
    pub ipfs: Option<HostSettings>,
    /// Client connections. Further ones wait to be accepted.
    pub connections_max: usize,
}

impl Default for MirrorSettings {
    fn default() -> Self {
        MirrorSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 5000)),
            names: Vec::new(),
            upstreams: Vec::new(),
            proxy_hosts: Vec::new(),
            store: PathBuf::from("/var/lib/watchfire/mirror"),
            containerd_blobs: None,
            store_bytes_max: 50 << 30,
            credentials: Vec::new(),
            redirect_networks: Vec::new(),
            tag_ttl: Duration::from_secs(60),
            access_ttl: Duration::from_secs(3600),
            offline_ok: false,
            first_byte_timeout: Duration::from_secs(2),
            file_first_byte_timeout: Duration::from_secs(20),
            progress_timeout: Duration::from_secs(5),
            connections_per_blob: 4,
            fleet: None,
            ipfs: None,
            connections_max: 1000,
        }
    }
}
