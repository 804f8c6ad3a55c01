//! Copies: how the log of each process with subscribers follows the log of the owner.
//!
//! The owner sends each message with the position before it ([`Packet::Append`]). A process takes a
//! message only if its own log ends there. A link that broke, or a subscription that began meanwhile,
//! leaves a gap: then the process asks the owner for the whole log, once in [`WANT_INTERVAL`], and
//! delivers what is new to its subscribers. If the new log does not contain the old end, subscribers have
//! missed messages, and their channels end ([`Output::Reset`]).
//!
//! A copy exists while its process subscribes to the topic, because only then the owner sends it
//! anything. The deputy subscribes for this reason, also without clients.

use std::collections::BTreeSet;
use std::time::Duration;

use watchfire_types::{Instant, NodeId};

use super::sweep::IDLE_PERIOD;
use super::{Environment, Output, Replicas};
use crate::history::log::{Bounds, Comparison, Log, Message, Origin};
use crate::history::packet::Packet;
use crate::history::position::Position;

/// The time between two requests for the same log.
const WANT_INTERVAL: Duration = Duration::from_millis(300);

impl<E: Environment> Replicas<E> {
    /// Writes a message as the owner, unless it is in the log already. Returns its position.
    pub(super) fn append(
        &mut self,
        now: Instant,
        topic: &str,
        origin: Origin,
        message: Message,
    ) -> Option<Position> {
        // A topic whose history was switched off everywhere: its messages are still delivered.
        let bounds = self.environment.bounds(topic).unwrap_or(Bounds::NOTHING);
        let (topic, entry) = self.topics.get_key_value(topic).expect("an owner has a log");
        let (topic, epoch) = (topic.clone(), entry.epoch);
        let entry = self.topics.get_mut(&topic).expect("it was found");
        let log = entry.log.as_mut().expect("an owner has a log");
        if log.has(origin) {
            self.tell_origin(&topic, origin);
            return None;
        }
        let (after, was_blank) = (log.position(), log.is_blank());
        log.note_origin(origin);
        let position = log.push(now, &bounds, epoch, message.clone());
        let was_idle = now.since(entry.used_at) > IDLE_PERIOD / 2;
        entry.used_at = now;
        if was_idle || was_blank {
            // There is no deputy yet, or it may have dropped its copy.
            entry.deputy = None;
            self.appoint_deputy(&topic);
        }
        self.count(&topic);
        let packet = Packet::Append {
            topic: (*topic).into(),
            after,
            epoch,
            origin,
            message: message.clone(),
        };
        self.outputs.push_back(Output::Publish { topic: topic.clone(), packet });
        self.outputs.push_back(Output::Deliver { topic, after, position, message });
        Some(position)
    }

    pub(super) fn receive_append(
        &mut self,
        now: Instant,
        from: NodeId,
        topic: &str,
        after: Position,
        (epoch, origin): (u64, Origin),
        message: Message,
    ) {
        if self.is_owner(topic) || !self.environment.is_subscribed(topic) {
            return;
        }
        let Some(bounds) = self.environment.bounds(topic) else {
            // This process does not know yet that the topic has a history. Its subscribers get the
            // message as any other.
            if origin.incarnation == self.incarnation {
                self.confirm(topic, |sent| sent == origin.number);
            }
            let position = Position { epoch, offset: after.offset.saturating_add(1) };
            let topic = topic.into();
            self.outputs.push_back(Output::Deliver { topic, after, position, message });
            return;
        };
        let entry = self.entry(now, topic);
        let Some(log) = entry.log.as_mut().filter(|log| log.position() == after) else {
            let position = Position { epoch, offset: after.offset.saturating_add(1) };
            if !entry.log.as_ref().is_some_and(|log| log.contains(position)) {
                self.want(now, topic, from);
            }
            return;
        };
        log.note_origin(origin);
        let position = log.push(now, &bounds, epoch, message.clone());
        (entry.owner, entry.used_at) = (Some(from), now);
        let is_deputy = entry.is_kept;
        self.count(topic);
        if origin.incarnation == self.incarnation {
            self.confirm(topic, |sent| sent == origin.number);
        } else if is_deputy {
            self.tell_origin(topic, origin);
        }
        self.outputs.push_back(Output::Deliver { topic: topic.into(), after, position, message });
    }

    /// Another process is subscribed to a topic now.
    pub fn introduce_to(&mut self, now: Instant, node: NodeId, topic: &str) {
        let Some(entry) = self.topics.get(topic) else { return };
        let is_owner = entry.owner == Some(self.me);
        if let Some(log) = &entry.log
            && (is_owner || entry.owner.is_none())
        {
            let image = log.image(now, None);
            self.send(node, Packet::Log { topic: topic.into(), is_owner, image });
        }
    }

    pub(super) fn want(&mut self, now: Instant, topic: &str, from: NodeId) {
        let entry = self.entry(now, topic);
        if entry.wanted_at.is_none_or(|at| now.since(at) >= WANT_INTERVAL) {
            entry.wanted_at = Some(now);
            self.send(from, Packet::Want { topic: topic.into() });
        }
    }

    pub(super) fn receive_log(
        &mut self,
        now: Instant,
        from: NodeId,
        topic: &str,
        is_owner: bool,
        log: Log,
    ) {
        if self.environment.bounds(topic).is_none() {
            return;
        }
        let me = self.me;
        let entry = self.entry(now, topic);
        entry.wanted_at = None;
        let is_mine = entry.owner == Some(me);
        let comparison = match &entry.log {
            Some(known) => known.compare(&log),
            None => Comparison::Newer,
        };
        match comparison {
            Comparison::Newer | Comparison::Diverged if is_mine => {
                // A process that responded too late to the claim. Claim again, with its log.
                entry.owner = None;
                self.claim(now, vec![topic.into()]);
                self.merge(topic, log, comparison);
                self.finish_claims(now);
            }
            _ if entry.claim.is_some() => self.merge(topic, log, comparison),
            Comparison::Diverged | Comparison::Older if is_owner && !is_mine => {
                // The owner has not seen messages that this process has: it has to know.
                let image = entry.log.as_ref().map(|known| known.image(now, None));
                entry.owner = Some(from);
                if comparison == Comparison::Diverged {
                    entry.log = Some(log);
                    self.outputs.push_back(Output::Reset { topic: topic.into() });
                }
                if let Some(image) = image {
                    self.send(from, Packet::Log { topic: topic.into(), is_owner: false, image });
                }
            }
            Comparison::Newer => {
                entry.owner = is_owner.then_some(from);
                self.extend(topic, log);
            }
            Comparison::Same if is_owner && !is_mine => entry.owner = Some(from),
            Comparison::Same | Comparison::Older | Comparison::Diverged => {}
        }
        self.count(topic);
        if self.sending.contains(topic)
            && let Some(log) = self.log(topic)
        {
            let numbers: BTreeSet<u64> = log.numbers_of(self.incarnation).collect();
            self.confirm(topic, |sent| numbers.contains(&sent));
        }
    }

    /// Joins a log with the log of this process, which claims the topic.
    fn merge(&mut self, topic: &str, log: Log, comparison: Comparison) {
        let entry = self.topics.get_mut(topic).expect("the topic is claimed");
        match comparison {
            Comparison::Same => {}
            Comparison::Older => entry.has_changed = true, // The sender lacks messages.
            Comparison::Newer => {
                entry.has_changed = true;
                self.extend(topic, log);
            }
            Comparison::Diverged => entry.is_diverged = true,
        }
    }

    /// Takes a log that continues this process's one, and delivers what is new.
    fn extend(&mut self, topic: &str, newer: Log) {
        let entry = self.topics.get_mut(topic).expect("the caller has found it");
        self.is_ready = true;
        let Some(log) = entry.log.as_mut() else {
            entry.log = Some(newer);
            return;
        };
        let mut after = log.position();
        let new = match newer.contains(after) {
            true => log.extend(newer),
            false => {
                *log = newer;
                None
            }
        };
        let Some(new) = new else {
            self.outputs.push_back(Output::Reset { topic: topic.into() });
            return;
        };
        for (position, message) in new {
            self.outputs.push_back(Output::Deliver {
                topic: topic.into(),
                after,
                position,
                message,
            });
            after = position;
        }
    }

    /// This process is no longer subscribed to a topic, so its copy of another's log becomes outdated.
    pub fn forget(&mut self, topic: &str) {
        if let Some(entry) = self.topics.get_mut(topic)
            && entry.owner.is_some_and(|owner| owner != self.me)
        {
            entry.log = None;
            entry.owner = None;
            self.count(topic);
            self.remove_if_unused(topic);
        }
    }
}
