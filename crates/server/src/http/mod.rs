//! The HTTP routes of the server itself: long poll, limits and health; and the layers of all routes.

mod health;
mod limits;
mod longpoll;
mod request_log;
mod spans;

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_request};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};
use http::{HeaderValue, StatusCode, Uri, header};
use watchfire_auth::Auth;
use watchfire_channels::handshake::is_same_path;

pub use self::request_log::log_requests;
use crate::proxies::{RequestedHost, TrustedProxies};
use crate::settings::Settings;
use crate::shard::{ConnectRefusal, ProcessState};

/// All routes: the server's own, those of features, and those of an application.
pub(crate) fn router(
    shared: &Arc<ProcessState>,
    settings: &Settings,
    auth: Option<Arc<dyn Auth>>,
    added: Router,
) -> Router {
    let mut router = longpoll::routes(shared.clone())
        .merge(limits::routes(settings, shared.parts.clone()))
        .merge(health::routes(shared.cluster.clone(), shared.metrics.clone(), auth, settings));
    for part in &shared.parts {
        router = router.merge(part.clone().routes());
        let checked = part.clone().checked_routes();
        if checked.has_routes() {
            router =
                router.merge(checked.route_layer(from_fn_with_state(shared.clone(), check_origin)));
        }
    }
    // The layers apply to all routes, those of an application included.
    router = router.merge(added);
    for part in &shared.parts {
        router = part.clone().layer(router);
    }
    // Inside the layer that names the client.
    let router = log_requests(router, &settings.log);
    let router = match watchfire_traces::is_on() {
        true => router.layer(from_fn(spans::trace)),
        false => router,
    };
    let (proxies, longpoll_path) = (shared.proxies.clone(), shared.longpoll_path.clone());
    let prepare = move |mut request: Request| {
        name_client(&proxies, &mut request);
        name_path(&longpoll_path, &mut request);
        ready(request)
    };
    // A layer of the inner router would run after it has chosen the route.
    Router::new().fallback_service(router).layer(map_request(prepare))
}

/// Refuses the requests of sites that may not connect.
async fn check_origin(
    State(shared): State<Arc<ProcessState>>,
    Extension(RequestedHost(host)): Extension<RequestedHost>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let origin = longpoll::origin_in(request.headers());
    if shared.connect_rules.allows_origin(origin, &host, from) {
        return next.run(request).await;
    }
    shared.metrics.refused(ConnectRefusal::Origin.reason());
    let reason = "sites of this origin may not use this server; see socket.check_origin\n";
    (StatusCode::FORBIDDEN, reason).into_response()
}

/// Replaces the address of a request by that of the client behind trusted proxies, and notes the
/// host that the client requested.
fn name_client(proxies: &TrustedProxies, request: &mut Request) {
    let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<SocketAddr>>().copied()
    else {
        return;
    };
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let client = proxies.client(peer, host, values);
    let (from, host) = (client.from, RequestedHost(client.host.to_owned()));
    request.extensions_mut().insert(ConnectInfo(from));
    request.extensions_mut().insert(host);
}

/// Writes the path of long poll as the settings have it, when a client has another spelling of it.
fn name_path(longpoll_path: &str, request: &mut Request) {
    let uri = request.uri();
    if uri.path() == longpoll_path || !is_same_path(uri.path(), longpoll_path) {
        return;
    }
    let target = format!("{longpoll_path}?{}", uri.query().unwrap_or_default());
    let target = target.parse::<Uri>().expect("the path and the query are valid");
    *request.uri_mut() = target;
}
