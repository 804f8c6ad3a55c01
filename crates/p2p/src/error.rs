//! Why an operation of a host failed.

use std::io;
use std::path::PathBuf;

use libp2p::Multiaddr;

/// Why a host did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("cannot load the identity {}: {error}", path.display())]
    Identity { path: PathBuf, error: String },
    #[error("cannot set up the network transport: {0}")]
    Transport(String),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: Multiaddr, error: String },
    #[error("{0:?} is not a valid protocol name: begin it with a slash")]
    DhtProtocol(String),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("the host stopped during its start")]
    Stopped,
}

impl From<io::Error> for StartError {
    fn from(cause: io::Error) -> Self {
        StartError::Thread(cause)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host has stopped")]
pub struct Stopped;

/// Why a peer cannot be connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot connect to {address}: {error}")]
    Failed { address: Multiaddr, error: String },
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
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
