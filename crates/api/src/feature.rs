//! The HTTP API as a feature of a server: [`Api`].

use std::sync::Arc;
use std::time::Instant as SystemInstant;

use axum::Router;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use watchfire::Settings;
use watchfire::feature::{
    ClusterPart, CountersBy, Feature, FeatureError, Foundation, MetricWriter, Part, PartLink,
    PartName, SectionType, section_limits,
};
use watchfire_types::Instant;

use super::keys::{ApiKeyError, Keys};
use super::local_answers::LocalAnswers;
use super::names::ReservedTopics;
use super::once::OnceRequests;
use super::processes::Processes;
use super::publish::Publisher;
use super::repeats::RepeatLimits;
use super::requests::{Calls, routes};
use super::settings::{ApiListen, ApiSettings};

/// The name of the feature, of its section of the settings, and of its part.
const NAME: &str = "api";

/// A hash of samples of all messages between the parts of this crate in several processes. A part with another
/// format is another part, which an older process does not have.
const FORMAT: u64 = 0x176a_a0f0_722f_6083;

/// The HTTP API, with which other programs publish and ask. Without a key in the settings it is off.
#[derive(Debug, Default)]
pub struct Api;

impl Api {
    /// The feature, which reads the settings of the section `api`.
    pub fn new() -> Self {
        Api
    }
}

impl Feature for Api {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sections(&self) -> Vec<SectionType> {
        vec![SectionType::of::<ApiSettings>()]
    }

    fn check_beside(
        &self,
        settings: &Settings,
        all: &[Box<dyn Feature>],
    ) -> Result<(), FeatureError> {
        let api: ApiSettings = settings.section();
        let has_listener = || all.iter().any(|feature| feature.serves_operator(settings));
        match api.is_on() && api.listen == ApiListen::Admin && !has_listener() {
            true => Err(ApiKeyError::NoListener.into()),
            false => Ok(()),
        }
    }

    fn check(&self, settings: &Settings) -> Result<Vec<String>, FeatureError> {
        Keys::new(&settings.section())?;
        Ok(Vec::new())
    }

    fn build(&self, foundation: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, FeatureError> {
        let keys = Keys::new(&foundation.settings.section())?;
        Ok(vec![Arc::new(ApiPart::new(foundation, keys))])
    }
}

/// The HTTP API of one process.
struct ApiPart {
    processes: Arc<Processes>,
    /// `None`: there is no key. The process only answers the questions of others.
    calls: Option<Arc<Calls>>,
    listen: ApiListen,
    /// The rows of `GET /limits`; null without a key.
    limits: Value,
}

impl ApiPart {
    fn new(foundation: &Foundation<'_>, keys: Option<Keys>) -> Self {
        let api: ApiSettings = foundation.settings.section();
        let body_bytes_max = api.body_bytes_max as usize;
        let history = foundation.history.cloned();
        let link = PartLink::new(foundation.cluster, PartName::new(NAME, FORMAT));
        let publisher = Arc::new(Publisher {
            endpoint: foundation.endpoint.clone(),
            metrics: foundation.metrics.clone(),
            history: history.clone(),
            reserved: ReservedTopics::default(),
            body_bytes_max,
        });
        let repeats = RepeatLimits {
            period: api.idempotency_period,
            keys_max: api.idempotency_keys_max as usize,
            bytes_max: api.idempotency_bytes_max as usize,
        };
        let own = LocalAnswers {
            once: OnceRequests::new(link.clone(), publisher.clone(), repeats),
            publisher,
            presence: foundation.presence.clone(),
            metrics: foundation.metrics.clone(),
            history,
            started_at: SystemInstant::now(),
        };
        let processes = Arc::new(Processes { link, own });
        let limits = keys.is_some().then(|| section_limits(&api)).into();
        let calls = keys.map(|keys| Calls {
            keys,
            processes: processes.clone(),
            answered: CountersBy::new(["method", "result"]),
            running: Semaphore::new(api.requests_max as usize),
            waiting: Semaphore::new(api.requests_max as usize / 2),
            body_bytes_max,
        });
        ApiPart { processes, calls: calls.map(Arc::new), listen: api.listen, limits }
    }

    fn routes_at(&self, listen: ApiListen) -> Option<Router> {
        let calls = self.calls.as_ref().filter(|_| self.listen == listen)?;
        Some(routes(calls.clone()))
    }
}

impl Part for ApiPart {
    fn routes(self: Arc<Self>) -> Router {
        self.routes_at(ApiListen::Public).unwrap_or_default()
    }

    fn keyed_operator_routes(self: Arc<Self>) -> Option<Router> {
        self.routes_at(ApiListen::Admin)
    }

    fn describe_limits(&self, _: Option<&str>, response: &mut Map<String, Value>) {
        response.insert(NAME.to_owned(), self.limits.clone());
    }

    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self.processes.clone()]
    }

    fn see_all(&self, parts: &[Arc<dyn Part>]) {
        self.processes.own.publisher.reserved.set_parts(parts);
    }

    fn handle_tick(&self, _: Instant) {
        self.processes.own.once.expire();
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        if let Some(calls) = &self.calls {
            writer.counters("api_requests", "Requests of the API", &calls.answered);
        } else if self.processes.link.cluster().is_alone() {
            return;
        }
        let (keys, bytes) = self.processes.own.once.size();
        writer.gauge("api_idempotency_keys", "Answers kept for repeats", keys as u64);
        writer.gauge("api_idempotency_bytes", "Bytes of answers kept for repeats", bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use watchfire::internal::format_of;
    use watchfire::message_samples as samples;

    use super::super::error::{CallError, Code};
    use super::super::repeats::Answer;
    use super::super::{once, publish, question};
    use super::*;

    /// Counted up when a message has another meaning, and its bytes are the same.
    const MEANING: u64 = 1;

    #[test]
    fn the_format_changes_with_every_message_between_processes() {
        let mut all = question::samples();
        all.extend(publish::samples());
        all.extend(once::samples());
        all.push(samples!(json Result<Answer, CallError>:
            Ok(Answer { body: "b".into(), is_replayed: true }),
            Err(CallError::new(Code::TooMany, "m")),
        ));
        let format = format!("{:#018x}", format_of(MEANING, &all));
        assert_eq!(format, format!("{FORMAT:#018x}"), "set FORMAT to the first value");
    }

    /// Every number of the section is listed, also the fixed ones.
    #[test]
    fn every_limit_of_the_api_is_listed() {
        let settings = ApiSettings::default();
        let listed = section_limits(&settings);
        let table = toml::Table::try_from(&settings).expect("settings are a table");
        let numbers = table.iter().filter(|(_, value)| value.is_integer());
        for name in numbers.map(|(name, _)| &name[..]).chain(["requests_max"]) {
            let limit = &listed[name];
            assert!(limit["value"].is_u64() && limit["when_reached"].is_string(), "{name}");
        }
        assert_eq!(listed.as_object().expect("an object").len(), 4);
    }
}
