//! The HTTP API: programs in any language publish to topics, and ask about them.
//!
//! `POST /api/<method>` with a key; [`methods`] is the table of methods. A call is answered by the
//! process that receives it. That process asks the others about their own clients ([`processes`]).
//! A request with an `Idempotency-Key` goes to the one process that decides about that key
//! ([`repeats`]).

mod error;
mod kept_messages;
mod keys;
mod local_answers;
mod methods;
mod metrics;
mod names;
mod params;
mod processes;
mod publish;
mod question;
mod repeats;
mod requests;
mod respond;

use std::sync::Arc;
use std::time::Instant as SystemInstant;

use axum::Router;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use watchfire_types::Instant;

pub use self::keys::ApiKeyError;
pub(crate) use self::keys::Keys;
use self::local_answers::LocalAnswers;
use self::metrics::ApiMetrics;
use self::names::ReservedTopics;
use self::processes::Processes;
use self::publish::Publisher;
use self::repeats::{RepeatLimits, Repeats};
use self::requests::{Calls, routes};
use crate::channel_api::Endpoint;
use crate::cluster::{ClusterPart, PartLink};
use crate::feature::Part;
use crate::history::History;
use crate::metrics::{MetricWriter, Metrics};
use crate::presence::ReplicatedPresence;
use crate::settings::{ApiListen, Settings};

/// The answers of this process to the API of any process, as a feature of the server.
pub(crate) struct AnswersFeature {
    processes: Arc<Processes>,
}

/// The HTTP API, as a feature of the server.
pub(crate) struct ApiFeature {
    calls: Arc<Calls>,
    listen: ApiListen,
}

/// The parts of the server that the API asks.
pub(crate) struct AskedParts {
    pub endpoint: Endpoint,
    pub presence: Arc<ReplicatedPresence>,
    pub metrics: Arc<Metrics>,
    /// `None`: no topic has a history.
    pub history: Option<Arc<History>>,
}

impl AnswersFeature {
    /// `given` are the parts of the features, which may reserve topics.
    pub fn new(
        settings: &Settings,
        given: &[Arc<dyn Part>],
        parts: AskedParts,
        link: PartLink,
    ) -> Self {
        let AskedParts { endpoint, presence, metrics, history } = parts;
        let api = &settings.api;
        let body_bytes_max = api.body_bytes_max as usize;
        let reserved = ReservedTopics(given.iter().map(Arc::downgrade).collect());
        let publisher = Publisher { endpoint, metrics: metrics.clone(), reserved, body_bytes_max };
        let repeats = Repeats::new(RepeatLimits {
            period: api.idempotency_period,
            keys_max: api.idempotency_keys_max as usize,
            bytes_max: api.idempotency_bytes_max as usize,
        });
        let own = LocalAnswers {
            publisher,
            presence,
            metrics,
            history,
            repeats: Mutex::new(repeats),
            started_at: SystemInstant::now(),
        };
        AnswersFeature { processes: Arc::new(Processes { link, own }) }
    }
}

impl ApiFeature {
    pub fn new(settings: &Settings, keys: Keys, answers: &AnswersFeature) -> Self {
        let api = &settings.api;
        let calls = Calls {
            keys,
            processes: answers.processes.clone(),
            metrics: ApiMetrics::default(),
            running: Semaphore::new(api.requests_max as usize),
            body_bytes_max: api.body_bytes_max as usize,
        };
        ApiFeature { calls: Arc::new(calls), listen: api.listen }
    }

    fn routes_at(&self, listen: ApiListen) -> Option<Router> {
        (self.listen == listen).then(|| routes(self.calls.clone()))
    }
}

impl Part for AnswersFeature {
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self.processes.clone()]
    }

    fn handle_tick(&self, _: Instant) {
        let own = &self.processes.own;
        own.repeats.lock().expire(own.now());
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        let (keys, bytes) = self.processes.own.repeats.lock().size();
        writer.gauge("api_idempotency_keys", "Answers kept for repeats", keys as u64);
        writer.gauge("api_idempotency_bytes", "Bytes of answers kept for repeats", bytes as u64);
    }
}

impl Part for ApiFeature {
    fn routes(self: Arc<Self>) -> Router {
        self.routes_at(ApiListen::Public).unwrap_or_default()
    }

    fn keyed_operator_routes(self: Arc<Self>) -> Option<Router> {
        self.routes_at(ApiListen::Admin)
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        self.calls.metrics.write(writer);
    }
}

/// Samples of the questions and their answers.
#[cfg(test)]
pub(crate) fn message_samples() -> Vec<crate::cluster::Samples> {
    let mut samples = question::samples();
    samples.extend(publish::samples());
    samples.push(crate::cluster::samples!(json Result<repeats::Answer, error::CallError>:
        Ok(repeats::Answer { body: "b".into(), is_replayed: true }),
        Err(error::CallError::new(error::Code::TooMany, "m")),
    ));
    samples
}
