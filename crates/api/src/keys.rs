//! The keys of the API, and the calls that each allows.

use std::collections::HashSet;

use http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use watchfire::feature::Section as _;
use watchfire::internal::TOKEN_BYTES_MIN;

use super::error::{CallError, Code};
use super::settings::{ApiScope, ApiSettings};

/// The name of `api.key`.
const NAME_OF_SHORT_FORM: &str = "api.key";
const EVERY_SCOPE: [ApiScope; 5] = [
    ApiScope::Publish,
    ApiScope::Presence,
    ApiScope::History,
    ApiScope::Disconnect,
    ApiScope::Info,
];

/// Why the settings of the API cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiKeyError {
    /// A key could be guessed.
    #[error("cannot use the key {name:?} of [api]: it must have at least {TOKEN_BYTES_MIN} bytes")]
    Short {
        /// The name of the key.
        name: String,
    },
    /// A key cannot stand in a header.
    #[error(
        "cannot use the key {name:?} of [api]: it must have visible ASCII characters only, without spaces"
    )]
    NotVisible {
        /// The name of the key.
        name: String,
    },
    /// A key has no name.
    #[error("cannot use api.keys: a key has no name; give every key a name such as \"shop\"")]
    NoName,
    /// Two keys have the same name or the same text.
    #[error("cannot use the key {name:?} of [api]: another key has the same name or the same text")]
    Twice {
        /// The name of the second key.
        name: String,
    },
    /// A key allows nothing.
    #[error("cannot use the key {name:?} of [api]: it has no scopes; add \"publish\", for example")]
    NoScope {
        /// The name of the key.
        name: String,
    },
    /// The API would be served nowhere.
    #[error(
        "cannot serve the API: api.listen is \"admin\" and no feature of this server listens for the operator; set admin.listen, or set api.listen to \"public\""
    )]
    NoListener,
    /// A setting is zero, and the API could serve no client.
    #[error(
        "cannot use {setting} = 0: the API could serve no client; remove it to use its default"
    )]
    Zero { setting: &'static str },
}

/// A key that the server accepts.
#[derive(Debug)]
pub struct Key {
    digest: [u8; 32],
    /// Names the caller: two callers may use the same `Idempotency-Key`.
    pub name: String,
    scopes: Vec<ApiScope>,
}

/// All keys that the server accepts.
#[derive(Debug)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// The keys of the settings; `None` when the API is off.
    pub fn new(api: &ApiSettings) -> Result<Option<Self>, ApiKeyError> {
        if !api.is_on() {
            return Ok(None);
        }
        if let Some(setting) = api.zero() {
            return Err(ApiKeyError::Zero { setting });
        }
        Ok(Some(Keys::of(api)?))
    }

    fn of(api: &ApiSettings) -> Result<Self, ApiKeyError> {
        let short = Some((&*api.key, NAME_OF_SHORT_FORM, &EVERY_SCOPE[..]));
        let short = short.filter(|(key, ..)| !key.is_empty());
        let listed = api.keys.iter().map(|key| (&*key.key, &*key.name, &*key.scopes));
        let mut seen = HashSet::new();
        let mut keys = Vec::new();
        for (key, name, scopes) in short.into_iter().chain(listed) {
            let named = || name.to_owned();
            if name.is_empty() {
                return Err(ApiKeyError::NoName);
            }
            if key.len() < TOKEN_BYTES_MIN {
                return Err(ApiKeyError::Short { name: named() });
            }
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(ApiKeyError::NotVisible { name: named() });
            }
            if scopes.is_empty() {
                return Err(ApiKeyError::NoScope { name: named() });
            }
            if !seen.insert(("name", name)) || !seen.insert(("key", key)) {
                return Err(ApiKeyError::Twice { name: named() });
            }
            let digest = Sha256::digest(key).into();
            keys.push(Key { digest, name: named(), scopes: scopes.into() });
        }
        Ok(Keys(keys))
    }

    /// The key of a request.
    pub fn of_request(&self, headers: &HeaderMap) -> Result<&Key, CallError> {
        let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent = header.and_then(|value| value.split_once(' '));
        let sent = sent.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // A client of Supabase has its key there, and may have the token of a user in the other header.
        let apikey = headers.get("apikey").and_then(|value| value.to_str().ok());
        let apikey = apikey.filter(|key| !key.is_empty());
        if sent.is_none() && apikey.is_none() {
            let message = "send a key of the API as `Authorization: Bearer <key>`";
            return Err(CallError::new(Code::Unauthorized, message));
        }
        let known = sent.and_then(|(_, sent)| self.find(sent.trim()));
        known.or_else(|| self.find(apikey?)).ok_or_else(|| {
            CallError::new(Code::Unauthorized, "the server does not know this key of the API")
        })
    }

    fn find(&self, sent: &str) -> Option<&Key> {
        let digest: [u8; 32] = Sha256::digest(sent).into();
        // Compares with every key, so that the duration does not depend on which one is the nearest.
        self.0.iter().fold(None, |equal, key| match are_equal(&key.digest, &digest) {
            true => Some(key),
            false => equal,
        })
    }
}

/// Compares in a time that does not depend on the bytes.
fn are_equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

impl Key {
    /// Refuses a call that the key does not allow.
    pub fn check(&self, scope: ApiScope, method: &str) -> Result<(), CallError> {
        match self.scopes.contains(&scope) {
            true => Ok(()),
            false => {
                let message = format!(
                    "the key {:?} does not allow {method}: it lacks the scope {:?}",
                    self.name,
                    format!("{scope:?}").to_lowercase()
                );
                Err(CallError::new(Code::Forbidden, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::ApiKey;

    use super::*;

    const ONE: &str = "the-key-of-the-shop";
    const TWO: &str = "another-key-with-fewer-rights";

    fn key(key: &str, name: &str, scopes: &[ApiScope]) -> ApiKey {
        ApiKey { key: key.into(), name: name.into(), scopes: scopes.into() }
    }

    fn keys(short: &str, keys: Vec<ApiKey>) -> Result<Keys, ApiKeyError> {
        Keys::of(&ApiSettings { key: short.into(), keys, ..ApiSettings::default() })
    }

    fn with(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
        headers
    }

    #[test]
    fn a_request_has_the_rights_of_its_key() {
        let keys = keys(ONE, vec![key(TWO, "crm", &[ApiScope::Info])]).unwrap();
        let all = keys.of_request(&with(&format!("Bearer {ONE}"))).unwrap();
        assert!(EVERY_SCOPE.iter().all(|scope| all.check(*scope, "m").is_ok()));
        let some = keys.of_request(&with(&format!("bearer  {TWO}"))).unwrap();
        assert_eq!(some.name, "crm");
        assert!(some.check(ApiScope::Info, "info").is_ok());
        let refused = some.check(ApiScope::Publish, "publish").unwrap_err();
        assert_eq!(refused.code, Code::Forbidden);
        assert!(refused.message.contains("\"crm\" does not allow publish"), "{}", refused.message);
    }

    #[test]
    fn a_request_without_the_exact_key_is_unauthorized() {
        let keys = keys(ONE, vec![key(TWO, "crm", &[ApiScope::Info])]).unwrap();
        for authorization in ["", "Bearer", "Bearer ", "Bearer x", ONE, &format!("Basic {ONE}")] {
            let refused = keys.of_request(&with(authorization)).unwrap_err();
            assert_eq!(refused.code, Code::Unauthorized, "{authorization:?}");
        }
        assert!(keys.of_request(&with(&format!("Bearer {ONE}x"))).is_err());
        let mut headers = with("Bearer the.token.of-a-user");
        headers.insert("apikey", TWO.parse().unwrap());
        assert_eq!(keys.of_request(&headers).unwrap().name, "crm");
        headers.insert("apikey", "anonymous".parse().unwrap());
        assert!(keys.of_request(&headers).is_err());
        assert!(keys.of_request(&HeaderMap::new()).is_err());
    }

    #[test]
    fn keys_that_cannot_work_are_refused_at_the_start() {
        let info = &[ApiScope::Info][..];
        let name = || "crm".to_owned();
        for (listed, error) in [
            (vec![key("0123456789abcde", "crm", info)], ApiKeyError::Short { name: name() }),
            (vec![key("a key with spaces", "crm", info)], ApiKeyError::NotVisible { name: name() }),
            (vec![key(TWO, "", info)], ApiKeyError::NoName),
            (vec![key(TWO, "crm", &[])], ApiKeyError::NoScope { name: name() }),
            (vec![key(ONE, "crm", info)], ApiKeyError::Twice { name: name() }),
            (
                vec![key(TWO, "crm", info), key("third-key-of-the-api", "crm", info)],
                ApiKeyError::Twice { name: name() },
            ),
        ] {
            assert_eq!(keys(ONE, listed).unwrap_err(), error);
        }
        let short = keys("short", Vec::new()).unwrap_err();
        assert_eq!(short, ApiKeyError::Short { name: NAME_OF_SHORT_FORM.into() });
    }
}
