//! Where the certificates of TLS come from: files that are watched, or an ACME server.
//!
//! Everything that processes share is in files. Each process loads the certificate from them and
//! notices when they change. An ACME server is asked by one process only; it writes the certificate
//! and the answers to challenges into `tls.acme.state_dir`, where all processes find them.
//!
//! Each process has one thread for TLS, apart from the handshakes: it watches the files, answers
//! plain HTTP at `tls.redirect_listen`, and orders certificates.
//!
//! Without the feature `tls`, the crate has only the settings, and the server refuses those that turn
//! TLS on.

#[cfg(feature = "tls")]
mod acme;
#[cfg(feature = "tls")]
mod expiry;
#[cfg(feature = "tls")]
mod files;
#[cfg(feature = "tls")]
mod metrics;
#[cfg(feature = "tls")]
mod plan;
#[cfg(feature = "tls")]
mod redirect;
#[cfg(feature = "tls")]
mod reload;
mod settings;
#[cfg(feature = "tls")]
mod thread;

#[cfg(feature = "tls")]
pub use acme::{AcmeSetupError, DomainError};
#[cfg(feature = "tls")]
pub use plan::{ServerAddresses, TlsStartError, check, check_redirect_addresses};
pub use settings::{AcmeChallenge, AcmeSettings, TlsSettings};
#[cfg(feature = "tls")]
pub use thread::{PreparedTls, TlsThread, open};
