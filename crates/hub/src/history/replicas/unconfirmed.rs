//! Messages that are not safe yet: they wait for an owner, or only the owner may have them.
//!
//! # The faults without it
//!
//! Process 3 publishes a message on a topic of process 2, and process 2 writes it as number 18. Then
//! process 2 ends, before any other process has received it. The publisher was answered, the message is
//! in no log, and no client of another process ever gets it. Or process 2 has ended already, and the
//! claim of the next owner takes two seconds: at 1,000 messages a second, 2,000 messages have nowhere to
//! go.
//!
//! # The kept messages
//!
//! - *Sent*: a process keeps each message that it published and sent to an owner, until it learns that a
//!   second process has it. It learns that from the message itself, which comes back if it subscribes to
//!   the topic; from [`Packet::Published`] of the deputy; or from a log that arrives and has it. When any
//!   process ends, every kept message is sent to the present owner of its topic again. Otherwise that
//!   happens after [`RESEND_PERIOD`].
//! - *Held*: a message without an owner waits here, in order, and later messages of the topic wait behind
//!   it. Each tick, and each change of an owner, publishes what can be published.
//!
//! In the example, process 3 still has the message when process 2 ends, and sends it to process 1. That
//! one has claimed the topic with 17 messages, and writes it as number 18 of its own epoch. A client of
//! process 2 that has seen the first number 18 has a position in an epoch that ended at 17. When it
//! reconnects, it is told that its position is unknown, instead of getting the message twice.
//!
//! A message that is sent twice is written once: a log remembers the [`Origin`] of its last 256
//! messages, which is the node, the incarnation of the process, and the number of the message there.
//!
//! # Bounds
//!
//! - Held messages: [`HELD_BYTES_MAX`] together, and [`HELD_PERIOD`] for each. Beyond, a message is
//!   dropped, and `Totals::dropped_publishes` counts it.
//! - Sent messages: [`SENT_BYTES_MAX`] together, which are 80,000 messages of 200 bytes. Beyond, a
//!   message is sent as ever but not kept, so it is lost if its owner ends first.
//! - A message that is sent again after 256 later ones of its topic were written is written twice. The
//!   confirmation must be late by [`RESEND_PERIOD`] for that, or a process must have ended.
//! - A message whose publisher and owner end together may be lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use watchfire_types::{Instant, NodeId};

use super::{Environment, Replicas};
use crate::history::log::{Message, Origin};
use crate::history::packet::Packet;

/// How long a message waits for an owner. Then it is dropped and counted.
const HELD_PERIOD: Duration = Duration::from_secs(10);
/// The bytes of all messages that wait for an owner. A further one is dropped and counted.
const HELD_BYTES_MAX: usize = 16 << 20;
/// The bytes of all messages that were sent to an owner and are not confirmed. A further one is lost if
/// its owner ends before another process has it.
const SENT_BYTES_MAX: usize = 16 << 20;
/// How long a message waits for its confirmation before it is sent again.
pub(super) const RESEND_PERIOD: Duration = Duration::from_secs(3);

impl<E: Environment> Replicas<E> {
    /// Takes back a message that the driver could not send to its owner.
    pub fn hold(&mut self, now: Instant, topic: &str, origin: Origin, message: Message) {
        let bytes = message.len();
        if self.held_bytes + bytes > HELD_BYTES_MAX {
            self.totals.dropped_publishes += 1;
            return;
        }
        self.held_bytes += bytes;
        let entry = self.entry(now, topic);
        entry.held.push_back((now, origin, message));
        self.holding.insert(topic.into());
    }

    /// Publishes messages that waited for an owner.
    pub(super) fn release(&mut self, now: Instant) {
        for topic in self.holding.clone() {
            self.release_topic(now, &topic);
        }
    }

    pub(super) fn release_topic(&mut self, now: Instant, topic: &Arc<str>) {
        let owner = self.owner_of(topic);
        let Some(entry) = self.topics.get_mut(topic) else { return };
        while entry.held.front().is_some_and(|(at, ..)| now.since(*at) > HELD_PERIOD) {
            let (.., message) = entry.held.pop_front().expect("it was found");
            self.held_bytes -= message.len();
            self.totals.dropped_publishes += 1;
        }
        if entry.held.is_empty() {
            self.holding.remove(topic);
            return;
        }
        let is_owner = entry.owner == Some(self.me);
        if owner == self.me && !is_owner {
            return self.claim(now, vec![topic.clone()]);
        }
        let held = std::mem::take(&mut entry.held);
        self.holding.remove(topic);
        for (_, origin, message) in held {
            self.held_bytes -= message.len();
            if owner == self.me {
                self.append(now, topic, origin, message);
            } else {
                self.send_to_owner(now, topic, owner, origin, message);
            }
        }
    }

    /// Sends a message to the owner. If this process published it, it stays here until another process
    /// than the owner has it.
    pub(super) fn send_to_owner(
        &mut self,
        now: Instant,
        topic: &str,
        owner: NodeId,
        origin: Origin,
        message: Message,
    ) {
        let bytes = message.len();
        if origin.incarnation == self.incarnation && self.sent_bytes + bytes <= SENT_BYTES_MAX {
            self.sent_bytes += bytes;
            let entry = self.entry(now, topic);
            entry.sent.push_back((now, origin.number, message.clone()));
            self.sending.insert(topic.into());
        }
        self.send(owner, Packet::Publish { topic: topic.into(), origin, message });
    }

    /// Tells the process that published a message that it is not lost if one process ends.
    pub(super) fn tell_origin(&mut self, topic: &str, origin: Origin) {
        let Origin { node, incarnation, number } = origin;
        if incarnation == self.incarnation {
            self.confirm(topic, |sent| sent == number);
        } else if self.up.contains(&NodeId(node)) {
            self.send(NodeId(node), Packet::Published { topic: topic.into(), number });
        }
    }

    /// Another process than the owner has these messages of this process.
    pub(super) fn confirm(&mut self, topic: &str, is_confirmed: impl Fn(u64) -> bool) {
        let Some(entry) = self.topics.get_mut(topic).filter(|entry| !entry.sent.is_empty()) else {
            return;
        };
        let sent_bytes = &mut self.sent_bytes;
        entry.sent.retain(|(_, number, message)| {
            let is_done = is_confirmed(*number);
            *sent_bytes -= if is_done { message.len() } else { 0 };
            !is_done
        });
        if entry.sent.is_empty() {
            // After a burst, the memory is given back.
            entry.sent = VecDeque::new();
            let has_log = entry.log.is_some();
            self.sending.remove(topic);
            // A process that only publishes to a topic keeps nothing of it.
            if !has_log {
                self.remove_if_unused(topic);
            }
        }
    }

    /// Sends the messages again that were sent this long ago, and are not confirmed.
    pub(super) fn send_again(&mut self, now: Instant, after: Duration) {
        for topic in self.sending.clone() {
            let Some(entry) = self.topics.get_mut(&topic) else { continue };
            let is_due = entry.sent.front().is_some_and(|(at, ..)| now.since(*at) >= after);
            if !is_due {
                continue;
            }
            let sent = std::mem::take(&mut entry.sent);
            self.sending.remove(&topic);
            // Before those that wait already.
            let later = std::mem::take(&mut entry.held);
            for (_, number, message) in sent {
                self.sent_bytes -= message.len();
                let origin = Origin { node: self.me.0, incarnation: self.incarnation, number };
                self.route(now, &topic, origin, message);
            }
            let entry = self.topics.get_mut(&topic).expect("a topic with messages stays");
            if !later.is_empty() {
                entry.held.extend(later);
                self.holding.insert(topic.clone());
            }
        }
    }
}
