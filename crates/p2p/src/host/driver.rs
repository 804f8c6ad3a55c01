//! The task of a host. It passes the events of the network, the disk and the handles to the
//! exchange, and handles the outputs of the exchange.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use libp2p::PeerId;
use libp2p::swarm::{Swarm, SwarmEvent};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use watchfire_bitswap::{Exchange, Message, Output, SessionId};
use watchfire_content::{Block, Cid};
use watchfire_store::{ReadBlocks, WriteBlocks};
use watchfire_types::{Instant as CoreInstant, TraceContext};

use super::block_questions::BlockQuestions;
use super::bootstrap::Bootstrap;
use super::clock::PausableClock;
use super::connections::{self, Connections};
use super::external_peers::ExternalPeers;
use super::fetches::Fetches;
use super::listeners::{Listeners, PendingListeners, Ready};
use super::local_blocks::LocalBlocks;
#[cfg(feature = "mdns")]
use super::local_discovery;
use super::peer_numbers::{PeerNumber, PeerNumbers};
use super::requests::Requests;
use super::routing::{self, Routing};
use super::sessions::BlockSessions;
use super::traces::Traces;
use crate::behaviour::{Behaviour, BehaviourEvent};
use crate::command::Command;
use crate::external::TransportEvent;
use crate::fallback::{FallbackSource, RequestOrigin};
use crate::fetch::{Fetch, FetchError, FetchScope};
use crate::settings::{HostLimits, HostSettings};
use crate::streams::StreamEvent;
use crate::{HostStats, Multiaddr, PeerStats};

pub(super) struct Driver {
    swarm: Swarm<Behaviour>,
    exchange: Exchange<PeerNumber>,
    clock: PausableClock,
    limits: HostLimits,
    peer_numbers: PeerNumbers,
    connections: Connections,
    listeners: Listeners,
    external_peers: ExternalPeers,
    transport_events: mpsc::Receiver<TransportEvent>,
    blocks: LocalBlocks,
    sessions: BlockSessions,
    questions: BlockQuestions,
    fetches: Fetches,
    routing: Routing,
    requests: Requests,
    traces: Traces,
    parts_received: Arc<AtomicU64>,
    /// The totals that neither the exchange nor another part counts.
    counters: HostStats,
}

impl Driver {
    pub(super) fn new(
        swarm: Swarm<Behaviour>,
        settings: HostSettings,
        stores: Arc<dyn ReadBlocks>,
        fallback: Arc<dyn FallbackSource>,
        transport_events: mpsc::Receiver<TransportEvent>,
        addresses: watch::Sender<Vec<Multiaddr>>,
        parts_received: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
        let now = Instant::now();
        let own = *swarm.local_peer_id();
        let routing = Routing::new(&settings);
        let bootstrap = Bootstrap::new(settings.bootstrap, settings.dht_peers, now);
        Ok(Driver {
            swarm,
            routing,
            exchange: Exchange::new(settings.exchange, u64::from_le_bytes(seed)),
            clock: PausableClock::new(now),
            peer_numbers: PeerNumbers::default(),
            connections: Connections::new(own, bootstrap, &settings.limits),
            limits: settings.limits,
            listeners: Listeners::new(addresses),
            external_peers: ExternalPeers::default(),
            transport_events,
            blocks: LocalBlocks::new(stores, fallback)?,
            sessions: BlockSessions::default(),
            questions: BlockQuestions::default(),
            fetches: Fetches::new(),
            requests: Requests::default(),
            traces: Traces::default(),
            parts_received,
            counters: HostStats::default(),
        })
    }

    /// Completes `ready` when all listeners have an address.
    pub(super) fn set_listeners(&mut self, pending: PendingListeners, ready: Ready) {
        self.listeners.set_pending(pending, ready);
    }

    /// Runs until a stop command, or until all handles are dropped.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        self.routing.start(&mut self.swarm);
        loop {
            self.update_pause();
            let is_paused = self.clock.is_paused();
            let wake = self.next_wake();
            let wait = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Stop) | None => break,
                    Some(command) => self.handle_command(command),
                },
                update = self.fetches.next() => {
                    let mut next = Some(update);
                    while let Some(update) = next {
                        let now = self.now();
                        self.fetches.handle(&mut self.exchange, now, &self.blocks, update);
                        next = self.fetches.try_next();
                    }
                    self.end_traced_sessions();
                }
                Some(read) = self.blocks.next_read() => {
                    let now = self.now();
                    self.blocks.handle_read(&mut self.exchange, now, read);
                }
                Some(event) = self.transport_events.recv(), if !is_paused => {
                    self.handle_transport_event(event);
                }
                Some(peer) = self.external_peers.next_ended() => {
                    if let Some(peer) = self.external_peers.disconnect(peer) {
                        self.traces.handle_disconnected(peer);
                        self.exchange.handle_disconnected(self.now(), peer);
                    }
                }
                Some(answer) = self.requests.next_answer() => {
                    self.requests.handle_answer(&mut self.swarm, answer);
                }
                Some(session) = self.sessions.next_dropped() => {
                    self.exchange.stop_session(self.now(), session);
                    self.end_traced_sessions();
                }
                event = self.swarm.select_next_some(), if !is_paused => {
                    self.handle_swarm_event(event);
                }
                () = wait, if !is_paused => self.handle_tick(),
            }
            self.handle_outputs();
        }
    }

    /// Pauses the host while too many bytes wait for the disk. A paused host reads nothing from the
    /// network.
    fn update_pause(&mut self) {
        let is_behind = self.fetches.unwritten_bytes() > self.limits.unwritten_bytes_max;
        self.clock.set_paused(is_behind, Instant::now());
    }

    fn now(&self) -> CoreInstant {
        self.clock.at(Instant::now())
    }

    fn next_wake(&self) -> Option<Instant> {
        let exchange = self.exchange.next_wake().map(|at| self.clock.wake_at(at));
        let wakes = [exchange, self.connections.next_wake(), self.traces.next_wake()];
        wakes.into_iter().flatten().min()
    }

    fn handle_tick(&mut self) {
        let now = self.now();
        if self.exchange.next_wake().is_some_and(|at| at <= now) {
            self.exchange.handle_tick(now);
        }
        self.connections.handle_tick(&mut self.swarm, Instant::now());
        self.traces.handle_tick(Instant::now());
    }

    fn end_traced_sessions(&mut self) {
        let (fetches, sessions) = (&self.fetches, &self.sessions);
        self.traces
            .end_sessions(|session| fetches.has_session(session) || sessions.is_open(session));
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Connect { address, reply } => {
                self.connections.connect(&mut self.swarm, address, reply);
            }
            Command::Disconnect { peer, reply } => {
                self.connections.disconnect(&mut self.swarm, peer, reply);
            }
            Command::Provide { cid, reply } => self.routing.provide(&mut self.swarm, &cid, reply),
            Command::StopProviding { cid } => self.routing.stop_providing(&mut self.swarm, &cid),
            Command::FindProviders { cid, reply } => {
                self.routing.find_for_caller(&mut self.swarm, &cid, reply);
            }
            Command::ClosestPeers { key, reply } => {
                self.routing.find_closest(&mut self.swarm, key, reply);
            }
            Command::KnownPeers { reply } => {
                let _ = reply.send(routing::known_peers(&mut self.swarm));
            }
            Command::Request { peer, bytes, reply } => {
                self.requests.send(&mut self.swarm, peer, bytes, reply);
            }
            Command::AnswerRequests { inbound } => self.requests.set_inbound(inbound),
            Command::Fetch { root, scope, store, trace, reply } => {
                // Without a caller, the dropped handle cancels the fetch.
                let _ = reply.send(self.start_fetch(root, scope, store, trace));
            }
            Command::OpenSession { events, trace, reply } => {
                let session = self.exchange.start_session(self.now());
                self.traces.start_session(trace, session);
                self.sessions.open(session, events);
                let _ = reply.send(session);
            }
            Command::Want { session, wants } => {
                if self.sessions.is_open(session) {
                    self.traces.note_wants(session, &wants);
                    self.exchange.want(self.now(), session, wants);
                }
            }
            Command::SetGrowing { session, is_growing } => {
                if self.sessions.is_open(session) {
                    self.exchange.set_growing(self.now(), session, is_growing);
                }
            }
            Command::CancelWants { session, cids } => {
                if self.sessions.is_open(session) {
                    self.exchange.cancel_wants(self.now(), session, &cids);
                }
            }
            Command::SetUrgent { cids } => self.exchange.set_urgent(self.now(), &cids),
            Command::BlockStored { cid, bytes } => {
                // Peers that wait for the fallback source are served first.
                self.exchange.handle_lookup(self.now(), &cid, Some(bytes));
                self.exchange.handle_stored(self.now(), &cid, bytes);
            }
            Command::BlockObtained { cid, bytes, origin } => {
                let (now, numbers) = (self.now(), &self.peer_numbers);
                let is_for = |peer| origin_of(numbers, peer) == origin;
                self.exchange.handle_stored_for(now, &cid, bytes, is_for);
                if origin == RequestOrigin::Libp2p {
                    self.exchange.announce_leaf(now, &cid);
                }
            }
            Command::BlockUnavailable { cid, origin } => {
                let (now, numbers) = (self.now(), &self.peer_numbers);
                let is_for = |peer| origin_of(numbers, peer) == origin;
                self.exchange.handle_unavailable_for(now, &cid, is_for);
            }
            Command::Ask { peers, cid, reply } => self.ask(peers, cid, reply),
            Command::Peers { reply } => drop(reply.send(self.peer_stats())),
            Command::Stats { reply } => drop(reply.send(self.stats())),
            Command::Stop => {}
        }
    }

    fn ask(
        &mut self,
        peers: Option<Vec<PeerId>>,
        cid: Cid,
        reply: oneshot::Sender<Option<PeerId>>,
    ) {
        let numbers = &self.peer_numbers;
        let numbered = |id: PeerId| Some((numbers.connected(&id)?, id));
        let asked: Vec<(PeerNumber, PeerId)> = match &peers {
            Some(peers) => peers.iter().copied().filter_map(numbered).collect(),
            None => self
                .exchange
                .peers()
                .filter_map(|peer| Some((peer, numbers.id_of(peer)?)))
                .collect(),
        };
        let is_named = peers.is_some();
        let now = self.now();
        self.questions.ask(&mut self.exchange, now, asked, is_named, cid, reply);
    }

    fn start_fetch(
        &mut self,
        root: Cid,
        scope: FetchScope,
        store: Arc<dyn WriteBlocks>,
        trace: Option<TraceContext>,
    ) -> Result<Fetch, FetchError> {
        let max = self.limits.fetches_max;
        if self.fetches.len() >= max {
            return Err(FetchError::TooMany { max });
        }
        let (now, limits) = (self.now(), self.limits.fetch.clone());
        let fetch = (root.clone(), scope, store);
        let (session, fetch) =
            self.fetches.start(&mut self.exchange, now, &self.blocks, limits, fetch)?;
        self.traces.start_fetch(trace, session, &root);
        Ok(fetch)
    }

    fn handle_part(&mut self, now: CoreInstant, from: Option<PeerNumber>) {
        if let Some(peer) = from {
            self.parts_received.fetch_add(1, Ordering::Relaxed);
            self.exchange.handle_partial_message(now, peer);
        }
    }

    fn handle_transport_event(&mut self, event: TransportEvent) {
        let now = self.now();
        match event {
            TransportEvent::Connected { peer, protocol, filter, commands } => {
                let number = self.peer_numbers.next_number();
                self.external_peers.connect(peer, number, protocol, filter, commands);
                self.exchange.handle_connected(now, number, protocol);
                self.exchange.handle_acknowledged(now, number, 0);
                self.update_external_room(number);
            }
            TransportEvent::Disconnected { peer } => {
                if let Some(peer) = self.external_peers.disconnect(peer) {
                    self.traces.handle_disconnected(peer);
                    self.exchange.handle_disconnected(now, peer);
                }
            }
            TransportEvent::Receiving { peer } => {
                self.handle_part(now, self.external_peers.number_of(peer));
            }
            TransportEvent::Message { peer, message, bytes, .. } => {
                let peer = self.external_peers.number_of(peer);
                self.handle_message(peer, message, bytes);
            }
            TransportEvent::Malformed { peer } => {
                self.counters.malformed_messages += 1;
                if let Some(peer) = self.external_peers.number_of(peer)
                    && self.external_peers.count_malformed(peer)
                {
                    self.exchange.handle_disconnected(now, peer);
                    self.counters.dropped_peers += 1;
                    self.external_peers.ban(peer);
                }
            }
            TransportEvent::Sent { peer, bytes } => {
                if let Some(peer) = self.external_peers.number_of(peer) {
                    self.external_peers.handle_sent(peer, bytes);
                    self.update_external_room(peer);
                }
            }
            TransportEvent::Acknowledged { peer, messages } => {
                if let Some(peer) = self.external_peers.number_of(peer) {
                    self.exchange.handle_acknowledged(now, peer, messages);
                }
            }
        }
    }

    /// Passes a message to the exchange; `None` if its peer has disconnected meanwhile.
    fn handle_message(&mut self, peer: Option<PeerNumber>, message: Message, bytes: usize) {
        self.counters.received_messages += 1;
        self.counters.received_bytes += bytes as u64;
        if let Some(peer) = peer {
            if let Some(trace) = message.trace {
                self.traces.note_requests(trace, peer, self.peer_numbers.id_of(peer));
            }
            self.exchange.handle_message(self.now(), peer, message);
        }
    }

    fn update_external_room(&mut self, peer: PeerNumber) {
        let room = self.external_peers.room(peer, self.limits.streams.send_queue_bytes_max);
        self.exchange.handle_writable(self.now(), peer, room);
    }

    fn handle_outputs(&mut self) {
        while let Some(output) = self.exchange.poll_output() {
            let now = self.now();
            match output {
                Output::Send { peer, message } => self.send(peer, message),
                Output::Lookup { cid } => {
                    // All are of one kind: a lookup ends before the next message, or is deferred.
                    let peer = self.exchange.peers_of_lookup(&cid).first();
                    let origin = peer.map_or(RequestOrigin::Libp2p, |peer| self.origin_of(*peer));
                    self.blocks.look_up(&mut self.exchange, now, &cid, origin);
                }
                Output::Read { peer, cid } => {
                    let reader = (peer, self.origin_of(peer));
                    self.blocks.read(&mut self.exchange, now, reader, cid);
                }
                Output::ListLinks { node } => {
                    self.blocks.read_links(&mut self.exchange, now, node);
                }
                Output::Answered { peer, cid, has_block } => {
                    self.questions.handle_answer(peer, &cid, has_block);
                }
                Output::BlockReceived { sessions, block, from } => {
                    self.handle_block(&sessions, &block, from);
                }
                Output::FindProviders { session, cid } => self.find_providers(session, &cid),
                Output::DropPeer { peer, reason } => {
                    if let Some(id) = self.peer_numbers.remove(peer) {
                        self.drop_peer(id, &reason.to_string());
                    } else if self.external_peers.ban(peer) {
                        tracing::debug!(%reason, "banned an external peer");
                        self.counters.dropped_peers += 1;
                    }
                }
            }
        }
    }

    fn send(&mut self, peer: PeerNumber, mut message: Message) {
        self.counters.sent_messages += 1;
        self.traces.add_to(&mut message, peer, self.peer_numbers.id_of(peer));
        self.traces.note_sent(&message, peer);
        if let Some(id) = self.peer_numbers.id_of(peer) {
            if !message.blocks.is_empty() {
                self.connections.note_block_moved(id);
            }
            let bytes = self.swarm.behaviour_mut().streams.send(id, message);
            self.counters.sent_bytes += bytes as u64;
            return;
        }
        let sent = self.external_peers.send(peer, message);
        self.counters.sent_bytes += sent.bytes as u64;
        if !sent.filtered.is_empty() {
            let reply = Message { presences: sent.filtered, ..Message::default() };
            self.exchange.handle_message(self.now(), peer, reply);
        }
        if sent.bytes == 0 {
            self.update_external_room(peer);
        }
    }

    fn origin_of(&self, peer: PeerNumber) -> RequestOrigin {
        origin_of(&self.peer_numbers, peer)
    }

    fn handle_block(&mut self, sessions: &[SessionId], block: &Block, from: PeerNumber) {
        let id = self.peer_numbers.id_of(from);
        if let Some(id) = id {
            self.connections.note_block_moved(id);
        }
        self.traces.note_received(sessions, block, from);
        self.sessions.send_block(sessions, block, id);
        self.fetches.send_block(sessions, block, from);
    }

    fn find_providers(&mut self, session: SessionId, cid: &Cid) {
        self.fetches.send_searching(session);
        self.sessions.send_searching(session, cid);
        self.traces.begin_search(session, cid);
        if !self.routing.find_for_session(&mut self.swarm, session, cid) {
            self.traces.end_search(session, 0);
            self.exchange.handle_providers(self.now(), session, &[]);
        }
    }

    /// Disconnects a peer that broke the protocol.
    fn drop_peer(&mut self, id: PeerId, reason: &str) {
        tracing::warn!(peer = %id, reason, "dropped a peer");
        self.counters.dropped_peers += 1;
        self.swarm.behaviour_mut().streams.stop_receiving(id);
        // It fails only if the peer is disconnected already.
        let _ = self.swarm.disconnect_peer_id(id);
    }

    fn handle_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let swarm = &mut self.swarm;
        match event {
            SwarmEvent::Behaviour(event) => self.handle_behaviour_event(event),
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, .. } => {
                self.connections.handle_established(swarm, peer_id, connection_id, Instant::now());
            }
            SwarmEvent::ConnectionClosed { peer_id, connection_id, num_established, .. } => {
                let (is_last, now) = (num_established == 0, Instant::now());
                self.connections.handle_closed(&peer_id, connection_id, is_last, now);
                // A peer that is still in the exchange is gone only after the event that closes its
                // streams.
                if is_last && self.peer_numbers.connected(&peer_id).is_none() {
                    self.connections.handle_peer_gone(&peer_id);
                }
            }
            SwarmEvent::OutgoingConnectionError { connection_id, error, .. } => {
                self.connections.handle_dial_error(connection_id, &error, Instant::now());
            }
            SwarmEvent::NewListenAddr { listener_id, address } => {
                #[cfg(feature = "mdns")]
                local_discovery::check_address(swarm, &address);
                self.listeners.handle_new_address(swarm, listener_id, address);
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.listeners.handle_expired_address(swarm, &address);
            }
            SwarmEvent::ListenerClosed { listener_id, reason, addresses } => {
                self.listeners.handle_closed(swarm, listener_id, reason, &addresses);
            }
            _ => {}
        }
    }

    fn handle_behaviour_event(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Streams(event) => self.handle_stream_event(event),
            BehaviourEvent::Kad(event) => {
                let found = self.routing.handle_event(&mut self.swarm, event);
                if let Some((session, providers)) = found {
                    let peers: Vec<PeerNumber> =
                        providers.iter().map(|id| self.peer_numbers.number_of(*id)).collect();
                    self.traces.end_search(session, peers.len());
                    self.exchange.handle_providers(self.now(), session, &peers);
                }
            }
            BehaviourEvent::Requests(event) => self.requests.handle_event(event),
            BehaviourEvent::Identify(event) => {
                self.routing.handle_identify(&mut self.swarm, event);
            }
            #[cfg(feature = "mdns")]
            BehaviourEvent::Mdns(event) => {
                let peers = self.connections.local_peers();
                local_discovery::handle_event(&mut self.swarm, peers, event, Instant::now());
            }
            BehaviourEvent::Ping(event) => self.connections.handle_ping(&mut self.swarm, event),
            _ => {}
        }
    }

    fn handle_stream_event(&mut self, event: StreamEvent) {
        let now = self.now();
        match event {
            StreamEvent::Opened { peer, protocol } => {
                let number = self.peer_numbers.connect(peer);
                self.exchange.handle_connected(now, number, protocol);
                let room = self.swarm.behaviour().streams.room(&peer);
                self.exchange.handle_writable(now, number, room);
            }
            StreamEvent::Closed { peer } => {
                if let Some(number) = self.peer_numbers.disconnect(&peer) {
                    self.traces.handle_disconnected(number);
                    self.exchange.handle_disconnected(now, number);
                }
                if !self.swarm.is_connected(&peer) {
                    self.connections.handle_peer_gone(&peer);
                }
            }
            StreamEvent::Receiving { peer } => {
                self.handle_part(now, self.peer_numbers.connected(&peer));
            }
            StreamEvent::Message { peer, message, bytes, reservation } => {
                let number = self.peer_numbers.connected(&peer);
                self.handle_message(number, message, bytes);
                drop(reservation);
            }
            StreamEvent::Written { peer } => {
                if let Some(number) = self.peer_numbers.connected(&peer) {
                    let room = self.swarm.behaviour().streams.room(&peer);
                    self.exchange.handle_writable(now, number, room);
                }
            }
            StreamEvent::Malformed { peer, error, count } => {
                self.counters.malformed_messages += 1;
                tracing::debug!(%peer, error, "received a malformed message");
                if count > self.limits.streams.malformed_messages_max {
                    if let Some(number) = self.peer_numbers.disconnect(&peer) {
                        self.exchange.handle_disconnected(now, number);
                    }
                    self.drop_peer(peer, "it sent too many malformed messages");
                }
            }
        }
    }

    fn peer_stats(&self) -> Vec<PeerStats> {
        let stats = |peer| {
            let totals = self.exchange.peer(peer)?;
            Some(PeerStats {
                peer: self.peer_numbers.id_of(peer)?,
                protocol: self.exchange.protocol(peer)?,
                received_blocks: totals.blocks_in,
                received_block_bytes: totals.bytes_in,
                sent_blocks: totals.blocks_out,
                sent_block_bytes: totals.bytes_out,
                requested_blocks: totals.requested_blocks,
                wanted_blocks: totals.wants,
                latency: totals.latency,
            })
        };
        self.exchange.peers().filter_map(stats).collect()
    }

    fn stats(&self) -> HostStats {
        let totals = self.exchange.totals();
        HostStats {
            connections: connections::established(&self.swarm),
            peers: self.exchange.peers().count(),
            received_blocks: totals.blocks_in,
            received_block_bytes: totals.bytes_in,
            sent_blocks: totals.blocks_out,
            sent_block_bytes: totals.bytes_out,
            duplicate_block_bytes: totals.duplicate_bytes + totals.unsolicited_bytes,
            trimmed_peers: self.connections.trimmed_peers(),
            fetches: self.fetches.len(),
            unwritten_bytes: self.fetches.unwritten_bytes(),
            paused: self.clock.paused(),
            ..self.counters.clone()
        }
    }
}

fn origin_of(numbers: &PeerNumbers, peer: PeerNumber) -> RequestOrigin {
    match numbers.id_of(peer) {
        Some(_) => RequestOrigin::Libp2p,
        None => RequestOrigin::External,
    }
}
