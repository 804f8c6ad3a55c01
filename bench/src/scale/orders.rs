//! The messages between the measuring process and the client processes: JSON lines on their stdin
//! and stdout.

use std::net::SocketAddr;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// The protocol of a member's websocket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Phoenix V2, JSON.
    #[default]
    Phoenix,
    /// Centrifugo's bidirectional protocol, JSON.
    Centrifugo,
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
    /// Close all clients.
    Close,
}

/// One line on a client process's stdout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Status(Box<Status>),
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
