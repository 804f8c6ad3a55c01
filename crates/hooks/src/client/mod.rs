//! The backend of a process, reached over HTTP: the bounds of its queues, and the thread that empties them.

mod breaker;
mod metrics;
mod signature;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant as SystemInstant};

use http::Uri;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use watchfire_https::server_url;
use watchfire_metrics::{MetricSource, MetricWriter};
use watchfire_settings::read_secret;
use watchfire_types::Instant;

use self::breaker::Breaker;
use self::metrics::HookMetrics;
use crate::Hooks;
use crate::error::{HookError, SECRET_BYTES_MIN};
use crate::question::{Question, Slot};
use crate::settings::{Hook, HookSettings};

/// No backend thinks for longer. The bound keeps deadlines within the range of clocks.
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// A question in the queue of the thread. Its [`Slot`] bounds the queue.
struct QueuedQuestion {
    question: Question,
    since: SystemInstant,
}

/// A task of the thread besides the questions.
enum NoticeTask {
    Notify {
        body: Box<str>,
        since: SystemInstant,
    },
    /// Signals when the earlier notices are sent.
    Finish(oneshot::Sender<()>),
}

/// The receiving ends of the queues.
struct Queues {
    questions: UnboundedReceiver<QueuedQuestion>,
    notices: UnboundedReceiver<NoticeTask>,
}

/// The backend of this process.
struct HttpHooks {
    settings: HookSettings,
    uri: Uri,
    secret: Vec<u8>,
    metrics: HookMetrics,
    breaker: Mutex<Breaker>,
    questions: UnboundedSender<QueuedQuestion>,
    notices: UnboundedSender<NoticeTask>,
    /// Taken by the thread.
    queues: Mutex<Option<Queues>>,
    /// Slots of questions in use.
    waiting: Arc<AtomicU32>,
    /// Slots of messages behind others in use. They have a bound of their own, so that a client that
    /// sends too fast takes no slot from the joins and first messages of others.
    behind: Arc<AtomicU32>,
    /// Slots of questions about clients that connect in use. A crowd that connects takes no slot from
    /// the clients that are connected.
    connecting: Arc<AtomicU32>,
    /// Notices that wait.
    leaving: AtomicU32,
    started_at: SystemInstant,
}

/// Reads the settings. `None`: there is no backend.
pub fn open(settings: &HookSettings) -> Result<Option<Arc<dyn Hooks>>, HookError> {
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
    let (telling, notices) = unbounded_channel();
    let url = || HookError::Url { url: settings.url.clone() };
    Ok(Some(Arc::new(HttpHooks {
        uri: server_url(&settings.url).ok_or_else(url)?,
        secret: secret(settings)?,
        settings: HookSettings { timeout: settings.timeout.min(TIMEOUT_MAX), ..settings.clone() },
        metrics: HookMetrics::default(),
        breaker: Mutex::new(Breaker::new(settings.failures_max, settings.retry_after)),
        questions: asking,
        notices: telling,
        queues: Mutex::new(Some(Queues { questions, notices })),
        waiting: Arc::default(),
        behind: Arc::default(),
        connecting: Arc::default(),
        leaving: AtomicU32::new(0),
        started_at: SystemInstant::now(),
    })))
}

impl HttpHooks {
    /// The time on the clock of the breaker.
    fn now(&self) -> Instant {
        Instant::ZERO + self.started_at.elapsed()
    }

    /// Counts one more, unless `hooks.waiting_max` wait already. Returns whether it is counted.
    fn has_room(&self, count: &AtomicU32) -> bool {
        let add = |count| (count < self.settings.waiting_max).then(|| count + 1);
        count.try_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }
}

impl Hooks for HttpHooks {
    fn settings(&self) -> &HookSettings {
        &self.settings
    }

    fn reserve(&self, hook: Hook) -> Option<Slot> {
        let count = if hook == Hook::Connect { &self.connecting } else { &self.waiting };
        if !self.has_room(count) {
            self.metrics.count(hook, "queue_full");
            return None;
        }
        Some(Slot(count.clone()))
    }

    fn reserve_behind(&self) -> Option<Slot> {
        self.has_room(&self.behind).then(|| Slot(self.behind.clone()))
    }

    fn ask(&self, question: Question) {
        let since = self.metrics.questions.add();
        // It fails when the server stops; then no client waits for the answer.
        self.questions.send(QueuedQuestion { question, since }).ok();
    }

    fn notify(&self, body: Box<str>) {
        if !self.has_room(&self.leaving) {
            return self.metrics.count(Hook::Leave, "queue_full");
        }
        let since = self.metrics.notices.add();
        // It fails when the server has stopped.
        self.notices.send(NoticeTask::Notify { body, since }).ok();
    }

    fn start(self: Arc<Self>) -> Result<oneshot::Sender<()>, HookError> {
        thread::start(self)
    }

    fn finish(&self, finished: oneshot::Sender<()>) {
        self.notices.send(NoticeTask::Finish(finished)).ok();
    }
}

impl MetricSource for HttpHooks {
    fn write_metrics(&self, writer: &mut MetricWriter) {
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

fn secret(settings: &HookSettings) -> Result<Vec<u8>, HookError> {
    let HookSettings { secret, secret_file, .. } = settings;
    let secret = match (secret.is_empty(), secret_file.as_os_str().is_empty()) {
        (true, true) => return Err(HookError::NoSecret),
        (false, false) => return Err(HookError::TwoSecrets),
        (false, true) => secret.clone().into_bytes(),
        (true, false) => read_secret(secret_file)
            .map_err(|cause| HookError::Unreadable { path: secret_file.clone(), cause })?,
    };
    let len = secret.len();
    if len < SECRET_BYTES_MIN { Err(HookError::ShortSecret { len }) } else { Ok(secret) }
}
