//! What the measuring process and the processes that hold the clients say to one another: JSON
//! lines on their stdin and stdout.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use watchfire_report::Snapshot;

/// Which clients a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Websockets joined to a room.
    Sockets,
    /// Sprites over plain HTTP: a poll each, and throws.
    Throwers,
    /// Short JSON requests, a new connection each.
    Requests,
    /// Who opens a page: its files, then a websocket.
    Visitors,
}

/// Where the clients of a process come from and go to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Clients take turns over these; a single address where one port serves all.
    pub servers: Vec<SocketAddr>,
    /// This process among all, from 0: decides the addresses it connects from.
    pub process: u8,
}

/// One line on a client process's stdin. The first is always [`Order::Setup`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    Setup(Setup),
    /// Sockets: open and join so many. Socket `first + i` joins room `(first + i) % rooms`; with
    /// one room, the lobby.
    Open {
        first: u32,
        count: u32,
        rooms: u32,
        opening_max: u32,
        heartbeats: bool,
    },
    /// Sockets: send heartbeats from now on, as if all had been there for long.
    Heartbeats,
    /// Sockets: let one of them say something to its room.
    Say {
        seat: u32,
        number: u32,
    },
    /// Sockets: the first of each room says something every so often, from one time to another.
    Chatter {
        every_ns: u64,
        from_ns: u64,
        until_ns: u64,
    },
    /// Sockets: all go without a word and come back, spread over so long.
    Storm {
        spread_ns: u64,
        is_jittered: bool,
    },
    /// Throwers: join the grid and poll.
    Join {
        count: u32,
        opening_max: u32,
    },
    /// Throwers: each has a sprite, and throws what it has once in so long, until that time.
    Throw {
        every_ns: u64,
        until_ns: u64,
    },
    /// Requests: keep so many under way until that time.
    Ask {
        path: String,
        at_once: u32,
        until_ns: u64,
    },
    /// Visitors: the share of a day's visits that this process has to make.
    Day(Day),
    /// Tell the durations since the last report and forget them.
    Report,
    /// All go.
    Close,
}

/// A day on a page, compressed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Day {
    pub cid: String,
    /// What a browser fetches after the page.
    pub assets: Vec<String>,
    pub visits: u32,
    /// When visits are due, as the part of all visits at equal steps over the day.
    pub curve: Vec<f64>,
    pub from_ns: u64,
    pub lasts_ns: u64,
    /// How long a visitor stays on average.
    pub stay_ns: u64,
    /// Whether one who has the whole page stays all day.
    pub with_holder: bool,
}

/// One line on a client process's stdout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Status(Box<Status>),
    Report(BTreeMap<String, Snapshot>),
    Failed(String),
}

/// What a client process has seen so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Clients that are where they should be: joined, parked, online.
    pub present: u64,
    /// Times that a client came to be there.
    pub joins: u64,
    /// Connections the server ended, or failed to make, by what happened.
    pub refused: u64,
    pub turned_away: u64,
    pub reset: u64,
    pub timed_out: u64,
    /// Times a client had to try again.
    pub retries: u64,
    /// Answers that were not what the protocol promises.
    pub wrong: u64,
    /// Messages said, heard, heard twice, and not heard though a later one was.
    pub said: u64,
    pub heard: u64,
    pub doubled: u64,
    pub missed: u64,
    pub heartbeats: u64,
    pub throws: u64,
    pub wrapped: u64,
    pub arrivals: u64,
    pub polls: u64,
    pub requests: u64,
    pub visits: u64,
    pub pages: u64,
    /// When the last client came to be present, and heard the last message.
    pub present_at_ns: u64,
    pub heard_at_ns: u64,
}

impl AddAssign<&Status> for Status {
    fn add_assign(&mut self, other: &Status) {
        self.present += other.present;
        self.joins += other.joins;
        self.refused += other.refused;
        self.turned_away += other.turned_away;
        self.reset += other.reset;
        self.timed_out += other.timed_out;
        self.retries += other.retries;
        self.wrong += other.wrong;
        self.said += other.said;
        self.heard += other.heard;
        self.doubled += other.doubled;
        self.missed += other.missed;
        self.heartbeats += other.heartbeats;
        self.throws += other.throws;
        self.wrapped += other.wrapped;
        self.arrivals += other.arrivals;
        self.polls += other.polls;
        self.requests += other.requests;
        self.visits += other.visits;
        self.pages += other.pages;
        self.present_at_ns = self.present_at_ns.max(other.present_at_ns);
        self.heard_at_ns = self.heard_at_ns.max(other.heard_at_ns);
    }
}

impl Status {
    /// Connections that failed, however they did.
    pub fn failures(&self) -> u64 {
        self.refused + self.turned_away + self.reset + self.timed_out
    }
}
