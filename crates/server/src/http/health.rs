//! Whether the server is alive (`/healthz`), and whether it can take clients (`/readyz`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::settings::Settings;

/// The state that the answers depend on.
struct Health {
    cluster: Arc<Cluster>,
    /// The number of processes when all serve.
    processes: u16,
}

pub(super) fn routes(cluster: Arc<Cluster>, settings: &Settings) -> Router {
    let processes = settings.server.processes.max(1);
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(Health { cluster, processes }))
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
        vec![
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
        ]
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
