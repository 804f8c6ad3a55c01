//! The engine for the processes of one machine.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bytes::Bytes;
use vocab::NodeId;

use crate::{Bus, BusLimits, BusTotals, Handler, Loss, Readiness, Undelivered};

/// A bus between processes of one machine, over one stream socket for each other process.
pub struct LocalBus {
    me: NodeId,
}

impl LocalBus {
    /// Start the bus's thread. Fails for a `me` of [`crate::NODES_MAX`] or more.
    pub fn start(me: NodeId, _limits: BusLimits) -> io::Result<LocalBus> {
        Ok(LocalBus { me })
    }

    /// Name who is called. Once, before the first link.
    ///
    /// The bus keeps the handler until it is stopped; a handler that keeps the bus keeps it weakly.
    pub fn attach(&self, _handler: Arc<dyn Handler>) {
        todo!()
    }

    /// Add the link to a node, or replace it: then the node is down first, and up again.
    pub fn link(&self, _node: NodeId, _stream: UnixStream) -> io::Result<()> {
        todo!()
    }

    /// End all links and the thread. The handler is not called any more, not even of that.
    pub fn stop(&self) {
        todo!()
    }
}

impl Bus for LocalBus {
    fn me(&self) -> NodeId {
        self.me
    }

    fn subscribe(&self, _topic: &str) -> Readiness {
        todo!()
    }

    fn unsubscribe(&self, _topic: &str) {
        todo!()
    }

    fn publish(&self, _topic: &str, _message: Bytes, _loss: Loss) -> usize {
        todo!()
    }

    fn send(&self, _to: NodeId, _message: Bytes, _loss: Loss) -> Result<(), Undelivered> {
        todo!()
    }

    fn send_all(&self, _message: Bytes, _loss: Loss) {
        todo!()
    }

    fn nodes(&self) -> Vec<NodeId> {
        todo!()
    }

    fn totals(&self) -> BusTotals {
        todo!()
    }
}
