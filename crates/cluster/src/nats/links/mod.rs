//! The links of one process to the processes of other machines.

mod peers;
mod tunnel;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::LinkTotals;
use crate::bus::LocalBus;
use bytes::Bytes;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use watchfire_types::{NodeId, VitalThread};

use self::peers::Peers;
use crate::nats::claim::announced_format;
use crate::nats::link::PACKET_BYTES_MAX;
use crate::nats::packet::{OVERHEAD_BYTES, Packet};
use crate::nats::refusals::Refusals;
use crate::nats::settings::{NatsError, NatsSettings};

/// How often links are opened and probed.
const TICK: Duration = Duration::from_millis(250);
/// Ticks between two heartbeats.
const TICKS_PER_HEARTBEAT: u32 = 4;
/// Within these ticks after its start, a process has heard a heartbeat of every other one.
const TICKS_TO_HEAR_ALL: u32 = TICKS_PER_HEARTBEAT + 2;
/// After these ticks, a process no longer waits for links that do not open: six seconds, after which a silent
/// process counts as gone.
const TICKS_TO_LINK: u32 = 6 * TICKS_PER_HEARTBEAT;
/// Packets without data that wait for the connection. A further one is dropped: all are repeated.
const CONTROL_QUEUE: usize = 4_096;
/// How long a process that stops waits until the others know it.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Process {
    pub me: NodeId,
    /// The nodes of its machine, which have links of their own.
    pub of_machine: Range<u16>,
    pub cluster: u64,
    /// The format of the messages that the links carry, as for [`crate::nats::Machine::join`].
    pub format: u64,
}

/// A message to all processes of the cluster, once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Heartbeat {
    node: u16,
    /// New at each start of the process, and larger than those before.
    incarnation: u64,
    cluster: u64,
    format: u32,
    is_leaving: bool,
}

/// The counters as the tasks of a process share them.
#[derive(Debug, Default)]
struct Counters {
    is_connected: AtomicBool,
    links: AtomicU64,
    ended: AtomicU64,
    sent: AtomicU64,
    sent_again: AtomicU64,
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
    refusals: Arc<Refusals>,
}

/// Links of one process to the processes of other machines. They end when this is dropped.
pub struct Links {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
    settled: watch::Receiver<bool>,
}

impl Links {
    /// Connects to NATS, and starts a thread that links this process to all others. The bus must
    /// have its handler already.
    pub async fn start(
        settings: NatsSettings,
        process: Process,
        bus: Arc<LocalBus>,
    ) -> Result<Links, NatsError> {
        let (started, is_started) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let counters = Arc::<Counters>::default();
        let counted = counters.clone();
        let (settling, settled) = watch::channel(false);
        let run = move || -> io::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                match Connection::open(&settings, process, &counted.refusals).await {
                    Ok(connection) => {
                        started.send(Ok(())).ok();
                        connection.run(bus, counted, settling, stopped).await;
                    }
                    Err(error) => {
                        started.send(Err(error)).ok();
                    }
                }
            });
            Ok(())
        };
        let thread = thread::Builder::new().name("nats".into()).spawn(move || {
            let _vital = VitalThread::enter("nats");
            if let Err(error) = run() {
                tracing::error!(%error, "cannot run the links to other machines");
            }
        });
        let thread = thread.map_err(NatsError::Thread)?;
        match is_started.await {
            Ok(Ok(())) => Ok(Links { stop: Some(stop), thread: Some(thread), counters, settled }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(NatsError::Thread(io::Error::other("the thread ended"))),
        }
    }

    /// Returns when the links to all processes that were there at the start are up: after a second
    /// and a half, and after six at the latest, with a warning. Before that, messages of this process do
    /// not reach the others.
    pub async fn settled(&self) {
        // An error means that the thread has ended, so no more links come up.
        self.settled.clone().wait_for(|is_settled| *is_settled).await.ok();
    }

    pub fn totals(&self) -> LinkTotals {
        let Counters { is_connected, links, ended, sent, sent_again, .. } = &*self.counters;
        let Counters { bytes_out, bytes_in, refusals, .. } = &*self.counters;
        LinkTotals {
            is_connected: is_connected.load(Ordering::Relaxed),
            is_settled: *self.settled.borrow(),
            links: links.load(Ordering::Relaxed),
            ended: ended.load(Ordering::Relaxed),
            sent: sent.load(Ordering::Relaxed),
            sent_again: sent_again.load(Ordering::Relaxed),
            bytes_out: bytes_out.load(Ordering::Relaxed),
            bytes_in: bytes_in.load(Ordering::Relaxed),
            refused: refusals.count(),
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Connection {
    client: async_nats::Client,
    prefix: String,
    process: Process,
    incarnation: u64,
    heartbeats: async_nats::Subscriber,
    packets: async_nats::Subscriber,
}

impl Connection {
    async fn open(
        settings: &NatsSettings,
        process: Process,
        refusals: &Arc<Refusals>,
    ) -> Result<Self, NatsError> {
        let name = format!("watchfire {}", process.me);
        let client = settings.connect(&name, refusals).await?;
        let prefix = settings.prefix.clone();
        let heartbeats = client.subscribe(format!("{prefix}.nodes")).await?;
        let packets = client.subscribe(subject(&prefix, process.me)).await?;
        let incarnation = crate::nats::new_incarnation()?;
        Ok(Connection { client, prefix, process, incarnation, heartbeats, packets })
    }

    async fn run(
        mut self,
        bus: Arc<LocalBus>,
        counters: Arc<Counters>,
        settling: watch::Sender<bool>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let (control, queued) = mpsc::channel(CONTROL_QUEUE);
        let refusals = counters.refusals.clone();
        let sending = tokio::spawn(send_control(self.client.clone(), queued, refusals));
        let (ended, mut ends) = mpsc::unbounded_channel();
        let publisher = Publisher {
            client: self.client.clone(),
            control,
            prefix: self.prefix.clone().into(),
            me: self.process.me,
            incarnation: self.incarnation,
            counters: counters.clone(),
        };
        let mut peers = Peers::new(publisher, bus, ended);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tick: u32 = 0;
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                _ = ticks.tick() => {
                    self.tick(tick, &mut peers);
                    tick += 1;
                    if !*settling.borrow() && is_settled(tick, &peers) {
                        settling.send_replace(true);
                    }
                }
                Some((node, link)) = ends.recv() => peers.end(node, link),
                Some(message) = self.heartbeats.next() => self.note(&mut peers, &message.payload),
                Some(message) = self.packets.next() => {
                    // Other programs may use the subject, too.
                    if let Some(packet) = Packet::decode(&message.payload) {
                        peers.receive(&packet);
                    }
                }
            }
            counters.links.store(peers.links(), Ordering::Relaxed);
        }
        drop(peers);
        sending.abort();
        let leave = async {
            let bytes = encode(&self.heartbeat(true));
            self.client.publish(format!("{}.nodes", self.prefix), bytes).await.ok();
            self.client.flush().await.ok();
        };
        timeout(LEAVE_TIMEOUT, leave).await.ok();
    }

    /// Does what is due a few times a second.
    fn tick(&self, tick: u32, peers: &mut Peers) {
        let state = self.client.connection_state();
        let is_connected = state == async_nats::connection::State::Connected;
        let counter = &peers.publisher.counters.is_connected;
        let has_changed = counter.swap(is_connected, Ordering::Relaxed) != is_connected;
        if has_changed {
            peers.note_connection(is_connected);
        }
        let is_new_here = has_changed && is_connected;
        // A process that has just appeared hears of this one immediately, too.
        let has_newcomers = std::mem::take(&mut peers.has_newcomers);
        if tick.is_multiple_of(TICKS_PER_HEARTBEAT) || is_new_here || has_newcomers {
            peers.probe();
            peers.publisher.heartbeat(&self.heartbeat(false));
        }
        peers.open_links();
        peers.drop_silent();
    }

    fn heartbeat(&self, is_leaving: bool) -> Heartbeat {
        Heartbeat {
            node: self.process.me.0,
            incarnation: self.incarnation,
            cluster: self.process.cluster,
            format: announced_format(self.process.format),
            is_leaving,
        }
    }

    fn note(&self, peers: &mut Peers, payload: &[u8]) {
        let Ok(heartbeat) = postcard::from_bytes::<Heartbeat>(payload) else { return };
        let Heartbeat { node, incarnation, cluster, format, is_leaving } = heartbeat;
        let is_linked = cluster == self.process.cluster
            && format == announced_format(self.process.format)
            && node < crate::bus::NODES_MAX
            && !self.process.of_machine.contains(&node);
        match (is_linked, is_leaving) {
            (true, false) => peers.heard(NodeId(node), incarnation),
            (true, true) => peers.left(NodeId(node), incarnation),
            (false, _) => {}
        }
    }
}

/// Whether a process need not wait longer for its first links.
fn is_settled(tick: u32, peers: &Peers) -> bool {
    if tick < TICKS_TO_HEAR_ALL {
        return false;
    }
    let unlinked: Vec<NodeId> = peers.unlinked().collect();
    if tick >= TICKS_TO_LINK && !unlinked.is_empty() {
        tracing::warn!(
            ?unlinked,
            "starting without links to processes of other machines; their clients do not hear those of this one"
        );
    }
    unlinked.is_empty() || tick >= TICKS_TO_LINK
}

/// Sends the messages of a process.
#[derive(Clone)]
struct Publisher {
    client: async_nats::Client,
    control: mpsc::Sender<(String, Bytes)>,
    prefix: Arc<str>,
    me: NodeId,
    incarnation: u64,
    counters: Arc<Counters>,
}

impl Publisher {
    /// Sends a packet without data. It is dropped when too many wait, for instance because there is
    /// no connection.
    fn control(&self, to: NodeId, link: u64, body: crate::nats::packet::Body<'_>) {
        self.control.try_send((subject(&self.prefix, to), self.encode(link, body))).ok();
    }

    /// The most bytes of data in a packet that the NATS server accepts.
    fn data_bytes_max(&self) -> usize {
        // Not zero, which would be the end of the stream, whatever the server claims.
        self.client.max_payload().saturating_sub(OVERHEAD_BYTES).clamp(1, PACKET_BYTES_MAX)
    }

    /// Sends a packet with data, and waits until the connection takes it. Returns whether it does: another NATS
    /// server may have a smaller `max_payload` than the one for which the packet was made.
    async fn data(&self, to: NodeId, link: u64, number: u64, bytes: &[u8]) -> bool {
        let body = crate::nats::packet::Body::Data { number, bytes };
        self.counters.sent.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes_out.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let sent = self.client.publish(subject(&self.prefix, to), self.encode(link, body)).await;
        sent.inspect_err(|error| self.counters.refusals.note(error)).is_ok()
    }

    fn heartbeat(&self, heartbeat: &Heartbeat) {
        self.control.try_send((format!("{}.nodes", self.prefix), encode(heartbeat))).ok();
    }

    fn encode(&self, link: u64, body: crate::nats::packet::Body<'_>) -> Bytes {
        Packet { from: self.me.0, incarnation: self.incarnation, link, body }.encode()
    }
}

async fn send_control(
    client: async_nats::Client,
    mut queued: mpsc::Receiver<(String, Bytes)>,
    refusals: Arc<Refusals>,
) {
    while let Some((subject, bytes)) = queued.recv().await {
        client.publish(subject, bytes).await.unwrap_or_else(|error| refusals.note(error));
    }
}

fn subject(prefix: &str, to: NodeId) -> String {
    format!("{prefix}.node.{}", to.0)
}

fn encode(heartbeat: &Heartbeat) -> Bytes {
    postcard::to_stdvec(heartbeat).expect("messages are plain data").into()
}

#[cfg(test)]
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let heartbeat = Heartbeat { node: 1, incarnation: 2, cluster: 3, format: 4, is_leaving: true };
    vec![encode(&heartbeat).to_vec()]
}
