//! The thread of the gateway: a libp2p host, and the transfers between it and open pages.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::interval;
use watchfire_content::Cid;
use watchfire_p2p::{Host, HostLimits, HostSettings, SwarmKeyError};
use watchfire_sockets::Adopter;
use watchfire_store::{LockedMemoryStore, Stores};

use super::block_buffer::BlockBuffer;
use super::connector::SocketPairConnector;
use super::host_metrics::HostMetrics;
use super::router::{Direction, GatewayRouter, NewTransfer};
use super::transfer::{PageTransfer, TransferShared};
use crate::pages::{Availability, OwnClientKey};
use crate::settings::{DhtRole, P2pSettings};

/// Roots that content routing is told of; further ones are lit without it.
const PROVIDED_MAX: usize = 1024;
/// Announcements to content routing at once; the others wait.
const PROVIDING_MAX: usize = 16;
/// How often what waits for room is looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(2);

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The host of libp2p does not start.
    #[error(transparent)]
    Host(#[from] watchfire_p2p::StartError),
    /// The key of the private network cannot be had.
    #[error(transparent)]
    SwarmKey(#[from] SwarmKeyError),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A running gateway, which stops when it is dropped.
pub(crate) struct Gateway {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Ready when the host listens. `adopter` lets visits in; `host_metrics` is told how it goes.
    pub fn start(
        settings: &P2pSettings,
        websocket_path: String,
        key: OwnClientKey,
        availability: Arc<Availability>,
        adopter: Adopter,
        host_metrics: HostMetrics,
    ) -> Result<Self, GatewayError> {
        let p2p = settings.clone();
        let settings = host_settings(settings)?;
        let connector = Arc::new(SocketPairConnector { adopter, websocket_path });
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = sync_channel::<Result<(), GatewayError>>(1);
        let thread = thread::Builder::new().name("gateway".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error.into()))),
            };
            runtime.block_on(async move {
                let cache_bytes_max = usize::try_from(p2p.cache_bytes_max).unwrap_or(usize::MAX);
                let buffer = Arc::new(BlockBuffer::new(cache_bytes_max));
                let (router, opened) =
                    GatewayRouter::new(availability.clone(), p2p.pages_max as usize);
                let router = Arc::new(router);
                let stores = Stores::new(vec![buffer.clone()]);
                // What is fetched goes through the buffer, and is kept nowhere else.
                let keep = Arc::new(LockedMemoryStore::new(0));
                let host = Host::start_with_fallback(settings, stores, keep, router.clone()).await;
                let host = match host {
                    Ok(host) => Arc::new(host),
                    Err(error) => return drop(ready.send(Err(error.into()))),
                };
                for address in host.addresses() {
                    tracing::info!(%address, "the gateway listens");
                }
                let shared = TransferShared { host, router, buffer, availability, connector, key };
                let gateway_loop = GatewayLoop {
                    shared: Arc::new(shared),
                    host_metrics,
                    is_providing: p2p.dht != DhtRole::Off,
                    transfers: JoinSet::new(),
                    sought: BTreeSet::new(),
                    available: BTreeMap::new(),
                    providing: JoinSet::new(),
                };
                // Who started us waits for this.
                let _ = ready.send(Ok(()));
                gateway_loop.run(opened, stopped).await;
            });
        })?;
        is_ready.recv().unwrap_or(Err(watchfire_p2p::StartError::Stopped.into()))?;
        Ok(Gateway { stop: Some(stop), thread: Some(thread) })
    }

    /// Stops the gateway. Waits until its thread has ended.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

fn host_settings(settings: &P2pSettings) -> Result<HostSettings, GatewayError> {
    let path = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
    let swarm_key = path(&settings.swarm_key);
    let limits = HostLimits { connections_max: settings.connections_max, ..HostLimits::default() };
    let wants_per_peer_max = settings.wants_per_peer_max as usize;
    let HostSettings { exchange, .. } = HostSettings::default();
    let exchange = watchfire_bitswap::Limits { wants_per_peer_max, ..exchange };
    Ok(HostSettings {
        listen: settings.listen.clone(),
        bootstrap: settings.bootstrap.clone(),
        announce: settings.announce.clone(),
        identity: path(&settings.identity),
        swarm_key: swarm_key.as_deref().map(watchfire_p2p::read_swarm_key).transpose()?,
        dht: settings.dht.into(),
        dht_protocol: settings.dht_protocol.clone(),
        limits,
        exchange,
        ..HostSettings::default()
    })
}

/// Whether content routing knows of a lit page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Provided {
    Not,
    Announced,
}

struct GatewayLoop {
    shared: Arc<TransferShared>,
    host_metrics: HostMetrics,
    is_providing: bool,
    transfers: JoinSet<()>,
    /// Pages that are sought and have no transfer. As many as there are pages.
    sought: BTreeSet<Cid>,
    /// Pages that are held here. As many as there are pages.
    available: BTreeMap<Cid, Provided>,
    providing: JoinSet<()>,
}

impl GatewayLoop {
    async fn run(
        mut self,
        mut opened: mpsc::UnboundedReceiver<NewTransfer>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut sweep = interval(SWEEP_EVERY);
        let shared = self.shared.clone();
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                changed = shared.availability.changes() => {
                    changed.iter().for_each(|page| self.page_changed(page));
                    self.provide();
                }
                Some(opened) = opened.recv() => self.begin(opened),
                Some(_) = self.transfers.join_next() => self.seek(),
                Some(_) = self.providing.join_next() => self.provide(),
                _ = sweep.tick() => {
                    shared.buffer.sweep();
                    self.seek();
                    if let Ok(stats) = shared.host.stats().await {
                        self.host_metrics.set(stats);
                    }
                }
            }
        }
        self.transfers.shutdown().await;
        shared.host.stop().await;
    }

    fn begin(&mut self, opened: NewTransfer) {
        self.transfers.spawn(PageTransfer::new(self.shared.clone(), opened).run());
    }

    fn page_changed(&mut self, page: &str) {
        // Every page was let in by its CID.
        let Ok(root) = page.parse::<Cid>() else { return };
        let available = self.shared.availability.of(page);
        if available.is_available {
            self.available.entry(root.clone()).or_insert(Provided::Not);
            self.shared
                .router
                .page_available(&root)
                .into_iter()
                .for_each(|opened| self.begin(opened));
        } else if self.available.remove(&root) == Some(Provided::Announced) {
            let (host, root) = (self.shared.host.clone(), root.clone());
            self.providing.spawn(async move {
                // A host that has stopped tells nobody anything any more.
                let _ = host.stop_providing(root).await;
            });
        }
        if available.is_watched && !available.is_available {
            self.sought.insert(root);
            self.seek();
        } else {
            self.sought.remove(&root);
        }
    }

    /// Looks elsewhere for what nobody holds here.
    fn seek(&mut self) {
        if !self.shared.router.has_room(Direction::ToBrowsers) {
            return;
        }
        for root in std::mem::take(&mut self.sought) {
            match self.shared.router.open(&root, Direction::ToBrowsers) {
                Some(opened) => self.begin(opened),
                None => drop(self.sought.insert(root)),
            }
        }
    }

    /// Tells content routing of what is lit.
    fn provide(&mut self) {
        if !self.is_providing {
            return;
        }
        let told =
            self.available.values().filter(|provided| **provided == Provided::Announced).count();
        let room = PROVIDED_MAX.saturating_sub(told);
        let turns = PROVIDING_MAX.saturating_sub(self.providing.len());
        let untold = self.available.iter_mut().filter(|(_, provided)| **provided == Provided::Not);
        for (root, provided) in untold.take(room.min(turns)) {
            *provided = Provided::Announced;
            let (host, root) = (self.shared.host.clone(), root.clone());
            self.providing.spawn(async move {
                if let Err(error) = host.provide(root.clone()).await {
                    tracing::debug!(%root, %error, "content routing was not told of a page");
                }
            });
        }
    }
}
