//! A client of a shard, and the records of its subscriptions.

use std::net::IpAddr;

use watchfire_channels::{JoinRef, Message, Ref, Serializer};
use watchfire_hub::{PresenceOwner, SubscriptionId, Subscriptions};
use watchfire_sockets::{Handshake, Sockets};
use watchfire_types::{Instant, SocketId};

use super::connect_rules::{ConnectQuestion, ConnectRefusal};
use super::process_state::ProcessState;
use super::session::Session;
use crate::addresses::CountedAddress;
use crate::channel_api::{Body, Connected, Guest, SocketData, StateId};
use crate::settings::Limits;

/// Data from a request's head that [`super::ServerShard`] needs when the connection is opened or parked.
pub(crate) enum Ticket {
    WebSocket {
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
    },
    /// A WebSocket, or an event stream, that the backend decides about.
    Connecting(Box<ConnectTicket>),
    /// A request for an event stream: of a client, or of one that may not connect.
    Stream(Box<Result<StreamTicket, ConnectRefusal>>),
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

/// A request that waits for the backend's decision about its client.
pub(crate) struct ConnectTicket {
    pub opening: Opening,
    pub connected: Connected,
    pub counted: CountedAddress,
    pub question: ConnectQuestion,
}

/// A client that a request opens when the backend allows it.
pub(crate) enum Opening {
    WebSocket { handshake: Handshake, serializer: Serializer },
    Stream(StreamJoin),
}

/// A request for an event stream, whose client may connect.
pub(crate) struct StreamTicket {
    pub join: StreamJoin,
    pub connected: Connected,
    /// Released if the request is not parked, because it has a body or the server drains.
    pub counted: CountedAddress,
}

/// The join of an event stream, which is the only message of its client.
pub(crate) struct StreamJoin {
    pub topic: String,
    pub payload: String,
}

/// A client: an open WebSocket, a long-poll session or an event stream.
pub(super) struct Client {
    pub transport: Transport,
    pub subscriptions: Subscriptions,
    pub rates: RateLimits,
    pub serializer: Serializer,
    /// How many clients had this client's key before.
    pub generation: u32,
    /// `None` for a client without an id, data and a counted address, as most are.
    pub details: Option<Box<ConnectionDetails>>,
}

impl Client {
    /// Whether the client is removed at the end of this call of the event loop: its session has
    /// ended.
    pub fn is_ending(&self) -> bool {
        match &self.transport {
            Transport::LongPoll(session) => session.is_ending(),
            Transport::WebSocket(_) | Transport::Events(_) => false,
        }
    }

    /// `None`: the client is not a guest.
    pub fn guest(&self) -> Option<&dyn Guest> {
        self.details.as_ref()?.data.as_ref()?.guest.as_deref()
    }

    /// The address that the client counts against.
    pub fn counted(&self) -> Option<IpAddr> {
        self.details.as_ref()?.counted
    }

    /// Whether the client has to read before it gets the state of another topic.
    pub fn is_crowded(&self, limits: &Limits, sockets: &Sockets) -> bool {
        match &self.transport {
            Transport::WebSocket(socket) | Transport::Events(socket) => {
                sockets.queued_bytes(*socket) > limits.queued_bytes_max as usize / 2
            }
            Transport::LongPoll(session) => {
                session.state.queued_bytes() > limits.longpoll_bytes_max / 2
            }
        }
    }

    /// Whether publishers to the client should wait until it has read.
    pub fn is_awaited(&self, shared: &ProcessState, sockets: &Sockets) -> bool {
        match &self.transport {
            Transport::WebSocket(socket) | Transport::Events(socket) => sockets.is_awaited(*socket),
            Transport::LongPoll(session) => session.is_awaited(shared, sockets),
        }
    }
}

/// The transport of a client's messages.
pub(super) enum Transport {
    WebSocket(SocketId),
    LongPoll(Box<Session>),
    /// Server-sent events of one topic. Its request is parked until the join is accepted.
    Events(SocketId),
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

/// A channel whose join waits: until the other processes have sent their state of the topic, until its
/// client has read, or until its channel continues it.
pub(super) struct Joining {
    pub channel: JoinedChannel,
    pub join: WaitingJoin,
}

/// The message of a join that waits.
pub(super) struct WaitingJoin {
    pub join_ref: Ref,
    pub reference: Ref,
    pub payload: Body,
    /// Whether the client's other messages wait too.
    pub delays_client: bool,
    /// The earlier join that this one replaces, and that is closed after the reply.
    pub old: Option<JoinRef>,
    pub arrived: Instant,
}

impl WaitingJoin {
    /// The message as it came from the client.
    pub fn message<'a>(&'a self, topic: &'a str) -> Message<'a> {
        Message {
            join_ref: self.join_ref.clone(),
            reference: self.reference.clone(),
            topic: topic.into(),
            event: watchfire_channels::event::JOIN.into(),
            payload: self.payload.as_payload(),
        }
    }
}

/// A client's join to a topic.
pub(super) struct JoinedChannel {
    pub join_ref: JoinRef,
    pub presence: PresenceOwner,
    /// `None` while a callback runs, and until the join is accepted.
    pub state: Option<StateId>,
}

impl SubscriptionRecord {
    /// The channel that uses the subscription.
    pub fn channel_mut(&mut self) -> &mut JoinedChannel {
        match &mut self.used_by {
            Use::Channel(channel) => channel,
            _ => unreachable!("a channel uses the subscription"),
        }
    }

    /// Lets the join of the channel wait.
    pub fn begin_wait(&mut self, join: WaitingJoin) {
        let Use::Channel(channel) = std::mem::take(&mut self.used_by) else {
            unreachable!("the channel has subscribed, and is not joined")
        };
        self.used_by = Use::Joining(Box::new(Joining { channel, join }));
    }

    /// Ends the wait of the join. `None`: no join waits.
    pub fn end_wait(&mut self) -> Option<WaitingJoin> {
        let used_by = std::mem::take(&mut self.used_by);
        let Use::Joining(joining) = used_by else {
            self.used_by = used_by;
            return None;
        };
        self.used_by = Use::Channel(joining.channel);
        Some(joining.join)
    }
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
