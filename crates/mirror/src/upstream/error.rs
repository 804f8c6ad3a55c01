//! Why an upstream registry did not answer a request.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::oci::{ApiError, ErrorCode};

/// Why an upstream registry did not answer a request.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("{registry} does not have it")]
    NotFound { registry: String },
    #[error(
        "{registry} refused the credentials of this mirror ({status}): add credentials for it to a file of --credentials"
    )]
    Refused { registry: String, status: StatusCode },
    #[error("{registry} limits the rate of requests")]
    TooManyRequests {
        registry: String,
        /// When to send the next request.
        retry_after: Option<Duration>,
    },
    #[error("{registry} answered {status}")]
    Status { registry: String, status: StatusCode },
    #[error("cannot reach {registry}: {cause}")]
    Unreachable { registry: String, cause: String },
    #[error(
        "{registry} redirects to {to}, which is not a public address: allow its network with --allow-redirect if that is intended"
    )]
    RedirectRefused { registry: String, to: String },
    #[error("the file changed at {registry} while it was fetched: request it again")]
    Changed { registry: String },
    #[error("invalid answer of {registry}: {cause}")]
    InvalidAnswer { registry: String, cause: String },
}

impl UpstreamError {
    /// The error for a request that a server did not answer within `limit`.
    pub(crate) fn no_answer(server: &str, limit: Duration) -> Self {
        let cause = format!("no answer within {limit:?}");
        UpstreamError::Unreachable { registry: server.to_owned(), cause }
    }

    /// The error for an answer that breaks the protocol.
    pub(crate) fn invalid(server: &str, cause: impl Into<String>) -> Self {
        UpstreamError::InvalidAnswer { registry: server.to_owned(), cause: cause.into() }
    }

    /// The error for an answer without success.
    pub(crate) fn of_status(server: &str, status: StatusCode, headers: &HeaderMap) -> Self {
        let registry = server.to_owned();
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => UpstreamError::NotFound { registry },
            StatusCode::TOO_MANY_REQUESTS => {
                let after = headers.get(header::RETRY_AFTER);
                let retry_after = after.and_then(|after| wait(after, SystemTime::now()));
                UpstreamError::TooManyRequests { registry, retry_after }
            }
            status => UpstreamError::Status { registry, status },
        }
    }

    /// Whether the registry may be down, so that content of other sources may stand in for it.
    pub const fn is_outage(&self) -> bool {
        match self {
            UpstreamError::Unreachable { .. } | UpstreamError::TooManyRequests { .. } => true,
            UpstreamError::Status { status, .. } => status.as_u16() >= 500,
            UpstreamError::NotFound { .. }
            | UpstreamError::Refused { .. }
            | UpstreamError::RedirectRefused { .. }
            | UpstreamError::Changed { .. }
            | UpstreamError::InvalidAnswer { .. } => false,
        }
    }

    /// Whether it may be an error of `HEAD` only, which some registries refuse: then `GET` decides.
    pub(crate) fn may_be_of_head(&self) -> bool {
        match self {
            UpstreamError::NotFound { .. } | UpstreamError::InvalidAnswer { .. } => true,
            UpstreamError::Refused { status, .. } => *status == StatusCode::FORBIDDEN,
            UpstreamError::Status { status, .. } => {
                matches!(status.as_u16(), 400 | 403 | 405 | 501)
            }
            _ => false,
        }
    }

    /// Whether the registry has not the requested range.
    pub(crate) fn is_range_refused(&self) -> bool {
        matches!(self, UpstreamError::Status { status, .. }
            if *status == StatusCode::RANGE_NOT_SATISFIABLE)
    }

    /// The response to a client of the mirror. `unknown` is the code for content that does not
    /// exist.
    pub fn to_api_error(&self, unknown: ErrorCode) -> ApiError {
        let code = match self {
            UpstreamError::NotFound { .. } => unknown,
            UpstreamError::Refused { status, .. } if *status == StatusCode::UNAUTHORIZED => {
                ErrorCode::Unauthorized
            }
            UpstreamError::Refused { .. } => ErrorCode::Denied,
            UpstreamError::TooManyRequests { .. } => ErrorCode::TooManyRequests,
            UpstreamError::Status { .. }
            | UpstreamError::Unreachable { .. }
            | UpstreamError::RedirectRefused { .. }
            | UpstreamError::Changed { .. }
            | UpstreamError::InvalidAnswer { .. } => ErrorCode::Unavailable,
        };
        let error = ApiError::new(code, self.to_string());
        match self {
            UpstreamError::TooManyRequests { retry_after: Some(wait), .. } => {
                error.with_header(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)))
            }
            _ => error,
        }
    }
}

/// The wait that `Retry-After` names, in seconds or as a date (RFC 9110, section 10.2.3).
fn wait(after: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let after = after.to_str().ok()?.trim();
    if let Ok(seconds) = after.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(after).ok()?;
    // The date has no fractions, and the wait must not end before it.
    let left = at.duration_since(now).unwrap_or_default();
    Some(Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_names_the_wait_in_seconds_or_as_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let wait = |text| wait(&HeaderValue::from_static(text), now).map(|wait| wait.as_secs());
        assert_eq!(wait("120"), Some(120));
        for date in [
            "Sun, 06 Nov 1994 08:50:37 GMT",
            "Sunday, 06-Nov-94 08:50:37 GMT",
            "Sun Nov  6 08:50:37 1994",
        ] {
            assert_eq!(wait(date), Some(60), "{date}");
        }
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        assert_eq!((wait("soon"), wait("-1"), wait("")), (None, None, None));
    }
}
