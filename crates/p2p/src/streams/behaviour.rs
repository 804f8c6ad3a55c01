//! The Bitswap streams of all peers.

use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionClosed, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, NotifyHandler,
    THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId};
use watchfire_bitswap::{Message, Protocol};

use super::handler::{Handler, HandlerCommand, HandlerEvent};
use super::protocols::{self, SupportedProtocols};
use super::receive_budget::{HostReceiveBudget, Reservation};
use crate::settings::StreamLimits;

/// Messages of one peer that are kept until a stream to it is open. Further messages are dropped.
/// It equals the limit of wants of a peer, because each want may arrive in its own message.
const EARLY_MESSAGES_MAX: usize = 1024;
/// Bytes of those messages. They contain only wants, because no block was requested yet.
const EARLY_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// Messages can be sent to this peer.
    Opened { peer: PeerId, protocol: Protocol },
    /// Messages can no longer be sent to this peer. Those that were not written are lost.
    Closed { peer: PeerId },
    /// Part of a long message arrived from a peer.
    Receiving { peer: PeerId },
    /// A message arrived from a peer that messages can be sent to. Dropping the reservation frees
    /// its part of the receive budget.
    Message { peer: PeerId, message: Message, bytes: usize, reservation: Option<Reservation> },
    /// Messages to a peer were written, so that its send queue has room.
    Written { peer: PeerId },
    /// A malformed message arrived. `count` is the number of such messages on the connection.
    Malformed { peer: PeerId, error: String, count: u32 },
}

/// The Bitswap streams of all peers. If a peer has several connections, messages are sent on one of
/// them and received on all.
pub(crate) struct BitswapStreams {
    limits: StreamLimits,
    budget: HostReceiveBudget,
    protocols: SupportedProtocols,
    peers: BTreeMap<PeerId, Peer>,
    /// The swarm empties this queue before it reports further events.
    events: VecDeque<ToSwarm<StreamEvent, HandlerCommand>>,
}

#[derive(Default)]
struct Peer {
    /// Connections that messages can be sent on. The first one is in use.
    open: Vec<(ConnectionId, Protocol)>,
    /// Bytes that were given to the connection in use and were not written yet.
    unwritten_bytes: usize,
    /// Messages that arrived before a stream to the peer was open. Many peers send their wants as
    /// soon as they are connected, and do not repeat them for a long time.
    early_messages: VecDeque<(Message, usize)>,
    early_bytes: usize,
}

impl BitswapStreams {
    /// `receiving_bytes_max` bounds the messages that all connections receive at the same time.
    pub(crate) fn new(
        limits: StreamLimits,
        receiving_bytes_max: usize,
        protocols: SupportedProtocols,
    ) -> Self {
        // With less than this, the largest message could never be received.
        let budget = HostReceiveBudget::new(receiving_bytes_max.max(limits.message_bytes_max));
        let (peers, events) = (BTreeMap::new(), VecDeque::new());
        BitswapStreams { limits, budget, protocols, peers, events }
    }

    /// Returns how many bytes can be queued for this peer now.
    pub(crate) fn room(&self, peer: &PeerId) -> usize {
        let Some(peer) = self.peers.get(peer) else { return 0 };
        if peer.open.is_empty() {
            return 0;
        }
        self.limits.send_queue_bytes_max.saturating_sub(peer.unwritten_bytes)
    }

    /// Queues a message and returns its length in bytes. The caller checks the room first.
    pub(crate) fn send(&mut self, peer_id: PeerId, message: Message) -> usize {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return 0 };
        let Some(&(connection, protocol)) = peer.open.first() else { return 0 };
        let bytes = protocols::encoded_len(&message, protocol);
        peer.unwritten_bytes += bytes;
        let handler = NotifyHandler::One(connection);
        let event = HandlerCommand::Send(message);
        self.events.push_back(ToSwarm::NotifyHandler { peer_id, handler, event });
        bytes
    }

    /// Accepts no more messages from this peer.
    pub(crate) fn stop_receiving(&mut self, peer_id: PeerId) {
        let handler = NotifyHandler::Any;
        let event = HandlerCommand::StopReceiving;
        self.events.push_back(ToSwarm::NotifyHandler { peer_id, handler, event });
    }

    fn emit(&mut self, event: StreamEvent) {
        self.events.push_back(ToSwarm::GenerateEvent(event));
    }

    fn handle_opened(&mut self, peer_id: PeerId, connection: ConnectionId, protocol: Protocol) {
        let peer = self.peers.entry(peer_id).or_default();
        peer.open.push((connection, protocol));
        if peer.open.len() > 1 {
            return;
        }
        let early_messages = std::mem::take(&mut peer.early_messages);
        peer.early_bytes = 0;
        self.emit(StreamEvent::Opened { peer: peer_id, protocol });
        for (message, bytes) in early_messages {
            self.emit(StreamEvent::Message { peer: peer_id, message, bytes, reservation: None });
        }
    }

    fn handle_closed(&mut self, peer_id: PeerId, connection: ConnectionId) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        let Some(at) = peer.open.iter().position(|(one, _)| *one == connection) else { return };
        let (_, closed_protocol) = peer.open.remove(at);
        if at > 0 {
            return;
        }
        let next = peer.open.first().copied();
        // The other side keeps its state while any connection is left. Without lost messages, this
        // side keeps its state too.
        if peer.unwritten_bytes == 0 && next.is_some_and(|(_, next)| next == closed_protocol) {
            return;
        }
        // Queued messages are lost, so the exchange starts again on the next connection.
        peer.unwritten_bytes = 0;
        self.emit(StreamEvent::Closed { peer: peer_id });
        if let Some((_, protocol)) = next {
            self.emit(StreamEvent::Opened { peer: peer_id, protocol });
        }
    }

    fn handle_message(
        &mut self,
        peer_id: PeerId,
        message: Message,
        bytes: usize,
        reservation: Reservation,
    ) {
        let peer = self.peers.entry(peer_id).or_default();
        if !peer.open.is_empty() {
            let reservation = Some(reservation);
            self.emit(StreamEvent::Message { peer: peer_id, message, bytes, reservation });
        } else if peer.early_messages.len() < EARLY_MESSAGES_MAX
            && peer.early_bytes + bytes <= EARLY_BYTES_MAX
        {
            peer.early_bytes += bytes;
            peer.early_messages.push_back((message, bytes));
        }
    }

    fn handle_written(&mut self, peer_id: PeerId, connection: ConnectionId, bytes: usize) {
        let Some(peer) = self.peers.get_mut(&peer_id) else { return };
        if peer.open.first().is_some_and(|(one, _)| *one == connection) {
            peer.unwritten_bytes = peer.unwritten_bytes.saturating_sub(bytes);
            self.emit(StreamEvent::Written { peer: peer_id });
        }
    }

    fn handle_unsupported(&mut self, peer_id: PeerId) {
        tracing::debug!(peer = %peer_id, "the peer does not support Bitswap");
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.early_messages.clear();
            peer.early_bytes = 0;
        }
    }

    fn new_handler(&self) -> Handler {
        Handler::new(self.limits.clone(), self.budget.clone(), self.protocols.clone())
    }
}

impl NetworkBehaviour for BitswapStreams {
    type ConnectionHandler = Handler;
    type ToSwarm = StreamEvent;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(self.new_handler())
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(self.new_handler())
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        if let FromSwarm::ConnectionClosed(closed) = event {
            let ConnectionClosed { peer_id, connection_id, remaining_established, .. } = closed;
            self.handle_closed(peer_id, connection_id);
            if remaining_established == 0 {
                self.peers.remove(&peer_id);
            }
        }
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {
            HandlerEvent::Opened { protocol } => self.handle_opened(peer, connection, protocol),
            HandlerEvent::Closed => self.handle_closed(peer, connection),
            HandlerEvent::Unsupported => self.handle_unsupported(peer),
            HandlerEvent::Receiving => self.emit(StreamEvent::Receiving { peer }),
            HandlerEvent::Message { message, bytes, reservation } => {
                self.handle_message(peer, message, bytes, reservation);
            }
            HandlerEvent::Written { bytes } => self.handle_written(peer, connection, bytes),
            HandlerEvent::Malformed { error, count } => {
                self.emit(StreamEvent::Malformed { peer, error, count });
            }
        }
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}
