//! `/admin/denied`: calls that read and change the deny-list.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use http::StatusCode;
use serde_json::json;
use watchfire_content::{Cid, CidError};

use super::guard::{Token, not_the_operator, refuse};
use crate::pages::{DenyFileError, DenyList, ReplicatedPages};

/// The calls that read and change the deny-list.
pub(crate) struct DenyCalls {
    pub deny_list: Arc<DenyList>,
    pub pages: Arc<ReplicatedPages>,
    pub token: Token,
}

impl DenyCalls {
    /// The routes. Without a token, there are none.
    pub(super) fn routes(self) -> Router {
        if !self.token.is_set() {
            return Router::new();
        }
        let calls = Arc::new(self);
        Router::new()
            .route("/admin/denied", get(count))
            .route("/admin/denied/{cid}", put(deny).delete(allow).get(is_denied))
            .route_layer(middleware::from_fn_with_state(calls.clone(), authorize))
            .with_state(calls)
    }
}

/// Refuses requests without the operator's token.
async fn authorize(State(calls): State<Arc<DenyCalls>>, request: Request, next: Next) -> Response {
    match calls.token.is_in(request.headers()) {
        true => next.run(request).await,
        false => not_the_operator(),
    }
}

/// Responds with the number of entries of the deny-list.
async fn count(State(calls): State<Arc<DenyCalls>>) -> Response {
    Json(json!({ "denied": calls.deny_list.len() })).into_response()
}

async fn is_denied(State(calls): State<Arc<DenyCalls>>, Path(cid): Path<String>) -> Response {
    match cid.parse::<Cid>() {
        Ok(cid) => Json(json!({ "denied": calls.deny_list.holds(&cid) })).into_response(),
        Err(error) => bad_cid(&error),
    }
}

async fn deny(State(calls): State<Arc<DenyCalls>>, Path(cid): Path<String>) -> Response {
    change(calls, cid, true).await
}

async fn allow(State(calls): State<Arc<DenyCalls>>, Path(cid): Path<String>) -> Response {
    change(calls, cid, false).await
}

/// Changes the deny-list on a thread for blocking calls, and removes the peers of blocked pages.
async fn change(calls: Arc<DenyCalls>, cid: String, is_denied: bool) -> Response {
    let cid = match cid.parse::<Cid>() {
        Ok(cid) => cid,
        Err(error) => return bad_cid(&error),
    };
    let changing = calls.clone();
    let changed = tokio::task::spawn_blocking(move || {
        let list = &changing.deny_list;
        let changed = if is_denied { list.add(&cid) } else { list.remove(&cid) }?;
        changing.pages.end_denied();
        Ok::<_, DenyFileError>(changed)
    });
    match changed.await {
        Ok(Ok(changed)) => Json(json!({ "denied": is_denied, "changed": changed })).into_response(),
        Ok(Err(error)) if !calls.deny_list.is_on() => {
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
