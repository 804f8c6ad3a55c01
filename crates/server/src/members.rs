//! The members of a topic of any size: their number, and the names of some.
//!
//! With presence each client gets every key. When n clients join one topic, these are n² keys: half a terabyte for 100,000
//! clients. Here a client gets the number and at most [`SHOWN_MAX`] names. One message has all changes since the last one, and the
//! pause until the next one grows with the topic, so that all clients of a topic together get at most 5,000 messages a second.
//! Each entry is announced only while at most [`ANNOUNCED_MAX`] members are there: for 100,000 entries it would be 5·10⁹ messages.
//!
//! A process sends the number and the first names of its own members to the processes that subscribe to the topic, each time as
//! a whole.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use watchfire_types::{Instant, NodeId};

use crate::channel_api::{Body, ChannelAddress, ClientSender, Endpoint, Socket};
use crate::cluster::{ClusterPart, PartLink, PartName};
use crate::feature::{Feature, FeatureError, Foundation, Part};

/// The most names in a message.
const SHOWN_MAX: usize = 50;
/// The most members of a topic whose entries are announced.
const ANNOUNCED_MAX: usize = 100;
/// The pause between two messages to a topic, for each member.
const PAUSE_PER_MEMBER: Duration = Duration::from_micros(200);
/// The broadcasts of one tick, on all topics. The changes of further topics wait for the next tick, and merge with later ones.
const BROADCASTS_PER_TICK: usize = 1_000;
/// The most characters of a name. Further ones are cut off.
const NAME_CHARS_MAX: usize = 64;
/// Counted up when the messages between processes change.
const FORMAT: u64 = 1;

/// The members of topics of any size. [`Socket::track`](crate::Socket::track) is for topics of up to some hundred clients: it shows
/// every client to every other one.
///
/// A server is given the `Members` with [`Server::with`](crate::Server::with), and its channels a clone. Clients then get these
/// events:
///
/// | event | payload |
/// |---|---|
/// | `members` | `{"count": n, "users": [names]}`, with at most 50 names, after changes: at most ten times a second, and in a topic of 100,000 members every 20 s |
/// | `user_entered` | `{"user": name}`, while the topic has at most 100 members |
///
/// ```
/// use watchfire::{Channel, HandleIn, Joined, Members, Outcome, Payload, Refusal, Server, Settings, Socket};
///
/// struct Rooms(Members);
///
/// impl Channel for Rooms {
///     type State = ();
///
///     fn join(&self, socket: &mut Socket<'_>, payload: Payload<'_>) -> Result<Joined<()>, Refusal> {
///         let user: String = payload.json().map_err(|_| Refusal::because("no name"))?;
///         Ok(Joined::with(()).response(self.0.enter(socket, &user)))
///     }
///
///     fn handle_in(&self, (): &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
///         Ok(Outcome::NoReply)
///     }
///
///     fn leave(&self, (): (), socket: &mut Socket<'_>) {
///         self.0.leave(socket);
///     }
/// }
///
/// let members = Members::new("rooms");
/// let server = Server::new(Settings::default()).with(members.clone()).channel("rooms:*", Rooms(members));
/// ```
#[derive(Clone)]
pub struct Members(Arc<Shared>);

struct Shared {
    name: &'static str,
    /// Set when the parts of the process are built.
    server: OnceLock<(Endpoint, PartLink)>,
    topics: Mutex<Topics>,
}

impl Members {
    /// No members. Each `Members` of a server has another name.
    pub fn new(name: &'static str) -> Self {
        let (server, topics) = (OnceLock::new(), Mutex::default());
        Members(Arc::new(Shared { name, server, topics }))
    }

    /// Makes the client of a channel a member under a name, or renames it. Returns the payload of `members`, for the reply. The
    /// channel's `leave` has to call [`Members::leave`].
    pub fn enter(&self, socket: &Socket<'_>, user: &str) -> Body {
        self.0.topics.lock().enter(socket.topic(), socket.address(), user).all().body()
    }

    /// Removes the client of a channel, if it is a member.
    pub fn leave(&self, socket: &Socket<'_>) {
        self.0.topics.lock().leave(socket.topic(), socket.address());
    }

    /// The part of a process, for a feature that has members.
    #[doc(hidden)]
    pub fn part(&self, foundation: &Foundation<'_>) -> Arc<dyn Part> {
        let link = foundation.link(PartName::new(self.0.name, FORMAT));
        self.0.server.set((foundation.endpoint.clone(), link)).ok();
        Arc::new(self.clone())
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Members of {} topics", self.0.topics.lock().topics.len())
    }
}

impl Feature for Members {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn build(&self, foundation: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, FeatureError> {
        Ok(vec![self.part(foundation)])
    }
}

#[doc(hidden)]
impl Part for Members {
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self.0.clone()]
    }

    fn handle_tick(&self, now: Instant) {
        let Some((endpoint, link)) = self.0.server.get() else { return };
        // Under the lock, so that a process that subscribes meanwhile gets no older report after this one.
        self.0.topics.lock().send_due(now, |name, topic| {
            for user in topic.entered.drain(..) {
                endpoint.broadcast(name, "user_entered", json!({ "user": user })).ok();
            }
            if std::mem::take(&mut topic.is_unreported) {
                link.publish_state(name, || (name, topic.own()));
            }
            endpoint.broadcast_here(name, "members", topic.all().body());
        });
    }
}

impl ClusterPart for Shared {
    fn link(&self) -> &PartLink {
        &self.server.get().expect("a part that is built has its link").1
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        let (name, report): (&str, Report<Box<str>>) = postcard::from_bytes(message)?;
        // The subscription may have ended while the message was on its way.
        if self.link().cluster().is_subscribed(name) {
            self.topics.lock().change(name).receive(from, report);
        }
        Ok(())
    }

    fn introduce_to(&self, node: NodeId, name: &str) {
        let topics = self.topics.lock();
        if let Some(topic) = topics.topics.get(name).filter(|topic| !topic.here.is_empty()) {
            self.link().send_state(node, &(name, topic.own()));
        }
    }

    fn unsubscribed(&self, node: NodeId, name: &str) {
        let topics = self.topics.lock();
        if topics.topics.contains_key(name) {
            self.link().send_state(node, &(name, Report::<&str>::default()));
        }
    }

    fn forget(&self, name: &str) {
        let mut topics = self.topics.lock();
        if topics.topics.contains_key(name) {
            topics.change(name).elsewhere.clear();
        }
    }

    fn node_down(&self, node: NodeId) {
        self.topics.lock().forget_node(node);
    }
}

/// The number of members, and the names of some.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Report<S> {
    count: u64,
    users: Vec<S>,
}

impl Report<&str> {
    fn body(&self) -> Body {
        Body::Json(serde_json::to_string(self).expect("names can be JSON").into())
    }
}

#[derive(Default)]
struct Topics {
    topics: HashMap<Box<str>, Topic>,
    /// The topics that changed since their last message, each once.
    changed: Vec<Box<str>>,
}

#[derive(Default)]
struct Topic {
    here: BTreeMap<ChannelAddress, Box<str>>,
    elsewhere: BTreeMap<NodeId, Report<Box<str>>>,
    /// The names of entries that are not announced yet, at most [`ANNOUNCED_MAX`].
    entered: Vec<Box<str>>,
    sent_at: Option<Instant>,
    is_changed: bool,
    /// Whether `here` changed since the last report to the other processes.
    is_unreported: bool,
}

impl Topics {
    /// Finds or makes a topic, and notes that it changes.
    fn change(&mut self, name: &str) -> &mut Topic {
        let topic = self.topics.entry(name.into()).or_default();
        if !std::mem::replace(&mut topic.is_changed, true) {
            self.changed.push(name.into());
        }
        topic
    }

    fn enter(&mut self, name: &str, address: ChannelAddress, user: &str) -> &Topic {
        let topic = self.change(name);
        let user: Box<str> = user.chars().take(NAME_CHARS_MAX).collect();
        let is_new = topic.here.insert(address, user.clone()).is_none();
        topic.is_unreported = true;
        if is_new && topic.count().max(topic.entered.len() as u64 + 1) <= ANNOUNCED_MAX as u64 {
            topic.entered.push(user);
        }
        topic
    }

    fn leave(&mut self, name: &str, address: ChannelAddress) {
        if self.topics.get(name).is_some_and(|topic| topic.here.contains_key(&address)) {
            let topic = self.change(name);
            topic.here.remove(&address);
            topic.is_unreported = true;
        }
    }

    fn forget_node(&mut self, node: NodeId) {
        for (name, topic) in &mut self.topics {
            let was_there = topic.elsewhere.remove(&node).is_some();
            if was_there && !std::mem::replace(&mut topic.is_changed, true) {
                self.changed.push(name.clone());
            }
        }
    }

    /// Calls `send` for the changed topics whose pause is over, in the order of the changes.
    fn send_due(&mut self, now: Instant, mut send: impl FnMut(&str, &mut Topic)) {
        let Topics { topics, changed } = self;
        let mut left = BROADCASTS_PER_TICK;
        changed.retain(|name| {
            let Some(topic) = topics.get_mut(name) else { return false };
            if left == 0 || !topic.is_due(now) {
                return true;
            }
            left = left.saturating_sub(1 + topic.entered.len());
            (topic.sent_at, topic.is_changed) = (Some(now), false);
            send(name, topic);
            if topic.count() == 0 {
                topics.remove(name);
            }
            false
        });
    }
}

impl Topic {
    fn receive(&mut self, from: NodeId, report: Report<Box<str>>) {
        match report.count {
            0 => self.elsewhere.remove(&from),
            _ => self.elsewhere.insert(from, report),
        };
    }

    fn count(&self) -> u64 {
        self.here.len() as u64 + self.elsewhere.values().map(|report| report.count).sum::<u64>()
    }

    fn is_due(&self, now: Instant) -> bool {
        let members = u32::try_from(self.count()).unwrap_or(u32::MAX);
        self.sent_at.is_none_or(|at| now >= at + PAUSE_PER_MEMBER * members)
    }

    /// The members of this process.
    fn own(&self) -> Report<&str> {
        let users = self.here.values().take(SHOWN_MAX).map(|user| &**user).collect();
        Report { count: self.here.len() as u64, users }
    }

    /// The members of all processes.
    fn all(&self) -> Report<&str> {
        let elsewhere = self.elsewhere.values().flat_map(|report| &report.users);
        let users = self.here.values().chain(elsewhere).take(SHOWN_MAX);
        Report { count: self.count(), users: users.map(|user| &**user).collect() }
    }
}

#[cfg(test)]
mod tests {
    use watchfire_types::ShardId;

    use super::*;

    fn client(number: u16) -> ChannelAddress {
        ChannelAddress::first_of(NodeId(0), ShardId(number))
    }

    /// Sends the messages that are due. Returns, for each `members`, its number of members and of names, and how many entries are
    /// announced before it.
    fn sent(topics: &mut Topics, millis: u64) -> Vec<(u64, usize, usize)> {
        let mut sent = Vec::new();
        topics.send_due(Instant::ZERO + Duration::from_millis(millis), |_, topic| {
            let entered = topic.entered.drain(..).count();
            sent.push((topic.count(), topic.all().users.len(), entered));
        });
        sent
    }

    #[test]
    fn a_storm_of_entries_costs_each_member_few_messages() {
        let mut topics = Topics::default();
        let mut deliveries = 0;
        for number in 0..10_000 {
            topics.enter("rooms:1", client(number), "Ann");
            // Ten ticks a second, and a hundred entries in each.
            if number % 100 == 99 {
                let sent = sent(&mut topics, u64::from(number) + 1);
                deliveries += sent.iter().map(|it| it.0 * (1 + it.2 as u64)).sum::<u64>();
            }
        }
        assert!(deliveries < 70_000, "{deliveries}, and not 50 million");
        assert_eq!(sent(&mut topics, 12_000), [(10_000, 50, 0)], "the last change is sent");
        assert_eq!(sent(&mut topics, 99_000), [], "nothing has changed since");
    }

    #[test]
    fn the_broadcasts_of_a_tick_are_bounded() {
        let mut topics = Topics::default();
        for number in 0..1_000 {
            topics.enter("rooms:1", client(number), "Ann");
            topics.leave("rooms:1", client(number));
        }
        assert_eq!(sent(&mut topics, 0), [(0, 0, ANNOUNCED_MAX)], "they left again");
        (0..700).for_each(|room| _ = topics.enter(&format!("rooms:{room}"), client(0), "Ann"));
        assert_eq!([0, 0, 0].map(|millis| sent(&mut topics, millis).len()), [500, 200, 0]);
    }

    #[test]
    fn members_of_other_processes_count_and_names_that_leave_make_place_for_others() {
        let mut topics = Topics::default();
        let users = vec!["Eve".into(); SHOWN_MAX];
        topics.change("rooms:1").receive(NodeId(1), Report { count: 60_000, users });
        let all = topics.enter("rooms:1", client(0), &"a".repeat(1_000)).all();
        assert_eq!((all.count, all.users[0].len(), all.users.len()), (60_001, 64, 50));
        assert_eq!(sent(&mut topics, 0), [(60_001, 50, 0)], "too many to announce an entry");
        topics.enter("rooms:1", client(0), "Bob");
        assert_eq!(topics.topics["rooms:1"].own().users, ["Bob"], "a new name is no new member");
        topics.leave("rooms:1", client(0));
        assert_eq!(topics.topics["rooms:1"].all().users, ["Eve"; SHOWN_MAX]);
        assert_eq!(sent(&mut topics, 11_999), [], "the pause of 60,000 members");
        topics.forget_node(NodeId(1));
        assert_eq!(sent(&mut topics, 12_000), [(0, 0, 0)]);
        assert!(topics.topics.is_empty(), "an empty topic takes no memory");
    }
}
