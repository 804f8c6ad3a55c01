use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use vocab::{Instant, ShardId, SocketId};

use crate::app::ChannelAddress;

/// One peer's place on a plane.
pub(super) struct Seat {
    pub plane: Arc<str>,
    /// The last one, while the place is vacant.
    pub carrier: Carrier,
    /// Whether the board looks now and then if its polls still come.
    pub is_listened_for: bool,
}

/// What carries a peer's arrivals.
pub(super) enum Carrier {
    Channel(ChannelAddress),
    Poll(Box<Poll>),
}

/// Who takes a place.
pub(crate) enum Newcomer {
    Channel(ChannelAddress),
    /// Somebody over plain HTTP, with the address that counts it.
    Poll {
        counted: Option<IpAddr>,
    },
}

impl Carrier {
    pub fn of(newcomer: Newcomer, now: Instant) -> Self {
        match newcomer {
            Newcomer::Channel(address) => Carrier::Channel(address),
            Newcomer::Poll { counted } => Carrier::Poll(Box::new(Poll {
                arrivals: VecDeque::new(),
                neighbours_changed: false,
                parked: None,
                heard_at: now,
                counted,
            })),
        }
    }
}

/// What waits for a peer's next poll.
pub(super) struct Poll {
    /// Arrivals as JSON, at most `arrivals_queued_max`.
    pub arrivals: VecDeque<Box<str>>,
    pub neighbours_changed: bool,
    pub parked: Option<Parked>,
    /// When it last did anything.
    pub heard_at: Instant,
    pub counted: Option<IpAddr>,
}

impl Poll {
    pub fn has_news(&self) -> bool {
        !self.arrivals.is_empty() || self.neighbours_changed
    }

    pub fn waits_on(&self, connection: Connection) -> bool {
        self.parked.is_some_and(|parked| parked.connection == connection)
    }

    /// The connection that its shard is to answer, unless the shard knows.
    pub fn wake(&mut self) -> Option<Connection> {
        self.parked.as_mut().and_then(|parked| {
            let is_news = !std::mem::replace(&mut parked.is_woken, true);
            is_news.then_some(parked.connection)
        })
    }
}

/// A poll that waits.
#[derive(Clone, Copy)]
pub(super) struct Parked {
    pub connection: Connection,
    /// Its shard was told to answer it.
    pub is_woken: bool,
}

impl Parked {
    pub fn wake(self) -> Option<Connection> {
        (!self.is_woken).then_some(self.connection)
    }
}

/// A connection that a poll waits on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub shard: ShardId,
    /// Its shard's own number for the poll.
    pub key: u32,
    pub socket: SocketId,
}

/// What a poll is answered with.
pub(crate) enum PollAnswer {
    News {
        arrivals: VecDeque<Box<str>>,
        neighbours: Value,
    },
    /// A newer poll of the same peer waits instead.
    Superseded,
    /// The peer has no place any more.
    NoPlace,
}

impl PollAnswer {
    /// The HTTP status and its JSON.
    pub fn into_response(self) -> (u16, String) {
        match self {
            PollAnswer::News { arrivals, neighbours } => {
                let arrivals: Vec<&str> = arrivals.iter().map(|arrival| &**arrival).collect();
                let arrivals = arrivals.join(",");
                (200, format!(r#"{{"arrivals":[{arrivals}],"neighbours":{neighbours}}}"#))
            }
            PollAnswer::Superseded => (409, r#"{"reason":"a newer poll waits"}"#.into()),
            PollAnswer::NoPlace => (410, r#"{"reason":"stale token"}"#.into()),
        }
    }
}
