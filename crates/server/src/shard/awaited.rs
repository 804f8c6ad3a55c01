//! The records of clients that are awaited, and of publishers that wait for them.

use std::collections::{BTreeSet, HashMap};

use tokio::sync::oneshot;
use watchfire_channels::longpoll::{BodyError, Status};
use watchfire_types::{Instant, ShardId, SocketId};

use crate::channel_api::Flows;

#[derive(Default)]
pub(super) struct Backpressure {
    /// By topic: the keys of subscribers that were awaited when they got their last message.
    pub awaited: HashMap<Box<str>, BTreeSet<u32>>,
    pub waiting: Vec<WaitingPublisher>,
    /// The topic that has no room for more messages of the POST that is being handled.
    pub post_topic: Option<Box<str>>,
}

pub(super) struct WaitingPublisher {
    pub until: Instant,
    pub topic: Box<str>,
    pub publisher: Publisher,
}

pub(super) enum Publisher {
    Socket(SocketId),
    Post { answer: PostAnswer, result: Result<Status, BodyError> },
}

pub(super) type PostAnswer = oneshot::Sender<Result<Status, BodyError>>;

impl Backpressure {
    /// A message to a client made its queue longer than a half. `client` is awaited.
    pub fn note_awaited(&mut self, flows: &Flows, shard: ShardId, topic: &str, client: u32) {
        if let Some(clients) = self.awaited.get_mut(topic) {
            clients.insert(client);
            return;
        }
        self.awaited.insert(topic.into(), BTreeSet::from([client]));
        flows.set_awaiting(topic, shard, true);
    }
}
