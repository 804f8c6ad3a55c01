//! The scans of a shard that run or wait.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::channel_api::{ConnectionQuery, ShardQuestions};

/// The scans of a shard; the first one runs.
#[derive(Default)]
pub(super) struct Scans(pub VecDeque<Scan>);

/// A scan over the connections of a shard.
pub(super) struct Scan {
    pub asked: Arc<ShardQuestions>,
    pub search: Search,
    /// The slots of connections when the scan began; the keys of clients follow them.
    pub slots: usize,
    /// The position in both.
    pub next: usize,
    /// The first ones so far; the least of them on top.
    pub first: BinaryHeap<Reverse<Candidate>>,
    /// How many connections it has looked at.
    pub scanned: u64,
    /// The time that it has used.
    pub busy: Duration,
}

/// The connections that a scan looks for.
pub(super) enum Search {
    /// The first ones in an order.
    List(ConnectionQuery),
    /// Those of an address, to end them.
    EndAddress { address: IpAddr, count: usize },
}

impl Search {
    /// The most connections that it finds.
    pub fn limit(&self) -> usize {
        match self {
            Search::List(query) => query.limit,
            Search::EndAddress { count, .. } => *count,
        }
    }
}

/// A connection or session that a scan found, in the order of its value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub rank: u64,
    /// The slot of a connection, or the key of a session.
    pub index: u32,
    pub generation: u32,
    pub is_session: bool,
}
