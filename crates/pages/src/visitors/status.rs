//! `/status`: a public page with what the server does now. Nothing on it identifies anyone.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header;

use super::VisitorFeature;

/// The page has no script, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes(feature: Arc<VisitorFeature>) -> Router {
    Router::new().route("/status", get(show)).with_state(feature)
}

async fn show(State(feature): State<Arc<VisitorFeature>>) -> Response {
    let (visitors, pages) = (feature.visitors(), feature.pages.len().1);
    // A process knows the pages that its own clients have open.
    let is_least = if feature.cluster.is_alone() { "" } else { "at least " };
    let uptime = uptime(feature.started_at.elapsed());
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"refresh\" content=\"10\">\n<title>Status</title>\n\
         <style>body{{font:1.1rem/1.6 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem}}\
         dl{{display:grid;grid-template-columns:auto auto;gap:.25rem 1rem}}dd{{margin:0;text-align:right;\
         font-variant-numeric:tabular-nums}}</style>\n\
         <h1>Watchfire is up</h1>\n<dl>\n<dt>People here</dt><dd>{visitors}</dd>\n\
         <dt>Pages available</dt><dd>{is_least}{pages}</dd>\n<dt>Running for</dt><dd>{uptime}</dd>\n</dl>\n</html>\n"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, page).into_response()
}

/// A time in its two largest units.
fn uptime(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match (minutes / 1_440, minutes / 60 % 24, minutes % 60) {
        (0, 0, 0) => format!("{} s", time.as_secs()),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_two_largest_units() {
        let texts =
            [7, 61, 3_600 * 5 + 120, 86_400 * 3 + 7_300].map(Duration::from_secs).map(uptime);
        assert_eq!(texts, ["7 s", "1 min", "5 h 2 min", "3 d 2 h"]);
    }
}
