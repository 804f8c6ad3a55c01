//! Sprites over plain HTTP, for clients such as curl. A waiting poll never gets here: its shard
//! parks it. A throw gets here if its shard cannot answer it: only another process can, its body
//! arrives later, or it is logged or traced.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{StatusCode, header};
use http_body_util::{BodyExt as _, Collected, LengthLimitError, Limited};
use serde_json::{Value, json};
use watchfire_types::NodeId;

use super::grids::JoinError;
use super::messages::Request;
use super::name::check_grid;
use super::polling::{Polling, TokenBody, stale_token};
use super::slot::JoiningCarrier;
use super::slot_token::SlotToken;
use super::throw_message::InvalidThrow;

const CONTENT_TYPE: &str = "application/json; charset=utf-8";

pub(super) fn routes(polling: Arc<Polling>) -> Router {
    Router::new()
        .route("/sprites/{grid}/join", post(join))
        .route("/sprites/{grid}/poll", get(poll))
        .route("/sprites/{grid}/throw", post(throw))
        .route("/sprites/{grid}/leave", post(leave))
        .with_state(polling)
}

struct Refused(StatusCode, Value);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        respond(self.0, &self.1)
    }
}

fn stale() -> Refused {
    let (status, body) = stale_token();
    Refused(status, body)
}

async fn join(
    State(polling): State<Arc<Polling>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Path(grid): Path<String>,
    body: Body,
) -> Result<Response, Refused> {
    let grids = &polling.grids;
    check_grid(&grid).map_err(|error| Refused(StatusCode::BAD_REQUEST, error))?;
    let body = read(&polling, body).await?;
    let parsed =
        if body.is_empty() { Ok(TokenBody::default()) } else { serde_json::from_slice(&body) };
    let TokenBody { token } = parsed.map_err(|error| {
        let body = json!({ "reason": "bad join", "message": error.to_string() });
        Refused(StatusCode::BAD_REQUEST, body)
    })?;
    let before = token.and_then(|token| SlotToken::open(&polling.slot_tokens, &token));
    let before = before.map(|slot| slot.peer);
    let no_randomness = |_| Refused(StatusCode::INTERNAL_SERVER_ERROR, json!({}));
    let fresh = grids.new_peer().map_err(no_randomness)?;
    let _subscription = grids.subscribe(&grid).await;
    if before.is_some_and(|peer| !grids.knows(&grid, peer)) {
        grids.catch_up(fresh).await;
    }
    let counted = grids.count_address(from.ip()).map_err(|max| {
        polling.metrics.refused("sockets_per_address");
        let body = json!({ "reason": "too many from this address", "max": max });
        Refused(StatusCode::TOO_MANY_REQUESTS, body)
    })?;
    let carrier = JoiningCarrier::Poll { counted };
    let joined = grids.join(grids.now(), &grid, before, fresh, carrier);
    let joined = joined.map_err(|error: JoinError| {
        grids.uncount_address(counted);
        Refused(StatusCode::SERVICE_UNAVAILABLE, error.to_json())
    })?;
    let slot = SlotToken { peer: joined.peer, node: grids.node() };
    let body = json!({
        "token": slot.seal(&polling.slot_tokens),
        "peer": joined.peer.to_string(),
        "neighbours": joined.neighbours,
    });
    Ok(respond(StatusCode::OK, &body))
}

/// A poll that the shard did not park: its token is not valid.
async fn poll() -> Refused {
    stale()
}

async fn throw(
    State(polling): State<Arc<Polling>>,
    Path(grid): Path<String>,
    body: Body,
) -> Result<Response, Refused> {
    let body = read(&polling, body).await?;
    let slot = sender(&polling, &body)?;
    if let Some((status, body)) = polling.throw(&grid, slot, &body) {
        return Ok(respond(status, &body));
    }
    let request = Request::Throw { grid: &grid, peer: slot.peer.0, throw: &body };
    forward(&polling, slot.node, request).await
}

async fn leave(
    State(polling): State<Arc<Polling>>,
    Path(grid): Path<String>,
    body: Body,
) -> Result<Response, Refused> {
    let body = read(&polling, body).await?;
    let SlotToken { peer, node } = sender(&polling, &body)?;
    if node != polling.grids.node() {
        return forward(&polling, node, Request::Leave { grid: &grid, peer: peer.0 }).await;
    }
    let (status, body) = polling.leave(&grid, peer);
    Ok(respond(status, &body))
}

/// Forwards a request to the process that has the slot. Its answer is the status and the JSON.
async fn forward(
    polling: &Polling,
    node: NodeId,
    request: Request<'_>,
) -> Result<Response, Refused> {
    let answer: Option<(u16, String)> = polling.grids.link.request(node, &request).await;
    let (status, body) = answer.ok_or_else(stale)?;
    let status = StatusCode::from_u16(status).map_err(|_| stale())?;
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    Ok((status, headers, body).into_response())
}

fn sender(polling: &Polling, body: &[u8]) -> Result<SlotToken, Refused> {
    let TokenBody { token } = serde_json::from_slice(body).map_err(|error| {
        let error = InvalidThrow::Unreadable(error.to_string());
        Refused(StatusCode::BAD_REQUEST, error.to_json())
    })?;
    token.and_then(|token| SlotToken::open(&polling.slot_tokens, &token)).ok_or_else(stale)
}

async fn read(polling: &Polling, body: Body) -> Result<Bytes, Refused> {
    let body = Limited::new(body, polling.body_bytes_max() as usize).collect().await;
    body.map(Collected::to_bytes).map_err(|error| {
        polling.metrics.refused("throw");
        let (status, error) = match error.is::<LengthLimitError>() {
            true => {
                let max = polling.throw_bytes_max;
                (StatusCode::PAYLOAD_TOO_LARGE, InvalidThrow::TooLarge { max })
            }
            false => (StatusCode::BAD_REQUEST, InvalidThrow::Incomplete),
        };
        Refused(status, error.to_json())
    })
}

fn respond(status: StatusCode, body: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    (status, headers, body.to_string()).into_response()
}
