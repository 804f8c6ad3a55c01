//! Ownership: which process writes the log of a topic, and how another one takes over.
//!
//! Any process may publish to a topic, but offsets count its messages without gaps, so one process
//! writes its log: the *owner*. Each process computes the owner alone, from the processes that it sees
//! ([`Replicas::ranked`]): the one with the highest hash of topic and node. The second in this order is
//! the *deputy*. The ranks need no messages; a change of owner does, and that is a *claim*.
//!
//! # The faults without a claim
//!
//! Process 2 owns a topic, process 1 is the deputy, and process 3 has subscribers. Process 2 ends just
//! after it wrote message 18. Process 3 has received it, process 1 has not.
//!
//! - If process 1 simply went on, its next message would be number 18, too. A client of process 3 that
//!   reconnects to process 1 with "I have 18" would be told that it missed nothing. It would never
//!   get the other message 18.
//! - If a process that has just started ranked first, it would begin with an empty log, and every client
//!   that reconnects would be told that messages are lost.
//!
//! So process 1 sends every other process a claim with the topic and its own last position, 17.
//! Process 3 also ranks process 1 first: it stops writing the topic if it did, sends the log after 17
//! and then grants the claim. A link keeps the order, so message 18 is there before the grant. Process 1
//! delivers it to its own subscribers, and its next message is 19. A process that ranks another one
//! first, because it sees one more process, denies the topic instead, and process 1 gives the claim up.
//!
//! # When two processes write
//!
//! During a partition each side sees no owner but its own, and both write a message 19. So a position is
//! not only an offset: each owner begins an *epoch*, a random number of 40 bits. When the link is back,
//! the logs share their messages up to 18, and then each has an epoch that the other one lacks: they
//! have diverged. No order of the two would be right for both sides, so the next owner begins the log
//! again, and every process ends the channels of its subscribers: clients join again, and learn that
//! messages may be missing. `Totals::diverged_logs` counts it.
//!
//! # Bounds
//!
//! - A claim waits for each process that is up, at most [`CLAIM_TIMEOUT`]. A process that answers later
//!   sends its log, too: the owner then claims again, with that log.
//! - No claim ends before `settled_at`: a process that has just started may not see the others yet.
//! - Meanwhile the topic has no owner, and its messages wait: see `unconfirmed`.
//! - Each claim has at most [`CLAIM_TOPICS_MAX`] topics. If one of four processes owned 9,000 topics, each of
//!   the others takes over about 3,000 of them, with 6 claims and the answers of 2 processes to each.
//! - While a claim waits, further topics wait for the next one: until it ends, or until the next tick. So
//!   a burst of 20,000 new topics is claimed with some hundred messages, and a single topic at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use watchfire_types::{FixedHash, Instant, NodeId};

use super::{Environment, Output, Replicas, Topic};
use crate::history::log::Log;
use crate::history::packet::Packet;
use crate::history::position::{EPOCH_MASK, Position};

/// The longest wait for the responses to a claim.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);
const CLAIM_TOPICS_MAX: usize = 500;

pub(super) struct Claim {
    pub topics: Vec<Arc<str>>,
    pub waiting: BTreeSet<NodeId>,
    pub started_at: Instant,
}

impl<E: Environment> Replicas<E> {
    /// The process that should own a topic: this one, or another that is up.
    pub fn owner_of(&self, topic: &str) -> NodeId {
        self.ranked(topic).0
    }

    /// The owner and the deputy.
    pub(super) fn ranked(&self, topic: &str) -> (NodeId, Option<NodeId>) {
        let topic = FixedHash::new(0).text(topic);
        let rank = |node: NodeId| (topic.number(node.0.into()).finish(), node);
        let (mut first, mut second) = (rank(self.me), None);
        for node in self.up.iter().copied().filter(|node| *node != self.me).map(rank) {
            if node > first {
                (first, second) = (node, Some(first));
            } else if Some(node) > second {
                second = Some(node);
            }
        }
        (first.1, second.map(|(_, node)| node))
    }

    /// Begins to claim these topics, except the ones without a history and the ones that it claims already.
    pub(super) fn claim(&mut self, now: Instant, topics: Vec<Arc<str>>) {
        for topic in topics {
            let number = self.last_claim + 1;
            if self.environment.bounds(&topic).is_none() {
                continue;
            }
            let entry = self.entry(now, &topic);
            if entry.claim.is_some() {
                continue;
            }
            entry.claim = Some(number);
            (entry.is_diverged, entry.has_changed) = (false, false);
            self.unclaimed.push(topic);
            if self.unclaimed.len() == CLAIM_TOPICS_MAX {
                self.send_unclaimed(now);
            }
        }
        if self.claims.is_empty() {
            self.send_unclaimed(now);
        }
    }

    /// Claims the topics that wait for the next claim.
    pub(super) fn send_unclaimed(&mut self, now: Instant) {
        if self.unclaimed.is_empty() {
            return;
        }
        self.last_claim += 1;
        let number = self.last_claim;
        let (topics, waiting) = (std::mem::take(&mut self.unclaimed), BTreeSet::new());
        self.claims.insert(number, Claim { topics, waiting, started_at: now });
        for node in self.up.clone() {
            self.send_claim(number, node);
        }
        self.finish_claims(now);
    }

    pub(super) fn send_claim(&mut self, number: u64, node: NodeId) {
        if node == self.me {
            return;
        }
        let claim = self.claims.get_mut(&number).expect("the claim waits");
        claim.waiting.insert(node);
        let claimed = claim.topics.iter().filter_map(|topic| {
            let entry = self.topics.get(topic).filter(|entry| entry.claim == Some(number))?;
            Some(((**topic).into(), entry.log.as_ref().map(Log::position)))
        });
        let topics = claimed.collect();
        self.send(node, Packet::Claim { number, topics });
    }

    pub(super) fn receive_claim(
        &mut self,
        now: Instant,
        from: NodeId,
        number: u64,
        topics: Vec<(String, Option<Position>)>,
    ) {
        let (mut denied, mut granted) = (Vec::new(), Vec::new());
        for (topic, known) in topics {
            if self.owner_of(&topic) != from {
                denied.push(topic);
                continue;
            }
            let Some(entry) = self.topics.get_mut(&*topic) else { continue };
            // This process writes nothing more before it has the topic again.
            entry.claim = None;
            entry.owner = Some(from);
            if let Some(log) = &entry.log
                && Some(log.position()) != known
            {
                let image = log.image(now, known);
                let packet = Packet::Log { topic: topic.clone(), is_owner: false, image };
                self.send(from, packet);
            }
            if !self.environment.is_subscribed(&topic) {
                self.forget(&topic);
            }
            granted.push(topic.into());
        }
        self.send(from, Packet::Granted { number, denied });
        for topic in granted {
            self.release_topic(now, &topic);
        }
    }

    pub(super) fn receive_granted(
        &mut self,
        now: Instant,
        from: NodeId,
        number: u64,
        denied: &[String],
    ) {
        let Some(claim) = self.claims.get_mut(&number) else { return };
        claim.waiting.remove(&from);
        for topic in denied {
            if let Some(entry) = self.topics.get_mut(&**topic)
                && entry.claim == Some(number)
            {
                entry.claim = None; // The next tick sends what is held to the better owner.
            }
        }
        self.finish_claims(now);
    }

    /// Stops waiting for the processes that have not answered a claim in time.
    pub(super) fn give_up_late_claims(&mut self, now: Instant) {
        let is_late = |claim: &&mut Claim| now.since(claim.started_at) > CLAIM_TIMEOUT;
        self.claims.values_mut().filter(is_late).for_each(|claim| claim.waiting.clear());
        self.finish_claims(now);
    }

    /// Ends the claims that every process has answered.
    pub(super) fn finish_claims(&mut self, now: Instant) {
        if now < self.settled_at {
            return;
        }
        let is_over = |(number, claim): (&u64, &Claim)| claim.waiting.is_empty().then_some(*number);
        let over: Vec<u64> = self.claims.iter().filter_map(is_over).collect();
        for number in over {
            let Some(claim) = self.claims.remove(&number) else { continue };
            for topic in claim.topics {
                let is_claimed = |entry: &Topic| entry.claim == Some(number);
                if self.topics.get(&topic).is_some_and(|entry| is_claimed(entry)) {
                    self.own(now, &topic);
                }
            }
        }
        if self.claims.is_empty() {
            self.send_unclaimed(now);
        }
    }

    fn own(&mut self, now: Instant, topic: &Arc<str>) {
        if self.owner_of(topic) != self.me {
            self.topics.get_mut(topic).expect("the topic was claimed").claim = None;
            return self.release_topic(now, topic);
        }
        let epoch = self.random_epoch();
        let me = self.me;
        let entry = self.topics.get_mut(topic).expect("the topic was claimed");
        (entry.claim, entry.owner, entry.epoch) = (None, Some(me), epoch);
        let is_new = entry.log.is_none() || entry.is_diverged;
        if entry.is_diverged {
            self.totals.diverged_logs += 1;
            self.outputs.push_back(Output::Reset { topic: topic.clone() });
        }
        match &entry.log {
            Some(log) if entry.is_diverged => entry.log = Some(log.restarted(epoch)),
            Some(_) => {}
            None => entry.log = Some(Log::new(epoch)),
        }
        entry.is_diverged = false;
        if is_new || entry.has_changed {
            let image = entry.log.as_ref().expect("it has a log").image(now, None);
            let packet = Packet::Log { topic: (**topic).into(), is_owner: true, image };
            self.outputs.push_back(Output::Publish { topic: topic.clone(), packet });
            self.is_ready = true;
        }
        self.topics.get_mut(topic).expect("it was found").deputy = None;
        self.appoint_deputy(topic);
        self.count(topic);
        self.release_topic(now, topic);
    }

    /// Asks another process to keep a copy of a log, once it has a first message.
    pub(super) fn appoint_deputy(&mut self, topic: &Arc<str>) {
        let (_, deputy) = self.ranked(topic);
        let entry = self.topics.get_mut(topic).expect("it is owned");
        let is_blank = entry.log.as_ref().is_none_or(Log::is_blank);
        if entry.deputy != deputy && !is_blank {
            entry.deputy = deputy;
            if let Some(deputy) = deputy {
                self.send(deputy, Packet::Keep { topic: (**topic).into() });
            }
        }
    }

    fn random_epoch(&mut self) -> u64 {
        self.rng.next_u64() & EPOCH_MASK
    }
}
