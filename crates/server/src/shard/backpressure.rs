//! Clients whose queues are full and move, and the publishers that wait for them.
//!
//! `channel_api/flows.rs` explains when a topic has no room. Here are the two sides of it that belong to
//! clients of this event loop: which subscribers are awaited, and which publishers are not read. The
//! set of awaited subscribers is only ever looked at from its first member on: a client that is not
//! awaited any more leaves it then. So the work for a client is the same as that of a message to it.

use watchfire_channels::longpoll::{BodyError, Status};
use watchfire_sockets::Sockets;

use super::awaited::{PostAnswer, Publisher, WaitingPublisher};
use super::client::{Client, Transport};
use super::shared::Shared;
use super::state::Shard;
use crate::channel_api::Waiter;

/// Topics that are looked at when the queue of any client got shorter.
const RELIEVED_AT_ONCE: usize = 64;

/// Whether publishers to a client should wait until it has read.
pub(super) fn is_awaited(shared: &Shared, sockets: &Sockets, client: &Client) -> bool {
    match &client.transport {
        Transport::WebSocket(socket) => sockets.is_awaited(*socket),
        Transport::LongPoll(session) => session.is_awaited(shared, sockets),
    }
}

impl Shard {
    /// A client has published to a topic. While the topic has no room, the client is not read, or its
    /// POST is not answered.
    pub(super) fn wait_after_publishing(&mut self, sockets: &mut Sockets, key: u32, topic: &str) {
        let id = self.id;
        if !self.shared.endpoint.flows().wait(topic, || Waiter::Shard(id)) {
            return;
        }
        match self.clients.get(key as usize).map(|client| &client.transport) {
            Some(&Transport::WebSocket(socket)) if sockets.pause(socket) => {
                self.let_wait(sockets, topic.into(), Publisher::Socket(socket));
            }
            Some(Transport::LongPoll(_)) => self.backpressure.post_topic = Some(topic.into()),
            Some(Transport::WebSocket(_)) | None => {}
        }
    }

    /// Answers a POST whose messages were handled, as soon as their topic has room for more.
    pub(super) fn answer_post(
        &mut self,
        sockets: &Sockets,
        answer: PostAnswer,
        result: Result<Status, BodyError>,
    ) {
        match self.backpressure.post_topic.take() {
            Some(topic) => self.let_wait(sockets, topic, Publisher::Post { answer, result }),
            None => drop(answer.send(result)),
        }
    }

    fn let_wait(&mut self, sockets: &Sockets, topic: Box<str>, publisher: Publisher) {
        self.metrics.publishers_waited.add(1);
        let until = sockets.now() + self.shared.endpoint.flows().wait_max();
        self.backpressure.waiting.push(WaitingPublisher { until, topic, publisher });
    }

    /// Lets the publishers go on whose topic has room, or that have waited long enough. `topic`: only
    /// those of this one.
    pub(super) fn resume_publishers(&mut self, sockets: &mut Sockets, topic: Option<&str>) {
        let (id, now) = (self.id, sockets.now());
        let flows = self.shared.endpoint.flows();
        let may_go_on = |waiting: &mut WaitingPublisher| {
            topic.is_none_or(|topic| *topic == *waiting.topic)
                && (waiting.until <= now || !flows.wait(&waiting.topic, || Waiter::Shard(id)))
        };
        for waiting in self.backpressure.waiting.extract_if(.., may_go_on) {
            match waiting.publisher {
                Publisher::Socket(socket) => sockets.resume(socket),
                Publisher::Post { answer, result } => drop(answer.send(result)),
            }
        }
    }

    /// Lets all publishers go on, for a drain.
    pub(super) fn end_waits(&mut self, sockets: &mut Sockets) {
        self.backpressure.waiting.iter_mut().for_each(|waiting| waiting.until = sockets.now());
        self.resume_publishers(sockets, None);
    }

    /// The queue of a client got shorter. If many topics have awaited subscribers, all of them are looked
    /// at in the next tick.
    pub(super) fn relieve_few_topics(&mut self, sockets: &Sockets) {
        if self.backpressure.awaited.len() <= RELIEVED_AT_ONCE {
            self.relieve_topics(sockets);
        }
    }

    /// Forgets the awaited subscribers that have read, are gone, or are awaited no longer.
    pub(super) fn relieve_topics(&mut self, sockets: &Sockets) {
        let Shard { backpressure, clients, shared, id, .. } = self;
        backpressure.awaited.retain(|topic, keys| {
            while let Some(&key) = keys.first() {
                let client = clients.get(key as usize);
                if client.is_some_and(|client| is_awaited(shared, sockets, client)) {
                    return true;
                }
                keys.pop_first();
            }
            shared.endpoint.flows().set_awaiting(topic, *id, false);
            false
        });
    }
}
