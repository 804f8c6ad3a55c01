//! Tokens (JWT, RFC 7519) with which clients authenticate, and the keys that verify them.
//!
//! [`Auth::verify`] turns a token into a [`Grant`]: a subject, and the topics that it may join and
//! publish to. The key fixes the algorithm. A token can neither choose another one nor do without
//! one. Keys come from the settings, and from a JWK set that a thread fetches (`jwks`); a
//! verification never waits for it.
//!
//! Without the feature `jwt`, there is no verifier. A backend may give a client a [`Grant`], too.

#[cfg(feature = "jwt")]
mod claims;
#[cfg(feature = "jwt")]
mod cryptography;
mod error;
mod grant;
#[cfg(feature = "jwt")]
mod jwks;
#[cfg(feature = "jwt")]
mod keys;
mod settings;
#[cfg(all(feature = "jwt", test))]
mod signature_vectors;
#[cfg(feature = "jwt")]
mod verifier;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

pub use error::{AuthError, TokenFault, TokenRefusal};
pub use grant::{Grant, Identity, SocketToken, object};
pub use settings::AuthSettings;
#[cfg(feature = "jwt")]
pub use verifier::open;

/// The largest token. A larger one is refused before it is parsed.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Verifies the tokens of clients.
pub trait Auth: Send + Sync {
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
pub struct FetchGuard {
    _stop: oneshot::Sender<()>,
}

/// The time since the Unix epoch.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
