//! `/admin/denied`: calls that read and change the deny-list.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use watchfire::feature::{ClusterPart, PartLink, PendingResponse};
use watchfire::internal::{Unanswered, refuse_call as refuse};
use watchfire_content::{Cid, CidError};
use watchfire_types::NodeId;

use super::deny_list::{DenyFileError, DenyList};
use super::replicated::ReplicatedPages;

/// The calls that read and change the deny-list. A change is made on every machine of the server:
/// each has a file of its own.
pub(crate) struct DenyCalls {
    pub deny_list: Arc<DenyList>,
    pub pages: Arc<ReplicatedPages>,
    pub link: PartLink,
}

#[derive(Serialize, Deserialize)]
struct Change {
    cid: String,
    is_denied: bool,
}

/// The response of another process that has made a change.
const DONE: &str = "done";

impl DenyCalls {
    pub fn routes(self: Arc<Self>) -> Router {
        Router::new()
            .route("/admin/denied", get(count))
            .route("/admin/denied/{cid}", put(deny).delete(allow).get(is_denied))
            .with_state(self)
    }

    /// Has every process of the other machines make a change. Returns how many did not.
    async fn apply_elsewhere(&self, change: &Change) -> usize {
        let mut failed = 0;
        let others: Vec<NodeId> = self.link.cluster().far_others().collect();
        for (node, answer) in self.link.request_each::<String>(others, change).await {
            let error = match answer {
                Ok(answer) if answer == DONE => continue,
                // A machine without pages has no deny-list.
                Err(Unanswered::NoPart) => continue,
                Ok(error) => error,
                Err(Unanswered::NoAnswer) => "no answer".to_owned(),
            };
            tracing::error!(%node, error, "another machine did not change its deny-list");
            failed += 1;
        }
        failed
    }
}

/// Changes the list of this machine, and removes the peers of blocked pages. Returns whether the list
/// changed. Blocks on the file.
fn apply(
    list: &DenyList,
    pages: &ReplicatedPages,
    cid: &Cid,
    is_denied: bool,
) -> Result<bool, DenyFileError> {
    let changed = if is_denied { list.add(cid) } else { list.remove(cid) }?;
    pages.end_denied();
    Ok(changed)
}

impl ClusterPart for DenyCalls {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, _: &[u8]) -> Result<(), postcard::Error> {
        Ok(()) // There are requests only.
    }

    fn take_request(&self, request: &[u8], response: PendingResponse) {
        let Ok(Change { cid, is_denied }) = postcard::from_bytes(request) else { return };
        let Ok(cid) = cid.parse::<Cid>() else { return };
        let (list, pages) = (self.deny_list.clone(), self.pages.clone());
        tokio::task::spawn_blocking(move || match apply(&list, &pages, &cid, is_denied) {
            Ok(_) => response.send(DONE),
            Err(error) => response.send(&error.to_string()),
        });
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

/// Changes the deny-list, here on a thread for blocking calls, then on the other machines.
async fn change(calls: Arc<DenyCalls>, cid: String, is_denied: bool) -> Response {
    let cid = match cid.parse::<Cid>() {
        Ok(cid) => cid,
        Err(error) => return bad_cid(&error),
    };
    let change = Change { cid: cid.to_string(), is_denied };
    let (list, pages) = (calls.deny_list.clone(), calls.pages.clone());
    let changed = tokio::task::spawn_blocking(move || apply(&list, &pages, &cid, is_denied));
    match changed.await {
        Ok(Ok(changed)) => {
            let failed = calls.apply_elsewhere(&change).await;
            let answer = json!({ "denied": is_denied, "changed": changed, "failed": failed });
            Json(answer).into_response()
        }
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

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<watchfire::internal::Samples> {
    let done = vec![postcard::to_stdvec(DONE).expect("a text is plain data")];
    vec![
        watchfire::message_samples!(Change: Change { cid: "c".into(), is_denied: true }),
        watchfire::internal::Samples {
            name: "the response to a change of the deny-list",
            encoded: done,
        },
    ]
}
