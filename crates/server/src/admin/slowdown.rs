//! Slows down requests without a valid token, so that guessing the token takes for ever.

use std::time::{Duration, Instant as SystemInstant};

use parking_lot::Mutex;
use tokio::time::sleep;

/// Refusals are counted for this long.
const WINDOW: Duration = Duration::from_secs(60);
/// Refusals in a window that are answered at once: a person who mistypes the token.
const AT_ONCE: u32 = 10;
/// Each further refusal is answered so much later than the one before, up to [`DELAY_MAX`].
const DELAY_STEP: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);

/// The refusals of one listener. Requests with the token are never delayed.
#[derive(Default)]
pub(super) struct Slowdown(Mutex<Option<Window>>);

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
