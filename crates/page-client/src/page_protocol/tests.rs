use super::direct_paths::DIRECT_HOLD;
use super::liveness::{HEARTBEAT_INTERVAL, PROBE_TIMEOUT, QUIET_MAX};
use super::*;
use crate::direct::{DirectLimit, Offer, Secret, StreamEvent};
use std::net::SocketAddr;

const PAGE: &str = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";
const ALICE: PeerId = PeerId(0xa);
const SECRET: Secret = Secret([9; 16]);

struct Fixture {
    protocol: PageProtocol,
    now: Instant,
}

impl Fixture {
    fn start() -> Self {
        Self::start_with(None)
    }

    fn start_with(direct: Option<DirectConnections>) -> Self {
        let now = Instant::ZERO;
        let protocol = PageProtocol::start(now, PAGE, Have::None, json!({}), direct, 7);
        let mut fixture = Fixture { protocol, now };
        let join = format!(r#"["1","1","page:{PAGE}","phx_join",{{"have":"none","kind":"node"}}]"#);
        assert_eq!(fixture.outputs(), [Output::Text(join)]);
        fixture
    }

    /// A client that has joined the page, with Alice as its peer.
    fn joined() -> Self {
        Self::start().join()
    }

    /// The same, with an address for direct connections.
    fn joined_with_direct() -> Self {
        Self::start_with(Some(direct_connections(1))).join()
    }

    /// The same, and browsers may dial it.
    fn joined_with_streams() -> Self {
        let offer = || {
            let addresses = vec!["10.0.0.1:4433".to_owned()];
            Some(Offer { secret: SECRET, addresses, certificate: "0f".repeat(32) })
        };
        let direct = direct_connections(2).with_streams(Box::new(offer));
        Self::start_with(Some(direct)).join()
    }

    fn join(mut self) -> Self {
        let fixture = &mut self;
        let peers = json!([{ "peer": ALICE.to_string(), "have": "all" }]);
        let counts = json!({ "watching": 2, "holders": 1, "partial": 0 });
        let me = PeerId(1).to_string();
        fixture.reply(1, "ok", &json!({ "peer": me, "peers": peers, "counts": counts }));
        let counts = Counts { watching: 2, holders: 1, partial: 0, ..Counts::default() };
        let connected = Output::PeerConnected { peer: ALICE, have: Have::All };
        let nowhere = Output::Elsewhere(Vec::new());
        assert_eq!(fixture.outputs(), [Output::Joined, Output::Counts(counts), nowhere, connected]);
        self
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
        let mut payload = Vec::new();
        segment.encode(from, &mut payload);
        self.push("relay", &payload);
    }

    fn signal(&mut self, from: PeerId, signal: &str) {
        self.push("signal", &[&from.to_bytes(), signal.as_bytes()].concat());
    }

    fn push(&mut self, event: &str, payload: &[u8]) {
        let topic = format!("page:{PAGE}");
        let lengths = [1, topic.len(), event.len()].map(|len| u8::try_from(len).unwrap());
        let head = [&[0], &lengths[..], format!("1{topic}{event}").as_bytes()].concat();
        self.protocol.handle_binary(self.now, &[&head, payload].concat().into());
    }

    /// The numbers of frames that are relayed, and of signals, among the outputs.
    fn frames(&mut self) -> (usize, usize) {
        let outputs = self.outputs();
        let count = |event: &str| {
            let topic = format!("page:{PAGE}{event}");
            let is_event =
                |bytes: &[u8]| bytes.windows(topic.len()).any(|window| window == topic.as_bytes());
            let of_event =
                |output: &&Output| matches!(output, Output::Binary(bytes) if is_event(bytes));
            outputs.iter().filter(of_event).count()
        };
        (count("relay"), count("signal"))
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
        self.protocol.handle_tick(self.now);
    }
}

fn direct_connections(max: usize) -> DirectConnections {
    let addresses = || vec![SocketAddr::from(([10, 0, 0, 1], 9))];
    let started_at = std::time::Instant::now();
    DirectConnections::new(started_at, DirectLimit::new(max), Box::new(addresses))
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
    fixture.relay(carol, &Segment { message: 4, ..segment(0, 0, b"") });
    let expected = [
        Output::PeerConnected { peer: carol, have: Have::None },
        Output::Receiving { peer: carol },
        Output::Message { peer: carol, bytes: "abcd".into() },
        Output::Malformed { peer: carol },
    ];
    assert_eq!(fixture.outputs(), expected);
    fixture.protocol.ban(fixture.now, carol);
    fixture.relay(carol, &segment(0, 1, b"x"));
    assert_eq!(
        fixture.outputs(),
        [Output::PeerDisconnected { peer: carol }],
        "messages of a banned peer are ignored"
    );
}

#[test]
fn a_message_that_is_relayed_twice_is_read_once() {
    let mut fixture = Fixture::joined();
    let parts = [segment(0, 4, b"ab"), segment(2, 4, b"cd")];
    let whole = |message| Segment { message, ..segment(0, 2, b"hi") };
    let mut messages = || {
        parts.iter().for_each(|part| fixture.relay(ALICE, part));
        fixture.relay(ALICE, &whole(4));
        let outputs = fixture.outputs();
        let is_message = |output: &&Output| matches!(output, Output::Message { .. });
        (outputs.iter().filter(is_message).count(), outputs.len())
    };
    assert_eq!(messages(), (2, 3));
    // The server's replies were late, so the sender has sent all of it again.
    assert_eq!(messages(), (0, 0));
    let alice = &fixture.protocol.peers[&ALICE];
    assert_eq!((alice.moved_bytes, fixture.protocol.budget.bytes), (6, 0));
    fixture.relay(ALICE, &whole(5));
    assert_eq!(fixture.outputs().len(), 1, "the next message is read");
}

#[test]
fn a_peer_that_was_lost_gets_messages_with_other_numbers() {
    let mut fixture = Fixture::joined();
    let mut first_number = || {
        fixture.protocol.send(fixture.now, ALICE, "hi".into());
        let number = fixture.protocol.peers[&ALICE].next_message;
        fixture.event("peer_left", &json!({ "peer": ALICE.to_string() }));
        fixture.event("peer_joined", &json!({ "peer": ALICE.to_string(), "have": "all" }));
        number
    };
    let numbers = [first_number(), first_number()];
    assert!(numbers[0].abs_diff(numbers[1]) > 2 * READ_MAX as u32, "{numbers:?}");
}

#[test]
fn a_message_is_reported_as_sent_when_the_server_relayed_all_segments() {
    let mut fixture = Fixture::joined();
    fixture.protocol.send_blocks(fixture.now, ALICE, vec![5; 100_000].into());
    let frames = fixture.outputs();
    assert_eq!(frames.len(), 2);
    assert!(
        frames.iter().all(|frame| matches!(frame, Output::Binary(bytes) if bytes.len() < 66_000))
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
    // The relay has no acknowledgements.
    fixture.relay(ALICE, &segment(0, 2, b"hi"));
    let message = Output::Message { peer: ALICE, bytes: "hi".into() };
    assert_eq!(fixture.outputs(), [Output::Acknowledged { peer: ALICE, messages: 1 }, message]);
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
fn a_long_message_waits_a_second_for_a_direct_connection() {
    let mut fixture = Fixture::joined_with_direct();
    fixture.protocol.send(fixture.now, ALICE, vec![5; 20_000].into());
    assert_eq!(fixture.frames(), (1, 0), "too little for a connection");
    fixture.reply(2, "ok", &json!({}));
    fixture.protocol.send(fixture.now, ALICE, vec![5; 120_000].into());
    fixture.protocol.send(fixture.now, ALICE, "hi".into());
    assert_eq!(fixture.frames(), (1, 1), "a call, and the short message");
    fixture.advance(DIRECT_HOLD);
    assert_eq!(fixture.frames().0, 2, "the long message is relayed");
}

#[test]
fn a_call_that_the_server_does_not_forward_ends_the_wait() {
    let mut fixture = Fixture::joined_with_direct();
    fixture.protocol.send(fixture.now, ALICE, vec![5; 140_000].into());
    assert_eq!(fixture.frames(), (0, 1));
    fixture.reply(2, "error", &json!({ "reason": "signal too large", "max": 1 }));
    assert_eq!(fixture.frames().0, 3);
}

#[test]
fn a_stream_that_opens_during_a_call_carries_the_messages_that_wait() {
    let mut fixture = Fixture::joined_with_streams();
    fixture.protocol.send(fixture.now, ALICE, vec![5; 140_000].into());
    assert_eq!(fixture.frames(), (0, 1), "an invitation");
    fixture.advance(Duration::from_millis(250));
    assert_eq!(fixture.frames(), (0, 1), "a call");
    fixture.protocol.handle_stream_event(fixture.now, SECRET, StreamEvent::Opened);
    let outputs = fixture.outputs();
    let is_for_stream = |output: &&Output| matches!(output, Output::StreamFrame { .. });
    assert_eq!(outputs.iter().filter(is_for_stream).count(), 9);
    let is_for_server = |output: &Output| matches!(output, Output::Binary(_));
    assert!(!outputs.iter().any(is_for_server), "nothing is relayed");
}

#[test]
fn a_peer_that_only_the_server_has_lost_gets_the_rest_directly() {
    let mut fixture = Fixture::joined_with_streams();
    fixture.protocol.send(fixture.now, ALICE, vec![5; 120_000].into());
    assert_eq!(fixture.frames(), (2, 0), "too little for a connection");
    fixture.protocol.send(fixture.now, ALICE, vec![5; 20_000].into());
    fixture.protocol.handle_stream_event(fixture.now, SECRET, StreamEvent::Opened);
    fixture.outputs();
    fixture.reply(2, "error", &json!({ "reason": "peer gone" }));
    fixture.reply(3, "error", &json!({ "reason": "peer gone" }));
    let outputs = fixture.outputs();
    let is_gone = |output: &Output| matches!(output, Output::PeerDisconnected { .. });
    let is_direct = |output: &Output| matches!(output, Output::StreamFrame { .. });
    assert!(outputs.iter().any(is_direct) && !outputs.iter().any(is_gone), "{outputs:?}");
    assert!(fixture.protocol.peers[&ALICE].outgoing.next_wake().is_none());
}

#[test]
fn messages_with_blocks_are_acknowledged_before_what_the_browser_sends_afterwards() {
    let mut fixture = Fixture::joined_with_streams();
    let now = fixture.now;
    fixture.protocol.send_blocks(now, ALICE, vec![5; 140_000].into());
    fixture.protocol.handle_stream_event(now, SECRET, StreamEvent::Opened);
    fixture.protocol.send_blocks(now, ALICE, vec![5; 20_000].into());
    let next = fixture.protocol.peers[&ALICE].next_message;
    let mut events = |frame: &[u8]| {
        let event = StreamEvent::Frame(Bytes::copy_from_slice(frame));
        fixture.protocol.handle_stream_event(now, SECRET, event);
        let mut outputs = fixture.outputs();
        outputs.retain(|output| {
            matches!(output, Output::Acknowledged { .. } | Output::Message { .. })
        });
        outputs
    };
    let read = |message: u32| [&[1][..], &message.to_be_bytes()].concat();
    let hi = |message| {
        let mut frame = vec![0];
        Segment { message, ..segment(0, 2, b"hi") }.encode_body(&mut frame);
        frame
    };
    let message = Output::Message { peer: ALICE, bytes: "hi".into() };
    let acknowledged = |messages| Output::Acknowledged { peer: ALICE, messages };
    assert_eq!(events(&hi(1)), std::slice::from_ref(&message), "it has crossed both");
    assert_eq!(events(&read(next.wrapping_sub(2))), []);
    assert_eq!(events(&hi(2)), [acknowledged(1), message.clone()]);
    assert_eq!(events(&read(next.wrapping_sub(1))), []);
    assert_eq!(events(&hi(3)), [acknowledged(2), message.clone()]);
    assert_eq!(events(&hi(4)), [message]);
}

#[test]
fn nodes_are_not_called() {
    let mut fixture = Fixture::joined_with_direct();
    let node = json!({ "peer": ALICE.to_string(), "have": "all", "kind": "node" });
    fixture.event("peer_joined", &node);
    fixture.protocol.send(fixture.now, ALICE, vec![5; 140_000].into());
    assert_eq!(fixture.frames(), (3, 0));
}

#[test]
fn a_peer_that_sends_invalid_signals_is_dropped() {
    let mut fixture = Fixture::joined_with_direct();
    fixture.signal(ALICE, "this is not JSON");
    let reason = "an invalid signal";
    let dropped = [Output::Dropped { reason }, Output::PeerDisconnected { peer: ALICE }];
    assert_eq!(fixture.outputs(), dropped);
    fixture.signal(ALICE, "nor this");
    fixture.signal(PeerId(1), "from this client itself");
    assert_eq!(fixture.outputs(), []);
    let mut without = Fixture::joined();
    without.signal(ALICE, "this is not JSON");
    assert_eq!(without.outputs(), [], "signals are ignored without direct connections");
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
fn a_silent_server_is_asked_and_then_the_connection_is_replaced() {
    let mut fixture = Fixture::joined();
    fixture.protocol.set_have(fixture.now, Have::All);
    fixture.outputs();
    assert_eq!(fixture.protocol.next_wake(), fixture.now + QUIET_MAX);
    fixture.advance(QUIET_MAX);
    let heartbeat = r#"[null,"3","phoenix","heartbeat",{}]"#.to_owned();
    assert_eq!(fixture.outputs(), [Output::Text(heartbeat)]);
    fixture.advance(PROBE_TIMEOUT);
    let reason = "the server did not reply in time";
    assert_eq!(fixture.outputs(), [Output::Broken { reason }]);
}

#[test]
fn a_server_that_sends_anything_is_not_silent() {
    let mut fixture = Fixture::joined();
    fixture.protocol.set_have(fixture.now, Have::All);
    fixture.outputs();
    fixture.advance(HEARTBEAT_INTERVAL - REPLY_TIMEOUT - Duration::from_secs(1));
    fixture.outputs();
    // Parts of messages delay the replies to both heartbeats.
    for _ in 0..12 {
        fixture.relay(ALICE, &segment(0, 4, b"ab"));
        assert_eq!(fixture.outputs(), [Output::Receiving { peer: ALICE }]);
        fixture.advance(Duration::from_secs(2));
        let outputs = fixture.outputs();
        let is_broken = |output: &Output| matches!(output, Output::Broken { .. });
        assert!(!outputs.iter().any(is_broken), "{outputs:?}");
    }
}

#[test]
fn the_servers_that_have_the_page_too_are_reported() {
    let mut fixture = Fixture::joined();
    fixture.event("elsewhere", &json!({ "servers": ["https://a.example", "a.example"] }));
    fixture.event("elsewhere", &json!({ "servers": [] }));
    let there = vec!["https://a.example".parse().unwrap()];
    assert_eq!(fixture.outputs(), [Output::Elsewhere(there), Output::Elsewhere(Vec::new())]);
}

#[test]
fn an_incomplete_holder_requests_more_peers() {
    let mut fixture = Fixture::joined();
    fixture.advance(MORE_PEERS_INTERVAL);
    let request = format!(r#"["1","2","page:{PAGE}","more_peers",{{}}]"#);
    assert_eq!(fixture.outputs(), [Output::Text(request)]);
    fixture.reply(2, "ok", &json!({ "peers": [{ "peer": "000000000000000d", "have": "all" }] }));
    assert_eq!(fixture.outputs(), [Output::PeerConnected { peer: PeerId(0xd), have: Have::All }]);
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
