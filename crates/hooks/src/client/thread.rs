//! The thread that sends the requests.
//!
//! It sends at most `hooks.requests_max` requests at the same time: questions in their order, and notices when no
//! question waits. So a crowd that leaves delays no join. `hooks.timeout` counts from the client's
//! message on: a question that waited in the queue has less time, and none waits for longer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};
use watchfire_https::{Connector, add_headers, https_connector, run_on_thread, with_causes};

use super::breaker::Change;
use super::signature::signature;
use super::{HttpHooks, NoticeTask, QueuedQuestion, Queues};
use crate::error::HookError;
use crate::question::{Question, Recipient};
use crate::request::ChannelId;
use crate::settings::Hook;
use crate::verdict::{ConnectVerdict, Verdict};

/// An idle connection is closed after this time, before common servers close it. A request on a
/// connection that its server closes would fail.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The log has one answer that is not valid in this time; the metrics count all.
const INVALID_LOG_INTERVAL: Duration = Duration::from_secs(10);

type HttpClient = Client<Connector, Full<Bytes>>;

/// Starts the thread, which ends when the result is dropped.
pub(super) fn start(hooks: Arc<HttpHooks>) -> Result<oneshot::Sender<()>, HookError> {
    let queues = hooks.queues.lock().take().expect("a process has one such thread");
    let connector = https_connector().map_err(HookError::Tls)?;
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector);
    let sender = Arc::new(Sender { hooks, client, invalid_logged_at: Mutex::new(None) });
    run_on_thread("hooks", send_queued(sender, queues)).map_err(HookError::Thread)
}

async fn send_queued(sender: Arc<Sender>, mut queues: Queues) {
    let requests_max = sender.hooks.settings.requests_max;
    let places = Arc::new(Semaphore::new(requests_max as usize));
    loop {
        let place = places.clone().acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let sender = sender.clone();
        tokio::select! {
            biased;
            Some(QueuedQuestion { question, since }) = queues.questions.recv() => {
                tokio::spawn(async move { sender.ask(question, since, place).await });
            }
            Some(task) = queues.notices.recv() => match task {
                NoticeTask::Notify { body, since } => {
                    tokio::spawn(async move {
                        sender.notify(&body, since).await;
                        drop(place);
                    });
                }
                NoticeTask::Finish(finished) => {
                    drop(place);
                    let all = places.acquire_many(requests_max).await;
                    drop(all.expect("the semaphore is never closed"));
                    finished.send(()).ok();
                }
            },
            // All senders are gone.
            else => return,
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    Timeout,
    /// The backend cannot be reached, or closed the connection.
    Unreachable(String),
    Status(http::StatusCode),
    BadAnswer(String),
    /// The breaker is open, so no request was sent.
    BreakerOpen,
}

impl Failure {
    /// Whether the backend answered, and only this answer is of no use. It says nothing about others.
    fn is_of_one_request(&self) -> bool {
        match self {
            Failure::BadAnswer(_) => true,
            Failure::Status(status) => {
                status.is_client_error()
                    && !matches!(
                        *status,
                        http::StatusCode::REQUEST_TIMEOUT | http::StatusCode::TOO_MANY_REQUESTS
                    )
            }
            Failure::Timeout | Failure::Unreachable(_) | Failure::BreakerOpen => false,
        }
    }

    /// The outcome in metrics.
    fn outcome(&self) -> &'static str {
        match self {
            Failure::Timeout => "timeout",
            Failure::Unreachable(_) => "unreachable",
            Failure::Status(_) => "status",
            Failure::BadAnswer(_) => "bad_answer",
            Failure::BreakerOpen => "breaker_open",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Timeout => f.write_str("no answer in time"),
            Failure::Unreachable(cause) => f.write_str(cause),
            Failure::Status(status) => write!(f, "the status is {status}"),
            Failure::BadAnswer(cause) => write!(f, "the answer is invalid: {cause}"),
            Failure::BreakerOpen => f.write_str("earlier requests failed"),
        }
    }
}

/// Sends requests, and the decisions to their recipients.
struct Sender {
    hooks: Arc<HttpHooks>,
    client: HttpClient,
    /// When an answer that is not valid was logged last.
    invalid_logged_at: Mutex<Option<Instant>>,
}

impl Sender {
    /// Asks the backend, and passes the decision on. `place` is the request's.
    async fn ask(
        &self,
        question: Question,
        since: std::time::Instant,
        place: OwnedSemaphorePermit,
    ) {
        // The slot is free when the recipient has the decision.
        let Question { hook, body, slot: _slot, recipient } = question;
        let on_failure = self.hooks.settings.on_failure;
        let delivered = match recipient {
            Recipient::Connect(deliver) => {
                let is_allowed = |verdict: &_| matches!(verdict, ConnectVerdict::Allowed(_));
                let verdict = self.decide(hook, &body, since, ConnectVerdict::parse, is_allowed);
                let verdict = verdict.await;
                deliver(verdict.unwrap_or_else(|| ConnectVerdict::without_backend(on_failure)))
            }
            Recipient::Channel(deliver) => {
                let is_allowed = |verdict: &_| matches!(verdict, Verdict::Allowed(_));
                let verdict = self.decide(hook, &body, since, Verdict::parse, is_allowed).await;
                deliver(verdict.unwrap_or_else(|| Verdict::without_backend(on_failure)))
            }
        };
        drop(place);
        self.hooks.metrics.questions.remove(since);
        delivered.await;
    }

    /// The decision of the backend, which `read` reads. `None`: there is none.
    async fn decide<T>(
        &self,
        hook: Hook,
        body: &str,
        since: std::time::Instant,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
        is_allowed: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let result = self.exchange(hook, body, since, read).await;
        let outcome = match &result {
            Ok(verdict) if is_allowed(verdict) => "allowed",
            Ok(_) => "denied",
            Err(failure) => failure.outcome(),
        };
        self.hooks.metrics.count(hook, outcome);
        result.ok()
    }

    async fn notify(&self, body: &str, since: std::time::Instant) {
        let result = self.exchange(Hook::Leave, body, since, |_| Ok(())).await;
        let outcome = result.map_or_else(|failure| failure.outcome(), |()| "sent");
        self.hooks.metrics.count(Hook::Leave, outcome);
        self.hooks.leaving.fetch_sub(1, Ordering::Relaxed);
        self.hooks.metrics.notices.remove(since);
    }

    /// Sends a request, unless the breaker is open, and reads the answer.
    async fn exchange<T>(
        &self,
        hook: Hook,
        body: &str,
        since: std::time::Instant,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let deadline = Instant::from_std(since) + self.hooks.settings.timeout;
        // A question whose time ended in the queue says nothing about its own request.
        if deadline <= Instant::now() {
            return Err(Failure::Timeout);
        }
        let permit = self.hooks.breaker.lock().permit(self.hooks.now());
        let permit = permit.ok_or(Failure::BreakerOpen)?;
        let sent_at = Instant::now();
        let answer = timeout_at(deadline, self.send(hook, body)).await;
        self.hooks.metrics.took(hook, sent_at.elapsed());
        let answer = answer.unwrap_or(Err(Failure::Timeout));
        let result = answer.and_then(|answer| read(&answer).map_err(Failure::BadAnswer));
        let is_success = result.as_ref().err().is_none_or(Failure::is_of_one_request);
        let change = self.hooks.breaker.lock().record(self.hooks.now(), permit, is_success);
        self.log(hook, result.as_ref().err(), change);
        result
    }

    fn log(&self, hook: Hook, failure: Option<&Failure>, change: Option<Change>) {
        // The rest of the URL may have secrets.
        let host = self.hooks.uri.host();
        if change == Some(Change::Closed) {
            tracing::info!(host, "the backend answers again");
        }
        match (change, failure) {
            (Some(Change::Opened), Some(failure)) => {
                let retry_after = self.hooks.settings.retry_after;
                tracing::warn!(host, %failure, ?retry_after, "the backend failed; requests are stopped");
            }
            (_, Some(failure)) if failure.is_of_one_request() && self.is_invalid_due() => {
                tracing::warn!(
                    host, ?hook, %failure,
                    "cannot use an answer of the backend: hooks.on_failure decides about this client"
                );
            }
            (_, Some(failure)) => {
                tracing::debug!(host, %failure, "a request to the backend failed")
            }
            (_, None) => {}
        }
    }

    /// Whether an answer that is not valid is logged now.
    fn is_invalid_due(&self) -> bool {
        let mut last = self.invalid_logged_at.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= INVALID_LOG_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }

    async fn send(&self, hook: Hook, body: &str) -> Result<Bytes, Failure> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // The id is random like the id of a channel.
        let id = ChannelId::new().map(|id| id.to_string()).unwrap_or_default();
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.hooks.uri)
            .header(header::CONTENT_TYPE, "application/json")
            .header("watchfire-request-id", id)
            .header("watchfire-signature", signature(&self.hooks.secret, seconds, body))
            .body(Full::from(body.to_owned()))
            .expect("the parts of the request are valid");
        add_headers(request.headers_mut(), "application/json");
        let response = self.client.request(request).await;
        let response = response.map_err(|error| Failure::Unreachable(with_causes(&error)))?;
        let status = response.status();
        let is_answer = match hook {
            Hook::Leave => status.is_success(),
            Hook::Connect | Hook::Join | Hook::Publish => status == http::StatusCode::OK,
        };
        if !is_answer {
            return Err(Failure::Status(status));
        }
        let bytes_max = self.hooks.settings.body_bytes_max as usize;
        match Limited::new(response.into_body(), bytes_max).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(Failure::BadAnswer(format!("it has more than {bytes_max} bytes")))
            }
            Err(error) => Err(Failure::Unreachable(with_causes(&*error))),
        }
    }
}
