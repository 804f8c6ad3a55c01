//! The thread of the gateway: a libp2p host, and the transfers between it and open pages.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use watchfire_types::VitalThread;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};
use watchfire::internal::OwnClientKey;
use watchfire_content::Cid;
use watchfire_p2p::{Dht, Host, HostLimits, HostSettings, Multiaddr, StartError, SwarmKeyError};
use watchfire_store::{LockedMemoryStore, Stores};

use super::block_buffer::BlockBuffer;
use super::connector::SocketPairConnector;
use super::host_metrics::HostMetrics;
use super::router::{Direction, GatewayRouter, NewTransfer};
use super::transfer::{PageTransfer, TransferShared};
use crate::page::{Availability, Changes, Elsewhere};
use crate::settings::{DhtRole, P2pSettings};

/// Available pages that are announced to content routing. Further pages are not announced.
const PROVIDED_MAX: usize = 1024;
/// Announcements that run at once. The others wait.
const PROVIDING_MAX: usize = 16;
/// How often late blocks, waiting pages and metrics are handled.
const SWEEP_PERIOD: Duration = Duration::from_secs(2);
/// How long a page that a neighbour has is not searched for in libp2p. If nobody here has it by then, the
/// neighbour may not admit guests.
const NEIGHBOURS_WAIT: Duration = Duration::from_secs(20);
/// The same before it is known whether a neighbour has it: a neighbour makes its filter once a second, and is asked
/// for it once a second.
const LOOKUP_WAIT: Duration = Duration::from_millis(2_500);

/// The pause before the gateway tries again to listen on a port that is in use.
const LISTEN_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The peers through which programs of the public network enter its DHT, as in kubo 0.42. All but the
/// second last prove who they are with RSA.
const PUBLIC_DHT_PEERS: [&str; 6] = [
    "/dnsaddr/bootstrap.libp2p.io/p2p/QmNnooDu7bfjPFoTZYxMNLWUQJyrVwtbZg5gBMjTezGAJN",
    "/dnsaddr/bootstrap.libp2p.io/p2p/QmQCU2EcMqAqQPR2i9bChDtGNJchTbq5TbXJJ16u19uLTa",
    "/dnsaddr/bootstrap.libp2p.io/p2p/QmbLHAnMoJPWSCR5Zhtx6BHJX9KiKNN6tpvbUcqanj75Nb",
    "/dnsaddr/bootstrap.libp2p.io/p2p/QmcZf59bWwK5XFi76CZX8cbJ4BhTzzA3gU1ZjYZcYW3dwt",
    "/dnsaddr/va1.bootstrap.libp2p.io/p2p/12D3KooWKnDdG3iXw9eTFijk3EWSunZcFi54Zka4wmtqtt6rPxc8",
    "/ip4/104.131.131.82/tcp/4001/p2p/QmaCpDMGvV2BGHeYERUEnRQAwe3N8SzbUtfsmvsqQLuvuJ",
];

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// An entry of the settings is not an address of libp2p.
    #[error("cannot use {setting} {address:?}: write an address such as \"/ip4/0.0.0.0/tcp/4001\"")]
    Address { setting: &'static str, address: String },
    #[error(transparent)]
    Host(#[from] watchfire_p2p::StartError),
    #[error(transparent)]
    SwarmKey(#[from] SwarmKeyError),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A running gateway, which stops when it is dropped.
pub(crate) struct Gateway {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    addresses: Vec<Multiaddr>,
}

impl Gateway {
    /// Starts the gateway, and returns when the host listens. Its page clients connect with `connector`.
    /// `elsewhere` has the pages that neighbours have, `None` without neighbours. With `retries`, a port that is
    /// in use is waited for in the background: the server that this one replaces releases it soon.
    pub fn start(
        settings: &P2pSettings,
        connector: SocketPairConnector,
        availability: Arc<Availability>,
        elsewhere: Option<Arc<Elsewhere>>,
        host_metrics: HostMetrics,
        retries: bool,
    ) -> Result<Self, GatewayError> {
        let buffer_bytes_max = usize::try_from(settings.cache_bytes_max).unwrap_or(usize::MAX);
        let (router, opened) =
            GatewayRouter::new(availability.clone(), settings.pages_max as usize);
        let start = GatewayStart {
            settings: host_settings(settings)?,
            is_providing: settings.dht != DhtRole::Off,
            router: Arc::new(router),
            buffer: Arc::new(BlockBuffer::new(buffer_bytes_max)),
            changes: availability.changes(),
            availability,
            elsewhere,
            key: connector.key.clone(),
            connector: Arc::new(connector),
            host_metrics,
        };
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = sync_channel(1);
        let thread = thread::Builder::new().name("gateway".to_owned()).spawn(move || {
            let _vital = VitalThread::enter("gateway");
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(start.run(opened, stopped, &ready, retries)),
                Err(error) => drop(ready.send(Err(GatewayError::Thread(error)))),
            }
        });
        let thread = thread.map_err(GatewayError::Thread)?;
        let addresses =
            is_ready.recv().unwrap_or(Err(watchfire_p2p::StartError::Stopped.into()))?;
        Ok(Gateway { stop: Some(stop), thread: Some(thread), addresses })
    }

    /// The listening addresses, each with the peer id at its end. None while the gateway waits for its
    /// port.
    pub fn addresses(&self) -> &[Multiaddr] {
        &self.addresses
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

/// Checks the settings and the files that they name, without starting anything.
pub(crate) fn check(settings: &P2pSettings) -> Result<(), GatewayError> {
    check_addresses(settings)?;
    if settings.is_on() {
        host_settings(settings)?.check()?;
    }
    Ok(())
}

/// Checks the addresses of the settings, also while the gateway is off.
pub(crate) fn check_addresses(settings: &P2pSettings) -> Result<(), GatewayError> {
    addresses("p2p.announce", settings.announce.iter()).map(drop)
}

/// The settings of a libp2p host with these settings of a server.
pub fn host_settings(settings: &P2pSettings) -> Result<HostSettings, GatewayError> {
    let path = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
    let swarm_key = path(&settings.swarm_key);
    let limits = HostLimits { connections_max: settings.connections_max, ..HostLimits::default() };
    let wants_per_peer_max = settings.wants_per_peer_max as usize;
    let HostSettings { exchange, .. } = HostSettings::default();
    let exchange = watchfire_bitswap::Limits { wants_per_peer_max, ..exchange };
    let public = if settings.uses_public_peers() { &PUBLIC_DHT_PEERS[..] } else { &[] };
    Ok(HostSettings {
        listen: addresses("p2p.listen", settings.listen.iter())?,
        bootstrap: addresses("p2p.bootstrap", settings.named_peers())?,
        dht_peers: addresses("p2p.bootstrap", public.iter())?,
        announce: addresses("p2p.announce", settings.announce.iter())?,
        identity: path(&settings.identity),
        swarm_key: swarm_key.as_deref().map(watchfire_p2p::read_swarm_key).transpose()?,
        dht: dht(settings.dht),
        dht_protocol: settings.dht_protocol.clone(),
        limits,
        exchange,
        ..HostSettings::default()
    })
}

struct GatewayStart {
    settings: HostSettings,
    is_providing: bool,
    router: Arc<GatewayRouter>,
    buffer: Arc<BlockBuffer>,
    availability: Arc<Availability>,
    changes: Arc<Changes>,
    elsewhere: Option<Arc<Elsewhere>>,
    connector: Arc<SocketPairConnector>,
    key: OwnClientKey,
    host_metrics: HostMetrics,
}

impl GatewayStart {
    /// Starts the host and runs the gateway until it is stopped. `ready` is told the addresses, or none
    /// while the gateway waits for its port.
    async fn run(
        self,
        opened: mpsc::UnboundedReceiver<NewTransfer>,
        mut stopped: oneshot::Receiver<()>,
        ready: &SyncSender<Result<Vec<Multiaddr>, GatewayError>>,
        retries: bool,
    ) {
        let host = tokio::select! {
            _ = &mut stopped => return,
            host = self.open_host(ready, retries) => host,
        };
        let host = match host {
            Ok(host) => Arc::new(host),
            Err(error) => return drop(ready.try_send(Err(error.into()))),
        };
        let addresses = host.addresses();
        for address in &addresses {
            tracing::info!(%address, "the gateway is listening");
        }
        let GatewayStart { router, buffer, availability, connector, key, .. } = self;
        let shared = TransferShared { host, router, buffer, availability, connector, key };
        let gateway_loop = GatewayLoop {
            shared: Arc::new(shared),
            changes: self.changes,
            elsewhere: self.elsewhere,
            host_metrics: self.host_metrics,
            is_providing: self.is_providing,
            transfers: JoinSet::new(),
            wanted: BTreeMap::new(),
            available: BTreeMap::new(),
            providing: JoinSet::new(),
        };
        // Not read if the start ended while the port was in use.
        let _ = ready.try_send(Ok(addresses));
        gateway_loop.run(opened, stopped).await;
    }

    /// Starts the host. With `retries`, a port that is in use is waited for.
    async fn open_host(
        &self,
        ready: &SyncSender<Result<Vec<Multiaddr>, GatewayError>>,
        retries: bool,
    ) -> Result<Host, StartError> {
        let mut is_waiting = false;
        loop {
            let stores = Stores::new(vec![self.buffer.clone()]);
            // Fetched blocks go into the buffer only, so the host's own store has no room.
            let own_store = Arc::new(LockedMemoryStore::new(0));
            let (settings, fallback) = (self.settings.clone(), self.router.clone());
            match Host::start_with_fallback(settings, stores, own_store, fallback).await {
                Err(error @ StartError::Listen { .. }) if retries => {
                    if !std::mem::replace(&mut is_waiting, true) {
                        tracing::info!(%error, "the gateway waits for its port");
                        let _ = ready.send(Ok(Vec::new()));
                    }
                    tokio::time::sleep(LISTEN_RETRY_PAUSE).await;
                }
                Err(error) => {
                    if is_waiting {
                        tracing::error!(%error, "cannot start the gateway");
                    }
                    return Err(error);
                }
                Ok(host) => return Ok(host),
            }
        }
    }
}

/// Whether an available page was announced to content routing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Provided {
    Not,
    Announced,
}

struct GatewayLoop {
    shared: Arc<TransferShared>,
    changes: Arc<Changes>,
    elsewhere: Option<Arc<Elsewhere>>,
    host_metrics: HostMetrics,
    is_providing: bool,
    transfers: JoinSet<()>,
    /// Watched pages that are unavailable and have no transfer, and since when. At most as many as are open.
    wanted: BTreeMap<Cid, Instant>,
    /// Available pages. At most as many as are open.
    available: BTreeMap<Cid, Provided>,
    providing: JoinSet<()>,
}

impl GatewayLoop {
    async fn run(
        mut self,
        mut opened: mpsc::UnboundedReceiver<NewTransfer>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut sweep = interval(SWEEP_PERIOD);
        let (shared, changes) = (self.shared.clone(), self.changes.clone());
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                changed = changes.next() => {
                    changed.iter().for_each(|page| self.page_changed(page));
                    self.fetch_wanted();
                    self.provide();
                }
                Some(opened) = opened.recv() => self.start_transfer(opened),
                Some(_) = self.transfers.join_next() => self.fetch_wanted(),
                Some(_) = self.providing.join_next() => self.provide(),
                () = sleep(LOOKUP_WAIT), if self.elsewhere.is_some() && !self.wanted.is_empty() => {
                    self.fetch_wanted();
                }
                _ = sweep.tick() => {
                    shared.buffer.sweep();
                    self.fetch_wanted();
                    if let Ok(stats) = shared.host.stats().await {
                        self.host_metrics.set(stats);
                    }
                }
            }
        }
        self.transfers.shutdown().await;
        shared.host.stop().await;
    }

    fn start_transfer(&mut self, opened: NewTransfer) {
        self.transfers.spawn(PageTransfer::new(self.shared.clone(), opened).run());
    }

    fn page_changed(&mut self, page: &str) {
        // The name of every page is a CID.
        let Ok(root) = page.parse::<Cid>() else { return };
        let available = self.shared.availability.of(page);
        if available.is_available {
            self.available.entry(root.clone()).or_insert(Provided::Not);
            if let Some(opened) = self.shared.router.page_available(&root) {
                self.start_transfer(opened);
            }
        } else {
            self.shared.buffer.forget(page);
            if self.available.remove(&root) == Some(Provided::Announced) {
                let (host, root) = (self.shared.host.clone(), root.clone());
                self.providing.spawn(async move {
                    // Fails only when the host has stopped, which ends all announcements.
                    let _ = host.stop_providing(root).await;
                });
            }
        }
        if available.is_watched && !available.is_available {
            self.wanted.entry(root).or_insert_with(Instant::now);
        } else {
            self.wanted.remove(&root);
        }
    }

    /// Opens transfers from libp2p peers for the wanted pages, while there is room.
    fn fetch_wanted(&mut self) {
        if !self.shared.router.has_room(Direction::ToBrowsers) {
            return;
        }
        for (root, since) in std::mem::take(&mut self.wanted) {
            let waited = since.elapsed();
            let is_due = waited >= self.wait_for_neighbours(&root, waited);
            match is_due.then(|| self.shared.router.open(&root, Direction::ToBrowsers)).flatten() {
                Some(opened) => self.start_transfer(opened),
                None => drop(self.wanted.insert(root, since)),
            }
        }
    }

    /// How long a page is left to the neighbours, where its visitors meet those that have it.
    fn wait_for_neighbours(&self, page: &Cid, waited: Duration) -> Duration {
        match &self.elsewhere {
            None => Duration::ZERO,
            Some(_) if waited < LOOKUP_WAIT => LOOKUP_WAIT,
            Some(elsewhere) if elsewhere.lock().contains_key(&*page.to_string()) => NEIGHBOURS_WAIT,
            Some(_) => LOOKUP_WAIT,
        }
    }

    /// Announces available pages to content routing, within the limits.
    fn provide(&mut self) {
        if !self.is_providing {
            return;
        }
        let announced =
            self.available.values().filter(|provided| **provided == Provided::Announced).count();
        let room = PROVIDED_MAX.saturating_sub(announced);
        let starts_max = PROVIDING_MAX.saturating_sub(self.providing.len());
        let unannounced =
            self.available.iter_mut().filter(|(_, provided)| **provided == Provided::Not);
        for (root, provided) in unannounced.take(room.min(starts_max)) {
            *provided = Provided::Announced;
            let (host, root) = (self.shared.host.clone(), root.clone());
            self.providing.spawn(async move {
                if let Err(error) = host.provide(root.clone()).await {
                    tracing::debug!(%root, %error, "cannot announce a page to content routing");
                }
            });
        }
    }
}

fn addresses<'a>(
    setting: &'static str,
    texts: impl Iterator<Item = &'a (impl AsRef<str> + 'a)>,
) -> Result<Vec<Multiaddr>, GatewayError> {
    let parse = |text: &str| {
        text.parse().map_err(|_| GatewayError::Address { setting, address: text.to_owned() })
    };
    texts.map(|text| parse(text.as_ref())).collect()
}

/// The setting of the libp2p host.
fn dht(role: DhtRole) -> Dht {
    match role {
        DhtRole::Off => Dht::Off,
        DhtRole::Client => Dht::Client,
        DhtRole::Server => Dht::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_network_is_entered_only_with_its_dht_and_without_a_key() {
        let public = P2pSettings { dht: DhtRole::Client, ..P2pSettings::default() };
        let entered = |settings: &P2pSettings| host_settings(settings).unwrap().dht_peers.len();
        assert_eq!(entered(&public), PUBLIC_DHT_PEERS.len());
        let kubo = "/ip4/127.0.0.1/tcp/4001".to_owned();
        let both = P2pSettings { bootstrap: vec!["public".into(), kubo.clone()], ..public.clone() };
        assert_eq!(entered(&both), PUBLIC_DHT_PEERS.len());
        assert_eq!(host_settings(&both).unwrap().bootstrap.len(), 1);
        assert!(both.is_on() && !public.is_on());

        let key = tempfile::NamedTempFile::new().unwrap();
        let text = format!("/key/swarm/psk/1.0.0/\n/base16/\n{}\n", "0f".repeat(32));
        std::fs::write(key.path(), text).unwrap();
        for private in [
            P2pSettings::default(),
            P2pSettings { bootstrap: vec![kubo], ..public.clone() },
            P2pSettings { bootstrap: Vec::new(), ..public.clone() },
            P2pSettings { dht_protocol: "/ipfs/lan/kad/1.0.0".into(), ..public.clone() },
            P2pSettings { swarm_key: key.path().to_owned(), ..public },
        ] {
            assert_eq!(entered(&private), 0, "{private:?}");
        }
    }
}
