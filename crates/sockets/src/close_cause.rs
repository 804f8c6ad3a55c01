//! The reasons why sockets end.

/// The reason why a socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCause {
    /// The client closed the socket, or its connection ended.
    ByPeer,
    /// The server closed the socket with this code, by [`crate::Sockets::close`] or because of
    /// `partial_bytes_max`.
    ByUs(u16),
    /// The client violated RFC 6455 or sent invalid UTF-8.
    Protocol,
    /// A message was larger than `message_bytes_max`.
    TooBig,
    /// The client sent nothing for `idle_timeout`.
    Idle,
    /// The client did not read: its queue was full, or made no progress for `slow_timeout`.
    Slow,
    /// The shard was drained.
    Drained,
}
