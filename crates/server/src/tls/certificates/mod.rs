//! Where the certificates of TLS come from: files that are watched, or an ACME server.
//!
//! Everything that processes share is in files. Each process loads the certificate from them and
//! notices when they change. An ACME server is asked by one process only; it writes the certificate
//! and the answers to challenges into `tls.acme.state_dir`, where all processes find them.
//!
//! Each process has one thread for TLS, apart from the handshakes: it watches the files, answers
//! plain HTTP at `tls.redirect_listen`, and orders certificates.

mod acme;
mod expiry;
mod files;
mod metrics;
mod plan;
mod redirect;
mod reload;
mod thread;

pub use acme::{AcmeSetupError, DomainError};
pub use plan::TlsStartError;
pub(crate) use plan::{check, check_redirect_addresses};
pub(crate) use thread::open;
