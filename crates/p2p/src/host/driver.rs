//! The thread that is the host: it hands what the network, the disk and the handle say to the
//! exchange, and does what the exchange puts out.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use bitswap::{Behaviour as Manners, Exchange, Message, Output, SessionId};
use content::dag_pb::{Link, Node};
use content::{Block, Cid, Codec};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use libp2p::core::transport::ListenerId;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{ConnectionId, DialError, Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, ping};
use store::{ReadBlocks, Stores, WriteBlocks};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use vocab::Instant as CoreInstant;

use super::bootstrap::Bootstrap;
use super::guests::Guests;
use super::peers::{Peer, Peers};
use super::reader::{BlockRead, Reader, Whose};
use super::routing::Routing;
use super::trimming::Trimming;
use super::{Command, ConnectError, Listeners, StartError, TOLD_MAX};
use crate::behaviour::{Behaviour, BehaviourEvent, PINGS_LOST_MAX};
use crate::carrier::{Guest, Word};
use crate::elsewhere::{Asker, Elsewhere, SeekerId, Sought};
use crate::fetch::{
    Arrived, Fetch, FetchError, FetchId, Fetched, FromWalker, Progress, Reach, Walker,
};
use crate::settings::{HostLimits, HostSettings};
use crate::streams::Event;
use crate::{HostStats, PeerStats};

/// Blocks that were read and wait for the host; the thread that reads waits.
const READ_MAX: usize = 16;

type Ready = oneshot::Sender<Result<(), StartError>>;

pub(super) struct Driver {
    swarm: Swarm<Behaviour>,
    exchange: Exchange<Peer>,
    limits: HostLimits,
    started_at: Instant,
    peers: Peers,
    guests: Guests,
    words: mpsc::Receiver<Word>,
    /// For each guest, the end of its carrier or of its stay.
    carriers_gone: FuturesUnordered<BoxFuture<'static, ()>>,
    stores: Arc<dyn ReadBlocks>,
    elsewhere: Arc<dyn Elsewhere>,
    /// Who sent the message that was received last: what follows from it is done before the next.
    asker: Asker,
    seekers: BTreeMap<SeekerId, mpsc::UnboundedSender<Sought>>,
    seekers_gone: FuturesUnordered<BoxFuture<'static, SeekerId>>,
    reader: Reader<Peer>,
    has_read: mpsc::Receiver<BlockRead<Peer>>,
    fetches: BTreeMap<FetchId, Running>,
    sessions: BTreeMap<SessionId, FetchId>,
    fetches_started: u64,
    told_sender: mpsc::Sender<FromWalker>,
    told: mpsc::Receiver<FromWalker>,
    dropped: FuturesUnordered<BoxFuture<'static, FetchId>>,
    unwritten_bytes: usize,
    routing: Routing,
    bootstrap: Bootstrap,
    trimming: Trimming,
    dials: BTreeMap<ConnectionId, Dial>,
    /// Who waits for all connections with a peer to be closed.
    leaving: BTreeMap<PeerId, Vec<oneshot::Sender<()>>>,
    /// Pings without an answer, of connections that had some lately.
    pings_lost: BTreeMap<ConnectionId, u32>,
    listeners: Listeners,
    ready: Option<Ready>,
    addresses: watch::Sender<Vec<Multiaddr>>,
    stats: HostStats,
    paused_at: Option<Instant>,
}

/// A dial that somebody waits for.
struct Dial {
    address: Multiaddr,
    reply: oneshot::Sender<Result<PeerId, ConnectError>>,
}

/// A fetch that is running.
struct Running {
    session: SessionId,
    arrived: Sender<Arrived>,
    outcome: oneshot::Sender<Result<Fetched, FetchError>>,
    /// Bytes of blocks that it was given and has not written.
    unwritten_bytes: usize,
}

impl Driver {
    pub(super) fn new(
        swarm: Swarm<Behaviour>,
        settings: HostSettings,
        stores: Arc<dyn ReadBlocks>,
        elsewhere: Arc<dyn Elsewhere>,
        words: mpsc::Receiver<Word>,
        addresses: watch::Sender<Vec<Multiaddr>>,
    ) -> io::Result<Self> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
        let (read_sender, has_read) = mpsc::channel(READ_MAX);
        let (told_sender, told) = mpsc::channel(TOLD_MAX);
        let now = Instant::now();
        Ok(Driver {
            routing: Routing::new(&settings),
            exchange: Exchange::new(settings.exchange, Manners::Ours, u64::from_le_bytes(seed)),
            reader: Reader::start(stores.clone(), read_sender)?,
            bootstrap: Bootstrap::new(settings.bootstrap, now),
            trimming: Trimming::new(settings.limits.connections_max, settings.limits.unused_grace),
            limits: settings.limits,
            swarm,
            started_at: now,
            peers: Peers::default(),
            guests: Guests::default(),
            words,
            carriers_gone: FuturesUnordered::new(),
            stores,
            elsewhere,
            asker: Asker::Peer,
            seekers: BTreeMap::new(),
            seekers_gone: FuturesUnordered::new(),
            has_read,
            fetches: BTreeMap::new(),
            sessions: BTreeMap::new(),
            fetches_started: 0,
            told_sender,
            told,
            dropped: FuturesUnordered::new(),
            unwritten_bytes: 0,
            dials: BTreeMap::new(),
            leaving: BTreeMap::new(),
            pings_lost: BTreeMap::new(),
            listeners: Vec::new(),
            ready: None,
            addresses,
            stats: HostStats::default(),
            paused_at: None,
        })
    }

    /// Tells `ready` when all listeners have said where they listen.
    pub(super) fn awaits_listeners(&mut self, open: Listeners, ready: Ready) {
        self.listeners = open;
        self.ready = Some(ready);
        self.tell_ready();
    }

    fn tell_ready(&mut self) {
        if self.listeners.is_empty()
            && let Some(ready) = self.ready.take()
        {
            // Who started the host may have given up; then the command channel is closed as well.
            let _ = ready.send(Ok(()));
        }
    }

    /// Runs until it is told to stop, or nobody can tell it any more.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        self.routing.begin(&mut self.swarm);
        loop {
            self.pause_or_go_on();
            let is_paused = self.paused_at.is_some();
            let wake = self.next_wake();
            let alarm = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Stop) | None => break,
                    Some(command) => self.command(command),
                },
                Some(told) = self.told.recv() => {
                    self.walker_told(told);
                    while let Ok(told) = self.told.try_recv() {
                        self.walker_told(told);
                    }
                }
                Some(read) = self.has_read.recv() => self.read(read),
                Some(fetch) = self.dropped.next() => drop(self.end_fetch(fetch)),
                Some(word) = self.words.recv(), if !is_paused => self.word(word),
                Some(()) = self.carriers_gone.next() => self.carrier_gone(),
                Some(seeker) = self.seekers_gone.next() => self.end_seeker(seeker),
                event = self.swarm.select_next_some(), if !is_paused => self.swarm_event(event),
                () = alarm, if !is_paused => self.tick(),
            }
            self.do_outputs();
        }
    }

    /// While too much waits for the disk, nothing is read from the network, and no time passes for
    /// the exchange: peers are not to be found slow for what is our disk's doing.
    fn pause_or_go_on(&mut self) {
        let is_behind = self.unwritten_bytes > self.limits.unwritten_bytes_max;
        match (is_behind, self.paused_at) {
            (true, None) => self.paused_at = Some(Instant::now()),
            (false, Some(at)) => {
                self.stats.paused += at.elapsed();
                self.paused_at = None;
            }
            _ => {}
        }
    }

    /// The exchange's time stands still while the host is paused.
    fn now(&self) -> CoreInstant {
        let paused = self.stats.paused + self.paused_at.map_or(Duration::ZERO, |at| at.elapsed());
        let nanos = self.started_at.elapsed().saturating_sub(paused).as_nanos();
        CoreInstant::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
    }

    fn next_wake(&self) -> Option<Instant> {
        let exchange = self.exchange.next_wake().map(|at| {
            let since = at.since(CoreInstant::ZERO);
            self.started_at + since + self.stats.paused
        });
        [exchange, self.bootstrap.next_wake()].into_iter().flatten().min()
    }

    fn tick(&mut self) {
        let now = self.now();
        if self.exchange.next_wake().is_some_and(|at| at <= now) {
            self.exchange.handle_tick(now);
        }
        let now = Instant::now();
        for address in self.bootstrap.due(now) {
            let options = DialOpts::from(address.clone());
            let connection = options.connection_id();
            match self.swarm.dial(options) {
                Ok(()) => self.bootstrap.dialled(&address, connection),
                Err(_) => self.bootstrap.failed(&address, now),
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Connect { address, reply } => self.connect(address, reply),
            Command::Disconnect { peer, reply } => match self.swarm.disconnect_peer_id(peer) {
                Ok(()) => self.leaving.entry(peer).or_default().push(reply),
                Err(()) => drop(reply.send(())),
            },
            Command::Provide { cid, reply } => self.routing.provide(&mut self.swarm, &cid, reply),
            Command::FindProviders { cid, reply } => {
                self.routing.find_for_caller(&mut self.swarm, &cid, reply);
            }
            Command::Peers { reply } => drop(reply.send(self.peer_stats())),
            Command::Fetch { root, reach, keep, reply } => {
                // Who asked may be gone; the fetch then ends as any that is dropped.
                let _ = reply.send(self.fetch(root, reach, keep));
            }
            Command::Have { cid, bytes } => {
                // Whoever waits for it because it could be had elsewhere comes first.
                self.exchange.found(self.now(), &cid, Some(bytes));
                self.exchange.have(self.now(), &cid, bytes);
            }
            Command::Lacks { cid } => self.exchange.found(self.now(), &cid, None),
            Command::Unprovide { cid } => self.routing.unprovide(&mut self.swarm, &cid),
            Command::Seek { sought, reply } => drop(reply.send(self.seek(sought))),
            Command::Want { seeker, wants } => {
                if self.seekers.contains_key(&seeker) {
                    self.exchange.want(self.now(), SessionId(seeker.0), wants);
                }
            }
            Command::Unwant { seeker, cids } => {
                self.exchange.unwant(self.now(), SessionId(seeker.0), &cids);
            }
            Command::Stats { reply } => drop(reply.send(self.stats())),
            Command::Stop => {}
        }
    }

    fn connect(
        &mut self,
        address: Multiaddr,
        reply: oneshot::Sender<Result<PeerId, ConnectError>>,
    ) {
        let options = DialOpts::from(address.clone());
        if let Some(peer) = options.get_peer_id()
            && self.swarm.is_connected(&peer)
        {
            return drop(reply.send(Ok(peer)));
        }
        let connection = options.connection_id();
        match self.swarm.dial(options) {
            Ok(()) => drop(self.dials.insert(connection, Dial { address, reply })),
            Err(error) => drop(reply.send(Err(failed(address, &error)))),
        }
    }

    fn fetch(
        &mut self,
        root: Cid,
        reach: Reach,
        keep: Arc<dyn WriteBlocks>,
    ) -> Result<Fetch, FetchError> {
        let max = self.limits.fetches_max;
        if self.fetches.len() >= max {
            return Err(FetchError::TooMany { max });
        }
        let fetch = FetchId(self.fetches_started);
        let (arrived_sender, arrived) = channel();
        let (progress_sender, progress) = watch::channel(Progress::default());
        let (outcome_sender, outcome) = oneshot::channel();
        let (handle, is_dropped) = oneshot::channel::<()>();
        let walker = Walker {
            fetch,
            root,
            reach,
            limits: self.limits.fetch.clone(),
            read: Arc::new(Stores::new(vec![self.stores.clone(), Arc::new(keep.clone())])),
            keep,
            arrived,
            host: self.told_sender.clone(),
            progress: progress_sender,
        };
        let name = format!("p2p-fetch-{}", fetch.0);
        thread::Builder::new().name(name).spawn(move || walker.run())?;

        self.fetches_started += 1;
        let session = self.exchange.start(self.now());
        self.sessions.insert(session, fetch);
        let running = Running {
            session,
            arrived: arrived_sender,
            outcome: outcome_sender,
            unwritten_bytes: 0,
        };
        self.fetches.insert(fetch, running);
        self.dropped.push(Box::pin(async move {
            let _ = is_dropped.await;
            fetch
        }));
        Ok(Fetch { progress, outcome, _handle: handle })
    }

    fn seek(&mut self, sought: mpsc::UnboundedSender<Sought>) -> SeekerId {
        let SessionId(number) = self.exchange.start(self.now());
        let seeker = SeekerId(number);
        self.seekers.insert(seeker, sought.clone());
        self.seekers_gone.push(Box::pin(async move {
            sought.closed().await;
            seeker
        }));
        seeker
    }

    fn end_seeker(&mut self, seeker: SeekerId) {
        self.seekers.remove(&seeker);
        self.exchange.stop(self.now(), SessionId(seeker.0));
    }

    /// What a carrier says of its guests.
    fn word(&mut self, word: Word) {
        let now = self.now();
        match word {
            Word::Connected { guest, protocol, scope, errands } => {
                let carrier = errands.clone();
                let peer = self.peers.number();
                let stay = self.guests.connect(guest, peer, protocol, scope, errands);
                self.carriers_gone.push(Box::pin(async move {
                    tokio::select! {
                        () = carrier.closed() => {}
                        _ = stay => {}
                    }
                }));
                self.exchange.connected(now, peer, protocol);
                self.guest_has_room(peer);
            }
            Word::Disconnected { guest } => self.guest_gone(guest),
            Word::Arriving { guest } => {
                if let Some(peer) = self.guests.peer(guest) {
                    self.exchange.arriving(now, peer);
                }
            }
            Word::Message { guest, message, bytes, .. } => {
                self.stats.received_messages += 1;
                self.stats.received_bytes += bytes as u64;
                if let Some(peer) = self.guests.peer(guest) {
                    self.asker = Asker::Guest;
                    self.exchange.received(now, peer, message);
                }
            }
            Word::Malformed { guest } => {
                self.stats.malformed_messages += 1;
                if let Some(peer) = self.guests.peer(guest)
                    && self.guests.is_unbearable(peer)
                {
                    self.exchange.disconnected(now, peer);
                    self.stats.dropped_peers += 1;
                    self.guests.dismiss(peer);
                }
            }
            Word::Sent { guest, bytes } => {
                if let Some(peer) = self.guests.peer(guest) {
                    self.guests.sent(peer, bytes);
                    self.guest_has_room(peer);
                }
            }
        }
    }

    fn guest_has_room(&mut self, peer: Peer) {
        let room = self.guests.room(peer, self.limits.streams.outbox_bytes_max);
        self.exchange.writable(self.now(), peer, room);
    }

    fn guest_gone(&mut self, guest: Guest) {
        if let Some(peer) = self.guests.disconnect(guest) {
            self.exchange.disconnected(self.now(), peer);
        }
    }

    fn carrier_gone(&mut self) {
        self.guests.abandoned().into_iter().for_each(|guest| self.guest_gone(guest));
    }

    fn end_fetch(&mut self, fetch: FetchId) -> Option<Running> {
        let running = self.fetches.remove(&fetch)?;
        self.sessions.remove(&running.session);
        self.exchange.stop(self.now(), running.session);
        // What it still held is dropped with it.
        self.unwritten_bytes -= running.unwritten_bytes;
        Some(running)
    }

    fn walker_told(&mut self, told: FromWalker) {
        match told {
            FromWalker::Want { fetch, wants } => {
                if let Some(running) = self.fetches.get(&fetch) {
                    self.exchange.want(self.now(), running.session, wants);
                }
            }
            FromWalker::Node { fetch, block } => {
                if let Some(running) = self.fetches.get(&fetch)
                    && let Some(leaves) = self.leaves_of(&block)
                {
                    self.exchange.opened(self.now(), running.session, block.cid(), leaves);
                }
            }
            FromWalker::Written { fetch, cid, bytes } => {
                if let Some(running) = self.fetches.get_mut(&fetch) {
                    running.unwritten_bytes -= bytes;
                    self.unwritten_bytes -= bytes;
                }
                // Not there when it could not be kept, or was kept elsewhere.
                if let Some(len) = self.len_of(&cid) {
                    self.exchange.have(self.now(), &cid, len);
                }
            }
            FromWalker::Ended { fetch, outcome } => {
                if let Some(running) = self.end_fetch(fetch) {
                    // Nobody waits for it.
                    let _ = running.outcome.send(outcome);
                }
            }
        }
    }

    fn len_of(&self, cid: &Cid) -> Option<usize> {
        let len = match Block::implied_by(cid) {
            Some(block) => block.bytes().len() as u64,
            None => self.stores.len_of(cid)?,
        };
        usize::try_from(len).ok()
    }

    fn read(&mut self, BlockRead { whose, cid, block }: BlockRead<Peer>) {
        match whose {
            Whose::Peer(peer) => self.exchange.read(self.now(), peer, &cid, block),
            Whose::List => {
                // Stores that give something else than they were asked for have no such node.
                let block = block.filter(|block| *block.cid() == cid);
                let leaves = block.and_then(|block| self.leaves_of(&block));
                self.exchange.listed(self.now(), &cid, leaves);
            }
        }
    }

    /// What a node links to, and whether that is in the stores.
    fn leaves_of(&self, block: &Block) -> Option<Vec<(Cid, bool)>> {
        let node = (block.cid().codec() == Codec::DAG_PB).then(|| Node::decode(block.bytes()))?;
        let links = node.ok()?.links.into_iter();
        let leaf = |link: Link| {
            let is_here = self.len_of(&link.cid).is_some();
            (link.cid, is_here)
        };
        Some(links.map(leaf).collect())
    }

    fn do_outputs(&mut self) {
        while let Some(output) = self.exchange.poll_output() {
            match output {
                Output::Send { peer, message } => {
                    if let Some(id) = self.peers.id_of(peer) {
                        if !message.blocks.is_empty() {
                            self.trimming.used(id, Instant::now());
                        }
                        self.stats.sent_messages += 1;
                        self.stats.sent_bytes +=
                            self.swarm.behaviour_mut().streams.send(id, message) as u64;
                    } else {
                        self.stats.sent_messages += 1;
                        let (bytes, presences) = self.guests.send(peer, message);
                        self.stats.sent_bytes += bytes as u64;
                        if !presences.is_empty() {
                            let answer = Message { presences, ..Message::default() };
                            self.exchange.received(self.now(), peer, answer);
                        }
                        if bytes == 0 {
                            self.guest_has_room(peer);
                        }
                    }
                }
                Output::Look { cid } => {
                    let len = self.len_of(&cid);
                    if len.is_some() || !self.elsewhere.wanted(&cid, self.asker) {
                        self.exchange.found(self.now(), &cid, len);
                    }
                }
                Output::Read { peer, cid } => match Block::implied_by(&cid) {
                    Some(block) => self.exchange.read(self.now(), peer, &cid, Some(block)),
                    None => self.reader.read(Whose::Peer(peer), cid),
                },
                Output::List { node } => self.reader.read(Whose::List, node),
                Output::Got { sessions, block, from } => self.got(&sessions, &block, from),
                Output::FindProviders { session, cid } => self.find(session, &cid),
                Output::Drop { peer, reason } => {
                    if let Some(id) = self.peers.forget(peer) {
                        self.drop_peer(id, &reason.to_string());
                    } else if self.guests.dismiss(peer) {
                        tracing::debug!(%reason, "sent a guest away");
                        self.stats.dropped_peers += 1;
                    }
                }
            }
        }
    }

    fn got(&mut self, sessions: &[SessionId], block: &Block, from: Peer) {
        if let Some(id) = self.peers.id_of(from) {
            self.trimming.used(id, Instant::now());
        }
        for SessionId(session) in sessions {
            if let Some(sought) = self.seekers.get(&SeekerId(*session)) {
                // Who is gone is noticed as such.
                let _ = sought.send(Sought::Here(block.clone()));
            }
        }
        let fetches = sessions.iter().filter_map(|session| self.sessions.get(session));
        for fetch in fetches {
            let Some(running) = self.fetches.get_mut(fetch) else { continue };
            let arrived = Arrived::Block { block: block.clone(), from: from.0 };
            // A fetch that has just ended needs it no more.
            if running.arrived.send(arrived).is_ok() {
                running.unwritten_bytes += block.bytes().len();
                self.unwritten_bytes += block.bytes().len();
            }
        }
    }

    fn find(&mut self, session: SessionId, cid: &Cid) {
        if let Some(running) = self.sessions.get(&session).and_then(|id| self.fetches.get(id)) {
            let _ = running.arrived.send(Arrived::Searching(true));
        }
        if let Some(sought) = self.seekers.get(&SeekerId(session.0)) {
            let _ = sought.send(Sought::Searching(cid.clone()));
        }
        if !self.routing.find(&mut self.swarm, session, cid) {
            self.exchange.providers(self.now(), session, &[]);
        }
    }

    /// Closes what connects us with a peer that is no good.
    fn drop_peer(&mut self, id: PeerId, reason: &str) {
        tracing::warn!(peer = %id, reason, "dropped a peer");
        self.stats.dropped_peers += 1;
        self.swarm.behaviour_mut().streams.ignore(id);
        // Gone already is as good.
        let _ = self.swarm.disconnect_peer_id(id);
    }

    fn swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Streams(event)) => self.stream_event(event),
            SwarmEvent::Behaviour(BehaviourEvent::Kad(event)) => {
                let found = self.routing.handle(&mut self.swarm, event);
                if let Some((session, providers)) = found {
                    let peers: Vec<Peer> =
                        providers.iter().map(|id| self.peers.name(*id)).collect();
                    self.exchange.providers(self.now(), session, &peers);
                }
            }
            SwarmEvent::Behaviour(BehaviourEvent::Identify(event)) => {
                self.routing.identified(&mut self.swarm, event);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Ping(event)) => self.ping(event),
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, .. } => {
                self.bootstrap.connected(connection_id);
                self.trimming.connected(peer_id, Instant::now());
                if let Some(dial) = self.dials.remove(&connection_id) {
                    let _ = dial.reply.send(Ok(peer_id));
                }
                self.trim();
            }
            SwarmEvent::ConnectionClosed { peer_id, connection_id, num_established, .. } => {
                if num_established == 0 {
                    self.trimming.gone(&peer_id);
                    // Else what came from it is still to be heard, and that its streams are closed.
                    if self.peers.connected(&peer_id).is_none() {
                        self.has_left(&peer_id);
                    }
                }
                self.pings_lost.remove(&connection_id);
                self.bootstrap.ended(connection_id, Instant::now());
            }
            SwarmEvent::OutgoingConnectionError { connection_id, error, .. } => {
                self.bootstrap.ended(connection_id, Instant::now());
                if let Some(Dial { address, reply }) = self.dials.remove(&connection_id) {
                    let _ = reply.send(Err(failed(address, &error)));
                }
            }
            SwarmEvent::NewListenAddr { listener_id, address } => {
                // Only these are told with what is provided.
                self.swarm.add_external_address(address);
                self.tell_addresses();
                self.listeners.retain(|(id, _)| *id != listener_id);
                self.tell_ready();
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.swarm.remove_external_address(&address);
                self.tell_addresses();
            }
            SwarmEvent::ListenerClosed { listener_id, reason, addresses } => {
                addresses.iter().for_each(|one| self.swarm.remove_external_address(one));
                self.tell_addresses();
                self.listener_closed(listener_id, reason);
            }
            _ => {}
        }
    }

    /// Tells those who wait for it that nothing is left of a peer.
    fn has_left(&mut self, peer: &PeerId) {
        for reply in self.leaving.remove(peer).unwrap_or_default() {
            let _ = reply.send(());
        }
    }

    /// Parts from those who were of no use, before there is no room for others.
    fn trim(&mut self) {
        let connections = self.connections();
        let bootstrap = &self.bootstrap;
        let surplus =
            self.trimming.surplus(connections, Instant::now(), |peer| bootstrap.is_kept(peer));
        for peer in surplus {
            tracing::debug!(%peer, connections, "closed an unused connection");
            self.stats.trimmed_peers += 1;
            self.trimming.gone(&peer);
            // Gone already is as good.
            let _ = self.swarm.disconnect_peer_id(peer);
        }
    }

    fn connections(&self) -> usize {
        self.swarm.network_info().connection_counters().num_established() as usize
    }

    fn listener_closed(&mut self, listener: ListenerId, reason: Result<(), io::Error>) {
        let error = reason.err().map_or_else(|| "closed".to_owned(), |error| error.to_string());
        match self.listeners.iter().position(|(id, _)| *id == listener) {
            Some(at) => {
                let (_, address) = self.listeners.swap_remove(at);
                if let Some(ready) = self.ready.take() {
                    let _ = ready.send(Err(StartError::Listen { address, error }));
                }
            }
            None => tracing::error!(error, "stopped listening on an address"),
        }
    }

    fn tell_addresses(&mut self) {
        let id = *self.swarm.local_peer_id();
        let whole =
            |address: &Multiaddr| address.clone().with_p2p(id).unwrap_or_else(|address| address);
        self.addresses.send_replace(self.swarm.listeners().map(whole).collect());
    }

    fn stream_event(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Opened { peer, protocol } => {
                let name = self.peers.connect(peer);
                self.exchange.connected(now, name, protocol);
                self.exchange.writable(now, name, self.swarm.behaviour().streams.room(&peer));
            }
            Event::Closed { peer } => {
                if let Some(name) = self.peers.disconnect(&peer) {
                    self.exchange.disconnected(now, name);
                }
                if !self.swarm.is_connected(&peer) {
                    self.has_left(&peer);
                }
            }
            Event::Arriving { peer } => {
                if let Some(name) = self.peers.connected(&peer) {
                    self.exchange.arriving(now, name);
                }
            }
            Event::Message { peer, message, bytes, place } => {
                self.stats.received_messages += 1;
                self.stats.received_bytes += bytes as u64;
                if let Some(name) = self.peers.connected(&peer) {
                    self.asker = Asker::Peer;
                    self.exchange.received(now, name, message);
                }
                drop(place);
            }
            Event::Written { peer } => {
                if let Some(name) = self.peers.connected(&peer) {
                    let room = self.swarm.behaviour().streams.room(&peer);
                    self.exchange.writable(now, name, room);
                }
            }
            Event::Malformed { peer, error, so_far } => {
                self.stats.malformed_messages += 1;
                tracing::debug!(%peer, error, "a message that cannot be read");
                if so_far > self.limits.streams.malformed_max {
                    if let Some(name) = self.peers.disconnect(&peer) {
                        self.exchange.disconnected(now, name);
                    }
                    self.drop_peer(peer, "it kept sending messages that cannot be read");
                }
            }
        }
    }

    fn ping(&mut self, event: ping::Event) {
        match event.result {
            Err(ping::Failure::Timeout) => {
                let lost = self.pings_lost.entry(event.connection).or_default();
                *lost += 1;
                if *lost >= PINGS_LOST_MAX {
                    tracing::debug!(peer = %event.peer, "a connection does not answer any more");
                    self.swarm.close_connection(event.connection);
                }
            }
            Ok(_) | Err(_) => drop(self.pings_lost.remove(&event.connection)),
        }
    }

    fn peer_stats(&self) -> Vec<PeerStats> {
        let stats = |peer| {
            let totals = self.exchange.peer(peer)?;
            Some(PeerStats {
                peer: self.peers.id_of(peer)?,
                protocol: self.exchange.protocol(peer)?,
                received_blocks: totals.blocks_in,
                received_block_bytes: totals.bytes_in,
                sent_blocks: totals.blocks_out,
                sent_block_bytes: totals.bytes_out,
                asked_blocks: totals.asked_blocks,
                wanted_blocks: totals.wants,
                latency: totals.latency,
            })
        };
        self.exchange.peers().filter_map(stats).collect()
    }

    fn stats(&self) -> HostStats {
        let totals = self.exchange.totals();
        HostStats {
            connections: self.connections(),
            peers: self.exchange.peers().count(),
            received_blocks: totals.blocks_in,
            received_block_bytes: totals.bytes_in,
            sent_blocks: totals.blocks_out,
            sent_block_bytes: totals.bytes_out,
            duplicate_block_bytes: totals.duplicate_bytes + totals.unasked_bytes,
            fetches: self.fetches.len(),
            unwritten_bytes: self.unwritten_bytes,
            ..self.stats.clone()
        }
    }
}

fn failed(address: Multiaddr, error: &DialError) -> ConnectError {
    ConnectError::Failed { address, error: error.to_string() }
}
