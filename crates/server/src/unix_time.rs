//! Unix time in whole milliseconds, as the operator's calls have it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds of Unix time; zero before 1970.
pub fn unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time now.
pub fn now_ms() -> u64 {
    unix_millis(SystemTime::now())
}
