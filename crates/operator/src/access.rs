//! The operator's token, and the answer to requests without it, which is slow when they are many, so that
//! guessing the token takes for ever.

use std::sync::Arc;
use std::time::{Duration, Instant as SystemInstant};

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::time::sleep;
use watchfire::internal::Metrics;

/// Refusals are counted for this long.
const WINDOW: Duration = Duration::from_secs(60);
/// Refusals in a window that are answered at once: a person who mistypes the token.
const AT_ONCE: u32 = 10;
/// Each further refusal is answered so much later than the one before, up to [`DELAY_MAX`].
const DELAY_STEP: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);

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

/// The refusals of one listener. Requests with the token are never delayed.
#[derive(Default)]
struct Slowdown(Mutex<Option<Window>>);

struct Window {
    began: SystemInstant,
    refusals: u32,
}

impl Slowdown {
    /// Waits before a refusal is answered.
    pub async fn wait(&self) {
        let delay = self.note(SystemInstant::now());
        if !delay.is_zero() {
            sleep(delay).await;
        }
    }

    /// Counts a refusal. Returns how long its answer has to wait.
    fn note(&self, now: SystemInstant) -> Duration {
        let mut window = self.0.lock();
        let current = window.get_or_insert(Window { began: now, refusals: 0 });
        if now.saturating_duration_since(current.began) >= WINDOW {
            if current.refusals > AT_ONCE {
                let refusals = current.refusals;
                tracing::warn!(refusals, "requests without a valid admin token in one minute");
            }
            *current = Window { began: now, refusals: 0 };
        }
        current.refusals = current.refusals.saturating_add(1);
        if current.refusals == AT_ONCE + 1 {
            tracing::warn!(
                "many requests to the admin listener have no valid admin.token; their answers are slowed \
                 down. Restrict who can reach admin.listen"
            );
        }
        DELAY_MAX.min(DELAY_STEP.saturating_mul(current.refusals.saturating_sub(AT_ONCE)))
    }
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

    #[test]
    fn guesses_become_slower_and_a_new_minute_begins_at_once() {
        let slowdown = Slowdown::default();
        let now = SystemInstant::now();
        let delays: Vec<Duration> = (0..10_000).map(|_| slowdown.note(now)).collect();
        assert!(delays[..10].iter().all(Duration::is_zero));
        assert_eq!(delays[10], DELAY_STEP);
        assert_eq!(delays[9_999], DELAY_MAX);
        assert!(slowdown.note(now + WINDOW).is_zero());
    }
}
