//! Starts a mirror.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::download::Downloads;
use crate::fleet::{Fleet, FleetStatus, HostStores};
use crate::http::{self, Shared};
use crate::images::{Access, Catalog, ManifestFetcher};
use crate::ipfs::Ipfs;
use crate::proxy::{Files, Origin};
use crate::settings::MirrorSettings;
use crate::status::Requests;
use crate::store::{Blobs, Folder, Manifests, StoreError};
use crate::upstream::{
    CredentialFiles, CredentialsError, RedirectRules, Upstream, UpstreamError, tls,
};

/// How often to look for blobs that containerd has too.
const COPIES_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "cannot start the mirror: no upstream registry; name one with --upstream docker.io, a server of files with --proxy-host, or use --ipfs"
    )]
    NoUpstream,
    #[error(
        "cannot start the mirror: the registry {name} is named twice; keep one --upstream of it"
    )]
    SameName { name: String },
    #[error("cannot start the mirror: the host {name} is named twice; keep one --proxy-host of it")]
    SameProxyHost { name: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error("cannot set up TLS: {0}")]
    Tls(rustls::Error),
    #[error("cannot join the fleet: {0}; check --peer-listen")]
    Fleet(watchfire_p2p::StartError),
    #[error("cannot serve IPFS peers: {0}; check --set p2p.listen")]
    Ipfs(watchfire_p2p::StartError),
    #[error("cannot listen on {address}: {error}; choose another --listen")]
    Listen { address: SocketAddr, error: io::Error },
}

impl From<watchfire_p2p::StartError> for StartError {
    fn from(cause: watchfire_p2p::StartError) -> Self {
        StartError::Fleet(cause)
    }
}

impl From<rustls::Error> for StartError {
    fn from(cause: rustls::Error) -> Self {
        StartError::Tls(cause)
    }
}

#[derive(Debug)]
pub struct Mirror {
    settings: MirrorSettings,
}

/// A mirror that serves. It stops when it is dropped.
#[derive(Debug)]
pub struct RunningMirror {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Mirror {
    pub const fn new(settings: MirrorSettings) -> Self {
        Mirror { settings }
    }

    pub async fn start(self) -> Result<RunningMirror, StartError> {
        let settings = self.settings;
        let has_source = settings.ipfs.is_some() || !settings.proxy_hosts.is_empty();
        if settings.upstreams.is_empty() && !has_source {
            return Err(StartError::NoUpstream);
        }
        let folder = Folder::open(&settings.store)?;
        let folder = folder.with_containerd(settings.containerd_blobs.clone());
        let blobs = Arc::new(Blobs::open(folder.clone(), settings.store_bytes_max)?);
        let catalog = Arc::new(Catalog::open(&folder)?);
        let files = Arc::new(Files::open(&folder, settings.store_bytes_max)?);
        let upstreams = upstreams(&settings).await?;
        let origins = origins(&settings)?;
        let connections = settings.connections_per_blob;
        let address = settings.listen;
        let failed = |error| StartError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let manifests = Manifests::new(folder.clone(), blobs.clone());
        let manifest_fetcher =
            Arc::new(ManifestFetcher::new(upstreams.clone(), manifests.clone(), catalog.clone()));
        let stores = (blobs.clone(), manifests.clone());
        let ipfs = start_ipfs(&settings, &upstreams, stores, catalog.clone()).await?;
        let (ttl, offline_ok) = (settings.access_ttl, settings.offline_ok);
        let access = Arc::new(Access::new(catalog.clone(), ttl, offline_ok));
        let fleet = match settings.fleet.clone() {
            Some(fleet) => {
                let blobs_to_index = blobs.clone();
                tokio::task::spawn_blocking(move || blobs_to_index.index_all());
                let stores = HostStores {
                    blobs: blobs.clone(),
                    manifests: manifests.clone(),
                    catalog: catalog.clone(),
                    files: files.clone(),
                    ipfs: ipfs.clone(),
                };
                let (upstreams, fetcher) = (upstreams.clone(), manifest_fetcher.clone());
                Some(Fleet::start(fleet, upstreams, stores, fetcher, access.clone()).await?)
            }
            None => None,
        };
        let rescue = ipfs.clone().filter(|_| settings.offline_ok);
        let shared = Arc::new(Shared {
            upstreams,
            origins,
            files,
            manifests,
            manifest_fetcher,
            questions: Arc::default(),
            access,
            downloads: Arc::new(Downloads::new(
                folder,
                blobs,
                catalog.clone(),
                connections,
                fleet.clone(),
                rescue,
            )),
            catalog,
            fleet,
            ipfs,
            requests: Requests::default(),
            started_at: Instant::now(),
            settings,
        });
        if shared.settings.containerd_blobs.is_some() {
            // It ends with the store.
            tokio::spawn(remove_copies(Arc::downgrade(shared.downloads.blobs())));
        }
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(http::serve(listener, shared.clone(), stopped));
        Ok(RunningMirror { address, shared, stop, server })
    }
}

impl RunningMirror {
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn fleet(&self) -> Option<FleetStatus> {
        match &self.shared.fleet {
            Some(fleet) => Some(fleet.status().await),
            None => None,
        }
    }

    /// The addresses at which IPFS peers reach this mirror, if it serves them.
    pub fn ipfs_addresses(&self) -> Option<Vec<String>> {
        self.shared.ipfs.as_ref().map(|ipfs| ipfs.addresses())
    }

    /// Stops to accept, and waits for the requests that are being answered.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // It fails only if the task panicked, which has been reported.
        let _ = self.server.await;
        if let Some(fleet) = &self.shared.fleet {
            fleet.stop().await;
        }
        if let Some(ipfs) = &self.shared.ipfs {
            ipfs.stop().await;
        }
    }
}

/// Removes from time to time what containerd has too.
async fn remove_copies(blobs: Weak<Blobs>) {
    while let Some(blobs) = blobs.upgrade() {
        let removed =
            tokio::task::spawn_blocking(move || blobs.remove_copies_of_containerd()).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, "cannot remove the blobs that containerd has too");
        }
        tokio::time::sleep(COPIES_INTERVAL).await;
    }
}

async fn upstreams(settings: &MirrorSettings) -> Result<Vec<Arc<Upstream>>, StartError> {
    let credentials = CredentialFiles { files: settings.credentials.clone() };
    credentials.check().await?;
    let redirects = Arc::new(RedirectRules { allowed: settings.redirect_networks.clone() });
    let tls = tls()?;
    let mut upstreams: Vec<Arc<Upstream>> = Vec::new();
    for registry in &settings.upstreams {
        if upstreams.iter().any(|other| other.registry().name() == registry.name()) {
            return Err(StartError::SameName { name: registry.name().to_owned() });
        }
        let (credentials, redirects) = (credentials.clone(), redirects.clone());
        let upstream = Upstream::new(registry.clone(), credentials, redirects, tls.clone())?;
        upstreams.push(Arc::new(upstream));
    }
    Ok(upstreams)
}

async fn start_ipfs(
    settings: &MirrorSettings,
    upstreams: &[Arc<Upstream>],
    stores: (Arc<Blobs>, Manifests),
    catalog: Arc<Catalog>,
) -> Result<Option<Arc<Ipfs>>, StartError> {
    let Some(host) = settings.ipfs.clone() else { return Ok(None) };
    let anonymous = MirrorSettings { credentials: Vec::new(), ..settings.clone() };
    let anonymous = self::upstreams(&anonymous).await?;
    let both = upstreams.iter().cloned().zip(anonymous).collect();
    let started = Ipfs::start(host, stores, catalog, both).await;
    started.map(Some).map_err(StartError::Ipfs)
}

fn origins(settings: &MirrorSettings) -> Result<Vec<Arc<Origin>>, StartError> {
    if settings.proxy_hosts.is_empty() {
        return Ok(Vec::new());
    }
    let redirects = Arc::new(RedirectRules { allowed: settings.redirect_networks.clone() });
    let tls = tls()?;
    let mut origins: Vec<Arc<Origin>> = Vec::new();
    for host in &settings.proxy_hosts {
        let origin = Origin::new(host, redirects.clone(), tls.clone())?;
        if origins.iter().any(|other| other.name() == origin.name()) {
            return Err(StartError::SameProxyHost { name: origin.name().to_owned() });
        }
        origins.push(Arc::new(origin));
    }
    Ok(origins)
}
