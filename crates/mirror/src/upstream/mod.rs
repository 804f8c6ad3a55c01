//! Upstream registries: requests with credentials, redirects and bounded answers.

mod blob_body;
mod challenge;
mod client;
mod credentials;
mod error;
mod guard;
mod registry;
mod server;
mod tokens;

pub use blob_body::{BlobBody, BlobPart};
pub use client::{MANIFEST_BYTES_MAX, Upstream};
pub use credentials::{Credential, CredentialFiles, CredentialsError};
pub use error::UpstreamError;
pub use guard::RedirectRules;
pub use registry::{Registry, RegistryError};
pub(crate) use server::{Answer, ServerClient, first_cause, tls};
