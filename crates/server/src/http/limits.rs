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
    let api = settings.api.is_on().then(|| section_limits(&settings.api));
    Map::from_iter([
        ("limits".to_owned(), section_limits(&settings.limits)),
        // `null` on a server without the API.
        ("api".to_owned(), api.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of these sections is listed, also the fixed ones.
    #[test]
    fn every_limit_is_listed_while_its_part_is_on() {
        let mut settings = Settings::default();
        let off = limits(&settings);
        assert!(off["api"].is_null(), "there is no API");
        settings.api.key = "0123456789abcdef".into();
        let listed = limits(&settings);
        for (section, fixed, count) in [("limits", "grids_max", 27), ("api", "requests_max", 4)] {
            let table = toml::Table::try_from(&settings).unwrap();
            let numbers = table[section].as_table().unwrap().iter();
            let names = numbers.filter(|(_, value)| value.is_integer()).map(|(name, _)| &name[..]);
            for name in names.chain([fixed]) {
                let limit = &listed[section][name];
                assert!(limit["value"].is_u64(), "{section}.{name} is not listed");
                assert!(limit["when_reached"].is_string(), "{section}.{name}");
            }
            assert_eq!(listed[section].as_object().unwrap().len(), count, "{section}");
        }
    }
}
