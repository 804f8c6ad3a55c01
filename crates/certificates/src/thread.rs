//! The thread that watches certificates, orders them, and answers plain HTTP.

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use watchfire_sockets::VitalThread;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use watchfire_metrics::MetricSource;
use watchfire_sockets::Certificates;

use super::acme::AcmeClient;
use super::plan::{OpenCertificates, ServerAddresses, Source, TlsPlan, TlsStartError};
use super::redirect::{RedirectListener, Redirects};
use super::reload::Reloader;
use crate::settings::TlsSettings;

/// The parts of the thread that are opened before the server accepts clients.
struct TlsThreadSetup {
    runtime: BackgroundRuntime,
    listeners: Vec<RedirectListener>,
}

/// A runtime whose drop does not wait for a name that is being resolved. So it may be dropped inside
/// another runtime, when the start of a server fails.
struct BackgroundRuntime(Option<Runtime>);

impl Deref for BackgroundRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("the runtime exists until the drop")
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl TlsThreadSetup {
    /// Opens the listeners of `tls.redirect_listen`. `is_shared`: other processes of the server
    /// listen on the same addresses.
    fn open(plan: &TlsPlan, is_shared: bool) -> Result<Self, TlsStartError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(TlsStartError::Thread)?;
        let runtime = BackgroundRuntime(Some(runtime));
        let context = runtime.enter();
        let listeners = plan.redirect_listen.iter().map(|&address| {
            RedirectListener::open(address, is_shared)
                .map_err(|cause| TlsStartError::Listen { address, cause })
        });
        let listeners = listeners.collect::<Result<_, _>>()?;
        drop(context);
        Ok(TlsThreadSetup { runtime, listeners })
    }
}

/// Reads the certificate and opens the listeners. `is_shared`: other processes of the server listen on
/// the same addresses. `None`: the settings have no TLS.
pub fn open(
    tls: &TlsSettings,
    server: ServerAddresses<'_>,
    is_shared: bool,
) -> Result<Option<PreparedTls>, TlsStartError> {
    let Some(plan) = TlsPlan::new(tls, server)? else { return Ok(None) };
    let setup = TlsThreadSetup::open(&plan, is_shared)?;
    Ok(Some(PreparedTls { open: plan.open()?, plan, setup }))
}

/// The certificate is read and the listeners of `tls.redirect_listen` are open, so that an error
/// prevents the start. Nothing runs yet.
pub struct PreparedTls {
    plan: TlsPlan,
    open: OpenCertificates,
    setup: TlsThreadSetup,
}

impl PreparedTls {
    pub fn certificates(&self) -> Arc<Certificates> {
        self.open.certificates.clone()
    }

    /// The metrics of certificates. `is_first`: this is the first process of the server.
    pub fn metrics(&self, is_first: bool) -> Arc<dyn MetricSource> {
        self.open.metrics(is_first)
    }

    /// `serving` is the address to which requests are redirected. `orders`: this process orders
    /// certificates, if the settings name an ACME server.
    pub fn start(self, serving: SocketAddr, orders: bool) -> Result<TlsThread, TlsStartError> {
        let PreparedTls { plan, open, setup } = self;
        let TlsThreadSetup { runtime, listeners } = setup;
        let redirects = listeners.iter().map(RedirectListener::address).collect();
        let (stop, stopped) = oneshot::channel::<()>();
        let start = move || -> io::Result<()> {
            let context = runtime.enter();
            let is_renewed_by_hand = matches!(plan.source, Source::Files(_));
            let OpenCertificates { certificates, seen, counts } = open;
            let (files, counted) = (plan.files(), counts.clone());
            let reloader = Reloader::new(files, certificates, seen, counted, is_renewed_by_hand);
            runtime.spawn(vital(reloader.run(signal(SignalKind::hangup())?)));
            let redirects = Arc::new(Redirects::new(plan.redirect_rules, serving));
            for listener in listeners {
                runtime.spawn(vital(listener.run(redirects.clone())));
            }
            if let (Source::Acme(acme), true) = (plan.source, orders) {
                let client = AcmeClient::new(acme, counts);
                runtime.spawn(vital(client.run(signal(SignalKind::hangup())?)));
            }
            drop(context);
            thread::Builder::new().name("tls".into()).spawn(move || {
                // An error means that the handle was dropped.
                let _ = runtime.block_on(stopped);
            })?;
            Ok(())
        };
        start().map_err(TlsStartError::Thread)?;
        Ok(TlsThread { redirects, _stop: stop })
    }
}

/// A task of the thread, whose panic ends the process.
async fn vital(task: impl Future<Output = ()>) {
    let _vital = VitalThread::enter("tls");
    task.await;
}

/// Watches certificates, orders them, and answers plain HTTP, until it is dropped.
pub struct TlsThread {
    redirects: Vec<SocketAddr>,
    _stop: oneshot::Sender<()>,
}

impl TlsThread {
    /// The addresses of `tls.redirect_listen`, with the ports that were bound.
    pub fn redirect_addresses(&self) -> &[SocketAddr] {
        &self.redirects
    }
}
