use std::path::PathBuf;

/// The least length of an HS256 secret, in bytes (RFC 7518, 3.2).
pub(super) const SECRET_BYTES_MIN: usize = 32;

/// Why the settings of `auth` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The secret is too short, so it could be guessed.
    #[error(
        "cannot use the HS256 secret: it has {len} bytes; generate one of at least {SECRET_BYTES_MIN} random bytes"
    )]
    ShortSecret {
        /// Its length in bytes.
        len: usize,
    },
    /// Both `hs256_secret` and `hs256_secret_file` are set.
    #[error("cannot use both auth.hs256_secret and auth.hs256_secret_file: remove one of them")]
    TwoSecrets,
    /// The file has no public key, or one that cannot be used.
    #[error("cannot use the public key in {}: {reason}", path.display())]
    PublicKey {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: &'static str,
    },
    /// `jwks_url` is not a URL.
    #[error(
        "cannot use auth.jwks_url {url:?}: write an address such as https://example.org/jwks.json"
    )]
    JwksUrl {
        /// The value of the setting.
        url: String,
    },
    /// The thread that fetches the JWK set cannot start.
    #[error("cannot start the thread that fetches auth.jwks_url: {0}")]
    Thread(std::io::Error),
    /// This program was built without tokens.
    #[cfg(not(feature = "jwt"))]
    #[error(transparent)]
    NotBuilt(#[from] crate::not_built::NotBuilt),
}

/// Why a token gives a client no access. A client gets one of these reasons, and no details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRefusal {
    /// The token was valid until it expired.
    Expired,
    /// No key of the server has signed the token, or its claims are not acceptable.
    Invalid,
    /// There is no token, or it does not name the topic.
    Unauthorized,
}

impl TokenRefusal {
    /// The reason that the client gets.
    pub fn reason(self) -> &'static str {
        match self {
            TokenRefusal::Expired => "token_expired",
            TokenRefusal::Invalid => "token_invalid",
            TokenRefusal::Unauthorized => "unauthorized",
        }
    }
}
