//! Sends the spans of this process to a collector, over OTLP.
//!
//! A span that ends is put in a bounded queue. One thread of its own sends them in batches. When the
//! collector does not answer, spans are dropped and counted, and one line of the log says so.

mod span_data;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;
use watchfire_types::VitalThread;

use http::Uri;
use opentelemetry::KeyValue;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use watchfire_https::https_connector;

use self::span_data::span_data;
use crate::span::FinishedSpan;

/// Spans that wait to be sent. Further ones are dropped.
const QUEUE_SPANS: usize = 4_096;
/// Spans of one request.
const BATCH_SPANS: usize = 512;
/// How long the first span of a batch waits for others.
const BATCH_PERIOD: Duration = Duration::from_secs(1);
/// The longest time of one batch, with its repeats.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for the last spans, at the end of the program.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Where a collector receives spans, below its endpoint.
const PATH: &str = "v1/traces";
const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const SERVICE_NAME_VARIABLE: &str = "OTEL_SERVICE_NAME";
const SERVICE_NAME: &str = "watchfire";

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The address of the collector is not a URL.
    #[error(
        "cannot send traces to {endpoint:?}: set traces.endpoint or OTEL_EXPORTER_OTLP_ENDPOINT to a URL such as http://127.0.0.1:4318, where a collector receives OTLP over HTTP"
    )]
    Endpoint {
        /// The value of the setting or the variable.
        endpoint: String,
    },
    /// The exporter cannot start.
    #[error("cannot send traces: {0}")]
    Start(String),
    /// The process already sends traces.
    #[error("cannot start traces: this process already sends traces")]
    AlreadyStarted,
}

/// Which spans are sent, and where. The variables of OpenTelemetry replace what is empty.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    pub endpoint: &'a str,
    pub service_name: &'a str,
    /// The share of new traces that are recorded, from 0 to 1.
    pub sample: f64,
}

/// The thread that sends spans. When it is dropped, the last spans are sent, for three seconds at most.
#[derive(Debug)]
pub struct Sending {
    stop: Option<oneshot::Sender<()>>,
    /// Its other end is dropped when the thread ends.
    end: std::sync::mpsc::Receiver<()>,
}

impl Sending {
    /// `None`: neither `export` nor the variables name a collector.
    pub fn start(export: Export<'_>) -> Result<Option<Self>, OtlpError> {
        let Some(endpoint) = or_variable(export.endpoint, ENDPOINT_VARIABLE) else {
            return Ok(None);
        };
        check_endpoint(&endpoint)?;
        let service_name = or_variable(export.service_name, SERVICE_NAME_VARIABLE);
        let service_name = service_name.unwrap_or_else(|| SERVICE_NAME.to_owned());
        let start_error = |error: &dyn std::fmt::Display| OtlpError::Start(error.to_string());

        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| start_error(&error))?;
        let exporter = exporter(&endpoint, service_name)?;
        let (sender, spans) = mpsc::channel(QUEUE_SPANS);
        let (stop, stopped) = oneshot::channel();
        let dropped = Arc::new(AtomicU64::new(0));
        let sending = SpanSender {
            exporter,
            endpoint,
            spans,
            dropped: dropped.clone(),
            is_away: false,
            has_reported_full_queue: false,
        };
        let started = crate::start(export.sample, move |span| {
            if sender.try_send(span).is_err() {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        });
        started.map_err(|_| OtlpError::AlreadyStarted)?;
        let (running, end) = std::sync::mpsc::channel();
        thread::Builder::new()
            .name("traces".into())
            .spawn(move || {
                let _running = running;
                let _vital = VitalThread::enter("traces");
                runtime.block_on(sending.run(stopped));
                // A host name that is still being resolved must not delay the end.
                runtime.shutdown_background();
            })
            .map_err(|error| start_error(&error))?;
        Ok(Some(Sending { stop: Some(stop), end }))
    }
}

/// Whether a collector can have this address.
pub fn check_endpoint(endpoint: &str) -> Result<(), OtlpError> {
    let url = endpoint.parse::<Uri>().ok().filter(|url| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.authority().is_some_and(|authority| !authority.host().is_empty())
    });
    url.map(drop).ok_or_else(|| OtlpError::Endpoint { endpoint: endpoint.to_owned() })
}

impl Drop for Sending {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.end.recv_timeout(FLUSH_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the collector of traces did not receive the last spans in time");
        }
    }
}

/// The value of a setting; of a variable, if the setting is empty.
fn or_variable(setting: &str, variable: &str) -> Option<String> {
    let value = match setting {
        "" => std::env::var(variable).ok()?,
        setting => setting.to_owned(),
    };
    (!value.is_empty()).then_some(value)
}

fn exporter(endpoint: &str, service_name: String) -> Result<SpanExporter, OtlpError> {
    let connector = https_connector().map_err(OtlpError::Start)?;
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(HyperClient::new(connector, SEND_TIMEOUT, None))
        .with_protocol(Protocol::HttpBinary)
        // The exporter names itself.
        .with_headers([("accept".to_owned(), "application/x-protobuf".to_owned())].into())
        .with_endpoint(format!("{}/{PATH}", endpoint.trim_end_matches('/')))
        .with_timeout(SEND_TIMEOUT)
        .build()
        .map_err(|error| OtlpError::Start(error.to_string()))?;
    let host = rustix::system::uname();
    let resource = Resource::builder()
        .with_service_name(service_name)
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("host.name", host.nodename().to_string_lossy().into_owned()),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ])
        .build();
    exporter.set_resource(&resource);
    Ok(exporter)
}

/// Takes spans from the queue and sends them.
struct SpanSender {
    exporter: SpanExporter,
    endpoint: String,
    spans: mpsc::Receiver<FinishedSpan>,
    /// Spans that were not sent since the last line of the log.
    dropped: Arc<AtomicU64>,
    is_away: bool,
    has_reported_full_queue: bool,
}

impl SpanSender {
    /// Sends spans until `stopped`, and then those that wait.
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                () = fill(&mut batch, &mut self.spans) => {}
                _ = &mut stopped => break,
            }
            self.send(&mut batch).await;
        }
        self.spans.close();
        loop {
            self.spans.recv_many(&mut batch, BATCH_SPANS).await;
            if batch.is_empty() {
                return;
            }
            self.send(&mut batch).await;
        }
    }

    async fn send(&mut self, batch: &mut Vec<FinishedSpan>) {
        let spans = batch.len() as u64;
        let sent = self.exporter.export(batch.drain(..).map(span_data).collect()).await;
        let endpoint = &self.endpoint;
        match sent {
            Err(error) => {
                self.dropped.fetch_add(spans, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_away, true) {
                    tracing::warn!(endpoint, %error, "cannot send spans to the collector: they are dropped until it answers");
                }
            }
            Ok(()) if std::mem::take(&mut self.is_away) => {
                let dropped = self.dropped.swap(0, Ordering::Relaxed);
                tracing::info!(endpoint, dropped, "the collector receives spans again");
            }
            Ok(()) => {
                let dropped = self.dropped.load(Ordering::Relaxed);
                if dropped > 0 && !std::mem::replace(&mut self.has_reported_full_queue, true) {
                    tracing::warn!(
                        endpoint,
                        dropped,
                        "spans were dropped because their queue was full: set traces.sample to a lower value"
                    );
                }
            }
        }
    }
}

/// Waits for a span, and then shortly for more.
async fn fill(batch: &mut Vec<FinishedSpan>, spans: &mut mpsc::Receiver<FinishedSpan>) {
    spans.recv_many(batch, BATCH_SPANS).await;
    let end = Instant::now() + BATCH_PERIOD;
    while batch.len() < BATCH_SPANS {
        let room = BATCH_SPANS - batch.len();
        if timeout_at(end, spans.recv_many(batch, room)).await.is_err() {
            return;
        }
    }
}
