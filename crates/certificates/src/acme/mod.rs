//! Certificates from an ACME server (RFC 8555).
//!
//! [`AcmePlan`] is in every process: it finds the certificate and the answers to challenges in
//! `tls.acme.state_dir`. [`AcmeClient`] is in one process: it orders the certificate and renews it.

mod client;
mod http_client;
mod order;
mod plan;
mod retry;
mod state_dir;
mod suggestion;

pub(super) use client::AcmeClient;
pub(super) use plan::AcmePlan;
pub use plan::{AcmeSetupError, DomainError};
