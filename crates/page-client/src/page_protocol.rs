//! The page protocol of one connection, without sockets or clocks.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use watchfire_types::{Instant, PeerId};

use crate::assembler::{Assembled, Assembler, AssemblyBudget};
use crate::frame::{self, FrameContent, Payload, ServerFrame};
use crate::messages::{self, Counts, Have, PeerInfo};
use crate::outgoing::{Outgoing, SentSegment};
use crate::segment::Segment;

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
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(20);
/// How often an incomplete holder requests more peers.
const MORE_PEERS_INTERVAL: Duration = Duration::from_secs(5);

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
    /// The server relayed a complete message of `bytes` to a peer.
    Sent {
        peer: PeerId,
        bytes: usize,
    },
    Counts(Counts),
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
}

#[derive(Debug)]
struct Peer {
    assembler: Assembler,
    outgoing: Outgoing,
    last_frame_at: Instant,
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
    pending: HashMap<u64, PendingRequest>,
    /// The deadlines of the requests, in order. Requests with a reply stay until their deadline.
    deadlines: VecDeque<(Instant, u64)>,
    heartbeat_at: Instant,
    more_peers_at: Instant,
    outputs: VecDeque<Output>,
}

impl PageProtocol {
    /// Joins the topic of the page. Members of `join_params` are added to the join's parameters.
    pub(crate) fn start(now: Instant, page: &str, have: Have, join_params: Value) -> Self {
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
            pending: HashMap::new(),
            deadlines: VecDeque::new(),
            heartbeat_at: now + HEARTBEAT_INTERVAL,
            more_peers_at: now + MORE_PEERS_INTERVAL,
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
        if let Some(peer_state) = self.peers.get_mut(&peer) {
            peer_state.outgoing.push(message);
            self.send_segments(now, peer);
        }
    }

    /// Ignores a peer from now on.
    pub(crate) fn ban(&mut self, peer: PeerId) {
        if self.banned.len() == BANNED_MAX {
            self.banned.pop_first();
        }
        self.banned.insert(peer);
        self.remove(peer);
    }

    pub(crate) fn handle_text(&mut self, now: Instant, text: &str) {
        self.handle_frame(now, frame::read_text(text));
    }

    pub(crate) fn handle_binary(&mut self, now: Instant, bytes: &Bytes) {
        self.handle_frame(now, frame::read_binary(bytes));
    }

    pub(crate) fn handle_tick(&mut self, now: Instant) {
        while let Some(&(at, reference)) = self.deadlines.front()
            && (at <= now || !self.pending.contains_key(&reference))
        {
            self.deadlines.pop_front();
            if let Some(request) = self.pending.remove(&reference) {
                self.handle_timeout(now, request);
            }
        }
        if self.heartbeat_at <= now {
            self.heartbeat_at = now + HEARTBEAT_INTERVAL;
            let reference = self.reference(now, PendingRequest::Heartbeat);
            let heartbeat = frame::text(None, reference, "phoenix", "heartbeat", &json!({}));
            self.outputs.push_back(Output::Text(heartbeat));
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
    }

    /// When to call [`PageProtocol::handle_tick`].
    pub(crate) fn next_wake(&self) -> Instant {
        let deadline = self.deadlines.front().map(|(at, _)| *at);
        let retries = self.peers.values().filter_map(|peer_state| peer_state.outgoing.next_wake());
        retries
            .chain(deadline)
            .chain([self.heartbeat_at, self.more_peers_at])
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
            ("peer_joined", Payload::Json(json)) => {
                if let Some(info) = messages::peer_info(&json) {
                    self.add_peer(now, info);
                }
            }
            ("peer_left", Payload::Json(json)) => {
                if let Some(peer) = messages::peer_id(&json) {
                    self.remove(peer);
                }
            }
            ("counts", Payload::Json(json)) => {
                let counts = messages::counts(&json).map(Output::Counts);
                self.outputs.extend(counts);
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
                    self.outputs.push_back(Output::Joined);
                    self.outputs.push_back(Output::Counts(reply.counts));
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
                    return self.remove(peer);
                }
                self.send_segments(now, peer);
            }
            PendingRequest::Heartbeat | PendingRequest::Have => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant, request: PendingRequest) {
        match request {
            PendingRequest::Join | PendingRequest::Heartbeat => {
                self.report_broken("the server did not reply in time")
            }
            PendingRequest::Relay { peer, segment } => {
                let Some(peer_state) = self.peers.get_mut(&peer) else { return };
                match peer_state.outgoing.handle_timeout(segment) {
                    Ok(()) => self.send_segments(now, peer),
                    Err(_) => self.remove(peer),
                }
            }
            PendingRequest::Have | PendingRequest::MorePeers => {}
        }
    }

    fn handle_relayed(&mut self, now: Instant, frame: &Bytes) {
        let Some((peer, segment)) = Segment::decode(frame) else { return };
        // A peer may send a message before the server introduces it to this client.
        self.add_peer(now, PeerInfo { peer, have: Have::None });
        let Some(peer_state) = self.peers.get_mut(&peer) else { return };
        peer_state.last_frame_at = now;
        let output = match peer_state.assembler.accept(now, &mut self.budget, segment) {
            Assembled::Whole(bytes) => Output::Message { peer, bytes },
            Assembled::Partial => Output::Receiving { peer },
            Assembled::Malformed => Output::Malformed { peer },
            Assembled::Dropped => return,
        };
        self.outputs.push_back(output);
    }

    fn add_peer(&mut self, now: Instant, PeerInfo { peer, have }: PeerInfo) {
        let is_known = self.peers.contains_key(&peer);
        if is_known || self.me == Some(peer) || self.banned.contains(&peer) {
            return;
        }
        if self.peers.len() == PEERS_MAX {
            let longest = self.peers.iter().min_by_key(|(_, peer_state)| peer_state.last_frame_at);
            let silent =
                longest.filter(|(_, peer_state)| now.since(peer_state.last_frame_at) > SILENT_MIN);
            let Some(silent) = silent.map(|(peer, _)| *peer) else { return };
            self.remove(silent);
        }
        let outgoing = Outgoing::new(FRAME_BYTES_MAX);
        let peer_state = Peer { assembler: Assembler::default(), outgoing, last_frame_at: now };
        self.peers.insert(peer, peer_state);
        self.outputs.push_back(Output::PeerConnected { peer, have });
    }

    fn remove(&mut self, peer: PeerId) {
        if let Some(mut peer_state) = self.peers.remove(&peer) {
            peer_state.assembler.clear(&mut self.budget);
            self.outputs.push_back(Output::PeerDisconnected { peer });
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
        self.deadlines.push_back((now + REPLY_TIMEOUT, reference));
        // Replies arrive in any order. Deadlines of requests with a reply are removed when first.
        while self.deadlines.front().is_some_and(|(_, first)| !self.pending.contains_key(first)) {
            self.deadlines.pop_front();
        }
        reference
    }

    fn report_broken(&mut self, reason: &'static str) {
        self.outputs.push_back(Output::Broken { reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";
    const ALICE: PeerId = PeerId(0xa);

    struct Fixture {
        protocol: PageProtocol,
        now: Instant,
    }

    impl Fixture {
        fn start() -> Self {
            let now = Instant::ZERO;
            let protocol = PageProtocol::start(now, PAGE, Have::None, json!({}));
            let mut fixture = Fixture { protocol, now };
            let join =
                format!(r#"["1","1","page:{PAGE}","phx_join",{{"have":"none","kind":"node"}}]"#);
            assert_eq!(fixture.outputs(), [Output::Text(join)]);
            fixture
        }

        /// A client that has joined the page, with Alice as its peer.
        fn joined() -> Self {
            let mut fixture = Fixture::start();
            let peers = json!([{ "peer": ALICE.to_string(), "have": "all" }]);
            let counts = json!({ "watching": 2, "holders": 1, "partial": 0 });
            let me = PeerId(1).to_string();
            fixture.reply(1, "ok", &json!({ "peer": me, "peers": peers, "counts": counts }));
            let counts = Counts { watching: 2, holders: 1, partial: 0 };
            let connected = Output::PeerConnected { peer: ALICE, have: Have::All };
            assert_eq!(fixture.outputs(), [Output::Joined, Output::Counts(counts), connected]);
            fixture
        }

        fn outputs(&mut self) -> Vec<Output> {
            std::iter::from_fn(|| self.protocol.poll_output()).collect()
        }

        fn reply(&mut self, reference: u64, status: &str, response: &Value) {
            let payload = json!({ "status": status, "response": response });
            let text =
                frame::text(Some("1"), reference, &format!("page:{PAGE}"), "phx_reply", &payload);
            self.protocol.handle_text(self.now, &text);
        }

        fn event(&mut self, event: &str, payload: &Value) {
            let message = json!([null, null, format!("page:{PAGE}"), event, payload]).to_string();
            self.protocol.handle_text(self.now, &message);
        }

        fn relay(&mut self, from: PeerId, segment: &Segment) {
            let topic = format!("page:{PAGE}");
            let mut frame = vec![0, 1, u8::try_from(topic.len()).unwrap(), 5];
            frame.extend_from_slice(format!("1{topic}relay").as_bytes());
            segment.encode(from, &mut frame);
            self.protocol.handle_binary(self.now, &frame.into());
        }

        fn advance(&mut self, time: Duration) {
            self.now += time;
            self.protocol.handle_tick(self.now);
        }
    }

    fn segment(offset: usize, total: usize, bytes: &'static [u8]) -> Segment {
        Segment { message: 3, offset, total, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn peers_connect_and_disconnect() {
        let mut fixture = Fixture::joined();
        let bob = PeerId(0xb);
        fixture.event("peer_joined", &json!({ "peer": bob.to_string(), "have": "some" }));
        fixture.event("peer_joined", &json!({ "peer": PeerId(1).to_string(), "have": "all" }));
        fixture.event("peer_left", &json!({ "peer": bob.to_string() }));
        let connected = Output::PeerConnected { peer: bob, have: Have::Some };
        assert_eq!(
            fixture.outputs(),
            [connected, Output::PeerDisconnected { peer: bob }],
            "the client is not its own peer"
        );
    }

    #[test]
    fn messages_are_assembled_even_from_peers_that_were_not_introduced() {
        let mut fixture = Fixture::joined();
        let carol = PeerId(0xc);
        fixture.relay(carol, &segment(0, 4, b"ab"));
        fixture.relay(carol, &segment(2, 4, b"cd"));
        fixture.relay(carol, &segment(0, 0, b""));
        let expected = [
            Output::PeerConnected { peer: carol, have: Have::None },
            Output::Receiving { peer: carol },
            Output::Message { peer: carol, bytes: "abcd".into() },
            Output::Malformed { peer: carol },
        ];
        assert_eq!(fixture.outputs(), expected);
        fixture.protocol.ban(carol);
        fixture.relay(carol, &segment(0, 1, b"x"));
        assert_eq!(
            fixture.outputs(),
            [Output::PeerDisconnected { peer: carol }],
            "messages of a banned peer are ignored"
        );
    }

    #[test]
    fn a_message_is_reported_as_sent_when_the_server_relayed_all_segments() {
        let mut fixture = Fixture::joined();
        fixture.protocol.send(fixture.now, ALICE, vec![5; 100_000].into());
        let frames = fixture.outputs();
        assert_eq!(frames.len(), 2);
        assert!(
            frames
                .iter()
                .all(|frame| matches!(frame, Output::Binary(bytes) if bytes.len() < 66_000))
        );
        let busy = json!({ "reason": "peer busy", "retry_after_ms": 100 });
        fixture.reply(2, "error", &busy);
        fixture.reply(3, "ok", &json!({}));
        assert_eq!(fixture.outputs(), []);
        assert_eq!(fixture.protocol.next_wake(), fixture.now + Duration::from_millis(100));
        fixture.advance(Duration::from_millis(100));
        assert_eq!(fixture.outputs().len(), 1, "the rejected segment is sent again");
        fixture.reply(4, "ok", &json!({}));
        assert_eq!(fixture.outputs(), [Output::Sent { peer: ALICE, bytes: 100_000 }]);
    }

    #[test]
    fn an_unreachable_peer_is_disconnected() {
        let mut fixture = Fixture::joined();
        fixture.protocol.send(fixture.now, ALICE, "hi".into());
        fixture.outputs();
        fixture.reply(2, "error", &json!({ "reason": "peer gone" }));
        assert_eq!(fixture.outputs(), [Output::PeerDisconnected { peer: ALICE }]);
        fixture.reply(2, "ok", &json!({}));
        assert_eq!(fixture.outputs(), [], "a repeated reply is ignored");
    }

    #[test]
    fn the_client_announces_its_blocks_and_sends_heartbeats() {
        let mut fixture = Fixture::joined();
        fixture.protocol.set_have(fixture.now, Have::All);
        fixture.protocol.set_have(fixture.now, Have::All);
        let have = format!(r#"["1","2","page:{PAGE}","have",{{"have":"all"}}]"#);
        assert_eq!(fixture.outputs(), [Output::Text(have)]);
        fixture.reply(2, "ok", &json!({}));
        fixture.advance(HEARTBEAT_INTERVAL);
        let heartbeat = r#"[null,"3","phoenix","heartbeat",{}]"#.to_owned();
        assert_eq!(fixture.outputs(), [Output::Text(heartbeat)]);
        fixture.advance(REPLY_TIMEOUT);
        let reason = "the server did not reply in time";
        assert_eq!(fixture.outputs(), [Output::Broken { reason }]);
    }

    #[test]
    fn an_incomplete_holder_requests_more_peers() {
        let mut fixture = Fixture::joined();
        fixture.advance(MORE_PEERS_INTERVAL);
        let request = format!(r#"["1","2","page:{PAGE}","more_peers",{{}}]"#);
        assert_eq!(fixture.outputs(), [Output::Text(request)]);
        fixture.reply(
            2,
            "ok",
            &json!({ "peers": [{ "peer": "000000000000000d", "have": "all" }] }),
        );
        assert_eq!(
            fixture.outputs(),
            [Output::PeerConnected { peer: PeerId(0xd), have: Have::All }]
        );
    }

    #[test]
    fn a_rejected_join_and_a_closed_channel_are_reported_with_reasons() {
        let mut fixture = Fixture::start();
        fixture.reply(1, "error", &json!({ "reason": "page full", "max": 7 }));
        assert_eq!(fixture.outputs(), [Output::Rejected { reason: "page full".into() }]);
        let mut fixture = Fixture::joined();
        fixture.event("phx_error", &json!({}));
        assert!(matches!(fixture.outputs()[..], [Output::Broken { .. }]));
        fixture.protocol.handle_text(fixture.now, "{}");
        assert!(matches!(fixture.outputs()[..], [Output::Broken { .. }]));
    }

    #[test]
    fn at_the_peer_limit_a_new_peer_replaces_a_silent_one() {
        let mut fixture = Fixture::joined();
        for number in 0..100 {
            fixture.relay(PeerId(1000 + number), &segment(0, 1, b"x"));
        }
        let connected = |outputs: Vec<Output>| {
            outputs.iter().filter(|output| matches!(output, Output::PeerConnected { .. })).count()
        };
        assert_eq!(connected(fixture.outputs()), PEERS_MAX - 1);
        fixture.now += SILENT_MIN + Duration::from_secs(1);
        fixture.relay(PeerId(5000), &segment(0, 1, b"x"));
        let outputs = fixture.outputs();
        assert!(matches!(outputs[0], Output::PeerDisconnected { .. }), "{outputs:?}");
        assert_eq!(fixture.protocol.peers.len(), PEERS_MAX);
    }
}
