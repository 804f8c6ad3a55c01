//! The handle of a host, which runs on its own thread.

mod block_questions;
mod block_reader;
mod bootstrap;
mod clock;
mod connection_trimmer;
mod connections;
mod driver;
mod external_peers;
mod fetches;
mod listeners;
mod local_blocks;
#[cfg(feature = "mdns")]
mod local_discovery;
mod local_peers;
mod peer_numbers;
mod requests;
mod routing;
mod sessions;
mod traces;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use watchfire_types::VitalThread;

use bytes::Bytes;
use libp2p::core::upgrade::Version;
use libp2p::swarm::{Config, Swarm};
use libp2p::{Multiaddr, PeerId};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use watchfire_content::Cid;
use watchfire_store::{ReadBlocks, Stores, WriteBlocks};
use watchfire_traces::{Kind, Span};

use crate::behaviour::Behaviour;
use crate::command::{COMMANDS_MAX, Command, RoutedPeer};
use crate::error::{ConnectError, RoutingError, StartError, Stopped};
use crate::external::{ExternalTransport, TRANSPORT_EVENTS_MAX, TransportEvent};
use crate::fallback::{FallbackSource, NoFallback, RequestOrigin};
use crate::fetch::{Fetch, FetchError, FetchScope};
use crate::requests::{InboundRequest, RequestError, WAITING_REQUESTS_MAX};
use crate::session::BlockSession;
use crate::settings::{HostSettings, dht_protocol};
use crate::{HostStats, PeerStats, identity, transport};
use driver::Driver;
use listeners::PendingListeners;

/// A libp2p host on its own thread. It runs until [`Host::stop`], or until it is dropped.
#[derive(Debug)]
pub struct Host {
    peer_id: PeerId,
    commands: mpsc::Sender<Command>,
    transport_events: mpsc::Sender<TransportEvent>,
    next_external_peer: Arc<AtomicU64>,
    addresses: watch::Receiver<Vec<Multiaddr>>,
    parts_received: Arc<AtomicU64>,
    store: DefaultStore,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The store that fetches write to unless they name another one.
#[derive(Clone)]
struct DefaultStore(Arc<dyn WriteBlocks>);

impl std::fmt::Debug for DefaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DefaultStore")
    }
}

impl Host {
    /// Starts a host that serves the blocks of `stores` and `store`, and writes fetched blocks to
    /// `store`. Returns when the host listens on all addresses.
    pub async fn start(
        settings: HostSettings,
        stores: Stores,
        store: Arc<dyn WriteBlocks>,
    ) -> Result<Self, StartError> {
        Host::start_with_fallback(settings, stores, store, Arc::new(NoFallback)).await
    }

    /// Like [`Host::start`]. Requests for blocks that no store has go to `fallback`.
    pub async fn start_with_fallback(
        settings: HostSettings,
        stores: Stores,
        store: Arc<dyn WriteBlocks>,
        fallback: Arc<dyn FallbackSource>,
    ) -> Result<Self, StartError> {
        let keypair = identity::load_or_create(settings.identity.as_deref())?;
        let peer_id = keypair.public().to_peer_id();
        let (commands, commands_receiver) = mpsc::channel(COMMANDS_MAX);
        let (transport_events, transport_events_receiver) = mpsc::channel(TRANSPORT_EVENTS_MAX);
        let (addresses_sender, addresses) = watch::channel(Vec::new());
        let (ready_sender, ready) = oneshot::channel();
        let parts_received = Arc::<AtomicU64>::default();
        let parts = parts_received.clone();
        let mut served = stores;
        served.push(Arc::new(store.clone()));

        let thread = thread::Builder::new().name("p2p".to_owned()).spawn(move || {
            let _vital = VitalThread::enter("p2p");
            let runtime = match runtime(settings.threads) {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready_sender.send(Err(error.into()))),
            };
            runtime.block_on(async move {
                let (swarm, listeners) = match listening_swarm(&keypair, &settings) {
                    Ok(started) => started,
                    Err(error) => return drop(ready_sender.send(Err(error))),
                };
                let served: Arc<dyn ReadBlocks> = Arc::new(served);
                let driver = Driver::new(
                    swarm,
                    settings,
                    served,
                    fallback,
                    transport_events_receiver,
                    addresses_sender,
                    parts,
                );
                match driver {
                    Ok(mut driver) => {
                        driver.set_listeners(listeners, ready_sender);
                        driver.run(commands_receiver).await;
                    }
                    Err(error) => drop(ready_sender.send(Err(error.into()))),
                }
            });
            // Running handshakes and queries are cancelled.
            runtime.shutdown_background();
        })?;
        ready.await.unwrap_or(Err(StartError::Stopped))?;
        Ok(Host {
            peer_id,
            commands,
            transport_events,
            next_external_peer: Arc::default(),
            addresses,
            parts_received,
            store: DefaultStore(store),
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn peer_id(&self) -> PeerId {
        self.peer_id
    }

    /// Returns the listening addresses, each with `/p2p/<peer id>` at its end.
    pub fn addresses(&self) -> Vec<Multiaddr> {
        self.addresses.borrow().clone()
    }

    /// Connects to a peer. Returns immediately if it is connected already.
    pub async fn connect(&self, address: Multiaddr) -> Result<PeerId, ConnectError> {
        let mut span = Span::below(watchfire_traces::current(), "connect", Kind::Client);
        if span.is_recorded() {
            span.set("network.peer.address", address.to_string());
        }
        let (reply, result) = oneshot::channel();
        self.send(Command::Connect { address, reply }).await?;
        let result = result.await.unwrap_or(Err(Stopped.into()));
        result.inspect_err(|error| span.fail(error))
    }

    /// Closes all connections with a peer. Returns when they are closed.
    pub async fn disconnect(&self, peer: PeerId) -> Result<(), Stopped> {
        let (reply, result) = oneshot::channel();
        self.send(Command::Disconnect { peer, reply }).await?;
        result.await.map_err(|_| Stopped)
    }

    /// Announces through content routing that this host has `cid`, and repeats the announcement
    /// from time to time. Returns when the first announcement was sent.
    pub async fn provide(&self, cid: Cid) -> Result<(), RoutingError> {
        let (reply, result) = oneshot::channel();
        self.send(Command::Provide { cid, reply }).await?;
        result.await.unwrap_or(Err(Stopped.into()))
    }

    /// Stops announcing `cid`.
    pub async fn stop_providing(&self, cid: Cid) -> Result<(), Stopped> {
        self.send(Command::StopProviding { cid }).await
    }

    /// Searches content routing for providers of `cid`. The result may be empty.
    pub async fn find_providers(&self, cid: Cid) -> Result<Vec<PeerId>, RoutingError> {
        let (reply, result) = oneshot::channel();
        self.send(Command::FindProviders { cid, reply }).await?;
        result.await.unwrap_or(Err(Stopped.into()))
    }

    /// Searches content routing for the peers whose ids are closest to the hash of a key, the closest
    /// first. The host itself is not among them.
    pub async fn closest_peers(&self, key: Vec<u8>) -> Result<Vec<RoutedPeer>, RoutingError> {
        let (reply, result) = oneshot::channel();
        self.send(Command::ClosestPeers { key, reply }).await?;
        result.await.unwrap_or(Err(Stopped.into()))
    }

    /// Returns the peers that content routing knows, without a search. Some may be gone.
    pub async fn known_peers(&self) -> Result<Vec<RoutedPeer>, Stopped> {
        let (reply, result) = oneshot::channel();
        self.send(Command::KnownPeers { reply }).await?;
        result.await.map_err(|_| Stopped)
    }

    /// Sends a request to a peer in the protocol of [`HostSettings::requests`], and returns the
    /// response. Connects to the peer if its address is known.
    pub async fn request(&self, peer: PeerId, bytes: Bytes) -> Result<Bytes, RequestError> {
        let (reply, result) = oneshot::channel();
        self.send(Command::Request { peer, bytes, reply }).await?;
        result.await.unwrap_or(Err(Stopped.into()))
    }

    /// Returns the requests of peers, for the caller to answer. Until the first call, and after the
    /// result is dropped, they fail.
    pub async fn inbound_requests(&self) -> Result<mpsc::Receiver<InboundRequest>, Stopped> {
        let (inbound, requests) = mpsc::channel(WAITING_REQUESTS_MAX);
        self.send(Command::AnswerRequests { inbound }).await?;
        Ok(requests)
    }

    /// Fetches the DAG below `root`, except for blocks that are in the stores.
    pub async fn fetch(&self, root: Cid) -> Result<Fetch, FetchError> {
        self.fetch_into(root, self.store.0.clone()).await
    }

    /// Like [`Host::fetch`], but writes the blocks to `store`. The host serves them only if the
    /// store was passed to its start.
    pub async fn fetch_into(
        &self,
        root: Cid,
        store: Arc<dyn WriteBlocks>,
    ) -> Result<Fetch, FetchError> {
        self.start_fetch(root, FetchScope::Dag, store).await
    }

    /// Fetches one block, without the blocks that it links to. So a caller can resolve a path
    /// without fetching whole directories.
    pub async fn fetch_block(&self, cid: Cid) -> Result<Fetch, FetchError> {
        self.start_fetch(cid, FetchScope::Block, self.store.0.clone()).await
    }

    async fn start_fetch(
        &self,
        root: Cid,
        scope: FetchScope,
        store: Arc<dyn WriteBlocks>,
    ) -> Result<Fetch, FetchError> {
        let (reply, result) = oneshot::channel();
        let trace = watchfire_traces::current();
        let command = Command::Fetch { root, scope, store, trace, reply };
        self.send(command).await.map_err(|Stopped| FetchError::Stopped)?;
        result.await.unwrap_or(Err(FetchError::Stopped))
    }

    /// Opens a session that requests single blocks, which go into no store.
    pub async fn open_session(&self) -> Result<BlockSession, Stopped> {
        let (sender, events) = mpsc::unbounded_channel();
        let (reply, id) = oneshot::channel();
        self.send(Command::OpenSession {
            events: sender,
            trace: watchfire_traces::current(),
            reply,
        })
        .await?;
        let id = id.await.map_err(|_| Stopped)?;
        Ok(BlockSession { id, commands: self.commands.clone(), events })
    }

    /// How often a part of a message arrived, counted at most every 100 ms for each peer. While it grows, blocks
    /// are on their way, however slow the link is.
    pub fn parts_received(&self) -> u64 {
        self.parts_received.load(Ordering::Relaxed)
    }

    /// Requests these blocks before all others and in this order, once a session wants them. They
    /// replace the blocks of the previous call.
    pub async fn set_urgent(&self, cids: Vec<Cid>) -> Result<(), Stopped> {
        self.send(Command::SetUrgent { cids }).await
    }

    /// Notifies the host that a block of `bytes` was stored, other than by a fetch. The host sends
    /// it to the peers that wait for it.
    pub async fn notify_block_stored(&self, cid: Cid, bytes: usize) -> Result<(), Stopped> {
        self.send(Command::BlockStored { cid, bytes }).await
    }

    /// Notifies the host that its [`FallbackSource`] has stored a block of `bytes` for peers of this
    /// kind. The host sends it to those that wait for it, and not to others.
    pub async fn notify_block_obtained(
        &self,
        cid: Cid,
        bytes: usize,
        origin: RequestOrigin,
    ) -> Result<(), Stopped> {
        self.send(Command::BlockObtained { cid, bytes, origin }).await
    }

    /// Notifies the host that its [`FallbackSource`] cannot obtain a block for peers of this kind.
    pub async fn notify_block_unavailable(
        &self,
        cid: Cid,
        origin: RequestOrigin,
    ) -> Result<(), Stopped> {
        self.send(Command::BlockUnavailable { cid, origin }).await
    }

    /// Asks connected libp2p peers whether they have a block now, without requesting it: these, or all
    /// with `None`. Returns the first that has it, or `None` when all have answered.
    ///
    /// Peers with a protocol before Bitswap 1.2 have no answer to such a question. One that the caller
    /// names counts as having the block while it is connected.
    pub async fn ask(
        &self,
        peers: Option<Vec<PeerId>>,
        cid: Cid,
    ) -> Result<Option<PeerId>, Stopped> {
        let (reply, result) = oneshot::channel();
        self.send(Command::Ask { peers, cid, reply }).await?;
        result.await.map_err(|_| Stopped)
    }

    /// Adds a transport for peers that are not on libp2p.
    pub fn external_transport(&self) -> ExternalTransport {
        let next_peer = Arc::clone(&self.next_external_peer);
        ExternalTransport::new(self.transport_events.clone(), next_peer)
    }

    /// Returns the totals since the start.
    pub async fn stats(&self) -> Result<HostStats, Stopped> {
        let (reply, result) = oneshot::channel();
        self.send(Command::Stats { reply }).await?;
        result.await.map_err(|_| Stopped)
    }

    /// Returns the libp2p peers that blocks can be exchanged with now.
    pub async fn peers(&self) -> Result<Vec<PeerStats>, Stopped> {
        let (reply, result) = oneshot::channel();
        self.send(Command::Peers { reply }).await?;
        result.await.map_err(|_| Stopped)
    }

    /// Stops the host. Returns when its thread has ended and fetched blocks are in the store.
    pub async fn stop(&self) {
        // Fails only if the host has stopped already.
        let _ = self.send(Command::Stop).await;
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let (ended_sender, ended) = oneshot::channel::<()>();
            let waiter = thread::Builder::new().name("p2p-end".to_owned()).spawn(move || {
                let _ = thread.join();
                drop(ended_sender);
            });
            if waiter.is_ok() {
                let _ = ended.await;
            }
        }
    }

    async fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).await.map_err(|_| Stopped)
    }
}

fn runtime(threads: usize) -> io::Result<tokio::runtime::Runtime> {
    let mut builder = match threads {
        0 | 1 => tokio::runtime::Builder::new_current_thread(),
        threads => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(threads).thread_name("p2p-io");
            builder
        }
    };
    builder.enable_all().build()
}

/// Returns a swarm that starts to listen, and its listeners, which have no address yet.
fn listening_swarm(
    keypair: &libp2p::identity::Keypair,
    settings: &HostSettings,
) -> Result<(Swarm<Behaviour>, PendingListeners), StartError> {
    let transport = transport::build(
        keypair,
        settings.swarm_key,
        settings.network_key,
        settings.network_key_before,
        settings.limits.dial_timeout,
    )?;
    let config = Config::with_tokio_executor()
        .with_idle_connection_timeout(settings.limits.idle_timeout)
        // A request goes with the name of its protocol, which saves a round trip: a second on a link that is full.
        .with_substream_upgrade_protocol_override(Version::V1Lazy)
        .with_max_negotiating_inbound_streams(settings.limits.streams.inbound_streams_max);
    let protocol = dht_protocol(&settings.dht_protocol)?;
    let behaviour = Behaviour::new(keypair, protocol, settings);
    let mut swarm = Swarm::new(transport, behaviour, keypair.public().to_peer_id(), config);
    for address in &settings.announce {
        swarm.add_external_address(address.clone());
    }
    let mut listeners = Vec::new();
    for address in &settings.listen {
        let listener = swarm.listen_on(address.clone()).map_err(|error| StartError::Listen {
            address: address.clone(),
            error: error.to_string(),
        })?;
        listeners.push((listener, address.clone()));
    }
    Ok((swarm, listeners))
}
