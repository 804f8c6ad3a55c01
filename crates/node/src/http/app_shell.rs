//! The browser's side, embedded in the binary.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use rust_embed::{EmbeddedFile, RustEmbed};

use super::Site;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct WebClient;

/// Nothing but our own code runs in the app, and nothing it shows can send anything out.
const APP_POLICY: &str = "default-src 'self'; img-src 'self' blob: data:; \
     media-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; \
     connect-src 'self' ws: wss:; frame-src 'self'; object-src 'none'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// A stranger's scripts run here, in an origin of their own that reaches nothing.
const FRAME_POLICY: &str = "sandbox allow-scripts; default-src 'none'; \
     script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; \
     media-src data: blob:; font-src data:; form-action 'none'; base-uri 'none'; \
     frame-ancestors 'self'";

/// The app's own service worker: it gives players and downloads what their tab has.
const APP_WORKER: &str = "worker.js";

const NOT_BUILT: &str = "The web client is not part of this binary.\n\
     Build it first: make web, then build the binary again.\n";

/// The app itself, for every address that it shows.
pub(super) async fn index(State(site): State<Site>, headers: HeaderMap) -> Response {
    shell(&site, &headers)
}

fn shell(site: &Site, headers: &HeaderMap) -> Response {
    let Some((file, encoding)) = find("index.html", headers) else {
        return (StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT).into_response();
    };
    let response = respond(file, encoding, "text/html; charset=utf-8", "no-cache");
    let mut response = with_policy(response, APP_POLICY);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let Some(below) = host.and_then(|host| site.world.sites.below(host)) else {
        return response;
    };
    // Sites are shown in frames; each frame is held to one of them by the document around it.
    let policy = APP_POLICY.replace("frame-src 'self'", &format!("frame-src 'self' *.{below}"));
    if let Ok(policy) = HeaderValue::try_from(policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// The document that a page's own scripts run in.
pub(super) async fn frame(headers: HeaderMap) -> Response {
    let Some((file, encoding)) = find("frame.html", &headers) else {
        return (StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT).into_response();
    };
    let response = respond(file, encoding, "text/html; charset=utf-8", "no-cache");
    let mut response = with_policy(response, FRAME_POLICY);
    // No connection of any kind, where the browser knows this header.
    let name = header::HeaderName::from_static("connection-allowlist");
    response.headers_mut().insert(name, HeaderValue::from_static("()"));
    response
}

/// Scripts, styles and pictures of the app; the app itself for anything else, which says so.
pub(super) async fn asset(State(site): State<Site>, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let is_page = path.is_empty() || path.ends_with(".html");
    // No script but this one becomes a service worker of the app's origin.
    let may_run = path == APP_WORKER || headers.get("service-worker").is_none();
    match find(path, &headers) {
        Some((file, encoding)) if !is_page && may_run => {
            let kind = mime_guess::from_path(path).first_or_octet_stream();
            let hashed = path.starts_with("assets/");
            let cache = if hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
            with_policy(respond(file, encoding, kind.as_ref(), cache), APP_POLICY)
        }
        _ => {
            let mut response = shell(&site, &headers);
            if response.status() == StatusCode::OK {
                *response.status_mut() = StatusCode::NOT_FOUND;
            }
            response
        }
    }
}

/// A file in the smallest form that the client can read.
pub(super) fn find(
    path: &str,
    headers: &HeaderMap,
) -> Option<(EmbeddedFile, Option<&'static str>)> {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let accepts = |coding: &str| {
        accepted.is_some_and(|accepted| accepted.split([',', ';']).any(|c| c.trim() == coding))
    };
    for (coding, suffix) in [("br", ".br"), ("gzip", ".gz")] {
        if accepts(coding)
            && let Some(file) = WebClient::get(&format!("{path}{suffix}"))
        {
            return Some((file, Some(coding)));
        }
    }
    WebClient::get(path).map(|file| (file, None))
}

pub(super) fn respond(
    file: EmbeddedFile,
    encoding: Option<&'static str>,
    kind: &str,
    cache: &'static str,
) -> Response {
    let mut response = file.data.into_owned().into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_str(kind).expect("media types are header values");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

fn with_policy(mut response: Response, policy: &'static str) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
