//! The operator's page: static files without data. The page gets its data from the calls under `/admin`.

use axum::Router;
use axum::routing::get;
use http::header;

/// A file of this folder: its path, its content type, and its content.
macro_rules! file {
    ($path:literal, $content_type:literal, $name:literal) => {
        ($path, concat!($content_type, "; charset=utf-8"), include_str!($name))
    };
}

/// A module of the page.
macro_rules! script {
    ($name:literal) => {
        (concat!("/", $name), "text/javascript; charset=utf-8", include_str!($name))
    };
}

const FILES: &[(&str, &str, &str)] = &[
    file!("/", "text/html", "index.html"),
    file!("/operator.css", "text/css", "operator.css"),
    script!("operator.js"),
    script!("operator-api.js"),
    script!("operator-chart-list.js"),
    script!("operator-chart.js"),
    script!("operator-connection.js"),
    script!("operator-denied.js"),
    script!("operator-dom.js"),
    script!("operator-history.js"),
    script!("operator-poller.js"),
    script!("operator-tables.js"),
    script!("operator-text.js"),
    script!("operator-tools.js"),
    script!("operator-views.js"),
];

/// The page runs its own code only, sends requests to this listener only, and is in no frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Router {
    FILES.iter().fold(Router::new(), |router, &(path, content_type, content)| {
        let headers = [
            (header::CONTENT_TYPE, content_type),
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
        ];
        router.route(path, get(move || async move { (headers, content) }))
    })
}

/// Whether a path is one of these files. They need no token, so that the page can ask for it.
pub(super) fn is_static(path: &str) -> bool {
    FILES.iter().any(|(file, ..)| *file == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_of_the_page_begins_at_the_root_of_its_host() {
        for (path, _, content) in FILES {
            for absolute in ["href=\"/", "src=\"/", "fetch('/", "fetch(url", "from '/", "url(/"] {
                assert!(!content.contains(absolute), "{path} has {absolute}");
            }
        }
    }
}
