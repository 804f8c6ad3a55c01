//! Limits on the resources of sockets.

use std::time::Duration;

/// Limits on the resources of sockets, and what happens at each limit.
///
/// Timeouts are accurate to about a second: one sweep over all sockets takes a second.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketLimits {
    /// Largest message of a WebSocket, all fragments together. A larger one closes the socket with
    /// 1009, before a byte of the offending frame is kept.
    pub message_bytes_max: usize,
    /// Largest head of a request. A larger one is answered 431.
    pub head_bytes_max: usize,
    /// Longest time from the first byte of a request's head to its last. The same limit applies to
    /// the wait for a connection's first byte, to a TLS handshake, and to each pause in a request's
    /// body. When it passes, a started head is answered 408; otherwise the connection ends.
    pub head_timeout: Duration,
    /// Longest silence of a WebSocket. When it passes, the WebSocket is closed with 1001.
    pub idle_timeout: Duration,
    /// Longest pause between two requests of one connection. When it passes, the connection ends.
    pub keep_alive_timeout: Duration,
    /// Longest wait for a client's close frame. When it passes, the connection ends.
    pub close_timeout: Duration,
    /// Unsent bytes queued for one socket, including the overhead of each frame. A full queue
    /// closes the socket with 1013 immediately, unless it moves. An empty queue accepts one frame of
    /// any size.
    pub queued_bytes_max: usize,
    /// Longest time that a queue may make no progress. When it passes, the socket is closed with
    /// 1013.
    pub slow_timeout: Duration,
    /// Longest time that a queue over a half of `queued_bytes_max` counts as one that moves, although
    /// it has not shrunk to a quarter: see [`crate::Sockets::is_awaited`]. 0: none counts so.
    pub crowded_timeout: Duration,
    /// The kernel's send buffer of one socket (`SO_SNDBUF`; Linux doubles it for its own use).
    /// It bounds the memory of an unread socket, in addition to `queued_bytes_max`.
    pub send_buffer_bytes: usize,
    /// How long sent bytes may stay unacknowledged (`TCP_USER_TIMEOUT`). When it passes, the kernel
    /// ends the connection.
    pub user_timeout: Duration,
    /// Connections of all shards together; 0 derives it from the open-file limit. When the limit is
    /// reached, a new connection is answered 503 and closed.
    pub sockets_max: usize,
    /// Messages queued for one shard. When the queue is full, [`crate::ShardSender::send`] returns
    /// the message.
    pub shard_queue_len_max: usize,
    /// Bytes of partly received heads and messages of one shard together. When the limit is
    /// reached, the socket that needs more is closed: a WebSocket with 1013, a request with 503.
    pub partial_bytes_max: usize,
}

impl Default for SocketLimits {
    fn default() -> Self {
        SocketLimits {
            message_bytes_max: 10_000_000,
            head_bytes_max: 16 * 1024,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            keep_alive_timeout: Duration::from_secs(60),
            close_timeout: Duration::from_secs(5),
            queued_bytes_max: 1024 * 1024,
            slow_timeout: Duration::from_secs(30),
            crowded_timeout: Duration::from_secs(5),
            send_buffer_bytes: 128 * 1024,
            user_timeout: Duration::from_secs(30),
            sockets_max: 0,
            shard_queue_len_max: 8192,
            partial_bytes_max: 64 * 1024 * 1024,
        }
    }
}
