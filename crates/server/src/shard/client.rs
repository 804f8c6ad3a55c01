//! A client of a shard, and the records of its subscriptions.

use std::net::IpAddr;

use watchfire_channels::{JoinRef, Ref, Serializer};
use watchfire_hub::{PresenceOwner, SubscriptionId, Subscriptions};
use watchfire_sockets::Handshake;
use watchfire_types::{Instant, SocketId};

use super::connect_rules::ConnectQuestion;
use super::session::Session;
use crate::addresses::CountedAddress;
use crate::channel_api::{Body, Connected, SocketData, StateId};
use crate::settings::Limits;

/// Data from a request's head that [`super::Shard`] needs when the connection is opened or parked.
pub(crate) enum Ticket {
    WebSocket {
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
    },
    /// A WebSocket that the backend decides about.
    Connecting(Box<ConnectTicket>),
    /// A poll of a long-poll session.
    Poll {
        session: u32,
    },
    /// A request that a feature answers.
    Answered {
        name: Box<str>,
    },
    /// A request that a feature parks.
    Parked {
        name: Box<str>,
        client: u64,
    },
}

/// An upgrade request that waits for the backend's decision.
pub(crate) struct ConnectTicket {
    pub handshake: Handshake,
    pub serializer: Serializer,
    pub connected: Connected,
    pub counted: CountedAddress,
    pub question: ConnectQuestion,
}

/// A client: an open WebSocket or a long-poll session.
pub(super) struct Client {
    pub transport: Transport,
    pub subscriptions: Subscriptions,
    pub rates: RateLimits,
    pub serializer: Serializer,
    /// How many clients had this client's key before.
    pub generation: u32,
    /// `None` for a client without an id, assigns and a counted address, as most are.
    pub details: Option<Box<ConnectionDetails>>,
}

impl Client {
    /// Whether the client is removed at the end of this call of the event loop: its session has
    /// ended.
    pub fn is_ending(&self) -> bool {
        match &self.transport {
            Transport::LongPoll(session) => session.is_ending(),
            Transport::WebSocket(_) => false,
        }
    }
}

/// The transport of a client's messages.
pub(super) enum Transport {
    WebSocket(SocketId),
    LongPoll(Box<Session>),
}

/// Details of a client from its request to connect.
pub(super) struct ConnectionDetails {
    pub data: Option<Box<SocketData>>,
    /// The subscription to the topic of the socket's id.
    pub id: Option<SubscriptionId>,
    /// The address that the client counts against.
    pub counted: Option<IpAddr>,
}

/// Counts of a client's messages and joins in the current second.
#[derive(Clone, Copy, Default)]
pub(super) struct RateLimits {
    second: u32,
    messages: u16,
    joins: u16,
}

impl RateLimits {
    /// Counts one message or join. Returns whether it is within the limits of this second.
    pub fn spend(&mut self, now: Instant, is_join: bool, limits: &Limits) -> bool {
        let second = now.as_secs() as u32;
        if second != self.second {
            *self = RateLimits { second, messages: 0, joins: 0 };
        }
        let (spent, max) = if is_join {
            (&mut self.joins, limits.joins_per_second_per_socket)
        } else {
            (&mut self.messages, limits.messages_per_second_per_socket)
        };
        let within = *spent < max;
        *spent += u16::from(within);
        within
    }
}

/// The shard's record of one subscription of the hub.
#[derive(Default)]
pub(super) struct SubscriptionRecord {
    /// How often the subscription's index was used before.
    pub serial: u32,
    /// The number of the application's channel, when a channel uses the subscription.
    pub number: u16,
    pub used_by: Use,
}

/// The use of a subscription.
#[derive(Default)]
pub(super) enum Use {
    /// Nothing: the index is free.
    #[default]
    Free,
    /// A joined channel.
    Channel(JoinedChannel),
    /// A channel whose join waits. It gets no broadcasts.
    Joining(Box<Joining>),
    /// The id of a socket. A broadcast to this topic closes the socket.
    SocketId,
}

/// A join that waits: until the other processes have sent their state of the topic, or until its
/// channel continues it.
pub(super) struct Joining {
    pub channel: JoinedChannel,
    /// The refs and the payload of the join.
    pub join_ref: Ref,
    pub reference: Ref,
    pub payload: Body,
    /// Whether the client's other messages wait too.
    pub delays_client: bool,
    /// The earlier join that this one replaces, and that is closed after the reply.
    pub old: Option<JoinRef>,
    pub arrived: Instant,
}

/// A client's join to a topic.
pub(super) struct JoinedChannel {
    pub join_ref: JoinRef,
    pub presence: PresenceOwner,
    /// `None` while a callback runs, and until the join is accepted.
    pub state: Option<StateId>,
}

/// The topic for a socket's id, which no client can join.
pub(super) fn id_topic(id: &str) -> String {
    format!("\0{id}")
}

/// The id of a socket, from its topic.
pub(super) fn id_of_topic(topic: &str) -> &str {
    topic.strip_prefix('\0').unwrap_or(topic)
}

/// Whether a topic of the hub is the topic of a socket's id.
pub(super) fn is_id_topic(topic: &str) -> bool {
    topic.starts_with('\0')
}

const _: () = assert!(size_of::<Client>() <= 48, "the record of a client grew");
const _: () = assert!(size_of::<SubscriptionRecord>() <= 32, "the record of a joined channel grew");

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rate_limits_apply_to_each_second_separately() {
        let limits = Limits { joins_per_second_per_socket: 2, ..Limits::default() };
        let mut rates = RateLimits::default();
        let now = Instant::ZERO + Duration::from_secs(7);
        assert!(rates.spend(now, true, &limits));
        assert!(rates.spend(now, true, &limits));
        assert!(!rates.spend(now, true, &limits));
        assert!(rates.spend(now, false, &limits));
        assert!(rates.spend(now + Duration::from_secs(1), true, &limits));
    }
}
