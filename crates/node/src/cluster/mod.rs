//! The other processes of this server, as this one sees them.
//!
//! State is replicated by interest: each process owns what its own clients are (presences, peers of
//! pages, seats on planes) and tells it to those processes that have subscribers on the topic. What
//! is said is in [`word`]; what follows from hearing it, in [`hearing`].

mod census;
mod handing;
mod hearing;
mod steering;
pub(crate) mod word;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bus::{Bus, BusTotals, Loss, Readiness};
use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use vocab::NodeId;
use workers::HandOver;

use crate::endpoint::Undelivered;
use crate::presence::lock;

use census::Census;
pub(crate) use handing::receive;
pub(crate) use hearing::Hearing;
pub(crate) use steering::Helm;
pub(crate) use word::{Fill, Question, Seating, Word};

/// Processes that one server may have.
pub(crate) const PROCESSES_MAX: usize = 64;
/// How long a process has for the answer to a question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Questions that wait for their answers. Over it, another is taken to be unanswered.
const QUESTIONS_MAX: usize = 10_000;

/// The processes of this server.
pub(crate) struct Cluster {
    me: NodeId,
    /// Absent in a server of one process.
    bus: Option<Arc<dyn Bus>>,
    others: [Other; PROCESSES_MAX],
    ready_up_to: watch::Sender<u64>,
    questions: Mutex<Questions>,
    hand_overs: Mutex<BTreeMap<NodeId, Arc<HandOver>>>,
    /// Absent in a server of one process.
    helm: Mutex<Option<Helm>>,
    census: Mutex<Census>,
    /// How full this process was at the last tick.
    fill: Mutex<Fill>,
    /// Connections that each process has room for.
    connections_max: u64,
}

/// What is known of another process.
#[derive(Default)]
struct Other {
    is_up: std::sync::atomic::AtomicBool,
    fill: Mutex<Fill>,
}

#[derive(Default)]
struct Questions {
    asked: u64,
    waiting: HashMap<u64, (NodeId, oneshot::Sender<String>)>,
}

impl Cluster {
    /// A server of one process.
    pub fn alone() -> Self {
        Cluster::of(NodeId(0), None, None)
    }

    /// One process among several.
    pub fn among(bus: Arc<dyn Bus>, connections_max: u64, helm: Option<Helm>) -> Self {
        Cluster { connections_max, ..Cluster::of(bus.me(), Some(bus), helm) }
    }

    fn of(me: NodeId, bus: Option<Arc<dyn Bus>>, helm: Option<Helm>) -> Self {
        Cluster {
            me,
            bus,
            others: std::array::from_fn(|_| Other::default()),
            ready_up_to: watch::Sender::new(0),
            questions: Mutex::default(),
            hand_overs: Mutex::default(),
            helm: Mutex::new(helm),
            census: Mutex::default(),
            fill: Mutex::default(),
            connections_max: u64::MAX,
        }
    }

    pub fn me(&self) -> NodeId {
        self.me
    }

    pub fn is_alone(&self) -> bool {
        self.bus.is_none()
    }

    /// There is one more reason to hear of a topic. With a number, what the others know of it is
    /// here only once [`Cluster::ready_up_to`] has reached that number.
    #[must_use]
    pub fn subscribe(&self, topic: &str) -> Option<u64> {
        match self.bus.as_ref()?.subscribe(topic) {
            Readiness::Ready => None,
            Readiness::Waits(number) => Some(number),
        }
    }

    /// Whether the others tell us of a topic.
    pub fn hears(&self, topic: &str) -> bool {
        self.bus.as_ref().is_some_and(|bus| bus.hears(topic))
    }

    /// One reason less.
    pub fn unsubscribe(&self, topic: &str) {
        self.bus.as_ref().inspect(|bus| bus.unsubscribe(topic));
    }

    /// Every subscription with a number up to this is ready.
    pub fn ready_up_to(&self) -> u64 {
        *self.ready_up_to.borrow()
    }

    /// Wait for a subscription.
    pub async fn ready(&self, number: Option<u64>) {
        if let Some(number) = number {
            // The sender is ours, so that this cannot fail.
            self.ready_up_to.subscribe().wait_for(|up_to| *up_to >= number).await.ok();
        }
    }

    fn note_ready(&self, up_to: u64) {
        self.ready_up_to.send_modify(|known| *known = up_to.max(*known));
    }

    /// Say something about a topic that may get lost, to the processes that hear of it.
    pub fn publish<'a>(&self, topic: &str, word: impl FnOnce() -> Word<'a>) {
        if let Some(bus) = &self.bus {
            bus.publish(topic, word().to_bytes(), Loss::Drop);
        }
    }

    /// Say something about a topic that the others would be wrong for good without.
    pub fn publish_state<'a>(&self, topic: &str, word: impl FnOnce() -> Word<'a>) {
        if let Some(bus) = &self.bus {
            bus.publish(topic, word().to_bytes(), Loss::Cut);
        }
    }

    /// Say something to one process.
    pub fn tell(&self, to: NodeId, word: Bytes) -> Result<(), Undelivered> {
        let bus = self.bus.as_ref().ok_or(Undelivered)?;
        bus.send(to, word, Loss::Drop).map_err(|_| Undelivered)
    }

    /// Say something to one process that it would be wrong for good without.
    pub fn tell_state(&self, to: NodeId, word: &Word<'_>) {
        if let Some(bus) = &self.bus {
            bus.send(to, word.to_bytes(), Loss::Cut).ok();
        }
    }

    /// Say something to every other process.
    pub fn tell_all<'a>(&self, word: impl FnOnce() -> Word<'a>) {
        if let Some(bus) = &self.bus {
            bus.send_all(word().to_bytes(), Loss::Drop);
        }
    }

    /// The answer of another process; none when it is gone, or takes too long.
    pub async fn ask(&self, to: NodeId, question: Question<'_>) -> Option<String> {
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut questions = lock(&self.questions);
            if questions.waiting.len() >= QUESTIONS_MAX {
                return None;
            }
            questions.asked += 1;
            let number = questions.asked;
            questions.waiting.insert(number, (to, sender));
            number
        };
        let asked = self.tell(to, Word::Ask { number, question }.to_bytes());
        let answer = match asked {
            Ok(()) => tokio::time::timeout(ANSWER_TIMEOUT, answer).await.ok().and_then(Result::ok),
            Err(Undelivered) => None,
        };
        lock(&self.questions).waiting.remove(&number);
        answer
    }

    fn answered(&self, number: u64, text: &str) {
        if let Some((_, asker)) = lock(&self.questions).waiting.remove(&number) {
            asker.send(text.to_owned()).ok();
        }
    }

    fn note_up(&self, node: NodeId) {
        if let Some(other) = self.other(node) {
            *lock(&other.fill) = Fill::default();
            other.is_up.store(true, Ordering::Relaxed);
        }
    }

    fn note_down(&self, node: NodeId) {
        if let Some(other) = self.other(node) {
            other.is_up.store(false, Ordering::Relaxed);
            *lock(&other.fill) = Fill::default();
        }
        lock(&self.questions).waiting.retain(|_, (asked, _)| *asked != node);
    }

    fn note_fill(&self, node: NodeId, fill: Fill) {
        self.other(node).inspect(|other| *lock(&other.fill) = fill);
    }

    fn other(&self, node: NodeId) -> Option<&Other> {
        self.others.get(usize::from(node.0)).filter(|_| node != self.me)
    }

    /// Whether this process is there, itself or another.
    pub fn is_up(&self, node: NodeId) -> bool {
        node == self.me || self.other(node).is_some_and(|o| o.is_up.load(Ordering::Relaxed))
    }

    /// How full this process was at the last tick.
    pub fn fill(&self) -> Fill {
        *lock(&self.fill)
    }

    /// The others that are there, and how full they said they are.
    pub fn others(&self) -> impl Iterator<Item = (NodeId, Fill)> {
        let all = self.others.iter().zip(0..).map(|(other, node)| (NodeId(node), other));
        all.filter(|(_, other)| other.is_up.load(Ordering::Relaxed))
            .map(|(node, other)| (node, *lock(&other.fill)))
    }

    /// How many clients the others have.
    pub fn clients_elsewhere(&self) -> u64 {
        self.others().map(|(_, fill)| fill.clients).sum()
    }

    /// What the bus counted.
    pub fn totals(&self) -> Option<BusTotals> {
        self.bus.as_ref().map(|bus| bus.totals())
    }
}
