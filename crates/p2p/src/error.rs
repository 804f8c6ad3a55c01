//! Why an operation of a host failed.

use std::io;
use std::path::PathBuf;

use libp2p::Multiaddr;

/// Why a host did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The host's key pair cannot be read or created.
    #[error("cannot load the identity {}: {error}", path.display())]
    Identity {
        /// The file of the key pair.
        path: PathBuf,
        error: String,
    },
    #[error("cannot set up the network transport: {0}")]
    Transport(String),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: Multiaddr, error: String },
    #[error("{0:?} is not a valid protocol name: begin it with a slash")]
    DhtProtocol(String),
    /// The operating system cannot create a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
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
    #[error("cannot connect to {address}: {error}")]
    Failed { address: Multiaddr, error: String },
    /// The host has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why content routing did not provide a root or find providers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    #[error("content routing is off: enable the DHT in the settings")]
    Off,
    #[error("content routing failed: {0}")]
    Failed(String),
    /// The host has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
