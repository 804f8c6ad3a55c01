//! Without the feature `tls`, a server speaks plain HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use watchfire_sockets::Certificates;

use crate::metrics::MetricSource;
use crate::not_built::NotBuilt;
use crate::settings::Settings;

pub use crate::not_built::NotBuilt as TlsStartError;

pub(crate) enum TlsPlan {}

impl TlsPlan {
    pub fn new(settings: &Settings) -> Result<Option<Self>, NotBuilt> {
        let tls = &settings.tls;
        match tls.is_on() || !tls.redirect_listen.is_empty() {
            true => Err(NotBuilt { setting: "tls", feature: "tls" }),
            false => Ok(None),
        }
    }

    pub fn check(settings: &Settings) -> Result<Vec<String>, NotBuilt> {
        TlsPlan::new(settings).map(|_| Vec::new())
    }

    pub fn check_redirect_addresses(settings: &Settings) -> Result<(), NotBuilt> {
        TlsPlan::new(settings).map(|_| ())
    }

    pub fn open(&self) -> Result<OpenCertificates, NotBuilt> {
        match *self {}
    }
}

pub(crate) struct OpenCertificates {
    pub certificates: Arc<Certificates>,
}

impl OpenCertificates {
    pub fn metrics(&self, _: bool) -> Arc<dyn MetricSource> {
        match *self.certificates {}
    }
}

pub(crate) enum TlsThreadSetup {}

impl TlsThreadSetup {
    pub fn open(plan: &TlsPlan, _: bool) -> Result<Self, NotBuilt> {
        match *plan {}
    }
}

pub(crate) enum TlsThread {}

impl TlsThread {
    pub fn start(
        setup: TlsThreadSetup,
        _: TlsPlan,
        _: OpenCertificates,
        _: SocketAddr,
        _: bool,
    ) -> Result<Self, NotBuilt> {
        match setup {}
    }

    pub fn redirect_addresses(&self) -> &[SocketAddr] {
        match *self {}
    }
}
