//! When to order a certificate again, after an error and before the end of its validity.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::expiry::Validity;

/// The first pause after an error for which the ACME server did no work, such as no connection.
const UNAVAILABLE_PAUSE: Duration = Duration::from_secs(5);
const UNAVAILABLE_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The first pause after an order that the ACME server refused. With the shortest random pauses,
/// the attempts are at minute 0, 5, 15, 35 and 75. So at most four are in any hour; Let's Encrypt
/// permits five failed validations for each name.
const REFUSED_PAUSE: Duration = Duration::from_secs(600);
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(12 * 3600);

/// A stored pause that is longer comes from a wrong clock.
const STORED_PAUSE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The party that caused an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The ACME server did no work: it cannot be reached, or the state cannot be written.
    Unavailable,
    /// The ACME server refused the order.
    Refused,
}

/// The errors since the last success, and when to try again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Retry {
    refused: u32,
    /// Since the last refusal.
    unavailable: u32,
    next: SystemTime,
    /// The names and the ACME server of the order. With others, the pause does not apply.
    order: String,
}

impl Retry {
    /// The pause after another error. `random` is from 0 to 1.
    pub fn after(
        previous: Option<&Retry>,
        failure: Failure,
        order: &str,
        now: SystemTime,
        random: f64,
    ) -> Self {
        let (refused, unavailable) =
            previous.map_or((0, 0), |retry| (retry.refused, retry.unavailable));
        let (refused, unavailable) = match failure {
            Failure::Unavailable => (refused, unavailable.saturating_add(1)),
            Failure::Refused => (refused.saturating_add(1), 0),
        };
        let failures = if failure == Failure::Refused { refused } else { unavailable };
        let next = now + pause(failures, failure, random);
        Retry { refused, unavailable, next, order: order.to_owned() }
    }

    pub fn next(&self) -> SystemTime {
        self.next
    }

    /// Whether the state must survive a restart: a server that restarts in a loop must not be
    /// refused in a loop.
    pub fn is_stored(&self) -> bool {
        self.refused > 0
    }

    /// A stored state, if it still applies.
    pub fn restore(json: &[u8], order: &str, now: SystemTime) -> Option<Self> {
        let retry: Retry = serde_json::from_slice(json).ok()?;
        let is_recent = retry.next <= now + STORED_PAUSE_MAX;
        (retry.order == order && is_recent).then_some(retry)
    }
}

/// Doubles with each failure. A random half of it spreads servers that failed at the same time.
fn pause(failures: u32, failure: Failure, random: f64) -> Duration {
    let (first, max) = match failure {
        Failure::Unavailable => (UNAVAILABLE_PAUSE, UNAVAILABLE_PAUSE_MAX),
        Failure::Refused => (REFUSED_PAUSE, REFUSED_PAUSE_MAX),
    };
    let doublings = failures.saturating_sub(1).min(20);
    let longest = first.saturating_mul(1 << doublings).min(max);
    longest / 2 + (longest / 2).mul_f64(random.clamp(0.0, 1.0))
}

/// When to renew: when a third of the lifetime is left.
pub(super) fn renew_at(validity: &Validity) -> SystemTime {
    validity.not_after - validity.lifetime() / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_refused_order_is_repeated_at_most_four_times_an_hour() {
        let mut retry: Option<Retry> = None;
        let (mut now, mut attempts) = (at(0), vec![at(0)]);
        while attempts.len() < 12 {
            let next = Retry::after(retry.as_ref(), Failure::Refused, "order", now, 0.0);
            now = next.next();
            attempts.push(now);
            retry = Some(next);
        }
        for first in &attempts {
            let hour = *first..*first + Duration::from_secs(3600);
            assert!(attempts.iter().filter(|at| hour.contains(*at)).count() <= 4, "{attempts:?}");
        }
        assert!(attempts[11].duration_since(attempts[10]).unwrap() >= REFUSED_PAUSE_MAX / 2);
    }

    #[test]
    fn an_error_of_the_network_does_not_shorten_the_pauses_after_refusals() {
        let after =
            |previous: &Retry, failure| Retry::after(Some(previous), failure, "order", at(0), 0.0);
        let refused = Retry::after(None, Failure::Refused, "order", at(0), 0.0);
        let unavailable = after(&refused, Failure::Unavailable);
        assert!(unavailable.next() < at(5) && unavailable.is_stored());
        let refused_again = after(&unavailable, Failure::Refused);
        assert_eq!(refused_again.next(), at(0) + REFUSED_PAUSE);
        let first = Retry::after(None, Failure::Unavailable, "order", at(0), 0.0);
        assert!(!first.is_stored(), "a restart tries at once");
    }

    #[test]
    fn pauses_double_up_to_a_maximum_and_are_random_in_their_second_half() {
        let seconds =
            |failures, random| pause(failures, Failure::Unavailable, random).as_secs_f64();
        assert_eq!((seconds(1, 0.0), seconds(1, 1.0)), (2.5, 5.0));
        assert_eq!((seconds(3, 0.0), seconds(3, 1.0)), (10.0, 20.0));
        assert_eq!(seconds(u32::MAX, 1.0), 3600.0);
    }

    #[test]
    fn a_stored_pause_applies_to_the_same_order_only() {
        let retry = Retry::after(None, Failure::Refused, "a.example", at(1_000_000), 1.0);
        let json = serde_json::to_vec(&retry).unwrap();
        assert_eq!(Retry::restore(&json, "a.example", at(1_000_000)), Some(retry));
        assert_eq!(Retry::restore(&json, "b.example", at(1_000_000)), None);
        assert_eq!(Retry::restore(&json, "a.example", at(10)), None, "the clock was wrong");
        assert_eq!(Retry::restore(b"{", "a.example", at(1_000_000)), None);
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_lifetime_is_left() {
        let validity = Validity { names: vec![], not_before: at(0), not_after: at(90) };
        assert_eq!(renew_at(&validity), at(60));
    }
}
