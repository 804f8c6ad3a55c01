//! The names and the validity of a certificate.

use std::fmt;
use std::time::{Duration, SystemTime};

use watchfire_sockets::Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// A certificate that the operator renews is near its end when this is left.
const NEAR_END: Duration = Duration::from_secs(7 * 24 * 3600);

/// The names and the validity of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    /// The DNS names, in lower case.
    pub names: Vec<String>,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

impl Validity {
    /// `None` if the certificate has no validity that this server understands.
    pub fn of(certificate: &Certificate) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(certificate.end_entity_der()).ok()?;
        let alternatives = parsed.subject_alternative_name().ok().flatten();
        let names = alternatives.iter().flat_map(|names| &names.value.general_names);
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        let names = names.collect();
        let time = |seconds: i64| {
            let since = Duration::from_secs(u64::try_from(seconds).ok()?);
            SystemTime::UNIX_EPOCH.checked_add(since)
        };
        let validity = parsed.validity();
        let not_before = time(validity.not_before.timestamp())?;
        Some(Validity { names, not_before, not_after: time(validity.not_after.timestamp())? })
    }

    /// The time from the first to the last valid moment.
    pub fn lifetime(&self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default()
    }

    /// The action that an operator must take for a certificate that is not renewed automatically; `None` while
    /// there is time.
    pub fn advice(&self, now: SystemTime) -> Option<&'static str> {
        if self.not_after <= now {
            Some(
                "the TLS certificate has expired and clients refuse it; renew tls.cert and tls.key",
            )
        } else if self.not_after <= now + NEAR_END {
            Some("the TLS certificate expires within 7 days; renew tls.cert and tls.key")
        } else {
            None
        }
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            if self.names.is_empty() { "no DNS name".into() } else { self.names.join(", ") };
        let until = humantime::format_rfc3339_seconds(self.not_after);
        write!(f, "{names}, valid until {until}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_begins_seven_days_before_the_end() {
        let day = Duration::from_secs(24 * 3600);
        let now = SystemTime::UNIX_EPOCH + 20_000 * day;
        let until =
            |not_after| Validity { names: vec![], not_before: now - day, not_after }.advice(now);
        assert_eq!(until(now + 8 * day), None);
        assert!(until(now + 6 * day).unwrap().contains("within 7 days"));
        assert!(until(now - Duration::from_secs(1)).unwrap().contains("has expired"));
    }
}
