//! Orders the certificate and renews it, in one process of the server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::Signal;
use tokio::time::{sleep, timeout};
use watchfire_sockets::Certificate;

use super::order::{OrderError, note, order};
use super::plan::AcmePlan;
use super::retry::{Retry, renew_at};
use super::state_dir::StateLock;
use super::suggestion::Suggestion;
use crate::expiry::Validity;
use crate::metrics::TlsCounts;

/// How often the clock is read while nothing is due. A suspended machine does not count its sleep.
const CLOCK_PERIOD: Duration = Duration::from_secs(60);

/// The longest time of one order. Each of its steps has a shorter limit.
const ORDER_TIMEOUT: Duration = Duration::from_secs(600);

/// How often the lock of another process is tried.
const LOCK_PERIOD: Duration = Duration::from_secs(2);

/// Orders the certificate and renews it.
pub(crate) struct AcmeClient {
    plan: Arc<AcmePlan>,
    retry: Option<Retry>,
    /// A certificate that was issued and is not stored yet.
    unsaved: Option<String>,
    suggestion: Option<Suggestion>,
    counts: Arc<TlsCounts>,
    /// No renewal before: a wrong clock must not order one certificate after the other.
    not_before: SystemTime,
}

/// Why the client waits.
#[derive(Debug, PartialEq)]
enum Next {
    /// For the time of an attempt. SIGHUP ends the wait.
    Attempt(SystemTime),
    /// For the renewal of a good certificate.
    Renewal(SystemTime),
    /// To ask the ACME server for a better time of renewal.
    Question(SystemTime),
}

impl AcmeClient {
    pub fn new(plan: Arc<AcmePlan>, counts: Arc<TlsCounts>) -> Self {
        AcmeClient {
            plan,
            retry: None,
            unsaved: None,
            suggestion: None,
            counts,
            not_before: SystemTime::UNIX_EPOCH,
        }
    }

    /// Runs forever.
    pub async fn run(mut self, mut hangup: Signal) {
        let _lock = self.lock().await;
        let stored = self.plan.state.read_retry();
        let now = SystemTime::now();
        self.retry = stored.and_then(|json| Retry::restore(&json, &self.order_text(), now));
        if Certificate::read(&self.plan.certificate_files()).is_err() {
            tracing::warn!(
                domains = self.plan.domains().join(", "),
                "there is no certificate from the ACME server yet; TLS handshakes fail until it is issued"
            );
        }
        loop {
            self.ask_for_suggestion().await;
            let next = self.next();
            tracing::debug!(?next, "waiting to order a certificate");
            if wait(&next, &mut hangup).await && !matches!(next, Next::Question(_)) {
                self.attempt().await;
            }
        }
    }

    /// Waits until no other process orders with the same state.
    async fn lock(&self) -> StateLock {
        let mut is_reported = false;
        loop {
            let waiting = match self.plan.state.lock() {
                Ok(Some(lock)) => return lock,
                Ok(None) => "another process uses tls.acme.state_dir; waiting until it ends".into(),
                Err(error) => format!(
                    "cannot lock tls.acme.state_dir {}: {error}; make it writable for the server's user",
                    self.plan.state.path().display()
                ),
            };
            if !std::mem::replace(&mut is_reported, true) {
                tracing::warn!("{waiting}");
            }
            sleep(LOCK_PERIOD).await;
        }
    }

    fn next(&self) -> Next {
        if let Some(retry) = &self.retry {
            return Next::Attempt(retry.next());
        }
        let Some((certificate, mut renew_at)) = self.stored() else {
            return Next::Attempt(self.not_before);
        };
        let suggestion = self.suggestion.as_ref().filter(|one| one.is_for(&certificate));
        // A suggestion can only make the renewal earlier.
        renew_at = suggestion.and_then(|one| one.renew_at).unwrap_or(renew_at).min(renew_at);
        renew_at = renew_at.max(self.not_before);
        match suggestion {
            Some(one) if one.ask_again_at < renew_at => Next::Question(one.ask_again_at),
            _ => Next::Renewal(renew_at),
        }
    }

    async fn ask_for_suggestion(&mut self) {
        let Some((certificate, _)) = self.stored().filter(|_| self.retry.is_none()) else { return };
        let has_answer = self
            .suggestion
            .as_ref()
            .is_some_and(|one| one.is_for(&certificate) && SystemTime::now() < one.ask_again_at);
        if !has_answer {
            let answer = Suggestion::ask(&self.plan, certificate, random()).await;
            self.suggestion = Some(answer);
        }
    }

    /// The stored certificate, and when it must be renewed; `None` if there is none for these
    /// settings.
    fn stored(&self) -> Option<(Certificate, SystemTime)> {
        let certificate = Certificate::read(&self.plan.certificate_files()).ok()?;
        let validity = Validity::of(&certificate)?;
        let names: BTreeSet<&String> = validity.names.iter().collect();
        let has_all = self.plan.domains().iter().all(|domain| names.contains(domain));
        let is_same_server = self.plan.state.certificate_note()? == note(&self.plan);
        (has_all && is_same_server).then(|| (certificate, renew_at(&validity)))
    }

    async fn attempt(&mut self) {
        let domains = self.plan.domains().join(", ");
        match self.obtain().await {
            Ok(()) => {
                tracing::info!(domains, "the ACME server issued a certificate");
                self.counts.orders.fetch_add(1, Ordering::Relaxed);
                self.retry = None;
                // Nothing depends on it: an old pause has passed.
                let _ = self.plan.state.remove_retry();
                self.protect_from_wrong_clock();
            }
            Err(error) => self.note_failure(&domains, &error),
        }
    }

    /// Orders a certificate and stores it.
    async fn obtain(&mut self) -> Result<(), OrderError> {
        let pem = match self.unsaved.take() {
            Some(pem) => pem,
            None => {
                tracing::info!(directory = self.plan.directory_url, "ordering a certificate");
                let late =
                    |_| OrderError::Unavailable(format!("no result within {ORDER_TIMEOUT:?}"));
                timeout(ORDER_TIMEOUT, order(&self.plan)).await.map_err(late)??
            }
        };
        if let Err(error) = self.plan.state.write_certificate(&pem) {
            self.unsaved = Some(pem);
            return Err(error.into());
        }
        Ok(())
    }

    fn note_failure(&mut self, domains: &str, error: &OrderError) {
        let now = SystemTime::now();
        self.counts.order_failures.fetch_add(1, Ordering::Relaxed);
        let order = self.order_text();
        let retry = Retry::after(self.retry.as_ref(), error.failure(), &order, now, random());
        let pause = retry.next().duration_since(now).unwrap_or_default();
        let pause = humantime::format_duration(Duration::from_secs(pause.as_secs().max(1)));
        let has_certificate = Certificate::read(&self.plan.certificate_files()).is_ok();
        let meanwhile = match has_certificate {
            true => "the server keeps using the old certificate",
            false => "TLS handshakes fail until there is a certificate",
        };
        tracing::error!(
            "cannot obtain a certificate for {domains}: {error}; {meanwhile}; the next attempt is in {pause}, or at once on SIGHUP"
        );
        if retry.is_stored() {
            let json = serde_json::to_vec(&retry).expect("a pause has a JSON form");
            // A pause that cannot be stored is only forgotten at a restart.
            let _ = self.plan.state.write_retry(&json);
        }
        self.retry = Some(retry);
    }

    fn protect_from_wrong_clock(&mut self) {
        let certificate = Certificate::read(&self.plan.certificate_files()).ok();
        let lifetime = certificate.as_ref().and_then(Validity::of).map(|one| one.lifetime());
        self.not_before = SystemTime::now() + lifetime.unwrap_or(CLOCK_PERIOD) / 3;
    }

    /// The names and the ACME server of the order.
    fn order_text(&self) -> String {
        let AcmePlan { directory_url, .. } = &*self.plan;
        format!("{:?} {} {directory_url}", self.plan.challenge(), self.plan.domains().join(","))
    }
}

/// A random number from 0 to 1.
fn random() -> f64 {
    f64::from(getrandom::u32().unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

/// Waits until the time has come: true. False after SIGHUP while a good certificate is used: the
/// state may have changed.
async fn wait(next: &Next, hangup: &mut Signal) -> bool {
    let (Next::Attempt(at) | Next::Renewal(at) | Next::Question(at)) = next;
    loop {
        let Ok(left) = at.duration_since(SystemTime::now()) else { return true };
        tokio::select! {
            () = sleep(left.min(CLOCK_PERIOD)) => {}
            Some(()) = hangup.recv() => return matches!(next, Next::Attempt(_)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::AcmeSettings;

    #[test]
    fn a_certificate_that_could_not_be_stored_is_stored_later_and_not_ordered_again() {
        let folder = tempfile::tempdir().unwrap();
        let settings = AcmeSettings {
            domains: vec!["a.example".into()],
            // Nothing answers there, so an order would fail.
            directory_url: "https://localhost:1/".into(),
            state_dir: folder.path().to_owned(),
            ..AcmeSettings::default()
        };
        let plan = Arc::new(AcmePlan::new(&settings).unwrap());
        plan.prepare().unwrap();
        let mut client = AcmeClient::new(plan.clone(), Arc::default());
        client.unsaved = Some("issued".into());
        let path = plan.certificate_files().cert;
        std::fs::create_dir(&path).unwrap();

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(client.obtain()).unwrap_err();
        assert!(matches!(error, OrderError::State(_)), "{error}");
        std::fs::remove_dir(&path).unwrap();
        runtime.block_on(client.obtain()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "issued");
    }
}
