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
use vocab::{NodeId, PeerId};

use super::{Site, app_shell};
use crate::cluster::Question;
use crate::planes::{BadThrow, JoinError, Newcomer, Planes, Throw, check_plane};
use crate::shard::CONTENT_TYPE;
use crate::token::Place;
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

impl Refused {
    fn into_parts(self) -> (StatusCode, Value) {
        (self.0, self.1)
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
    let before = token.and_then(|token| world.places.open_place(&token));
    let before = before.map(|place| place.peer);
    let planes = planes(world);
    let no_randomness = |_| Refused(StatusCode::INTERNAL_SERVER_ERROR, json!({}));
    let fresh = planes.new_peer().map_err(no_randomness)?;
    let _attention = planes.attend(&plane).await;
    if before.is_some_and(|peer| !planes.knows(&plane, peer)) {
        planes.catch_up(fresh).await;
    }
    let counted = world.addresses.admit(from.ip()).map_err(|error| {
        world.metrics.refused("sockets_per_address");
        let told = json!({ "reason": "too many from this address", "max": error.max });
        Refused(StatusCode::TOO_MANY_REQUESTS, told)
    })?;
    let newcomer = Newcomer::Poll { counted };
    let welcome = planes.join(planes.now(), &plane, before, fresh, newcomer);
    let welcome = welcome.map_err(|error: JoinError| {
        counted.inspect(|address| world.addresses.release(*address));
        Refused(StatusCode::SERVICE_UNAVAILABLE, error.to_json())
    })?;
    let told = json!({
        "token": world.places.seal_place(Place { peer: welcome.peer, node: planes.node() }),
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
    let Place { peer, node } = speaker(world, &body)?;
    if node != planes(world).node() {
        let question = Question::Throw { plane: &plane, peer: peer.0, throw: &body };
        return ask(world, node, question).await;
    }
    let (status, told) = throw_here(world, &plane, peer, &body);
    Ok(answer(status, &told))
}

/// Throw for a peer whose seat is at this process.
pub(crate) fn throw_here(
    world: &World,
    plane: &str,
    peer: PeerId,
    body: &[u8],
) -> (StatusCode, Value) {
    let max = world.settings.limits.throw_bytes_max;
    let throw = match Throw::parse(body, max.saturating_add(TOKEN_BYTES_MAX)) {
        Ok(throw) => throw,
        Err(error) => {
            world.metrics.refused("throw");
            return (StatusCode::BAD_REQUEST, error.to_json());
        }
    };
    let planes = planes(world);
    match planes.throw_polled(planes.now(), plane, peer, &throw) {
        Ok(thrown) => {
            world.metrics.throws.inc();
            (StatusCode::OK, thrown.to_json())
        }
        Err(_) => stale().into_parts(),
    }
}

async fn leave(
    State(site): State<Site>,
    Path(plane): Path<String>,
    body: Body,
) -> Result<Response, Refused> {
    let world = &site.world;
    let body = read(world, body).await?;
    let Place { peer, node } = speaker(world, &body)?;
    if node != planes(world).node() {
        return ask(world, node, Question::Leave { plane: &plane, peer: peer.0 }).await;
    }
    let (status, told) = leave_here(world, &plane, peer);
    Ok(answer(status, &told))
}

/// Leave for a peer whose seat is at this process.
pub(crate) fn leave_here(world: &World, plane: &str, peer: PeerId) -> (StatusCode, Value) {
    match planes(world).leave(plane, peer) {
        Ok(()) => (StatusCode::OK, json!({})),
        Err(_) => stale().into_parts(),
    }
}

/// Let the process answer where the seat is. Its answer is the status and the JSON, as one text.
async fn ask(world: &World, node: NodeId, question: Question<'_>) -> Result<Response, Refused> {
    let answered = world.cluster.ask(node, question).await.ok_or_else(stale)?;
    let (status, told) = answered.split_at_checked(3).ok_or_else(stale)?;
    let status: u16 = status.parse().map_err(|_| stale())?;
    let status = StatusCode::from_u16(status).map_err(|_| stale())?;
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    Ok((status, headers, told.to_owned()).into_response())
}

fn planes(world: &World) -> &Planes {
    world.planes.as_ref().expect("these routes come with the planes")
}

/// The place whose token is in the body.
fn speaker(world: &World, body: &[u8]) -> Result<Place, Refused> {
    let Told { token } = serde_json::from_slice(body).map_err(|error| {
        let error = BadThrow::Unreadable(error.to_string());
        Refused(StatusCode::BAD_REQUEST, error.to_json())
    })?;
    token.and_then(|token| world.places.open_place(&token)).ok_or_else(stale)
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
