//! Joins: from the frame of the client to the encoded replies, with presence.

use std::any::Any;
use std::hint::black_box;

use watchfire_channels::{
    Action, Broadcast, ConversationLimits, JoinRef, Patterns, Payload, Push, Reply, Serializer,
    decode_text, encode_broadcast, encode_push, encode_reply, route,
};
use watchfire_hub::{Hub, HubLimits, Presence, PresenceOwner, Subscriptions};

/// Clients that join the same topic, and share a diff.
const CLIENTS_PER_TOPIC: u32 = 10;

struct Server {
    patterns: Patterns<u16>,
    hub: Hub<()>,
    presence: Presence,
    limits: ConversationLimits,
    out: Vec<u8>,
}

struct Client {
    _subscriptions: Subscriptions,
    _join_ref: JoinRef,
    _presence: PresenceOwner,
}

impl Server {
    fn new() -> Self {
        let mut patterns = Patterns::new();
        let known = ["page:*", "desk:*", "fleet:*", "rooms:lobby", "rooms:*"];
        for (number, pattern) in (0..).zip(known) {
            patterns.register(pattern, number).expect("the pattern is valid");
        }
        let (hub, presence) = (Hub::new(7, HubLimits::default()), Presence::new(7));
        let limits = ConversationLimits::default();
        Server { patterns, hub, presence, limits, out: Vec::with_capacity(4_096) }
    }

    fn join(&mut self, number: u32, frame: &str) -> Client {
        let message = decode_text(Serializer::V2, frame).expect("the frame is valid");
        let mut subscriptions = Subscriptions::default();
        assert!(self.hub.find(&subscriptions, &message.topic).is_none());
        let action = route(&message, None, subscriptions.len(), &self.limits);
        assert_eq!(action, Action::Join);
        black_box(self.patterns.find(&message.topic)).expect("a pattern matches");
        let join_ref = JoinRef::of(&message);
        self.hub.subscribe(number, &mut subscriptions, &message.topic);
        let mut owner = PresenceOwner::default();
        let (key, meta) = (format!("user-{number}"), r#"{"status":"online"}"#);
        self.presence.track(&mut owner, &message.topic, &key, meta).expect("the key is new");
        let reply = Reply {
            join_ref: &message.join_ref,
            reference: &message.reference,
            topic: &message.topic,
            status: "ok",
            response: Payload::EMPTY,
        };
        self.out.clear();
        encode_reply(Serializer::V2, &reply, &mut self.out).expect("JSON has this format");
        let state = self.presence.state(&message.topic);
        let push = Push {
            join_ref: &join_ref.shown(),
            topic: &message.topic,
            event: "presence_state",
            payload: Payload::Json(&state),
        };
        encode_push(Serializer::V2, &push, &mut self.out).expect("JSON has this format");
        black_box(&self.out);
        Client { _subscriptions: subscriptions, _join_ref: join_ref, _presence: owner }
    }

    /// Encodes the changes of presence for those who have joined.
    fn broadcast_diffs(&mut self) {
        while let Some(diff) = self.presence.poll_diff() {
            let Some(payload) = &diff.payload else { continue };
            let payload = Payload::Json(payload);
            let broadcast = Broadcast { topic: &diff.topic, event: "presence_diff", payload };
            self.out.clear();
            encode_broadcast(Serializer::V2, &broadcast, &mut self.out)
                .expect("JSON has this format");
            black_box(&self.out);
        }
    }
}

/// A round is one client that joins a topic of [`CLIENTS_PER_TOPIC`]. All stay.
pub fn join(rounds: u32) -> Box<dyn Any> {
    let mut server = Server::new();
    let mut clients = Vec::new();
    for number in 0..rounds {
        let (reference, topic) = (number % 90 + 1, number / CLIENTS_PER_TOPIC);
        let frame =
            format!(r#"["{reference}","{reference}","rooms:{topic}","phx_join",{{"name":"ada"}}]"#);
        clients.push(server.join(number, &frame));
        if number % CLIENTS_PER_TOPIC == CLIENTS_PER_TOPIC - 1 {
            server.broadcast_diffs();
        }
    }
    server.broadcast_diffs();
    Box::new((server, clients))
}
