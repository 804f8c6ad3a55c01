//! The operator's listener of a [Watchfire](watchfire) server: a page, `/metrics`, and calls under `/admin`.
//!
//! ```
//! use watchfire::{Server, Settings};
//! use watchfire_operator::{AdminSettings, Operator};
//!
//! let mut settings = Settings::default();
//! settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
//! settings.section_mut::<AdminSettings>().listen = vec!["127.0.0.1:0".parse().unwrap()];
//! let server = Server::new(settings).with(Operator::new()).start().unwrap();
//! ```
//!
//! The listener has addresses, a thread and an event loop of its own, so it answers while the shards are busy, and
//! no route of it is ever on the public port. With several processes, all share its sockets: each may answer, and
//! shows the state of all. `listener` has the sockets, and `guard` decides which requests are answered.
//!
//! The first process of a machine *records*: once a second it asks all processes of the machine for their metrics
//! (`recorder`), computes a row of figures and adds it to the history (`record`), and looks for trouble
//! (`troubles`). Any process answers a request: it asks the recorder of the machine for what was recorded, and
//! all processes for what they have now (`view`, `routes`).
//!
//! The feature `profiles` adds CPU profiles of a process (`profiles`).

mod access;
mod client_call;
mod denied_addresses;
mod feature;
mod guard;
mod listener;
mod machines;
mod metrics_page;
mod page;
mod profiles;
mod record;
mod recorded;
mod recorder;
mod routes;
mod settings;
mod troubles;
mod view;

use std::sync::Arc;

use axum::Router;
use http::StatusCode;

pub use self::feature::Operator;
pub use self::listener::AdminError;
use self::metrics_page::MetricsPage;
#[cfg(feature = "profiles")]
pub use self::profiles::{CpuProfile, Profile, ProfileError};
pub use self::settings::AdminSettings;

fn routes(metrics_page: Arc<MetricsPage>, calls: Router) -> Router {
    let routes = page::routes().merge(metrics_page.routes()).merge(calls);
    routes.fallback(async || (StatusCode::NOT_FOUND, NOT_FOUND))
}

const NOT_FOUND: &str =
    "Not found. The operator's listener has a page at /, /metrics, and calls under /admin.\n";

/// A hash of samples of all messages between the parts of this crate in several processes. A part with another
/// format is another part, which an older process does not have.
const FORMAT: u64 = 0xee56_28f9_5229_a25e;

#[cfg(test)]
mod tests {
    use watchfire::internal::format_of;

    use super::*;

    /// Counted up when a message has another meaning, and its bytes are the same.
    const MEANING: u64 = 1;

    #[test]
    fn the_format_changes_with_every_message_between_processes() {
        let mut samples = denied_addresses::message_samples();
        samples.extend(metrics_page::message_samples());
        samples.extend(view::message_samples());
        samples.extend(profiles::message_samples());
        let format = format!("{:#018x}", format_of(MEANING, &samples));
        assert_eq!(format, format!("{FORMAT:#018x}"), "set FORMAT to the first value");
    }
}
