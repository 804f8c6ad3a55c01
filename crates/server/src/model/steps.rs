//! The steps of clients and of the operator, which the seed chooses.

use std::fmt::Display;
use std::time::Duration;

use serde_json::{Value, json};
use watchfire_channels::Serializer;

use super::oracle::{Asked, Channel, Client, MayEnd, State};
use super::plan::{TOPICS, has_history, token};
use super::processes::Counts;
use super::transport::{Opening, Transport};
use super::world::{Broken, NoteKind, World};
use crate::testing::frames::Sent;

/// The padding of a note that fills queues.
const LARGE_BYTES: usize = 24 << 10;

impl World {
    /// Does one random step, and waits until all that it caused has happened.
    pub fn step(&mut self) -> Result<(), Broken> {
        let mut open: Vec<usize> = (0..self.clients.len()).collect();
        open.retain(|at| self.clients[*at].is_open());
        if open.is_empty() || (open.len() < self.plan.clients_max && self.rng.once_in(6)) {
            self.connect()?;
            return self.settle();
        }
        let at = open[self.rng.index(open.len())];
        let topic = self.topic_for(at);
        if self.plan.is_rate_tight && self.clients[at].is_paused {
            self.resume(at);
            return self.settle();
        }
        match self.rng.index(100) {
            0..20 => self.join_step(at, topic)?,
            20..45 => self.notes_step(at, topic)?,
            45..52 => self.act_step(at)?,
            52..58 => self.leave_step(at, topic)?,
            58..64 => self.pause_step(at)?,
            64..76 => self.blind_step(at)?,
            76..80 => self.publish_step(topic)?,
            80..84 => self.cut_step(at)?,
            84..86 => self.abandon_step(at)?,
            86..89 => self.move_step(at)?,
            89..91 => self.invalid_step(at)?,
            91..93 => self.disconnect_step(at)?,
            93..95 => self.flood_step(at, topic)?,
            95..97 => self.expire_step(at)?,
            97 => self.restart_step()?,
            _ => self.check_presences()?,
        }
        self.settle()
    }

    fn trace(&mut self, text: impl Into<String>) {
        self.steps.push(text.into());
    }

    /// Traces what a client does.
    fn tell(&mut self, at: usize, text: impl Display) {
        self.trace(format!("{} {text}", self.clients[at].name));
    }

    /// A topic, more often one that the client has joined.
    fn topic_for(&mut self, at: usize) -> &'static str {
        let is_joined = |topic: &&str| self.clients[at].channels.contains_key(*topic);
        let joined: Vec<&'static str> = TOPICS.into_iter().filter(is_joined).collect();
        match joined.is_empty() || self.rng.once_in(3) {
            true => TOPICS[self.rng.index(TOPICS.len())],
            false => joined[self.rng.index(joined.len())],
        }
    }

    fn connect(&mut self) -> Result<(), Broken> {
        let (is_websocket, is_slow) = (self.rng.once_in(2), self.rng.once_in(3));
        let (at, name) = (self.clients.len(), format!("c{}", self.clients.len()));
        let serializer = if self.rng.once_in(3) { Serializer::V1 } else { Serializer::V2 };
        let process = self.rng.index(self.processes.len());
        let opening = Opening {
            address: self.processes.address(process),
            serializer,
            token: token(&name, Duration::from_secs(3_600)),
            receive_bytes: is_slow.then_some(4_096),
        };
        let transport = Transport::open(opening, is_websocket);
        let transport = transport.map_err(|end| format!("{name} cannot connect: {end:?}"))?;
        self.clients.push(Client::new(name, serializer, transport, process));
        let how = if is_websocket { "WebSocket" } else { "long poll" };
        self.tell(at, format!("connects to process {process} ({how}, {serializer:?})"));
        Ok(())
    }

    /// The payload of a join: what the hooks, the application and the history shall do.
    fn join_payload(&mut self, at: usize, topic: &str) -> Value {
        let rng = &mut self.rng;
        let mut payload = json!({});
        if topic.starts_with("asked:") {
            let answers = ["allow", "allow", "allow", "deny", "fail", "hang", "bad", "cut"];
            payload["hook"] = answers[rng.index(answers.len())].into();
        }
        if topic.starts_with("app:") {
            let ends = ["ok", "ok", "ok", "ok", "refuse", "panic"];
            payload["join"] = ends[rng.index(ends.len())].into();
            payload["bye"] = rng.once_in(2).into();
            payload["early"] = rng.once_in(3).into();
        }
        if topic.starts_with("token:") && rng.once_in(2) {
            let lifetime = rng.between(300, 900);
            payload["lifetime"] = lifetime.into();
            let name = &self.clients[at].name;
            payload["token"] = token(name, Duration::from_millis(lifetime)).into();
        }
        if has_history(topic) {
            let known = self.clients[at].positions.get(topic);
            match known.filter(|_| !rng.once_in(4)) {
                Some((epoch, offset)) => {
                    payload["history"]["after"] = format!("{epoch}:{offset}").into();
                }
                None if rng.once_in(2) => payload["history"]["last"] = rng.between(0, 4).into(),
                None => {}
            }
        }
        payload
    }

    fn join_step(&mut self, at: usize, topic: &str) -> Result<(), Broken> {
        let sent = self.join_with_payload(at, topic);
        self.send_one(at, sent)
    }

    fn join_with_payload(&mut self, at: usize, topic: &str) -> Sent {
        let payload = self.join_payload(at, topic);
        self.tell(at, format!("joins {topic} with {payload}"));
        self.join(at, topic, payload)
    }

    fn send_one(&mut self, at: usize, sent: Sent) -> Result<(), Broken> {
        self.send(at, &[sent], false)
    }

    fn leave_step(&mut self, at: usize, topic: &'static str) -> Result<(), Broken> {
        self.tell(at, format!("leaves {topic}"));
        let sent = self.leave(at, topic);
        self.send_one(at, sent)
    }

    fn note_payload(&mut self, topic: &str) -> Value {
        let mut payload = json!({});
        if topic.starts_with("asked:") {
            let answers = ["allow", "allow", "allow", "allow", "deny", "fail", "hang"];
            payload["hook"] = answers[self.rng.index(answers.len())].into();
        }
        if self.rng.once_in(4) {
            payload["pad"] = "é\"\\ ".repeat(self.rng.index(200)).into();
        }
        payload
    }

    /// A client sends some notes in one piece, without waiting for replies.
    fn notes_step(&mut self, at: usize, topic: &'static str) -> Result<(), Broken> {
        let kind = match self.rng.index(10) {
            0..6 => NoteKind::ToAll,
            6..8 if topic.starts_with("app:") => NoteKind::ToOthers,
            8 if !topic.starts_with("asked:") && !self.is_v1(at) => NoteKind::Bytes,
            9 if self.can_send_stale(at, topic) => NoteKind::Stale,
            _ => NoteKind::ToAll,
        };
        let count = 1 + self.rng.index(6);
        self.tell(at, format!("sends {count} {kind:?} to {topic}"));
        let note = |_| {
            let payload = self.note_payload(topic);
            self.note(at, topic, kind, payload)
        };
        let all: Vec<Sent> = (0..count).map(note).collect();
        self.send(at, &all, kind == NoteKind::Bytes)
    }

    fn is_v1(&self, at: usize) -> bool {
        self.clients[at].serializer == Serializer::V1
    }

    /// A message of an earlier join has no reply, unless something else is wrong with it.
    fn can_send_stale(&self, at: usize, topic: &str) -> bool {
        let client = &self.clients[at];
        let is_certain = client.channels.get(topic).is_some_and(Channel::is_certain);
        is_certain && client.is_certain() && !self.is_v1(at) && !self.plan.is_rate_tight
    }

    /// A client asks the application for pushes, a late reply, or the end of its channel.
    fn act_step(&mut self, at: usize) -> Result<(), Broken> {
        let mut topics = self.clients[at].channels.keys();
        let sent = match topics.find(|topic| topic.starts_with("app:")).cloned() {
            Some(topic) => self.act(at, &topic),
            None => self.join_with_payload(at, "app:1"),
        };
        self.send_one(at, sent)
    }

    /// A message to the application.
    fn act(&mut self, at: usize, topic: &str) -> Sent {
        let ways =
            ["reply", "later", "bytes", "reply", "stop", "stop_with", "crash", "panic", "nothing"];
        let channel = self.clients[at].channels.get(topic);
        let is_certain = channel.is_some_and(Channel::is_certain);
        // A message that is refused as too fast ends nothing, and has a reply.
        let known = if self.plan.is_rate_tight || !is_certain { 4 } else { ways.len() };
        let then = ways[self.rng.index(known)];
        let pushes = self.rng.below(4);
        self.tell(at, format!("asks {topic} for {pushes} pushes, then {then}"));
        let payload = json!({ "pushes": pushes, "then": then });
        let sent = self.ask(at, topic, "act", payload, Asked::Act { pushes, pushed: 0 });
        let pending = self.clients[at].pending.values_mut().next_back();
        pending.expect("it waits").is_optional =
            !matches!(then, "reply" | "stop_with" | "bytes" | "later");
        if let Some(channel) = self.clients[at].channels.get_mut(topic) {
            channel.ends |= matches!(then, "stop" | "stop_with" | "crash" | "panic");
        }
        sent
    }

    /// A client stops reading, or reads again.
    fn pause_step(&mut self, at: usize) -> Result<(), Broken> {
        if self.clients[at].is_paused {
            self.resume(at);
            return Ok(());
        }
        self.tell(at, "stops reading");
        self.pause(at)
    }

    fn pause(&mut self, at: usize) -> Result<(), Broken> {
        let is_cut = self.rng.once_in(2);
        let client = &mut self.clients[at];
        client.is_paused = true;
        client.may_end.as_slow = true;
        if is_cut { self.cut_poll(at) } else { Ok(()) }
    }

    fn resume(&mut self, at: usize) {
        self.tell(at, "reads again");
        self.clients[at].is_paused = false;
    }

    /// A client that reads nothing sends several messages, which may fill its queue.
    fn blind_step(&mut self, at: usize) -> Result<(), Broken> {
        let was_paused = self.clients[at].is_paused;
        self.pause(at)?;
        self.tell(at, "does without reading:");
        let most = self.plan.settings.limits.longpoll_frames_max.min(12) as usize;
        let heartbeats = self.rng.index(most + 2);
        let mut all: Vec<Sent> = (0..heartbeats).map(|_| self.heartbeat(at)).collect();
        self.trace(format!("  {heartbeats} heartbeats"));
        for _ in 0..1 + self.rng.index(3) {
            all.push(self.blind_message(at));
        }
        if self.rng.once_in(3) {
            for sent in all {
                self.send_one(at, sent)?;
            }
        } else {
            self.send(at, &all, false)?;
        }
        if !was_paused || self.plan.is_rate_tight || self.rng.once_in(2) {
            self.resume(at);
        }
        Ok(())
    }

    fn blind_message(&mut self, at: usize) -> Sent {
        let topic = self.topic_for(at);
        let channel = self.clients[at].channels.get(topic);
        let (is_joined, mut ends) =
            (channel.is_some(), channel.is_some_and(|channel| channel.ends));
        // One of two joins in a row may be refused as too fast. The model follows one of them at a time.
        ends |= self.plan.is_rate_tight && channel.is_some_and(|it| it.state != State::Joined);
        match self.rng.index(6) {
            0..3 if !ends => self.join_with_payload(at, topic),
            3 if is_joined && !ends => {
                self.tell(at, format!("leaves {topic}"));
                self.leave(at, topic)
            }
            4 if is_joined && topic.starts_with("app:") && !ends => self.act(at, topic),
            5 => {
                let payload = self.note_payload(topic);
                self.tell(at, format!("sends a note to {topic}"));
                self.note(at, topic, NoteKind::ToAll, payload)
            }
            _ => {
                self.tell(at, "sends a heartbeat");
                self.heartbeat(at)
            }
        }
    }

    fn publish_step(&mut self, topic: &'static str) -> Result<(), Broken> {
        let process = self.rng.index(self.processes.len());
        self.trace(format!("process {process} publishes to {topic}"));
        self.publish(process, topic)
    }

    /// The connection of a client breaks, perhaps while its notes are on their way. It comes back with its
    /// last positions.
    fn cut_step(&mut self, at: usize) -> Result<(), Broken> {
        if !self.clients[at].is_websocket() {
            return self.move_step(at);
        }
        if self.rng.once_in(2) {
            let topic = self.topic_for(at);
            self.notes_step(at, topic)?;
        }
        self.tell(at, "loses its connection");
        let client = &mut self.clients[at];
        client.disconnect();
        client.forget_channels();
        let positions = client.positions.clone();
        if self.rng.once_in(2) {
            self.connect()?;
            self.clients.last_mut().expect("it has connected").positions = positions;
        }
        Ok(())
    }

    /// A long-poll client goes away. Its session cannot know that yet.
    fn abandon_step(&mut self, at: usize) -> Result<(), Broken> {
        if self.clients[at].is_websocket() {
            return self.cut_step(at);
        }
        self.tell(at, "goes away");
        self.abandon(at)
    }

    fn abandon(&mut self, at: usize) -> Result<(), Broken> {
        // A poll that reaches the server after the end of its session would open another one.
        self.cut_poll(at)?;
        let client = &mut self.clients[at];
        client.disconnect();
        client.is_abandoned = true;
        client.closings.clear();
        Ok(())
    }

    /// The requests of a long-poll client reach another process.
    fn move_step(&mut self, at: usize) -> Result<(), Broken> {
        let process = self.rng.index(self.processes.len());
        let address = self.processes.address(process);
        self.cut_poll(at)?;
        if let Some(session) = self.clients[at].session_mut() {
            session.move_to(address);
            self.tell(at, format!("sends its requests to process {process}"));
        }
        Ok(())
    }

    fn invalid_step(&mut self, at: usize) -> Result<(), Broken> {
        if self.clients[at].is_paused {
            self.resume(at);
            return Ok(());
        }
        self.tell(at, "sends an invalid message");
        self.clients[at].may_end.as_invalid = true;
        if let Some(transport) = &mut self.clients[at].transport
            && let Err(end) = transport.send_raw("[no message")
        {
            return self.end(at, end);
        }
        self.until_end(at, |may_end| may_end.as_invalid)
    }

    fn disconnect_step(&mut self, at: usize) -> Result<(), Broken> {
        let process = self.rng.index(self.processes.len());
        let Some(asked) = self.processes.get(process) else { return Ok(()) };
        let client = &mut self.clients[at];
        client.is_paused = false;
        client.may_end.as_disconnected = true;
        asked.server.endpoint().disconnect(&format!("users:{}", client.name));
        self.tell(at, format!("is disconnected by process {process}"));
        self.until_end(at, |may_end| may_end.as_disconnected)
    }

    /// Waits for the end of a client, which the server may choose for one reason.
    fn until_end(&mut self, at: usize, reason: fn(MayEnd) -> bool) -> Result<(), Broken> {
        self.until(|world| {
            reason(world.clients[at].may_end).then(|| "the end of the client".into())
        })
    }

    /// Large notes fill the queue of a client that does not read. The other clients get all of them.
    fn flood_step(&mut self, at: usize, topic: &'static str) -> Result<(), Broken> {
        if !["plain:", "here:", "app:"].iter().any(|prefix| topic.starts_with(prefix)) {
            return Ok(());
        }
        let has_slow_reader = self.clients.iter().any(|client| {
            client.is_paused && client.is_websocket() && client.channels.contains_key(topic)
        });
        let count = if has_slow_reader && self.plan.is_queue_tight { 130 } else { 3 };
        self.tell(at, format!("sends {count} large notes to {topic}"));
        self.had_flood = true;
        self.clients[at].is_paused = false;
        for _ in 0..count {
            let payload = json!({ "pad": "x".repeat(LARGE_BYTES) });
            let sent = self.note(at, topic, NoteKind::ToAll, payload);
            self.send_one(at, sent)?;
            self.settle()?;
        }
        Ok(())
    }

    /// A token expires, or is replaced before.
    fn expire_step(&mut self, at: usize) -> Result<(), Broken> {
        let topic = "token:1";
        let client = &mut self.clients[at];
        client.is_paused = false;
        let expires = client.channels.get(topic).is_some_and(|it| it.expires_at.is_some());
        if !expires {
            return self.join_step(at, topic);
        }
        if self.rng.once_in(2) {
            let fresh = token(&self.clients[at].name, Duration::from_secs(3_600));
            self.tell(at, "replaces its token");
            let payload = json!({ "token": fresh });
            let sent = self.ask(at, topic, "refresh", payload, Asked::Refresh);
            return self.send_one(at, sent);
        }
        self.tell(at, "keeps its token until it expires");
        self.until(|world| {
            let channel = world.clients[at].channels.get(topic)?;
            channel.expires_at.map(|_| "the end of the channel".into())
        })
    }

    /// A process drains or crashes, and starts again.
    fn restart_step(&mut self) -> Result<(), Broken> {
        let process = self.rng.index(self.processes.len());
        let drains = self.rng.once_in(2);
        let how = if drains { "drains" } else { "crashes" };
        self.trace(format!("process {process} {how} and starts again"));
        let other = self.processes.address((process + 1) % self.processes.len());
        for at in 0..self.clients.len() {
            if self.clients[at].process != process {
                // Its poll may be on its way through the process that ends.
                self.cut_poll(at)?;
            }
            let client = &mut self.clients[at];
            if client.process == process {
                client.is_abandoned = false;
                client.is_paused = false;
                client.may_end.with_its_process = client.is_open();
            } else if let Some(session) = client.session_mut() {
                session.move_to(other);
            }
        }
        let ends = |world: &World| {
            let mut of_process = world.clients.iter().filter(|client| client.process == process);
            let open = of_process.find(|client| client.is_open())?;
            Some(format!("the end of {}", open.name))
        };
        if drains {
            let draining = self.processes.drain(process);
            self.until(|world| {
                let drains = draining.as_ref().is_some_and(|drain| !drain.is_finished());
                ends(world).or_else(|| drains.then(|| "the end of a drain".into()))
            })?;
        } else {
            self.processes.kill(process);
            self.until(ends)?;
        }
        self.until(|world| {
            let node = watchfire_types::NodeId(process as u16);
            let mut servers = world.processes.servers();
            servers.find(|server| server.cluster().is_up(node)).map(|_| "the loss of a link".into())
        })?;
        self.processes.start_one(process);
        Ok(())
    }

    /// All clients read all, and leave. Then the server has nothing left of them.
    pub fn finish(&mut self) -> Result<(), Broken> {
        self.trace("everyone reads");
        self.clients.iter_mut().for_each(|client| client.is_paused = false);
        self.settle()?;
        for topic in TOPICS {
            let process = self.rng.index(self.processes.len());
            self.publish(process, topic)?;
        }
        self.settle()?;
        self.check_presences()?;
        self.trace("everyone leaves");
        for at in 0..self.clients.len() {
            if self.clients[at].is_open() && !self.clients[at].is_websocket() {
                self.abandon(at)?;
            }
            let client = &mut self.clients[at];
            client.transport = None;
            if client.is_abandoned {
                let id = format!("users:{}", client.name);
                let server = self.processes.servers().next().expect("a process runs");
                server.endpoint().disconnect(&id);
            }
        }
        self.until(|world| {
            let mut counts = world.processes.servers().map(Counts::of);
            counts.find(|counts| !counts.are_zero()).map(|counts| format!("the end of {counts:?}"))
        })
    }
}
