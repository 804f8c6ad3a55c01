use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::{HashMap, HashTable};

use crate::fan_out::FanOut;
use crate::limits::{BacklogFull, HubLimits};
use crate::room::is_much_too_large;
use crate::seeded::Seeded;
use crate::slab::{NONE, Slab};
use crate::subscription::{Subscription, SubscriptionId, SubscriptionIds, Subscriptions};
use crate::topic::{Members, Topic};

/// How many subscribers of one topic are served before the next topic's turn.
const TURN_VISITS: usize = 64;
/// Queues that a burst left with more room than this are given back once they are empty.
const QUEUE_CAPACITY_KEPT: usize = 1_024;

/// Who is subscribed to what on one shard, and what is still to be delivered to them.
///
/// `D` is one delivery, cheap to hold, such as an `Arc` of encoded frames. Clients are the
/// driver's own numbers; the hub reads nothing into them. Topic names are taken as they are: their
/// length is checked where they come in.
#[derive(Debug)]
pub struct Hub<D> {
    limits: HubLimits,
    hashing: Seeded,
    subscriptions: Slab<Subscription>,
    topics: Slab<Topic>,
    /// Topics by name.
    names: HashTable<u32>,
    /// Only for topics in `turns`.
    fan_outs: HashMap<u32, FanOut<D>, Seeded>,
    /// Topics with a fan-out, each once; the first is next.
    turns: VecDeque<u32>,
    waiting: usize,
}

impl<D> Hub<D> {
    /// An empty hub. The seed keeps strangers from choosing topic names that collide.
    pub fn new(seed: u64, limits: HubLimits) -> Self {
        let hashing = Seeded(seed);
        Hub {
            limits,
            hashing,
            subscriptions: Slab::new(),
            topics: Slab::new(),
            names: HashTable::new(),
            fan_outs: HashMap::with_hasher(hashing),
            turns: VecDeque::new(),
            waiting: 0,
        }
    }

    /// Subscribe a client to a topic; `of` is that client's own list.
    ///
    /// It gets what is broadcast from now on, not what already waits. A second subscription of the
    /// same client to the same topic is a second recipient: ask [`Hub::find`] first.
    pub fn subscribe(
        &mut self,
        client: u32,
        of: &mut Subscriptions,
        topic: &str,
    ) -> SubscriptionId {
        let hash = self.hashing.hash_one(topic);
        let known = self.find_topic(hash, topic);
        let slot = self.subscriptions.insert(Subscription {
            client,
            topic: known.unwrap_or(NONE),
            position: 0,
            next: of.first,
        });
        match known {
            Some(topic) => {
                let members = &mut self.topics[topic].members;
                self.subscriptions[slot].position = members.as_slice().len() as u32;
                members.push(slot);
            }
            None => self.subscriptions[slot].topic = self.open_topic(hash, topic, slot),
        }
        of.first = slot;
        of.len += 1;
        SubscriptionId(slot)
    }

    /// End a subscription: what waits for it is not delivered any more.
    ///
    /// # Panics
    ///
    /// When the subscription is not on the client's own list `of`.
    pub fn unsubscribe(&mut self, of: &mut Subscriptions, id: SubscriptionId) {
        self.unlink(of, id.0);
        let Subscription { topic, position, .. } = self.subscriptions.remove(id.0);
        if self.topics[topic].members.as_slice().len() == 1 {
            self.forget_topic(topic);
        } else {
            self.leave_place(topic, position);
        }
    }

    /// The client's subscription to a topic, the newest one if it has several.
    pub fn find(&self, of: &Subscriptions, topic: &str) -> Option<SubscriptionId> {
        self.subscriptions(of).find(|id| self.topic_of(*id) == topic)
    }

    /// The client's subscriptions, newest first.
    pub fn subscriptions(&self, of: &Subscriptions) -> SubscriptionIds<'_> {
        SubscriptionIds { subscriptions: &self.subscriptions, next: of.first }
    }

    /// The topic that is subscribed to.
    pub fn topic_of(&self, id: SubscriptionId) -> &str {
        &self.topics[self.subscriptions[id.0].topic].name
    }

    /// The client that subscribed.
    pub fn client_of(&self, id: SubscriptionId) -> u32 {
        self.subscriptions[id.0].client
    }

    /// How many subscriptions a topic has.
    pub fn subscribers(&self, topic: &str) -> usize {
        self.find_topic(self.hashing.hash_one(topic), topic)
            .map_or(0, |topic| self.topics[topic].members.as_slice().len())
    }

    /// How many topics have a subscriber.
    pub fn topics(&self) -> usize {
        self.topics.len()
    }

    /// Every topic and how many subscriptions it has, in no order: for statistics.
    pub fn topic_sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        let taken = self.topics.iter().filter(|topic| topic.is_taken());
        taken.map(|topic| (topic.name.as_str(), topic.members.as_slice().len()))
    }

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether nobody is subscribed to anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many deliveries wait or are under way.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Queue a delivery for everyone who is subscribed to the topic now.
    ///
    /// `Ok(false)` when that is nobody. Whoever subscribes later does not get it, even before its
    /// fan-out has begun; whoever unsubscribes first does not either.
    pub fn broadcast(&mut self, topic: &str, delivery: D) -> Result<bool, BacklogFull> {
        let Some(topic) = self.find_topic(self.hashing.hash_one(topic), topic) else {
            return Ok(false);
        };
        if self.waiting >= self.limits.waiting_max {
            return Err(BacklogFull::Hub { max: self.limits.waiting_max });
        }
        let waiting = self.fan_outs.get(&topic).map(FanOut::len);
        if waiting.unwrap_or(0) >= self.limits.waiting_per_topic_max {
            return Err(BacklogFull::Topic { max: self.limits.waiting_per_topic_max });
        }
        if waiting.is_none() {
            self.turns.push_back(topic);
        }
        let members = self.topics[topic].members.as_slice().len();
        self.fan_outs.entry(topic).or_insert_with(FanOut::new).push(delivery, members);
        self.waiting += 1;
        Ok(true)
    }

    /// Deliver to at most `budget` subscribers; true when it is to be called again.
    ///
    /// Topics take turns of 64 visits, so a huge topic does not hold up small ones;
    /// on one topic, each subscriber sees deliveries in the order of their broadcasts. Between two
    /// calls anyone may subscribe, unsubscribe and broadcast.
    pub fn deliver(
        &mut self,
        budget: usize,
        mut visit: impl FnMut(SubscriptionId, u32, &D),
    ) -> bool {
        let mut budget = budget;
        while budget > 0 {
            let Some(&topic) = self.turns.front() else { break };
            let visits = budget.min(TURN_VISITS);
            let visited = self.take_turn(topic, visits, &mut visit);
            // A turn without a visit costs one too: a slice of work is bounded whoever left.
            budget -= visited.max(1);
            self.turns.pop_front();
            if self.fan_outs[&topic].len() > 0 {
                self.turns.push_back(topic);
            } else {
                self.fan_outs.remove(&topic);
            }
        }
        self.give_queues_back();
        !self.turns.is_empty()
    }

    /// Serve up to `visits` of a topic's subscribers; returns how many it served.
    fn take_turn(
        &mut self,
        topic: u32,
        visits: usize,
        visit: &mut impl FnMut(SubscriptionId, u32, &D),
    ) -> usize {
        // The topic may be forgotten, and its slot given back: then its fan-out is empty.
        let members = self.topics.get(topic).map_or(&[][..], |topic| topic.members.as_slice());
        let fan_out = self.fan_outs.get_mut(&topic).expect("a topic in turn has a fan-out");
        let before = fan_out.len();
        let mut visited = 0;
        while visited < visits {
            let Some((position, delivery)) = fan_out.next_member() else { break };
            let member = members[position as usize];
            visit(SubscriptionId(member), self.subscriptions[member].client, delivery);
            visited += 1;
        }
        fan_out.drop_finished();
        self.waiting -= before - fan_out.len();
        visited
    }

    fn find_topic(&self, hash: u64, name: &str) -> Option<u32> {
        self.names.find(hash, |&topic| self.topics[topic].name == name).copied()
    }

    fn open_topic(&mut self, hash: u64, name: &str, first: u32) -> u32 {
        let topic = self.topics.insert(Topic { name: name.into(), members: Members::One(first) });
        let Hub { topics, hashing, .. } = self;
        self.names
            .insert_unique(hash, topic, |&topic| hashing.hash_one(topics[topic].name.as_str()));
        topic
    }

    fn forget_topic(&mut self, topic: u32) {
        let Topic { name, .. } = self.topics.remove(topic);
        let hash = self.hashing.hash_one(name.as_str());
        let entry = self.names.find_entry(hash, |&other| other == topic);
        entry.expect("every topic has a name").remove();
        // Its turn stays, with nothing to do: the slot's next topic may be in need of it.
        if let Some(fan_out) = self.fan_outs.get_mut(&topic) {
            self.waiting -= fan_out.len();
            fan_out.clear();
        }
        if is_much_too_large(self.names.len(), self.names.capacity()) {
            let Hub { topics, hashing, .. } = self;
            let len = self.names.len() * 2;
            self.names.shrink_to(len, |&topic| hashing.hash_one(topics[topic].name.as_str()));
        }
    }

    /// Take a member that has others beside it out of its topic's row.
    fn leave_place(&mut self, topic: u32, gap: u32) {
        let Hub { subscriptions, topics, fan_outs, .. } = self;
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
        members.pop();
    }

    /// Take a subscription off its client's list.
    fn unlink(&mut self, of: &mut Subscriptions, slot: u32) {
        let next = self.subscriptions[slot].next;
        if of.first == slot {
            of.first = next;
        } else {
            let before = self.subscriptions(of).find(|id| self.subscriptions[id.0].next == slot);
            let before = before.expect("a subscription is ended from its own client's list");
            self.subscriptions[before.0].next = next;
        }
        of.len -= 1;
    }

    fn give_queues_back(&mut self) {
        if self.turns.is_empty() && self.turns.capacity() > QUEUE_CAPACITY_KEPT {
            self.turns = VecDeque::new();
            self.fan_outs = HashMap::with_hasher(self.hashing);
        }
    }
}
