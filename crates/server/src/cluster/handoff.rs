//! Hands connections to other processes, and receives theirs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchfire_cluster::workers::HandoffSocket;
use watchfire_sockets::{Adopter, ClientAddress, HandoffConnection, HandoffTarget};
use watchfire_types::NodeId;

use super::load::ProcessLoad;

/// A process accepts connections from a nearly full one while it has room for this many more.
const ROOM_MIN: u64 = 8;

/// Links through which connections go to other processes.
#[derive(Default)]
pub(super) struct HandoffTargets(Mutex<BTreeMap<NodeId, Arc<HandoffSocket>>>);

/// Data that is sent along with a connection's descriptor.
#[derive(Serialize, Deserialize)]
struct Label<'a> {
    hops: u8,
    declined: u64,
    #[serde(with = "ClientAddressForm")]
    client: ClientAddress,
    bytes: &'a [u8],
}

/// The form of a [`ClientAddress`] in a label.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ClientAddress")]
enum ClientAddressForm {
    OfSocket,
    InProxyHeader,
    FromProxyHeader(SocketAddr),
    OfPair(SocketAddr),
}

impl HandoffTargets {
    pub fn insert(&self, to: NodeId, link: Arc<HandoffSocket>) {
        self.0.lock().insert(to, link);
    }

    pub fn contains(&self, to: NodeId) -> bool {
        self.0.lock().contains_key(&to)
    }

    pub fn remove(&self, to: NodeId, link: &Arc<HandoffSocket>) {
        self.0.lock().retain(|node, other| *node != to || !Arc::ptr_eq(other, link));
    }

    /// Sends a connection from the process `me` to its owner, or to the emptiest process with room.
    /// Returns it when no process takes it. `slot` gives a process's number on this machine.
    pub fn send<L: Iterator<Item = (NodeId, ProcessLoad)>>(
        &self,
        slot: impl Fn(NodeId) -> u16,
        me: NodeId,
        to: HandoffTarget,
        mut connection: HandoffConnection,
        others: impl Fn() -> L,
        connections_max: u64,
    ) -> Result<(), HandoffConnection> {
        let room = match to {
            HandoffTarget::Owner(node) => return self.send_to(node, connection),
            // Not the last load report: the shard knows better that this process is nearly full.
            HandoffTarget::LessLoaded => connections_max / 16 + ROOM_MIN,
            HandoffTarget::AnyWithRoom => 1,
        };
        let bit = |node| 1_u64 << slot(node);
        connection.declined |= bit(me);
        let declined = connection.declined;
        let candidates = others().filter(|(node, _)| bit(*node) & declined == 0);
        let mut candidates: Vec<_> =
            candidates.map(|(node, load)| (load.connections, node)).collect();
        candidates.retain(|(connections, _)| connections + room <= connections_max);
        candidates.sort_unstable();
        for (_, node) in candidates {
            match self.send_to(node, connection) {
                Ok(()) => return Ok(()),
                Err(back) => connection = back,
            }
        }
        Err(connection)
    }

    fn send_to(
        &self,
        node: NodeId,
        connection: HandoffConnection,
    ) -> Result<(), HandoffConnection> {
        let link = self.0.lock().get(&node).cloned();
        let Some(link) = link else { return Err(connection) };
        let HandoffConnection { hops, declined, client, ref bytes, ref fd } = connection;
        let label = Label { hops, declined, client, bytes };
        let label = postcard::to_stdvec(&label).expect("a label is plain data");
        link.send(fd.as_fd(), &label).map_err(|_| connection)
    }
}

/// Accepts the connections that another process sends through a link, until that process is gone.
pub(crate) async fn receive_connections(link: Arc<HandoffSocket>, adopter: Adopter) {
    while let Ok(Some((fd, label))) = link.recv().await {
        // A label that cannot be decoded closes its connection; the client connects again.
        if let Ok(Label { hops, declined, client, bytes }) = postcard::from_bytes(&label) {
            let bytes = bytes.to_vec();
            adopter.adopt(HandoffConnection { fd, bytes, client, hops, declined }).ok();
        }
    }
}
