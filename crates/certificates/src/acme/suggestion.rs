//! The time of renewal that an ACME server suggests (RFC 9773).

use std::time::{Duration, SystemTime};

use instant_acme::{CertificateIdentifier, Error};
use rustls_pki_types::CertificateDer;
use watchfire_sockets::Certificate;

use super::order::open_account;
use super::plan::AcmePlan;

/// The server is asked again after the time that it names, within these bounds.
const ASK_AGAIN_MIN: Duration = Duration::from_secs(3600);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(24 * 3600);

/// When it is asked again after an error.
const ASK_AGAIN_AFTER_ERROR: Duration = Duration::from_secs(6 * 3600);

/// The time of renewal that an ACME server suggests for one certificate. It suggests an early one
/// before it revokes certificates.
#[derive(Debug)]
pub(super) struct Suggestion {
    certificate: Certificate,
    /// `None` if the server suggests nothing.
    pub renew_at: Option<SystemTime>,
    pub ask_again_at: SystemTime,
}

impl Suggestion {
    /// Asks the server. `random`, from 0 to 1, chooses a time in the suggested window.
    pub async fn ask(plan: &AcmePlan, certificate: Certificate, random: f64) -> Self {
        let answer = ask(plan, &certificate, random).await;
        let now = SystemTime::now();
        let (renew_at, pause) = match answer {
            Ok((renew_at, pause)) => {
                tracing::debug!(?renew_at, ?pause, "the ACME server suggests a time of renewal");
                (Some(renew_at), pause.clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX))
            }
            Err(error) => {
                tracing::debug!(error, "the ACME server suggests no time of renewal");
                (None, ASK_AGAIN_AFTER_ERROR)
            }
        };
        Suggestion { certificate, renew_at, ask_again_at: now + pause }
    }

    pub fn is_for(&self, certificate: &Certificate) -> bool {
        self.certificate == *certificate
    }
}

async fn ask(
    plan: &AcmePlan,
    certificate: &Certificate,
    random: f64,
) -> Result<(SystemTime, Duration), String> {
    let account = open_account(plan).await.map_err(|error| error.to_string())?;
    let der = CertificateDer::from(certificate.end_entity_der());
    let id = CertificateIdentifier::try_from(&der)?;
    let answer = account.renewal_info(&id).await;
    let (info, pause) = answer.map_err(|error: Error| error.to_string())?;
    let (start, end) = (info.suggested_window.start, info.suggested_window.end);
    let (start, end) = (SystemTime::from(start), SystemTime::from(end));
    let window = end.duration_since(start).unwrap_or_default();
    Ok((start + window.mul_f64(random), pause))
}
