//! A handle to the whole server, from any thread.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use watchfire_hub::history::{Message as KeptMessage, Position};
use watchfire_sockets::ShardSender;
use watchfire_traces::{Kind, Span};
use watchfire_types::{Instant, NodeId, ShardId};

use super::address::{ChannelAddress, ReplyTo};
use super::broadcast::{Broadcast, Placed};
use super::flows::{Flows, Waiter};
use super::forward::ForwardKind;
use super::messages::Message;
use super::parking::ParkedRequest;
use super::payload::{Body, PayloadError};
use super::question::{ShardAnswer, ShardQuestion, ShardQuestions};
use super::reply::Reply;
use super::sender::ClientSender;
use super::shard_message::ShardMessage;
use crate::cluster::{ClusterPart, PartLink, SendError};
use crate::history::{History, LocalDelivery, LogKeeper, NotStored, Stored};
use crate::machines::ClusterError;
use crate::settings::Settings;

/// A handle to the whole server, with all its processes: broadcasts, pushes and disconnects from
/// any thread.
///
/// Delivery is at most once. When the queue of a shard is full, the message is dropped and counted.
///
/// ```
/// use watchfire::{Server, Settings};
///
/// let mut settings = Settings::default();
/// settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
/// let server = Server::new(settings).start().unwrap();
/// let endpoint = server.endpoint().clone();
/// let task = std::thread::spawn(move || {
///     let order = serde_json::json!({ "state": "shipped" });
///     endpoint.broadcast("orders:42", "changed", order).unwrap();
///     endpoint.disconnect("users:7");
/// });
/// task.join().unwrap();
/// ```
#[derive(Clone)]
pub struct Endpoint {
    // Set once: channels get their handle before the shards start.
    shards: Arc<OnceLock<Box<[ShardSender<ShardMessage>]>>>,
    link: PartLink,
    flows: Arc<Flows>,
    /// `None`: no topic has a history.
    history: Option<Arc<History>>,
}

/// A message that was published with [`Endpoint::publish`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The position of the message, as clients get it in the field `ref`. `None`: the topic has no
    /// history.
    pub position: Option<String>,
}

/// Why [`Endpoint::publish`] has not published a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The payload cannot be sent.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The history of the topic did not confirm the message in time. If only the confirmation is lost,
    /// subscribers get the message nevertheless.
    #[error("cannot publish: the history did not store the message in time; publish it again")]
    NotStored,
    /// The history of the topic never takes a message of this size.
    #[error("cannot publish: the history takes at most {bytes_max} bytes; send a smaller payload")]
    TooLarge {
        /// The most bytes of event and payload.
        bytes_max: usize,
    },
}

impl From<NotStored> for PublishError {
    fn from(cause: NotStored) -> Self {
        match cause {
            NotStored::Unavailable => PublishError::NotStored,
            NotStored::TooLarge { bytes_max } => PublishError::TooLarge { bytes_max },
        }
    }
}

/// The shards of this process, for messages with positions.
struct Shards {
    senders: Arc<OnceLock<Box<[ShardSender<ShardMessage>]>>>,
    flows: Arc<Flows>,
    /// Shards whose queue was full, and the topics of which they have missed messages.
    lagging: Mutex<BTreeSet<(ShardId, Arc<str>)>>,
}

impl Shards {
    fn senders(&self) -> &[ShardSender<ShardMessage>] {
        self.senders.get().map_or(&[], |shards| shards)
    }

    fn send(&self, shard: &ShardSender<ShardMessage>, topic: &Arc<str>, message: ShardMessage) {
        if shard.send(message).is_err() {
            self.lagging.lock().insert((shard.shard(), topic.clone()));
        }
    }
}

impl LocalDelivery for Shards {
    fn deliver(
        &self,
        topic: &Arc<str>,
        after: Position,
        position: Position,
        message: &KeptMessage,
    ) {
        let body = Body::Json(String::from(&*message.payload).into());
        let placed = Placed { after, position };
        let broadcast = Broadcast::placed(topic, &message.event, body, placed);
        let broadcast = broadcast.counted(&self.flows);
        for shard in self.senders() {
            self.send(shard, topic, ShardMessage::Broadcast(broadcast.clone()));
        }
    }

    fn reset(&self, topic: &Arc<str>) {
        for shard in self.senders() {
            self.send(shard, topic, ShardMessage::Reset { topic: topic.clone() });
        }
    }

    fn retry(&self) {
        let lagging = std::mem::take(&mut *self.lagging.lock());
        for (shard, topic) in lagging {
            let sender = self.senders().iter().find(|sender| sender.shard() == shard);
            if let Some(sender) = sender {
                self.send(sender, &topic, ShardMessage::Reset { topic: topic.clone() });
            }
        }
    }

    fn ready(&self) {
        for shard in self.senders() {
            // A shard whose queue is full checks at its next tick.
            shard.send(ShardMessage::Ready).ok();
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint of {} shards", self.senders().len())
    }
}

impl Endpoint {
    /// A handle to a server whose shards have not started.
    pub(crate) fn unconnected(
        settings: &Settings,
        link: PartLink,
        history: Option<Arc<History>>,
    ) -> Self {
        let shards: Arc<OnceLock<Box<[ShardSender<ShardMessage>]>>> = Arc::default();
        let called = Arc::clone(&shards);
        let flows = Flows::new(
            settings,
            Box::new(move |shard, topic| {
                let shards = called.get().map_or(&[][..], |shards| shards);
                if let Some(sender) = shards.get(usize::from(shard.0)) {
                    sender.send(ShardMessage::Room { topic: topic.into() }).ok();
                }
            }),
        );
        if let Some(history) = &history {
            let (senders, flows) = (Arc::clone(&shards), flows.clone());
            history.connect(Shards { senders, flows, lagging: Mutex::default() });
        }
        Endpoint { shards, link, flows, history }
    }

    /// Connects to the storage of histories, if there is one.
    pub(crate) async fn start_histories(&self) -> Result<(), ClusterError> {
        match &self.history {
            Some(history) => history.start().await,
            None => Ok(()),
        }
    }

    /// The histories, if they are in this process.
    pub(crate) fn keeper(&self) -> Option<LogKeeper> {
        self.history.as_ref().and_then(|history| history.keeper())
    }

    /// Replaces the link to the supervisor, which keeps the histories.
    pub(crate) fn link_keeper(&self, stream: UnixStream) {
        if let Some(history) = &self.history {
            history.link_keeper(stream);
        }
    }

    /// Connects all clones of this handle to the shards. Later calls change nothing.
    pub(crate) fn connect(&self, shards: &[ShardSender<ShardMessage>]) {
        self.shards.get_or_init(|| shards.into());
    }

    fn senders(&self) -> &[ShardSender<ShardMessage>] {
        self.shards.get().map_or(&[], |shards| shards)
    }

    /// The shards of this process.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.senders().iter().map(ShardSender::shard)
    }

    /// Sends to every subscriber of a topic. If the history of the topic does not store the message,
    /// nobody gets it, and the caller does not learn that: see [`Endpoint::publish`].
    pub fn broadcast(
        &self,
        topic: &str,
        event: &str,
        body: impl Into<Body>,
    ) -> Result<(), PayloadError> {
        self.publish_with(topic, event, body.into(), None, |_| ())
    }

    /// Sends to every subscriber of a topic, and waits until the message is stored, if the topic has a
    /// history. Nothing is sent before the future is polled.
    ///
    /// ```
    /// use watchfire::{Endpoint, PublishError};
    ///
    /// async fn ship(endpoint: &Endpoint, order: u64) -> Result<(), PublishError> {
    ///     let shipped = serde_json::json!({ "order": order });
    ///     let published = endpoint.publish("orders:shipped", "order", shipped).await?;
    ///     println!("shipped {order}, at the position {:?}", published.position);
    ///     Ok(())
    /// }
    /// ```
    pub async fn publish(
        &self,
        topic: &str,
        event: &str,
        body: impl Into<Body>,
    ) -> Result<Published, PublishError> {
        let (sender, outcome) = tokio::sync::oneshot::channel();
        self.publish_with(topic, event, body.into(), None, |outcome| {
            sender.send(outcome).ok();
        })?;
        // The sender is dropped only when the server stops.
        let stored = outcome.await.unwrap_or(Err(NotStored::Unavailable))?;
        Ok(Published { position: stored.position.map(|position| position.to_string()) })
    }

    /// Sends to every subscriber of a topic. `done` gets the outcome, in this call or later, and is not
    /// called after an error. Messages with the same `id` are stored once, if the history knows ids.
    #[doc(hidden)]
    pub fn publish_with(
        &self,
        topic: &str,
        event: &str,
        body: Body,
        id: Option<&str>,
        done: impl FnOnce(Result<Stored, NotStored>) + Send + 'static,
    ) -> Result<(), PayloadError> {
        let body = body.checked_object()?;
        let publish = broadcast_span("publish", Kind::Producer, topic, event, &body);
        let _entered = publish.enter();
        if let Some(history) = self.history_of(topic) {
            match &body {
                Body::Json(payload) => {
                    self.store(topic, event, payload, id, done);
                    return Ok(());
                }
                Body::Binary(_) if history.has_by_own_rules(topic) => {
                    return Err(PayloadError::BytesWithHistory);
                }
                // Only another machine keeps a history of the topic.
                Body::Binary(_) => {}
            }
        }
        let broadcast = Broadcast::new(topic, event, body, None).counted(&self.flows);
        self.deliver(&broadcast, None);
        self.publish_elsewhere(&broadcast);
        done(Ok(Stored { position: None }));
        Ok(())
    }

    /// Publishes to a topic with a history. Publishers of the topic wait while many bytes are not stored.
    pub(crate) fn store(
        &self,
        topic: &str,
        event: &str,
        payload: &str,
        id: Option<&str>,
        done: impl FnOnce(Result<Stored, NotStored>) + Send + 'static,
    ) {
        let history = self.history.as_ref().expect("the topic has a history");
        let in_flight = self.flows.in_flight(topic, payload.len());
        history.publish(topic, event, payload, id, move |outcome| {
            drop(in_flight);
            done(outcome);
        });
    }

    /// Whether a topic has room for more messages. It has none while earlier ones wait to be delivered,
    /// or while the queue of a subscriber is full and moves (`socket.crowded_timeout`).
    ///
    /// [`Endpoint::broadcast`] never waits. An application that broadcasts much to one topic should wait
    /// itself, or readers that cannot follow are closed with 1013. Messages of clients and calls of the
    /// HTTP API wait on their own.
    pub fn has_room(&self, topic: &str) -> bool {
        self.flows.has_room(topic)
    }

    /// Waits until all topics have room. Returns false when they have none for twice
    /// `socket.crowded_timeout`.
    #[doc(hidden)]
    pub async fn wait_for_room(&self, topics: &[&str]) -> bool {
        let until = tokio::time::Instant::now() + self.flows.wait_max();
        while let Some(topic) = topics.iter().find(|topic| !self.flows.has_room(topic)) {
            let (waiter, called) = tokio::sync::oneshot::channel();
            if self.flows.wait(topic, || Waiter::Call(waiter))
                && tokio::time::timeout_at(until, called).await.is_err()
            {
                return false;
            }
        }
        true
    }

    pub(crate) fn flows(&self) -> &Arc<Flows> {
        &self.flows
    }

    /// Reports to the other processes of which topics this one awaits subscribers.
    pub(crate) fn report_flows(&self) {
        let topics = self.flows.tick();
        if !topics.is_empty() {
            self.link.send_all(|| Message::Awaiting {
                topics: topics.iter().map(|topic| &**topic).collect(),
            });
        }
    }

    /// The logs, if a topic has one.
    pub(crate) fn history_of(&self, topic: &str) -> Option<&Arc<History>> {
        self.history.as_ref().filter(|history| history.has(topic))
    }

    /// Closes every socket with an id: see [`crate::Connected::with_id`].
    pub fn disconnect(&self, id: &str) {
        self.disconnect_here(id);
        self.link.send_all(|| Message::Disconnect { id });
    }

    fn disconnect_here(&self, id: &str) {
        for shard in self.senders() {
            shard.send(ShardMessage::Disconnect { id: id.into() }).ok();
        }
    }

    /// Asks every shard of this process. `on_all` gets their answers; `None` when the queue of a shard
    /// is full.
    #[doc(hidden)]
    pub fn ask_shards(
        &self,
        question: ShardQuestion,
        on_all: impl FnOnce(Option<Vec<ShardAnswer>>) + Send + 'static,
    ) {
        let asked = ShardQuestions::new(question, self.senders().len(), on_all);
        for shard in self.senders() {
            shard.send(ShardMessage::Ask(asked.clone())).ok();
        }
    }

    /// Sends to one client.
    pub fn push(
        &self,
        to: ChannelAddress,
        event: &str,
        body: impl Into<Body>,
    ) -> Result<(), PayloadError> {
        let body = body.into().checked_object()?;
        ClientSender::push(self, to, event, body).ok();
        Ok(())
    }

    /// Sends a message to a channel's own [`crate::Channel::handle_info`]. An application only gets
    /// addresses of its own process, so this never crosses processes.
    ///
    /// ```
    /// use std::any::Any;
    /// use watchfire::{ChannelAddress, Endpoint, HandleIn, Outcome, Socket};
    ///
    /// fn remind(endpoint: &Endpoint, to: ChannelAddress) {
    ///     endpoint.send(to, "your turn".to_owned());
    /// }
    /// // As the `handle_info` of the channel:
    /// fn handle_info(socket: &mut Socket<'_>, info: Box<dyn Any + Send>) -> HandleIn {
    ///     let text = info.downcast::<String>().expect("the application sends only texts");
    ///     socket.push("reminder", serde_json::json!({ "text": *text }))?;
    ///     Ok(Outcome::NoReply)
    /// }
    /// ```
    pub fn send(&self, to: ChannelAddress, info: impl Any + Send) {
        self.send_to(to.shard, ShardMessage::Info { to, info: Box::new(info) }).ok();
    }

    /// Replies to one message.
    pub(crate) fn reply(&self, to: ReplyTo, reply: Reply) {
        if self.owns(to.channel) {
            self.send_to(to.channel.shard, ShardMessage::Reply { to, reply }).ok();
        } else {
            let (status, body) = (&*reply.status, (&reply.response).into());
            let message = Message::Reply { to: (&to).into(), status, body };
            self.link.send(to.channel.node, &message).ok();
        }
    }

    /// Sends data of a client to the shard or process of its destination.
    pub(crate) fn forward(
        &self,
        kind: ForwardKind,
        to: ChannelAddress,
        data: Bytes,
        ack: ReplyTo,
        arrived: Option<Instant>,
    ) -> Result<(), SendError> {
        if self.owns(to) {
            return self.send_to(to.shard, ShardMessage::Forward { kind, to, data, ack, arrived });
        }
        let message = Message::Forward { kind, to: to.into(), data: &data, ack: (&ack).into() };
        self.link.send(to.node, &message)
    }

    /// Sends a broadcast to every shard of this process except one.
    pub(crate) fn deliver(&self, broadcast: &Arc<Broadcast>, except: Option<ShardId>) {
        for shard in self.senders().iter().filter(|shard| Some(shard.shard()) != except) {
            shard.send(ShardMessage::Broadcast(broadcast.clone())).ok();
        }
    }

    /// Sends a broadcast to the other processes that have subscribers.
    pub(crate) fn publish_elsewhere(&self, broadcast: &Broadcast) {
        let Broadcast { topic, event, body, except, .. } = broadcast;
        let except = except.map(Into::into);
        self.link.publish(topic, || Message::Broadcast { topic, event, body: body.into(), except });
    }

    /// Sends a message to one shard of this process. A full queue drops and counts it.
    pub(crate) fn send_to(&self, shard: ShardId, message: ShardMessage) -> Result<(), SendError> {
        let sender = self.senders().get(usize::from(shard.0)).ok_or(SendError)?;
        sender.send(message).map_err(|_| SendError)
    }

    /// Sends a message to one shard of this process. Returns it when the queue is full.
    pub(crate) fn send_or_return(
        &self,
        shard: ShardId,
        message: ShardMessage,
    ) -> Result<(), ShardMessage> {
        match self.senders().get(usize::from(shard.0)) {
            Some(sender) => sender.send(message).map_err(|full| full.0),
            None => Err(message),
        }
    }

    fn owns(&self, address: ChannelAddress) -> bool {
        address.node == self.link.cluster().me()
    }
}

/// A span of a message to a whole topic, below the current one: one for each process, never for each
/// subscriber.
fn broadcast_span(name: &'static str, kind: Kind, topic: &str, event: &str, body: &Body) -> Span {
    let mut span = Span::below(watchfire_traces::current(), name, kind);
    if span.is_recorded() {
        span.set("messaging.destination.name", topic.to_owned());
        span.set("watchfire.event", event.to_owned());
        span.set("messaging.message.body.size", body.len());
    }
    span
}

#[doc(hidden)]
impl ClientSender for Endpoint {
    fn broadcast_here(&self, topic: &str, event: &str, body: Body) {
        self.deliver(&Broadcast::new(topic, event, body, None).counted(&self.flows), None);
    }

    fn push(&self, to: ChannelAddress, event: &str, body: Body) -> Result<(), SendError> {
        if self.owns(to) {
            return self.send_to(to.shard, ShardMessage::Push { to, event: event.into(), body });
        }
        self.link.send(to.node, &Message::Push { to: to.into(), event, body: (&body).into() })
    }

    fn wake(&self, request: ParkedRequest) -> Result<(), SendError> {
        self.send_to(request.shard, ShardMessage::Wake(request))
    }
}

#[doc(hidden)]
impl ClusterPart for Endpoint {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        match postcard::from_bytes(message)? {
            Message::Broadcast { topic, event, body, except } => {
                let except = except.map(Into::into);
                let body = body.into();
                let _deliver = broadcast_span("deliver", Kind::Consumer, topic, event, &body);
                let broadcast = Broadcast::new(topic, event, body, except);
                self.deliver(&broadcast.counted(&self.flows), None);
            }
            Message::Disconnect { id } => self.disconnect_here(id),
            Message::Awaiting { topics } => {
                topics.iter().for_each(|topic| self.flows.note_elsewhere(topic));
            }
            Message::Push { to, event, body } => {
                ClientSender::push(self, to.into(), event, body.into()).ok();
            }
            Message::Reply { to, status, body } => {
                self.reply(to.to_owned(), Reply::with_status(status, body));
            }
            Message::Forward { kind, to, data, ack } => {
                let ack = ack.to_owned();
                let data = Bytes::copy_from_slice(data);
                if self.forward(kind, to.into(), data, ack.clone(), None).is_err() {
                    self.reply(ack, Reply::peer_busy());
                }
            }
        }
        Ok(())
    }

    fn ready(&self) {
        for shard in self.senders() {
            // A shard whose queue is full checks at its next tick.
            shard.send(ShardMessage::Ready).ok();
        }
    }
}
