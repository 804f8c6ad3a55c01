//! The page of the mirror: static files without data, which `/status` gives.

use axum::response::{IntoResponse as _, Response};
use http::header;

/// The path, the content type and the content of each file.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("index.html")),
    ("/mirror.css", "text/css; charset=utf-8", include_str!("mirror.css")),
    ("/mirror.js", "text/javascript; charset=utf-8", include_str!("mirror.js")),
];

/// The page runs its own code only, sends requests to this mirror only, and is in no frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page. `None`: the path is another one.
pub(super) fn file(path: &str) -> Option<Response> {
    let (_, content_type, content) = FILES.iter().find(|(file, ..)| *file == path)?;
    let headers = [
        (header::CONTENT_TYPE, *content_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    Some((headers, *content).into_response())
}
