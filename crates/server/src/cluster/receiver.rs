//! Hands each message of the other processes to the part that it belongs to.

use std::sync::Arc;

use tokio::sync::mpsc;
use watchfire_cluster::bus::Handler;
use watchfire_types::NodeId;

use super::message::{self, Message};
use super::part::{ClusterPart, PendingResponse};
use super::part_name::{PartId, PartName, UnknownParts};
use super::processes::Cluster;
use super::requests::Unanswered;

/// Receives from the other processes, on the thread of the bus.
pub struct Receiver {
    pub cluster: Arc<Cluster>,
    pub parts: Vec<Arc<dyn ClusterPart>>,
    /// Processes whose link is gone, for the task that requests new links.
    pub lost: mpsc::UnboundedSender<NodeId>,
    unknown: UnknownParts,
}

impl Receiver {
    pub fn new(
        cluster: Arc<Cluster>,
        parts: Vec<Arc<dyn ClusterPart>>,
        lost: mpsc::UnboundedSender<NodeId>,
    ) -> Self {
        for (at, part) in parts.iter().enumerate() {
            let (name, before) = (part.link().name(), &parts[..at]);
            let is_new = before.iter().all(|other| other.link().name().id() != name.id());
            assert!(
                is_new,
                "two parts have the name {:?}, or names with the same hash",
                name.name()
            );
        }
        Receiver { cluster, parts, lost, unknown: UnknownParts::default() }
    }
}

impl Handler for Receiver {
    fn up(&self, node: NodeId) {
        self.cluster.node_up(node);
        self.parts.iter().for_each(|part| part.node_up(node));
    }

    fn down(&self, node: NodeId) {
        tracing::info!(%node, "another process is gone");
        self.cluster.node_down(node);
        self.parts.iter().for_each(|part| part.node_down(node));
        self.lost.send(node).ok();
    }

    fn interested(&self, node: NodeId, topic: &str) {
        self.parts.iter().for_each(|part| part.introduce_to(node, topic));
    }

    fn uninterested(&self, node: NodeId, topic: &str) {
        self.parts.iter().for_each(|part| part.unsubscribed(node, topic));
    }

    fn forgotten(&self, topic: &str) {
        self.parts.iter().for_each(|part| part.forget(topic));
    }

    fn message(&self, from: NodeId, message: &[u8]) {
        let Some((span, id, body)) = message::split(message) else { return };
        let _entered = watchfire_traces::enter_remote(span);
        let received = match self.part(id) {
            Some(part) => part.receive(from, body),
            None if id == PartName::CLUSTER.id() => self.receive(from, body),
            None => {
                self.unknown.note(from, id);
                Ok(())
            }
        };
        if let Err(error) = received {
            // A bug, because messages of another format do not arrive. Not a reason to stop.
            tracing::error!(%from, %error, "cannot decode a message of another process");
        }
    }

    fn ready(&self, up_to: u64) {
        self.cluster.note_ready(up_to);
        self.parts.iter().for_each(|part| part.ready());
    }
}

impl Receiver {
    fn part(&self, id: PartId) -> Option<&Arc<dyn ClusterPart>> {
        self.parts.iter().find(|part| part.link().name().id() == id)
    }

    fn receive(&self, from: NodeId, body: &[u8]) -> Result<(), postcard::Error> {
        match postcard::from_bytes(body)? {
            Message::Load(loads) => self.cluster.note_loads(&loads),
            Message::Request { number, part, body } => match self.part(part) {
                Some(part) => {
                    let cluster = self.cluster.clone();
                    part.take_request(body, PendingResponse { cluster, to: from, number });
                }
                None => {
                    self.unknown.note(from, part);
                    self.cluster.respond_no_part(from, number);
                }
            },
            Message::Response { number, body } => self.cluster.resolve(number, Ok(body)),
            Message::NoPart { number } => self.cluster.resolve(number, Err(Unanswered::NoPart)),
        }
        Ok(())
    }
}
