//! What a worker and its supervisor say to each other after the start.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::Interest;
use tracing::warn;
use vocab::NodeId;

use crate::enlist::Link;
use crate::messages::Messages;
use crate::packet::{self, Packet, Wait};
use crate::words::{Report, Word};

/// What a worker is to do.
#[derive(Debug)]
pub enum Order {
    /// A new link; it takes the place of the one to the same node.
    Link(Link),
    /// Finish what is open, then end. Also when the supervisor is gone. The last order.
    Drain,
}

/// A worker's line to its supervisor. Its clones are the same line.
#[derive(Clone, Debug)]
pub struct Control {
    line: Arc<Line>,
}

#[derive(Debug)]
struct Line {
    socket: Messages,
    /// The number of the newest link to each node.
    numbers: Mutex<BTreeMap<u16, u64>>,
    is_draining: AtomicBool,
}

/// A message without what it borrows.
enum Heard {
    Link { to: u16, number: u64, packet: Packet },
    Drain,
    Nonsense(String),
}

impl Control {
    pub(crate) fn new(socket: OwnedFd, numbers: BTreeMap<u16, u64>) -> Control {
        let line = Line {
            socket: Messages::new(socket),
            numbers: Mutex::new(numbers),
            is_draining: AtomicBool::new(false),
        };
        Control { line: Arc::new(line) }
    }

    /// This worker serves its listeners.
    pub fn ready(&self) -> io::Result<()> {
        self.report(&Report::Ready)
    }

    /// The link to this node broke while its process seems to live. A new one comes as an
    /// [`Order::Link`] if it does; not at once when it happens often.
    ///
    /// Not needed when a worker ends: the supervisor sees that itself.
    pub fn link_lost(&self, node: NodeId) -> io::Result<()> {
        let numbers = self.line.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&number) = numbers.get(&node.0) else { return Ok(()) };
        drop(numbers);
        self.report(&Report::LinkLost { to: node.0, number })
    }

    /// The next order. After [`Order::Drain`] there is none, and this waits for ever.
    ///
    /// Belongs to one task, on one runtime. Loses nothing when it is cancelled.
    pub async fn next_order(&self) -> Order {
        while !self.line.is_draining.load(Ordering::Relaxed) {
            let heard = self.line.socket.when(Interest::READABLE, hear).await;
            match heard {
                Ok(Heard::Link { to, number, packet }) => {
                    if let Some(link) = self.linked(to, number, packet) {
                        return Order::Link(link);
                    }
                }
                Ok(Heard::Drain) => return self.drain(),
                Ok(Heard::Nonsense(what)) => warn!(what, "the supervisor is not understood"),
                Err(error) => {
                    warn!(%error, "the supervisor cannot be heard");
                    return self.drain();
                }
            }
        }
        std::future::pending().await
    }

    fn linked(&self, to: u16, number: u64, packet: Packet) -> Option<Link> {
        let mut numbers = self.line.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.insert(to, number);
        drop(numbers);
        let link = Link::from_descriptors(to, packet.descriptors);
        if link.is_none() {
            // Its other end is open, and its owner would wait at it: ask for another.
            warn!(node = to, "no descriptors left for a link");
            let _ = self.link_lost(NodeId(to));
        }
        link
    }

    fn drain(&self) -> Order {
        self.line.is_draining.store(true, Ordering::Relaxed);
        Order::Drain
    }

    fn report(&self, report: &Report) -> io::Result<()> {
        let bytes = postcard::to_stdvec(report).expect("a report is plain data");
        self.line.socket.with(|socket| packet::send(socket, &[IoSlice::new(&bytes)], &[]))
    }
}

fn hear(socket: BorrowedFd<'_>) -> io::Result<Heard> {
    // Nothing long comes after the start.
    let mut buffer = [0; 64];
    let packet = packet::recv(socket, &mut [IoSliceMut::new(&mut buffer)], Wait::No)?;
    if packet.is_end() {
        return Ok(Heard::Drain);
    }
    Ok(match postcard::from_bytes(&buffer[..packet.len]) {
        Ok(Word::Link { to, number }) => Heard::Link { to, number, packet },
        Ok(Word::Drain) => Heard::Drain,
        Ok(word) => Heard::Nonsense(format!("{word:?} after the start")),
        Err(error) => Heard::Nonsense(error.to_string()),
    })
}

#[cfg(test)]
mod tests;
