//! The processes of this server, as this one sees them.

use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use watchfire_cluster::LinkTotals;
use watchfire_cluster::bus::{Bus, Loss, NODES_MAX, Readiness};
use watchfire_cluster::workers::HandoffSocket;
use watchfire_sockets::{HandoffConnection, HandoffTarget};
use watchfire_types::{FixedHash, NodeId};

use super::balancing::Balancer;
use super::handoff::HandoffTargets;
use super::load::{LoadReports, ProcessLoad};
use super::message::{self, Message};
use super::part_name::PartName;
use super::requests::{PendingRequests, SentRequest, Unanswered};

/// The most processes that one server may have: each is a node of the bus, beside the two that
/// histories need. With 20,000 open files
/// each, they hold 2.3 million sockets.
pub const PROCESSES_MAX: usize = NODES_MAX as usize - 2;
/// How long a process has to answer a request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The processes of this server.
pub struct Cluster {
    me: NodeId,
    /// The nodes of this machine's processes.
    of_machine: Range<u16>,
    /// `None` in a server of one process.
    bus: Option<Arc<dyn Bus>>,
    others: Box<[Other]>,
    ready_up_to: watch::Sender<u64>,
    requests: PendingRequests,
    handoff: HandoffTargets,
    /// `None` in a server of one process, and where the kernel cannot balance.
    balancer: Mutex<Option<Balancer>>,
    reports: Mutex<LoadReports>,
    /// The load of this process at the last tick.
    load: Mutex<ProcessLoad>,
    /// Connections that each process has room for.
    connections_max: u64,
    starts: ProcessStarts,
    /// The links to other machines; empty on a server of one machine.
    links: OnceLock<Weak<dyn FarLinks>>,
    is_draining: AtomicBool,
}

/// A future that a trait returns.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Links to the processes of other machines.
pub(crate) trait FarLinks: Send + Sync {
    /// Their counters.
    fn totals(&self) -> LinkTotals;

    /// Returns when the processes that were there before this one are linked.
    fn settled(&self) -> BoxFuture<'_, ()>;
}

/// How often the supervisor started this process again.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessStarts {
    /// Restarts of processes that ended.
    pub restarts: u64,
    /// Restarts because the process did not respond.
    pub hangs: u64,
}

/// The state of another process.
#[derive(Default)]
struct Other {
    is_up: AtomicBool,
    /// Whether the supervisor gets no heartbeats from it.
    is_unresponsive: AtomicBool,
    load: Mutex<ProcessLoad>,
}

impl Other {
    fn responds(&self) -> bool {
        self.is_up.load(Ordering::Relaxed) && !self.is_unresponsive.load(Ordering::Relaxed)
    }
}

impl Cluster {
    /// A server of one process.
    pub fn alone() -> Self {
        Cluster::of(NodeId(0), 0..1, None, None)
    }

    /// One process among several. `of_machine` are the nodes of this machine's processes.
    pub fn among(
        bus: Arc<dyn Bus>,
        of_machine: Range<u16>,
        connections_max: u64,
        balancer: Option<Balancer>,
        starts: ProcessStarts,
    ) -> Self {
        Cluster {
            connections_max,
            starts,
            ..Cluster::of(bus.me(), of_machine, Some(bus), balancer)
        }
    }

    fn of(
        me: NodeId,
        of_machine: Range<u16>,
        bus: Option<Arc<dyn Bus>>,
        balancer: Option<Balancer>,
    ) -> Self {
        Cluster {
            me,
            of_machine,
            bus,
            others: (0..NODES_MAX).map(|_| Other::default()).collect(),
            ready_up_to: watch::Sender::new(0),
            requests: PendingRequests::default(),
            handoff: HandoffTargets::default(),
            balancer: Mutex::new(balancer),
            reports: Mutex::default(),
            load: Mutex::default(),
            connections_max: u64::MAX,
            starts: ProcessStarts::default(),
            links: OnceLock::new(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// The number of this process.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// Whether this process is the first of its machine, which does what one process has to do.
    pub fn is_first_of_machine(&self) -> bool {
        self.me.0 == self.of_machine.start
    }

    /// The nodes of this machine's processes.
    pub fn of_machine(&self) -> Range<u16> {
        self.of_machine.clone()
    }

    /// Whether a process is on this machine, so that connections can move there.
    fn is_near(&self, node: NodeId) -> bool {
        self.of_machine.contains(&node.0)
    }

    /// Whether this server has one process.
    pub fn is_alone(&self) -> bool {
        self.bus.is_none()
    }

    pub(super) fn bus(&self) -> Option<&Arc<dyn Bus>> {
        self.bus.as_ref()
    }

    /// Adds one subscriber of a topic. If this returns a number, the other processes' state of the
    /// topic is complete here once [`Cluster::ready_up_to`] has reached the number.
    #[must_use]
    pub fn subscribe(&self, topic: &str) -> Option<u64> {
        match self.bus.as_ref()?.subscribe(topic) {
            Readiness::Ready => None,
            Readiness::Waits(number) => Some(number),
        }
    }

    /// Whether this process subscribes to a topic.
    pub fn is_subscribed(&self, topic: &str) -> bool {
        self.bus.as_ref().is_some_and(|bus| bus.is_subscribed(topic))
    }

    /// Removes one subscriber of a topic.
    pub fn unsubscribe(&self, topic: &str) {
        self.bus.as_ref().inspect(|bus| bus.unsubscribe(topic));
    }

    /// Every subscription with a number up to this is ready.
    pub fn ready_up_to(&self) -> u64 {
        *self.ready_up_to.borrow()
    }

    /// Waits until a subscription is ready.
    pub async fn ready(&self, number: Option<u64>) {
        if let Some(number) = number {
            // Cannot fail: this struct owns the sender.
            self.ready_up_to.subscribe().wait_for(|up_to| *up_to >= number).await.ok();
        }
    }

    pub(super) fn note_ready(&self, up_to: u64) {
        self.ready_up_to.send_modify(|known| *known = up_to.max(*known));
    }

    /// Sends a request to a part in another process. `None`: it cannot be sent.
    pub(super) fn request(
        &self,
        to: NodeId,
        part: PartName,
        body: &[u8],
    ) -> Option<SentRequest<'_>> {
        let sent = self.requests.open(to, RESPONSE_TIMEOUT)?;
        let request = Message::Request { number: sent.number, part: part.id(), body };
        let bytes = message::encode(PartName::CLUSTER, &request);
        // A client that one process has just answered may ask another one about it, such as a leave
        // with a token that a join replaced.
        self.bus.as_ref()?.send_in_turn(to, bytes, Loss::Drop).ok().map(|()| sent)
    }

    /// Sends the response to a request.
    pub(super) fn respond(&self, to: NodeId, number: u64, body: &[u8]) {
        if let Some(bus) = &self.bus {
            // Without the current span: the process that asked knows its own.
            let response = message::encode_within(
                None,
                PartName::CLUSTER,
                &Message::Response { number, body },
            );
            bus.send(to, response, Loss::Drop).ok();
        }
    }

    /// Tells a process that this one does not have the part that its request is for.
    pub(super) fn respond_no_part(&self, to: NodeId, number: u64) {
        if let Some(bus) = &self.bus {
            let message = Message::NoPart { number };
            let response = message::encode_within(None, PartName::CLUSTER, &message);
            bus.send(to, response, Loss::Drop).ok();
        }
    }

    /// Delivers a response to the request that waits for it.
    pub(super) fn resolve(&self, number: u64, response: Result<&[u8], Unanswered>) {
        self.requests.resolve(number, response);
    }

    /// Notes the load of this process, reports it when that is due, and balances new connections.
    /// Called at each tick.
    pub fn report_load(&self, load: ProcessLoad) {
        let Some(bus) = &self.bus else { return };
        *self.load.lock() = load;
        let mut loads: Vec<_> = self.near_others().collect();
        let first = loads.first().map(|(node, _)| *node).filter(|first| *first < self.me);
        loads.insert(0, (self.me, load));
        let is_due = |loads: &[_]| self.reports.lock().is_due(loads, self.connections_max);
        let mut balancer = self.balancer.lock();
        match first {
            Some(first) => {
                balancer.as_mut().into_iter().for_each(Balancer::release);
                loads.truncate(1);
                if is_due(&loads) {
                    bus.send(first, load_report(&loads), Loss::Drop).ok();
                }
            }
            None => {
                if is_due(&loads) {
                    bus.send_all(load_report(&loads), Loss::Drop);
                }
                if let Some(balancer) = &mut *balancer {
                    balancer.balance(&loads, self.connections_max);
                }
            }
        }
    }

    /// Notes a load report: of one process about itself, or of the first process about all.
    pub(super) fn note_loads(&self, loads: &[(u16, ProcessLoad)]) {
        for (node, load) in loads {
            self.other(NodeId(*node)).inspect(|other| *other.load.lock() = *load);
        }
    }

    pub(super) fn node_up(&self, node: NodeId) {
        if let Some(other) = self.other(node) {
            *other.load.lock() = ProcessLoad::default();
            other.is_up.store(true, Ordering::Relaxed);
        }
        if let Some(bus) = &self.bus {
            let load = *self.load.lock();
            bus.send(node, load_report(&[(self.me, load)]), Loss::Cut).ok();
        }
    }

    pub(super) fn node_down(&self, node: NodeId) {
        if let Some(other) = self.other(node) {
            other.is_up.store(false, Ordering::Relaxed);
            *other.load.lock() = ProcessLoad::default();
        }
        self.requests.node_down(node);
    }

    fn other(&self, node: NodeId) -> Option<&Other> {
        self.others.get(usize::from(node.0)).filter(|_| node != self.me)
    }

    /// Whether a process is up: this one, or another.
    pub fn is_up(&self, node: NodeId) -> bool {
        node == self.me || self.other(node).is_some_and(|o| o.is_up.load(Ordering::Relaxed))
    }

    /// The other processes that are up and respond, in order, and their last reported loads.
    pub fn others(&self) -> impl Iterator<Item = (NodeId, ProcessLoad)> {
        let all = self.others.iter().zip(0..).map(|(other, node)| (NodeId(node), other));
        all.filter(|(_, other)| other.responds()).map(|(node, other)| (node, *other.load.lock()))
    }

    /// The other processes of this machine that are up and respond.
    pub fn near_others(&self) -> impl Iterator<Item = (NodeId, ProcessLoad)> {
        self.others().filter(|(node, _)| self.is_near(*node))
    }

    /// The processes of other machines that are up and respond.
    pub fn far_others(&self) -> impl Iterator<Item = NodeId> {
        self.others().map(|(node, _)| node).filter(|node| !self.is_near(*node))
    }

    /// The processes that are up, this one too. Some may hang.
    pub fn all_up(&self) -> impl Iterator<Item = NodeId> {
        (0..NODES_MAX).map(NodeId).filter(|node| self.is_up(*node))
    }

    /// The process that decides about a key, and the one that decides when that is gone. All processes
    /// that see the same processes choose the same ones. A process that hangs decides until it is gone:
    /// it may have decided already, and may go on.
    pub fn deciding(&self, key: &[&str]) -> (NodeId, Option<NodeId>) {
        let hash = key.iter().fold(FixedHash::new(0), |hash, text| hash.text(text));
        let rank = |node: &NodeId| (hash.number(node.0.into()).finish(), *node);
        let mut ranked: Vec<NodeId> = self.all_up().collect();
        ranked.sort_unstable_by_key(rank);
        (ranked.pop().expect("at least this process"), ranked.pop())
    }

    /// Whether requests can move to another process: it is up, and on this machine.
    pub fn can_move_to(&self, node: NodeId) -> bool {
        self.is_near(node) && self.is_up(node)
    }

    /// Notes which other processes of this machine do not respond, by their slots. Until they respond again or are restarted, they
    /// get no new connections and no requests.
    pub fn note_unresponsive(&self, slots: &[NodeId]) {
        for (node, slot) in self.of_machine.clone().zip(0..) {
            let is_unresponsive = slots.contains(&NodeId(slot));
            let other = &self.others[usize::from(node)];
            other.is_unresponsive.store(is_unresponsive, Ordering::Relaxed);
        }
    }

    /// The slots of this machine's processes that do not serve clients now.
    pub fn missing(&self) -> Vec<u16> {
        let serves = |node| node == self.me || self.other(node).is_some_and(Other::responds);
        let slots = self.of_machine.clone().zip(0..);
        slots.filter(|(node, _)| !serves(NodeId(*node))).map(|(_, slot)| slot).collect()
    }

    /// Sets the links to other machines, for the metrics.
    pub(crate) fn set_links(&self, links: &Arc<dyn FarLinks>) {
        self.links.set(Arc::downgrade(links)).ok();
    }

    /// Whether messages reach the machines that were there before this process.
    pub fn is_linked(&self) -> bool {
        self.link_totals().is_some_and(|totals| totals.is_settled)
    }

    pub(super) fn link_totals(&self) -> Option<LinkTotals> {
        Some(self.links.get()?.upgrade()?.totals())
    }

    /// How often this process was restarted.
    pub(super) fn starts(&self) -> ProcessStarts {
        self.starts
    }

    /// Notes that this process drains: it leaves the balancing to others.
    pub fn begin_drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
        *self.balancer.lock() = None;
    }

    /// Whether this process drains.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Whether another process is up and can receive clearly more connections.
    pub fn has_room(&self, node: NodeId) -> bool {
        let has_room = |load: ProcessLoad| load.connections < self.connections_max / 16 * 15;
        self.others().any(|(other, load)| other == node && has_room(load))
            && self.handoff.contains(node)
    }

    /// How many people the other processes have.
    pub fn people_elsewhere(&self) -> u64 {
        self.others().map(|(_, load)| load.people).sum()
    }

    /// Sends a connection to another process. Returns it when no process takes it.
    pub fn hand_off(
        &self,
        to: HandoffTarget,
        connection: HandoffConnection,
    ) -> Result<(), HandoffConnection> {
        let slot = |node: NodeId| node.0 - self.of_machine.start;
        self.handoff.send(
            slot,
            self.me,
            to,
            connection,
            || self.near_others(),
            self.connections_max,
        )
    }

    /// Sets the link for connections to a process.
    pub fn hand_off_through(&self, to: NodeId, link: Arc<HandoffSocket>) {
        self.handoff.insert(to, link);
    }

    /// Removes a link, unless a newer one replaced it already.
    pub fn close_handoff(&self, to: NodeId, link: &Arc<HandoffSocket>) {
        self.handoff.remove(to, link);
    }
}

fn load_report(loads: &[(NodeId, ProcessLoad)]) -> Bytes {
    let loads = loads.iter().map(|(node, load)| (node.0, *load)).collect();
    message::encode(PartName::CLUSTER, &Message::Load(loads))
}
