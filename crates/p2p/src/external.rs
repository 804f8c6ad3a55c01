//! Peers that are not on libp2p, such as browsers behind a Watchfire server. A transport outside of
//! this crate carries their messages; the host exchanges blocks with them as with all other peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use watchfire_bitswap::message::{MESSAGE_BYTES_MAX, MessageError};
use watchfire_bitswap::{Message, Protocol};
use watchfire_content::Cid;

use crate::error::Stopped;

/// Events of all transports that wait for the host. When the queue is full, transports wait.
pub(crate) const TRANSPORT_EVENTS_MAX: usize = 64;
/// Bytes of the messages of one transport that wait for the host. At the limit, the transport waits
/// before it passes on the next message.
const RECEIVED_BYTES_MAX: usize = 8 << 20;

// The largest message must fit into an empty queue.
const _: () = assert!(MESSAGE_BYTES_MAX <= RECEIVED_BYTES_MAX);

/// The id of a peer of an [`ExternalTransport`]. An id is never used for two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalPeer(pub(crate) u64);

/// Decides whether the host may request a block from an external peer.
///
/// A request reveals interest in a CID, so the host does not request blocks of one page from the
/// peers of another.
pub type RequestFilter = Arc<dyn Fn(&Cid) -> bool + Send + Sync>;

/// A command of the host to an [`ExternalTransport`].
#[derive(Debug)]
pub enum TransportCommand {
    /// Send `message` to a peer, and report its end with [`ExternalTransport::sent`].
    Send {
        peer: ExternalPeer,
        /// The encoded message, without a length prefix.
        message: Bytes,
        /// Whether it counts in [`ExternalTransport::acknowledged`].
        has_blocks: bool,
    },
    /// Accept no more messages from this peer. The host has already disconnected it.
    Ban { peer: ExternalPeer },
}

/// The host's end of the command queue. The host bounds what it queues for each peer.
pub(crate) type TransportCommands = mpsc::UnboundedSender<TransportCommand>;

pub(crate) enum TransportEvent {
    Connected {
        peer: ExternalPeer,
        protocol: Protocol,
        filter: Option<RequestFilter>,
        commands: TransportCommands,
    },
    Disconnected {
        peer: ExternalPeer,
    },
    Receiving {
        peer: ExternalPeer,
    },
    Message {
        peer: ExternalPeer,
        message: Message,
        bytes: usize,
        /// Frees the room when the host drops the event.
        _permit: OwnedSemaphorePermit,
    },
    Malformed {
        peer: ExternalPeer,
    },
    Sent {
        peer: ExternalPeer,
        bytes: usize,
    },
    Acknowledged {
        peer: ExternalPeer,
        messages: u64,
    },
}

/// Carries messages between the host and peers that are not on libp2p.
///
/// Dropping it disconnects all of its peers.
#[derive(Debug)]
pub struct ExternalTransport {
    events: mpsc::Sender<TransportEvent>,
    next_peer: Arc<AtomicU64>,
    /// Room for received messages, in bytes.
    room: Arc<Semaphore>,
    commands: mpsc::UnboundedReceiver<TransportCommand>,
    commands_sender: TransportCommands,
}

impl ExternalTransport {
    pub(crate) fn new(events: mpsc::Sender<TransportEvent>, next_peer: Arc<AtomicU64>) -> Self {
        let (commands_sender, commands) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(RECEIVED_BYTES_MAX));
        ExternalTransport { events, next_peer, room, commands, commands_sender }
    }

    /// Returns another transport of the same host.
    pub fn another(&self) -> Self {
        ExternalTransport::new(self.events.clone(), Arc::clone(&self.next_peer))
    }

    /// Adds a peer. Without a filter the host may request any block from it.
    pub async fn connect(
        &self,
        protocol: Protocol,
        filter: Option<RequestFilter>,
    ) -> Result<ExternalPeer, Stopped> {
        let peer = ExternalPeer(self.next_peer.fetch_add(1, Ordering::Relaxed));
        let commands = self.commands_sender.clone();
        self.report(TransportEvent::Connected { peer, protocol, filter, commands }).await?;
        Ok(peer)
    }

    /// Removes a peer. Messages that were not sent to it are lost.
    pub async fn disconnect(&self, peer: ExternalPeer) -> Result<(), Stopped> {
        self.report(TransportEvent::Disconnected { peer }).await
    }

    /// Reports that part of a message arrived, so that the host does not time out its requests.
    pub async fn receiving(&self, peer: ExternalPeer) -> Result<(), Stopped> {
        self.report(TransportEvent::Receiving { peer }).await
    }

    /// Decodes a complete message without a length prefix, hashes its blocks, and passes it to the
    /// host. Waits while the host is busy.
    ///
    /// The inner error means that the message is malformed. The host counts malformed messages, and
    /// bans a peer that sends too many.
    pub async fn received(
        &self,
        peer: ExternalPeer,
        message: &Bytes,
    ) -> Result<Result<(), MessageError>, Stopped> {
        let bytes = message.len();
        let permits = u32::try_from(bytes.min(RECEIVED_BYTES_MAX)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room).acquire_many_owned(permits).await;
        let _permit = permit.map_err(|_| Stopped)?;
        match watchfire_bitswap::message::decode(message) {
            Ok(message) => {
                let event = TransportEvent::Message { peer, message, bytes, _permit };
                self.report(event).await.map(Ok)
            }
            Err(error) => self.malformed(peer).await.map(|()| Err(error)),
        }
    }

    /// Reports that a peer sent bytes that cannot be part of a message.
    pub async fn malformed(&self, peer: ExternalPeer) -> Result<(), Stopped> {
        self.report(TransportEvent::Malformed { peer }).await
    }

    /// Reports that a message of `bytes` was sent to a peer, so that its queue has room again.
    pub async fn sent(&self, peer: ExternalPeer, bytes: usize) -> Result<(), Stopped> {
        self.report(TransportEvent::Sent { peer, bytes }).await
    }

    /// Reports how many messages with blocks a peer has read since it was added, before the message
    /// that it sent afterwards. A message whose path has no acknowledgements counts as read when it
    /// was sent, and so does one that was lost.
    pub async fn acknowledged(&self, peer: ExternalPeer, messages: u64) -> Result<(), Stopped> {
        self.report(TransportEvent::Acknowledged { peer, messages }).await
    }

    pub async fn next(&mut self) -> TransportCommand {
        match self.commands.recv().await {
            Some(command) => command,
            // Unreachable in practice: this struct holds a sender.
            None => std::future::pending().await,
        }
    }

    async fn report(&self, event: TransportEvent) -> Result<(), Stopped> {
        self.events.send(event).await.map_err(|_| Stopped)
    }
}
