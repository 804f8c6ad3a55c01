//! TLS of one process, from its settings to its thread. The feature `tls` brings the code in
//! `watchfire_certificates`; a program without it refuses the settings of TLS and speaks plain HTTP.

#[cfg(not(feature = "tls"))]
pub(crate) use self::absent::{PreparedTls, TlsThread, check, check_redirect_addresses, open};
#[cfg(feature = "tls")]
pub(crate) use self::built::{PreparedTls, TlsThread, check, check_redirect_addresses, open};
#[cfg(not(feature = "tls"))]
pub use crate::not_built::NotBuilt as TlsStartError;
#[cfg(feature = "tls")]
pub use watchfire_certificates::{AcmeSetupError, DomainError, TlsStartError};

#[cfg(feature = "tls")]
mod built {
    use watchfire_certificates::ServerAddresses;
    pub use watchfire_certificates::{PreparedTls, TlsStartError, TlsThread};

    use crate::settings::Settings;

    /// Reads the certificate and opens the listeners. `is_shared`: other processes of the server listen
    /// on the same addresses. `None`: the settings have no TLS.
    pub fn open(
        settings: &Settings,
        domains: &[String],
        is_shared: bool,
    ) -> Result<Option<PreparedTls>, TlsStartError> {
        watchfire_certificates::open(&settings.tls, addresses(settings, domains), is_shared)
    }

    /// Checks the settings without starting anything. Returns what the server would do, a line for
    /// each part.
    pub fn check(settings: &Settings, domains: &[String]) -> Result<Vec<String>, TlsStartError> {
        watchfire_certificates::check(&settings.tls, addresses(settings, domains))
    }

    /// Checks that other servers do not listen on `tls.redirect_listen`. Afterwards, the processes
    /// of the server share the addresses, which another server could do unnoticed.
    pub fn check_redirect_addresses(settings: &Settings) -> Result<(), TlsStartError> {
        watchfire_certificates::check_redirect_addresses(&settings.tls)
    }

    fn addresses<'a>(settings: &'a Settings, domains: &'a [String]) -> ServerAddresses<'a> {
        ServerAddresses {
            public_url: &settings.server.public_url,
            domains,
            listen: settings.server.listen.first().copied(),
            has_processes: settings.server.processes != 1,
        }
    }
}

/// A program without TLS. No value of its types ever exists.
#[cfg(any(test, not(feature = "tls")))]
#[cfg_attr(feature = "tls", allow(dead_code, reason = "tests try the refusal"))]
mod absent {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use watchfire_metrics::MetricSource;
    use watchfire_sockets::Certificates;

    use crate::not_built::NotBuilt;
    use crate::settings::Settings;

    pub enum PreparedTls {}

    impl PreparedTls {
        pub fn certificates(&self) -> Arc<Certificates> {
            match *self {}
        }

        pub fn metrics(&self, _is_first: bool) -> Arc<dyn MetricSource> {
            match *self {}
        }

        pub fn start(self, _: SocketAddr, _orders: bool) -> Result<TlsThread, NotBuilt> {
            match self {}
        }
    }

    pub enum TlsThread {}

    impl TlsThread {
        pub fn redirect_addresses(&self) -> &[SocketAddr] {
            match *self {}
        }
    }

    pub fn open(
        settings: &Settings,
        domains: &[String],
        _is_shared: bool,
    ) -> Result<Option<PreparedTls>, NotBuilt> {
        check(settings, domains).map(|_| None)
    }

    pub fn check_redirect_addresses(settings: &Settings) -> Result<(), NotBuilt> {
        check(settings, &[]).map(|_| ())
    }

    pub fn check(settings: &Settings, _domains: &[String]) -> Result<Vec<String>, NotBuilt> {
        match settings.tls.is_on() || !settings.tls.redirect_listen.is_empty() {
            true => Err(NotBuilt { setting: "tls", feature: "tls" }),
            false => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::absent::check;
    use crate::settings::Settings;

    #[test]
    fn a_program_without_the_feature_refuses_the_settings_of_tls() {
        let mut settings = Settings::default();
        assert_eq!(check(&settings, &[]), Ok(Vec::new()));
        settings.tls.redirect_listen = vec!["127.0.0.1:80".parse().unwrap()];
        let error = check(&settings, &[]).unwrap_err().to_string();
        assert!(error.starts_with("cannot use tls: "), "{error}");
        assert!(error.contains("without the feature \"tls\""), "{error}");
        settings.tls.redirect_listen.clear();
        settings.tls.cert = "cert.pem".into();
        assert!(check(&settings, &[]).is_err());
    }
}
