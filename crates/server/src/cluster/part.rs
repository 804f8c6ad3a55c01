//! Parts of the server that exist in every process and exchange messages with themselves.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use watchfire_cluster::bus::Loss;
use watchfire_types::NodeId;

use super::message;
use super::part_name::PartName;
use super::processes::Cluster;
use super::requests::Unanswered;

/// Sends messages of one part to the same part in other processes.
#[derive(Clone)]
pub struct PartLink {
    cluster: Arc<Cluster>,
    name: PartName,
}

impl PartLink {
    /// The link of the part with this name. A process has at most one part of each name.
    #[doc(hidden)]
    pub fn new(cluster: &Arc<Cluster>, name: PartName) -> Self {
        PartLink { cluster: cluster.clone(), name }
    }

    /// The name of this part in messages.
    pub(super) fn name(&self) -> PartName {
        self.name
    }

    /// The processes of this server.
    #[doc(hidden)]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Sends a message to the processes that subscribe to a topic. A full queue drops it.
    pub fn publish<M: Serialize>(&self, topic: &str, message: impl FnOnce() -> M) {
        self.publish_with(topic, message, Loss::Drop);
    }

    /// Sends a change of state to the processes that subscribe to a topic. Those processes would
    /// stay wrong without it, so a full queue cuts the link, and both sides start over.
    pub fn publish_state<M: Serialize>(&self, topic: &str, message: impl FnOnce() -> M) {
        self.publish_with(topic, message, Loss::Cut);
    }

    fn publish_with<M: Serialize>(&self, topic: &str, message: impl FnOnce() -> M, loss: Loss) {
        if let Some(bus) = self.cluster.bus() {
            bus.publish(topic, message::encode(self.name, &message()), loss);
        }
    }

    /// Sends a message to one process. A full queue drops it.
    pub fn send(&self, to: NodeId, message: &impl Serialize) -> Result<(), SendError> {
        let bus = self.cluster.bus().ok_or(SendError)?;
        let bytes = message::encode(self.name, message);
        bus.send(to, bytes, Loss::Drop).map_err(|_| SendError)
    }

    /// Sends state to one process. A full queue cuts the link, as in [`PartLink::publish_state`].
    pub fn send_state(&self, to: NodeId, message: &impl Serialize) {
        if let Some(bus) = self.cluster.bus() {
            bus.send(to, message::encode(self.name, message), Loss::Cut).ok();
        }
    }

    /// Sends state to every other process. A full queue cuts the link, as in
    /// [`PartLink::publish_state`].
    pub fn send_state_all(&self, message: &impl Serialize) {
        if let Some(bus) = self.cluster.bus() {
            bus.send_all(message::encode(self.name, message), Loss::Cut);
        }
    }

    /// Sends a message to every other process. A full queue drops it.
    pub fn send_all<M: Serialize>(&self, message: impl FnOnce() -> M) {
        if let Some(bus) = self.cluster.bus() {
            bus.send_all(message::encode(self.name, &message()), Loss::Drop);
        }
    }

    /// Sends a request to this part in another process and waits for the response. `None`: the
    /// process is gone, does not have the part, does not answer in time, or too many requests wait
    /// already.
    pub async fn request<R: DeserializeOwned>(
        &self,
        to: NodeId,
        request: &impl Serialize,
    ) -> Option<R> {
        self.request_if_there(to, request).await.ok()
    }

    /// The same, for a caller to which it matters that the other process does not have the part.
    pub async fn request_if_there<R: DeserializeOwned>(
        &self,
        to: NodeId,
        request: &impl Serialize,
    ) -> Result<R, Unanswered> {
        let mut answers = self.request_each([to], request).await;
        answers.pop().expect("one process was asked").1
    }

    /// Sends a request to several processes at the same time, and waits for all responses. A process that
    /// does not answer delays the result by one timeout, however many others do not either.
    pub async fn request_each<R: DeserializeOwned>(
        &self,
        to: impl IntoIterator<Item = NodeId>,
        request: &impl Serialize,
    ) -> Vec<(NodeId, Result<R, Unanswered>)> {
        let request = message::encode_body(request);
        let send = |node| (node, self.cluster.request(node, self.name, &request));
        let sent: Vec<_> = to.into_iter().map(send).collect();
        let mut answers = Vec::new();
        for (node, sent) in sent {
            let response = match sent {
                Some(sent) => sent.response().await,
                None => Err(Unanswered::NoAnswer),
            };
            answers.push((node, response.and_then(|bytes| decode(node, &bytes))));
        }
        answers
    }
}

fn decode<R: DeserializeOwned>(from: NodeId, response: &[u8]) -> Result<R, Unanswered> {
    postcard::from_bytes(response).map_err(|error| {
        // A bug, because messages of another format do not arrive.
        tracing::error!(%from, %error, "cannot decode a response of another process");
        Unanswered::NoAnswer
    })
}

/// A part's handler for messages and events of the other processes.
///
/// All calls come from the thread of the bus, in the order in which the other process sent them.
pub trait ClusterPart: Send + Sync {
    /// The link that this part sends with.
    fn link(&self) -> &PartLink;

    /// Handles a message of the same part in another process.
    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error>;

    /// Another process subscribed to a topic: sends it this process's state of the topic.
    fn introduce_to(&self, _node: NodeId, _topic: &str) {}

    /// Another process no longer subscribes to a topic. If it subscribes again immediately, it may receive
    /// a change that was sent for its earlier subscription, and no later change that undoes it. A part
    /// for which that matters tells the process that its state of the topic is outdated.
    fn unsubscribed(&self, _node: NodeId, _topic: &str) {}

    /// This process no longer subscribes to a topic: drops the other processes' state of it.
    fn forget(&self, _topic: &str) {}

    /// Called when another process is new: sends it this process's state that belongs to no topic.
    fn node_up(&self, _node: NodeId) {}

    /// Called when another process is gone, with all its clients.
    fn node_down(&self, _node: NodeId) {}

    /// Called when subscriptions became ready: see [`Cluster::ready_up_to`].
    fn ready(&self) {}

    /// Handles a request. The response may be sent later.
    fn take_request(&self, _request: &[u8], _response: PendingResponse) {}
}

/// The response to a request of another process, which is sent later. When it is dropped, the other
/// process waits until its timeout.
pub struct PendingResponse {
    pub(super) cluster: Arc<Cluster>,
    pub(super) to: NodeId,
    pub(super) number: u64,
}

impl PendingResponse {
    /// Sends the response. A full queue drops it.
    pub fn send(self, response: &(impl Serialize + ?Sized)) {
        let body = message::encode_body(response);
        self.cluster.respond(self.to, self.number, &body);
    }
}

/// The message was not sent: a queue was full, or its reader does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError;
