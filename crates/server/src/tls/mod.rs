//! TLS of one process, from its settings to its thread. The feature `tls` brings `certificates`; a
//! program without it refuses the settings of TLS and speaks plain HTTP.

#[cfg(feature = "tls")]
mod certificates;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;
use watchfire_sockets::Certificates;

use crate::metrics::MetricSource;
#[cfg(not(feature = "tls"))]
use crate::settings::Settings;

#[cfg(feature = "tls")]
pub use self::certificates::{AcmeSetupError, DomainError, TlsStartError};
#[cfg(feature = "tls")]
pub(crate) use self::certificates::{check, check_redirect_addresses, open};
#[cfg(not(feature = "tls"))]
pub use crate::not_built::NotBuilt as TlsStartError;

/// The certificate is read and the listeners of `tls.redirect_listen` are open, so that an error
/// prevents the start. Nothing runs yet.
pub(crate) trait PreparedTls: Send {
    fn certificates(&self) -> Arc<Certificates>;

    /// The metrics of certificates. `is_first`: this is the first process of the server.
    fn metrics(&self, is_first: bool) -> Arc<dyn MetricSource>;

    /// `serving` is the address to which requests are redirected. `orders`: this process orders
    /// certificates, if the settings name an ACME server.
    fn start(
        self: Box<Self>,
        serving: SocketAddr,
        orders: bool,
    ) -> Result<TlsThread, TlsStartError>;
}

/// Watches certificates, orders them, and answers plain HTTP, until it is dropped.
pub(crate) struct TlsThread {
    redirects: Vec<SocketAddr>,
    _stop: oneshot::Sender<()>,
}

impl TlsThread {
    /// The addresses of `tls.redirect_listen`, with the ports that were bound.
    pub fn redirect_addresses(&self) -> &[SocketAddr] {
        &self.redirects
    }
}

/// `None`: the settings have no TLS.
#[cfg(not(feature = "tls"))]
pub(crate) fn open(
    settings: &Settings,
    _is_shared: bool,
) -> Result<Option<Box<dyn PreparedTls>>, TlsStartError> {
    check_redirect_addresses(settings).map(|()| None)
}

/// Checks the settings without starting anything.
#[cfg(not(feature = "tls"))]
pub(crate) fn check(settings: &Settings) -> Result<Vec<String>, TlsStartError> {
    check_redirect_addresses(settings).map(|()| Vec::new())
}

#[cfg(not(feature = "tls"))]
pub(crate) fn check_redirect_addresses(settings: &Settings) -> Result<(), TlsStartError> {
    match settings.tls.is_on() || !settings.tls.redirect_listen.is_empty() {
        true => Err(TlsStartError { setting: "tls", feature: "tls" }),
        false => Ok(()),
    }
}
