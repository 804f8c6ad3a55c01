//! Tokens of token servers, kept until they expire.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

/// The time for which a token without `expires_in` is valid, by the specification.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);
/// A token is renewed this long before it expires.
const RENEWED_BEFORE: Duration = Duration::from_secs(10);
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most repositories whose tokens are kept. When the limit is reached, all are dropped, and requested again.
const TOKENS_MAX: usize = 10_000;

/// The token of each repository. Who asks for a new one holds the lock of this repository, so that others
/// wait for it, and pulls of other repositories do not.
#[derive(Debug, Default)]
pub(super) struct Tokens(parking_lot::Mutex<HashMap<String, Arc<Mutex<Option<Token>>>>>);

#[derive(Debug)]
pub(super) struct Token {
    pub(super) authorization: String,
    expires_at: Instant,
}

#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    /// Seconds. Some servers send a text or a fraction.
    #[serde(default)]
    expires_in: serde_json::Value,
}

impl TokenAnswer {
    /// The token and its lifetime; `None` if the answer has no token.
    pub(super) fn into_parts(self) -> Option<(String, Duration)> {
        let tokens = [self.token, self.access_token].into_iter().flatten();
        let token = tokens.into_iter().find(|token| !token.is_empty())?;
        let seconds: Option<f64> = match &self.expires_in {
            serde_json::Value::Number(number) => number.as_f64(),
            serde_json::Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let lifetime = match seconds {
            None => DEFAULT_LIFETIME,
            Some(seconds) if seconds >= 0.0 => {
                Duration::from_secs_f64(f64::min(seconds, LIFETIME_MAX.as_secs_f64()))
            }
            Some(_) => return None,
        };
        Some((token, lifetime))
    }
}

impl Tokens {
    pub(super) async fn lock(&self, repository: &str) -> OwnedMutexGuard<Option<Token>> {
        let token = {
            let mut tokens = self.0.lock();
            if tokens.len() >= TOKENS_MAX && !tokens.contains_key(repository) {
                tokens.clear();
            }
            tokens.entry(repository.to_owned()).or_default().clone()
        };
        token.lock_owned().await
    }
}

impl Token {
    pub(super) fn new(authorization: String, lifetime: Duration, now: Instant) -> Self {
        Token { authorization, expires_at: now + lifetime.saturating_sub(RENEWED_BEFORE) }
    }

    pub(super) fn is_valid(&self, now: Instant) -> bool {
        now < self.expires_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_used_until_shortly_before_it_expires() {
        let tokens = Tokens::default();
        let now = Instant::now();
        let token = Token::new("Bearer x".into(), Duration::from_secs(60), now);
        *tokens.lock("a").await = Some(token);
        let held = tokens.lock("a").await;
        let token = held.as_ref().unwrap();
        assert_eq!(token.authorization, "Bearer x");
        assert!(token.is_valid(now + Duration::from_secs(49)));
        assert!(!token.is_valid(now + Duration::from_secs(50)));
        // Another repository does not wait for this one.
        assert!(tokens.lock("b").await.is_none());
        for repository in 0..2 * TOKENS_MAX {
            tokens.lock(&repository.to_string()).await;
        }
        assert!(tokens.0.lock().len() <= TOKENS_MAX);
    }

    #[test]
    fn an_answer_has_a_token_under_either_name() {
        let parts = |text: &str| {
            serde_json::from_str::<TokenAnswer>(text).ok().and_then(TokenAnswer::into_parts)
        };
        let seconds = Duration::from_secs;
        assert_eq!(parts(r#"{"token": "a"}"#), Some(("a".into(), seconds(60))));
        let both = r#"{"token": "", "access_token": "b", "expires_in": 300, "scope": "x"}"#;
        assert_eq!(parts(both), Some(("b".into(), seconds(300))));
        for (expires_in, lifetime) in [
            (r#""300""#, seconds(300)),
            ("299.5", Duration::from_millis(299_500)),
            ("1e30", LIFETIME_MAX),
            ("0", seconds(0)),
            ("null", seconds(60)),
            (r#""soon""#, seconds(60)),
        ] {
            let answer = format!(r#"{{"token": "a", "expires_in": {expires_in}}}"#);
            assert_eq!(parts(&answer), Some(("a".into(), lifetime)), "{expires_in}");
        }
        assert_eq!(parts(r#"{"token": "", "access_token": ""}"#), None);
        assert_eq!(parts("{}"), None);
        assert_eq!(parts(r#"{"token": "a", "expires_in": -1}"#), None);
    }
}
