//! The conversation with a server about one page, without sockets or clocks.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use vocab::{Instant, PeerId};

use crate::assembler::{Assembled, Assembler, AssemblyBudget};
use crate::frame::{self, Payload, Said, What};
use crate::outgoing::{Outgoing, Part};
use crate::segment::Segment;
use crate::told::{self, Counts, Have, Introduction};

/// Peers that are talked to. At one more, whoever has said nothing for longest makes room, if that
/// is long enough; otherwise the newcomer is not let in.
const PEERS_MAX: usize = 64;
/// How long a peer must have been silent to make room.
const SILENT_MIN: Duration = Duration::from_secs(10);
/// Peers that are not listened to any more; at one more, the smallest of them may try again.
const BANNED_MAX: usize = 256;
/// Bytes of unfinished messages of all peers together.
const ASSEMBLY_BYTES_MAX: usize = 32 << 20;
/// A relayed frame, until the server says otherwise.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// How long the server has for any answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often the server hears from us, whatever else is said.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(20);
/// How often who misses something asks for other peers.
const MORE_PEERS_EVERY: Duration = Duration::from_secs(5);

/// What follows from what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// To be sent to the server.
    Text(String),
    /// To be sent to the server.
    Binary(Vec<u8>),
    /// We are on the page.
    Joined,
    /// We are not let in, or are sent away; to be tried again much later.
    Refused { reason: String },
    /// A peer is there that can be written to.
    Met { peer: PeerId, have: Have },
    /// It is there no more; what was not sent is lost.
    Lost { peer: PeerId },
    /// A peer's message, whole.
    Message { peer: PeerId, bytes: Bytes },
    /// Part of a peer's message came.
    Arriving { peer: PeerId },
    /// A peer sends what no honest one does.
    Malformed { peer: PeerId },
    /// A message to a peer is through, of so many bytes.
    Sent { peer: PeerId, bytes: usize },
    /// Who watches.
    Counts(Counts),
    /// The connection is no good any more.
    Broken { reason: &'static str },
}

/// What the server was asked.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Join,
    Heartbeat,
    Have,
    MorePeers,
    Relay { peer: PeerId, part: Part },
}

#[derive(Debug)]
struct Member {
    assembler: Assembler,
    outgoing: Outgoing,
    heard_at: Instant,
}

/// One connection's talk about one page, from the join on.
#[derive(Debug)]
pub(crate) struct Talk {
    topic: String,
    have: Have,
    /// What the server was told of it.
    told_have: Have,
    next_ref: u64,
    join_ref: String,
    me: Option<PeerId>,
    members: BTreeMap<PeerId, Member>,
    banned: BTreeSet<PeerId>,
    budget: AssemblyBudget,
    asked: HashMap<u64, Asked>,
    /// When the oldest questions are overdue, in order; many of them are answered.
    overdue: VecDeque<(Instant, u64)>,
    heartbeat_at: Instant,
    more_peers_at: Instant,
    outputs: VecDeque<Output>,
}

impl Talk {
    /// Joins the topic, as the first thing on a connection. `extra` goes along with the join.
    pub(crate) fn begin(now: Instant, page: &str, have: Have, extra: Value) -> Self {
        let mut talk = Talk {
            topic: format!("page:{page}"),
            have,
            told_have: have,
            next_ref: 1,
            join_ref: "1".to_owned(),
            me: None,
            members: BTreeMap::new(),
            banned: BTreeSet::new(),
            budget: AssemblyBudget { bytes: 0, bytes_max: ASSEMBLY_BYTES_MAX },
            asked: HashMap::new(),
            overdue: VecDeque::new(),
            heartbeat_at: now + HEARTBEAT_EVERY,
            more_peers_at: now + MORE_PEERS_EVERY,
            outputs: VecDeque::new(),
        };
        let mut payload = json!({ "have": have, "kind": "node" });
        if let (Value::Object(payload), Value::Object(extra)) = (&mut payload, extra) {
            payload.extend(extra);
        }
        talk.ask(now, Asked::Join, "phx_join", &payload);
        talk
    }

    /// How much of the page is here from now on.
    pub(crate) fn set_have(&mut self, now: Instant, have: Have) {
        self.have = have;
        self.tell_have(now);
    }

    /// Queues a message for a peer.
    pub(crate) fn say(&mut self, now: Instant, peer: PeerId, message: Bytes) {
        if let Some(member) = self.members.get_mut(&peer) {
            member.outgoing.push(message);
            self.pump(now, peer);
        }
    }

    /// Hears nothing more from a peer.
    pub(crate) fn ban(&mut self, peer: PeerId) {
        if self.banned.len() == BANNED_MAX {
            self.banned.pop_first();
        }
        self.banned.insert(peer);
        self.remove(peer);
    }

    /// The server said something, as text.
    pub(crate) fn heard_text(&mut self, now: Instant, text: &str) {
        self.heard(now, frame::read_text(text));
    }

    /// The server said something, as bytes.
    pub(crate) fn heard_binary(&mut self, now: Instant, bytes: &Bytes) {
        self.heard(now, frame::read_binary(bytes));
    }

    /// Does what is due.
    pub(crate) fn handle_tick(&mut self, now: Instant) {
        while let Some(&(at, reference)) = self.overdue.front()
            && (at <= now || !self.asked.contains_key(&reference))
        {
            self.overdue.pop_front();
            if let Some(asked) = self.asked.remove(&reference) {
                self.unanswered(now, asked);
            }
        }
        if self.heartbeat_at <= now {
            self.heartbeat_at = now + HEARTBEAT_EVERY;
            let reference = self.reference(now, Asked::Heartbeat);
            let beat = frame::text(None, reference, "phoenix", "heartbeat", &json!({}));
            self.outputs.push_back(Output::Text(beat));
        }
        if self.more_peers_at <= now {
            self.more_peers_at = now + MORE_PEERS_EVERY;
            if self.me.is_some() && self.have != Have::All {
                self.ask(now, Asked::MorePeers, "more_peers", &json!({}));
            }
        }
        let waited = |(peer, member): (&PeerId, &Member)| {
            member.outgoing.next_wake().is_some_and(|at| at <= now).then_some(*peer)
        };
        let due: Vec<PeerId> = self.members.iter().filter_map(waited).collect();
        due.into_iter().for_each(|peer| self.pump(now, peer));
    }

    /// When to call [`Talk::handle_tick`].
    pub(crate) fn next_wake(&self) -> Instant {
        let overdue = self.overdue.front().map(|(at, _)| *at);
        let waits = self.members.values().filter_map(|member| member.outgoing.next_wake());
        waits
            .chain(overdue)
            .chain([self.heartbeat_at, self.more_peers_at])
            .min()
            .unwrap_or_default()
    }

    /// What follows next.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn heard(&mut self, now: Instant, said: Option<Said>) {
        let Some(Said { topic, join_ref, what }) = said else {
            return self.broken("the server says what is not of the protocol");
        };
        match what {
            What::Reply { reference, is_ok, response } => {
                let asked = reference.parse().ok().and_then(|number| self.asked.remove(&number));
                if let Some(asked) = asked {
                    self.answered(now, asked, is_ok, &response);
                }
            }
            What::Event { event, payload } if topic == self.topic => {
                let is_of_another_join = join_ref.is_some_and(|join_ref| join_ref != self.join_ref);
                if !is_of_another_join && self.me.is_some() {
                    self.event(now, &event, payload);
                }
            }
            What::Event { .. } => {}
        }
    }

    fn event(&mut self, now: Instant, event: &str, payload: Payload) {
        match (event, payload) {
            ("relay", Payload::Bytes(frame)) => self.relayed(now, &frame),
            ("peer_joined", Payload::Json(told)) => {
                if let Some(introduction) = told::introduction(&told) {
                    self.introduce(now, introduction);
                }
            }
            ("peer_left", Payload::Json(told)) => {
                if let Some(peer) = told::peer(&told) {
                    self.remove(peer);
                }
            }
            ("counts", Payload::Json(told)) => {
                let counts = told::counts(&told).map(Output::Counts);
                self.outputs.extend(counts);
            }
            ("phx_error" | "phx_close", _) => self.broken("the server ended the channel"),
            // Lit and dark follow from the counts; what is new is for newer clients.
            _ => {}
        }
    }

    fn answered(&mut self, now: Instant, asked: Asked, is_ok: bool, response: &Value) {
        match asked {
            Asked::Join => match told::welcome(response).filter(|_| is_ok) {
                Some(welcome) => {
                    self.me = Some(welcome.me);
                    self.outputs.push_back(Output::Joined);
                    self.outputs.push_back(Output::Counts(welcome.counts));
                    welcome.peers.into_iter().for_each(|peer| self.introduce(now, peer));
                    self.tell_have(now);
                }
                None => {
                    let reason = told::reason(response);
                    self.outputs.push_back(Output::Refused { reason });
                }
            },
            Asked::MorePeers => {
                let peers = told::introductions(response);
                peers.into_iter().for_each(|peer| self.introduce(now, peer));
            }
            Asked::Relay { peer, part } => {
                let Some(member) = self.members.get_mut(&peer) else { return };
                if is_ok {
                    if let Some(bytes) = member.outgoing.accepted(part) {
                        self.outputs.push_back(Output::Sent { peer, bytes });
                    }
                } else if member.outgoing.refused(now, part, &told::refusal(response)).is_err() {
                    return self.remove(peer);
                }
                self.pump(now, peer);
            }
            Asked::Heartbeat | Asked::Have => {}
        }
    }

    fn unanswered(&mut self, now: Instant, asked: Asked) {
        match asked {
            Asked::Join | Asked::Heartbeat => self.broken("the server does not answer"),
            Asked::Relay { peer, part } => {
                let Some(member) = self.members.get_mut(&peer) else { return };
                match member.outgoing.timed_out(part) {
                    Ok(()) => self.pump(now, peer),
                    Err(_) => self.remove(peer),
                }
            }
            Asked::Have | Asked::MorePeers => {}
        }
    }

    fn relayed(&mut self, now: Instant, frame: &Bytes) {
        let Some((peer, segment)) = Segment::decode(frame) else { return };
        // Who writes first may know us from the server before we know them.
        self.introduce(now, Introduction { peer, have: Have::None });
        let Some(member) = self.members.get_mut(&peer) else { return };
        member.heard_at = now;
        let output = match member.assembler.accept(now, &mut self.budget, segment) {
            Assembled::Whole(bytes) => Output::Message { peer, bytes },
            Assembled::Partial => Output::Arriving { peer },
            Assembled::Malformed => Output::Malformed { peer },
            Assembled::Forgotten => return,
        };
        self.outputs.push_back(output);
    }

    fn introduce(&mut self, now: Instant, Introduction { peer, have }: Introduction) {
        let is_known = self.members.contains_key(&peer);
        if is_known || self.me == Some(peer) || self.banned.contains(&peer) {
            return;
        }
        if self.members.len() == PEERS_MAX {
            let longest = self.members.iter().min_by_key(|(_, member)| member.heard_at);
            let silent = longest.filter(|(_, member)| now.since(member.heard_at) > SILENT_MIN);
            let Some(silent) = silent.map(|(peer, _)| *peer) else { return };
            self.remove(silent);
        }
        let outgoing = Outgoing::new(FRAME_BYTES_MAX);
        let member = Member { assembler: Assembler::default(), outgoing, heard_at: now };
        self.members.insert(peer, member);
        self.outputs.push_back(Output::Met { peer, have });
    }

    fn remove(&mut self, peer: PeerId) {
        if let Some(mut member) = self.members.remove(&peer) {
            member.assembler.clear(&mut self.budget);
            self.outputs.push_back(Output::Lost { peer });
        }
    }

    fn pump(&mut self, now: Instant, peer: PeerId) {
        while let Some(member) = self.members.get_mut(&peer)
            && let Some((part, segment)) = member.outgoing.next(now)
        {
            let reference = self.reference(now, Asked::Relay { peer, part });
            let relay = |frame: &mut Vec<u8>| segment.encode(peer, frame);
            let frame = frame::binary(&self.join_ref, reference, &self.topic, "relay", relay);
            self.outputs.push_back(Output::Binary(frame));
        }
    }

    fn tell_have(&mut self, now: Instant) {
        if self.me.is_some() && self.have != self.told_have {
            self.told_have = self.have;
            self.ask(now, Asked::Have, "have", &json!({ "have": self.have }));
        }
    }

    fn ask(&mut self, now: Instant, asked: Asked, event: &str, payload: &Value) {
        let reference = self.reference(now, asked);
        let join_ref = Some(&*self.join_ref);
        let text = frame::text(join_ref, reference, &self.topic, event, payload);
        self.outputs.push_back(Output::Text(text));
    }

    fn reference(&mut self, now: Instant, asked: Asked) -> u64 {
        let reference = self.next_ref;
        self.next_ref += 1;
        self.asked.insert(reference, asked);
        self.overdue.push_back((now + ANSWER_MAX, reference));
        // Answers come in any order, and whoever is answered is not looked at again for long.
        while self.overdue.front().is_some_and(|(_, first)| !self.asked.contains_key(first)) {
            self.overdue.pop_front();
        }
        reference
    }

    fn broken(&mut self, reason: &'static str) {
        self.outputs.push_back(Output::Broken { reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";
    const ALICE: PeerId = PeerId(0xa);

    struct Story {
        talk: Talk,
        now: Instant,
    }

    impl Story {
        fn begin() -> Self {
            let now = Instant::ZERO;
            let talk = Talk::begin(now, PAGE, Have::None, json!({}));
            let mut story = Story { talk, now };
            let join =
                format!(r#"["1","1","page:{PAGE}","phx_join",{{"have":"none","kind":"node"}}]"#);
            assert_eq!(story.outputs(), [Output::Text(join)]);
            story
        }

        /// On the page, with Alice.
        fn joined() -> Self {
            let mut story = Story::begin();
            let peers = json!([{ "peer": ALICE.to_string(), "have": "all" }]);
            let counts = json!({ "watching": 2, "holders": 1, "partial": 0 });
            let me = PeerId(1).to_string();
            story.reply(1, "ok", &json!({ "peer": me, "peers": peers, "counts": counts }));
            let counts = Counts { watching: 2, holders: 1, partial: 0 };
            let met = Output::Met { peer: ALICE, have: Have::All };
            assert_eq!(story.outputs(), [Output::Joined, Output::Counts(counts), met]);
            story
        }

        fn outputs(&mut self) -> Vec<Output> {
            std::iter::from_fn(|| self.talk.poll_output()).collect()
        }

        fn reply(&mut self, reference: u64, status: &str, response: &Value) {
            let payload = json!({ "status": status, "response": response });
            let text =
                frame::text(Some("1"), reference, &format!("page:{PAGE}"), "phx_reply", &payload);
            self.talk.heard_text(self.now, &text);
        }

        fn event(&mut self, event: &str, payload: &Value) {
            let said = json!([null, null, format!("page:{PAGE}"), event, payload]).to_string();
            self.talk.heard_text(self.now, &said);
        }

        fn relay(&mut self, from: PeerId, segment: &Segment) {
            let topic = format!("page:{PAGE}");
            let mut frame = vec![0, 1, u8::try_from(topic.len()).unwrap(), 5];
            frame.extend_from_slice(format!("1{topic}relay").as_bytes());
            segment.encode(from, &mut frame);
            self.talk.heard_binary(self.now, &frame.into());
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
            self.talk.handle_tick(self.now);
        }
    }

    fn segment(offset: usize, total: usize, bytes: &'static [u8]) -> Segment {
        Segment { message: 3, offset, total, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn peers_come_and_go() {
        let mut story = Story::joined();
        let bob = PeerId(0xb);
        story.event("peer_joined", &json!({ "peer": bob.to_string(), "have": "some" }));
        story.event("peer_joined", &json!({ "peer": PeerId(1).to_string(), "have": "all" }));
        story.event("peer_left", &json!({ "peer": bob.to_string() }));
        let met = Output::Met { peer: bob, have: Have::Some };
        assert_eq!(story.outputs(), [met, Output::Lost { peer: bob }], "we are not a peer of ours");
    }

    #[test]
    fn messages_come_in_parts_also_from_who_was_not_introduced() {
        let mut story = Story::joined();
        let carol = PeerId(0xc);
        story.relay(carol, &segment(0, 4, b"ab"));
        story.relay(carol, &segment(2, 4, b"cd"));
        story.relay(carol, &segment(0, 0, b""));
        let expected = [
            Output::Met { peer: carol, have: Have::None },
            Output::Arriving { peer: carol },
            Output::Message { peer: carol, bytes: "abcd".into() },
            Output::Malformed { peer: carol },
        ];
        assert_eq!(story.outputs(), expected);
        story.talk.ban(carol);
        story.relay(carol, &segment(0, 1, b"x"));
        assert_eq!(story.outputs(), [Output::Lost { peer: carol }], "and no more of it");
    }

    #[test]
    fn a_message_is_through_when_the_server_took_all_of_it() {
        let mut story = Story::joined();
        story.talk.say(story.now, ALICE, vec![5; 100_000].into());
        let frames = story.outputs();
        assert_eq!(frames.len(), 2);
        assert!(
            frames
                .iter()
                .all(|frame| matches!(frame, Output::Binary(bytes) if bytes.len() < 66_000))
        );
        let busy = json!({ "reason": "peer busy", "retry_after_ms": 100 });
        story.reply(2, "error", &busy);
        story.reply(3, "ok", &json!({}));
        assert_eq!(story.outputs(), []);
        assert_eq!(story.talk.next_wake(), story.now + Duration::from_millis(100));
        story.pass(Duration::from_millis(100));
        assert_eq!(story.outputs().len(), 1, "what was refused, again");
        story.reply(4, "ok", &json!({}));
        assert_eq!(story.outputs(), [Output::Sent { peer: ALICE, bytes: 100_000 }]);
    }

    #[test]
    fn who_cannot_be_reached_is_lost() {
        let mut story = Story::joined();
        story.talk.say(story.now, ALICE, "hi".into());
        story.outputs();
        story.reply(2, "error", &json!({ "reason": "peer gone" }));
        assert_eq!(story.outputs(), [Output::Lost { peer: ALICE }]);
        story.reply(2, "ok", &json!({}));
        assert_eq!(story.outputs(), [], "an answer that comes twice is none");
    }

    #[test]
    fn the_server_hears_how_much_is_here_and_that_we_are() {
        let mut story = Story::joined();
        story.talk.set_have(story.now, Have::All);
        story.talk.set_have(story.now, Have::All);
        let have = format!(r#"["1","2","page:{PAGE}","have",{{"have":"all"}}]"#);
        assert_eq!(story.outputs(), [Output::Text(have)]);
        story.reply(2, "ok", &json!({}));
        story.pass(HEARTBEAT_EVERY);
        let beat = r#"[null,"3","phoenix","heartbeat",{}]"#.to_owned();
        assert_eq!(story.outputs(), [Output::Text(beat)]);
        story.pass(ANSWER_MAX);
        let reason = "the server does not answer";
        assert_eq!(story.outputs(), [Output::Broken { reason }]);
    }

    #[test]
    fn who_misses_something_asks_for_more_peers() {
        let mut story = Story::joined();
        story.pass(MORE_PEERS_EVERY);
        let ask = format!(r#"["1","2","page:{PAGE}","more_peers",{{}}]"#);
        assert_eq!(story.outputs(), [Output::Text(ask)]);
        story.reply(2, "ok", &json!({ "peers": [{ "peer": "000000000000000d", "have": "all" }] }));
        assert_eq!(story.outputs(), [Output::Met { peer: PeerId(0xd), have: Have::All }]);
    }

    #[test]
    fn a_refusal_and_an_end_are_told_with_their_reasons() {
        let mut story = Story::begin();
        story.reply(1, "error", &json!({ "reason": "page full", "max": 7 }));
        assert_eq!(story.outputs(), [Output::Refused { reason: "page full".into() }]);
        let mut story = Story::joined();
        story.event("phx_error", &json!({}));
        assert!(matches!(story.outputs()[..], [Output::Broken { .. }]));
        story.talk.heard_text(story.now, "{}");
        assert!(matches!(story.outputs()[..], [Output::Broken { .. }]));
    }

    #[test]
    fn there_is_room_for_so_many_peers_and_the_silent_make_room() {
        let mut story = Story::joined();
        for number in 0..100 {
            story.relay(PeerId(1000 + number), &segment(0, 1, b"x"));
        }
        let met = |outputs: Vec<Output>| {
            outputs.iter().filter(|output| matches!(output, Output::Met { .. })).count()
        };
        assert_eq!(met(story.outputs()), PEERS_MAX - 1);
        story.now += SILENT_MIN + Duration::from_secs(1);
        story.relay(PeerId(5000), &segment(0, 1, b"x"));
        let outputs = story.outputs();
        assert!(matches!(outputs[0], Output::Lost { .. }), "{outputs:?}");
        assert_eq!(story.talk.members.len(), PEERS_MAX);
    }
}
