//! What of long poll is an ordinary request: opening a session, POSTs, and the browser's questions
//! beforehand. A GET that waits never gets here: the shard parks it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use channels::longpoll::{Status, encode_answer};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tokio::sync::oneshot;
use vocab::ShardId;

use super::Site;
use crate::shard::{Admitted, Asking, CONTENT_TYPE, Mail, longpoll_token};
use crate::world::World;

const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-phoenix-longpoll-token");
const AUTH_HEADER: HeaderName = HeaderName::from_static("x-phoenix-authtoken");

pub(super) fn routes() -> MethodRouter<Site> {
    // Other methods get the 400 that Phoenix gives them; HEAD would open a session like GET.
    get(open).post(post).options(options).head(bad_request).fallback(bad_request)
}

async fn bad_request() -> StatusCode {
    StatusCode::BAD_REQUEST
}

/// A request for the websocket that did not even look like an upgrade, or came where none can be.
pub(super) async fn not_an_upgrade() -> Response {
    (StatusCode::BAD_REQUEST, "a websocket needs an HTTP/1.1 upgrade\n").into_response()
}

/// A GET without a living session: open one.
async fn open(
    State(site): State<Site>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let world = &site.world;
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let asking = Asking {
        query: query.as_deref().unwrap_or(""),
        origin: text(&header::ORIGIN),
        host: text(&header::HOST).unwrap_or(""),
        auth_token: text(&AUTH_HEADER),
        from,
    };
    let Ok(Admitted { serializer, connected, counted }) = world.admit(&asking) else {
        return answer(Status::Forbidden, None);
    };
    let (token, opened) = oneshot::channel();
    let mail = Mail::OpenSession { serializer, connected, counted, token };
    if world.endpoint.mail(next_shard(world), mail).is_err() {
        counted.inspect(|address| world.addresses.release(*address));
        world.metrics.refused("mailbox_full");
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    match opened.await {
        Ok(token) => answer(Status::Gone, Some(&token)),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Sessions are spread over the shards one after the other.
fn next_shard(world: &World) -> ShardId {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let shards = world.endpoint.mailboxes().len().max(1);
    ShardId((NEXT.fetch_add(1, Ordering::Relaxed) % shards) as u16)
}

async fn post(
    State(site): State<Site>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let world = &site.world;
    let header = headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
    let token = longpoll_token(header, query.as_deref().unwrap_or(""));
    let Some(session) = token.and_then(|token| world.sessions.open(token)) else {
        return answer(Status::Gone, None);
    };
    let body_bytes_max = world.settings.limits.longpoll_body_bytes_max as usize;
    let Ok(body) = to_bytes(body, body_bytes_max).await else {
        world.metrics.refused("longpoll_body");
        return StatusCode::BAD_REQUEST.into_response();
    };
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let (status, heard) = oneshot::channel();
    let mail = Mail::Post { session, content_type: kind.map(Into::into), body, status };
    if world.endpoint.mail(session.shard, mail).is_err() {
        world.metrics.refused("mailbox_full");
        return answer(Status::TimedOut, None);
    }
    match tokio::time::timeout(world.settings.socket.longpoll_window, heard).await {
        Ok(Ok(Ok(status))) => answer(status, None),
        Ok(Ok(Err(error))) => {
            world.metrics.refused("longpoll_body");
            (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
        }
        Ok(Err(_)) | Err(_) => answer(Status::TimedOut, None),
    }
}

/// A browser asks whether a page of another origin may send what it wants to send.
async fn options(headers: HeaderMap) -> Response {
    let mut response = StatusCode::OK.into_response();
    let answer = response.headers_mut();
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    if let Some(wanted) = wanted {
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
