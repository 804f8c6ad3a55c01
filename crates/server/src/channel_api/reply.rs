//! Replies to clients' messages.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::json;

use super::payload::Body;
use crate::history::{NotStored, Stored};

/// How long a sender should wait when the queue of its destination is full.
const BUSY_RETRY: Duration = Duration::from_millis(50);

/// The reply to one message.
///
/// ```
/// use watchfire::{Outcome, Reply};
///
/// fn answer(seats: u32) -> Outcome {
///     match seats {
///         0 => Outcome::StopWith(Reply::because("no seats left")),
///         seats => Outcome::Reply(Reply::ok(serde_json::json!({ "seats": seats }))),
///     }
/// }
/// assert!(matches!(answer(0), Outcome::StopWith(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub(crate) status: Cow<'static, str>,
    pub(crate) response: Body,
}

impl Reply {
    /// Status `ok`.
    pub fn ok(response: impl Into<Body>) -> Self {
        Reply { status: "ok".into(), response: response.into() }
    }

    /// Status `error`.
    pub fn error(response: impl Into<Body>) -> Self {
        Reply { status: "error".into(), response: response.into() }
    }

    /// Status `error` with `{"reason": reason}`.
    pub fn because(reason: &str) -> Self {
        Self::error(Body::reason(reason))
    }

    /// A status of the application's own. Clients match on its text.
    pub fn with_status(status: &str, response: impl Into<Body>) -> Self {
        Reply { status: status.to_owned().into(), response: response.into() }
    }

    /// The status, such as `ok`.
    pub fn status(&self) -> &str {
        &self.status
    }

    /// The response.
    pub fn response(&self) -> &Body {
        &self.response
    }

    /// This reply, or an error if the message that it answers is not stored.
    pub(crate) fn if_stored(self, outcome: Result<Stored, NotStored>) -> Self {
        match outcome {
            Ok(_) => self,
            Err(NotStored::Unavailable) => Reply::because("not_stored"),
            Err(NotStored::TooLarge { .. }) => Reply::because("payload_too_large"),
        }
    }

    /// Rejects forwarded data whose destination has no room in its queue.
    pub(crate) fn peer_busy() -> Self {
        Reply::error(json!({
            "reason": "peer busy",
            "retry_after_ms": retry_after_ms(BUSY_RETRY),
        }))
    }
}

/// A waiting time for a client, in milliseconds: at least 1.
pub fn retry_after_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)
}
