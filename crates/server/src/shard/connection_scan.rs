//! An operator looks for connections: a scan over all connections of the shard, in slices.
//!
//! "The 20 connections with the largest queues" has no index: what an operator sorts by changes with every message,
//! and an index would cost each message of each client for a question that is asked rarely. So the shard looks at
//! every connection. Done in one piece, that stops the event loop: at 0.2 µs for each of 500,000 connections, all
//! clients of the shard wait for 100 ms, and several times longer when each look asks the kernel (`sent_bytes`).
//!
//! So a scan runs in slices of [`SLICE_TIME`]. The event loop runs one slice, then delivers broadcasts and serves
//! sockets, then runs the next slice. In the example, 100 slices of 1 ms run; a message waits for one of them at
//! most, and the answer arrives after 100 ms and the other work in between. The clock is read only after
//! [`CHECKED_AFTER`] connections, because reading it costs as much as looking at one; so a slice is longer than
//! 1 ms by 128 looks at most.
//!
//! # Changes between two slices
//!
//! Connections open, close and get other values while a scan runs, so its answer is no state of one moment:
//!
//! - The slots of the slab were counted when the scan began. A connection that opens in a later slot is not seen.
//! - A candidate is a slot and a generation. When the scan ends, a slot whose generation differs belongs to another
//!   connection, and the candidate is dropped.
//! - The rank of a candidate is that of the moment when the scan looked at it. The details are read at the end.
//!
//! Long-poll sessions have no slot of their own in the slab of connections, so the keys of the shard's clients follow
//! the slots in the same count, and the second half looks at sessions only.
//!
//! # Bounds
//!
//! - A scan keeps the first `limit` candidates in a heap with the least on top, at most 200 for the operator's calls
//!   and 500 for the end of an address. Its memory does not grow with the number of connections.
//! - One scan runs at a time, and [`SCANS_MAX`] run or wait. A further question is dropped without an answer, and its
//!   caller is told that the server is busy.
//! - The end of an address ends at most 500 connections of a shard at a time, and the caller repeats it: ending one
//!   costs some microseconds, which are not sliced.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use watchfire_sockets::{ConnectionState, ConnectionView, Sockets, TcpInfo};
use watchfire_tracker::network_of;
use watchfire_types::SocketId;

use super::client::{Client, Transport, id_of_topic, is_id_topic};
use super::scan_queue::{Candidate, Scan, Search};
use super::state::Shard;
use super::waiting::{ParkedRequests, WaitingUpgrades};
use crate::channel_api::{
    ClientId, ConnectionId, ConnectionOrder, ConnectionQuery, ConnectionTransport, FoundConnection,
    FoundConnections, ShardAnswer, ShardQuestions, TcpFigures,
};

/// Scans of a shard that run or wait. A further one is not answered.
const SCANS_MAX: usize = 4;
/// The time of one slice.
const SLICE_TIME: Duration = Duration::from_millis(1);
/// The clock is read after this number of connections.
const CHECKED_AFTER: usize = 128;
/// Topics of a connection in a list, and in its details.
const TOPICS_IN_LIST: usize = 3;
const TOPICS_IN_DETAILS: usize = 100;

impl Shard {
    /// Begins a scan. The question is answered when it ends.
    pub(super) fn begin_scan(
        &mut self,
        sockets: &Sockets,
        asked: Arc<ShardQuestions>,
        search: Search,
    ) {
        // Dropped without an answer: the caller is told that the server is busy.
        if self.scans.0.len() < SCANS_MAX {
            self.scans.0.push_back(Scan {
                asked,
                search,
                slots: sockets.slots(),
                next: 0,
                first: BinaryHeap::new(),
                scanned: 0,
                busy: Duration::ZERO,
            });
        }
    }

    /// Goes on with the first scan for a while. Returns whether more is to do.
    pub(super) fn scan_slice(&mut self, sockets: &mut Sockets) -> bool {
        let Some(mut scan) = self.scans.0.pop_front() else { return false };
        let before = sockets.elapsed(sockets.now());
        let took = |sockets: &Sockets| sockets.elapsed(sockets.now()).saturating_sub(before);
        let end = scan.slots + self.clients.key_count();
        while scan.next < end {
            for _ in 0..CHECKED_AFTER {
                self.look_at(sockets, &mut scan);
                scan.next += 1;
            }
            if took(sockets) >= SLICE_TIME {
                break;
            }
        }
        scan.busy += took(sockets);
        if scan.next < end {
            self.scans.0.push_front(scan);
        } else {
            let answer = match scan.search {
                Search::List(_) => ShardAnswer::Connections(self.found(sockets, &scan)),
                Search::EndAddress { .. } => ShardAnswer::Count(self.end_found(sockets, &scan)),
            };
            scan.asked.add(answer);
        }
        !self.scans.0.is_empty()
    }

    /// Looks at one slot: a connection, or behind these a client that may be a long-poll session.
    fn look_at(&self, sockets: &Sockets, scan: &mut Scan) {
        let candidate = match scan.next.checked_sub(scan.slots) {
            None => sockets.connection_at(scan.next).and_then(|view| {
                self.is_listed(&view).then_some(())?;
                scan.scanned += 1;
                let rank = match &scan.search {
                    Search::List(query) => self.rank(sockets, &view, query)?,
                    Search::EndAddress { address, .. } => {
                        let client = self.client_of_socket(&view);
                        let own = self.ip_of(sockets, view.socket, client)?;
                        (network_of(own) == *address).then_some(0)?
                    }
                };
                let SocketId { index, generation } = view.socket;
                Some(Candidate { rank, index, generation, is_session: false })
            }),
            Some(key) => self.clients.get(key).and_then(|client| {
                let Transport::LongPoll(_) = client.transport else { return None };
                scan.scanned += 1;
                let rank = match &scan.search {
                    Search::List(query) => self.rank_of_session(client, query)?,
                    Search::EndAddress { address, .. } => {
                        (counted_ip(client)? == *address).then_some(0)?
                    }
                };
                let (index, generation) = (u32::try_from(key).ok()?, client.generation);
                Some(Candidate { rank, index, generation, is_session: true })
            }),
        };
        let Some(candidate) = candidate else { return };
        if scan.first.len() == scan.search.limit() {
            // Most connections of a large server end here: their value is as low as the values of the others.
            if scan.first.peek().is_some_and(|Reverse(least)| candidate.rank <= least.rank) {
                return;
            }
            scan.first.pop();
        }
        scan.first.push(Reverse(candidate));
    }

    /// Whether a connection is listed by itself. A poll that waits is part of its session.
    fn is_listed(&self, view: &ConnectionView) -> bool {
        match view.state {
            ConnectionState::Parked { key } => {
                ParkedRequests::has_form(key) || WaitingUpgrades::has_form(key)
            }
            ConnectionState::WebSocket { .. }
            | ConnectionState::Http
            | ConnectionState::Closing => true,
        }
    }

    /// The client of a connection.
    fn client_of_socket(&self, view: &ConnectionView) -> Option<&Client> {
        match view.state {
            ConnectionState::WebSocket { key } => self.clients.get(key as usize),
            ConnectionState::Parked { .. } | ConnectionState::Http | ConnectionState::Closing => {
                None
            }
        }
    }

    /// The value of a connection in the order of a query; `None` when the query does not want it.
    fn rank(
        &self,
        sockets: &Sockets,
        view: &ConnectionView,
        query: &ConnectionQuery,
    ) -> Option<u64> {
        let client = self.client_of_socket(view);
        let transport = match view.state {
            ConnectionState::WebSocket { .. } => ConnectionTransport::Websocket,
            _ => ConnectionTransport::Http,
        };
        let has_transport = query.transport.is_none_or(|wanted| wanted == transport);
        let is_wanted = has_transport
            && (query.topic.is_empty() || client.is_some_and(|c| self.has_topic(c, &query.topic)))
            && (query.address.is_empty()
                || self.address_of(sockets, view.socket, client).starts_with(&query.address));
        is_wanted.then_some(())?;
        let tcp = || sockets.tcp_info(view.socket).unwrap_or_default();
        Some(match query.sort {
            ConnectionOrder::QueuedBytes => view.queued_bytes as u64,
            ConnectionOrder::QueueSeconds => millis(view.queue_age),
            ConnectionOrder::IdleSeconds => millis(view.idle),
            ConnectionOrder::SentBytes => tcp().sent_bytes,
            ConnectionOrder::ReceivedBytes => tcp().received_bytes,
            ConnectionOrder::Channels => client.map_or(0, |client| self.channels_of(client)),
        })
    }

    fn rank_of_session(&self, client: &Client, query: &ConnectionQuery) -> Option<u64> {
        let Transport::LongPoll(session) = &client.transport else { return None };
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

    /// The connections that a scan has found, the first one first. Those that ended meanwhile are missing.
    fn found(&self, sockets: &Sockets, scan: &Scan) -> FoundConnections {
        let mut first: Vec<_> = scan.first.iter().map(|Reverse(candidate)| *candidate).collect();
        first.sort_unstable_by(|one, other| other.cmp(one));
        let connections = first.into_iter().filter_map(|candidate| {
            let Candidate { rank, index, generation, is_session } = candidate;
            let found = match is_session {
                true => self.session(index, generation, TOPICS_IN_LIST),
                false => self.connection(sockets, SocketId { index, generation }, TOPICS_IN_LIST),
            };
            Some(FoundConnection { rank, ..found? })
        });
        FoundConnections {
            connections: connections.collect(),
            scanned: scan.scanned,
            scan_micros: u64::try_from(scan.busy.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// Ends the connections that a scan has found. Returns their number.
    fn end_found(&mut self, sockets: &mut Sockets, scan: &Scan) -> u64 {
        let ended = scan.first.iter().map(|Reverse(candidate)| {
            let Candidate { index, generation, is_session, .. } = *candidate;
            let client = match is_session {
                true => ClientId::LongPoll { key: index, generation },
                false => ClientId::Socket { slot: index, generation },
            };
            self.end_client(sockets, client)
        });
        ended.sum()
    }

    /// The details of one client; none when it is gone.
    pub(super) fn details(&self, sockets: &Sockets, client: ClientId) -> FoundConnections {
        let found = match client {
            ClientId::Socket { slot: index, generation } => {
                self.connection(sockets, SocketId { index, generation }, TOPICS_IN_DETAILS)
            }
            ClientId::LongPoll { key, generation } => {
                self.session(key, generation, TOPICS_IN_DETAILS)
            }
        };
        FoundConnections { connections: found.into_iter().collect(), ..FoundConnections::default() }
    }

    /// The key of a client; `None` when it is gone, or is a connection without channels.
    pub(super) fn key_of(&self, sockets: &Sockets, client: ClientId) -> Option<u32> {
        match client {
            ClientId::Socket { slot: index, generation } => {
                match sockets.connection(SocketId { index, generation })?.state {
                    ConnectionState::WebSocket { key } => Some(key),
                    _ => None,
                }
            }
            ClientId::LongPoll { key, generation } => {
                self.session(key, generation, 0).is_some().then_some(key)
            }
        }
    }

    /// Ends one client. Returns the number of clients that had this name: one or none.
    pub(super) fn end_client(&mut self, sockets: &mut Sockets, client: ClientId) -> u64 {
        match client {
            ClientId::Socket { slot: index, generation } => {
                let socket = SocketId { index, generation };
                let is_here = sockets.connection(socket).is_some();
                sockets.end(socket);
                is_here.into()
            }
            ClientId::LongPoll { key, generation } => {
                let is_here = self.session(key, generation, 0).is_some();
                if is_here {
                    self.end_session(sockets, key);
                }
                is_here.into()
            }
        }
    }

    fn connection(
        &self,
        sockets: &Sockets,
        socket: SocketId,
        topics_max: usize,
    ) -> Option<FoundConnection> {
        let view = sockets.connection(socket)?;
        let client = self.client_of_socket(&view);
        let (transport, state) = match view.state {
            ConnectionState::WebSocket { .. } => ("websocket", "open"),
            ConnectionState::Parked { key } if WaitingUpgrades::has_form(key) => {
                ("http", "waits for the backend")
            }
            ConnectionState::Parked { .. } => ("http", "waits"),
            ConnectionState::Http => ("http", "open"),
            ConnectionState::Closing => ("http", "closing"),
        };
        Some(FoundConnection {
            id: self.name_of(ClientId::of(socket)),
            address: self.address_of(sockets, socket, client),
            transport: transport.to_owned(),
            state: state.to_owned(),
            queued_bytes: view.queued_bytes as u64,
            queue_seconds: view.queue_age.as_secs_f64(),
            idle_seconds: Some(view.idle.as_secs_f64()),
            tcp: sockets.tcp_info(socket).map(figures),
            ..client.map_or_else(FoundConnection::default, |c| self.joined(c, topics_max))
        })
    }

    fn session(&self, key: u32, generation: u32, topics_max: usize) -> Option<FoundConnection> {
        let client = self.clients.get(key as usize).filter(|c| c.generation == generation)?;
        let Transport::LongPoll(session) = &client.transport else { return None };
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
        let user = id.map(|id| id_of_topic(self.hub.topic_of(id)).to_owned());
        let topics = self.topics_of(client).take(topics_max).map(str::to_owned);
        FoundConnection {
            channels: self.channels_of(client),
            topics: topics.collect(),
            user: user.unwrap_or_default(),
            ..FoundConnection::default()
        }
    }

    fn topics_of(&self, client: &Client) -> impl Iterator<Item = &str> {
        let topics = self.hub.subscriptions(&client.subscriptions);
        topics.map(|id| self.hub.topic_of(id)).filter(|topic| !is_id_topic(topic))
    }

    fn channels_of(&self, client: &Client) -> u64 {
        self.topics_of(client).count() as u64
    }

    fn has_topic(&self, client: &Client, topic: &str) -> bool {
        self.hub.find(&client.subscriptions, topic).is_some()
    }

    /// The address of a client: the one that its proxy names, or the address of its connection.
    fn address_of(&self, sockets: &Sockets, socket: SocketId, client: Option<&Client>) -> String {
        let address = sockets.address_of(socket);
        let counted = client.and_then(|client| client.details.as_ref()?.counted);
        match (counted, address) {
            (Some(counted), Some(address)) if counted != address.ip().to_canonical() => {
                counted.to_string()
            }
            (Some(counted), None) => counted.to_string(),
            (_, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }

    /// The same without a port; `None` when the connection is gone.
    fn ip_of(
        &self,
        sockets: &Sockets,
        socket: SocketId,
        client: Option<&Client>,
    ) -> Option<IpAddr> {
        let address = || sockets.address_of(socket).map(|address| address.ip());
        client.and_then(counted_ip).or_else(address)
    }

    fn name_of(&self, client: ClientId) -> String {
        let node = self.shared.cluster.me();
        ConnectionId { node, shard: self.id, client }.to_string()
    }
}

/// The address that a long-poll session counts against; empty when it counts against none.
fn counted(client: &Client) -> String {
    counted_ip(client).map(|address| address.to_string()).unwrap_or_default()
}

fn counted_ip(client: &Client) -> Option<IpAddr> {
    client.details.as_ref()?.counted
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
