//! The HTTP routes of the server itself: long poll, limits, metrics, and the app's shell. The
//! routes of features are merged in by `server.rs`.

mod app_shell;
mod limits;
mod longpoll;
mod metrics;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::settings::Settings;
use crate::shard::Shared;
use crate::sites::{SiteShell, restrict_site_hosts};

pub(crate) use metrics::MetricsPage;

/// All routes: the server's own, those of features, and those of an application.
pub(crate) fn router(
    shared: &Arc<Shared>,
    settings: &Settings,
    metrics: Arc<MetricsPage>,
    with_pages: bool,
    added: Router,
) -> Router {
    let mut router = longpoll::routes(shared.clone())
        .merge(limits::routes(settings, shared.sites.clone()))
        .merge(metrics.routes())
        .route("/healthz", get(healthz));
    if with_pages {
        router = router.merge(app_shell::routes(shared.sites.clone()));
    }
    let router = router.merge(added);
    if !with_pages {
        return router;
    }
    // Applies to all routes, those of an application included.
    let shell = SiteShell { hosts: shared.sites.clone(), metrics: shared.metrics.clone() };
    router.layer(from_fn_with_state(shell, restrict_site_hosts))
}

async fn healthz() -> &'static str {
    "ok\n"
}
