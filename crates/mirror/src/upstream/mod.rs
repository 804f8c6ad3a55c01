//! Upstream registries: requests with credentials, redirects and bounded answers.

mod challenge;
mod client;
mod credentials;
mod error;
mod guard;
mod registry;
mod tokens;

pub use client::{BlobBody, MANIFEST_BYTES_MAX, ManifestAnswer, Upstream};
pub(crate) use client::{CONNECT_TIMEOUT, REDIRECTS_MAX, USER_AGENT, unreachable};
pub use credentials::{Credential, CredentialFiles, CredentialsError};
pub use error::UpstreamError;
pub use guard::RedirectRules;
pub(crate) use guard::{GuardedResolver, NoPublicAddress};
pub use registry::{Registry, RegistryError};
