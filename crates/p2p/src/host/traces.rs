//! The spans of a host: one for each traced session and for each peer that sends it blocks, and one for
//! each session of another host that this one serves. None is for a single block.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libp2p::PeerId;
use tokio::time::Instant;
use watchfire_bitswap::leaves::ListMessage;
use watchfire_bitswap::{Message, SessionId, Want};
use watchfire_content::{Block, Cid};
use watchfire_traces::{Kind, Span, TraceContext, is_on};

use super::peer_numbers::PeerNumber;

/// Sessions of one peer that are served within spans. While a peer has this number, further ones have none.
const SERVED_PER_PEER_MAX: usize = 4;
/// Peers that are served within spans. Further ones have none.
const SERVED_PEERS_MAX: usize = 256;
/// A session of another host counts as ended after this time without a block.
const SERVED_IDLE: Duration = Duration::from_secs(2);
/// Wanted blocks of one session that are known here. The first request for further ones at a peer has
/// no span.
const WANTED_MAX: usize = 65_536;

#[derive(Default)]
pub(super) struct Traces {
    sessions: BTreeMap<SessionId, TracedSession>,
    /// By peer: the session whose span it was sent last. Its next requests belong to that span.
    sent: BTreeMap<PeerNumber, SessionId>,
    /// By peer: its sessions. The last is the one that its next requests belong to.
    served: BTreeMap<PeerNumber, Vec<ServedSession>>,
}

struct TracedSession {
    span: Span,
    /// The blocks that it wants; `None` for a fetch, whose blocks are requested by list, too.
    wanted: Option<BTreeSet<Cid>>,
    peers: BTreeMap<PeerNumber, Moved>,
    search: Span,
}

/// The blocks and bytes that a peer has sent or received within a span.
struct Moved {
    span: Span,
    blocks: u64,
    bytes: u64,
}

struct ServedSession {
    parent: TraceContext,
    moved: Moved,
    began_at: Instant,
    active_at: Instant,
}

impl Moved {
    fn new(span: Span) -> Self {
        Moved { span, blocks: 0, bytes: 0 }
    }

    fn count(&mut self, blocks: u64, bytes: u64) {
        self.blocks += blocks;
        self.bytes += bytes;
    }

    fn with_counts(mut self) -> Span {
        self.span.set("watchfire.blocks", self.blocks);
        self.span.set("watchfire.bytes", self.bytes);
        std::mem::take(&mut self.span)
    }
}

impl TracedSession {
    fn requests(&self, message: &Message) -> bool {
        let mut wants = message.wants.iter().filter(|want| !want.cancel);
        match &self.wanted {
            Some(wanted) => wants.any(|want| wanted.contains(&want.cid)),
            None => {
                let is_request = |message: &ListMessage| {
                    matches!(message, ListMessage::Subscribe { .. } | ListMessage::Request { .. })
                };
                wants.next().is_some() || message.leaves.iter().any(is_request)
            }
        }
    }
}

impl Traces {
    /// A fetch of a whole DAG began within the span of its caller.
    pub(super) fn start_fetch(
        &mut self,
        parent: Option<TraceContext>,
        session: SessionId,
        root: &Cid,
    ) {
        let mut span = Span::below(parent, "fetch", Kind::Client);
        if span.is_recorded() {
            span.set("watchfire.root", root.to_string());
            self.start(session, span, None);
        }
    }

    /// A session for single blocks began within the span of its caller.
    pub(super) fn start_session(&mut self, parent: Option<TraceContext>, session: SessionId) {
        let span = Span::below(parent, "fetch blocks", Kind::Client);
        if span.is_recorded() {
            self.start(session, span, Some(BTreeSet::new()));
        }
    }

    fn start(&mut self, session: SessionId, span: Span, wanted: Option<BTreeSet<Cid>>) {
        let peers = BTreeMap::new();
        self.sessions.insert(session, TracedSession { span, wanted, peers, search: Span::off() });
    }

    pub(super) fn note_wants(&mut self, session: SessionId, wants: &[Want]) {
        if let Some(wanted) =
            self.sessions.get_mut(&session).and_then(|session| session.wanted.as_mut())
        {
            let room = WANTED_MAX.saturating_sub(wanted.len());
            wanted.extend(wants.iter().take(room).map(|want| want.cid.clone()));
        }
    }

    /// Ends the spans of sessions that no longer run.
    pub(super) fn end_sessions(&mut self, runs: impl Fn(SessionId) -> bool) {
        if self.sessions.is_empty() {
            return;
        }
        let ended = self.sessions.extract_if(.., |session, _| !runs(*session));
        for (_, session) in ended {
            session.peers.into_values().for_each(|moved| drop(moved.with_counts()));
        }
        self.sent.retain(|_, session| self.sessions.contains_key(session));
    }

    /// Adds the span of a session to a message that carries its requests, unless the peer knows it.
    pub(super) fn add_to(&mut self, message: &mut Message, peer: PeerNumber, id: Option<PeerId>) {
        let found = self.sessions.iter_mut().find(|(_, session)| session.requests(message));
        let Some((number, session)) = found else { return };
        if self.sent.insert(peer, *number) == Some(*number) {
            return;
        }
        let moved = session.peers.entry(peer).or_insert_with(|| {
            let mut span = session.span.child("blocks from peer", Kind::Client);
            span.set("watchfire.peer", name_of(id));
            Moved::new(span)
        });
        message.trace = moved.span.context();
    }

    pub(super) fn note_received(
        &mut self,
        sessions: &[SessionId],
        block: &Block,
        from: PeerNumber,
    ) {
        if self.sessions.is_empty() {
            return;
        }
        for session in sessions {
            let Some(session) = self.sessions.get_mut(session) else { continue };
            session.wanted.as_mut().map(|wanted| wanted.remove(block.cid()));
            if let Some(moved) = session.peers.get_mut(&from) {
                moved.count(1, block.bytes().len() as u64);
            }
        }
    }

    /// A search for providers began for a session.
    pub(super) fn begin_search(&mut self, session: SessionId, cid: &Cid) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.search = session.span.child("find providers", Kind::Client);
            session.search.set("watchfire.cid", cid.to_string());
        }
    }

    pub(super) fn end_search(&mut self, session: SessionId, providers: usize) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.search.set("watchfire.providers", providers);
            session.search = Span::off();
        }
    }

    /// A peer's message named the span that its requests belong to.
    pub(super) fn note_requests(
        &mut self,
        parent: TraceContext,
        peer: PeerNumber,
        id: Option<PeerId>,
    ) {
        let is_full = self.served.len() >= SERVED_PEERS_MAX && !self.served.contains_key(&peer);
        if !is_on() || !parent.is_sampled || is_full {
            return;
        }
        let sessions = self.served.entry(peer).or_default();
        if let Some(at) = sessions.iter().position(|session| session.parent == parent) {
            let session = sessions.remove(at);
            sessions.push(session);
        } else if sessions.len() < SERVED_PER_PEER_MAX {
            let mut span = Span::below(Some(parent), "serve", Kind::Server);
            span.set("watchfire.peer", name_of(id));
            let now = Instant::now();
            let moved = Moved::new(span);
            sessions.push(ServedSession { parent, moved, began_at: now, active_at: now });
        }
    }

    pub(super) fn note_sent(&mut self, message: &Message, peer: PeerNumber) {
        if self.served.is_empty() {
            return;
        }
        let Some(session) = self.served.get_mut(&peer).and_then(|sessions| sessions.last_mut())
        else {
            return;
        };
        let (mut blocks, mut bytes) = (0, 0);
        for block in message.payloads() {
            blocks += 1;
            bytes += block.bytes().len() as u64;
        }
        if blocks > 0 {
            session.active_at = Instant::now();
            session.moved.count(blocks, bytes);
        }
    }

    pub(super) fn handle_disconnected(&mut self, peer: PeerNumber) {
        self.sent.remove(&peer);
        self.served.remove(&peer).into_iter().flatten().for_each(ServedSession::end);
    }

    /// When to call [`Traces::handle_tick`].
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let ends = self.served.values().flatten().map(ServedSession::ends_at);
        ends.min()
    }

    /// Ends the spans of served sessions that are idle.
    pub(super) fn handle_tick(&mut self, now: Instant) {
        self.served.retain(|_, sessions| {
            let idle = sessions.extract_if(.., |session| session.ends_at() <= now);
            idle.for_each(ServedSession::end);
            !sessions.is_empty()
        });
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        self.end_sessions(|_| false);
        std::mem::take(&mut self.served).into_values().flatten().for_each(ServedSession::end);
    }
}

impl ServedSession {
    fn ends_at(&self) -> Instant {
        self.active_at + SERVED_IDLE
    }

    fn end(self) {
        let duration = self.active_at - self.began_at;
        self.moved.with_counts().end_after(duration);
    }
}

/// A name for a peer; those that are not on libp2p have none of their own.
fn name_of(id: Option<PeerId>) -> String {
    id.map_or_else(|| "a peer of the page".to_owned(), |id| id.to_string())
}
