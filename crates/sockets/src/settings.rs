//! Settings of a socket server.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::limits::SocketLimits;
use crate::listen::Listeners;

/// The addresses to listen on, the number of shards and the limits.
#[derive(Debug)]
pub struct SocketServerSettings {
    /// Addresses to listen on. Port 0 takes a free port, the same for all shards and, where it is
    /// free there too, for all addresses.
    pub listen: Vec<SocketAddr>,
    /// Event loops, each a thread with its own listener; 0 for one a core.
    pub shards: usize,
    /// Limits on the resources of sockets.
    pub limits: SocketLimits,
    /// Where the certificate and its key are; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Listeners that another process opened for this one; then `listen` and `shards` say nothing.
    pub inherited: Option<Listeners>,
}

impl Default for SocketServerSettings {
    fn default() -> Self {
        SocketServerSettings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            shards: 0,
            limits: SocketLimits::default(),
            tls: None,
            inherited: None,
        }
    }
}

/// PEM files of a TLS server.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsFiles {
    /// The certificate chain, the server's own first.
    pub cert: PathBuf,
    /// Its private key, in PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}
