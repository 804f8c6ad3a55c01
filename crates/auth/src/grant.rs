//! The rights of a client.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use watchfire_channels::Pattern;
use watchfire_hub::PresenceLimits;

use crate::error::TokenFault;

/// Patterns of one list in a token.
const PATTERNS_MAX: usize = 100;
/// The longest subject or id, in bytes. Both become names in the server.
const NAME_BYTES_MAX: usize = 128;
/// The latest end that a clock can show: the year 5138.
const LATEST: f64 = 1e11;

/// A client's identity and rights, from a valid token.
#[derive(Debug, PartialEq)]
pub struct Grant {
    pub subject: Box<str>,
    /// The id of the socket, with which it can be disconnected.
    pub id: Box<str>,
    /// The end of the token and of the leeway, since the Unix epoch.
    pub expires_at: Duration,
    pub(crate) join: Vec<Pattern>,
    pub(crate) publish: Vec<Pattern>,
    /// The client's presence meta: an object.
    pub meta: Value,
}

impl Grant {
    /// The identity that a backend gave a client. `None`: it gave none. An error names the member
    /// that is not valid.
    pub fn of_backend(identity: Identity, now: Duration) -> Result<Option<Grant>, String> {
        let Identity { user, id, channels, meta, exp } = identity;
        let Some(user) = user else {
            let has_more = id.is_some() || channels.is_some() || meta.is_some() || exp.is_some();
            return if has_more { Err("user is missing".into()) } else { Ok(None) };
        };
        let is_id = id.as_deref().is_none_or(is_name);
        let id = id.unwrap_or_else(|| default_id(&user));
        let meta = Value::Object(meta.unwrap_or_default());
        let expires_at = exp.map_or(Duration::from_secs_f64(LATEST), |date| date.0);
        let ChannelClaims { join, publish } = channels.unwrap_or_default();
        let (join, publish) = (patterns(join), patterns(publish));
        for (name, is_valid) in [
            ("user", is_name(&user)),
            ("id", is_id),
            ("meta", is_small(&meta)),
            ("exp", expires_at > now),
            ("channels", join.is_ok() && publish.is_ok()),
        ] {
            if !is_valid {
                return Err(format!("{name} is not valid"));
            }
        }
        let (join, publish) = (join.unwrap_or_default(), publish.unwrap_or_default());
        let (subject, id) = (user.into(), id.into());
        Ok(Some(Grant { subject, id, expires_at, join, publish, meta }))
    }

    /// Whether the token names this topic for joins.
    pub fn may_join(&self, topic: &str) -> bool {
        self.join.iter().any(|pattern| pattern.matches(topic))
    }

    /// Whether the token names this topic for messages.
    pub fn may_publish(&self, topic: &str) -> bool {
        self.publish.iter().any(|pattern| pattern.matches(topic))
    }

    /// The time until the token expires; zero when it has expired.
    pub fn remaining(&self, now: Duration) -> Duration {
        self.expires_at.saturating_sub(now)
    }
}

/// The token with which a socket connected. All channels of the socket use it, except those that
/// were joined with a token of their own.
pub struct SocketToken(Mutex<Arc<Grant>>);

impl SocketToken {
    pub fn new(grant: Grant) -> Self {
        SocketToken(Mutex::new(Arc::new(grant)))
    }

    /// The rights of the last valid token.
    pub fn grant(&self) -> Arc<Grant> {
        self.0.lock().clone()
    }

    /// Replaces the token.
    pub fn replace(&self, grant: Arc<Grant>) {
        *self.0.lock() = grant;
    }
}

/// The id of the sockets of a user. It may be longer than an id that somebody chose.
pub(crate) fn default_id(user: &str) -> String {
    format!("users:{user}")
}

/// Whether a text can be the name of a user or of sockets.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control)
}

/// Whether a presence meta is within its bound.
pub(crate) fn is_small(meta: &Value) -> bool {
    meta.to_string().len() <= PresenceLimits::default().meta_bytes_max
}

pub(crate) fn patterns(texts: Vec<String>) -> Result<Vec<Pattern>, TokenFault> {
    if texts.len() > PATTERNS_MAX {
        return Err(TokenFault::Patterns);
    }
    let parse = |text: String| Pattern::parse(&text).map_err(|_| TokenFault::Patterns);
    texts.into_iter().map(parse).collect()
}

/// Reads a member that Go writes as null when nobody has set it.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads an object of a token or of a backend's answer. Go writes an unset one as null, and PHP an empty
/// one as `[]`.
pub fn object<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Map<String, Value>>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Object(object) => Ok(Some(object)),
        Value::Array(list) if list.is_empty() => Ok(Some(Map::new())),
        other => Err(D::Error::custom(format!("{other} is not an object"))),
    }
}

/// The identity in a backend's answer about a client that connects. The members are the members of a
/// token.
#[derive(Debug, Deserialize)]
pub struct Identity {
    user: Option<String>,
    id: Option<String>,
    channels: Option<ChannelClaims>,
    #[serde(default, deserialize_with = "object")]
    meta: Option<Map<String, Value>>,
    exp: Option<NumericDate>,
}

/// The topics of a token.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChannelClaims {
    #[serde(deserialize_with = "null_as_default")]
    pub join: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub publish: Vec<String>,
}

/// Seconds since the Unix epoch, possibly with a fraction (RFC 7519, 2).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct NumericDate(pub Duration);

impl TryFrom<f64> for NumericDate {
    type Error = &'static str;

    fn try_from(seconds: f64) -> Result<Self, Self::Error> {
        let seconds = Duration::try_from_secs_f64(seconds.min(LATEST));
        seconds.map(NumericDate).map_err(|_| "a date cannot be negative")
    }
}
