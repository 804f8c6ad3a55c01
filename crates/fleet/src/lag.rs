//! Timeouts of hosts that run late.

use std::time::Duration;

/// The largest lag. A host that is later counts as gone.
pub const LAG_MAX: Duration = Duration::from_secs(3);
/// Timeouts are longer by so many lags: a message waits at both ends, in several threads.
const LAGS: u32 = 4;

/// A timeout for a host with this lag.
pub fn extended(timeout: Duration, lag: Duration) -> Duration {
    timeout + LAGS * lag.min(LAG_MAX)
}
