//! The operator's listener: a page, `/metrics`, and calls under `/admin`.
//!
//! It has addresses, a thread and an event loop of its own, so it answers while the shards are busy, and no route
//! of it is ever on the public port. With several processes, all share its sockets: each may answer, and shows the
//! state of all. [`listener`] has the sockets, and [`guard`] decides which requests are answered.
//!
//! The first process of a machine *records*: once a second it asks all processes of the machine for their metrics
//! ([`recorder`]), computes a row of figures and adds it to the history ([`record`]), and looks for trouble
//! ([`troubles`]). Any process answers a request: it asks the recorder of the machine for what was recorded, and
//! all processes for what they have now ([`view`], [`routes`]).

mod access;
mod denied_addresses;
#[cfg(feature = "pages")]
mod denied_pages;
mod guard;
mod listener;
mod machines;
mod metrics_page;
mod page;
mod profiles;
mod record;
mod recorder;
mod routes;
mod troubles;
mod view;

use std::sync::Arc;

use axum::Router;
use http::StatusCode;

pub(crate) use self::access::Access;
pub(crate) use self::denied_addresses::DeniedAddresses;
#[cfg(feature = "pages")]
pub(crate) use self::denied_pages::DenyCalls;
pub use self::listener::AdminError;
pub(crate) use self::listener::{AdminListeners, AdminServer, check_listen};
pub(crate) use self::metrics_page::MetricsPage;
pub(crate) use self::profiles::ProfileCalls;
#[cfg(feature = "profiles")]
pub use self::profiles::{CpuProfile, Profile, ProfileError};
pub(crate) use self::recorder::RecorderThread;
pub(crate) use self::troubles::TroubleMetrics;
pub(crate) use self::view::{OperatorParts, OperatorView};

/// The routes of the operator: the page, the metrics, and calls.
pub(crate) fn routes(metrics_page: Arc<MetricsPage>, calls: Router) -> Router {
    let routes = page::routes().merge(metrics_page.routes()).merge(calls);
    routes.fallback(async || (StatusCode::NOT_FOUND, NOT_FOUND))
}

const NOT_FOUND: &str =
    "Not found. The operator's listener has a page at /, /metrics, and calls under /admin.\n";

/// Samples of the messages between processes.
#[cfg(test)]
pub(crate) fn message_samples() -> Vec<crate::cluster::Samples> {
    let mut samples = denied_addresses::message_samples();
    samples.extend(metrics_page::message_samples());
    samples.extend(view::message_samples());
    samples.extend(profiles::message_samples());
    #[cfg(feature = "pages")]
    samples.extend(denied_pages::message_samples());
    samples
}
