use std::path::PathBuf;

/// The least length of an HS256 secret, in bytes (RFC 7518, 3.2).
pub(crate) const SECRET_BYTES_MIN: usize = 32;

/// Why the settings of `auth` cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
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
        "cannot use auth.jwks_url {url:?}: write an address such as https://example.org/jwks.json, without a user"
    )]
    JwksUrl {
        /// The value of the setting.
        url: String,
    },
    /// The thread that fetches the JWK set cannot start.
    #[error("cannot start the thread that fetches auth.jwks_url: {0}")]
    Thread(std::io::Error),
}

/// Why a token gives a client no access. A client gets one of these reasons, and no details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
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

macro_rules! token_faults {
    ($($(#[$doc:meta])* $fault:ident $name:literal $refusal:ident,)*) => {
        /// The fault of a token, for the log. It says more than the client may know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TokenFault { $($(#[$doc])* $fault,)* }

        impl TokenFault {
            /// All faults, in the order of their documentation.
            #[cfg(test)]
            const ALL: &[TokenFault] = &[$(TokenFault::$fault,)*];

            /// The name in the log: `docs/reference/channel-rules.md` describes each.
            pub fn name(self) -> &'static str {
                match self { $(TokenFault::$fault => $name,)* }
            }

            /// The refusal that the client gets.
            pub fn refusal(self) -> TokenRefusal {
                match self { $(TokenFault::$fault => TokenRefusal::$refusal,)* }
            }
        }
    };
}

token_faults! {
    /// The client sent no token, and its socket has none.
    Missing "missing" Unauthorized,
    /// The token in a payload is not a text, or is empty.
    NotAText "not_a_text" Invalid,
    /// The token is longer than the server reads.
    TooLong "too_long" Invalid,
    /// The token has not the form of a JWT, or its head is not JSON with an algorithm.
    Malformed "malformed" Invalid,
    /// The algorithm is `none`, or one that the server does not verify.
    Algorithm "algorithm" Invalid,
    /// The head requires an extension, and the server knows none.
    CriticalHeader "critical_header" Invalid,
    /// The server has no key with the token's key id and algorithm.
    UnknownKey "unknown_key" Invalid,
    /// The JWK set was not fetched yet, and no other key fits.
    KeysNotFetched "keys_not_fetched" Invalid,
    /// No key that fits has signed the token.
    Signature "signature" Invalid,
    /// The claims are not JSON, a required one is missing, or one has the wrong type.
    Claims "claims" Invalid,
    /// The subject or the id cannot be a name.
    Subject "subject" Invalid,
    /// `iss` is not `auth.issuer`.
    Issuer "issuer" Invalid,
    /// `aud` does not have `auth.audience`.
    Audience "audience" Invalid,
    /// `nbf` is in the future.
    NotYetValid "not_yet_valid" Invalid,
    /// `meta` is larger than a presence may be.
    MetaTooLarge "meta_too_large" Invalid,
    /// A pattern of `channels` is not valid, or there are too many.
    Patterns "patterns" Invalid,
    /// `exp` is in the past.
    Expired "expired" Expired,
    /// The token is valid and does not name the topic for this action.
    Topic "topic" Unauthorized,
    /// The rule permits the action to no client.
    Rule "rule" Unauthorized,
    /// The new token of a refresh names another user or another id.
    OtherUser "other_user" Unauthorized,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_of_a_token_is_described_with_the_reason_that_the_client_gets() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/channel-rules.md");
        let page = std::fs::read_to_string(page).expect("a page");
        let (_, part) = page.split_once("## Faults of tokens").expect("a section");
        let part = part.split("\n## ").next().expect("a section");
        let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
        let described: Vec<(&str, &str)> =
            rows.map(|row| row.split_once("` | `").expect("two names")).collect();
        let faults: Vec<_> =
            TokenFault::ALL.iter().map(|fault| (fault.name(), fault.refusal().reason())).collect();
        assert_eq!(described.len(), faults.len(), "{described:?}");
        for ((name, rest), (fault, reason)) in described.iter().zip(faults) {
            assert_eq!(*name, fault, "in the same order");
            assert!(rest.starts_with(&format!("{reason}` |")), "{fault}: {rest}");
        }
    }
}
