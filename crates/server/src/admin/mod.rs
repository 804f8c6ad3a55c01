//! The operator's listener: `/metrics`, and the calls under `/admin`.
//!
//! It has addresses, a thread and an event loop of its own, so it answers while the shards are
//! busy, and no route of it is ever on the public port. With several processes, all share its
//! sockets: each may answer, and shows the state of all.
//!
//! [`guard`] decides which requests are answered. [`page`] is the operator's page; it shows the calls of
//! the folder `operator`.

mod access;
mod connections;
#[cfg(feature = "pages")]
mod denied;
mod guard;
mod listener;
mod metrics;
mod page;
mod slowdown;

use std::sync::Arc;

use axum::Router;
use http::StatusCode;

pub(crate) use self::access::{Access, refuse};
#[cfg(feature = "pages")]
pub(crate) use self::denied::DenyCalls;
#[cfg(all(test, feature = "pages"))]
pub(crate) use self::denied::message_samples;
pub use self::listener::AdminError;
pub(crate) use self::listener::{AdminListeners, AdminServer, check_listen};
pub(crate) use self::metrics::MetricsPage;

/// The routes of the operator: the page, the metrics, and calls.
pub(crate) fn routes(metrics_page: Arc<MetricsPage>, calls: Router) -> Router {
    let routes = page::routes().merge(metrics_page.routes()).merge(calls);
    routes.fallback(async || (StatusCode::NOT_FOUND, NOT_FOUND))
}

const NOT_FOUND: &str =
    "Not found. The operator's listener has a page at /, /metrics, and calls under /admin.\n";
