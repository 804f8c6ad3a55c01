//! Whether the server is alive (`/healthz`), and whether it can take clients (`/readyz`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use serde_json::{Map, Value, json};
use watchfire_auth::Auth;
use watchfire_types::VitalThread;

use crate::cluster::Cluster;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The state that the answers depend on.
struct Health {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    /// `None`: no keys are fetched.
    fetching: Option<Arc<dyn Auth>>,
    /// The number of processes when all serve.
    processes: u16,
    /// Whether the settings name other machines.
    has_machines: bool,
}

pub(super) fn routes(
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    auth: Option<Arc<dyn Auth>>,
    settings: &Settings,
) -> Router {
    let fetching = auth.filter(|_| !settings.auth.jwks_url.is_empty());
    let processes = settings.server.processes.max(1);
    let has_machines = !settings.cluster.nats.is_empty();
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(Health { cluster, metrics, fetching, processes, has_machines }))
}

/// One condition of readiness.
struct Condition {
    name: &'static str,
    is_met: bool,
    /// Fields that explain it.
    details: Value,
}

impl Health {
    /// All conditions; the server is ready when each is met.
    fn conditions(&self) -> Vec<Condition> {
        let missing = self.cluster.missing();
        let up = usize::from(self.processes) - missing.len();
        let (event_loops, panicked) = self.metrics.sockets.event_loops();
        let mut conditions = vec![
            Condition {
                name: "accepting",
                is_met: !self.cluster.is_draining(),
                details: json!({}),
            },
            Condition {
                name: "processes",
                is_met: missing.is_empty(),
                details: json!({ "up": up, "of": self.processes, "missing": missing }),
            },
            Condition {
                name: "event_loops",
                is_met: panicked.is_empty(),
                details: json!({ "of": event_loops, "panicked": panicked }),
            },
        ];
        let panicked = VitalThread::panicked();
        conditions.push(Condition {
            name: "threads",
            is_met: panicked.is_empty(),
            details: json!({ "panicked": panicked }),
        });
        if self.has_machines {
            conditions.push(Condition {
                name: "machines",
                is_met: self.cluster.is_linked(),
                details: json!({}),
            });
        }
        conditions.extend(self.fetching.iter().map(|auth| Condition {
            name: "token_keys",
            is_met: auth.has_keys(),
            details: json!({}),
        }));
        conditions
    }
}

async fn readyz(State(health): State<Arc<Health>>) -> Response {
    let mut conditions = Map::new();
    let mut is_ready = true;
    for Condition { name, is_met, mut details } in health.conditions() {
        is_ready &= is_met;
        details["ok"] = is_met.into();
        conditions.insert(name.to_owned(), details);
    }
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = Json(json!({ "ready": is_ready, "conditions": conditions }));
    (status, [(header::CACHE_CONTROL, "no-store")], body).into_response()
}
