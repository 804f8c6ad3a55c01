//! Messages between a worker and its supervisor after the start.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::Interest;
use tracing::warn;
use watchfire_types::NodeId;

use crate::workers::join::Link;
use crate::workers::message_socket::MessageSocket;
use crate::workers::packet::{self, Packet, Wait};
use crate::workers::protocol::{SupervisorMessage, WorkerReport};

#[derive(Debug)]
pub enum Order {
    /// A new link, which replaces an existing one to the same node.
    Link(Link),
    /// All other workers that do not respond now. Send them no clients; they are killed and
    /// restarted unless they respond again.
    Unresponsive(Vec<NodeId>),
    /// Finish open work, then exit. Also sent when the supervisor has ended. It is the last order.
    Drain,
}

/// A worker's connection to its supervisor. Clones share it.
#[derive(Clone, Debug)]
pub struct Control {
    connection: Arc<Connection>,
}

#[derive(Debug)]
struct Connection {
    socket: MessageSocket,
    /// The number of the newest link to each node.
    numbers: Mutex<BTreeMap<u16, u64>>,
    is_draining: AtomicBool,
}

/// A received message, with owned data.
enum Received {
    Link { to: u16, number: u64, packet: Packet },
    Unresponsive(Vec<NodeId>),
    Drain,
    Malformed(String),
}

impl Control {
    pub(crate) fn new(socket: OwnedFd, numbers: BTreeMap<u16, u64>) -> Control {
        let connection = Connection {
            socket: MessageSocket::new(socket),
            numbers: Mutex::new(numbers),
            is_draining: AtomicBool::new(false),
        };
        Control { connection: Arc::new(connection) }
    }

    /// Reports that this worker serves its listeners.
    pub fn ready(&self) -> io::Result<()> {
        self.report(&WorkerReport::Ready)
    }

    /// Reports that this worker still serves. Call it every
    /// [`WorkerSetup::heartbeat_period`](crate::workers::WorkerSetup::heartbeat_period) once the worker is
    /// ready, and only while its event loops run: a worker without heartbeats is killed.
    pub fn heartbeat(&self) -> io::Result<()> {
        match self.report(&WorkerReport::Heartbeat) {
            // The supervisor is stopped, and has many heartbeats to read.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            outcome => outcome,
        }
    }

    /// Reports that the link to this node broke while its process seems to be running. If it is, a
    /// new link arrives as [`Order::Link`], with a delay if this happens often.
    ///
    /// Not needed when a worker ends: the supervisor notices that itself.
    pub fn link_lost(&self, node: NodeId) -> io::Result<()> {
        let numbers = self.connection.numbers.lock();
        let Some(&number) = numbers.get(&node.0) else { return Ok(()) };
        drop(numbers);
        self.report(&WorkerReport::LinkLost { to: node.0, number })
    }

    /// The next order. After [`Order::Drain`], this waits forever.
    ///
    /// Call it from one task, on one runtime. It is cancel-safe.
    pub async fn next_order(&self) -> Order {
        while !self.connection.is_draining.load(Ordering::Relaxed) {
            let received = self.connection.socket.when(Interest::READABLE, receive).await;
            match received {
                Ok(Received::Link { to, number, packet }) => {
                    if let Some(link) = self.accept_link(to, number, packet) {
                        return Order::Link(link);
                    }
                }
                Ok(Received::Unresponsive(nodes)) => return Order::Unresponsive(nodes),
                Ok(Received::Drain) => return self.drain(),
                Ok(Received::Malformed(what)) => {
                    warn!(what, "cannot decode a message of the supervisor")
                }
                Err(error) => {
                    warn!(%error, "cannot read from the supervisor");
                    return self.drain();
                }
            }
        }
        std::future::pending().await
    }

    fn accept_link(&self, to: u16, number: u64, packet: Packet) -> Option<Link> {
        let mut numbers = self.connection.numbers.lock();
        numbers.insert(to, number);
        drop(numbers);
        let link = Link::from_descriptors(to, packet.descriptors);
        if link.is_none() {
            // The other end is open and would wait, so request another link.
            warn!(node = to, "no free descriptors for a link");
            let _ = self.link_lost(NodeId(to));
        }
        link
    }

    fn drain(&self) -> Order {
        self.connection.is_draining.store(true, Ordering::Relaxed);
        Order::Drain
    }

    fn report(&self, report: &WorkerReport) -> io::Result<()> {
        let bytes = postcard::to_stdvec(report).expect("a report can be encoded");
        self.connection.socket.with(|socket| packet::send(socket, &[IoSlice::new(&bytes)], &[]))
    }
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<Received> {
    // All messages after the start are short. The longest names all workers, at 2 bytes each.
    let mut buffer = [0; 1024];
    let packet = packet::recv(socket, &mut [IoSliceMut::new(&mut buffer)], Wait::No)?;
    if packet.is_end() {
        return Ok(Received::Drain);
    }
    Ok(match postcard::from_bytes(&buffer[..packet.len]) {
        Ok(SupervisorMessage::Link { to, number }) => Received::Link { to, number, packet },
        Ok(SupervisorMessage::Unresponsive(slots)) => {
            Received::Unresponsive(slots.into_iter().map(NodeId).collect())
        }
        Ok(SupervisorMessage::Drain) => Received::Drain,
        Ok(message) => Received::Malformed(format!("{message:?} after the start")),
        Err(error) => Received::Malformed(error.to_string()),
    })
}

#[cfg(test)]
mod tests;
