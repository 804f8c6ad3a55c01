//! One link: the bus has one end of a socket pair, and two tasks carry the bytes of the other end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bus::LocalBus;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use watchfire_types::NodeId;

use super::Publisher;
use crate::nats::link::{Arrival, Incoming, Outgoing, PACKET_BYTES_MAX, WINDOW_BYTES};
use crate::nats::packet::{Ack, Body};

/// A link to one process. It ends when this is dropped: the bus then reports the node as down.
pub(super) struct Tunnel {
    pub link: u64,
    shared: Arc<Shared>,
    to_bus: mpsc::UnboundedSender<Bytes>,
    _tasks: JoinSet<()>,
}

/// The state of a link, which its tasks and the packets change.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is room in the window, or there are packets to send again.
    changed: Notify,
}

#[derive(Default)]
struct State {
    outgoing: Outgoing,
    incoming: Incoming,
    /// Packets that the other side misses.
    again: VecDeque<(u64, Bytes)>,
    /// Bytes that wait for the bus. The other side's window bounds them.
    queued_bytes: usize,
}

impl Tunnel {
    /// Makes a socket pair, and gives one end to the bus.
    pub fn open(
        node: NodeId,
        link: u64,
        bus: &LocalBus,
        publisher: &Publisher,
        ended: &mpsc::UnboundedSender<(NodeId, u64)>,
    ) -> io::Result<Tunnel> {
        let (ours, of_bus) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (read, write) = UnixStream::from_std(ours)?.into_split();
        bus.link(node, of_bus)?;
        let shared = Arc::<Shared>::default();
        let (to_bus, queued) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let carrier = Carrier { node, link, shared: shared.clone(), publisher: publisher.clone() };
        let reader = carrier.clone();
        let ended_here = ended.clone();
        tasks.spawn(async move {
            reader.send_from(read).await;
            ended_here.send((node, link)).ok();
        });
        tasks.spawn(carrier.write_to(write, queued));
        Ok(Tunnel { link, shared, to_bus, _tasks: tasks })
    }

    /// The number of sent packets, if some may be lost, and an acknowledgement if one is due.
    pub fn probe(&self) -> (Option<u64>, Option<Ack>) {
        let mut state = self.shared.state.lock();
        let is_open = state.outgoing.is_unacknowledged();
        (is_open.then(|| state.outgoing.sent()), state.incoming.pending_ack())
    }

    /// Handles a packet; returns the acknowledgement to send.
    pub fn receive(&mut self, body: &Body<'_>) -> Result<Option<Ack>, &'static str> {
        let mut state = self.shared.state.lock();
        match body {
            Body::Data { number, bytes } => match state.incoming.receive(*number) {
                Arrival::Next => {
                    state.queued_bytes += bytes.len();
                    if state.queued_bytes > WINDOW_BYTES + PACKET_BYTES_MAX {
                        return Err("it sends more than its window");
                    }
                    // Fails only when the bus has ended the link, which is then removed.
                    self.to_bus.send(Bytes::copy_from_slice(bytes)).ok();
                    Ok(None)
                }
                Arrival::Early(ack) => Ok(ack),
                Arrival::Repeated => Ok(None),
            },
            Body::Ack(ack) => {
                let again = state.outgoing.acknowledge(*ack);
                let again = again.map_err(|_| "it acknowledges what was not sent")?;
                // A newer list has all that an older one has.
                let again: VecDeque<_> = again.collect();
                if !again.is_empty() {
                    state.again = again;
                }
                drop(state);
                self.shared.changed.notify_one();
                Ok(None)
            }
            Body::Probe { sent } => Ok(Some(state.incoming.probed(*sent))),
            Body::Open | Body::Accept | Body::Close => Ok(None),
        }
    }
}

/// Carries the bytes of one link.
#[derive(Clone)]
struct Carrier {
    node: NodeId,
    link: u64,
    shared: Arc<Shared>,
    publisher: Publisher,
}

impl Carrier {
    /// Sends what the bus writes, until the bus ends the link or NATS does not accept a packet. The next link
    /// then has packets of another size.
    async fn send_from(self, mut bus: OwnedReadHalf) {
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        loop {
            let next = self.shared.state.lock().again.pop_front();
            if let Some((number, bytes)) = next {
                self.publisher.counters.sent_again.fetch_add(1, Ordering::Relaxed);
                if !self.publisher.data(self.node, self.link, number, &bytes).await {
                    return;
                }
                continue;
            }
            let has_room = self.shared.state.lock().outgoing.has_room();
            let bytes_max = self.publisher.data_bytes_max();
            tokio::select! {
                () = self.shared.changed.notified() => {}
                read = bus.read(&mut buffer[..bytes_max]), if has_room => {
                    let bytes = match read {
                        Ok(len) if len > 0 => &buffer[..len],
                        _ => return,
                    };
                    let number = self.shared.state.lock().outgoing.push(Bytes::copy_from_slice(bytes));
                    if !self.publisher.data(self.node, self.link, number, bytes).await {
                        return;
                    }
                }
            }
        }
    }

    /// Writes to the bus what the other side sent.
    async fn write_to(self, mut bus: OwnedWriteHalf, mut queued: mpsc::UnboundedReceiver<Bytes>) {
        while let Some(bytes) = queued.recv().await {
            if bus.write_all(&bytes).await.is_err() {
                // The reading half notices it, too.
                return;
            }
            let ack = {
                let mut state = self.shared.state.lock();
                state.queued_bytes -= bytes.len();
                state.incoming.consume()
            };
            if let Some(ack) = ack {
                self.publisher.control(self.node, self.link, Body::Ack(ack));
            }
        }
    }
}
