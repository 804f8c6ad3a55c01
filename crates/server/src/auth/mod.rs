//! Tokens (JWT, RFC 7519) with which clients authenticate, and the keys that verify them.
//!
//! [`Auth::verify`] turns a token into a [`Grant`]: a subject, and the topics that it may join and
//! publish to. The key fixes the algorithm. A token can neither choose another one nor do without
//! one. Keys come from the settings, and from a JWK set that a thread fetches (`jwks`); a
//! verification never waits for it. A program without the feature `jwt` has no verifier.

mod claims;
#[cfg(feature = "jwt")]
mod cryptography;
mod error;
#[cfg(feature = "jwt")]
mod jwks;
#[cfg(feature = "jwt")]
mod keys;
#[cfg(all(feature = "jwt", test))]
mod signature_vectors;
mod socket_token;
#[cfg(feature = "jwt")]
mod verifier;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use claims::{Grant, Identity};
pub use error::AuthError;
pub(crate) use error::TokenFault;
pub(crate) use socket_token::SocketToken;

use crate::settings::AuthSettings;

/// The largest token. A larger one is refused before it is parsed.
pub(crate) const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Verifies the tokens of clients.
pub(crate) trait Auth: Send + Sync {
    /// Verifies a token. `now` is since the Unix epoch.
    fn verify(&self, token: &str, now: Duration) -> Result<Grant, TokenFault>;

    /// How long before its end a client is told that its token expires.
    fn expiry_notice(&self) -> Duration;

    /// Whether the server has all keys: the keys of the settings, and after its first fetch the keys
    /// of the JWK set. Until then, it refuses valid tokens.
    fn has_keys(&self) -> bool;

    /// Returns when the JWK set was fetched, or cannot be at the moment. Immediately without a JWK set.
    fn first_fetch(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Starts to fetch the JWK set, until the result is dropped. `None`: the settings have none.
    fn start_fetching(&self) -> Result<Option<FetchGuard>, AuthError>;
}

/// The JWK set is fetched until this is dropped.
pub(crate) struct FetchGuard {
    #[cfg(feature = "jwt")]
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Reads the keys. `None`: the settings have no key.
pub(crate) fn open(settings: &AuthSettings) -> Result<Option<Arc<dyn Auth>>, AuthError> {
    if !settings.is_on() {
        return Ok(None);
    }
    #[cfg(feature = "jwt")]
    return Ok(Some(Arc::new(verifier::Verifier::open(settings)?)));
    #[cfg(not(feature = "jwt"))]
    Err(crate::not_built::NotBuilt { setting: "auth", feature: "jwt" }.into())
}

/// The time since the Unix epoch.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
