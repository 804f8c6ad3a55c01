//! The handle of a host, and what it says to the thread that is the host.

mod bootstrap;
mod driver;
mod guests;
mod peers;
mod reader;
mod routing;
mod trimming;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bitswap::Want;
use content::Cid;
use libp2p::core::transport::ListenerId;
use libp2p::swarm::{Config, Swarm};
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use store::{ReadBlocks, Stores, WriteBlocks};
use tokio::sync::{mpsc, oneshot, watch};

use crate::behaviour::Behaviour;
use crate::carrier::{Carrier, WORDS_MAX, Word};
use crate::elsewhere::{Elsewhere, Nowhere, Seeker, SeekerId, Sought};
use crate::fetch::{Fetch, FetchError, Reach};
use crate::settings::HostSettings;
use crate::{HostStats, PeerStats, identity, transport};
use driver::Driver;

/// Commands that wait for the host; who gives a further one waits.
const COMMANDS_MAX: usize = 64;
/// What fetches tell that waits for the host; a fetch that has more to tell waits.
const TOLD_MAX: usize = 256;

/// Why a host did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The host's key cannot be had.
    #[error("the identity in {}: {error}", path.display())]
    Identity {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
    /// Connections cannot be made at all.
    #[error("the network: {0}")]
    Transport(String),
    /// It cannot listen where it was told to.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: Multiaddr,
        /// Why.
        error: String,
    },
    /// A protocol's name has no slash in front.
    #[error("{0:?} is not the name of a protocol: it must begin with a slash")]
    DhtProtocol(String),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// It stopped while it started.
    #[error("the host stopped while it started")]
    Stopped,
}

/// The host has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host has stopped")]
pub struct Stopped;

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Nobody answered there, or not as hoped.
    #[error("cannot connect to {address}: {error}")]
    Failed {
        /// Who was dialled.
        address: Multiaddr,
        /// What happened.
        error: String,
    },
    /// The host has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a root is not provided, or nobody is found who has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The settings switch content routing off.
    #[error("content routing is off")]
    Off,
    /// Nobody could be told, or asked.
    #[error("content routing: {0}")]
    Failed(String),
    /// The host has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Listeners, and what each was told to listen on.
type Listeners = Vec<(ListenerId, Multiaddr)>;

/// What the handle asks the host.
pub(crate) enum Command {
    Connect {
        address: Multiaddr,
        reply: oneshot::Sender<Result<PeerId, ConnectError>>,
    },
    Disconnect {
        peer: PeerId,
        reply: oneshot::Sender<()>,
    },
    Provide {
        cid: Cid,
        reply: oneshot::Sender<Result<(), RoutingError>>,
    },
    FindProviders {
        cid: Cid,
        reply: oneshot::Sender<Result<Vec<PeerId>, RoutingError>>,
    },
    Peers {
        reply: oneshot::Sender<Vec<PeerStats>>,
    },
    Fetch {
        root: Cid,
        reach: Reach,
        keep: Arc<dyn WriteBlocks>,
        reply: oneshot::Sender<Result<Fetch, FetchError>>,
    },
    Have {
        cid: Cid,
        bytes: usize,
    },
    Lacks {
        cid: Cid,
    },
    Unprovide {
        cid: Cid,
    },
    Seek {
        sought: mpsc::UnboundedSender<Sought>,
        reply: oneshot::Sender<SeekerId>,
    },
    Want {
        seeker: SeekerId,
        wants: Vec<Want>,
    },
    Unwant {
        seeker: SeekerId,
        cids: Vec<Cid>,
    },
    Stats {
        reply: oneshot::Sender<HostStats>,
    },
    Stop,
}

/// A libp2p host on a thread of its own. It stops when it is told to, or dropped.
#[derive(Debug)]
pub struct Host {
    peer_id: PeerId,
    commands: mpsc::Sender<Command>,
    words: mpsc::Sender<Word>,
    guests: Arc<AtomicU64>,
    addresses: watch::Receiver<Vec<Multiaddr>>,
    keep: Keep,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone)]
struct Keep(Arc<dyn WriteBlocks>);

impl std::fmt::Debug for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keep")
    }
}

impl Host {
    /// Starts a host that serves what is in `stores` and in `keep`, and keeps in `keep` what it
    /// fetches. Ready when it listens everywhere.
    pub async fn start(
        settings: HostSettings,
        stores: Stores,
        keep: Arc<dyn WriteBlocks>,
    ) -> Result<Self, StartError> {
        Host::start_beside(settings, stores, keep, Arc::new(Nowhere)).await
    }

    /// As [`Host::start`]; what peers want and no store has may be had `elsewhere`.
    pub async fn start_beside(
        settings: HostSettings,
        stores: Stores,
        keep: Arc<dyn WriteBlocks>,
        elsewhere: Arc<dyn Elsewhere>,
    ) -> Result<Self, StartError> {
        let keypair = identity::load_or_make(settings.identity.as_deref())?;
        let peer_id = keypair.public().to_peer_id();
        let (commands, command) = mpsc::channel(COMMANDS_MAX);
        let (words, said) = mpsc::channel(WORDS_MAX);
        let (addresses_sender, addresses) = watch::channel(Vec::new());
        let (ready_sender, ready) = oneshot::channel();
        let mut serve = stores;
        serve.push(Arc::new(keep.clone()));

        let thread = thread::Builder::new().name("p2p".to_owned()).spawn(move || {
            let runtime = match runtime(settings.threads) {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready_sender.send(Err(error.into()))),
            };
            runtime.block_on(async move {
                let started = listening_swarm(&keypair, &settings);
                let (swarm, listeners) = match started {
                    Ok(started) => started,
                    Err(error) => return drop(ready_sender.send(Err(error))),
                };
                let serve: Arc<dyn ReadBlocks> = Arc::new(serve);
                match Driver::new(swarm, settings, serve, elsewhere, said, addresses_sender) {
                    Ok(mut driver) => {
                        driver.awaits_listeners(listeners, ready_sender);
                        driver.run(command).await;
                    }
                    Err(error) => drop(ready_sender.send(Err(error.into()))),
                }
            });
            // Handshakes and lookups that are under way are not waited for.
            runtime.shutdown_background();
        })?;
        ready.await.unwrap_or(Err(StartError::Stopped))?;
        Ok(Host {
            peer_id,
            commands,
            words,
            guests: Arc::default(),
            addresses,
            keep: Keep(keep),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Its name, which its connections prove.
    pub fn peer_id(&self) -> PeerId {
        self.peer_id
    }

    /// Where it listens, each with `/p2p/<peer id>` at its end.
    pub fn addresses(&self) -> Vec<Multiaddr> {
        self.addresses.borrow().clone()
    }

    /// Connects to a peer. Ready at once when it is connected already.
    pub async fn connect(&self, address: Multiaddr) -> Result<PeerId, ConnectError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Connect { address, reply }).await?;
        answer.await.unwrap_or(Err(Stopped.into()))
    }

    /// Closes all connections with a peer. Ready when they are closed; at once when there are none.
    pub async fn disconnect(&self, peer: PeerId) -> Result<(), Stopped> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Disconnect { peer, reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// Tells content routing that this host has `cid`, now and again from time to time. Ready when
    /// those were told whom it concerns.
    pub async fn provide(&self, cid: Cid) -> Result<(), RoutingError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Provide { cid, reply }).await?;
        answer.await.unwrap_or(Err(Stopped.into()))
    }

    /// Looks for some that have `cid`. None is an answer too.
    pub async fn find_providers(&self, cid: Cid) -> Result<Vec<PeerId>, RoutingError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::FindProviders { cid, reply }).await?;
        answer.await.unwrap_or(Err(Stopped.into()))
    }

    /// Fetches all that can be reached from `root` and is not in the stores.
    pub async fn fetch(&self, root: Cid) -> Result<Fetch, FetchError> {
        self.fetch_into(root, self.keep.0.clone()).await
    }

    /// Fetches all that can be reached from `root` and is not in the stores, and keeps it in
    /// `keep`. It is served from there only if the host was given that store at its start.
    pub async fn fetch_into(
        &self,
        root: Cid,
        keep: Arc<dyn WriteBlocks>,
    ) -> Result<Fetch, FetchError> {
        self.fetch_so_far(root, Reach::Whole, keep).await
    }

    /// Fetches one block, and nothing that it links to: the way to find what is below a directory
    /// without all else that is.
    pub async fn fetch_block(&self, cid: Cid) -> Result<Fetch, FetchError> {
        self.fetch_so_far(cid, Reach::Block, self.keep.0.clone()).await
    }

    async fn fetch_so_far(
        &self,
        root: Cid,
        reach: Reach,
        keep: Arc<dyn WriteBlocks>,
    ) -> Result<Fetch, FetchError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Fetch { root, reach, keep, reply };
        self.command(command).await.map_err(|Stopped| FetchError::Stopped)?;
        answer.await.unwrap_or(Err(FetchError::Stopped))
    }

    /// Tells the host that a block came into its stores, not by a fetch: peers that wait for it
    /// get it.
    pub async fn have(&self, cid: Cid, bytes: usize) -> Result<(), Stopped> {
        self.command(Command::Have { cid, bytes }).await
    }

    /// Tells the host that a block which could perhaps be had elsewhere cannot.
    pub async fn lacks(&self, cid: Cid) -> Result<(), Stopped> {
        self.command(Command::Lacks { cid }).await
    }

    /// Tells content routing no more that this host has `cid`.
    pub async fn stop_providing(&self, cid: Cid) -> Result<(), Stopped> {
        self.command(Command::Unprovide { cid }).await
    }

    /// Lets peers take part that are not libp2p's.
    pub fn carrier(&self) -> Carrier {
        Carrier::new(self.words.clone(), Arc::clone(&self.guests))
    }

    /// Wants single blocks, which go into no store.
    pub async fn seek(&self) -> Result<Seeker, Stopped> {
        let (sender, sought) = mpsc::unbounded_channel();
        let (reply, answer) = oneshot::channel();
        self.command(Command::Seek { sought: sender, reply }).await?;
        let id = answer.await.map_err(|_| Stopped)?;
        Ok(Seeker { id, commands: self.commands.clone(), sought })
    }

    /// What it has done so far.
    pub async fn stats(&self) -> Result<HostStats, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Stats { reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// The peers that blocks can be exchanged with now.
    pub async fn peers(&self) -> Result<Vec<PeerStats>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Peers { reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// Stops it. Ready when its thread has ended; what was fetched by then is in the store.
    pub async fn stop(&self) {
        // A host that has stopped cannot be told so, and need not be.
        let _ = self.command(Command::Stop).await;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let (ended, has_ended) = oneshot::channel::<()>();
            let waits = thread::Builder::new().name("p2p-end".to_owned()).spawn(move || {
                let _ = thread.join();
                drop(ended);
            });
            if waits.is_ok() {
                let _ = has_ended.await;
            }
        }
    }

    async fn command(&self, command: Command) -> Result<(), Stopped> {
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

/// A swarm that was told where to listen, and the listeners that have not said yet where they do.
fn listening_swarm(
    keypair: &libp2p::identity::Keypair,
    settings: &HostSettings,
) -> Result<(Swarm<Behaviour>, Listeners), StartError> {
    let transport = transport::build(keypair, settings.swarm_key, settings.limits.dial_timeout)?;
    let config = Config::with_tokio_executor()
        .with_idle_connection_timeout(settings.limits.idle_timeout)
        .with_max_negotiating_inbound_streams(settings.limits.streams.inbound_max);
    let protocol = StreamProtocol::try_from_owned(settings.dht_protocol.clone());
    let protocol = protocol.map_err(|_| StartError::DhtProtocol(settings.dht_protocol.clone()))?;
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
