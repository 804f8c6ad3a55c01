//! The operator's token, and the answer to requests without it.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::slowdown::Slowdown;
use crate::metrics::Metrics;

/// The operator's token.
#[derive(Clone, Copy)]
struct Token(Option<[u8; 32]>);

/// The access of the operator: requests with the token. Others are counted, and answered slowly when they are
/// many.
pub(crate) struct Access {
    token: Token,
    metrics: Arc<Metrics>,
    slowdown: Slowdown,
}

impl Access {
    /// `token` is `admin.token`; empty for none.
    pub fn new(token: &str, metrics: &Arc<Metrics>) -> Self {
        let token = Token((!token.is_empty()).then(|| Sha256::digest(token).into()));
        Access { token, metrics: metrics.clone(), slowdown: Slowdown::default() }
    }

    /// Whether there is a token.
    pub fn has_token(&self) -> bool {
        self.token.0.is_some()
    }

    /// Whether a request has the token.
    pub fn permits(&self, headers: &HeaderMap) -> bool {
        let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.strip_prefix("Bearer "));
        // The duration of this comparison can reveal parts of the hash, but not of the token.
        token.is_some_and(|token| self.token.0 == Some(Sha256::digest(token).into()))
    }

    /// Counts a request that is refused.
    pub(super) fn note_refusal(&self) {
        self.metrics.refused("admin");
    }

    /// 401, for a request without the token.
    pub async fn deny(&self) -> Response {
        self.note_refusal();
        self.slowdown.wait().await;
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        let reason = json!({ "reason": "not the operator" });
        (StatusCode::UNAUTHORIZED, challenge, Json(reason)).into_response()
    }
}

/// A refusal with a short reason for programs and a message for people.
pub(crate) fn refuse(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, Json(json!({ "reason": reason, "message": message }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_no_request_has_it() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer ".parse().unwrap());
        let access = Access::new("", &Arc::default());
        assert!(!access.permits(&headers) && !access.has_token());
        headers.insert("authorization", "Bearer a token of the operator".parse().unwrap());
        assert!(Access::new("a token of the operator", &Arc::default()).permits(&headers));
        assert!(!Access::new("another token of an operator", &Arc::default()).permits(&headers));
    }
}
