use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use channels::{JoinRef, Ref, Serializer};
use hub::{PresenceOwner, SubscriptionId, Subscriptions};
use vocab::{Instant, SocketId};

use super::longpoll::Session;
use crate::app::{Body, StateId};
use crate::settings::Limits;

/// A client of this shard: one per open websocket and per long-poll session.
pub(super) struct Client {
    pub transport: Transport,
    pub subscriptions: Subscriptions,
    pub allowance: Allowance,
    pub serializer: Serializer,
    /// How many clients its key has had before.
    pub generation: u32,
    /// Absent for a client that needs none of it, as most do.
    pub admission: Option<Box<Admission>>,
}

/// What carries a client's messages.
pub(super) enum Transport {
    WebSocket(SocketId),
    LongPoll(Box<Session>),
}

/// What was settled when the client connected.
pub(super) struct Admission {
    pub assigns: Option<Arc<dyn Any + Send + Sync>>,
    /// The subscription that stands for the socket's id.
    pub id: Option<SubscriptionId>,
    /// The address that this client counts against.
    pub counted: Option<IpAddr>,
}

/// How much a client has said in the current second.
#[derive(Clone, Copy, Default)]
pub(super) struct Allowance {
    second: u32,
    messages: u16,
    joins: u16,
}

impl Allowance {
    /// May the client say one more thing in this second?
    pub fn spend(&mut self, now: Instant, is_join: bool, limits: &Limits) -> bool {
        let second = now.as_secs() as u32;
        if second != self.second {
            *self = Allowance { second, messages: 0, joins: 0 };
        }
        let (spent, max) = if is_join {
            (&mut self.joins, limits.joins_per_second_max)
        } else {
            (&mut self.messages, limits.messages_per_second_max)
        };
        let within = *spent < max;
        *spent += u16::from(within);
        within
    }
}

/// One subscription's slot, beside the hub's own record of it.
#[derive(Default)]
pub(super) struct Slot {
    /// How many tenants the slot has had before this one.
    pub serial: u32,
    /// Which of the application's channels answers for it, if it is a channel's.
    pub number: u16,
    pub tenant: Tenancy,
}

/// What a subscription is for.
#[derive(Default)]
pub(super) enum Tenancy {
    #[default]
    Vacant,
    /// A joined channel.
    Channel(JoinedChannel),
    /// A channel that is not joined yet: nothing is delivered to it.
    Joining(Box<Joining>),
    /// The id of a whole socket: what is broadcast there closes it.
    SocketId,
}

/// A join that waits until this process knows what the others know of the topic.
pub(super) struct Joining {
    pub channel: JoinedChannel,
    /// The join's own refs and payload.
    pub join_ref: Ref,
    pub reference: Ref,
    pub payload: Body,
    /// The join that this one follows, which is to be closed after its reply.
    pub old: Option<JoinRef>,
}

/// One client joined to one topic.
pub(super) struct JoinedChannel {
    pub join_ref: JoinRef,
    pub presence: PresenceOwner,
    /// Absent while a callback has it, and before the join is through.
    pub state: Option<StateId>,
}

const _: () = assert!(size_of::<Client>() <= 48, "a client's record grew");
const _: () = assert!(size_of::<Slot>() <= 32, "a channel's record grew");

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_allowance_is_whole_again_in_the_next_second() {
        let limits = Limits { joins_per_second_max: 2, ..Limits::default() };
        let mut allowance = Allowance::default();
        let now = Instant::ZERO + Duration::from_secs(7);
        assert!(allowance.spend(now, true, &limits));
        assert!(allowance.spend(now, true, &limits));
        assert!(!allowance.spend(now, true, &limits));
        assert!(allowance.spend(now, false, &limits));
        assert!(allowance.spend(now + Duration::from_secs(1), true, &limits));
    }
}
