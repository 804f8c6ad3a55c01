//! The reasons why sockets end.

/// Why a socket is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCause {
    /// The client closed, or its connection ended.
    ByPeer,
    /// We closed it: [`crate::Sockets::close`], with this code.
    ByUs(u16),
    /// It broke RFC 6455 or sent bad UTF-8.
    Protocol,
    /// A message passed `message_bytes_max`.
    TooBig,
    /// Nothing came for `idle_timeout`.
    Idle,
    /// It did not read: its queue was full, or stayed unread for `slow_timeout`.
    Slow,
    /// The shard drained.
    Drained,
}
