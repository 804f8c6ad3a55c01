//! `GET /limits`: every limit, its unit, and what happens when it is reached.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::settings::{Limit, Section, Settings};
use crate::sites::SiteHosts;

/// The response, which does not change, and the hosts of sites.
struct LimitsPage {
    limits: Value,
    hosts: Arc<SiteHosts>,
}

pub(super) fn routes(settings: &Settings, hosts: Arc<SiteHosts>) -> Router {
    let mut limits = limits(settings);
    if watchfire_traces::is_on() {
        // Tells browsers to trace this share of their page loads.
        limits["traces"] = json!({ "sample": settings.traces.sample });
    }
    let page = LimitsPage { limits, hosts };
    Router::new().route("/limits", get(show)).with_state(Arc::new(page))
}

async fn show(State(page): State<Arc<LimitsPage>>, headers: HeaderMap) -> Json<Value> {
    let mut response = page.limits.clone();
    // `null` when this client has no sites.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    response["sites"] = host.and_then(|host| page.hosts.site_authority(host)).into();
    Json(response)
}

fn limits(settings: &Settings) -> Value {
    let Settings { limits, p2p, api, pages, channels, .. } = settings;
    json!({
        "limits": shown(limits),
        // `null` on a server without a gateway, and without the API.
        "p2p": p2p.is_on().then(|| shown(p2p)),
        "api": api.is_on().then(|| shown(api)),
        "report": Some(&pages.report).filter(|report| !report.is_empty()),
        "rooms": channels.open_rooms,
    })
}

/// The limits of a section.
fn shown(section: &impl Section) -> Value {
    let limits = section.rows().into_iter().filter_map(|row| {
        let Limit { value, unit, when_reached } = row.limit?;
        let limit = json!({ "value": value, "unit": unit, "when_reached": when_reached });
        Some((row.key.to_owned(), limit))
    });
    Value::Object(limits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of these sections is listed, also the fixed ones.
    #[test]
    fn every_limit_is_listed_while_its_part_is_on() {
        let mut settings = Settings::default();
        let off = limits(&settings);
        assert!(off["p2p"].is_null() && off["api"].is_null(), "there is no gateway and no API");
        settings.api.key = "0123456789abcdef".into();
        settings.p2p.listen = vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()];
        let listed = limits(&settings);
        for (section, fixed, count) in
            [("limits", "grids_max", 27), ("p2p", "pages_max", 4), ("api", "requests_max", 4)]
        {
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
