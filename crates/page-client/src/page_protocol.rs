//! The page protocol of one connection, without sockets or clocks.

mod direct_paths;
mod liveness;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use watchfire_types::{Instant, PeerId, Rng};

use crate::assembler::{Assembled, Assembler, AssemblyBudget};
use crate::direct::{Datagram, DirectConnections, Secret};
use crate::frame::{self, FrameContent, Payload, ServerFrame};
use crate::messages::{self, Counts, Have, PeerInfo, StunServer};
use crate::outgoing::{Outgoing, SentSegment};
use crate::recent_set::RecentSet;
use crate::segment::{SHORT_BYTES_MAX, Segment, UnsentMessage};
use crate::server_url::ServerUrl;
use crate::unread_blocks::UnreadBlocks;

use self::liveness::Liveness;

/// Most peers of the page. At the limit, a new peer replaces the one that has been silent for
/// longest, if that is more than [`SILENT_MIN`]. Otherwise the new peer is ignored.
const PEERS_MAX: usize = 64;
/// How long a peer must have been silent to be replaced.
const SILENT_MIN: Duration = Duration::from_secs(10);
/// Most banned peers. At the limit, the peer with the smallest id is no longer banned.
const BANNED_MAX: usize = 256;
/// Bytes of incomplete messages of all peers together.
const ASSEMBLY_BYTES_MAX: usize = 32 << 20;
/// The largest relayed frame, until the server announces another limit.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// How long the server may take to reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an incomplete holder requests more peers.
const MORE_PEERS_INTERVAL: Duration = Duration::from_secs(5);
/// Messages of a peer that are remembered as read on each path. A peer never has more in flight.
const READ_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Send a text frame to the server.
    Text(String),
    /// Send a binary frame to the server.
    Binary(Vec<u8>),
    Joined,
    /// The server rejected the join. The client tries again later.
    Rejected {
        reason: String,
    },
    /// Messages can be sent to this peer.
    PeerConnected {
        peer: PeerId,
        have: Have,
    },
    /// The peer is gone. Messages that were not sent are lost.
    PeerDisconnected {
        peer: PeerId,
    },
    Message {
        peer: PeerId,
        bytes: Bytes,
    },
    /// Part of a message of a peer arrived.
    Receiving {
        peer: PeerId,
    },
    /// A peer sent invalid segments.
    Malformed {
        peer: PeerId,
    },
    /// The server relayed a complete message of `bytes` to a peer, or a direct connection has it.
    Sent {
        peer: PeerId,
        bytes: usize,
    },
    /// A peer has read this many messages of [`PageProtocol::send_blocks`]. Messages that the peer
    /// sent afterwards follow.
    Acknowledged {
        peer: PeerId,
        messages: u64,
    },
    Counts(Counts),
    /// The page is available at these other servers, and no longer at those that were named before.
    Elsewhere(Vec<ServerUrl>),
    /// Look up the addresses of the STUN server, for [`PageProtocol::set_stun_servers`].
    FindStun(StunServer),
    /// The client dropped a peer that misbehaved while connecting directly.
    Dropped {
        reason: &'static str,
    },
    /// Send a datagram of a direct connection.
    Datagram(Datagram),
    /// Write a frame to a stream to a browser.
    StreamFrame {
        secret: Secret,
        frame: Vec<u8>,
    },
    /// Close a stream to a browser, or withdraw its offer.
    CloseStream {
        secret: Secret,
    },
    /// The connection must be closed.
    Broken {
        reason: &'static str,
    },
}

/// A request without a reply so far.
#[derive(Clone, Copy, Debug)]
enum PendingRequest {
    Join,
    Heartbeat,
    Have,
    MorePeers,
    Relay { peer: PeerId, segment: SentSegment },
    Signal { peer: PeerId, call: u32 },
}

/// The messages of a peer on one path. A message arrives whole on one of them.
#[derive(Debug)]
struct Received {
    assembler: Assembler,
    /// A message may arrive again: on the other path when a path breaks, or relayed twice when the
    /// server's reply was lost.
    read: RecentSet<u32>,
}

impl Received {
    fn new() -> Self {
        Received { assembler: Assembler::default(), read: RecentSet::new(READ_MAX) }
    }
}

#[derive(Debug)]
struct Peer {
    relayed: Received,
    direct: Received,
    outgoing: Outgoing,
    unread_blocks: UnreadBlocks,
    /// The number of the next message, on either path.
    next_message: u32,
    is_node: bool,
    /// Bytes of all messages, on both paths.
    moved_bytes: usize,
    last_frame_at: Instant,
}

impl Peer {
    /// `first_message` is random: the peer may know this client from before, and ignores messages
    /// whose numbers it has read.
    fn new(now: Instant, is_node: bool, first_message: u32) -> Self {
        Peer {
            relayed: Received::new(),
            direct: Received::new(),
            outgoing: Outgoing::new(FRAME_BYTES_MAX),
            unread_blocks: UnreadBlocks::default(),
            next_message: first_message,
            is_node,
            moved_bytes: 0,
            last_frame_at: now,
        }
    }
}

/// The state of one connection, which starts with the join.
#[derive(Debug)]
pub(crate) struct PageProtocol {
    topic: String,
    have: Have,
    /// The value that was last announced to the server.
    announced_have: Have,
    next_ref: u64,
    join_ref: String,
    me: Option<PeerId>,
    peers: BTreeMap<PeerId, Peer>,
    banned: BTreeSet<PeerId>,
    budget: AssemblyBudget,
    /// Draws the number of the first message to each peer.
    rng: Rng,
    pending: HashMap<u64, PendingRequest>,
    /// When each request was sent, in order. Requests with a reply stay until they are first.
    sent: VecDeque<(Instant, u64)>,
    liveness: Liveness,
    more_peers_at: Instant,
    /// `None`: every message uses the relay.
    direct: Option<DirectConnections>,
    outputs: VecDeque<Output>,
}

impl PageProtocol {
    /// Joins the topic of the page. Members of `join_params` are added to the join's parameters.
    /// `seed` is random.
    pub(crate) fn start(
        now: Instant,
        page: &str,
        have: Have,
        join_params: Value,
        direct: Option<DirectConnections>,
        seed: u64,
    ) -> Self {
        let mut protocol = PageProtocol {
            topic: format!("page:{page}"),
            have,
            announced_have: have,
            next_ref: 1,
            join_ref: "1".to_owned(),
            me: None,
            peers: BTreeMap::new(),
            banned: BTreeSet::new(),
            budget: AssemblyBudget { bytes: 0, bytes_max: ASSEMBLY_BYTES_MAX },
            rng: Rng::from_seed(seed),
            pending: HashMap::new(),
            sent: VecDeque::new(),
            liveness: Liveness::new(now),
            more_peers_at: now + MORE_PEERS_INTERVAL,
            direct,
            outputs: VecDeque::new(),
        };
        let mut payload = json!({ "have": have, "kind": "node" });
        if let (Value::Object(payload), Value::Object(join_params)) = (&mut payload, join_params) {
            payload.extend(join_params);
        }
        protocol.request(now, PendingRequest::Join, "phx_join", &payload);
        protocol
    }

    /// Sets the part of the page that is stored here.
    pub(crate) fn set_have(&mut self, now: Instant, have: Have) {
        self.have = have;
        self.announce_have(now);
    }

    pub(crate) fn send(&mut self, now: Instant, peer: PeerId, message: Bytes) {
        let Some(peer_state) = self.peers.get_mut(&peer) else { return };
        let id = peer_state.next_message;
        peer_state.next_message = id.wrapping_add(1);
        peer_state.moved_bytes = peer_state.moved_bytes.saturating_add(message.len());
        let message = UnsentMessage { id, bytes: message, is_reported: false, is_relayed: false };
        match &mut self.direct {
            Some(direct) if direct.is_up(peer) => {
                direct.send(now, peer, message);
                self.handle_direct_outputs(now);
            }
            _ => {
                let is_long = message.bytes.len() > SHORT_BYTES_MAX;
                peer_state.outgoing.push(message);
                self.call_if_busy(now, peer, is_long);
                self.send_segments(now, peer);
            }
        }
    }

    /// Sends a message with blocks. [`Output::Acknowledged`] tells when the peer has read it.
    pub(crate) fn send_blocks(&mut self, now: Instant, peer: PeerId, message: Bytes) {
        if let Some(peer_state) = self.peers.get_mut(&peer) {
            peer_state.unread_blocks.note_sent(peer_state.next_message);
        }
        self.send(now, peer, message);
    }

    /// Reports which messages a peer has read, before a message that it has sent.
    fn report_acknowledged(&mut self, peer: PeerId) {
        let Some(peer_state) = self.peers.get_mut(&peer) else { return };
        let (outgoing, direct) = (&peer_state.outgoing, &self.direct);
        let is_unread = |message| {
            let is_direct = |direct: &DirectConnections| direct.has_unread(peer, message);
            outgoing.has(message) || direct.as_ref().is_some_and(is_direct)
        };
        let acknowledged = peer_state.unread_blocks.update(is_unread);
        let acknowledged = acknowledged.map(|messages| Output::Acknowledged { peer, messages });
        self.outputs.extend(acknowledged);
    }

    /// Ignores a peer from now on.
    pub(crate) fn ban(&mut self, now: Instant, peer: PeerId) {
        if self.banned.len() == BANNED_MAX {
            self.banned.pop_first();
        }
        self.banned.insert(peer);
        self.remove(now, peer);
    }

    pub(crate) fn handle_text(&mut self, now: Instant, text: &str) {
        self.liveness.note_heard(now);
        self.handle_frame(now, frame::read_text(text));
    }

    pub(crate) fn handle_binary(&mut self, now: Instant, bytes: &Bytes) {
        self.liveness.note_heard(now);
        self.handle_frame(now, frame::read_binary(bytes));
    }

    pub(crate) fn handle_tick(&mut self, now: Instant) {
        while let Some(&(at, reference)) = self.sent.front()
            && (at + REPLY_TIMEOUT <= now || !self.pending.contains_key(&reference))
        {
            self.sent.pop_front();
            if let Some(request) = self.pending.remove(&reference) {
                self.handle_timeout(now, request);
            }
        }
        self.probe_if_quiet(now);
        if self.liveness.heartbeat_at <= now {
            self.send_heartbeat(now);
        }
        if self.more_peers_at <= now {
            self.more_peers_at = now + MORE_PEERS_INTERVAL;
            if self.me.is_some() && self.have != Have::All {
                self.request(now, PendingRequest::MorePeers, "more_peers", &json!({}));
            }
        }
        let due_peer = |(peer, peer_state): (&PeerId, &Peer)| {
            peer_state.outgoing.next_wake().is_some_and(|at| at <= now).then_some(*peer)
        };
        let due: Vec<PeerId> = self.peers.iter().filter_map(due_peer).collect();
        due.into_iter().for_each(|peer| self.send_segments(now, peer));
        if let Some(direct) = &mut self.direct {
            direct.handle_tick(now);
            self.handle_direct_outputs(now);
        }
    }

    /// When to call [`PageProtocol::handle_tick`].
    pub(crate) fn next_wake(&self) -> Instant {
        let deadline = self.sent.front().map(|(at, _)| *at + REPLY_TIMEOUT);
        let retries = self.peers.values().filter_map(|peer_state| peer_state.outgoing.next_wake());
        retries
            .chain(self.direct.as_ref().and_then(DirectConnections::next_wake))
            .chain(deadline)
            .chain(self.probe_wake())
            .chain([self.liveness.heartbeat_at, self.more_peers_at])
            .min()
            .unwrap_or_default()
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn handle_frame(&mut self, now: Instant, frame: Option<ServerFrame>) {
        let Some(ServerFrame { topic, join_ref, content }) = frame else {
            return self.report_broken("the server sent an invalid frame");
        };
        match content {
            FrameContent::Reply { reference, is_ok, response } => {
                let request =
                    reference.parse().ok().and_then(|number| self.pending.remove(&number));
                if let Some(request) = request {
                    self.handle_reply(now, request, is_ok, &response);
                }
            }
            FrameContent::Event { event, payload } if topic == self.topic => {
                let is_of_another_join = join_ref.is_some_and(|join_ref| join_ref != self.join_ref);
                if !is_of_another_join && self.me.is_some() {
                    self.handle_event(now, &event, payload);
                }
            }
            FrameContent::Event { .. } => {}
        }
    }

    fn handle_event(&mut self, now: Instant, event: &str, payload: Payload) {
        match (event, payload) {
            ("relay", Payload::Bytes(frame)) => self.handle_relayed(now, &frame),
            ("signal", Payload::Bytes(frame)) => self.handle_signal(now, &frame),
            ("peer_joined", Payload::Json(json)) => {
                if let Some(info) = messages::peer_info(&json) {
                    self.add_peer(now, info);
                }
            }
            ("peer_left", Payload::Json(json)) => {
                if let Some(peer) = messages::peer_id(&json) {
                    self.remove(now, peer);
                }
            }
            ("counts", Payload::Json(json)) => {
                let counts = messages::counts(&json).map(Output::Counts);
                self.outputs.extend(counts);
            }
            ("elsewhere", Payload::Json(json)) => {
                let servers = messages::servers(json.get("servers"));
                self.outputs.push_back(Output::Elsewhere(servers));
            }
            ("phx_error" | "phx_close", _) => self.report_broken("the server ended the channel"),
            // The counts imply availability. Unknown events are for newer clients.
            _ => {}
        }
    }

    fn handle_reply(
        &mut self,
        now: Instant,
        request: PendingRequest,
        is_ok: bool,
        response: &Value,
    ) {
        match request {
            PendingRequest::Join => match messages::join_reply(response).filter(|_| is_ok) {
                Some(reply) => {
                    self.me = Some(reply.me);
                    self.direct.iter_mut().for_each(|direct| direct.set_me(reply.me));
                    self.outputs.push_back(Output::Joined);
                    self.outputs.push_back(Output::Counts(reply.counts));
                    self.outputs.push_back(Output::Elsewhere(reply.elsewhere));
                    let stun = reply.stun.filter(|_| self.direct.is_some());
                    self.outputs.extend(stun.map(Output::FindStun));
                    reply.peers.into_iter().for_each(|peer| self.add_peer(now, peer));
                    self.announce_have(now);
                }
                None => {
                    let reason = messages::rejection_reason(response);
                    self.outputs.push_back(Output::Rejected { reason });
                }
            },
            PendingRequest::MorePeers => {
                let peers = messages::peers(response);
                peers.into_iter().for_each(|peer| self.add_peer(now, peer));
            }
            PendingRequest::Relay { peer, segment } => {
                let Some(peer_state) = self.peers.get_mut(&peer) else { return };
                if is_ok {
                    if let Some(bytes) = peer_state.outgoing.handle_relayed(segment) {
                        self.outputs.push_back(Output::Sent { peer, bytes });
                    }
                } else if peer_state
                    .outgoing
                    .handle_error(now, segment, &messages::relay_error(response))
                    .is_err()
                {
                    return self.leave_relay(now, peer);
                }
                self.send_segments(now, peer);
            }
            PendingRequest::Signal { peer, call } if !is_ok => {
                tracing::debug!(%peer, %response, "the server did not forward a signal");
                self.handle_lost_signal(now, peer, call);
            }
            PendingRequest::Heartbeat | PendingRequest::Have | PendingRequest::Signal { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant, request: PendingRequest) {
        match request {
            // Large messages may delay the reply.
            PendingRequest::Heartbeat if self.liveness.has_heard_within(now, REPLY_TIMEOUT) => {}
            PendingRequest::Join | PendingRequest::Heartbeat => {
                self.report_broken("the server did not reply in time")
            }
            PendingRequest::Relay { peer, segment } => {
                let Some(peer_state) = self.peers.get_mut(&peer) else { return };
                match peer_state.outgoing.handle_timeout(segment) {
                    Ok(()) => self.send_segments(now, peer),
                    Err(_) => self.leave_relay(now, peer),
                }
            }
            PendingRequest::Signal { peer, call } => self.handle_lost_signal(now, peer, call),
            PendingRequest::Have | PendingRequest::MorePeers => {}
        }
    }

    fn handle_relayed(&mut self, now: Instant, frame: &Bytes) {
        let Some((peer, segment)) = Segment::decode(frame) else { return };
        // A peer may send a message before the server introduces it to this client.
        self.add_peer(now, PeerInfo { peer, have: Have::None, is_node: false });
        let Some(peer_state) = self.peers.get_mut(&peer) else { return };
        peer_state.last_frame_at = now;
        let id = segment.message;
        // It was read before, and its sender does not know that: a direct connection broke before its
        // acknowledgement, or the server's reply was late.
        if peer_state.relayed.read.contains(id) || peer_state.direct.read.contains(id) {
            return;
        }
        let output = match peer_state.relayed.assembler.accept(now, &mut self.budget, segment) {
            Assembled::Whole(bytes) => {
                peer_state.relayed.read.insert(id);
                peer_state.moved_bytes = peer_state.moved_bytes.saturating_add(bytes.len());
                Output::Message { peer, bytes }
            }
            Assembled::Partial => Output::Receiving { peer },
            Assembled::Malformed => Output::Malformed { peer },
            Assembled::Dropped => return,
        };
        if matches!(output, Output::Message { .. }) {
            self.report_acknowledged(peer);
        }
        self.outputs.push_back(output);
    }

    fn add_peer(&mut self, now: Instant, PeerInfo { peer, have, is_node }: PeerInfo) {
        if let Some(known) = self.peers.get_mut(&peer) {
            known.is_node |= is_node;
            return;
        }
        if self.me == Some(peer) || self.banned.contains(&peer) {
            return;
        }
        if self.peers.len() == PEERS_MAX {
            let longest = self.peers.iter().min_by_key(|(_, peer_state)| peer_state.last_frame_at);
            let silent =
                longest.filter(|(_, peer_state)| now.since(peer_state.last_frame_at) > SILENT_MIN);
            let Some(silent) = silent.map(|(peer, _)| *peer) else { return };
            self.remove(now, silent);
        }
        let first_message = self.rng.next_u64() as u32;
        self.peers.insert(peer, Peer::new(now, is_node, first_message));
        self.outputs.push_back(Output::PeerConnected { peer, have });
    }

    fn remove(&mut self, now: Instant, peer: PeerId) {
        if let Some(mut peer_state) = self.peers.remove(&peer) {
            peer_state.relayed.assembler.clear(&mut self.budget);
            peer_state.direct.assembler.clear(&mut self.budget);
            self.outputs.push_back(Output::PeerDisconnected { peer });
        }
        if let Some(direct) = &mut self.direct {
            direct.forget(now, peer);
            self.handle_direct_outputs(now);
        }
    }

    fn send_segments(&mut self, now: Instant, peer: PeerId) {
        while let Some(peer_state) = self.peers.get_mut(&peer)
            && let Some((sent, segment)) = peer_state.outgoing.next(now)
        {
            let reference = self.reference(now, PendingRequest::Relay { peer, segment: sent });
            let relay = |frame: &mut Vec<u8>| segment.encode(peer, frame);
            let frame = frame::binary(&self.join_ref, reference, &self.topic, "relay", relay);
            self.outputs.push_back(Output::Binary(frame));
        }
    }

    fn announce_have(&mut self, now: Instant) {
        if self.me.is_some() && self.have != self.announced_have {
            self.announced_have = self.have;
            self.request(now, PendingRequest::Have, "have", &json!({ "have": self.have }));
        }
    }

    fn request(&mut self, now: Instant, request: PendingRequest, event: &str, payload: &Value) {
        let reference = self.reference(now, request);
        let join_ref = Some(&*self.join_ref);
        let text = frame::text(join_ref, reference, &self.topic, event, payload);
        self.outputs.push_back(Output::Text(text));
    }

    fn reference(&mut self, now: Instant, request: PendingRequest) -> u64 {
        let reference = self.next_ref;
        self.next_ref += 1;
        self.pending.insert(reference, request);
        self.sent.push_back((now, reference));
        // Replies arrive in any order. Requests with a reply are removed when first.
        while self.sent.front().is_some_and(|(_, first)| !self.pending.contains_key(first)) {
            self.sent.pop_front();
        }
        reference
    }

    fn report_broken(&mut self, reason: &'static str) {
        self.outputs.push_back(Output::Broken { reason });
    }
}

#[cfg(test)]
mod tests;
