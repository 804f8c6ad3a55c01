//! Joins that wait until this process knows what the other processes know of the topic.
//!
//! A topic's first subscriber here makes the process hear of it. Until every other process has
//! said what it knows, the join stays unanswered: then whoever is answered misses nothing that is
//! sent afterwards, and finds on the boards everyone who is there. What its client says meanwhile
//! is heard afterwards, so that answers come in the order of the questions.

use std::collections::VecDeque;

use channels::{JoinRef, Message};
use edge::Sockets;
use hub::SubscriptionId;

use super::Shard;
use super::client::{Joining, Tenancy, Transport};
use crate::app::ChannelAddress;

/// What a client may say while its join waits, in bytes. Over it, its socket is closed with 1013,
/// its session ended: nobody types so fast.
const UNHEARD_BYTES_MAX: usize = 1 << 20;
/// What one message takes beside its bytes.
const UNHEARD_OVERHEAD_BYTES: usize = 64;
/// Try again later: what a client that floods us is closed with.
const TRY_AGAIN_LATER: u16 = 1013;

/// A message that was not heard yet.
pub(super) enum Unheard {
    Text(Box<str>),
    Binary(Box<[u8]>),
}

impl Unheard {
    fn cost(&self) -> usize {
        UNHEARD_OVERHEAD_BYTES
            + match self {
                Unheard::Text(text) => text.len(),
                Unheard::Binary(bytes) => bytes.len(),
            }
    }
}

/// What one client said while its join waits.
#[derive(Default)]
pub(super) struct Backlog {
    messages: VecDeque<Unheard>,
    bytes: usize,
}

impl Shard {
    /// Whether a join of this client waits.
    pub(super) fn waits(&self, key: u32) -> bool {
        !self.unheard.is_empty() && self.unheard.contains_key(&key)
    }

    /// Keep a message until the client's join is through.
    pub(super) fn hear_later(&mut self, sockets: &mut Sockets, key: u32, message: Unheard) {
        let backlog = self.unheard.entry(key).or_default();
        backlog.bytes += message.cost();
        if backlog.bytes <= UNHEARD_BYTES_MAX {
            return backlog.messages.push_back(message);
        }
        self.world.metrics.refused("said_while_joining");
        match self.clients[key as usize].transport {
            Transport::WebSocket(socket) => {
                sockets.close(socket, TRY_AGAIN_LATER, "too much was said while a join waits");
            }
            Transport::LongPoll(_) => self.end_session(sockets, key),
        }
    }

    /// Hear what a client said while its join waited, until the next one waits.
    fn hear_backlog(&mut self, sockets: &mut Sockets, key: u32, backlog: Backlog) {
        let mut messages = backlog.messages;
        while !self.waits(key)
            && let Some(message) = messages.pop_front()
        {
            match message {
                Unheard::Text(text) => self.hear_text(sockets, key, &text),
                Unheard::Binary(bytes) => self.hear_binary(sockets, key, &bytes),
            }
        }
        // A client that is gone by now has nothing left to wait for.
        if let Some(again) = self.unheard.get_mut(&key) {
            again.bytes += messages.iter().map(Unheard::cost).sum::<usize>();
            messages.append(&mut again.messages);
            again.messages = messages;
        }
    }

    /// The others are asked what they know of the topic: the join goes on when that is here.
    pub(super) fn enter_later(
        &mut self,
        id: SubscriptionId,
        awaited: u64,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        let address = self.address(id);
        let slot = self.slot_mut(id);
        let Tenancy::Channel(channel) = std::mem::take(&mut slot.tenant) else {
            unreachable!("a channel has just subscribed")
        };
        slot.tenant = Tenancy::Joining(Box::new(Joining {
            channel,
            join_ref: message.join_ref.clone(),
            reference: message.reference.clone(),
            payload: message.payload.into(),
            old,
        }));
        self.joining.push_back((awaited, address));
        self.unheard.entry(self.hub.client_of(id)).or_default();
    }

    /// Go on with the joins whose topics are ready.
    pub(super) fn enter_ready(&mut self, sockets: &mut Sockets) {
        let up_to = self.world.cluster.ready_up_to();
        while let Some((_, address)) = self.joining.pop_front_if(|(number, _)| *number <= up_to) {
            let slot = &mut self.slots[address.subscription];
            // The client may have left, or joined once more, while it waited.
            if slot.serial != address.serial || !matches!(slot.tenant, Tenancy::Joining(_)) {
                continue;
            }
            let Tenancy::Joining(joining) = std::mem::take(&mut slot.tenant) else { continue };
            let Joining { channel, join_ref, reference, payload, old } = *joining;
            slot.tenant = Tenancy::Channel(channel);
            let topic = self.hub.topic_of(address.subscription).to_owned();
            let message = Message {
                join_ref,
                reference,
                topic: topic.into(),
                event: channels::event::JOIN.into(),
                payload: payload.as_payload(),
            };
            let key = self.hub.client_of(address.subscription);
            let backlog = self.unheard.remove(&key).unwrap_or_default();
            self.enter(sockets, address.subscription, &message, old);
            self.hear_backlog(sockets, key, backlog);
        }
    }

    /// What a topic still waits for that an earlier subscriber made known.
    pub(super) fn awaited(&self, topic: &str) -> Option<u64> {
        let up_to = self.world.cluster.ready_up_to();
        let waits = |&(number, address): &(u64, ChannelAddress)| {
            let is_there = self.slots[address.subscription].serial == address.serial;
            let waits = is_there && number > up_to;
            (waits && self.hub.topic_of(address.subscription) == topic).then_some(number)
        };
        self.joining.iter().find_map(waits)
    }
}
