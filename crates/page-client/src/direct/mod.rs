//! Direct connections to the browsers of a page, over WebRTC data channels and WebTransport.
//!
//! WebRTC is the same protocol as between two browsers. A browser never calls a terminal first, so
//! the terminal calls. Before, it invites the browser to dial over WebTransport, which costs the
//! browser a sixth of the CPU time, and opens only if the terminal has a reachable address. The
//! first of the two that opens is used.
//!
//! Only `sockets.rs` and `web_transport/` open sockets and read clocks.

mod call;
mod connections;
#[cfg(test)]
mod line;
mod path;
mod public_addresses;
mod send_window;
#[cfg(test)]
mod send_window_tests;
mod signal;
mod sockets;
mod stream_call;
mod web_transport;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use str0m::crypto::CryptoProvider;
use watchfire_types::PeerId;

use crate::segment::{Segment, UnsentMessage};

pub(crate) use connections::DirectConnections;
pub use sockets::DirectLimit;
pub(crate) use sockets::DirectSockets;
#[cfg(test)]
pub(crate) use web_transport::Offer;
pub use web_transport::WebTransportListener;
pub(crate) use web_transport::{Secret, StreamEvent, StreamLinks};

/// The direct connections that a client may have.
#[derive(Clone, Debug)]
pub struct DirectOptions {
    /// Bounds the connections of all clients that share it.
    pub limit: DirectLimit,
    /// The listener that browsers may dial. `None`: they are called over WebRTC only.
    pub web_transport: Option<Arc<WebTransportListener>>,
}

/// A UDP datagram that was received or is to be sent.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Datagram {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes from {} to {}", self.bytes.len(), self.from, self.to)
    }
}

/// An output of [`DirectConnections`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Send this signal to a peer, through the server.
    Signal {
        to: PeerId,
        call: u32,
        bytes: Vec<u8>,
    },
    Datagram(Datagram),
    /// Write a frame to a stream.
    StreamFrame {
        secret: Secret,
        frame: Vec<u8>,
    },
    /// Close a stream, or withdraw its offer.
    CloseStream {
        secret: Secret,
    },
    /// Messages may be sent to this peer directly.
    Up {
        peer: PeerId,
    },
    /// No message may be sent to this peer directly until the next [`Output::Up`]. The peer may not
    /// have read these messages.
    Down {
        peer: PeerId,
        unread: Vec<UnsentMessage>,
    },
    /// The call to this peer has ended.
    Ended {
        peer: PeerId,
    },
    Segment {
        peer: PeerId,
        segment: Segment,
    },
    /// A message of `bytes` was given to the connection.
    Sent {
        peer: PeerId,
        bytes: usize,
    },
    /// The peer sent what no honest peer sends.
    Misbehaved {
        peer: PeerId,
        reason: &'static str,
    },
}

fn crypto() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(str0m::crypto::from_feature_flags())))
}
