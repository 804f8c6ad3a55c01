//! The section of the settings that the feature reads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use watchfire::feature::section;

section! {
    "api", secrets ["key", "keys.key"], never_zero [body_bytes_max];
    /// The HTTP API, with which other programs publish and ask. Without a key it is off.
    #[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ApiSettings {
        /// The HTTP API, with which programs in any language publish to topics and ask about them.
        /// It is off without a key. A key has at least 16 bytes of visible ASCII; requests send it
        /// as `"Authorization: Bearer <key>"`. This one allows every call. Better set as
        /// `WATCHFIRE_API_KEY`.
        key: String = String::new();
        /// Further keys, each for certain calls: `"publish"` (publish, broadcast, batch),
        /// `"presence"` (presence, presence_stats), `"history"`, `"disconnect"` (disconnect,
        /// unsubscribe), `"info"` (info, topics). For example `[{ key = "…", name = "shop", scopes
        /// = ["publish"] }]`. The name stands in logs and errors.
        keys: Vec<ApiKey> = Vec::new();
        /// The listener that serves the API: `"public"` (`server.listen`) or `"admin"`
        /// (`admin.listen`).
        listen: ApiListen = ApiListen::Public;
        /// Largest body of a request, in bytes. A larger one gets 413.
        body_bytes_max: u32 = 1 << 20, "bytes",
            "The request gets 413: \"payload_too_large\".";
        /// Requests of one process that run at the same time. A further one gets 429.
        #[serde(skip)]
        #[doc(hidden)]
        requests_max: u32 = 256, "requests",
            "The request gets 429: \"too_many\". Each process counts for itself.";
        /// How long the answer to a request with an Idempotency-Key is kept. A repeat within this
        /// time gets that answer, and publishes nothing.
        #[serde(skip)]
        #[doc(hidden)]
        idempotency_period: Duration = Duration::from_secs(300);
        /// Answers that one process keeps for requests with an Idempotency-Key.
        #[serde(skip)]
        #[doc(hidden)]
        idempotency_keys_max: u32 = 100_000, "keys",
            "A request with a new Idempotency-Key gets 429: \"too_many\". Each process counts for itself.";
        /// Bytes of those answers.
        #[serde(skip)]
        #[doc(hidden)]
        idempotency_bytes_max: u32 = 32 << 20, "bytes",
            "A request with a new Idempotency-Key gets 429: \"too_many\". Each process counts for itself.";
    }
}

/// A key of the HTTP API.
///
/// ```
/// use watchfire::Settings;
/// use watchfire_api::{ApiKey, ApiScope, ApiSettings};
///
/// let mut settings = Settings::default();
/// settings.section_mut::<ApiSettings>().keys.push(ApiKey {
///     key: "a secret of at least sixteen bytes".into(),
///     name: "billing".into(),
///     scopes: vec![ApiScope::Publish],
/// });
/// assert!(settings.section::<ApiSettings>().is_on());
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

#[cfg(test)]
mod tests {
    use watchfire::Layers;
    use watchfire::feature::Feature as _;

    use super::*;
    use crate::Api;

    #[test]
    fn the_keys_of_the_api_are_read_from_each_layer_and_hidden() {
        let mut layers = Layers::new().with(Api::new().sections());
        let file =
            "[[api.keys]]\nkey = \"0123456789abcdef\"\nname = \"shop\"\nscopes = [\"publish\"]";
        layers.text("my.toml", file).unwrap();
        let section = |layers: &Layers| layers.settings().unwrap().section::<ApiSettings>();
        let key = section(&layers).keys.remove(0);
        assert_eq!((&*key.key, &*key.name), ("0123456789abcdef", "shop"));
        let text = layers.print();
        assert!(text.contains("shop") && !text.contains("0123456789abcdef"), "{text}");
        let mut again = Layers::new().with(Api::new().sections());
        again.text("printed", &text).expect("the output is a settings file");
        assert_eq!(section(&again).keys[0].scopes, [ApiScope::Publish]);

        let list = "[{ key = \"fedcba9876543210\", name = \"crm\", scopes = [\"info\"] }]";
        layers.environment([("WATCHFIRE_API_KEYS".to_owned(), list.to_owned())]).unwrap();
        assert_eq!(section(&layers).keys[0].name, "crm");
        let error =
            layers.assign("--set", "api.keys=[{ key = \"k\", name = \"n\", scopes = [\"x\"] }]");
        assert!(error.unwrap_err().to_string().contains("unknown variant `x`"));
    }
}
