use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The keys and claims of the tokens (JWT, RFC 7519) with which clients authenticate. Without a key,
/// the server reads no tokens.
///
/// ```
/// let mut settings = watchfire::Settings::default();
/// settings.auth.hs256_secret = "a secret of at least thirty-two bytes".into();
/// settings.auth.issuer = "https://accounts.example.org".into();
/// assert!(settings.auth.is_on());
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthSettings {
    /// Secret of HS256 tokens, at least 32 bytes; empty for none.
    pub hs256_secret: String,
    /// File with that secret; empty for none. A line break at its end is ignored.
    pub hs256_secret_file: PathBuf,
    /// PEM files with public keys: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA).
    pub public_key_files: Vec<PathBuf>,
    /// URL of a JWK set with public keys, with `https:` or `http:`; empty for none.
    pub jwks_url: String,
    /// How often the JWK set is fetched again.
    #[serde(with = "humantime_serde")]
    pub jwks_refresh: Duration,
    /// The least time between two fetches. A token with an unknown key causes a fetch after it.
    #[serde(with = "humantime_serde")]
    pub jwks_retry: Duration,
    /// The longest time of one fetch.
    #[serde(with = "humantime_serde")]
    pub jwks_timeout: Duration,
    /// The `iss` that a token must have; empty for any.
    pub issuer: String,
    /// The `aud` that a token must have, alone or in a list; empty for any.
    pub audience: String,
    /// How far the clocks of the server and of the token's issuer may differ.
    #[serde(with = "humantime_serde")]
    pub leeway: Duration,
    /// How long before its end a client is told that its token expires; "0s" for no notice.
    #[serde(with = "humantime_serde")]
    pub expiry_notice: Duration,
}

impl Default for AuthSettings {
    fn default() -> Self {
        AuthSettings {
            hs256_secret: String::new(),
            hs256_secret_file: PathBuf::new(),
            public_key_files: Vec::new(),
            jwks_url: String::new(),
            jwks_refresh: Duration::from_secs(300),
            jwks_retry: Duration::from_secs(10),
            jwks_timeout: Duration::from_secs(5),
            issuer: String::new(),
            audience: String::new(),
            leeway: Duration::from_secs(5),
            expiry_notice: Duration::ZERO,
        }
    }
}

impl AuthSettings {
    /// Whether there is a key, so that the server reads tokens.
    pub fn is_on(&self) -> bool {
        !self.hs256_secret.is_empty()
            || !self.hs256_secret_file.as_os_str().is_empty()
            || !self.public_key_files.is_empty()
            || !self.jwks_url.is_empty()
    }
}

impl std::fmt::Debug for AuthSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs must not show the secret.
        let secret = if self.hs256_secret.is_empty() { "none" } else { "set" };
        f.debug_struct("AuthSettings")
            .field("hs256_secret", &secret)
            .field("hs256_secret_file", &self.hs256_secret_file)
            .field("public_key_files", &self.public_key_files)
            .field("jwks_url", &self.jwks_url)
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}
