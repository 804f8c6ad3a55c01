//! What an edge is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::listen::Listeners;

/// What to listen on, with how many shards, within which limits.
#[derive(Debug)]
pub struct EdgeSettings {
    /// Addresses to listen on. Port 0 takes a free port, the same for all shards and, where it is
    /// free there too, for all addresses.
    pub listen: Vec<SocketAddr>,
    /// Event loops, each a thread with its own listener; 0 for one a core.
    pub shards: usize,
    /// What sockets may cost.
    pub limits: EdgeLimits,
    /// Where the certificate and its key are; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Listeners that another process opened for this one; then `listen` and `shards` say nothing.
    pub inherited: Option<Listeners>,
}

impl Default for EdgeSettings {
    fn default() -> Self {
        EdgeSettings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            shards: 0,
            limits: EdgeLimits::default(),
            tls: None,
            inherited: None,
        }
    }
}

/// PEM files of a TLS server.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsFiles {
    /// The certificate chain, the server's own first.
    pub cert: PathBuf,
    /// Its private key, in PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// What sockets may cost, and what happens when one asks for more.
///
/// Timeouts are kept to within a second or so: one sweep over all sockets takes a second.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeLimits {
    /// Largest message of a websocket, fragments together. Over it: the socket is closed with
    /// 1009, before a byte of the offending frame is kept.
    pub message_bytes_max: usize,
    /// Largest head of a request. Over it: 431.
    pub head_bytes_max: usize,
    /// Longest time from the first byte of a request's head to its last; also from a connection's
    /// start to its first byte, for a TLS handshake, and for each pause in a request's body.
    /// Over it: 408 where there was a byte, else the connection ends.
    pub head_timeout: Duration,
    /// Longest silence of a websocket. Over it: it is closed with 1001.
    pub idle_timeout: Duration,
    /// Longest pause between two requests of one connection. Over it: the connection ends.
    pub keep_alive_timeout: Duration,
    /// Longest wait for a client's half of a closing. Over it: the connection ends.
    pub close_timeout: Duration,
    /// Unsent bytes queued for one socket, the bookkeeping of each frame included. Over it: the
    /// socket is closed with 1013. An empty queue takes any one frame.
    pub queued_bytes_max: usize,
    /// Longest time that a queue may make no progress. Over it: the socket is closed with 1013.
    pub slow_timeout: Duration,
    /// The kernel's send buffer of one socket (`SO_SNDBUF`; Linux doubles it for its own use).
    /// It bounds what an unread socket pins beside `queued_bytes_max`.
    pub send_buffer_bytes: usize,
    /// How long sent bytes may stay unacknowledged (`TCP_USER_TIMEOUT`). Over it: the kernel ends
    /// the connection.
    pub user_timeout: Duration,
    /// Connections of all shards together; 0 for what the open-file limit allows. Over it: a new
    /// one is answered 503 and closed.
    pub sockets_max: usize,
    /// Mail waiting for one shard. Over it: [`crate::Mailbox::send`] gives the mail back.
    pub mailbox_len_max: usize,
    /// Bytes of half-received heads and messages of one shard together. Over it: the socket that
    /// asks for more is closed, a websocket with 1013, a request with 503.
    pub partial_bytes_max: usize,
}

impl Default for EdgeLimits {
    fn default() -> Self {
        EdgeLimits {
            message_bytes_max: 10_000_000,
            head_bytes_max: 16 * 1024,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            keep_alive_timeout: Duration::from_secs(60),
            close_timeout: Duration::from_secs(5),
            queued_bytes_max: 1024 * 1024,
            slow_timeout: Duration::from_secs(30),
            send_buffer_bytes: 128 * 1024,
            user_timeout: Duration::from_secs(30),
            sockets_max: 0,
            mailbox_len_max: 8192,
            partial_bytes_max: 64 * 1024 * 1024,
        }
    }
}
