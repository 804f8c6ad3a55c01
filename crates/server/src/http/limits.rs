//! `GET /limits`: every limit, its unit, and what happens when it is reached.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::feature::Part;
use crate::settings::{Settings, section_limits};

/// Hosts whose answer is kept. A server has few; with more, the oldest is dropped.
const HOSTS_MAX: usize = 8;
/// An answer is written again after this time, because a few rows change while the server runs.
const KEPT: Duration = Duration::from_secs(1);
/// An answer for a longer host is not kept.
const HOST_BYTES_MAX: usize = 255;
/// A site of another origin needs the limits too. They are the same for everybody.
const HEADERS: [(HeaderName, &str); 2] =
    [(header::CONTENT_TYPE, "application/json"), (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")];

/// The rows of the server itself and the parts that add to them. The answer for a host is written at most
/// once in [`KEPT`]: every browser requests it.
struct LimitsAnswer {
    limits: Map<String, Value>,
    parts: Vec<Arc<dyn Part>>,
    written: Mutex<Vec<Written>>,
}

struct Written {
    host: Option<String>,
    at: Instant,
    answer: Bytes,
}

impl LimitsAnswer {
    fn of(&self, host: Option<&str>) -> Bytes {
        self.written.lock().retain(|written| written.at.elapsed() < KEPT);
        let known = |written: &&Written| written.host.as_deref() == host;
        if let Some(written) = self.written.lock().iter().find(known) {
            return written.answer.clone();
        }
        let mut response = self.limits.clone();
        self.parts.iter().for_each(|part| part.describe_limits(host, &mut response));
        let answer = Bytes::from(Value::from(response).to_string());
        if host.is_none_or(|host| host.len() <= HOST_BYTES_MAX) {
            let mut written = self.written.lock();
            if written.len() == HOSTS_MAX {
                written.remove(0);
            }
            let (host, at) = (host.map(str::to_owned), Instant::now());
            written.push(Written { host, at, answer: answer.clone() });
        }
        answer
    }
}

pub(super) fn routes(settings: &Settings, parts: Vec<Arc<dyn Part>>) -> Router {
    let mut limits = limits(settings);
    if watchfire_traces::is_on() {
        // Tells browsers to trace this share of their loads.
        limits.insert("traces".into(), json!({ "sample": settings.traces.sample }));
    }
    let answer = LimitsAnswer { limits, parts, written: Mutex::default() };
    Router::new().route("/limits", get(show)).with_state(Arc::new(answer))
}

async fn show(
    State(answer): State<Arc<LimitsAnswer>>,
    headers: HeaderMap,
) -> ([(HeaderName, &'static str); 2], Bytes) {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    (HEADERS, answer.of(host))
}

fn limits(settings: &Settings) -> Map<String, Value> {
    Map::from_iter([("limits".to_owned(), section_limits(&settings.limits))])
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named;

    impl Part for Named {
        fn describe_limits(&self, host: Option<&str>, response: &mut Map<String, Value>) {
            response.insert("host".to_owned(), host.into());
        }
    }

    #[test]
    fn each_host_has_its_answer_and_few_are_kept() {
        let parts: Vec<Arc<dyn Part>> = vec![Arc::new(Named)];
        let answer = LimitsAnswer { limits: Map::new(), parts, written: Mutex::default() };
        let long = "h".repeat(HOST_BYTES_MAX + 1);
        let hosts = (0..20).map(|number| format!("host-{number}")).chain([long]);
        for host in hosts.collect::<Vec<_>>().iter().chain(["host-19".to_owned()].iter()) {
            let expected = json!({ "host": host }).to_string();
            assert_eq!(answer.of(Some(host)), expected);
            assert_eq!(answer.of(Some(host)), expected, "the second time");
        }
        assert_eq!(answer.of(None), r#"{"host":null}"#);
        assert_eq!(answer.written.lock().len(), HOSTS_MAX);
    }

    /// Every number of the section is listed, also the fixed ones.
    #[test]
    fn every_limit_is_listed() {
        let settings = Settings::default();
        let listed = &limits(&settings)["limits"];
        let table = toml::Table::try_from(&settings.limits).unwrap();
        let numbers = table.iter().filter(|(_, value)| value.is_integer());
        for name in numbers.map(|(name, _)| &name[..]).chain(["longpoll_frames_max"]) {
            let limit = &listed[name];
            assert!(limit["value"].is_u64(), "limits.{name} is not listed");
            assert!(limit["when_reached"].is_string(), "limits.{name}");
        }
        assert_eq!(listed.as_object().unwrap().len(), 12);
    }
}
