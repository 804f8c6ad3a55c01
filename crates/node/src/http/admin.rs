//! `/admin`: what only the operator may do.

use axum::Json;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use content::{Cid, CidError};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::Site;

/// The routes; none when there is no token to know the operator by.
pub(super) fn routes(site: &Site) -> Router<Site> {
    if site.world.settings.admin.token.is_empty() {
        return Router::new();
    }
    Router::new()
        .route("/admin/denied", get(count))
        .route("/admin/denied/{cid}", put(deny).delete(allow).get(is_denied))
        .route_layer(middleware::from_fn_with_state(site.clone(), only_the_operator))
}

async fn only_the_operator(
    State(site): State<Site>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let said = headers.get(header::AUTHORIZATION).and_then(|said| said.to_str().ok());
    let said = said.and_then(|said| said.strip_prefix("Bearer ")).unwrap_or_default();
    // Of hashes, it does not matter that comparing takes longer the more of them agrees.
    if Sha256::digest(said) == Sha256::digest(&site.world.settings.admin.token) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, Json(json!({ "reason": "not the operator" })))
        .into_response()
}

/// How many are denied.
async fn count(State(site): State<Site>) -> Response {
    Json(json!({ "denied": site.world.denied.len() })).into_response()
}

async fn is_denied(State(site): State<Site>, Path(cid): Path<String>) -> Response {
    match cid.parse::<Cid>() {
        Ok(cid) => Json(json!({ "denied": site.world.denied.holds(&cid) })).into_response(),
        Err(error) => bad_cid(&error),
    }
}

async fn deny(State(site): State<Site>, Path(cid): Path<String>) -> Response {
    change(site, cid, true).await
}

async fn allow(State(site): State<Site>, Path(cid): Path<String>) -> Response {
    change(site, cid, false).await
}

/// Change the file, off the event loop, and end at once what is denied from now on.
async fn change(site: Site, cid: String, is_denied: bool) -> Response {
    let cid = match cid.parse::<Cid>() {
        Ok(cid) => cid,
        Err(error) => return bad_cid(&error),
    };
    let world = site.world.clone();
    let changed = tokio::task::spawn_blocking(move || {
        let denied = &world.denied;
        let changed = if is_denied { denied.add(&cid) } else { denied.remove(&cid) }?;
        world.pages.end_denied();
        Ok::<_, crate::denied::DenyFileError>(changed)
    });
    match changed.await {
        Ok(Ok(changed)) => Json(json!({ "denied": is_denied, "changed": changed })).into_response(),
        Ok(Err(error)) if !site.world.denied.is_on() => {
            let message = "pages.deny_file is not set: there is no list to change";
            tracing::warn!(%error, "{message}");
            refuse(StatusCode::CONFLICT, "no deny-list", message)
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "the deny-list cannot be changed");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "cannot change the list", &error.to_string())
        }
        Err(error) => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "cannot change the list", &error.to_string())
        }
    }
}

fn bad_cid(error: &CidError) -> Response {
    refuse(StatusCode::BAD_REQUEST, "not a CID", &error.to_string())
}

fn refuse(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, Json(json!({ "reason": reason, "message": message }))).into_response()
}
