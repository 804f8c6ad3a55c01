use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::{HashMap, HashTable};
use thiserror::Error;
use watchfire_types::{Slab, heap_bytes};

use crate::fan_out::FanOut;
use crate::subscription::{Subscription, SubscriptionId, SubscriptionIds, Subscriptions};
use crate::tables::Seeded;
use crate::tables::{NONE, should_shrink};
use crate::topic::{Members, Topic};

/// Subscribers of one topic that are served before the next topic's turn.
const TURN_VISITS: usize = 64;
/// Empty queues with more capacity than this are freed.
const QUEUE_CAPACITY_KEPT: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubLimits {
    /// Deliveries that wait on one topic, or are in progress. At the limit, broadcasts are refused.
    pub queued_per_topic_max: usize,
    /// Deliveries that wait on all topics together. At the limit, broadcasts are refused.
    pub queued_max: usize,
}

impl Default for HubLimits {
    fn default() -> Self {
        HubLimits { queued_per_topic_max: 1_024, queued_max: 65_536 }
    }
}

/// A broadcast was refused because too many earlier ones wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueueFull {
    /// The topic has [`HubLimits::queued_per_topic_max`] deliveries waiting.
    #[error("the topic's queue is full: {max} deliveries wait")]
    Topic { max: usize },
    /// All topics together have [`HubLimits::queued_max`] deliveries waiting.
    #[error("the hub's queue is full: {max} deliveries wait")]
    Hub { max: usize },
}

/// The subscriptions of one shard, and the deliveries that wait for its subscribers.
///
/// `D` is one delivery, cheap to hold, such as an `Arc` of encoded frames. Clients are numbers that
/// the driver chooses. The driver also checks the length of topic names.
#[derive(Debug)]
pub struct Hub<D> {
    limits: HubLimits,
    hashing: Seeded,
    subscriptions: Slab<Subscription>,
    topics: Slab<Topic>,
    /// The memory that the topics own.
    owned_bytes: usize,
    names: HashTable<u32>,
    /// Only for topics in `turns`.
    fan_outs: HashMap<u32, FanOut<D>, Seeded>,
    /// Topics with a fan-out, each once, in order of service.
    turns: VecDeque<u32>,
    waiting: usize,
}

impl<D> Hub<D> {
    /// An empty hub. The seed prevents topic names that are chosen to collide.
    pub fn new(seed: u64, limits: HubLimits) -> Self {
        let hashing = Seeded(seed);
        Hub {
            limits,
            hashing,
            subscriptions: Slab::default(),
            topics: Slab::default(),
            owned_bytes: 0,
            names: HashTable::new(),
            fan_outs: HashMap::with_hasher(hashing),
            turns: VecDeque::new(),
            waiting: 0,
        }
    }

    /// Subscribes a client to a topic; `list` is that client's own list.
    ///
    /// The client receives later broadcasts, not those that wait already. Subscribing it twice
    /// delivers everything twice: call [`Hub::find`] first.
    pub fn subscribe(
        &mut self,
        client: u32,
        list: &mut Subscriptions,
        topic: &str,
    ) -> SubscriptionId {
        let hash = self.hashing.hash_one(topic);
        let known = self.find_topic(hash, topic);
        let slot = self.subscriptions.insert(Subscription {
            client,
            topic: known.unwrap_or(NONE),
            position: 0,
            next: list.first,
        });
        match known {
            Some(topic) => {
                let members = &mut self.topics[topic].members;
                self.subscriptions[slot].position = members.as_slice().len() as u32;
                self.owned_bytes -= members.memory_bytes();
                members.push(slot);
                self.owned_bytes += members.memory_bytes();
            }
            None => self.subscriptions[slot].topic = self.open_topic(hash, topic, slot),
        }
        list.first = slot;
        list.len += 1;
        SubscriptionId(slot)
    }

    /// Ends a subscription; deliveries that wait for it are dropped.
    ///
    /// # Panics
    ///
    /// When the subscription is not on `list`, which must be its client's own.
    pub fn unsubscribe(&mut self, list: &mut Subscriptions, id: SubscriptionId) {
        self.unlink(list, id.0);
        let Subscription { topic, position, .. } = self.subscriptions.remove(id.0);
        if self.topics[topic].members.as_slice().len() == 1 {
            self.forget_topic(topic);
        } else {
            self.remove_member(topic, position);
        }
    }

    /// The client's subscription to a topic, the newest one if it has several.
    pub fn find(&self, list: &Subscriptions, topic: &str) -> Option<SubscriptionId> {
        self.subscriptions(list).find(|id| self.topic_of(*id) == topic)
    }

    /// The client's subscriptions, newest first.
    pub fn subscriptions(&self, list: &Subscriptions) -> SubscriptionIds<'_> {
        SubscriptionIds { subscriptions: &self.subscriptions, next: list.first }
    }

    pub fn topic_of(&self, id: SubscriptionId) -> &str {
        &self.topics[self.subscriptions[id.0].topic].name
    }

    pub fn client_of(&self, id: SubscriptionId) -> u32 {
        self.subscriptions[id.0].client
    }

    pub fn subscribers(&self, topic: &str) -> usize {
        self.find_topic(self.hashing.hash_one(topic), topic)
            .map_or(0, |topic| self.topics[topic].members.as_slice().len())
    }

    /// The clients of all subscriptions to a topic, unordered.
    pub fn clients_on(&self, topic: &str) -> impl Iterator<Item = u32> {
        self.subscriptions_on(topic).map(|id| self.client_of(id))
    }

    /// All subscriptions to a topic, unordered.
    pub fn subscriptions_on(&self, topic: &str) -> impl Iterator<Item = SubscriptionId> {
        let topic = self.find_topic(self.hashing.hash_one(topic), topic);
        let members = topic.map_or(&[][..], |topic| self.topics[topic].members.as_slice());
        members.iter().map(|&member| SubscriptionId(member))
    }

    pub fn topics(&self) -> usize {
        self.topics.len()
    }

    /// Every topic and its number of subscriptions, unordered; for statistics.
    pub fn topic_sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        let occupied = self.topics.iter().filter(|topic| topic.is_occupied());
        occupied.map(|topic| (topic.name.as_str(), topic.members.as_slice().len()))
    }

    /// A number above every slot of a topic, for a walk in pieces.
    pub fn topic_slots(&self) -> usize {
        self.topics.slots()
    }

    /// The topic in a slot, and its number of subscriptions.
    pub fn topic_at(&self, slot: u32) -> Option<(&str, usize)> {
        let topic = self.topics.get(slot).filter(|topic| topic.is_occupied())?;
        Some((topic.name.as_str(), topic.members.as_slice().len()))
    }

    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of topics and subscriptions, without deliveries. It looks at each piece of the slabs.
    pub fn memory_bytes(&self) -> usize {
        let names = heap_bytes(self.names.allocation_size());
        self.subscriptions.memory_bytes() + self.topics.memory_bytes() + names + self.owned_bytes
    }

    /// The number of deliveries that wait or are in progress.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Queues a delivery for all current subscribers of the topic; `Ok(false)` when there are none.
    ///
    /// A client that subscribes later does not receive it, even before the fan-out begins. A client
    /// that unsubscribes before its turn does not either.
    pub fn broadcast(&mut self, topic: &str, delivery: D) -> Result<bool, QueueFull> {
        let Some(topic) = self.find_topic(self.hashing.hash_one(topic), topic) else {
            return Ok(false);
        };
        if self.waiting >= self.limits.queued_max {
            return Err(QueueFull::Hub { max: self.limits.queued_max });
        }
        let waiting = self.fan_outs.get(&topic).map(FanOut::len);
        if waiting.unwrap_or(0) >= self.limits.queued_per_topic_max {
            return Err(QueueFull::Topic { max: self.limits.queued_per_topic_max });
        }
        if waiting.is_none() {
            self.turns.push_back(topic);
        }
        let members = self.topics[topic].members.as_slice().len();
        self.fan_outs.entry(topic).or_insert_with(FanOut::new).push(delivery, members);
        self.waiting += 1;
        Ok(true)
    }

    /// Delivers to at most `budget` subscribers; returns whether deliveries are left.
    ///
    /// Topics take turns of 64 visits, so a large topic does not delay small ones. On one topic,
    /// each subscriber receives deliveries in the order of their broadcasts. Subscriptions and
    /// broadcasts may change between two calls.
    ///
    /// `finished` gets each delivery that all its subscribers have received, and their number.
    pub fn deliver(
        &mut self,
        budget: usize,
        mut visit: impl FnMut(SubscriptionId, u32, &D),
        mut finished: impl FnMut(D, u32),
    ) -> bool {
        let mut budget = budget;
        while budget > 0 {
            let Some(&topic) = self.turns.front() else { break };
            let visits = budget.min(TURN_VISITS);
            let visited = self.take_turn(topic, visits, &mut visit, &mut finished);
            // A turn without a visit also costs one, so that a slice of work is bounded.
            budget -= visited.max(1);
            self.turns.pop_front();
            if self.fan_outs[&topic].len() > 0 {
                self.turns.push_back(topic);
            } else {
                self.fan_outs.remove(&topic);
            }
        }
        self.free_queues();
        !self.turns.is_empty()
    }

    /// Serves up to `visits` of a topic's subscribers; returns how many it served.
    fn take_turn(
        &mut self,
        topic: u32,
        visits: usize,
        visit: &mut impl FnMut(SubscriptionId, u32, &D),
        finished: &mut impl FnMut(D, u32),
    ) -> usize {
        // The topic may be forgotten. Then its fan-out is empty.
        let members = self.topics.get(topic).map_or(&[][..], |topic| topic.members.as_slice());
        let fan_out = self.fan_outs.get_mut(&topic).expect("a topic in turn has a fan-out");
        let before = fan_out.len();
        let mut visited = 0;
        while visited < visits {
            let Some((position, delivery)) = fan_out.next_member(finished) else { break };
            let member = members[position as usize];
            visit(SubscriptionId(member), self.subscriptions[member].client, delivery);
            visited += 1;
        }
        fan_out.drop_finished(finished);
        self.waiting -= before - fan_out.len();
        visited
    }

    fn find_topic(&self, hash: u64, name: &str) -> Option<u32> {
        self.names.find(hash, |&topic| self.topics[topic].name == name).copied()
    }

    fn open_topic(&mut self, hash: u64, name: &str, first: u32) -> u32 {
        let topic = Topic { name: name.into(), members: Members::One(first) };
        self.owned_bytes += topic.memory_bytes();
        let topic = self.topics.insert(topic);
        let Hub { topics, hashing, .. } = self;
        self.names
            .insert_unique(hash, topic, |&topic| hashing.hash_one(topics[topic].name.as_str()));
        topic
    }

    fn forget_topic(&mut self, topic: u32) {
        let forgotten = self.topics.remove(topic);
        self.owned_bytes -= forgotten.memory_bytes();
        let name = forgotten.name;
        let hash = self.hashing.hash_one(name.as_str());
        let entry = self.names.find_entry(hash, |&other| other == topic);
        entry.expect("every topic has a name").remove();
        // Its turn stays: a new topic may get the slot and need it.
        if let Some(fan_out) = self.fan_outs.get_mut(&topic) {
            self.waiting -= fan_out.len();
            fan_out.clear();
        }
        if should_shrink(self.names.len(), self.names.capacity()) {
            let Hub { topics, hashing, .. } = self;
            let len = self.names.len() * 2;
            self.names.shrink_to(len, |&topic| hashing.hash_one(topics[topic].name.as_str()));
        }
    }

    fn remove_member(&mut self, topic: u32, gap: u32) {
        let Hub { subscriptions, topics, fan_outs, owned_bytes, .. } = self;
        let members = &mut topics[topic].members;
        let last = members.as_slice().len() as u32 - 1;
        let mut fill = |from: u32, to: u32| {
            let member = members.as_slice()[from as usize];
            members.set(to, member);
            subscriptions[member].position = to;
        };
        let gap = match fan_outs.get_mut(&topic) {
            Some(fan_out) => fan_out.leave(gap, &mut fill),
            None => gap,
        };
        if gap != last {
            fill(last, gap);
        }
        *owned_bytes -= members.memory_bytes();
        members.pop();
        *owned_bytes += members.memory_bytes();
    }

    /// Removes a subscription from its client's list.
    fn unlink(&mut self, list: &mut Subscriptions, slot: u32) {
        let next = self.subscriptions[slot].next;
        if list.first == slot {
            list.first = next;
        } else {
            let before = self.subscriptions(list).find(|id| self.subscriptions[id.0].next == slot);
            let before = before.expect("a subscription is ended from its own client's list");
            self.subscriptions[before.0].next = next;
        }
        list.len -= 1;
    }

    fn free_queues(&mut self) {
        if self.turns.is_empty() && self.turns.capacity() > QUEUE_CAPACITY_KEPT {
            self.turns = VecDeque::new();
            self.fan_outs = HashMap::with_hasher(self.hashing);
        }
    }
}
