//! One order of a certificate, from the account to the chain.

use std::io;
use std::time::Duration;

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};

use super::http_client::AcmeHttpClient;
use super::plan::AcmePlan;
use super::retry::Failure;
use crate::settings::AcmeChallenge;

/// How the validation and the issuance are polled.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));

const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";
const NO_SUCH_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Problems that say nothing about the order.
const TEMPORARY: &[&str] =
    &["urn:ietf:params:acme:error:serverInternal", "urn:ietf:params:acme:error:badNonce"];

/// A certificate was not issued.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    /// The state cannot be read or written.
    #[error("cannot write in tls.acme.state_dir: {0}; free space there and make it writable")]
    State(io::Error),
    /// The ACME server cannot be reached, or answers with an error of its own.
    #[error("the ACME server is not available: {0}; check tls.acme.directory_url and the network")]
    Unavailable(String),
    /// The ACME server has lost the account.
    #[error("the ACME server does not know the account: {0}; check tls.acme.directory_url")]
    NoAccount(String),
    /// The ACME server has issued enough for now.
    #[error("the ACME server limits the rate: {0}; wait, or use its staging server for tests")]
    RateLimited(String),
    /// The ACME server did not find the answer to a challenge.
    #[error("the ACME server refused the order: {reason}; {advice}")]
    Refused {
        /// The reason of the ACME server.
        reason: String,
        /// The action that helps, for the operator.
        advice: &'static str,
    },
    /// A key or a request cannot be made.
    #[error("cannot make a key or a certificate request: {0}; report this as a bug")]
    Crypto(rcgen::Error),
}

impl From<rcgen::Error> for OrderError {
    fn from(cause: rcgen::Error) -> Self {
        OrderError::Crypto(cause)
    }
}

impl From<io::Error> for OrderError {
    fn from(cause: io::Error) -> Self {
        OrderError::State(cause)
    }
}

impl OrderError {
    /// For the pause before the next attempt.
    pub fn failure(&self) -> Failure {
        match self {
            OrderError::State(_) | OrderError::Unavailable(_) => Failure::Unavailable,
            OrderError::NoAccount(_)
            | OrderError::RateLimited(_)
            | OrderError::Refused { .. }
            | OrderError::Crypto(_) => Failure::Refused,
        }
    }
}

/// The account as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    directory_url: String,
    contact: Vec<String>,
    credentials: AccountCredentials,
}

/// Orders a certificate. Returns the chain and its key as PEM.
///
/// Each call makes a new order, so an order that expired or became invalid is never continued.
pub(super) async fn order(plan: &AcmePlan) -> Result<String, OrderError> {
    // A certificate that cannot be stored would be lost, and counts at the ACME server.
    plan.state.check_space()?;
    plan.state.clear_challenges()?;
    let mut result = order_once(plan).await;
    if let Err(OrderError::NoAccount(reason)) = &result {
        tracing::warn!(reason, "the ACME server has lost the account; registering again");
        plan.state.remove_account()?;
        result = order_once(plan).await;
    }
    let cleared = plan.state.clear_challenges();
    let pem = result?;
    cleared?;
    Ok(pem)
}

async fn order_once(plan: &AcmePlan) -> Result<String, OrderError> {
    let account = open_account(plan).await?;
    let failed = |error| refusal(plan, error);
    let names: Vec<_> = plan.domains().iter().cloned().map(Identifier::Dns).collect();
    let mut order = account.new_order(&NewOrder::new(&names)).await.map_err(failed)?;
    answer_challenges(plan, &mut order).await?;
    match order.poll_ready(&POLLING).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) | Err(Error::Api(_)) => {
            let reason = invalid_reason(&mut order).await;
            return Err(OrderError::Refused { reason, advice: advice(plan) });
        }
        Err(error) => return Err(failed(error)),
    }
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(plan.domains().to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key)?;
    order.finalize_csr(request.der()).await.map_err(failed)?;
    let chain = order.poll_certificate(&POLLING).await.map_err(failed)?;
    Ok(format!("{}\n{}\n{}", note(plan), chain.trim_end(), key.serialize_pem()))
}

/// The first line of a certificate's file: with another ACME server, it is ordered again.
pub(super) fn note(plan: &AcmePlan) -> String {
    format!("Issued through {}", plan.directory_url)
}

/// The stored account, or a new one.
pub(super) async fn open_account(plan: &AcmePlan) -> Result<Account, OrderError> {
    let http = AcmeHttpClient::new(plan.ca_file.as_deref()).map_err(OrderError::Unavailable)?;
    let unavailable = |error| refusal(plan, error);
    let builder = || Account::builder_with_http(Box::new(http.clone()));
    let contact: Vec<&str> = plan.contact.iter().map(String::as_str).collect();
    let stored = plan.state.read_account()?;
    let stored = stored.and_then(|json| serde_json::from_slice::<StoredAccount>(&json).ok());
    let usable = stored.filter(|stored| stored.directory_url == plan.directory_url);
    if let Some(stored) = usable
        && stored.contact == plan.contact
    {
        return builder().from_credentials(stored.credentials).await.map_err(unavailable);
    }
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let directory_url = plan.directory_url.clone();
    let created = builder().create(&new, directory_url.clone(), None).await;
    let (account, credentials) = created.map_err(unavailable)?;
    let stored = StoredAccount { directory_url, contact: plan.contact.clone(), credentials };
    let json = serde_json::to_vec(&stored).expect("an account has a JSON form");
    plan.state.write_account(&json)?;
    tracing::info!(account = account.id(), "registered an account at the ACME server");
    Ok(account)
}

/// Stores the answer to one challenge of each domain, and asks for its validation.
async fn answer_challenges(plan: &AcmePlan, order: &mut Order) -> Result<(), OrderError> {
    let failed = |error| refusal(plan, error);
    let (kind, name) = match plan.challenge() {
        AcmeChallenge::TlsAlpn01 => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
        AcmeChallenge::Http01 => (ChallengeType::Http01, "http-01"),
    };
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(failed)?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let Some(mut challenge) = authorization.challenge(kind.clone()) else {
            let reason = format!("it does not offer the challenge {name}");
            return Err(OrderError::Refused { reason, advice: "set another tls.acme.challenge" });
        };
        let answer = challenge.key_authorization();
        match (plan.challenge(), challenge.identifier().identifier) {
            (AcmeChallenge::Http01, _) => {
                plan.state.write_http_challenge(&challenge.token, answer.as_str())?;
            }
            (AcmeChallenge::TlsAlpn01, Identifier::Dns(domain))
                if plan.domains().contains(domain) =>
            {
                let pem = tls_challenge(domain, answer.digest().as_ref())?;
                plan.state.write_tls_challenge(domain, &pem)?;
            }
            (AcmeChallenge::TlsAlpn01, other) => {
                let reason = format!("it asks for a name that was not ordered: {other:?}");
                let advice = "check tls.acme.directory_url";
                return Err(OrderError::Refused { reason, advice });
            }
        }
        challenge.set_ready().await.map_err(failed)?;
    }
    Ok(())
}

/// The certificate and key of TLS-ALPN-01 (RFC 8737, 3), as PEM.
fn tls_challenge(domain: &str, digest: &[u8]) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([domain.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key)?;
    Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
}

/// Why an order became invalid: the errors of its challenges.
async fn invalid_reason(order: &mut Order) -> String {
    let mut reasons = Vec::new();
    if let Some(problem) = &order.state().error {
        reasons.push(problem.to_string());
    }
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        let errors = authorization.challenges.iter().filter_map(|one| one.error.as_ref());
        reasons.extend(errors.map(|error| format!("{name}: {error}")));
    }
    match reasons.is_empty() {
        true => "the order became invalid".into(),
        false => reasons.join("; "),
    }
}

/// The error of a request to the ACME server.
fn refusal(plan: &AcmePlan, error: Error) -> OrderError {
    let problem = match error {
        Error::Api(problem) => problem,
        error => return OrderError::Unavailable(error.to_string()),
    };
    let kind = problem.r#type.as_deref().unwrap_or_default();
    match kind {
        RATE_LIMITED => OrderError::RateLimited(problem.to_string()),
        NO_SUCH_ACCOUNT => OrderError::NoAccount(problem.to_string()),
        kind if TEMPORARY.contains(&kind) => OrderError::Unavailable(problem.to_string()),
        _ => OrderError::Refused { reason: problem.to_string(), advice: advice(plan) },
    }
}

fn advice(plan: &AcmePlan) -> &'static str {
    match plan.challenge() {
        AcmeChallenge::TlsAlpn01 => {
            "check that the DNS entry of each domain leads to this server, and that port 443 reaches server.listen without a TLS proxy between"
        }
        AcmeChallenge::Http01 => {
            "check that the DNS entry of each domain leads to this server, and that port 80 reaches tls.redirect_listen"
        }
    }
}
