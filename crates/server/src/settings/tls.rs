//! The section `tls`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// TLS with a certificate from files or from an ACME server; plain HTTP with neither.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with the certificate chain.
    pub cert: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
    /// Addresses for plain HTTP: requests are redirected to HTTPS, and HTTP-01 is answered.
    pub redirect_listen: Vec<SocketAddr>,
    /// Certificates from an ACME server.
    pub acme: AcmeSettings,
}

impl TlsSettings {
    /// Whether the server encrypts its connections.
    pub fn is_on(&self) -> bool {
        !self.cert.as_os_str().is_empty() || !self.key.as_os_str().is_empty() || self.acme.is_on()
    }
}

/// Certificates from an ACME server (RFC 8555), such as Let's Encrypt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AcmeSettings {
    /// The names of the certificate; empty for no ACME.
    pub domains: Vec<String>,
    /// Addresses that the ACME server may write to, such as `mailto:admin@example.org`.
    pub contact: Vec<String>,
    /// The directory of the ACME server.
    pub directory_url: String,
    /// The folder of the account, the certificate and the pending challenges.
    pub state_dir: PathBuf,
    /// PEM file with certificates that the connection to the ACME server trusts in addition to
    /// those of the system.
    pub ca_file: PathBuf,
    /// The way in which the ACME server validates the domains.
    pub challenge: AcmeChallenge,
}

impl AcmeSettings {
    /// Whether the server orders certificates.
    pub fn is_on(&self) -> bool {
        !self.domains.is_empty()
    }
}

impl Default for AcmeSettings {
    fn default() -> Self {
        AcmeSettings {
            domains: Vec::new(),
            contact: Vec::new(),
            directory_url: "https://acme-v02.api.letsencrypt.org/directory".into(),
            state_dir: PathBuf::new(),
            ca_file: PathBuf::new(),
            challenge: AcmeChallenge::default(),
        }
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
