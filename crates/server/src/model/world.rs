//! A server, its clients, and what each of them must see. Every wait is for a condition.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::{Value, json};
use watchfire_channels::Serializer;
use watchfire_types::Rng;

use super::oracle::{
    Asked, Channel, Client, Expected, MayEnd, Note, Notes, Outcome, Pending, SERVER, State,
    position,
};
use super::plan::{Plan, TOPICS, has_history, has_presence};
use super::processes::{Counts, Processes};
use super::transport::{DEADLINE, End, Transport};
use crate::testing::frames::{Received, Sent};

/// The longest wait for a message, before counts are looked at again.
const MOMENT: Duration = Duration::from_millis(2);

/// A promise that the server has broken.
pub(super) type Broken = String;

/// How a note is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoteKind {
    ToAll,
    /// Not to its sender.
    ToOthers,
    Bytes,
    /// With a join_ref of an earlier join: the server drops it.
    Stale,
}

pub(super) struct World {
    pub rng: Rng,
    pub plan: Plan,
    pub processes: Processes,
    pub clients: Vec<Client>,
    pub notes: Notes,
    /// By topic and position, the number of the note.
    log: BTreeMap<(String, String, u64), u64>,
    /// Whether large notes were sent, so that the queue of a long-poll session may be full.
    pub had_flood: bool,
    /// The steps so far, for the message of a failure.
    pub steps: Vec<String>,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::from_seed(seed);
        let plan = Plan::new(&mut rng);
        let mut secret = [0; 32];
        rng.fill(&mut secret);
        let processes = Processes::start(plan.settings.clone(), plan.processes, secret);
        World {
            rng,
            plan,
            processes,
            clients: Vec::new(),
            notes: Notes::new(),
            log: BTreeMap::new(),
            had_flood: false,
            steps: Vec::new(),
        }
    }

    // Sending.

    fn message(&mut self, of: usize, topic: &str, event: &str, payload: Value) -> Sent {
        let client = &mut self.clients[of];
        let reference = client.next_ref;
        client.next_ref += 1;
        let join_ref = client.channels.get(topic).map(|channel| channel.join_ref.clone());
        let reference = reference.to_string();
        Sent { join_ref, reference, topic: topic.into(), event: event.into(), payload }
    }

    /// A message of a client to which the server replies.
    pub fn ask(
        &mut self,
        of: usize,
        topic: &str,
        event: &str,
        payload: Value,
        asked: Asked,
    ) -> Sent {
        let sent = self.message(of, topic, event, payload);
        self.await_reply(of, &sent, asked);
        sent
    }

    fn await_reply(&mut self, of: usize, sent: &Sent, asked: Asked) {
        let (topic, join_ref) = (sent.topic.clone(), sent.join_ref.clone());
        let reference = sent.reference.parse().expect("refs are numbers");
        let pending = Pending { topic, join_ref, asked, is_optional: false };
        self.clients[of].pending.insert(reference, pending);
    }

    pub fn send(&mut self, of: usize, all: &[Sent], as_bytes: bool) -> Result<(), Broken> {
        let client = &mut self.clients[of];
        let Some(transport) = &mut client.transport else { return Ok(()) };
        let sent = transport.send(client.serializer, all, as_bytes);
        sent.or_else(|end| self.end(of, end))
    }

    pub fn heartbeat(&mut self, of: usize) -> Sent {
        self.ask(of, "phoenix", "heartbeat", json!({}), Asked::Heartbeat)
    }

    pub fn join(&mut self, of: usize, topic: &str, payload: Value) -> Sent {
        let mut sent = self.message(of, topic, "phx_join", payload.clone());
        sent.join_ref = Some(sent.reference.clone());
        let is_spread = self.plan.settings.server.shards > 1 || self.plan.processes > 1;
        // Well before the token expires, because the token is older than this moment.
        let half = |millis| Instant::now() + Duration::from_millis(millis / 2);
        let mut channel = Channel {
            join_ref: sent.reference.clone(),
            begins_at: self.notes.len() as u64,
            is_spread,
            expires_at: payload["lifetime"].as_u64().map(half),
            ..Channel::default()
        };
        let client = &mut self.clients[of];
        client.overtake(topic);
        let previous = client.channels.remove(topic);
        if let Some(previous) = &previous {
            channel.replaces = true;
            let numbers = previous.expected.iter().map(|expected| expected.number);
            channel.expected =
                numbers.map(|number| Expected { number, is_optional: true }).collect();
            if client.serializer == Serializer::V2 {
                client.closings.push((topic.into(), previous.join_ref.clone()));
            }
        }
        client.channels.insert(topic.into(), channel);
        let previous = previous.map(Box::new);
        self.await_reply(of, &sent, Asked::Join { payload, previous });
        sent
    }

    pub fn leave(&mut self, of: usize, topic: &str) -> Sent {
        self.clients[of].overtake(topic);
        if let Some(channel) = self.clients[of].channels.get_mut(topic) {
            channel.state = State::Leaving;
        }
        self.ask(of, topic, "phx_leave", json!({}), Asked::Leave)
    }

    /// A message to all subscribers. `extra` is added to its payload.
    pub fn note(&mut self, of: usize, topic: &str, kind: NoteKind, mut payload: Value) -> Sent {
        let number = self.notes.len() as u64;
        payload["n"] = number.into();
        let event = if kind == NoteKind::ToOthers { "others" } else { "note" };
        let mut sent = self.message(of, topic, event, payload);
        let from = self.clients[of].name.clone();
        let outcome = if kind == NoteKind::Stale { Outcome::Refused } else { Outcome::Open };
        self.notes.push(Note { topic: topic.into(), from, outcome, answered_at: None });
        if kind == NoteKind::Stale {
            sent.join_ref = Some("0".into());
            return sent;
        }
        self.expect(number, topic, (kind == NoteKind::ToOthers).then_some(of), kind);
        self.await_reply(of, &sent, Asked::Note(number));
        sent
    }

    /// A message of the server's own side, through one process.
    pub fn publish(&mut self, process: usize, topic: &str) -> Result<(), Broken> {
        let number = self.notes.len() as u64;
        let from = format!("{SERVER} {process}");
        let runs = self.processes.get(process).is_some();
        let outcome = if runs { Outcome::Sent } else { Outcome::Refused };
        self.notes.push(Note { topic: topic.into(), from, outcome, answered_at: Some(number) });
        self.expect(number, topic, None, NoteKind::ToAll);
        let Some(process) = self.processes.get(process) else { return Ok(()) };
        let sent = process.server.endpoint().broadcast(topic, "note", json!({ "n": number }));
        sent.map_err(|error| error.to_string())
    }

    fn expect(&mut self, number: u64, topic: &str, except: Option<usize>, kind: NoteKind) {
        for (at, client) in self.clients.iter_mut().enumerate() {
            let misses = except == Some(at) || (kind == NoteKind::Bytes && !client.takes_bytes());
            if !client.is_open() || misses {
                continue;
            }
            let may_end = client.may_end.as_disconnected || client.may_end.with_its_process;
            if let Some(channel) = client.channels.get_mut(topic) {
                let is_optional = !channel.is_certain() || may_end;
                channel.expected.push_back(Expected { number, is_optional });
            }
        }
    }

    // Receiving.

    /// Reads all that has arrived for clients that read.
    pub fn pump(&mut self) -> Result<(), Broken> {
        for at in 0..self.clients.len() {
            loop {
                let client = &mut self.clients[at];
                let Some(transport) = client.transport.as_mut().filter(|_| !client.is_paused)
                else {
                    break;
                };
                match transport.next(client.serializer) {
                    Ok(Some(received)) => self.take(at, received)?,
                    Ok(None) => break,
                    Err(end) => self.end(at, end)?,
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, at: usize, received: Received) -> Result<(), Broken> {
        let text = format!("{received:?}");
        let topic = received.topic.clone();
        let taken = match &*received.event {
            "phx_reply" => self.take_reply(at, received),
            "note" => self.take_note(at, received),
            "phx_close" | "phx_error" => self.take_close(at, &received),
            _ => self.take_push(at, &received),
        };
        let name = &self.clients[at].name;
        taken.map_err(|error| format!("{name} on {topic}: {error}; it received {text}"))
    }

    fn take_note(&mut self, at: usize, received: Received) -> Result<(), Broken> {
        let number = received.payload.number().ok_or("a note without a number")?;
        let topic = received.topic;
        let client = &mut self.clients[at];
        let channel = client.channels.get_mut(&topic).ok_or("the topic is not joined")?;
        if self.notes.get(number as usize).is_none_or(|note| note.topic != topic) {
            return Err("the note is of another topic".into());
        }
        channel.receive(number, &mut self.notes)?;
        if !has_history(&topic) {
            let is_new = client.seen.insert(number);
            return if is_new { Ok(()) } else { Err("it has received the note before".into()) };
        }
        let text = received.reference.ok_or("a kept message has a position")?;
        let to = position(&text).ok_or("a position has an epoch and an offset")?;
        channel.advance(to.clone())?;
        client.positions.insert(topic.clone(), to.clone());
        match self.log.insert((topic, to.0, to.1), number) {
            Some(other) if other != number => Err(format!("the position is that of {other}")),
            _ => Ok(()),
        }
    }

    fn take_push(&mut self, at: usize, received: &Received) -> Result<(), Broken> {
        let client = &mut self.clients[at];
        let of_application = received.topic.starts_with("app:");
        if of_application && matches!(&*received.event, "bye" | "left" | "early") {
            return Ok(());
        }
        let channel = client.channels.get_mut(&received.topic).ok_or("the topic is not joined")?;
        match &*received.event {
            "presence_state" => channel.show_state(received.payload.json()),
            "presence_diff" => channel.show_diff(received.payload.json()),
            "token_expiring" | "token_expired" if received.topic.starts_with("token:") => {}
            "pushed" => {
                let number = received.payload.json()["number"].as_u64();
                let acts = client.pending.values_mut().filter(|it| it.topic == received.topic);
                let mut acts = acts.filter_map(|pending| match &mut pending.asked {
                    Asked::Act { pushes, pushed } if *pushed < *pushes => Some(pushed),
                    _ => None,
                });
                let pushed = acts.find(|pushed| Some(**pushed) == number);
                let pushed = pushed.ok_or("nothing has asked for it, or not next")?;
                *pushed += 1;
            }
            event => return Err(format!("unknown event {event}")),
        }
        Ok(())
    }

    fn take_close(&mut self, at: usize, received: &Received) -> Result<(), Broken> {
        let client = &mut self.clients[at];
        let topic = &received.topic;
        if let Some(join_ref) = &received.join_ref {
            let of = (topic.clone(), join_ref.clone());
            if let Some(index) = client.closings.iter().position(|closing| *closing == of) {
                client.closings.remove(index);
                return Ok(());
            }
        }
        let channel = client.channels.get(topic).ok_or("the topic is not joined")?;
        if received.join_ref.as_ref().is_some_and(|join_ref| *join_ref != channel.join_ref) {
            return Err(format!("the channel has the join_ref {}", channel.join_ref));
        }
        // The channel of an earlier join has ended. A V1 frame names that join by its ref.
        let is_of_earlier = received.reference.as_ref() != Some(&channel.join_ref);
        if channel.replaces && received.join_ref.is_none() && is_of_earlier {
            return Ok(());
        }
        let is_expired = channel.expires_at.is_some_and(|at| at <= Instant::now());
        if !channel.ends && !is_expired {
            return Err("nothing has ended the channel".into());
        }
        client.end_channel(topic);
        Ok(())
    }

    fn take_reply(&mut self, at: usize, received: Received) -> Result<(), Broken> {
        let reference = received.reference.as_deref().and_then(|text| text.parse().ok());
        let client = &mut self.clients[at];
        let pending = reference.and_then(|reference: u64| client.pending.remove(&reference));
        let Pending { topic, join_ref, asked, .. } =
            pending.ok_or("nothing waits for this reply")?;
        if topic != received.topic {
            return Err(format!("the message was sent to {topic}"));
        }
        let is_ok = received.status.as_deref() == Some("ok");
        let response = received.payload.json();
        match asked {
            Asked::Heartbeat if is_ok => Ok(()),
            Asked::Join { payload, previous } => {
                let join_ref = join_ref.expect("a join has a join_ref");
                match is_ok {
                    true => self.take_join(at, &topic, join_ref, &payload, response),
                    false => {
                        self.check_join_refusal(at, &topic, &payload, response)?;
                        self.take_join_refusal(at, &topic, join_ref, previous, response);
                        Ok(())
                    }
                }
            }
            Asked::Leave => self.take_leave_reply(at, &topic, join_ref, is_ok, response),
            Asked::Note(number) => self.take_note_reply(number, is_ok, response),
            Asked::Act { pushes, pushed } if is_ok && pushes != pushed => {
                Err(format!("{pushed} of {pushes} pushes came before the reply"))
            }
            Asked::Act { .. } if is_ok => Ok(()),
            Asked::Refresh if is_ok => {
                if let Some(channel) = client.channels.get_mut(&topic) {
                    channel.expires_at = None;
                }
                Ok(())
            }
            _ => self.check_refusal(&topic, response),
        }
    }

    /// A join was refused.
    fn take_join_refusal(
        &mut self,
        at: usize,
        topic: &str,
        join_ref: String,
        previous: Option<Box<Channel>>,
        response: &Value,
    ) {
        let client = &mut self.clients[at];
        let is_current =
            client.channels.get(topic).is_some_and(|channel| channel.join_ref == join_ref);
        // A later join of the topic replaces nothing.
        client.closings.retain(|(of, by)| (&**of, by) != (topic, &join_ref));
        let channel = is_current.then(|| client.end_channel(topic)).flatten();
        // A join that was too fast changes nothing.
        if response["reason"] == "too fast"
            && let (Some(mut previous), Some(mut channel)) = (previous, channel)
        {
            client.closings.retain(|(of, by)| (&**of, by) != (topic, &previous.join_ref));
            previous.show_as(&mut channel);
            // It has copies of those of the previous one, without those that have arrived.
            previous.expected = channel.expected;
            for expected in &mut previous.expected {
                expected.is_optional = true;
            }
            previous.last.extend(channel.last);
            previous.replaces = true;
            client.channels.insert(topic.into(), *previous);
        }
    }

    /// A join was accepted.
    fn take_join(
        &mut self,
        at: usize,
        topic: &str,
        join_ref: String,
        payload: &Value,
        response: &Value,
    ) -> Result<(), Broken> {
        let client = &mut self.clients[at];
        let Some(channel) = client.channels.get_mut(topic) else { return Ok(()) };
        let is_current = channel.join_ref == join_ref;
        // The messages of an earlier join are over. An overtaken one replays messages, too, before the later
        // join does.
        if is_current || has_history(topic) {
            channel.last.clear();
            channel.position = None;
        }
        if is_current {
            channel.state = State::Joined;
            channel.replaces = false;
        }
        if !is_current || !has_history(topic) {
            return Ok(());
        }
        let now = response["position"].as_str().and_then(position);
        let after = payload["history"]["after"].as_str().and_then(position);
        channel.replays_to = now.clone();
        if response["recovered"] == true {
            channel.position = Some(after.ok_or("it asked for no position")?);
        } else if payload["history"]["last"].is_null() {
            channel.position = now;
        } else {
            // How many messages follow depends on how many the server has kept.
            channel.replays_to = Some((String::new(), 0));
        }
        Ok(())
    }

    fn take_leave_reply(
        &mut self,
        at: usize,
        topic: &str,
        join_ref: Option<String>,
        is_ok: bool,
        response: &Value,
    ) -> Result<(), Broken> {
        let client = &mut self.clients[at];
        let channel = client.channels.get_mut(topic);
        let channel = channel.filter(|channel| Some(&channel.join_ref) == join_ref.as_ref());
        if !is_ok {
            if let Some(channel) = channel {
                channel.state = State::Joined;
            }
            return self.check_refusal(topic, response);
        }
        if channel.is_some()
            && let Some(channel) = client.end_channel(topic)
            && client.serializer == Serializer::V2
        {
            client.closings.push((topic.into(), channel.join_ref));
        }
        Ok(())
    }

    fn take_note_reply(
        &mut self,
        number: u64,
        is_ok: bool,
        response: &Value,
    ) -> Result<(), Broken> {
        let notes = self.notes.len() as u64;
        let note = &mut self.notes[number as usize];
        note.answered_at = Some(notes);
        if is_ok {
            note.outcome = Outcome::Sent;
            return Ok(());
        }
        if note.outcome == Outcome::Sent {
            return Err("the note was received, and its sender got an error".into());
        }
        note.outcome = Outcome::Refused;
        let topic = note.topic.clone();
        self.check_refusal(&topic, response)
    }

    /// Whether an error may answer a message.
    fn check_refusal(&self, topic: &str, response: &Value) -> Result<(), Broken> {
        let is_allowed = match response["reason"].as_str().unwrap_or_default() {
            "too fast" => self.plan.is_rate_tight,
            // The model sends to topics that are not joined, too.
            "unmatched topic" => true,
            "join_pending"
            | "too_many_pending"
            | "backend_unavailable"
            | "denied by the backend" => topic.starts_with("asked:"),
            "bytes_not_kept" => has_history(topic),
            "binary cannot be carried over long poll"
            | "binary cannot be carried by serializer V1" => topic.starts_with("app:"),
            reason if topic.starts_with("token:") => {
                reason.starts_with("token_") || reason == "unauthorized"
            }
            _ => false,
        };
        if is_allowed { Ok(()) } else { Err("it must not be refused".into()) }
    }

    fn check_join_refusal(
        &self,
        at: usize,
        topic: &str,
        payload: &Value,
        response: &Value,
    ) -> Result<(), Broken> {
        let reason = response["reason"].as_str().unwrap_or_default();
        let is_allowed = match reason {
            "too many channels joined" => {
                let max = usize::from(self.plan.settings.limits.channels_per_socket_max);
                let client = &self.clients[at];
                client.channels.len() + client.closings.len() + client.pending.len() >= max
            }
            "refused" => payload["join"] == "refuse",
            "join crashed" => payload["join"] == "panic",
            "unmatched topic" => topic.starts_with("nowhere:"),
            _ => return self.check_refusal(topic, response),
        };
        if is_allowed { Ok(()) } else { Err("the join must not be refused".into()) }
    }

    /// A client has ended.
    pub fn end(&mut self, at: usize, end: End) -> Result<(), Broken> {
        if self.has_panicked() {
            return Err("an event loop of the server has panicked".into());
        }
        let client = &self.clients[at];
        let may = client.may_end;
        let is_allowed = match &end {
            End::Code(1013) => may.as_slow && self.plan.is_queue_tight,
            End::Code(1011) => may.as_invalid,
            End::Code(1001) => may.as_disconnected,
            End::Code(1012) | End::Restarting => may.with_its_process,
            End::Gone(_) => {
                self.plan.is_longpoll_tight
                    || may.as_disconnected
                    || may.as_disconnected_again
                    || may.as_invalid
                    || may.with_its_process
                    || (may.as_slow && self.had_flood)
            }
            End::Silent(_) => may.with_its_process,
            End::Code(_) => false,
        };
        if !is_allowed {
            let name = &client.name;
            return Err(format!("{name} was ended with {end:?}; the server may: {may:?}"));
        }
        // A poll that was on its way may have opened another session.
        let mut end = end;
        if end == End::Gone(None)
            && let Some(session) = self.clients[at].session_mut()
            && let Err(gone) = session.cut_poll()
        {
            end = gone;
        }
        // A new session of a process that ends has no future.
        let continues = !may.with_its_process;
        let client = &mut self.clients[at];
        client.forget_channels();
        let as_disconnected_again = may.as_disconnected;
        client.may_end = MayEnd { as_disconnected_again, ..MayEnd::default() };
        match (end, client.session_mut()) {
            (End::Gone(Some(token)), Some(session)) if continues => session.adopt(token),
            _ => client.disconnect(),
        }
        Ok(())
    }

    // Waiting.

    /// Reads until a condition holds. `missing` says what is missing; `None`: nothing.
    pub fn until(
        &mut self,
        mut missing: impl FnMut(&World) -> Option<String>,
    ) -> Result<(), Broken> {
        let began = Instant::now();
        for moments in 0.. {
            self.pump()?;
            let Some(text) = missing(self) else { return Ok(()) };
            if self.has_panicked() {
                return Err("an event loop of the server has panicked".into());
            }
            // Where other programs take the processors, the server gets as few turns as this thread.
            if began.elapsed() > DEADLINE && MOMENT * moments > DEADLINE {
                return Err(format!("it never comes: {text}"));
            }
            self.wait_readable();
        }
        unreachable!("the moments have no end")
    }

    fn has_panicked(&self) -> bool {
        let mut servers = self.processes.servers();
        servers.any(|server| server.sockets.counters().panicked().next().is_some())
    }

    /// Waits until a client has something to read, or for a moment: counts change without a message.
    fn wait_readable(&self) {
        let readers = self.clients.iter().filter(|client| !client.is_paused);
        let transports = readers.filter_map(|client| client.transport.as_ref());
        let fds: Vec<_> = transports.filter_map(Transport::readable).collect();
        let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let moment = Timespec { tv_sec: 0, tv_nsec: MOMENT.subsec_nanos().into() };
        rustix::event::poll(&mut fds, Some(&moment)).ok();
    }

    /// Cuts the poll of a long-poll client.
    pub fn cut_poll(&mut self, at: usize) -> Result<(), Broken> {
        let Some(session) = self.clients[at].session_mut() else { return Ok(()) };
        session.cut_poll().or_else(|end| self.end(at, end))
    }

    /// Waits until every client that reads has its messages, and the counts are those of the model.
    pub fn settle(&mut self) -> Result<(), Broken> {
        self.until(|world| {
            let mut readers = world.clients.iter().filter(|it| it.is_open() && !it.is_paused);
            let waits = readers.find_map(|client| {
                Some(format!("{} waits for {}", client.name, client.waits_for(&world.notes)?))
            });
            waits.or_else(|| world.wrong_count())
        })?;
        for client in &mut self.clients {
            if client.is_open() && !client.is_paused {
                client.may_end.as_slow = false;
            }
        }
        self.check_queues()
    }

    /// The first count of the server that is not the model's.
    fn wrong_count(&self) -> Option<String> {
        let all: Vec<Counts> = self.processes.servers().map(Counts::of).collect();
        let sum = |count: fn(&Counts) -> u64| all.iter().map(count).sum::<u64>();
        let counts = [
            ("clients", sum(|one| one.clients), self.clients_between()),
            ("channels", sum(|one| one.channels), self.channels_between(|_| true)),
            ("presences", sum(|one| one.presences), self.channels_between(has_presence)),
        ];
        counts.into_iter().find_map(|(name, count, (least, most))| {
            let is_right = (least..=most).contains(&count);
            (!is_right).then(|| format!("{least} to {most} {name}; the server has {count}"))
        })
    }

    fn clients_between(&self) -> (u64, u64) {
        let certain = self.clients.iter().filter(|client| client.is_certain()).count();
        let may_be = |client: &&Client| client.is_open() || client.is_abandoned;
        (certain as u64, self.clients.iter().filter(may_be).count() as u64)
    }

    fn channels_between(&self, counts: impl Fn(&str) -> bool) -> (u64, u64) {
        let (mut least, mut most) = (0, 0);
        for client in self.clients.iter().filter(|it| it.is_open() || it.is_abandoned) {
            let channels = client.channels.iter().filter(|(topic, _)| counts(topic));
            for (_, channel) in channels {
                least += u64::from(client.is_certain() && channel.is_certain());
                most += 1;
            }
            // A paused client will learn these later.
            if !client.is_certain() {
                most += client.pending.len() as u64;
            }
        }
        (least, most)
    }

    fn check_queues(&self) -> Result<(), Broken> {
        let limits = &self.plan.settings.limits;
        // The queue of a client that reads may exceed its limit, with its own messages four times.
        let max = 4 * u64::from(limits.queued_bytes_max) * self.clients.len() as u64;
        for server in self.processes.servers() {
            let queued = Counts::of(server).queued_bytes;
            if queued > max {
                return Err(format!("{queued} bytes are queued, {max} are the most"));
            }
        }
        Ok(())
    }

    /// Waits until every client that reads shows the present clients.
    pub fn check_presences(&mut self) -> Result<(), Broken> {
        self.until(|world| {
            TOPICS.iter().filter(|topic| has_presence(topic)).find_map(|topic| {
                let (certain, possible) = world.present(topic);
                let readers = world.clients.iter().filter(|client| client.is_certain());
                let mut joined = readers.filter_map(|client| {
                    let channel = client.channels.get(*topic).filter(|it| it.is_certain())?;
                    Some((client, channel))
                });
                joined.find_map(|(client, channel)| {
                    let names = channel.names();
                    let is_right = channel.shown.is_some()
                        && certain.is_subset(&names)
                        && names.is_subset(&possible);
                    let name = &client.name;
                    (!is_right)
                        .then(|| format!("{name} shows {names:?} on {topic}, not {certain:?}"))
                })
            })
        })
    }

    /// The names that are certainly present on a topic, and those that may be.
    fn present(&self, topic: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
        let mut certain = BTreeSet::new();
        let mut possible = BTreeSet::new();
        for client in self.clients.iter().filter(|it| it.is_open() || it.is_abandoned) {
            let channel = client.channels.get(topic);
            if client.is_certain() && channel.is_some_and(Channel::is_certain) {
                certain.insert(&*client.name);
            }
            if channel.is_some() || !client.is_certain() {
                possible.insert(&*client.name);
            }
        }
        (certain, possible)
    }
}
