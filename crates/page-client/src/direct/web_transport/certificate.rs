//! The certificate of a listener. No authority signs it: browsers accept it by its hash.

use std::time::{Duration, SystemTime};

use wtransport::Identity;
use wtransport::tls::Sha256DigestFmt;
use wtransport::tls::self_signed::time::{Duration as CalendarDuration, OffsetDateTime};

/// Browsers reject a certificate that is valid for more than 14 days. The clocks of both sides
/// may differ by a day.
const VALID_BEFORE: CalendarDuration = CalendarDuration::days(1);
const VALID_AFTER: CalendarDuration = CalendarDuration::days(12);
/// A certificate is replaced long before it expires, so that browsers whose clocks are some days
/// ahead still accept it.
const RENEWED_AFTER: Duration = Duration::from_secs(6 * 24 * 3600);
/// A certificate is also replaced when the clock was set back further, because browsers may then
/// consider it as not valid yet.
const SET_BACK_MAX: Duration = Duration::from_secs(12 * 3600);

/// A certificate with its private key, an ECDSA key as browsers demand.
pub(super) struct Certificate {
    pub identity: Identity,
    /// The SHA-256 of the certificate, in hexadecimal.
    pub sha256: String,
    made_at: SystemTime,
}

impl Certificate {
    /// Makes a certificate that is valid around `now`.
    pub(super) fn new(now: SystemTime) -> Self {
        let today = OffsetDateTime::from(now);
        let identity = Identity::self_signed_builder()
            .subject_alt_names(["watchfire.invalid"])
            .validity_period(today - VALID_BEFORE, today + VALID_AFTER)
            .build()
            .expect("the name of the certificate is valid");
        let [certificate] = identity.certificate_chain().as_slice() else {
            unreachable!("a certificate that signs itself has no other above it");
        };
        // Dotted hexadecimal, such as `0a:ff`.
        let sha256 = certificate.hash().fmt(Sha256DigestFmt::DottedHex).replace(':', "");
        Certificate { identity, sha256, made_at: now }
    }

    /// Whether another certificate should be offered. `now` is the wall clock, because browsers
    /// compare the validity with theirs: a monotonic clock stands still while a laptop sleeps.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        match now.duration_since(self.made_at) {
            Ok(age) => age >= RENEWED_AFTER,
            Err(set_back) => set_back.duration() > SET_BACK_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_after_six_days_and_when_the_clock_was_set_back() {
        let now = SystemTime::now();
        let certificate = Certificate::new(now);
        assert_eq!(certificate.sha256.len(), 64);
        assert!(certificate.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(!certificate.is_due(now));
        assert!(certificate.is_due(now + RENEWED_AFTER));
        assert!(!certificate.is_due(now - Duration::from_secs(60)));
        assert!(certificate.is_due(now - Duration::from_secs(24 * 3600)));
        assert_ne!(Certificate::new(now).sha256, certificate.sha256);
        assert!(VALID_BEFORE + VALID_AFTER <= CalendarDuration::days(14));
    }
}
