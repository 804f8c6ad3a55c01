//! An operator looks for connections or topics: a scan over all of the shard, in slices.
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
//! A scan for topics walks the slots of the hub's topics in the same way. A slot has no generation: if another topic
//! took it meanwhile and the query wants that one, the answer has it.
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
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use watchfire_sockets::Sockets;
use watchfire_types::SocketId;

use super::client::{Transport, is_id_topic};
use super::clients::Clients;
use super::connections::{Connections, end_client};
use super::histories::Histories;
use crate::channel_api::{
    ClientId, ConnectionQuery, FoundConnection, FoundConnections, FoundTopic, FoundTopics,
    ShardAnswer, ShardQuestions, TopicOrder, TopicQuery,
};

/// Scans of a shard that run or wait. A further one is not answered.
const SCANS_MAX: usize = 4;
/// The time of one slice.
const SLICE_TIME: Duration = Duration::from_millis(1);
/// The clock is read after this number of connections.
const CHECKED_AFTER: usize = 128;
/// Topics of a connection in a list.
const TOPICS_IN_LIST: usize = 3;

/// The scans of a shard; the first one runs.
#[derive(Default)]
pub(super) struct Scans(VecDeque<Scan>);

/// A scan over the connections or topics of a shard.
struct Scan {
    asked: Arc<ShardQuestions>,
    search: Search,
    /// The slots of connections when the scan began; the keys of clients follow them.
    slots: usize,
    /// The position in both.
    next: usize,
    first: First,
    /// How many connections it has looked at.
    scanned: u64,
    /// The time that it has used.
    busy: Duration,
}

/// The aim of a scan.
pub(super) enum Search {
    /// The first ones in an order.
    List(ConnectionQuery),
    /// Those of an address, to end them.
    EndAddress { address: IpAddr, count: usize },
    /// The first topics in an order.
    Topics(TopicQuery),
}

impl Search {
    /// The most connections or topics that it finds.
    fn limit(&self) -> usize {
        match self {
            Search::List(query) => query.limit,
            Search::EndAddress { count, .. } => *count,
            Search::Topics(query) => query.limit,
        }
    }
}

/// A connection, session or topic that a scan found, in the order of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u64,
    /// The slot of a connection or topic, or the key of a session.
    index: u32,
    generation: u32,
    is_session: bool,
}

impl Candidate {
    fn client(self) -> ClientId {
        let Candidate { index, generation, is_session, .. } = self;
        match is_session {
            true => ClientId::LongPoll { key: index, generation },
            false => ClientId::Socket { slot: index, generation },
        }
    }
}

/// The first candidates so far, at most `limit`; the least of them on top.
struct First {
    limit: usize,
    heap: BinaryHeap<Reverse<Candidate>>,
}

impl First {
    fn offer(&mut self, candidate: Candidate) {
        if self.heap.len() == self.limit {
            // Most connections of a large server end here: their value is as low as the values of the others.
            if self.heap.peek().is_some_and(|Reverse(least)| candidate.rank <= least.rank) {
                return;
            }
            self.heap.pop();
        }
        self.heap.push(Reverse(candidate));
    }

    /// All of them, the first one first.
    fn into_sorted(self) -> impl Iterator<Item = Candidate> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate)
    }
}

impl Scans {
    /// Begins a scan. The question is answered when it ends.
    pub fn begin(&mut self, sockets: &Sockets, asked: Arc<ShardQuestions>, search: Search) {
        // Dropped without an answer: the caller is told that the server is busy.
        if self.0.len() < SCANS_MAX {
            let first = First { limit: search.limit(), heap: BinaryHeap::new() };
            let (slots, busy) = (sockets.slots(), Duration::ZERO);
            self.0.push_back(Scan { asked, search, slots, next: 0, first, scanned: 0, busy });
        }
    }

    /// Goes on with the first scan for a while. Returns whether more is to do.
    pub fn run_slice(
        &mut self,
        clients: &mut Clients,
        histories: &Histories,
        sockets: &mut Sockets,
    ) -> bool {
        let Some(mut scan) = self.0.pop_front() else { return false };
        let before = sockets.elapsed(sockets.now());
        let took = |sockets: &Sockets| sockets.elapsed(sockets.now()).saturating_sub(before);
        let end = match scan.search {
            Search::Topics(_) => clients.hub().topic_slots(),
            _ => scan.slots + clients.key_count() as usize,
        };
        let connections = Connections { clients, sockets };
        while scan.next < end {
            for _ in 0..CHECKED_AFTER {
                scan.look_at_next(&connections);
            }
            if took(sockets) >= SLICE_TIME {
                break;
            }
        }
        scan.busy += took(sockets);
        if scan.next < end {
            self.0.push_front(scan);
        } else {
            let asked = scan.asked.clone();
            asked.add(scan.answer(clients, histories, sockets));
        }
        !self.0.is_empty()
    }
}

impl Scan {
    /// Looks at one slot: a topic, or a connection, or behind these a client that may be a long-poll session.
    fn look_at_next(&mut self, connections: &Connections<'_>) {
        let candidate = match (&self.search, self.next.checked_sub(self.slots)) {
            (Search::Topics(_), _) => self.topic(connections.clients),
            (_, None) => self.connection(connections),
            (_, Some(key)) => self.session(connections, key as u32),
        };
        if let Some(candidate) = candidate {
            self.first.offer(candidate);
        }
        self.next += 1;
    }

    fn connection(&mut self, connections: &Connections<'_>) -> Option<Candidate> {
        let view = connections.sockets.connection_at(self.next)?;
        connections.is_listed(&view).then_some(())?;
        self.scanned += 1;
        let rank = match &self.search {
            Search::List(query) => connections.rank(&view, query)?,
            Search::EndAddress { address, .. } => {
                (connections.network_of(&view)? == *address).then_some(0)?
            }
            Search::Topics(_) => return None,
        };
        let SocketId { index, generation } = view.socket;
        Some(Candidate { rank, index, generation, is_session: false })
    }

    fn session(&mut self, connections: &Connections<'_>, key: u32) -> Option<Candidate> {
        let client = connections.clients.get(key)?;
        let Transport::LongPoll(session) = &client.transport else { return None };
        self.scanned += 1;
        let rank = match &self.search {
            Search::List(query) => connections.rank_of_session(client, session, query)?,
            Search::EndAddress { address, .. } => (client.counted()? == *address).then_some(0)?,
            Search::Topics(_) => return None,
        };
        Some(Candidate { rank, index: key, generation: client.generation, is_session: true })
    }

    fn topic(&mut self, clients: &Clients) -> Option<Candidate> {
        let Search::Topics(query) = &self.search else { return None };
        let index = u32::try_from(self.next).ok()?;
        let (topic, subscribers) = clients.hub().topic_at(index)?;
        is_wanted(topic, query).then_some(())?;
        self.scanned += 1;
        // A rate below one a second has an order too.
        let rank = match query.sort {
            TopicOrder::Subscribers => subscribers as u64,
            TopicOrder::Messages => (clients.rates(topic).messages * 1_000.0) as u64,
            TopicOrder::Bytes => (clients.rates(topic).bytes * 1_000.0) as u64,
        };
        Some(Candidate { rank, index, generation: 0, is_session: false })
    }

    /// The connections or topics that the scan has found, or the number of those that it ends now. Connections that
    /// ended meanwhile are missing.
    fn answer(
        self,
        clients: &mut Clients,
        histories: &Histories,
        sockets: &mut Sockets,
    ) -> ShardAnswer {
        let Scan { search, first, scanned, busy, .. } = self;
        let scan_micros = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
        match search {
            Search::List(_) => {
                let connections = Connections { clients, sockets };
                let found = first.into_sorted().filter_map(|candidate| {
                    let found = connections.found(candidate.client(), TOPICS_IN_LIST)?;
                    Some(FoundConnection { rank: candidate.rank, ..found })
                });
                ShardAnswer::Connections(FoundConnections {
                    connections: found.collect(),
                    scanned,
                    scan_micros,
                })
            }
            Search::Topics(query) => {
                let topics = first.into_sorted().filter_map(|candidate| {
                    found_topic(clients, histories, candidate.index, &query)
                });
                let topics = topics.collect();
                ShardAnswer::FoundTopics(FoundTopics { topics, scanned, scan_micros })
            }
            Search::EndAddress { .. } => {
                let ended = first.into_sorted();
                ShardAnswer::Count(
                    ended.map(|found| end_client(clients, sockets, found.client())).sum(),
                )
            }
        }
    }
}

fn is_wanted(topic: &str, query: &TopicQuery) -> bool {
    !is_id_topic(topic) && topic.starts_with(&query.prefix)
}

fn found_topic(
    clients: &Clients,
    histories: &Histories,
    slot: u32,
    query: &TopicQuery,
) -> Option<FoundTopic> {
    let (topic, subscribers) = clients.hub().topic_at(slot)?;
    is_wanted(topic, query).then_some(())?;
    let rates = clients.rates(topic);
    Some(FoundTopic {
        topic: topic.to_owned(),
        subscribers: subscribers as u64,
        messages: rates.messages,
        bytes: rates.bytes,
        owner: format!("{}/{}", clients.node().0, clients.shard().0),
        owned: subscribers as u64,
        loops: 1,
        kept: histories.kept(topic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_keeps_the_first_connections_and_returns_them_in_order() {
        let candidate = |rank, index| Candidate { rank, index, generation: 0, is_session: false };
        let mut first = First { limit: 3, heap: BinaryHeap::new() };
        for (index, rank) in [5, 1, 9, 4, 7, 0].into_iter().enumerate() {
            first.offer(candidate(rank, index as u32));
        }
        let found: Vec<_> = first.into_sorted().map(|it| (it.rank, it.index)).collect();
        assert_eq!(found, [(9, 2), (7, 4), (5, 0)]);
    }
}
