//! The handle of a process for its backend.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Uri;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use watchfire_sockets::is_host_and_port;
use watchfire_types::Instant;

use super::breaker::Breaker;
use super::connect::ConnectVerdict;
use super::count::add_up_to;
use super::error::{HookError, SECRET_BYTES_MIN};
use super::metrics::HookMetrics;
use super::notices::{LeaveNotice, NoticeTask, Notices};
use super::question::{Question, Slot};
use super::request::HookRequest;
use super::verdict::Verdict;
use crate::metrics::MetricWriter;
use crate::settings::{Hook, HookSettings};

/// No backend thinks for longer. The bound keeps deadlines within the range of clocks.
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// A question in the queue of the thread. Its [`Slot`] bounds the queue.
pub(super) struct QueuedQuestion {
    pub question: Question,
    pub since: std::time::Instant,
}

/// The receiving ends of the queues.
pub(super) struct Queues {
    pub questions: UnboundedReceiver<QueuedQuestion>,
    pub notices: UnboundedReceiver<NoticeTask>,
}

/// The backend of this process.
pub(crate) struct Hooks {
    pub(super) settings: HookSettings,
    pub(super) uri: Uri,
    pub(super) secret: Vec<u8>,
    pub(super) metrics: Arc<HookMetrics>,
    pub(super) breaker: Mutex<Breaker>,
    questions: UnboundedSender<QueuedQuestion>,
    pub(super) notices: Arc<Notices>,
    /// Taken by the thread.
    pub(super) queues: Mutex<Option<Queues>>,
    /// Slots of questions in use.
    waiting: Arc<AtomicU32>,
    /// Slots of messages behind others in use. They have a bound of their own, so that a client that
    /// sends too fast takes no slot from the joins and first messages of others.
    behind: Arc<AtomicU32>,
    /// Slots of questions about clients that connect in use. A crowd that connects takes no slot from
    /// the clients that are connected.
    connecting: Arc<AtomicU32>,
    started_at: std::time::Instant,
}

impl Hooks {
    /// Reads the settings. `None`: there is no backend.
    pub fn open(settings: &HookSettings) -> Result<Option<Arc<Hooks>>, HookError> {
        if !settings.is_on() {
            return if settings.connect { Err(HookError::NoBackend) } else { Ok(None) };
        }
        for (name, is_zero) in [
            ("hooks.timeout", settings.timeout.is_zero()),
            ("hooks.requests_max", settings.requests_max == 0),
            ("hooks.body_bytes_max", settings.body_bytes_max == 0),
            ("hooks.failures_max", settings.failures_max == 0),
        ] {
            if is_zero {
                return Err(HookError::Zero { name });
            }
        }
        let (asking, questions) = unbounded_channel();
        let (tasks, notices) = unbounded_channel();
        let metrics = Arc::<HookMetrics>::default();
        Ok(Some(Arc::new(Hooks {
            uri: uri(&settings.url)?,
            secret: secret(settings)?,
            settings: HookSettings {
                timeout: settings.timeout.min(TIMEOUT_MAX),
                ..settings.clone()
            },
            notices: Arc::new(Notices {
                tasks,
                waiting: AtomicU32::new(0),
                waiting_max: settings.waiting_max,
                metrics: metrics.clone(),
            }),
            metrics,
            breaker: Mutex::new(Breaker::new(settings.failures_max, settings.retry_after)),
            questions: asking,
            queues: Mutex::new(Some(Queues { questions, notices })),
            waiting: Arc::default(),
            behind: Arc::default(),
            connecting: Arc::default(),
            started_at: std::time::Instant::now(),
        })))
    }

    /// Whether the backend decides about clients that connect.
    pub fn decides_connects(&self) -> bool {
        self.settings.connect
    }

    /// The largest payload of a client in a question, in bytes.
    pub fn payload_bytes_max(&self) -> usize {
        self.settings.body_bytes_max as usize
    }

    /// The decision about a join or a message for which there is no slot, or no answer.
    pub fn without_backend(&self) -> Verdict {
        Verdict::without_backend(self.settings.on_failure)
    }

    /// The decision about a client that connects for which there is no slot, or no answer.
    pub fn connect_without_backend(&self) -> ConnectVerdict {
        ConnectVerdict::without_backend(self.settings.on_failure)
    }

    /// A slot for a question. `None`: `hooks.waiting_max` joins and messages wait for an answer, or
    /// `hooks.waiting_max` clients that connect.
    pub fn reserve(&self, hook: Hook) -> Option<Slot> {
        let count = if hook == Hook::Connect { &self.connecting } else { &self.waiting };
        if !add_up_to(count, self.settings.waiting_max) {
            self.metrics.count(hook, "queue_full");
            return None;
        }
        Some(Slot(count.clone()))
    }

    /// A slot for a message that waits until its channel may ask about it. `None`:
    /// `hooks.waiting_max` such messages wait.
    pub fn reserve_behind(&self) -> Option<Slot> {
        let is_counted = add_up_to(&self.behind, self.settings.waiting_max);
        is_counted.then(|| Slot(self.behind.clone()))
    }

    /// Asks the backend.
    pub fn ask(&self, question: Question) {
        // It fails when the server stops; then no client waits for the answer.
        let since = std::time::Instant::now();
        self.questions.send(QueuedQuestion { question, since }).ok();
    }

    /// The notice of a join's end.
    pub fn leave_notice(&self, request: &HookRequest<'_>) -> LeaveNotice {
        LeaveNotice::new(self.notices.clone(), request)
    }

    /// The time on the clock of the breaker.
    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + self.started_at.elapsed()
    }

    /// Writes the counts of this process.
    pub fn write_metrics(&self, writer: &mut MetricWriter) {
        self.metrics.write(writer);
        let is_open = u64::from(self.breaker.lock().is_open());
        let help = "Processes that send no requests, because the backend failed";
        writer.gauge("hooks_breakers_open", help, is_open);
        let counts = [&self.waiting, &self.behind, &self.connecting];
        let waiting = counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).sum();
        let help = "Clients, joins and messages that wait for the backend";
        writer.gauge("hooks_waiting", help, waiting);
    }
}

fn uri(url: &str) -> Result<Uri, HookError> {
    let is_usable = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            // A user and a password would not be sent.
            && uri.authority().is_some_and(|name| is_host_and_port(name.as_str().as_bytes()))
    };
    let uri = url.parse().ok().filter(is_usable);
    uri.ok_or_else(|| HookError::Url { url: url.to_owned() })
}

fn secret(settings: &HookSettings) -> Result<Vec<u8>, HookError> {
    let HookSettings { secret, secret_file, .. } = settings;
    let secret = match (secret.is_empty(), secret_file.as_os_str().is_empty()) {
        (true, true) => return Err(HookError::NoSecret),
        (false, false) => return Err(HookError::TwoSecrets),
        (false, true) => secret.clone().into_bytes(),
        (true, false) => {
            let path = secret_file.clone();
            let read = fs::read(secret_file);
            let mut secret = read.map_err(|cause| HookError::Unreadable { path, cause })?;
            // Editors and `echo` add a line break.
            for end in [b'\n', b'\r'] {
                if secret.last() == Some(&end) {
                    secret.pop();
                }
            }
            secret
        }
    };
    let len = secret.len();
    if len < SECRET_BYTES_MIN { Err(HookError::ShortSecret { len }) } else { Ok(secret) }
}
