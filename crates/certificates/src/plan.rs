//! The checked settings of TLS.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use watchfire_metrics::MetricSource;
use watchfire_sockets::{Certificate, Certificates, TlsError, TlsFiles};

use super::acme::{AcmePlan, AcmeSetupError};
use super::expiry::Validity;
use super::files::FileVersions;
use super::metrics::{TlsCounts, TlsMetrics};
use super::redirect::{RedirectListener, RedirectRules};
use crate::settings::{AcmeChallenge, TlsSettings};

/// Why TLS cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsStartError {
    /// Only one of `tls.cert` and `tls.key` is set.
    #[error("cannot use TLS: set both tls.cert and tls.key, or neither")]
    Incomplete,
    /// The certificate has two sources.
    #[error(
        "cannot use TLS: tls.cert and tls.acme.domains are both set; keep the files or the ACME server"
    )]
    TwoSources,
    /// A file of the certificate cannot be used.
    #[error(transparent)]
    Files(#[from] TlsError),
    /// The ACME client cannot start.
    #[error(transparent)]
    Acme(#[from] AcmeSetupError),
    /// Redirects without TLS.
    #[error(
        "cannot use tls.redirect_listen: TLS is off; set tls.cert and tls.key, or tls.acme.domains"
    )]
    RedirectWithoutTls,
    /// HTTP-01 without a listener for plain HTTP.
    #[error(
        "cannot use tls.acme.challenge \"http-01\": nothing listens for plain HTTP; set tls.redirect_listen, such as [\"0.0.0.0:80\"]"
    )]
    Http01WithoutListener,
    /// Several processes cannot agree on a free port.
    #[error(
        "cannot use tls.redirect_listen {address} with several processes: choose a port instead of 0"
    )]
    AnyPort {
        /// The address.
        address: SocketAddr,
    },
    /// The server cannot listen for plain HTTP.
    #[error(
        "cannot listen on tls.redirect_listen {address}: {cause}; free the address or choose another"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        cause: std::io::Error,
    },
    /// The thread of TLS cannot be started.
    #[error("cannot start the thread for certificates: {0}; raise the limit of processes")]
    Thread(std::io::Error),
}

/// The settings of the server itself that TLS depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerAddresses<'a> {
    /// `server.public_url`; empty if it is not set.
    pub public_url: &'a str,
    /// The domains whose subdomains are hosts of this server, too.
    pub domains: &'a [String],
    /// The first address of `server.listen`.
    pub listen: Option<SocketAddr>,
    /// Whether several processes share the addresses.
    pub has_processes: bool,
}

/// The actions of TLS, as the settings define them.
#[derive(Debug)]
pub(super) struct TlsPlan {
    pub(super) source: Source,
    pub(super) redirect_listen: Vec<SocketAddr>,
    pub(super) redirect_rules: RedirectRules,
}

/// The source of the certificate.
#[derive(Debug)]
pub(super) enum Source {
    Files(TlsFiles),
    Acme(Arc<AcmePlan>),
}

/// The certificates that were found at the start.
pub(super) struct OpenCertificates {
    pub certificates: Arc<Certificates>,
    pub(super) seen: FileVersions,
    pub(super) counts: Arc<TlsCounts>,
}

impl OpenCertificates {
    /// The metrics of certificates. `is_first`: this is the first process of the server.
    pub fn metrics(&self, is_first: bool) -> Arc<dyn MetricSource> {
        Arc::new(TlsMetrics::new(self.certificates.clone(), self.counts.clone(), is_first))
    }
}

impl TlsPlan {
    /// Checks the settings; `None` without TLS.
    pub fn new(
        tls: &TlsSettings,
        server: ServerAddresses<'_>,
    ) -> Result<Option<Self>, TlsStartError> {
        let (has_cert, has_key) =
            (!tls.cert.as_os_str().is_empty(), !tls.key.as_os_str().is_empty());
        let source = match (has_cert, has_key, tls.acme.is_on()) {
            (false, false, false) if tls.redirect_listen.is_empty() => return Ok(None),
            (false, false, false) => return Err(TlsStartError::RedirectWithoutTls),
            (true, true, false) => {
                Source::Files(TlsFiles { cert: tls.cert.clone(), key: tls.key.clone() })
            }
            (false, false, true) => {
                let is_http_01 = tls.acme.challenge == AcmeChallenge::Http01;
                if is_http_01 && tls.redirect_listen.is_empty() {
                    return Err(TlsStartError::Http01WithoutListener);
                }
                Source::Acme(Arc::new(AcmePlan::new(&tls.acme)?))
            }
            (true, true, true) => return Err(TlsStartError::TwoSources),
            _ => return Err(TlsStartError::Incomplete),
        };
        let any_port = tls.redirect_listen.iter().find(|address| address.port() == 0);
        if let Some(&address) = any_port.filter(|_| server.has_processes) {
            return Err(TlsStartError::AnyPort { address });
        }
        let acme = match &source {
            Source::Acme(acme) => Some(acme.clone()),
            Source::Files(_) => None,
        };
        Ok(Some(TlsPlan {
            source,
            redirect_listen: tls.redirect_listen.clone(),
            redirect_rules: RedirectRules::new(server, acme),
        }))
    }

    /// Reads the certificate. Certificates from files must be valid; one from an ACME server may
    /// not exist yet.
    pub fn open(&self) -> Result<OpenCertificates, TlsStartError> {
        let files = self.files();
        let seen = FileVersions::of(&files);
        let certificates = match &self.source {
            Source::Files(files) => Certificates::new(Some(Certificate::read(files)?)),
            Source::Acme(acme) => {
                acme.prepare()?;
                let current = stored(&files);
                let acme = acme.clone();
                Certificates::new(current).answer_challenges(move |domain| acme.tls_answer(domain))
            }
        };
        let counts = Arc::default();
        Ok(OpenCertificates { certificates: Arc::new(certificates), seen, counts })
    }

    /// The files of the certificate and its key.
    pub(super) fn files(&self) -> TlsFiles {
        match &self.source {
            Source::Files(files) => files.clone(),
            Source::Acme(acme) => acme.certificate_files(),
        }
    }
}

/// Checks the settings and the files that they name, without starting anything. Returns what
/// the server would do, a line for each part.
pub fn check(tls: &TlsSettings, server: ServerAddresses<'_>) -> Result<Vec<String>, TlsStartError> {
    let Some(plan) = TlsPlan::new(tls, server)? else { return Ok(vec!["TLS: off".into()]) };
    let mut lines = match &plan.source {
        Source::Files(files) => {
            let certificate = Certificate::read(files)?;
            let file = files.cert.display();
            let described = match Validity::of(&certificate) {
                Some(validity) => validity.to_string(),
                None => "unknown names and validity".into(),
            };
            let mut lines = vec![format!("TLS: certificate from {file}: {described}")];
            let validity = Validity::of(&certificate);
            let advice = validity.and_then(|validity| validity.advice(SystemTime::now()));
            lines.extend(advice.map(|advice| format!("warning: {advice}")));
            lines
        }
        Source::Acme(acme) => {
            acme.check()?;
            acme.describe()
        }
    };
    lines.extend(plan.redirect_rules.warning());
    for address in &plan.redirect_listen {
        lines.push(format!(
            "would redirect http://{address} to {}",
            plan.redirect_rules.describe(server.listen)
        ));
    }
    Ok(lines)
}

/// Checks that other servers do not listen on `tls.redirect_listen`. Afterwards, the processes
/// of the server share the addresses, which another server could do unnoticed.
pub fn check_redirect_addresses(tls: &TlsSettings) -> Result<(), TlsStartError> {
    for &address in &tls.redirect_listen {
        RedirectListener::check(address)
            .map_err(|cause| TlsStartError::Listen { address, cause })?;
    }
    Ok(())
}

/// The certificate that an ACME server issued before, if there is one.
fn stored(files: &TlsFiles) -> Option<Certificate> {
    match Certificate::read(files) {
        Ok(certificate) => Some(certificate),
        Err(TlsError::Unreadable { cause, .. }) if cause.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            tracing::error!(
                "cannot use the stored certificate: {error}; a new one will be ordered"
            );
            None
        }
    }
}
