//! The messages between the measuring process and the client processes: JSON lines on their stdin
//! and stdout.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use watchfire_report::Snapshot;

/// The kind of clients of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Websockets joined to a room.
    Sockets,
    /// Websockets of one of several protocols, joined to topics of several machines.
    Members,
}

/// The protocol of a member's websocket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Phoenix V2, JSON.
    #[default]
    Phoenix,
    /// Centrifugo's bidirectional protocol, JSON.
    Centrifugo,
    /// Socket.IO 4.
    SocketIo,
}

/// The addresses of a client process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Server addresses, which clients use in turns; one address if one port serves all.
    pub servers: Vec<SocketAddr>,
    /// The number of this process, which selects its source addresses.
    pub process: u8,
}

/// One line on a client process's stdin. The first is always [`Order::Setup`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    Setup(Setup),
    /// Sockets: open and join `count` sockets. Socket `first + i` joins room `(first + i) % rooms`;
    /// if there is one room, it is the lobby.
    Open {
        first: u32,
        count: u32,
        rooms: u32,
        opening_max: u32,
        heartbeats: bool,
    },
    /// Sockets: send heartbeats from now on, evenly spread over the heartbeat interval.
    Heartbeats,
    /// Sockets: one socket sends a message to its room.
    Send {
        slot: u32,
        number: u32,
    },
    /// Sockets: the first socket of each room sends a message at an interval, from one time to
    /// another.
    Chatter {
        every_ns: u64,
        from_ns: u64,
        until_ns: u64,
    },
    /// Sockets: all close without a close frame and reconnect, spread over a period.
    Storm {
        spread_ns: u64,
        is_jittered: bool,
    },
    /// Members: open `count` sockets to the first server. Socket `i` joins the topic `prefix` with
    /// the number `(first + i) % topics`. When the server ends, they go to the other servers.
    Enter {
        wire: Wire,
        prefix: String,
        first: u32,
        count: u32,
        topics: u32,
        opening_max: u32,
    },
    /// Members: each socket joins `each` further topics, all different in this process.
    JoinMore {
        prefix: String,
        each: u32,
    },
    /// Members: the first `slots` sockets send messages in turns, at an interval.
    Publish {
        slots: u32,
        messages: u32,
        every_ns: u64,
    },
    /// Members: all close without a close frame, and connect again after a time, evenly spread over
    /// a period. They ask for the messages that they have missed.
    Interrupt {
        away_ns: u64,
        spread_ns: u64,
    },
    /// Report the durations since the last report, and reset them.
    Report,
    /// Close all clients.
    Close,
}

/// One line on a client process's stdout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Status(Box<Status>),
    Report(BTreeMap<String, Snapshot>),
    Failed(String),
}

/// The counters of a client process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Clients that are joined.
    pub present: u64,
    /// Times that a client became present.
    pub joins: u64,
    /// Connections that the server closed or that could not be made, by cause.
    pub refused: u64,
    pub turned_away: u64,
    pub reset: u64,
    pub timed_out: u64,
    /// Retries of clients.
    pub retries: u64,
    /// Responses that violate the protocol.
    pub wrong: u64,
    /// Messages sent, received, received twice, and missing before a later one.
    pub sent: u64,
    pub received: u64,
    pub duplicates: u64,
    pub missed: u64,
    /// Joins after which all missed messages follow.
    pub recovered: u64,
    pub heartbeats: u64,
    /// Time at which the last client became present, and at which the last message was received.
    pub present_at_ns: u64,
    pub received_at_ns: u64,
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
        self.sent += other.sent;
        self.received += other.received;
        self.duplicates += other.duplicates;
        self.missed += other.missed;
        self.recovered += other.recovered;
        self.heartbeats += other.heartbeats;
        self.present_at_ns = self.present_at_ns.max(other.present_at_ns);
        self.received_at_ns = self.received_at_ns.max(other.received_at_ns);
    }
}

impl Status {
    /// Failed connections, of any cause.
    pub fn failures(&self) -> u64 {
        self.refused + self.turned_away + self.reset + self.timed_out
    }
}
