//! Settings of a socket server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::limits::SocketLimits;
use crate::listen::Listeners;
use crate::tls::Certificates;

/// The addresses to listen on, the number of shards and the limits.
#[derive(Debug)]
pub struct SocketServerSettings {
    /// Addresses to listen on. Port 0 takes one free port for all shards and addresses. Without an
    /// address, the shards serve the connections that [`Adopter`](crate::Adopter) gives them.
    pub listen: Vec<SocketAddr>,
    /// Event loops, each a thread with its own listener; 0 for one per core.
    pub shards: usize,
    pub limits: SocketLimits,
    /// The certificates; `None` for plain HTTP.
    pub tls: Option<Arc<Certificates>>,
    /// The addresses at which a proxy names each client with the PROXY protocol.
    pub proxy_protocol: ProxyProtocol,
    /// Listeners that another process opened for this one. Then `listen` and `shards` are ignored.
    pub inherited: Option<Listeners>,
    /// Whether connections wait in the listeners until
    /// [`SocketServer::accept_clients`](crate::SocketServer::accept_clients).
    pub is_paused: bool,
}

impl Default for SocketServerSettings {
    fn default() -> Self {
        SocketServerSettings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            shards: 0,
            limits: SocketLimits::default(),
            tls: None,
            proxy_protocol: ProxyProtocol::default(),
            inherited: None,
            is_paused: false,
        }
    }
}

/// The addresses at which every connection begins with a header of the PROXY protocol.
#[derive(Clone)]
pub struct ProxyProtocol {
    /// Their places in the list of the addresses to listen on.
    pub listeners: Vec<usize>,
    /// Whether an address belongs to a proxy. A connection from any other address is closed.
    pub trusts: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

impl Default for ProxyProtocol {
    fn default() -> Self {
        ProxyProtocol { listeners: Vec::new(), trusts: Arc::new(|_| false) }
    }
}

impl fmt::Debug for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyProtocol").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}
