//! `GET /limits`: every limit, its unit, and what happens when it is reached.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderMap, header};
use serde_json::{Map, Value, json};

use crate::feature::Part;
use crate::settings::{Settings, section_limits};

/// The rows of the server itself, which do not change, and the parts that add to them.
struct LimitsPage {
    limits: Map<String, Value>,
    parts: Vec<Arc<dyn Part>>,
}

pub(super) fn routes(settings: &Settings, parts: Vec<Arc<dyn Part>>) -> Router {
    let mut limits = limits(settings);
    if watchfire_traces::is_on() {
        // Tells browsers to trace this share of their page loads.
        limits.insert("traces".into(), json!({ "sample": settings.traces.sample }));
    }
    let page = LimitsPage { limits, parts };
    Router::new().route("/limits", get(show)).with_state(Arc::new(page))
}

async fn show(State(page): State<Arc<LimitsPage>>, headers: HeaderMap) -> Json<Value> {
    let mut response = page.limits.clone();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    page.parts.iter().for_each(|part| part.describe_limits(host, &mut response));
    Json(response.into())
}

fn limits(settings: &Settings) -> Map<String, Value> {
    Map::from_iter([("limits".to_owned(), section_limits(&settings.limits))])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of the section is listed, also the fixed ones.
    #[test]
    fn every_limit_is_listed() {
        let settings = Settings::default();
        let listed = &limits(&settings)["limits"];
        let table = toml::Table::try_from(&settings.limits).unwrap();
        let numbers = table.iter().filter(|(_, value)| value.is_integer());
        for name in numbers.map(|(name, _)| &name[..]).chain(["grids_max"]) {
            let limit = &listed[name];
            assert!(limit["value"].is_u64(), "limits.{name} is not listed");
            assert!(limit["when_reached"].is_string(), "limits.{name}");
        }
        assert_eq!(listed.as_object().unwrap().len(), 27);
    }
}
