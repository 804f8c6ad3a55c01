//! The thread that watches certificates, orders them, and answers plain HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::acme::AcmeClient;
use super::plan::{OpenCertificates, Source, TlsPlan, TlsStartError};
use super::redirect::{RedirectListener, Redirects};
use super::reload::Reloader;

/// Runs until it is dropped.
pub(crate) struct TlsThread {
    redirects: Vec<SocketAddr>,
    _stop: oneshot::Sender<()>,
}

/// The parts of a [`TlsThread`] that are opened before the server accepts clients, so that an error
/// prevents the start.
pub(crate) struct TlsThreadSetup {
    runtime: Runtime,
    listeners: Vec<RedirectListener>,
}

impl TlsThreadSetup {
    /// Opens the listeners of `tls.redirect_listen`. `is_shared`: other processes of the server
    /// listen on the same addresses.
    pub fn open(plan: &TlsPlan, is_shared: bool) -> Result<Self, TlsStartError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(TlsStartError::Thread)?;
        let _context = runtime.enter();
        let listeners = plan.redirect_listen.iter().map(|&address| {
            RedirectListener::open(address, is_shared)
                .map_err(|source| TlsStartError::Listen { address, source })
        });
        let listeners = listeners.collect::<Result<_, _>>()?;
        drop(_context);
        Ok(TlsThreadSetup { runtime, listeners })
    }
}

impl TlsThread {
    /// `serving` is the address to which requests are redirected. `orders`: this process orders
    /// certificates, if the settings name an ACME server.
    pub fn start(
        setup: TlsThreadSetup,
        plan: TlsPlan,
        open: OpenCertificates,
        serving: SocketAddr,
        orders: bool,
    ) -> Result<Self, TlsStartError> {
        let TlsThreadSetup { runtime, listeners } = setup;
        let redirects = listeners.iter().map(RedirectListener::address).collect();
        let (stop, stopped) = oneshot::channel::<()>();
        let start = move || -> io::Result<()> {
            let _context = runtime.enter();
            let is_renewed_by_hand = matches!(plan.source, Source::Files(_));
            let OpenCertificates { certificates, seen } = open;
            let reloader = Reloader::new(plan.files(), certificates, seen, is_renewed_by_hand);
            runtime.spawn(reloader.run(signal(SignalKind::hangup())?));
            let redirects = Arc::new(Redirects::new(plan.redirect_rules, serving));
            for listener in listeners {
                runtime.spawn(listener.run(redirects.clone()));
            }
            if let (Source::Acme(acme), true) = (plan.source, orders) {
                runtime.spawn(AcmeClient::new(acme).run(signal(SignalKind::hangup())?));
            }
            drop(_context);
            thread::Builder::new().name("tls".into()).spawn(move || {
                // An error means that the handle was dropped.
                let _ = runtime.block_on(stopped);
                // Without waiting for a name that is being resolved.
                runtime.shutdown_background();
            })?;
            Ok(())
        };
        start().map_err(TlsStartError::Thread)?;
        Ok(TlsThread { redirects, _stop: stop })
    }

    /// The addresses of `tls.redirect_listen`, with the ports that were bound.
    pub fn redirect_addresses(&self) -> &[SocketAddr] {
        &self.redirects
    }
}
