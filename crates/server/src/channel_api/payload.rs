//! Payloads that applications send.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;
use watchfire_channels::Payload;

/// A payload that cannot be pushed or broadcast.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Pushes and broadcasts carry JSON objects or bytes.
    #[error("cannot send the payload: a push or broadcast carries a JSON object or bytes")]
    NotAnObject,
    /// A topic with a history keeps JSON only.
    #[error("cannot send bytes: the topic has a history, which keeps JSON objects only")]
    BytesWithHistory,
}

/// A payload that an application sends: JSON text or bytes.
///
/// ```
/// use watchfire::Body;
///
/// let body = Body::from(serde_json::json!({ "text": "hello" }));
/// assert_eq!(body, Body::Json(r#"{"text":"hello"}"#.into()));
/// assert_eq!(Body::reason("full"), Body::Json(r#"{"reason":"full"}"#.into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// JSON text.
    Json(Cow<'static, str>),
    /// Bytes, which are sent in a binary frame.
    Binary(Bytes),
}

impl Body {
    /// The JSON object without members.
    pub const EMPTY: Body = Body::Json(Cow::Borrowed("{}"));

    /// An object such as `{"reason":"…"}`.
    pub fn reason(reason: &str) -> Body {
        serde_json::json!({ "reason": reason }).into()
    }

    /// Parses the JSON text. Bytes are an error.
    ///
    /// ```
    /// use watchfire::Body;
    ///
    /// let reason: serde_json::Value = Body::reason("full").json()?;
    /// assert_eq!(reason["reason"], "full");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn json<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        self.as_payload().json()
    }

    /// Rejects payloads that only a reply may carry.
    #[doc(hidden)]
    pub fn checked_object(self) -> Result<Body, PayloadError> {
        match &self {
            Body::Json(text) if !text.trim_start().starts_with('{') => {
                Err(PayloadError::NotAnObject)
            }
            _ => Ok(self),
        }
    }

    /// Bytes of the text or of the payload.
    #[doc(hidden)]
    #[allow(clippy::len_without_is_empty, reason = "for the crate of the HTTP API")]
    pub fn len(&self) -> usize {
        match self {
            Body::Json(text) => text.len(),
            Body::Binary(bytes) => bytes.len(),
        }
    }

    pub(crate) fn as_payload(&self) -> Payload<'_> {
        match self {
            Body::Json(text) => Payload::Json(text),
            Body::Binary(bytes) => Payload::Binary(bytes),
        }
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Self {
        Body::Json(value.to_string().into())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::Binary(bytes)
    }
}

impl From<Payload<'_>> for Body {
    fn from(payload: Payload<'_>) -> Self {
        match payload {
            Payload::Json(text) => Body::Json(text.to_owned().into()),
            Payload::Binary(bytes) => Body::Binary(Bytes::copy_from_slice(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_objects_and_bytes_can_be_broadcast() {
        assert!(Body::from(serde_json::json!({"a": 1})).checked_object().is_ok());
        assert!(Body::from(Bytes::from_static(b"\x00")).checked_object().is_ok());
        assert!(Body::from(serde_json::json!("text")).checked_object().is_err());
        assert!(Body::from(serde_json::json!([1])).checked_object().is_err());
    }
}
