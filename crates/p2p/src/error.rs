//! Why an operation of a host failed.

use std::io;
use std::path::PathBuf;

use libp2p::Multiaddr;

/// Why a host did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The host's key pair cannot be read or created.
    #[error("cannot load the identity {}: {error}", path.display())]
    Identity {
        /// The file of the key pair.
        path: PathBuf,
        /// The cause.
        error: String,
    },
    /// The transports cannot be set up.
    #[error("cannot set up the network transport: {0}")]
    Transport(String),
    /// The host cannot listen on an address of its settings.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: Multiaddr,
        /// The cause.
        error: String,
    },
    /// The name of the DHT protocol does not begin with a slash.
    #[error("{0:?} is not a valid protocol name: begin it with a slash")]
    DhtProtocol(String),
    /// The operating system cannot create a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The host stopped during its start.
    #[error("the host stopped during its start")]
    Stopped,
}

/// The host has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host has stopped")]
pub struct Stopped;

/// Why a peer cannot be connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The dial failed.
    #[error("cannot connect to {address}: {error}")]
    Failed {
        /// The address.
        address: Multiaddr,
        /// The cause.
        error: String,
    },
    /// The host has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why content routing did not provide a root or find providers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// Content routing is disabled in the settings.
    #[error("content routing is off: enable the DHT in the settings")]
    Off,
    /// The query failed.
    #[error("content routing failed: {0}")]
    Failed(String),
    /// The host has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
