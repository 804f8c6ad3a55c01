use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The HTTP API, with which other programs publish and ask. Without a key it is off.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSettings {
    /// A key with every scope; empty for none. Requests send it as `Authorization: Bearer …`.
    pub key: String,
    /// Further keys, each with its own scopes.
    pub keys: Vec<ApiKey>,
    /// The listener that serves the API.
    pub listen: ApiListen,
    /// Largest body of a request, in bytes.
    pub body_bytes_max: u32,
    /// Requests of one process that run at once.
    pub requests_max: u32,
    /// How long the answer to a request with an `Idempotency-Key` is kept.
    #[serde(with = "humantime_serde")]
    pub idempotency_period: Duration,
    /// Answers that one process keeps.
    pub idempotency_keys_max: u32,
    /// Bytes of those answers.
    pub idempotency_bytes_max: u32,
}

/// A key of the HTTP API.
///
/// ```
/// use watchfire::{ApiKey, ApiScope, Settings};
///
/// let mut settings = Settings::default();
/// settings.api.keys.push(ApiKey {
///     key: "a secret of at least sixteen bytes".into(),
///     name: "billing".into(),
///     scopes: vec![ApiScope::Publish],
/// });
/// assert!(settings.api.is_on());
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// The secret.
    pub key: String,
    /// Names the key in logs and errors.
    pub name: String,
    /// The calls that the key allows.
    pub scopes: Vec<ApiScope>,
}

/// A group of calls that a key of the HTTP API allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiScope {
    /// `publish`, `broadcast` and `batch`.
    Publish,
    /// `presence` and `presence_stats`.
    Presence,
    /// `history`.
    History,
    /// `disconnect` and `unsubscribe`.
    Disconnect,
    /// `info` and `topics`.
    Info,
}

/// A listener that can serve the HTTP API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiListen {
    /// The addresses of `server.listen`.
    #[default]
    Public,
    /// The addresses of `admin.listen`.
    Admin,
}

impl Default for ApiSettings {
    fn default() -> Self {
        ApiSettings {
            key: String::new(),
            keys: Vec::new(),
            listen: ApiListen::Public,
            body_bytes_max: 1 << 20,
            requests_max: 256,
            idempotency_period: Duration::from_secs(300),
            idempotency_keys_max: 100_000,
            idempotency_bytes_max: 32 << 20,
        }
    }
}

impl ApiSettings {
    /// Whether there is a key.
    pub fn is_on(&self) -> bool {
        !self.key.is_empty() || !self.keys.is_empty()
    }
}

// Logs must not show the keys.
impl std::fmt::Debug for ApiSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiSettings")
            .field("is_on", &self.is_on())
            .field("keys", &self.keys)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKey")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
