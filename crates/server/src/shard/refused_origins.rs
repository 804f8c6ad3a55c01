//! Logs refused origins, rarely enough that a client cannot fill the log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchfire_channels::handshake::OriginPattern;

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
    /// Logs that a site of this origin was refused, unless it was logged less than a minute ago.
    pub fn log(&self, origin: &str, host: &str) {
        if !self.is_due(origin, Instant::now()) {
            return;
        }
        match origin.parse::<OriginPattern>() {
            Ok(_) => tracing::warn!(
                ?origin,
                ?host,
                "cannot accept a client: its origin is not that of the server; set \
                 server.public_url to the address of the server, or add the origin to \
                 socket.check_origin, as in {}",
                advice(origin)
            ),
            // Such as `null`, of a file or a sandboxed frame: no entry could name it.
            Err(_) => tracing::warn!(
                ?origin,
                ?host,
                "cannot accept a client: its origin is not that of the server, and has \
                 no host; open the site from a web server, or set socket.check_origin = [\"any\"]"
            ),
        }
    }

    /// Logs that no guest of this origin was admitted, unless the origin was logged less than a minute ago.
    pub fn log_guest(&self, origin: &str) {
        if self.is_due(origin, Instant::now()) {
            tracing::warn!(
                ?origin,
                "cannot admit a guest: all places for guests of this site, or of all sites, are taken; \
                 guests are admitted again when others have left"
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

/// The line of the settings that accepts an origin beside the server's own.
fn advice(origin: &str) -> String {
    format!("check_origin = [\"same\", \"{origin}\"]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_advice_is_a_line_of_the_settings_that_the_next_start_accepts() {
        for origin in ["https://a.example:8443", "http://[::1]", "capacitor://localhost"] {
            let text = format!("[socket]\n{}\n", advice(origin));
            let settings: Settings = toml::from_str(&text).expect("a settings file");
            let checked = crate::Server::new(settings.clone()).check();
            assert!(checked.is_ok(), "{text}: {checked:?}");
            assert_eq!(settings.socket.check_origin, ["same", origin]);
        }
    }

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
