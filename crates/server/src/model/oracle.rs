//! Everything that a client must receive: its channels, the replies it waits for, and the notes on their way to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use serde_json::Value;
use watchfire_channels::Serializer;

use super::transport::{LongPoll, Transport};

/// A message to all subscribers of a topic.
pub(super) struct Note {
    pub topic: String,
    /// The name of its sender.
    pub from: String,
    pub outcome: Outcome,
    /// How many notes there were when its sender had read the reply; `None` before. A note without one may still wait for
    /// its backend, also when its sender is gone.
    pub answered_at: Option<u64>,
}

/// How the name of a sender begins that is a process of the server.
pub(super) const SERVER: &str = "process";

/// Whether a note was sent to the subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its sender has no reply yet, or will never get one.
    Open,
    Sent,
    Refused,
}

/// All notes, by their numbers.
pub(super) type Notes = Vec<Note>;

/// A note on its way to one client.
pub(super) struct Expected {
    pub number: u64,
    /// Whether the client may miss it, because it was not certainly joined.
    pub is_optional: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Joining,
    Joined,
    Leaving,
}

/// A position of a history: its epoch, and the offset of a message.
pub(super) type Position = (String, u64);

pub(super) fn position(text: &str) -> Option<Position> {
    let (epoch, offset) = text.split_once(':')?;
    Some((epoch.into(), offset.parse().ok()?))
}

/// One client's channel.
#[derive(Default)]
pub(super) struct Channel {
    pub join_ref: String,
    /// The number of the first note that was sent after the join.
    pub begins_at: u64,
    /// Whether an earlier note of another client may still arrive: it may come from another event loop. Those of
    /// the server's own side come from another thread.
    pub is_spread: bool,
    pub state: State,
    /// Whether an earlier join of the topic may still deliver.
    pub replaces: bool,
    pub expected: VecDeque<Expected>,
    /// The last note from each sender.
    pub last: BTreeMap<String, u64>,
    /// Whether the server was made to end the channel.
    pub ends: bool,
    /// When the token of the channel expires.
    pub expires_at: Option<Instant>,
    pub shown: Option<Shown>,
    /// Diffs that arrived before the state.
    pub early_diffs: Vec<Value>,
    /// The position of the last message.
    pub position: Option<Position>,
    /// The position up to which the join replays messages.
    pub replays_to: Option<Position>,
}

/// The presences that a client shows: the key of each reference.
pub(super) type Shown = BTreeMap<String, String>;

impl Channel {
    /// Whether the client is certainly a subscriber.
    pub fn is_certain(&self) -> bool {
        self.state == State::Joined && !self.ends && self.expires_at.is_none()
    }

    /// A note that the client must still receive.
    pub fn required(&self, notes: &Notes) -> Option<u64> {
        let is_required =
            |it: &&Expected| !it.is_optional && notes[it.number as usize].outcome == Outcome::Sent;
        self.expected.iter().find(is_required).map(|it| it.number)
    }

    /// The client receives a note.
    pub fn receive(&mut self, number: u64, notes: &mut Notes) -> Result<(), String> {
        let note = notes.get_mut(number as usize).ok_or("nobody has sent it")?;
        if note.outcome == Outcome::Refused {
            return Err("it was refused to its sender".into());
        }
        note.outcome = Outcome::Sent;
        match self.state {
            State::Joining if !self.replaces => return Err("the join has no reply yet".into()),
            _ => {}
        }
        // It may have waited when this channel began, also if its sender has read the reply since.
        let waited = note.answered_at.is_none_or(|at| at >= self.begins_at);
        let waits_for_backend = note.topic.starts_with("asked:") && waited;
        let last = self.last.get(&note.from).copied();
        // The backend decides about a message of an earlier channel while it is asked about this one's.
        let is_overtaken = waits_for_backend && number < self.begins_at;
        if last.is_some_and(|last| last == number || last > number && !is_overtaken) {
            return Err(format!("it follows {last:?} of the same sender"));
        }
        self.last.insert(note.from.clone(), last.map_or(number, |last| last.max(number)));
        let from = note.from.clone();
        let at = self.expected.iter().position(|expected| expected.number == number);
        let is_replayed = self.replays_to.is_some();
        let Some(at) = at else {
            let crosses_threads = self.is_spread || from.starts_with(SERVER);
            let is_late = number < self.begins_at && (crosses_threads || waits_for_backend);
            let is_allowed = is_replayed || self.replaces || is_late;
            return if is_allowed { Ok(()) } else { Err("it is not for this client".into()) };
        };
        self.expected.remove(at);
        let skipped = self.expected.iter().take(at).find(|earlier| {
            let note = &notes[earlier.number as usize];
            !earlier.is_optional && note.outcome == Outcome::Sent && note.from == from
        });
        match skipped {
            Some(skipped) => Err(format!("it comes before {} of the same sender", skipped.number)),
            None => Ok(()),
        }
    }

    /// The client receives a message with a position.
    pub fn advance(&mut self, to: Position) -> Result<(), String> {
        if let Some((epoch, offset)) = &self.position
            && *epoch == to.0
            && to.1 != offset + 1
        {
            return Err(format!("offset {} follows {offset}", to.1));
        }
        self.position = Some(to);
        Ok(())
    }

    /// Whether the replay of the join is complete.
    pub fn is_replayed(&self) -> bool {
        match (&self.replays_to, &self.position) {
            (Some(to), Some(at)) => to.0 != at.0 || at.1 >= to.1,
            (Some(to), None) => to.1 == 0,
            (None, _) => true,
        }
    }

    pub fn show_state(&mut self, state: &Value) {
        let mut shown = references(state);
        std::mem::take(&mut self.early_diffs).iter().for_each(|diff| apply(&mut shown, diff));
        self.shown = Some(shown);
    }

    pub fn show_diff(&mut self, diff: &Value) {
        match &mut self.shown {
            Some(shown) => apply(shown, diff),
            None => self.early_diffs.push(diff.clone()),
        }
    }

    /// Takes what a later join has shown, which has not happened: it was that of this channel.
    pub fn show_as(&mut self, later: &mut Channel) {
        if later.shown.is_some() {
            self.shown = later.shown.take();
        }
        std::mem::take(&mut later.early_diffs).iter().for_each(|diff| self.show_diff(diff));
    }

    /// The names that the client shows.
    pub fn names(&self) -> BTreeSet<&str> {
        self.shown.iter().flat_map(|shown| shown.values().map(String::as_str)).collect()
    }
}

fn references(keys: &Value) -> Shown {
    let metas = |(key, entry): (&String, &Value)| -> Vec<(String, String)> {
        let metas = entry["metas"].as_array().into_iter().flatten();
        metas.filter_map(|meta| Some((meta["phx_ref"].as_str()?.into(), key.clone()))).collect()
    };
    keys.as_object().into_iter().flatten().flat_map(metas).collect()
}

fn apply(shown: &mut Shown, diff: &Value) {
    shown.extend(references(&diff["joins"]));
    for reference in references(&diff["leaves"]).keys() {
        shown.remove(reference);
    }
}

/// A message that a reply must answer.
pub(super) struct Pending {
    pub topic: String,
    /// The join_ref of the channel.
    pub join_ref: Option<String>,
    pub asked: Asked,
    /// Whether the reply may never come, because the channel has ended before.
    pub is_optional: bool,
}

pub(super) enum Asked {
    Heartbeat,
    Join {
        payload: Value,
        /// The channel that the join replaces.
        previous: Option<Box<Channel>>,
    },
    Leave,
    Note(u64),
    /// Another message of an application's channel: the pushes before the reply.
    Act {
        pushes: u64,
        pushed: u64,
    },
    Refresh,
}

/// One client.
pub(super) struct Client {
    /// The subject of its token, and its key among the present ones.
    pub name: String,
    pub serializer: Serializer,
    /// `None`: the client has ended, or has left its session to time out.
    pub transport: Option<Transport>,
    /// Whether its session may go on without it.
    pub is_abandoned: bool,
    /// The process that it is connected to, or that has its session.
    pub process: usize,
    pub channels: BTreeMap<String, Channel>,
    pub pending: BTreeMap<u64, Pending>,
    /// The closes of earlier joins that must arrive: topics and join_refs.
    pub closings: Vec<(String, String)>,
    pub next_ref: u64,
    /// Whether the client reads nothing.
    pub is_paused: bool,
    /// The ends that the server may choose for it.
    pub may_end: MayEnd,
    /// The notes that it has received, of topics without a history.
    pub seen: BTreeSet<u64>,
    /// The last position of each topic with a history.
    pub positions: BTreeMap<String, Position>,
}

/// Why the server may end a client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MayEnd {
    pub as_slow: bool,
    pub as_invalid: bool,
    pub as_disconnected: bool,
    /// A session that the client opened during its disconnection, on another event loop, may be among the
    /// disconnected ones too.
    pub as_disconnected_again: bool,
    pub with_its_process: bool,
}

impl Client {
    pub fn new(name: String, serializer: Serializer, transport: Transport, process: usize) -> Self {
        Client {
            name,
            serializer,
            transport: Some(transport),
            is_abandoned: false,
            process,
            channels: BTreeMap::new(),
            pending: BTreeMap::new(),
            closings: Vec::new(),
            next_ref: 1,
            is_paused: false,
            may_end: MayEnd::default(),
            seen: BTreeSet::new(),
            positions: BTreeMap::new(),
        }
    }

    pub fn is_open(&self) -> bool {
        self.transport.is_some()
    }

    /// Whether it is certain what the server knows of the client.
    pub fn is_certain(&self) -> bool {
        self.is_open() && !self.is_paused && !self.may_end.as_disconnected
    }

    pub fn is_websocket(&self) -> bool {
        self.transport.as_ref().is_some_and(Transport::is_websocket)
    }

    pub fn session_mut(&mut self) -> Option<&mut LongPoll> {
        match &mut self.transport {
            Some(Transport::LongPoll(session)) => Some(session),
            _ => None,
        }
    }

    /// The client has no connection any more.
    pub fn disconnect(&mut self) {
        self.transport = None;
        self.is_paused = false;
    }

    /// The channels of the client have ended with their connection.
    pub fn forget_channels(&mut self) {
        self.channels.clear();
        self.pending.clear();
        self.closings.clear();
    }

    /// Whether the client can receive bytes.
    pub fn takes_bytes(&self) -> bool {
        self.is_websocket() && self.serializer == Serializer::V2
    }

    /// The client leaves a channel, or joins its topic again. A backend, an application or the keeper of
    /// histories that has not answered yet will not reply to the earlier messages.
    pub fn overtake(&mut self, topic: &str) {
        let Some(channel) = self.channels.get(topic) else { return };
        if !["asked:", "app:", "kept:"].iter().any(|start| topic.starts_with(start)) {
            return;
        }
        for pending in self.pending.values_mut().filter(|pending| pending.topic == topic) {
            pending.is_optional |= pending.join_ref.as_ref() == Some(&channel.join_ref);
        }
    }

    /// Ends a channel without a word to the server.
    pub fn end_channel(&mut self, topic: &str) -> Option<Channel> {
        let channel = self.channels.remove(topic)?;
        for pending in self.pending.values_mut().filter(|pending| pending.topic == topic) {
            let is_of_channel = pending.join_ref.as_ref() == Some(&channel.join_ref);
            let is_answered = matches!(pending.asked, Asked::Leave | Asked::Join { .. });
            pending.is_optional |= is_of_channel && !is_answered;
        }
        Some(channel)
    }

    /// The reply for which the client still waits. `None`: nothing.
    pub fn waits_for(&self, notes: &Notes) -> Option<String> {
        let mut pending = self.pending.iter().filter(|(_, pending)| !pending.is_optional);
        if let Some((reference, pending)) = pending.next() {
            return Some(format!("the reply to {reference} on {:?}", pending.topic));
        }
        if let Some((topic, join_ref)) = self.closings.first() {
            return Some(format!("the close of {topic} with join_ref {join_ref}"));
        }
        self.channels.iter().find_map(|(topic, channel)| {
            if let Some(number) = channel.required(notes) {
                return Some(format!("the note {number} on {topic}"));
            }
            if channel.ends {
                return Some(format!("the end of {topic}"));
            }
            (!channel.is_replayed()).then(|| format!("the replay of {topic}"))
        })
    }
}
