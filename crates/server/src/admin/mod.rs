//! `/admin`: calls that only the operator may make.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use sha2::{Digest, Sha256};
use watchfire_content::{Cid, CidError};

use crate::feature::Feature;
use crate::pages::{DenyFileError, DenyList, ReplicatedPages};

/// The operator's calls, as a feature of the server.
pub(crate) struct AdminFeature {
    /// The operator's token. When it is empty, there are no calls.
    pub token: String,
    pub deny_list: Arc<DenyList>,
    pub pages: Arc<ReplicatedPages>,
}

impl Feature for AdminFeature {
    fn routes(self: Arc<Self>) -> Router {
        if self.token.is_empty() {
            return Router::new();
        }
        Router::new()
            .route("/admin/denied", get(count))
            .route("/admin/denied/{cid}", put(deny).delete(allow).get(is_denied))
            .route_layer(middleware::from_fn_with_state(self.clone(), authorize))
            .with_state(self)
    }
}

/// Refuses requests without the operator's token.
async fn authorize(
    State(admin): State<Arc<AdminFeature>>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    // The duration of this comparison can reveal parts of the hash, but not of the token.
    if Sha256::digest(token) == Sha256::digest(&admin.token) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, Json(json!({ "reason": "not the operator" })))
        .into_response()
}

/// Responds with the number of entries of the deny-list.
async fn count(State(admin): State<Arc<AdminFeature>>) -> Response {
    Json(json!({ "denied": admin.deny_list.len() })).into_response()
}

async fn is_denied(State(admin): State<Arc<AdminFeature>>, Path(cid): Path<String>) -> Response {
    match cid.parse::<Cid>() {
        Ok(cid) => Json(json!({ "denied": admin.deny_list.holds(&cid) })).into_response(),
        Err(error) => bad_cid(&error),
    }
}

async fn deny(State(admin): State<Arc<AdminFeature>>, Path(cid): Path<String>) -> Response {
    change(admin, cid, true).await
}

async fn allow(State(admin): State<Arc<AdminFeature>>, Path(cid): Path<String>) -> Response {
    change(admin, cid, false).await
}

/// Changes the deny-list on a thread for blocking calls, and removes the peers of blocked pages.
async fn change(admin: Arc<AdminFeature>, cid: String, is_denied: bool) -> Response {
    let cid = match cid.parse::<Cid>() {
        Ok(cid) => cid,
        Err(error) => return bad_cid(&error),
    };
    let changing = admin.clone();
    let changed = tokio::task::spawn_blocking(move || {
        let list = &changing.deny_list;
        let changed = if is_denied { list.add(&cid) } else { list.remove(&cid) }?;
        changing.pages.end_denied();
        Ok::<_, DenyFileError>(changed)
    });
    match changed.await {
        Ok(Ok(changed)) => Json(json!({ "denied": is_denied, "changed": changed })).into_response(),
        Ok(Err(error)) if !admin.deny_list.is_on() => {
            let message = "cannot change the deny-list: pages.deny_file is not set";
            tracing::warn!(%error, "{message}");
            refuse(StatusCode::CONFLICT, "no deny-list", message)
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot change the deny-list");
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
