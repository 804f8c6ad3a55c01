//! The commands of the handles to the thread of the host, and what it answers.

use std::sync::Arc;

use bytes::Bytes;
use libp2p::{Multiaddr, PeerId};
use tokio::sync::{mpsc, oneshot};
use watchfire_bitswap::{SessionId, Want};
use watchfire_content::{Block, Cid};
use watchfire_store::WriteBlocks;
use watchfire_types::TraceContext;

use crate::error::{ConnectError, RoutingError};
use crate::fallback::RequestOrigin;
use crate::fetch::{Fetch, FetchError, FetchScope};
use crate::requests::{InboundSender, RequestError};
use crate::stats::{HostStats, PeerStats};

/// Commands that wait for the host. When the queue is full, callers wait.
pub(crate) const COMMANDS_MAX: usize = 64;

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
    StopProviding {
        cid: Cid,
    },
    FindProviders {
        cid: Cid,
        reply: oneshot::Sender<Result<Vec<PeerId>, RoutingError>>,
    },
    ClosestPeers {
        key: Vec<u8>,
        reply: oneshot::Sender<Result<Vec<RoutedPeer>, RoutingError>>,
    },
    KnownPeers {
        reply: oneshot::Sender<Vec<RoutedPeer>>,
    },
    Request {
        peer: PeerId,
        bytes: Bytes,
        reply: oneshot::Sender<Result<Bytes, RequestError>>,
    },
    AnswerRequests {
        inbound: InboundSender,
    },
    Fetch {
        root: Cid,
        scope: FetchScope,
        store: Arc<dyn WriteBlocks>,
        trace: Option<TraceContext>,
        reply: oneshot::Sender<Result<Fetch, FetchError>>,
    },
    OpenSession {
        events: mpsc::UnboundedSender<SessionEvent>,
        trace: Option<TraceContext>,
        reply: oneshot::Sender<SessionId>,
    },
    Want {
        session: SessionId,
        wants: Vec<Want>,
    },
    SetGrowing {
        session: SessionId,
        is_growing: bool,
    },
    CancelWants {
        session: SessionId,
        cids: Vec<Cid>,
    },
    SetUrgent {
        cids: Vec<Cid>,
    },
    BlockStored {
        cid: Cid,
        bytes: usize,
    },
    BlockObtained {
        cid: Cid,
        bytes: usize,
        origin: RequestOrigin,
    },
    BlockUnavailable {
        cid: Cid,
        origin: RequestOrigin,
    },
    Ask {
        peers: Option<Vec<PeerId>>,
        cid: Cid,
        reply: oneshot::Sender<Option<PeerId>>,
    },
    Peers {
        reply: oneshot::Sender<Vec<PeerStats>>,
    },
    Stats {
        reply: oneshot::Sender<HostStats>,
    },
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedPeer {
    pub peer: PeerId,
    /// Its known addresses, without its id.
    pub addresses: Vec<Multiaddr>,
}

#[derive(Debug)]
pub enum SessionEvent {
    /// A requested block arrived and was verified. It is in no store.
    Block {
        block: Block,
        /// The libp2p peer that sent it; `None` for a peer that is not on libp2p.
        from: Option<PeerId>,
    },
    /// No connected peer is known to have this block. The host searches for other peers.
    Searching(Cid),
}
