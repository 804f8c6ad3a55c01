//! The thread that meets other worlds: a host of libp2p, and the lanes between it and our pages.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use content::Cid;
use edge::Adopter;
use p2p::{Host, HostLimits, HostSettings, SwarmKeyError};
use store::{Memory, Stores};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::crossings::{Crossings, Opened, Way};
use super::door::BackDoor;
use super::encounters::Encounters;
use super::lane::{Lane, Roads};
use super::standings::Standings;
use super::transit::Transit;
use crate::settings::{DhtRole, P2pSettings};
use crate::world::World;

/// Roots that content routing is told of; further ones are lit without it.
const PROVIDED_MAX: usize = 1024;
/// Announcements to content routing at once; the others wait.
const PROVIDING_MAX: usize = 16;
/// How often what waits for room is looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(2);

/// Why other worlds cannot be met.
#[derive(Debug, thiserror::Error)]
pub enum WorldsError {
    /// The host of libp2p does not start.
    #[error(transparent)]
    Host(#[from] p2p::StartError),
    /// The key of the private network cannot be had.
    #[error(transparent)]
    SwarmKey(#[from] SwarmKeyError),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// Meets other worlds until it is stopped or dropped.
pub(crate) struct Worlds {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worlds {
    /// Ready when the host listens. `adopter` lets visits in; `encounters` is told how it goes.
    pub fn start(
        world: &World,
        standings: Arc<Standings>,
        adopter: Adopter,
        encounters: Encounters,
    ) -> Result<Self, WorldsError> {
        let settings = host_settings(&world.settings.p2p)?;
        let p2p = world.settings.p2p.clone();
        let door = Arc::new(BackDoor { adopter, websocket_path: world.websocket_path.clone() });
        let key = world.visit_key.clone();
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = sync_channel::<Result<(), WorldsError>>(1);
        let thread = thread::Builder::new().name("worlds".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error.into()))),
            };
            runtime.block_on(async move {
                let cache_bytes_max = usize::try_from(p2p.cache_bytes_max).unwrap_or(usize::MAX);
                let transit = Arc::new(Transit::new(cache_bytes_max));
                let (crossings, opened) = Crossings::new(standings.clone(), p2p.pages_max as usize);
                let crossings = Arc::new(crossings);
                let stores = Stores::new(vec![transit.clone()]);
                // What is fetched goes through the transit, and is kept nowhere else.
                let keep = Arc::new(Memory::new(0));
                let host = Host::start_beside(settings, stores, keep, crossings.clone()).await;
                let host = match host {
                    Ok(host) => Arc::new(host),
                    Err(error) => return drop(ready.send(Err(error.into()))),
                };
                for address in host.addresses() {
                    tracing::info!(%address, "meets other worlds");
                }
                let roads = Roads { host, crossings, transit, standings, door, key };
                let traffic = Traffic {
                    roads: Arc::new(roads),
                    encounters,
                    is_providing: p2p.dht != DhtRole::Off,
                    lanes: JoinSet::new(),
                    dark: BTreeSet::new(),
                    lit: BTreeMap::new(),
                    providing: JoinSet::new(),
                };
                // Who started us waits for this.
                let _ = ready.send(Ok(()));
                traffic.run(opened, stopped).await;
            });
        })?;
        is_ready.recv().unwrap_or(Err(p2p::StartError::Stopped.into()))?;
        Ok(Worlds { stop: Some(stop), thread: Some(thread) })
    }

    /// Parts from all worlds. Waits until that is done.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Worlds {
    fn drop(&mut self) {
        self.stop();
    }
}

fn host_settings(settings: &P2pSettings) -> Result<HostSettings, WorldsError> {
    let path = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
    let swarm_key = path(&settings.swarm_key);
    let limits = HostLimits { connections_max: settings.connections_max, ..HostLimits::default() };
    let wants_per_peer_max = settings.wants_per_peer_max as usize;
    let HostSettings { exchange, .. } = HostSettings::default();
    let exchange = bitswap::Limits { wants_per_peer_max, ..exchange };
    Ok(HostSettings {
        listen: settings.listen.clone(),
        bootstrap: settings.bootstrap.clone(),
        announce: settings.announce.clone(),
        identity: path(&settings.identity),
        swarm_key: swarm_key.as_deref().map(p2p::read_swarm_key).transpose()?,
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
    Told,
}

struct Traffic {
    roads: Arc<Roads>,
    encounters: Encounters,
    is_providing: bool,
    lanes: JoinSet<()>,
    /// Pages that are sought and have no lane. As many as there are pages.
    dark: BTreeSet<Cid>,
    /// Pages that are held here. As many as there are pages.
    lit: BTreeMap<Cid, Provided>,
    providing: JoinSet<()>,
}

impl Traffic {
    async fn run(
        mut self,
        mut opened: mpsc::UnboundedReceiver<Opened>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut sweep = interval(SWEEP_EVERY);
        let roads = self.roads.clone();
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                changed = roads.standings.changes() => {
                    changed.iter().for_each(|page| self.page_changed(page));
                    self.provide();
                }
                Some(opened) = opened.recv() => self.begin(opened),
                Some(_) = self.lanes.join_next() => self.seek(),
                Some(_) = self.providing.join_next() => self.provide(),
                _ = sweep.tick() => {
                    roads.transit.sweep();
                    self.seek();
                    if let Ok(stats) = roads.host.stats().await {
                        self.encounters.tell(stats);
                    }
                }
            }
        }
        self.lanes.shutdown().await;
        roads.host.stop().await;
    }

    fn begin(&mut self, opened: Opened) {
        self.lanes.spawn(Lane::new(self.roads.clone(), opened).run());
    }

    fn page_changed(&mut self, page: &str) {
        // Every page was let in by its CID.
        let Ok(root) = page.parse::<Cid>() else { return };
        let light = self.roads.standings.light(page);
        if light.is_held {
            self.lit.entry(root.clone()).or_insert(Provided::Not);
            self.roads.crossings.is_lit(&root).into_iter().for_each(|opened| self.begin(opened));
        } else if self.lit.remove(&root) == Some(Provided::Told) {
            let (host, root) = (self.roads.host.clone(), root.clone());
            self.providing.spawn(async move {
                // A host that has stopped tells nobody anything any more.
                let _ = host.stop_providing(root).await;
            });
        }
        if light.is_watched && !light.is_held {
            self.dark.insert(root);
            self.seek();
        } else {
            self.dark.remove(&root);
        }
    }

    /// Looks elsewhere for what nobody holds here.
    fn seek(&mut self) {
        if !self.roads.crossings.has_room(Way::In) {
            return;
        }
        for root in std::mem::take(&mut self.dark) {
            match self.roads.crossings.open(&root, Way::In) {
                Some(opened) => self.begin(opened),
                None => drop(self.dark.insert(root)),
            }
        }
    }

    /// Tells content routing of what is lit.
    fn provide(&mut self) {
        if !self.is_providing {
            return;
        }
        let told = self.lit.values().filter(|provided| **provided == Provided::Told).count();
        let room = PROVIDED_MAX.saturating_sub(told);
        let turns = PROVIDING_MAX.saturating_sub(self.providing.len());
        let untold = self.lit.iter_mut().filter(|(_, provided)| **provided == Provided::Not);
        for (root, provided) in untold.take(room.min(turns)) {
            *provided = Provided::Told;
            let (host, root) = (self.roads.host.clone(), root.clone());
            self.providing.spawn(async move {
                if let Err(error) = host.provide(root.clone()).await {
                    tracing::debug!(%root, %error, "content routing was not told of a page");
                }
            });
        }
    }
}
