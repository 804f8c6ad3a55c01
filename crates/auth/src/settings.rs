use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_settings::section;

section! {
    "auth", secrets ["hs256_secret"], never_zero [jwks_refresh];
    /// The keys and claims of the tokens (JWT, RFC 7519) with which clients authenticate. Without a key,
    /// the server reads no tokens.
    ///
    /// ```
    /// # use watchfire_auth as watchfire;
    /// let mut auth = watchfire::AuthSettings::default();
    /// auth.hs256_secret = "a secret of at least thirty-two bytes".into();
    /// auth.issuer = "https://accounts.example.org".into();
    /// assert!(auth.is_on());
    /// ```
    #[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AuthSettings {
        /// The secret of HS256 tokens, of at least 32 bytes; empty for none. Better set as
        /// `WATCHFIRE_AUTH_HS256_SECRET`. The key of a token (JWT) fixes its algorithm: HS256,
        /// RS256, ES256 or EdDSA. Without a key in this section, the server reads no tokens.
        hs256_secret: String = String::new();
        /// A file with that secret; empty for none. A line break at its end is ignored.
        hs256_secret_file: PathBuf = PathBuf::new();
        /// PEM files with public keys (BEGIN PUBLIC KEY): RSA, P-256 or Ed25519.
        public_key_files: Vec<PathBuf> = Vec::new();
        /// The URL of a JWK set with such keys, such as
        /// `"https://login.example.org/.well-known/jwks.json"`. The server fetches it at the start
        /// and every `jwks_refresh`, and after a token with an unknown key, but not twice within 10
        /// seconds. While it cannot be fetched within 5 seconds, the last keys stay valid.
        jwks_url: String = String::new();
        /// How often the JWK set is fetched again.
        #[serde(with = "humantime_serde")]
        jwks_refresh: Duration = Duration::from_secs(300);
        /// The least time between two fetches. A token with an unknown key causes a fetch after it.
        #[serde(skip)]
        #[doc(hidden)]
        jwks_retry: Duration = Duration::from_secs(10);
        /// The longest time of one fetch.
        #[serde(skip)]
        #[doc(hidden)]
        jwks_timeout: Duration = Duration::from_secs(5);
        /// The iss that a token must have; empty for any.
        issuer: String = String::new();
        /// The aud that a token must have, alone or in a list; empty for any.
        audience: String = String::new();
        /// How far the clocks of the server and of the token's issuer may differ.
        #[serde(with = "humantime_serde")]
        leeway: Duration = Duration::from_secs(5);
        /// How long before its token expires a channel gets the event token_expiring; `"0s"` for no
        /// notice.
        #[serde(with = "humantime_serde")]
        expiry_notice: Duration = Duration::ZERO;
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
