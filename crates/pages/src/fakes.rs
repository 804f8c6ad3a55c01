//! Fakes for unit tests: the bus between processes, and the shards with their clients.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use watchfire::feature::SendError;
use watchfire::internal::{ClientSender, Cluster, ParkedRequest, ProcessStarts};
use watchfire::{Body, ChannelAddress};
use watchfire_cluster::bus::{Bus, BusTotals, Loss, Readiness, SendError as NotSent};
use watchfire_types::NodeId;

/// The bus of the process 0 of three, which is subscribed to everything. It keeps what is sent to single
/// processes and what is published, and sends nothing.
#[derive(Default)]
pub(crate) struct FakeBus {
    sent: Mutex<Vec<(NodeId, Bytes)>>,
    published: Mutex<Vec<Bytes>>,
}

impl FakeBus {
    pub fn cluster(self: &Arc<Self>) -> Arc<Cluster> {
        Arc::new(Cluster::among(self.clone(), 0..3, 10, None, ProcessStarts::default()))
    }

    pub fn take_sent(&self) -> Vec<(NodeId, Bytes)> {
        std::mem::take(&mut *self.sent.lock())
    }

    pub fn take_published(&self) -> Vec<Bytes> {
        std::mem::take(&mut *self.published.lock())
    }
}

impl Bus for FakeBus {
    fn me(&self) -> NodeId {
        NodeId(0)
    }

    fn subscribe(&self, _: &str) -> Readiness {
        Readiness::Ready
    }

    fn unsubscribe(&self, _: &str) {}

    fn is_subscribed(&self, _: &str) -> bool {
        true
    }

    fn publish(&self, _: &str, message: Bytes, _: Loss) -> usize {
        self.published.lock().push(message);
        0
    }

    fn send(&self, to: NodeId, message: Bytes, _: Loss) -> Result<(), NotSent> {
        self.sent.lock().push((to, message));
        Ok(())
    }

    fn send_all(&self, _: Bytes, _: Loss) {}

    fn nodes(&self) -> Vec<NodeId> {
        vec![NodeId(1), NodeId(2)]
    }

    fn totals(&self) -> BusTotals {
        BusTotals::default()
    }
}

/// Shards that accept everything, and have no clients.
pub(crate) struct NoClients;

impl ClientSender for NoClients {
    fn broadcast_here(&self, _: &str, _: &str, _: Body) {}

    fn push(&self, _: ChannelAddress, _: &str, _: Body) -> Result<(), SendError> {
        Ok(())
    }

    fn wake(&self, _: ParkedRequest) -> Result<(), SendError> {
        Ok(())
    }
}
