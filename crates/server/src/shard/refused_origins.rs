//! Logs refused origins, rarely enough that a client cannot fill the log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// An origin is logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Origins that are remembered. While it is full, further origins are not logged.
const ORIGINS_MAX: usize = 100;
/// Longer origins are not logged.
const ORIGIN_BYTES_MAX: usize = 255;

/// The origins that were logged in the last minute.
#[derive(Debug, Default)]
pub(crate) struct RefusedOrigins(Mutex<HashMap<String, Instant>>);

impl RefusedOrigins {
    /// Logs that a page of this origin was refused, unless it was logged less than a minute ago.
    pub fn log(&self, origin: &str, host: &str) {
        if self.is_due(origin, Instant::now()) {
            tracing::warn!(
                ?origin,
                ?host,
                "cannot accept a client: the origin of its page is not that of the server; set \
                 server.public_url to the address of the server, or add the origin to \
                 socket.check_origin"
            );
        }
    }

    fn is_due(&self, origin: &str, now: Instant) -> bool {
        if origin.len() > ORIGIN_BYTES_MAX {
            return false;
        }
        let mut logged = self.0.lock();
        logged.retain(|_, at| now.saturating_duration_since(*at) < LOG_INTERVAL);
        if logged.len() >= ORIGINS_MAX || logged.contains_key(origin) {
            return false;
        }
        logged.insert(origin.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_logged_once_a_minute() {
        let (origins, start) = (RefusedOrigins::default(), Instant::now());
        let is_due = |origin, seconds| origins.is_due(origin, start + Duration::from_secs(seconds));
        assert!(is_due("https://a.example", 0));
        assert!(!is_due("https://a.example", 59));
        assert!(is_due("https://b.example", 59));
        assert!(is_due("https://a.example", 60));
    }

    #[test]
    fn many_or_long_origins_do_not_fill_memory_or_log() {
        let (origins, start) = (RefusedOrigins::default(), Instant::now());
        let logged = (0..1000).filter(|number| origins.is_due(&format!("{number}"), start)).count();
        assert_eq!((logged, origins.0.lock().len()), (ORIGINS_MAX, ORIGINS_MAX));
        assert!(!origins.is_due(&"x".repeat(256), start + LOG_INTERVAL));
    }
}
