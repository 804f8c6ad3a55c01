//! The sections `tls` and `tls.acme`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use watchfire_settings::section;

section! {
    "tls";
    /// TLS with a certificate from files or from an ACME server; plain HTTP with neither.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct TlsSettings {
        /// A PEM file with the certificate chain; empty for plain HTTP, or for ACME. The server
        /// checks it and the key every 2 seconds, and loads a new pair without closing a
        /// connection. SIGHUP loads them immediately.
        cert: PathBuf = PathBuf::new();
        /// A PEM file with the private key.
        key: PathBuf = PathBuf::new();
        /// Addresses for plain HTTP, such as `["0.0.0.0:80"]`. Requests are redirected to HTTPS
        /// with 308. Each process holds at most 100 of these connections for each of the addresses;
        /// when there are more, it closes the oldest. Requires TLS.
        redirect_listen: Vec<SocketAddr> = Vec::new();
        /// Certificates from an ACME server.
        acme: AcmeSettings = AcmeSettings::default();
    }
}

impl TlsSettings {
    /// Whether the server encrypts its connections.
    pub fn is_on(&self) -> bool {
        !self.cert.as_os_str().is_empty() || !self.key.as_os_str().is_empty() || self.acme.is_on()
    }
}

section! {
    "tls.acme";
    /// Certificates from an ACME server (RFC 8555), such as Let's Encrypt.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct AcmeSettings {
        /// The names of a certificate that the server orders from an ACME server and renews, such
        /// as `["example.org", "www.example.org"]`. Empty: no ACME. At most 100, no wildcards. By
        /// setting it you accept the terms of service of the ACME server.
        domains: Vec<String> = Vec::new();
        /// Addresses that the ACME server may write to, such as `["mailto:admin@example.org"]`.
        contact: Vec<String> = Vec::new();
        /// The directory of the ACME server; the default is Let's Encrypt. For tests, its staging
        /// server is `"https://acme-staging-v02.api.letsencrypt.org/directory"`.
        directory_url: String = "https://acme-v02.api.letsencrypt.org/directory".into();
        /// The folder of the account key, the certificate with its key and the pending challenges.
        /// Required with domains. It must survive restarts: an ACME server issues few certificates
        /// for the same names in a week.
        state_dir: PathBuf = PathBuf::new();
        /// A PEM file with certificates that the connection to the ACME server trusts in addition
        /// to those of the system; for a private ACME server.
        ca_file: PathBuf = PathBuf::new();
        /// How the ACME server validates the domains: `"tls-alpn-01"` needs port 443 of each domain
        /// to reach `server.listen`; `"http-01"` needs port 80 to reach `tls.redirect_listen`.
        challenge: AcmeChallenge = AcmeChallenge::default();
    }
}

impl AcmeSettings {
    /// Whether the server orders certificates.
    pub fn is_on(&self) -> bool {
        !self.domains.is_empty()
    }
}

/// The way in which an ACME server validates a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcmeChallenge {
    /// With a TLS handshake at port 443 (RFC 8737).
    #[default]
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
    /// With a request for a file at port 80 (RFC 8555, 8.3).
    #[serde(rename = "http-01")]
    Http01,
}
