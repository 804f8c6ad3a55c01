//! The libp2p connections of a host: dials, disconnects, pings and the connection limit.

use std::collections::BTreeMap;

use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{ConnectionId, DialError, Swarm};
use libp2p::{Multiaddr, PeerId, ping};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::bootstrap::Bootstrap;
use super::connection_trimmer::ConnectionTrimmer;
use super::local_peers::LocalPeers;
use crate::behaviour::{Behaviour, UNANSWERED_PINGS_MAX};
use crate::error::ConnectError;
use crate::settings::HostLimits;

type ConnectReply = oneshot::Sender<Result<PeerId, ConnectError>>;

pub(super) struct Connections {
    bootstrap: Bootstrap,
    local: LocalPeers,
    trimmer: ConnectionTrimmer,
    dials: BTreeMap<ConnectionId, Dial>,
    /// For each peer that is being disconnected, the callers that wait for it.
    disconnects: BTreeMap<PeerId, Vec<oneshot::Sender<()>>>,
    /// Consecutive pings without an answer; connections that answer have no entry.
    unanswered_pings: BTreeMap<ConnectionId, u32>,
    trimmed_peers: u64,
}

/// A dial whose caller waits for its result.
struct Dial {
    address: Multiaddr,
    reply: ConnectReply,
}

impl Connections {
    pub(super) fn new(own: PeerId, bootstrap: Bootstrap, limits: &HostLimits) -> Self {
        Connections {
            local: LocalPeers::new(own),
            bootstrap,
            trimmer: ConnectionTrimmer::new(limits.connections_max, limits.trim_grace_period),
            dials: BTreeMap::new(),
            disconnects: BTreeMap::new(),
            unanswered_pings: BTreeMap::new(),
            trimmed_peers: 0,
        }
    }

    /// Peers that were disconnected because of the connection limit.
    pub(super) fn trimmed_peers(&self) -> u64 {
        self.trimmed_peers
    }

    /// When to call [`Connections::handle_tick`].
    pub(super) fn next_wake(&self) -> Option<Instant> {
        [self.bootstrap.next_wake(), self.local.next_wake()].into_iter().flatten().min()
    }

    /// The peers that were discovered on the local network.
    #[cfg(feature = "mdns")]
    pub(super) fn local_peers(&mut self) -> &mut LocalPeers {
        &mut self.local
    }

    /// Dials the bootstrap peers and the discovered peers that are due.
    pub(super) fn handle_tick(&mut self, swarm: &mut Swarm<Behaviour>, now: Instant) {
        for address in self.bootstrap.due(now, |peer| swarm.is_connected(peer)) {
            let options = DialOpts::from(address.clone());
            let connection = options.connection_id();
            match swarm.dial(options) {
                Ok(()) => self.bootstrap.handle_dialled(&address, connection),
                Err(_) => self.bootstrap.handle_failed(&address, now),
            }
        }
        for (peer, addresses) in self.local.due(now, |peer| swarm.is_connected(peer)) {
            let options = DialOpts::peer_id(peer).addresses(addresses).build();
            if let Err(error) = swarm.dial(options) {
                tracing::debug!(%peer, %error, "cannot dial a discovered peer");
            }
        }
    }

    pub(super) fn connect(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        address: Multiaddr,
        reply: ConnectReply,
    ) {
        let options = DialOpts::from(address.clone());
        if let Some(peer) = options.get_peer_id()
            && swarm.is_connected(&peer)
        {
            return drop(reply.send(Ok(peer)));
        }
        let connection = options.connection_id();
        match swarm.dial(options) {
            Ok(()) => drop(self.dials.insert(connection, Dial { address, reply })),
            Err(error) => drop(reply.send(Err(connect_error(address, &error)))),
        }
    }

    pub(super) fn disconnect(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        peer: PeerId,
        reply: oneshot::Sender<()>,
    ) {
        match swarm.disconnect_peer_id(peer) {
            Ok(()) => self.disconnects.entry(peer).or_default().push(reply),
            Err(()) => drop(reply.send(())),
        }
    }

    /// Replies to the callers that wait until a peer is disconnected.
    pub(super) fn handle_peer_gone(&mut self, peer: &PeerId) {
        for reply in self.disconnects.remove(peer).unwrap_or_default() {
            let _ = reply.send(());
        }
    }

    pub(super) fn handle_established(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        peer: PeerId,
        connection: ConnectionId,
        now: Instant,
    ) {
        self.bootstrap.handle_connected(connection, now);
        self.trimmer.handle_connected(peer, now);
        if let Some(dial) = self.dials.remove(&connection) {
            let _ = dial.reply.send(Ok(peer));
        }
        self.trim(swarm, now);
    }

    pub(super) fn handle_closed(
        &mut self,
        peer: &PeerId,
        connection: ConnectionId,
        is_last: bool,
        now: Instant,
    ) {
        if is_last {
            self.trimmer.handle_disconnected(peer);
        }
        self.unanswered_pings.remove(&connection);
        self.bootstrap.handle_ended(connection, now);
    }

    pub(super) fn handle_dial_error(
        &mut self,
        connection: ConnectionId,
        error: &DialError,
        now: Instant,
    ) {
        self.bootstrap.handle_ended(connection, now);
        if let Some(Dial { address, reply }) = self.dials.remove(&connection) {
            let _ = reply.send(Err(connect_error(address, error)));
        }
    }

    /// Closes a connection after too many pings without an answer.
    pub(super) fn handle_ping(&mut self, swarm: &mut Swarm<Behaviour>, event: ping::Event) {
        match event.result {
            Err(ping::Failure::Timeout) => {
                let unanswered = self.unanswered_pings.entry(event.connection).or_default();
                *unanswered += 1;
                if *unanswered >= UNANSWERED_PINGS_MAX {
                    tracing::debug!(peer = %event.peer, "closed a connection: pings timed out");
                    swarm.close_connection(event.connection);
                }
            }
            Ok(_) | Err(_) => drop(self.unanswered_pings.remove(&event.connection)),
        }
    }

    pub(super) fn note_block_moved(&mut self, peer: PeerId) {
        self.trimmer.note_block_moved(peer, Instant::now());
    }

    /// Disconnects idle peers to make room for new ones.
    fn trim(&mut self, swarm: &mut Swarm<Behaviour>, now: Instant) {
        let connections = established(swarm);
        let surplus = self.trimmer.surplus(connections, now, |peer| self.bootstrap.contains(peer));
        for peer in surplus {
            tracing::debug!(%peer, connections, "closed an unused connection");
            self.trimmed_peers += 1;
            self.trimmer.handle_disconnected(&peer);
            // It fails only if the peer is disconnected already.
            let _ = swarm.disconnect_peer_id(peer);
        }
    }
}

/// The number of open connections.
pub(super) fn established(swarm: &Swarm<Behaviour>) -> usize {
    swarm.network_info().connection_counters().num_established() as usize
}

fn connect_error(address: Multiaddr, error: &DialError) -> ConnectError {
    ConnectError::Failed { address, error: error.to_string() }
}
