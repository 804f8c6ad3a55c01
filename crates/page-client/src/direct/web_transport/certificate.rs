//! The certificate of a listener. No authority signs it: browsers accept it by its hash.

use std::time::Duration;

use tokio::time::Instant;
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

/// A certificate with its private key, an ECDSA key as browsers demand.
pub(super) struct Certificate {
    pub identity: Identity,
    /// The SHA-256 of the certificate, in hexadecimal.
    pub sha256: String,
    renew_at: Instant,
}

impl Certificate {
    pub(super) fn new(now: Instant) -> Self {
        let today = OffsetDateTime::now_utc();
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
        Certificate { identity, sha256, renew_at: now + RENEWED_AFTER }
    }

    pub(super) fn is_old(&self, now: Instant) -> bool {
        self.renew_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_certificate_is_renewed_after_six_days() {
        let now = Instant::now();
        let certificate = Certificate::new(now);
        assert_eq!(certificate.sha256.len(), 64);
        assert!(certificate.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(!certificate.is_old(now));
        assert!(certificate.is_old(now + RENEWED_AFTER));
        assert_ne!(Certificate::new(now).sha256, certificate.sha256);
        assert!(VALID_BEFORE + VALID_AFTER <= CalendarDuration::days(14));
    }
}
