//! Long-poll requests that do not wait: new sessions, POSTs, and preflight requests of browsers. A
//! GET that waits never gets here, because its shard parks it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tokio::sync::oneshot;
use watchfire_channels::longpoll::{Status, encode_answer};
use watchfire_hooks::ConnectVerdict;
use watchfire_types::ShardId;

use crate::channel_api::ShardMessage;
use crate::hooks::ConnectReply;
use crate::proxies::{RequestedHost, is_forwarding_header};
use crate::shard::{
    Admitted, CONTENT_TYPE, ConnectRefusal, ConnectRequest, ProcessState, STREAM_PATH, origin_of,
};
use crate::token::{TokenKey, request_token};

const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-phoenix-longpoll-token");
const AUTH_HEADER: HeaderName = HeaderName::from_static("x-phoenix-authtoken");

/// The routes of the WebSocket, of long poll and of event streams.
pub(super) fn routes(shared: Arc<ProcessState>) -> Router {
    let (longpoll_path, websocket_path) =
        (shared.longpoll_path.clone(), shared.websocket_path.clone());
    // Phoenix answers other methods with 400. HEAD would open a session, as GET does.
    let longpoll = get(open).post(post).options(options).head(bad_request).fallback(bad_request);
    Router::new()
        .route(&longpoll_path, longpoll)
        .route(&websocket_path, any(not_an_upgrade))
        // The event loop answers the GET of an event stream.
        .route(STREAM_PATH, axum::routing::options(options).fallback(not_get))
        .with_state(shared)
}

async fn not_get() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, OPTIONS")]).into_response()
}

async fn bad_request() -> StatusCode {
    StatusCode::BAD_REQUEST
}

/// A request to the path of the WebSocket that is not an upgrade, or not of HTTP/1.1.
async fn not_an_upgrade() -> Response {
    (StatusCode::BAD_REQUEST, "cannot open a WebSocket: send an HTTP/1.1 upgrade request\n")
        .into_response()
}

/// A GET without a valid session: opens one.
async fn open(
    State(shared): State<Arc<ProcessState>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(RequestedHost(host)): Extension<RequestedHost>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let token = headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
    let token = request_token(token, query.as_deref().unwrap_or(""));
    if let Some(token) = token
        && TokenKey::node_of(token).is_some()
        && shared.sessions.open(token).is_none()
    {
        // The session ended with the process that opened it.
        return answer(Status::Restarting, None);
    }
    let request = ConnectRequest {
        transport: "longpoll",
        query: query.as_deref().unwrap_or(""),
        origin: origin_in(&headers),
        host: &host,
        auth_token: text(&AUTH_HEADER),
        from,
    };
    let admitted = match shared.connect_rules.admit(&request) {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(refusal),
    };
    let Admitted { serializer, mut connected, counted, question } = admitted;
    if let Some(question) = question {
        let (sender, decided) = oneshot::channel();
        shared.connect_rules.ask(question, ConnectReply::Router(sender));
        // An error means that the server stops.
        let verdict = decided.await.unwrap_or(ConnectVerdict::Unavailable);
        connected = match shared.connect_rules.accept(verdict, connected) {
            Ok(connected) => connected,
            Err(refusal) => return refuse(refusal),
        };
    }
    let (token, opened) = oneshot::channel();
    let counted = counted.keep();
    let message = ShardMessage::OpenSession { serializer, connected, counted, token };
    if shared.endpoint.send_to(next_shard(&shared), message).is_err() {
        counted.inspect(|address| shared.addresses.release(*address));
        shared.metrics.refused("mailbox_full");
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    match opened.await {
        Ok(token) => answer(Status::Gone, Some(&token)),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

pub(super) fn origin_in(headers: &HeaderMap) -> Option<&str> {
    origin_of(headers.get_all(header::ORIGIN).iter().map(HeaderValue::as_bytes))
}

/// Refuses a client. Clients take the status 403 in the body for a decision, and an HTTP status for
/// a failure that passes.
fn refuse(refusal: ConnectRefusal) -> Response {
    match refusal {
        ConnectRefusal::NoBackend => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => answer(Status::Forbidden, None),
    }
}

/// The shard of the next session. Sessions go to the shards in turn.
fn next_shard(shared: &ProcessState) -> ShardId {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let shards = shared.endpoint.shards().count().max(1);
    ShardId((NEXT.fetch_add(1, Ordering::Relaxed) % shards) as u16)
}

async fn post(
    State(shared): State<Arc<ProcessState>>,
    Extension(RequestedHost(host)): Extension<RequestedHost>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let header = headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
    let token = request_token(header, query.as_deref().unwrap_or(""));
    let Some(session) = token.and_then(|token| shared.sessions.open(token)) else {
        // As at Phoenix, which checks the origin of every request. Browsers send their origin with
        // a POST, so a script can find out why its WebSocket was refused.
        let rules = &shared.connect_rules;
        let origin = origin_in(&headers);
        let is_allowed = origin.is_some_and(|origin| rules.may_be_guest(origin, &host, from))
            || rules.allows_origin(origin, &host, from);
        return answer(if is_allowed { Status::Gone } else { Status::Forbidden }, None);
    };
    let body_bytes_max = shared.limits.longpoll_body_bytes_max as usize;
    let Ok(body) = to_bytes(body, body_bytes_max).await else {
        shared.metrics.refused("longpoll_body");
        let reason = format!(
            "cannot read the body: it is not complete, or has more than \
             limits.longpoll_body_bytes_max, {body_bytes_max} bytes; send less in one request\n"
        );
        return (StatusCode::BAD_REQUEST, reason).into_response();
    };
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let (status, result) = oneshot::channel();
    let message = ShardMessage::Post { session, content_type: kind.map(Into::into), body, status };
    if shared.endpoint.send_to(session.shard, message).is_err() {
        shared.metrics.refused("mailbox_full");
        return answer(Status::TimedOut, None);
    }
    match tokio::time::timeout(shared.longpoll_window(), result).await {
        Ok(Ok(Ok(status))) => answer(status, None),
        Ok(Ok(Err(error))) => {
            shared.metrics.refused("longpoll_body");
            (StatusCode::BAD_REQUEST, format!("cannot read the body: {error}\n")).into_response()
        }
        Ok(Err(_)) | Err(_) => answer(Status::TimedOut, None),
    }
}

/// A preflight request: whether a site of another origin may send a request.
async fn options(headers: HeaderMap) -> Response {
    let mut response = StatusCode::OK.into_response();
    let answer = response.headers_mut();
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let names_client = |names: &HeaderValue| match names.to_str() {
        Ok(names) => names.split(',').any(is_forwarding_header),
        Err(_) => true,
    };
    if let Some(wanted) = wanted.filter(|names| !names_client(names)) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    let methods = HeaderValue::from_static("get, post, options");
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    response
}

fn answer(status: Status, token: Option<&str>) -> Response {
    let mut body = Vec::new();
    encode_answer(status, token, &[], &mut body);
    let headers = [
        (header::CONTENT_TYPE, CONTENT_TYPE),
        (header::CACHE_CONTROL, "no-store"),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
    (headers, Bytes::from(body)).into_response()
}
