//! The operator's listener: `/metrics`, and the calls under `/admin`.
//!
//! It has addresses, a thread and an event loop of its own, so it answers while the shards are
//! busy, and no route of it is ever on the public port. With several processes, all share its
//! sockets: each may answer, and shows the state of all.
//!
//! [`guard`] decides which requests are answered. A new page is a file here, and a line in
//! [`routes`].

mod connections;
#[cfg(feature = "pages")]
mod denied;
mod guard;
mod listener;
mod metrics;

use std::sync::Arc;

use axum::Router;
use http::StatusCode;

#[cfg(feature = "pages")]
pub(crate) use self::denied::DenyCalls;
pub(crate) use self::guard::Token;
pub use self::listener::AdminError;
pub(crate) use self::listener::{AdminListeners, AdminServer, check_listen};
pub(crate) use self::metrics::MetricsPage;

/// The routes of the operator: the metrics, and calls.
pub(crate) fn routes(metrics_page: Arc<MetricsPage>, calls: Router) -> Router {
    metrics_page.routes().merge(calls).fallback(async || (StatusCode::NOT_FOUND, NOT_FOUND))
}

const NOT_FOUND: &str = "Not found. The operator's listener has /metrics, and with admin.token also \
     /admin/denied.\n";
