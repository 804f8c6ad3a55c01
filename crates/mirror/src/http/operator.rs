//! Requests of the operator: the state of the mirror, and the page that shows it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, header};
use watchfire_types::MetricsFormat;

use super::Shared;
use crate::oci::{ApiError, ErrorCode};
use crate::status::{FileStatus, ImageStatus, StatusReport, metrics};

/// Images that a report names. `image_count` has the number of all.
const IMAGES_MAX: usize = 1_000;
/// Files that a report names. `file_count` has the number of all.
const FILES_MAX: usize = 1_000;
/// The path, the content type and the content of each file.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/mirror.css", "text/css; charset=utf-8", include_str!("page/mirror.css")),
    ("/mirror.js", "text/javascript; charset=utf-8", include_str!("page/mirror.js")),
];

/// The page runs its own code only, sends requests to this mirror only, and is in no frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn status(shared: &Arc<Shared>) -> Response {
    let report = report(shared).await;
    let json = serde_json::to_vec(&report).expect("a report has a JSON form");
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Answers `GET /metrics`, which names no image.
pub(super) async fn metrics(shared: &Arc<Shared>, headers: &HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = MetricsFormat::preferred(accept);
    let text = format.write(metrics::render(report(shared).await));
    ([(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")], text)
        .into_response()
}

async fn report(shared: &Shared) -> StatusReport {
    let (image_count, images) = shared.catalog.first_images(IMAGES_MAX);
    let images = images.into_iter().map(|(name, digest)| ImageStatus { name, digest });
    let (file_count, files) = shared.files.first(FILES_MAX);
    let files = files.into_iter().map(|version| FileStatus {
        url: version.url.clone(),
        bytes: version.length,
        digest: version.key().to_string(),
    });
    let fleet = match &shared.fleet {
        Some(fleet) => Some(fleet.status().await),
        None => None,
    };
    StatusReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: shared.started_at.elapsed().as_secs_f64(),
        image_count: image_count as u64,
        images: images.collect(),
        file_count: file_count as u64,
        files: files.collect(),
        store: shared.downloads.blobs().status(),
        downloads: shared.downloads.status(),
        requests: shared.requests.totals(),
        running: shared.downloads.running(),
        fleet,
    }
}

/// A file of the page. `None`: the path is another one.
pub(super) fn page_file(path: &str) -> Option<Response> {
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

/// Allows the status and its page to programs of this host only: the status names images.
pub(super) fn check_local(client: IpAddr) -> Result<(), ApiError> {
    if client.to_canonical().is_loopback() {
        return Ok(());
    }
    let message = format!(
        "cannot show the status to {client}: it names images, so only programs on the host of the mirror get it; ask on that host, at 127.0.0.1, or read /metrics"
    );
    Err(ApiError::new(ErrorCode::Denied, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_see_the_status() {
        for client in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(check_local(client.parse().unwrap()).is_ok(), "{client}");
        }
        for client in ["192.0.2.1", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "0.0.0.0", "::"] {
            let error = check_local(client.parse().unwrap()).unwrap_err();
            assert_eq!(error.code, ErrorCode::Denied);
            assert_eq!(error.into_response().status(), http::StatusCode::FORBIDDEN);
        }
    }
}
