//! Clients whose queues are full and move, and the publishers that wait for them.
//!
//! `channel_api/flows.rs` explains when a topic has no room. Here are the two sides of it that belong to
//! clients of this event loop: which subscribers are awaited, and which publishers are not read. The
//! set of awaited subscribers is only ever looked at from its first member on: a client that is not
//! awaited any more leaves it then. So the work for a client is the same as that of a message to it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;
use watchfire_channels::longpoll::{BodyError, Status};
use watchfire_sockets::Sockets;
use watchfire_types::{Instant, ShardId, SocketId};

use super::client::Transport;
use super::clients::Clients;
use super::process_state::ProcessState;
use crate::channel_api::{Flows, Waiter};
use crate::metrics::ShardMetrics;

/// Topics that are looked at when the queue of any client got shorter.
const RELIEVED_AT_ONCE: usize = 64;

pub(super) type PostAnswer = oneshot::Sender<Result<Status, BodyError>>;

/// The awaited subscribers of a shard, and its publishers that wait.
pub(super) struct Backpressure {
    shard: ShardId,
    shared: Arc<ProcessState>,
    metrics: Arc<ShardMetrics>,
    /// By topic: the keys of subscribers that were awaited when they got their last message.
    awaited: HashMap<Box<str>, BTreeSet<u32>>,
    waiting: Vec<WaitingPublisher>,
    /// The topic that has no room for more messages of the POST that is being handled.
    post_topic: Option<Box<str>>,
}

struct WaitingPublisher {
    until: Instant,
    topic: Box<str>,
    publisher: Publisher,
}

enum Publisher {
    Socket(SocketId),
    Post { answer: PostAnswer, result: Result<Status, BodyError> },
}

impl Backpressure {
    pub fn new(shard: ShardId, shared: Arc<ProcessState>, metrics: Arc<ShardMetrics>) -> Self {
        let (awaited, waiting) = (HashMap::new(), Vec::new());
        Backpressure { shard, shared, metrics, awaited, waiting, post_topic: None }
    }

    fn flows(&self) -> &Arc<Flows> {
        self.shared.endpoint.flows()
    }

    /// A client has published to a topic. While the topic has no room, the client is not read, or its
    /// POST is not answered.
    pub fn wait_after_publishing(
        &mut self,
        clients: &Clients,
        sockets: &mut Sockets,
        key: u32,
        topic: &str,
    ) {
        if !self.flows().wait(topic, || Waiter::Shard(self.shard)) {
            return;
        }
        match clients.get(key).map(|client| &client.transport) {
            Some(&Transport::WebSocket(socket)) if sockets.pause(socket) => {
                self.let_wait(sockets, topic.into(), Publisher::Socket(socket));
            }
            Some(Transport::LongPoll(_)) => self.post_topic = Some(topic.into()),
            Some(Transport::WebSocket(_) | Transport::Events(_)) | None => {}
        }
    }

    /// The messages of a POST follow. [`Backpressure::answer_post`] ends it.
    pub fn begin_post(&mut self) {
        self.post_topic = None;
    }

    /// Answers a POST whose messages were handled, as soon as their topic has room for more.
    pub fn answer_post(
        &mut self,
        sockets: &Sockets,
        answer: PostAnswer,
        result: Result<Status, BodyError>,
    ) {
        match self.post_topic.take() {
            Some(topic) => self.let_wait(sockets, topic, Publisher::Post { answer, result }),
            None => drop(answer.send(result)),
        }
    }

    fn let_wait(&mut self, sockets: &Sockets, topic: Box<str>, publisher: Publisher) {
        self.metrics.publishers_waited.add(1);
        let until = sockets.now() + self.flows().wait_max();
        self.waiting.push(WaitingPublisher { until, topic, publisher });
    }

    /// Lets the publishers go on whose topic has room, or that have waited long enough. `topic`: only
    /// those of this one.
    pub fn resume_publishers(&mut self, sockets: &mut Sockets, topic: Option<&str>) {
        let Backpressure { shard, shared, waiting, .. } = self;
        let (now, flows) = (sockets.now(), shared.endpoint.flows());
        let may_go_on = |waiting: &mut WaitingPublisher| {
            topic.is_none_or(|topic| *topic == *waiting.topic)
                && (waiting.until <= now || !flows.wait(&waiting.topic, || Waiter::Shard(*shard)))
        };
        for waiting in waiting.extract_if(.., may_go_on) {
            match waiting.publisher {
                Publisher::Socket(socket) => sockets.resume(socket),
                Publisher::Post { answer, result } => drop(answer.send(result)),
            }
        }
    }

    /// Lets all publishers go on, for a drain.
    pub fn end_waits(&mut self, sockets: &mut Sockets) {
        self.waiting.iter_mut().for_each(|waiting| waiting.until = sockets.now());
        self.resume_publishers(sockets, None);
    }

    /// A message to a client made its queue longer than a half. `client` is awaited.
    pub fn note_awaited(&mut self, topic: &str, client: u32) {
        if let Some(clients) = self.awaited.get_mut(topic) {
            clients.insert(client);
            return;
        }
        self.awaited.insert(topic.into(), BTreeSet::from([client]));
        self.flows().set_awaiting(topic, self.shard, true);
    }

    /// The queue of a client got shorter. If many topics have awaited subscribers, all of them are looked
    /// at in the next tick.
    pub fn relieve_few_topics(&mut self, clients: &Clients, sockets: &Sockets) {
        if self.awaited.len() <= RELIEVED_AT_ONCE {
            self.relieve_topics(clients, sockets);
        }
    }

    /// Forgets the awaited subscribers that have read, are gone, or are awaited no longer.
    pub fn relieve_topics(&mut self, clients: &Clients, sockets: &Sockets) {
        let Backpressure { awaited, shared, shard, .. } = self;
        awaited.retain(|topic, keys| {
            while let Some(&key) = keys.first() {
                if clients.get(key).is_some_and(|client| client.is_awaited(shared, sockets)) {
                    return true;
                }
                keys.pop_first();
            }
            shared.endpoint.flows().set_awaiting(topic, *shard, false);
            false
        });
    }
}
