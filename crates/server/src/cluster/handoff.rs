//! Hands connections to other processes of the machine, and receives theirs.
//!
//! # The faults without it
//!
//! The kernel gives a connection to a process before anyone has read a byte of it. That can be the wrong
//! one in three ways:
//!
//! - A long poll belongs to the process that has its session. On three processes, two of three polls
//!   would arrive elsewhere, and the client would lose its session. The same holds for a request that
//!   one process must decide ([`HandoffTarget::Owner`]).
//! - A process is nearly full, and another one is not ([`HandoffTarget::LessLoaded`]).
//! - A process is full. It would refuse a client although the server has room
//!   ([`HandoffTarget::AnyWithRoom`]).
//!
//! So the connection itself moves: its descriptor, and the bytes that were read already, in one message
//! over a socket between the two processes (`watchfire_cluster::workers::HandoffSocket`). The client
//! notices nothing: no response has been sent yet. Nothing moves after a WebSocket has been accepted.
//!
//! # The receiver
//!
//! The emptiest process with enough room gets it, by the last reported loads. These are old by up to half a
//! second, so the receiver may have become full meanwhile, and then hands the connection on. Two full
//! processes that each think the other has room would send it back and forth. So the message has a bit
//! for each process that has had the connection, and none gets it twice. To a process that is only
//! nearly full, the other one must have room for a sixteenth of the limit and [`ROOM_MIN`] more: with
//! 10,000 connections at most, for 633.
//!
//! # Bounds
//!
//! - The queue is the buffer of the kernel's socket, about 200 connections. When it is full, the next
//!   process with room is tried, and at last the connection stays where it is: served if there is room,
//!   else answered with 503.
//! - A full server offers a connection at most 16 times, and one request moves its connection at most 4
//!   times. All that was read goes with it: a head that was not whole, and at most 64 KiB after it.
//! - If the other process ends, the kernel closes what is in the queue, and those clients connect again.

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
pub async fn receive_connections(link: Arc<HandoffSocket>, adopter: Adopter) {
    while let Ok(Some((fd, label))) = link.recv().await {
        // A label that cannot be decoded closes its connection; the client connects again.
        if let Ok(Label { hops, declined, client, bytes }) = postcard::from_bytes(&label) {
            let bytes = bytes.to_vec();
            adopter.adopt(HandoffConnection { fd, bytes, client, hops, declined }).ok();
        }
    }
}
