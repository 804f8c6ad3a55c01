//! The paths of the web client, and its files.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};

use super::hosts::SiteHosts;
use crate::page_loads::PageLoads;
use crate::web_client::{HTML, PublicIndex, find, respond};

/// The policy of the app: only its own code runs, and nothing that it shows can send data out.
/// `https:` is for WebTransport to terminals, whose addresses are not known in advance.
const APP_POLICY: &str = "default-src 'self'; img-src 'self' blob: data:; \
     media-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; \
     connect-src 'self' https: ws: wss:; frame-src 'self'; object-src 'none'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// The policy of the frame in which a page's scripts run: an opaque origin without connections.
const FRAME_POLICY: &str = "sandbox allow-scripts; default-src 'none'; \
     script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; \
     media-src data: blob:; font-src data:; form-action 'none'; base-uri 'none'; \
     frame-ancestors 'self'";

/// The policy of the worker that reads PDFs. Its decoders of pictures are WebAssembly, which no other code of the app needs.
const PDF_WORKER_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; \
     connect-src 'self'";

/// The start of the path of that worker, before its hash.
const PDF_WORKER: &str = "assets/pdf.worker";

/// The app's service worker, which gives media players and downloads the data of their tab.
const APP_WORKER: &str = "worker.js";

const NOT_BUILT: &str = "The web client is not part of this binary.\n\
     Build it first: make web, then build the binary again.\n";

/// The home page, which says that content from a share sheet did not arrive. See `received-hash.ts` of the web client.
const NOT_RECEIVED: &str = "/#received-nothing";

/// The state of the routes of the app.
struct App {
    hosts: Arc<SiteHosts>,
    /// `None` on a server that does not know its public address.
    index: Option<PublicIndex>,
    loads: Arc<PageLoads>,
}

/// The paths of the web client, and its files. `public_url` is `server.public_url`.
pub(crate) fn routes(hosts: Arc<SiteHosts>, public_url: &str, loads: Arc<PageLoads>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/chat", get(index))
        .route("/p/{*page}", get(index))
        .route("/sprites/{grid}", get(index))
        .route("/frame", get(frame))
        .route("/receive", post(refuse_shared).fallback(asset))
        .fallback(asset)
        .with_state(Arc::new(App { hosts, index: PublicIndex::new(public_url), loads }))
}

/// Refuses content from the share sheet of a phone, which a browser without the app's service worker sends here. Its body is
/// not read, and the connection is closed.
async fn refuse_shared() -> impl IntoResponse {
    (StatusCode::SEE_OTHER, [(header::LOCATION, NOT_RECEIVED), (header::CONNECTION, "close")])
}

async fn index(
    State(app): State<Arc<App>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let response = shell(&app, &headers);
    if method == Method::GET && response.status() == StatusCode::OK {
        app.loads.count(from.ip(), &headers);
    }
    response
}

fn shell(app: &App, headers: &HeaderMap) -> Response {
    let response = if let Some(index) = &app.index {
        index.respond(headers)
    } else if let Some((file, encoding)) = find("index.html", headers) {
        respond(file.data, encoding, HTML, "no-cache")
    } else {
        return (StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT).into_response();
    };
    let mut response = with_policy(response, APP_POLICY);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let Some(sites) = host.and_then(|host| app.hosts.site_authority(host)) else {
        return response;
    };
    // The app shows sites in frames. The document around a frame restricts it to one site.
    let policy = APP_POLICY.replace("frame-src 'self'", &format!("frame-src 'self' *.{sites}"));
    if let Ok(policy) = HeaderValue::try_from(policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// The document in which a page's own scripts run.
async fn frame(headers: HeaderMap) -> Response {
    let Some((file, encoding)) = find("frame.html", &headers) else {
        return (StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT).into_response();
    };
    let response = respond(file.data, encoding, HTML, "no-cache");
    let mut response = with_policy(response, FRAME_POLICY);
    // In browsers that support this header: no connections by any API.
    let name = header::HeaderName::from_static("connection-allowlist");
    response.headers_mut().insert(name, HeaderValue::from_static("()"));
    response
}

/// The app's scripts, styles and pictures. For any other path the app itself, with status 404.
async fn asset(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let is_page = path.is_empty() || path.ends_with(".html");
    // Only this script may become a service worker of the app's origin.
    let may_run = path == APP_WORKER || headers.get("service-worker").is_none();
    match find(path, &headers) {
        Some((file, encoding)) if !is_page && may_run => {
            let kind = mime_guess::from_path(path).first_or_octet_stream();
            let hashed = path.starts_with("assets/");
            let cache = if hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
            let policy = if path.starts_with(PDF_WORKER) { PDF_WORKER_POLICY } else { APP_POLICY };
            with_policy(respond(file.data, encoding, kind.as_ref(), cache), policy)
        }
        _ => {
            let mut response = shell(&app, &headers);
            if response.status() == StatusCode::OK {
                *response.status_mut() = StatusCode::NOT_FOUND;
            }
            response
        }
    }
}

fn with_policy(mut response: Response, policy: &'static str) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A page that is only read must not make the browser look up the names in its links.
    headers.insert(
        header::HeaderName::from_static("x-dns-prefetch-control"),
        HeaderValue::from_static("off"),
    );
    response
}
