//! The connections of a shard as an operator sees them.

use std::net::IpAddr;
use std::time::Duration;

use watchfire_channels::longpoll::Status;
use watchfire_sockets::{ConnectionState, ConnectionView, Sockets, TcpInfo};
use watchfire_tracker::network_of;
use watchfire_types::SocketId;

use super::client::{Client, Transport, id_of_topic, is_id_topic};
use super::clients::Clients;
use super::parking::ParkedRequests;
use super::session::Session;
use super::upgrades::WaitingUpgrades;
use crate::channel_api::{
    ClientId, ConnectionId, ConnectionOrder, ConnectionQuery, ConnectionTransport, FoundConnection,
    FoundConnections, TcpFigures,
};

/// Topics of a connection in its details.
const TOPICS_IN_DETAILS: usize = 100;

/// The connections of a shard, and the clients that have them.
pub(super) struct Connections<'a> {
    pub clients: &'a Clients,
    pub sockets: &'a Sockets,
}

impl Connections<'_> {
    /// Whether a connection is listed by itself. A poll that waits is part of its session.
    pub fn is_listed(&self, view: &ConnectionView) -> bool {
        match view.state {
            ConnectionState::Parked { key } => {
                ParkedRequests::has_form(key) || WaitingUpgrades::has_form(key)
            }
            ConnectionState::WebSocket { .. }
            | ConnectionState::Stream { .. }
            | ConnectionState::Http
            | ConnectionState::Closing => true,
        }
    }

    /// The client of a connection.
    fn client_of(&self, view: &ConnectionView) -> Option<&Client> {
        match view.state {
            ConnectionState::WebSocket { key } | ConnectionState::Stream { key } => {
                self.clients.get(key)
            }
            ConnectionState::Parked { .. } | ConnectionState::Http | ConnectionState::Closing => {
                None
            }
        }
    }

    /// The value of a connection in the order of a query; `None` when the query does not want it.
    pub fn rank(&self, view: &ConnectionView, query: &ConnectionQuery) -> Option<u64> {
        let client = self.client_of(view);
        let transport = match view.state {
            ConnectionState::WebSocket { .. } => ConnectionTransport::Websocket,
            _ => ConnectionTransport::Http,
        };
        let has_transport = query.transport.is_none_or(|wanted| wanted == transport);
        let is_wanted = has_transport
            && (query.topic.is_empty() || client.is_some_and(|c| self.has_topic(c, &query.topic)))
            && (query.address.is_empty()
                || self.address_of(view.socket, client).starts_with(&query.address));
        is_wanted.then_some(())?;
        let tcp = || self.sockets.tcp_info(view.socket).unwrap_or_default();
        Some(match query.sort {
            ConnectionOrder::QueuedBytes => view.queued_bytes as u64,
            ConnectionOrder::QueueSeconds => millis(view.queue_age),
            ConnectionOrder::IdleSeconds => millis(view.idle),
            ConnectionOrder::SentBytes => tcp().sent_bytes,
            ConnectionOrder::ReceivedBytes => tcp().received_bytes,
            ConnectionOrder::Channels => client.map_or(0, |client| self.channels_of(client)),
        })
    }

    /// The value of a long-poll session in the order of a query; `None` when the query does not want it.
    pub fn rank_of_session(
        &self,
        client: &Client,
        session: &Session,
        query: &ConnectionQuery,
    ) -> Option<u64> {
        let has_transport =
            query.transport.is_none_or(|wanted| wanted == ConnectionTransport::Longpoll);
        let is_wanted = has_transport
            && (query.topic.is_empty() || self.has_topic(client, &query.topic))
            && (query.address.is_empty() || counted(client).starts_with(&query.address));
        is_wanted.then_some(())?;
        Some(match query.sort {
            ConnectionOrder::QueuedBytes => session.state.queued_bytes().into(),
            ConnectionOrder::Channels => self.channels_of(client),
            ConnectionOrder::QueueSeconds
            | ConnectionOrder::IdleSeconds
            | ConnectionOrder::SentBytes
            | ConnectionOrder::ReceivedBytes => 0,
        })
    }

    /// The details of one client; none when it is gone.
    pub fn details(&self, client: ClientId) -> FoundConnections {
        let found = self.found(client, TOPICS_IN_DETAILS);
        FoundConnections { connections: found.into_iter().collect(), ..FoundConnections::default() }
    }

    /// The key of a client; `None` when it is gone, or is a connection without channels.
    pub fn key_of(&self, client: ClientId) -> Option<u32> {
        match client {
            ClientId::Socket { slot: index, generation } => {
                match self.sockets.connection(SocketId { index, generation })?.state {
                    ConnectionState::WebSocket { key } | ConnectionState::Stream { key } => {
                        Some(key)
                    }
                    _ => None,
                }
            }
            ClientId::LongPoll { key, generation } => {
                session_of(self.clients, key, generation).map(|_| key)
            }
        }
    }

    /// The client as an operator sees it, with its first topics; `None` when it is gone.
    pub fn found(&self, client: ClientId, topics_max: usize) -> Option<FoundConnection> {
        match client {
            ClientId::Socket { slot: index, generation } => {
                self.connection(SocketId { index, generation }, topics_max)
            }
            ClientId::LongPoll { key, generation } => self.session(key, generation, topics_max),
        }
    }

    fn connection(&self, socket: SocketId, topics_max: usize) -> Option<FoundConnection> {
        let view = self.sockets.connection(socket)?;
        let client = self.client_of(&view);
        let (transport, state) = match view.state {
            ConnectionState::WebSocket { .. } => ("websocket", "open"),
            ConnectionState::Stream { .. } => ("events", "open"),
            ConnectionState::Parked { key } if WaitingUpgrades::has_form(key) => {
                ("http", "waits for the backend")
            }
            ConnectionState::Parked { .. } => ("http", "waits"),
            ConnectionState::Http => ("http", "open"),
            ConnectionState::Closing => ("http", "closing"),
        };
        Some(FoundConnection {
            id: self.name_of(ClientId::of(socket)),
            address: self.address_of(socket, client),
            transport: transport.to_owned(),
            state: state.to_owned(),
            queued_bytes: view.queued_bytes as u64,
            queue_seconds: view.queue_age.as_secs_f64(),
            idle_seconds: Some(view.idle.as_secs_f64()),
            tcp: self.sockets.tcp_info(socket).map(figures),
            ..client.map_or_else(FoundConnection::default, |c| self.joined(c, topics_max))
        })
    }

    fn session(&self, key: u32, generation: u32, topics_max: usize) -> Option<FoundConnection> {
        let (client, session) = session_of(self.clients, key, generation)?;
        Some(FoundConnection {
            id: self.name_of(ClientId::LongPoll { key, generation }),
            address: counted(client),
            transport: "longpoll".to_owned(),
            state: if session.parked.is_some() { "polls" } else { "between polls" }.to_owned(),
            queued_bytes: session.state.queued_bytes().into(),
            ..self.joined(client, topics_max)
        })
    }

    /// The topics and the id of a client.
    fn joined(&self, client: &Client, topics_max: usize) -> FoundConnection {
        let id = client.details.as_ref().and_then(|details| details.id);
        let user = id.map(|id| id_of_topic(self.clients.hub().topic_of(id)).to_owned());
        let topics = self.topics_of(client).take(topics_max).map(str::to_owned);
        FoundConnection {
            channels: self.channels_of(client),
            topics: topics.collect(),
            user: user.unwrap_or_default(),
            ..FoundConnection::default()
        }
    }

    fn topics_of(&self, client: &Client) -> impl Iterator<Item = &str> {
        let hub = self.clients.hub();
        let topics = hub.subscriptions(&client.subscriptions).map(|id| hub.topic_of(id));
        topics.filter(|topic| !is_id_topic(topic))
    }

    fn channels_of(&self, client: &Client) -> u64 {
        self.topics_of(client).count() as u64
    }

    fn has_topic(&self, client: &Client, topic: &str) -> bool {
        self.clients.hub().find(&client.subscriptions, topic).is_some()
    }

    /// The address of a client: the one that its proxy names, or the address of its connection.
    fn address_of(&self, socket: SocketId, client: Option<&Client>) -> String {
        let address = self.sockets.address_of(socket);
        match (client.and_then(Client::counted), address) {
            (Some(counted), Some(address)) if counted != address.ip().to_canonical() => {
                counted.to_string()
            }
            (Some(counted), None) => counted.to_string(),
            (_, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }

    /// The network of the same address; `None` when the connection is gone.
    pub fn network_of(&self, view: &ConnectionView) -> Option<IpAddr> {
        let address = || self.sockets.address_of(view.socket).map(|address| address.ip());
        let counted = self.client_of(view).and_then(Client::counted);
        counted.or_else(address).map(network_of)
    }

    fn name_of(&self, client: ClientId) -> String {
        let (node, shard) = (self.clients.node(), self.clients.shard());
        ConnectionId { node, shard, client }.to_string()
    }
}

/// Ends one client. Returns the number of clients that had this name: one or none.
pub(super) fn end_client(clients: &mut Clients, sockets: &mut Sockets, client: ClientId) -> u64 {
    let is_here = match client {
        ClientId::Socket { slot: index, generation } => {
            let socket = SocketId { index, generation };
            let is_here = sockets.connection(socket).is_some();
            sockets.end(socket);
            is_here
        }
        ClientId::LongPoll { key, generation } => {
            let is_here = session_of(clients, key, generation).is_some();
            if is_here {
                clients.end_session(sockets, key, Status::Gone);
            }
            is_here
        }
    };
    is_here.into()
}

/// A session, also one that has ended in this call of the event loop.
fn session_of(clients: &Clients, key: u32, generation: u32) -> Option<(&Client, &Session)> {
    let client = clients.get(key).filter(|client| client.generation == generation)?;
    match &client.transport {
        Transport::LongPoll(session) => Some((client, session)),
        Transport::WebSocket(_) | Transport::Events(_) => None,
    }
}

/// The address that a long-poll session counts against; empty when it counts against none.
fn counted(client: &Client) -> String {
    client.counted().map(|address| address.to_string()).unwrap_or_default()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn figures(info: TcpInfo) -> TcpFigures {
    TcpFigures {
        sent_bytes: info.sent_bytes,
        received_bytes: info.received_bytes,
        unsent_bytes: info.unsent_bytes,
        round_trip_micros: u64::try_from(info.round_trip.as_micros()).unwrap_or(u64::MAX),
        retransmits: info.retransmits,
        unacknowledged_segments: info.unacknowledged_segments,
        congestion_window: info.congestion_window,
    }
}
