//! Sprites for anyone with curl. A poll that waits never gets here: the shard parks it.

use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use vocab::PeerId;

use super::{Site, app_shell};
use crate::planes::{BadThrow, JoinError, Newcomer, Planes, Throw, check_plane};
use crate::shard::CONTENT_TYPE;
use crate::world::World;

/// What a token and the braces around it take beside a throw.
const TOKEN_BYTES_MAX: u32 = 128;

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/sprites/{plane}", get(app_shell::index))
        .route("/sprites/{plane}/join", post(join))
        .route("/sprites/{plane}/poll", get(no_poll))
        .route("/sprites/{plane}/throw", post(throw))
        .route("/sprites/{plane}/leave", post(leave))
}

#[derive(Default, Deserialize)]
struct Told {
    token: Option<String>,
}

/// An answer that is an error.
struct Refused(StatusCode, Value);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        answer(self.0, &self.1)
    }
}

fn stale() -> Refused {
    Refused(StatusCode::GONE, json!({ "reason": "stale token" }))
}

async fn join(
    State(site): State<Site>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Path(plane): Path<String>,
    body: Body,
) -> Result<Response, Refused> {
    let world = &site.world;
    check_plane(&plane).map_err(|error| Refused(StatusCode::BAD_REQUEST, error))?;
    let body = read(world, body).await?;
    let told = if body.is_empty() { Ok(Told::default()) } else { serde_json::from_slice(&body) };
    let Told { token } = told.map_err(|error| {
        let told = json!({ "reason": "bad join", "message": error.to_string() });
        Refused(StatusCode::BAD_REQUEST, told)
    })?;
    let before = token.and_then(|token| world.tokens.open_peer(&token));
    let no_randomness = |_| Refused(StatusCode::INTERNAL_SERVER_ERROR, json!({}));
    let fresh = PeerId(getrandom::u64().map_err(no_randomness)?);
    let counted = world.addresses.admit(from.ip()).map_err(|error| {
        world.metrics.refused("sockets_per_address");
        let told = json!({ "reason": "too many from this address", "max": error.max });
        Refused(StatusCode::TOO_MANY_REQUESTS, told)
    })?;
    let newcomer = Newcomer::Poll { counted };
    let planes = planes(world);
    let welcome = planes.join(planes.now(), &plane, before, fresh, newcomer);
    let welcome = welcome.map_err(|error: JoinError| {
        counted.inspect(|address| world.addresses.release(*address));
        Refused(StatusCode::SERVICE_UNAVAILABLE, error.to_json())
    })?;
    let told = json!({
        "token": world.tokens.seal_peer(welcome.peer),
        "peer": welcome.peer.to_string(),
        "neighbours": welcome.neighbours,
    });
    Ok(answer(StatusCode::OK, &told))
}

/// A poll that the shard did not park: its token is none of ours.
async fn no_poll() -> Refused {
    stale()
}

async fn throw(
    State(site): State<Site>,
    Path(plane): Path<String>,
    body: Body,
) -> Result<Response, Refused> {
    let world = &site.world;
    let body = read(world, body).await?;
    let peer = speaker(world, &body)?;
    let max = world.settings.limits.throw_bytes_max;
    let throw = Throw::parse(&body, max.saturating_add(TOKEN_BYTES_MAX)).map_err(|error| {
        world.metrics.refused("throw");
        Refused(StatusCode::BAD_REQUEST, error.to_json())
    })?;
    let planes = planes(world);
    let thrown = planes.throw_polled(planes.now(), &plane, peer, &throw);
    let thrown = thrown.map_err(|_| stale())?;
    world.metrics.throws.inc();
    Ok(answer(StatusCode::OK, &thrown.to_json()))
}

async fn leave(
    State(site): State<Site>,
    Path(plane): Path<String>,
    body: Body,
) -> Result<Response, Refused> {
    let world = &site.world;
    let body = read(world, body).await?;
    let peer = speaker(world, &body)?;
    planes(world).leave(&plane, peer).map_err(|_| stale())?;
    Ok(answer(StatusCode::OK, &json!({})))
}

fn planes(world: &World) -> &Planes {
    world.planes.as_ref().expect("these routes come with the planes")
}

/// The peer whose token is in the body.
fn speaker(world: &World, body: &[u8]) -> Result<PeerId, Refused> {
    let Told { token } = serde_json::from_slice(body).map_err(|error| {
        let error = BadThrow::Unreadable(error.to_string());
        Refused(StatusCode::BAD_REQUEST, error.to_json())
    })?;
    token.and_then(|token| world.tokens.open_peer(&token)).ok_or_else(stale)
}

async fn read(world: &World, body: Body) -> Result<Bytes, Refused> {
    let max = world.settings.limits.throw_bytes_max;
    to_bytes(body, max.saturating_add(TOKEN_BYTES_MAX) as usize).await.map_err(|_| {
        world.metrics.refused("throw");
        Refused(StatusCode::PAYLOAD_TOO_LARGE, BadThrow::TooLarge { max }.to_json())
    })
}

fn answer(status: StatusCode, told: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    (status, headers, told.to_string()).into_response()
}
