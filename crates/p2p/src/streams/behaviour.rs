use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Poll};

use bitswap::{Message, Protocol};
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionClosed, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, NotifyHandler,
    THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId};

use super::arrivals::{Hall, Place};
use super::handler::{Ask, Handler, Tell};
use super::offer::Offer;
use crate::settings::StreamLimits;
use crate::wire;

/// Messages of a peer that came before there was a stream to answer on; further ones are dropped,
/// and those that make more bytes: they are wants, and what is longer nobody asked for. As many as a
/// peer may have wants: each may come in a message of its own.
const EARLY_MAX: usize = 1024;
const EARLY_BYTES_MAX: usize = 256 * 1024;

/// What the streams tell the host.
#[derive(Debug)]
pub(crate) enum Event {
    /// This peer can be sent messages.
    Opened { peer: PeerId, protocol: Protocol },
    /// It cannot any more; what was not written is lost.
    Closed { peer: PeerId },
    /// Part of a long message came from a peer.
    Arriving { peer: PeerId },
    /// A message came from a peer that can be answered. It takes its place until that is dropped.
    Message { peer: PeerId, message: Message, bytes: usize, place: Option<Place> },
    /// Some of what was to be sent to a peer was written: there is room again.
    Written { peer: PeerId },
    /// A peer sent something that is no message; so many on this connection.
    Malformed { peer: PeerId, error: String, so_far: u32 },
}

/// The Bitswap streams of all peers. Of a peer's connections one is used to send, all to hear.
pub(crate) struct Streams {
    limits: StreamLimits,
    hall: Hall,
    offer: Offer,
    peers: BTreeMap<PeerId, Peer>,
    /// What was not handed to the swarm yet. The swarm takes all of it before it hears more.
    events: VecDeque<ToSwarm<Event, Ask>>,
}

#[derive(Default)]
struct Peer {
    /// Connections on which messages can be sent, the one in use first.
    open: Vec<(ConnectionId, Protocol)>,
    /// Bytes that were given to the one in use and not written.
    unwritten_bytes: usize,
    /// Peers speak as soon as they are connected, and many do not say it again for long: what
    /// they say waits here until they can be answered.
    early: VecDeque<(Message, usize)>,
    early_bytes: usize,
}

impl Streams {
    /// All connections together may have `arriving_bytes_max` bytes of messages arriving.
    pub(crate) fn new(limits: StreamLimits, arriving_bytes_max: usize, offer: Offer) -> Self {
        // Or the longest would never come.
        let hall = Hall::new(arriving_bytes_max.max(limits.message_bytes_max));
        Streams { limits, hall, offer, peers: BTreeMap::new(), events: VecDeque::new() }
    }

    /// Bytes that can be queued for this peer now.
    pub(crate) fn room(&self, peer: &PeerId) -> usize {
        let Some(peer) = self.peers.get(peer) else { return 0 };
        if peer.open.is_empty() {
            return 0;
        }
        self.limits.outbox_bytes_max.saturating_sub(peer.unwritten_bytes)
    }

    /// Queues a message, and tells how many bytes it has. The caller has asked for room before.
    pub(crate) fn send(&mut self, peer_id: PeerId, message: Message) -> usize {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return 0 };
        let Some(&(connection, protocol)) = peer.open.first() else { return 0 };
        let bytes = wire::len(&message, protocol);
        peer.unwritten_bytes += bytes;
        let handler = NotifyHandler::One(connection);
        let event = Ask::Send(message);
        self.events.push_back(ToSwarm::NotifyHandler { peer_id, handler, event });
        bytes
    }

    /// Hears nothing more from this peer.
    pub(crate) fn ignore(&mut self, peer_id: PeerId) {
        let handler = NotifyHandler::Any;
        let event = Ask::Ignore;
        self.events.push_back(ToSwarm::NotifyHandler { peer_id, handler, event });
    }

    fn tell(&mut self, event: Event) {
        self.events.push_back(ToSwarm::GenerateEvent(event));
    }

    fn opened(&mut self, peer_id: PeerId, connection: ConnectionId, protocol: Protocol) {
        let peer = self.peers.entry(peer_id).or_default();
        peer.open.push((connection, protocol));
        if peer.open.len() > 1 {
            return;
        }
        let early = std::mem::take(&mut peer.early);
        peer.early_bytes = 0;
        self.tell(Event::Opened { peer: peer_id, protocol });
        for (message, bytes) in early {
            self.tell(Event::Message { peer: peer_id, message, bytes, place: None });
        }
    }

    fn closed(&mut self, peer_id: PeerId, connection: ConnectionId) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let Some(at) = peer.open.iter().position(|(one, _)| *one == connection) else { return };
        let (_, was) = peer.open.remove(at);
        if at > 0 {
            return;
        }
        let next = peer.open.first().copied();
        // The other side does not begin anew while any connection is left, so neither do we if we
        // can help it.
        if peer.unwritten_bytes == 0 && next.is_some_and(|(_, protocol)| protocol == was) {
            return;
        }
        // What waited for the one in use is lost, so the exchange begins anew on the next.
        peer.unwritten_bytes = 0;
        self.tell(Event::Closed { peer: peer_id });
        if let Some((_, protocol)) = next {
            self.tell(Event::Opened { peer: peer_id, protocol });
        }
    }

    fn heard(&mut self, peer_id: PeerId, message: Message, bytes: usize, place: Place) {
        let peer = self.peers.entry(peer_id).or_default();
        if !peer.open.is_empty() {
            self.tell(Event::Message { peer: peer_id, message, bytes, place: Some(place) });
        } else if peer.early.len() < EARLY_MAX && peer.early_bytes + bytes <= EARLY_BYTES_MAX {
            peer.early_bytes += bytes;
            peer.early.push_back((message, bytes));
        }
    }

    fn written(&mut self, peer_id: PeerId, connection: ConnectionId, bytes: usize) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        if peer.open.first().is_some_and(|(one, _)| *one == connection) {
            peer.unwritten_bytes = peer.unwritten_bytes.saturating_sub(bytes);
            self.tell(Event::Written { peer: peer_id });
        }
    }
}

impl NetworkBehaviour for Streams {
    type ConnectionHandler = Handler;
    type ToSwarm = Event;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::new(self.limits.clone(), self.hall.clone(), self.offer.clone()))
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::new(self.limits.clone(), self.hall.clone(), self.offer.clone()))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        if let FromSwarm::ConnectionClosed(closed) = event {
            let ConnectionClosed { peer_id, connection_id, remaining_established, .. } = closed;
            self.closed(peer_id, connection_id);
            if remaining_established == 0 {
                self.peers.remove(&peer_id);
            }
        }
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        tell: THandlerOutEvent<Self>,
    ) {
        match tell {
            Tell::Opened { protocol } => self.opened(peer, connection, protocol),
            Tell::Closed => self.closed(peer, connection),
            Tell::Unsupported => {
                tracing::debug!(%peer, "speaks no Bitswap");
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.early.clear();
                    peer.early_bytes = 0;
                }
            }
            Tell::Arriving => self.tell(Event::Arriving { peer }),
            Tell::Message { message, bytes, place } => self.heard(peer, message, bytes, place),
            Tell::Written { bytes } => self.written(peer, connection, bytes),
            Tell::Malformed { error, so_far } => {
                self.tell(Event::Malformed { peer, error, so_far });
            }
        }
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}
