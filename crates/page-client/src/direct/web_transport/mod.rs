//! WebTransport: a browser dials the terminal, which has a certificate that only a signal names.
//!
//! One listener serves all pages of a process. It makes a secret for each offer, and accepts a
//! session only at the path that is the secret. The terminal opens one stream in the session. Both
//! sides write the frames of a data channel to it, each after its length in two bytes.

mod certificate;
mod connection;
mod frame_reader;
mod links;
mod listener;
mod outside;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use links::StreamLinks;
pub use listener::WebTransportListener;

/// How often a connection looks at what the network took, and the bytes that count. A connection that
/// only tells the other side that it exists sends less.
const SENDING_INTERVAL: Duration = Duration::from_secs(5);
const SENDING_BYTES_MIN: u64 = 16 << 10;

/// Frames that are given to a stream and not written so far, at most one mebibyte.
pub(super) const FRAMES_MAX: usize = 64;

pub(super) const SECRET_BYTES: usize = 16;

/// The secret of an offer. The browser that dials proves by it that it has read the signal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Secret(pub [u8; SECRET_BYTES]);

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// The contents of a signal that invites a browser to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub secret: Secret,
    /// A host and a port each.
    pub addresses: Vec<String>,
    /// The SHA-256 of the certificate, in hexadecimal.
    pub certificate: String,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamEvent {
    /// The browser has dialled, and the stream is open.
    Opened,
    Frame(Bytes),
    /// The browser sent a frame that is empty or too long.
    Malformed,
    /// This many frames left the queue of the stream.
    Written(usize),
    /// The network took at least [`SENDING_BYTES_MIN`] in the last [`SENDING_INTERVAL`].
    Sending,
    Closed,
}

#[cfg(test)]
pub(super) mod test_client;
#[cfg(test)]
mod tests;
