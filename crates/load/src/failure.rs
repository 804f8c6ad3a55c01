//! The kinds of errors of simulated users.

use std::fmt;

use rustix::io::Errno;

use crate::frame::FrameError;
use crate::http::ResponseError;
use crate::tls::TlsFailure;

/// The beginning of the name of a failure that a limit of this machine caused.
pub(crate) const LIMIT_REACHED: &str = "this machine's limit: ";

/// Why a step or a user failed. There are few kinds, so that they can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    Refused,
    Reset,
    Unreachable,
    TimedOut,
    /// The server ended the connection without a close frame.
    Ended,
    /// The server closed the websocket with this code.
    Closed(u16),
    /// The server responded to the upgrade with this status.
    NotUpgraded(u16),
    WrongAccept,
    InvalidResponse,
    Masked,
    InvalidFrame,
    /// A text message that is not UTF-8.
    InvalidText,
    TooLong,
    /// The server does not read, and the send queue is full.
    NotReading,
    /// A reply with another status than "ok".
    RefusedReply,
    ChannelError,
    HeartbeatUnanswered,
    WrongStatus(u16),
    /// The response does not contain the expected text.
    TextMissing,
    /// The answer has no value at the named place.
    NothingToSave,
    /// A block of a page that does not have its hash.
    WrongBlock,
    /// A URL from a variable names a server that the scenario does not have.
    UnknownServer,
    Tls(TlsFailure),
    OpenFiles,
    SourcePorts,
    SourceAddress,
    KernelMemory,
    System(i32),
}

impl Failure {
    pub(crate) fn from_errno(errno: Errno) -> Failure {
        match errno {
            Errno::CONNREFUSED => Failure::Refused,
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Failure::Reset,
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN => Failure::Unreachable,
            Errno::TIMEDOUT => Failure::TimedOut,
            Errno::MFILE | Errno::NFILE => Failure::OpenFiles,
            Errno::ADDRINUSE => Failure::SourcePorts,
            // connect returns this when the kernel has no port left; bind returns it for a foreign
            // address.
            Errno::ADDRNOTAVAIL => Failure::SourcePorts,
            Errno::NOBUFS | Errno::NOMEM => Failure::KernelMemory,
            other => Failure::System(other.raw_os_error()),
        }
    }

    /// Whether another address of the same server may work.
    pub(crate) fn is_of_address(self) -> bool {
        matches!(
            self,
            Failure::Refused
                | Failure::Unreachable
                | Failure::TimedOut
                | Failure::SourcePorts
                | Failure::SourceAddress
                | Failure::System(_)
        )
    }

    /// The limit of this machine that caused the failure, if any.
    pub(crate) fn limit(self) -> Option<&'static str> {
        match self {
            Failure::OpenFiles => {
                Some("open files (ulimit -n); `watchfire doctor` shows how to raise it")
            }
            Failure::SourcePorts => {
                Some("ports of the source addresses; give more in [sources] addresses")
            }
            Failure::KernelMemory => Some("kernel memory for sockets (net.ipv4.tcp_mem)"),
            _ => None,
        }
    }
}

impl From<ResponseError> for Failure {
    fn from(error: ResponseError) -> Failure {
        match error {
            ResponseError::Invalid => Failure::InvalidResponse,
            ResponseError::Cut => Failure::Ended,
        }
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Failure {
        match error {
            FrameError::Masked => Failure::Masked,
            FrameError::TooLong => Failure::TooLong,
            FrameError::ReservedBits
            | FrameError::UnknownOpcode
            | FrameError::BadControl
            | FrameError::BadClose => Failure::InvalidFrame,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(limit) = self.limit() {
            return write!(f, "{LIMIT_REACHED}{limit}");
        }
        match self {
            Failure::Refused => f.write_str("connection refused"),
            Failure::Reset => f.write_str("connection reset"),
            Failure::Unreachable => f.write_str("unreachable"),
            Failure::TimedOut => f.write_str("timed out"),
            Failure::Ended => f.write_str("connection ended"),
            Failure::Closed(code) => write!(f, "closed by the server with {code}"),
            Failure::NotUpgraded(status) => write!(f, "upgrade failed: HTTP {status}"),
            Failure::WrongAccept => f.write_str("upgrade failed: wrong Sec-WebSocket-Accept"),
            Failure::InvalidResponse => f.write_str("not HTTP"),
            Failure::Masked => f.write_str("the server masked a frame"),
            Failure::InvalidFrame => f.write_str("invalid frame (RFC 6455)"),
            Failure::InvalidText => f.write_str("text that is not UTF-8 (RFC 6455)"),
            Failure::TooLong => f.write_str("message or response over 16 MiB"),
            Failure::NotReading => f.write_str("the server does not read"),
            Failure::RefusedReply => f.write_str("reply with an error status"),
            Failure::ChannelError => f.write_str("the channel crashed"),
            Failure::HeartbeatUnanswered => f.write_str("heartbeat unanswered"),
            Failure::WrongStatus(status) => write!(f, "HTTP {status}"),
            Failure::TextMissing => f.write_str("the response lacks the expected text"),
            Failure::NothingToSave => f.write_str("no value to save in the answer"),
            Failure::WrongBlock => f.write_str("a block with wrong content"),
            Failure::UnknownServer => f.write_str("the URL names a server that the file does not"),
            Failure::Tls(TlsFailure::Certificate) => {
                f.write_str("TLS: the certificate of the server is not trusted")
            }
            Failure::Tls(TlsFailure::Alert) => f.write_str("TLS: the server refused the handshake"),
            Failure::Tls(TlsFailure::Invalid) => f.write_str("TLS: invalid data"),
            Failure::SourceAddress => f.write_str("this machine does not have the source address"),
            Failure::System(errno) => write!(f, "{}", Errno::from_raw_os_error(*errno)),
            Failure::OpenFiles | Failure::SourcePorts | Failure::KernelMemory => Ok(()),
        }
    }
}
