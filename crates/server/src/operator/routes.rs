//! The operator's calls over HTTP: JSON under `/admin`, beside `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use super::calls::{Call, Operator, calls_about};
use super::history::Step;
use super::machines::Machine;
use crate::admin::{Token, not_the_operator, refuse};
use crate::app::{
    ConnectionId, ConnectionOrder, ConnectionQuery, ConnectionTransport, FoundConnections,
};

/// The most connections or topics in an answer.
const ROWS_MAX: usize = 200;

impl Operator {
    /// The routes. With a token, each request must have it. Without one, they only read.
    pub fn routes(self: Arc<Self>, token: Token) -> Router {
        Router::new()
            .route("/admin/state", get(state))
            .route("/admin/history", get(history))
            .route("/admin/events", get(events))
            .route("/admin/connections", get(connections))
            .route("/admin/connections/{id}", get(connection))
            .route("/admin/connections/{id}/disconnect", post(disconnect))
            .route("/admin/topics", get(topics))
            .route_layer(middleware::from_fn_with_state(token, authorize))
            .with_state(self)
    }
}

async fn authorize(State(token): State<Token>, request: Request, next: Next) -> Response {
    if token.is_set() {
        return match token.is_in(request.headers()) {
            true => next.run(request).await,
            false => not_the_operator(),
        };
    }
    match request.method().is_safe() {
        true => next.run(request).await,
        false => refuse(
            StatusCode::FORBIDDEN,
            "no token",
            "Set admin.token to allow changes; without it the listener only reads.",
        ),
    }
}

/// The result of a handler: an error is a response too.
type Answer = Result<Response, Response>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OfMachine {
    machine: String,
    after: u64,
    step: Step,
}

async fn state(
    State(operator): State<Arc<Operator>>,
    params: Result<Query<OfMachine>, QueryRejection>,
) -> Answer {
    let params = params.map_err(bad_query)?.0;
    recorded(&operator, &params.machine, Call::State).await
}

async fn history(
    State(operator): State<Arc<Operator>>,
    params: Result<Query<OfMachine>, QueryRejection>,
) -> Answer {
    let OfMachine { machine, step, after } = params.map_err(bad_query)?.0;
    recorded(&operator, &machine, Call::History { step, after }).await
}

async fn events(
    State(operator): State<Arc<Operator>>,
    params: Result<Query<OfMachine>, QueryRejection>,
) -> Answer {
    let OfMachine { machine, after, .. } = params.map_err(bad_query)?.0;
    recorded(&operator, &machine, Call::Events { after }).await
}

/// The answer of a machine's recorder.
async fn recorded(operator: &Operator, machine: &str, call: Call) -> Answer {
    let machine = find(operator, machine)?;
    operator.call(machine.recorder(), &call).await.map(json_text).ok_or_else(no_answer)
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ConnectionParams {
    machine: String,
    sort: ConnectionOrder,
    limit: usize,
    transport: Option<ConnectionTransport>,
    address: String,
    topic: String,
}

impl Default for ConnectionParams {
    fn default() -> Self {
        ConnectionParams {
            machine: String::new(),
            sort: ConnectionOrder::default(),
            limit: 20,
            transport: None,
            address: String::new(),
            topic: String::new(),
        }
    }
}

async fn connections(
    State(operator): State<Arc<Operator>>,
    params: Result<Query<ConnectionParams>, QueryRejection>,
) -> Answer {
    let ConnectionParams { machine, sort, limit, transport, address, topic } =
        params.map_err(bad_query)?.0;
    check_limit(limit)?;
    let machine = find(&operator, &machine)?;
    let query = ConnectionQuery { sort, limit, transport, address, topic };
    let texts = operator.call_all(&machine, &Call::Connections(query)).await;
    if texts.is_empty() {
        return Err(no_answer());
    }
    let parts = texts.iter().filter_map(|text| serde_json::from_str(text).ok());
    Ok(Json(FoundConnections::merged(parts, limit)).into_response())
}

async fn connection(State(operator): State<Arc<Operator>>, Path(id): Path<String>) -> Answer {
    let (node, details, _) = calls_about(id.parse::<ConnectionId>().map_err(|_| gone())?);
    let text = operator.call(node, &details).await.ok_or_else(gone)?;
    let found: FoundConnections = serde_json::from_str(&text).map_err(|_| gone())?;
    let connection = found.connections.into_iter().next().ok_or_else(gone)?;
    Ok(Json(connection).into_response())
}

async fn disconnect(State(operator): State<Arc<Operator>>, Path(id): Path<String>) -> Answer {
    let (node, _, end) = calls_about(id.parse::<ConnectionId>().map_err(|_| gone())?);
    let ended = operator.call(node, &end).await.ok_or_else(gone)?;
    if ended != "1" {
        return Err(gone());
    }
    tracing::info!(connection = id, "the operator closed a connection");
    Ok(Json(json!({ "disconnected": true })).into_response())
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TopicParams {
    machine: String,
    prefix: String,
    limit: usize,
}

impl Default for TopicParams {
    fn default() -> Self {
        TopicParams { machine: String::new(), prefix: String::new(), limit: 20 }
    }
}

async fn topics(
    State(operator): State<Arc<Operator>>,
    params: Result<Query<TopicParams>, QueryRejection>,
) -> Answer {
    let TopicParams { machine, prefix, limit } = params.map_err(bad_query)?.0;
    check_limit(limit)?;
    let machine = find(&operator, &machine)?;
    // A topic may be large only in the sum of several processes, so each names more than are shown.
    let count = limit * 4;
    let texts = operator.call_all(&machine, &Call::Topics { prefix, count }).await;
    if texts.is_empty() {
        return Err(no_answer());
    }
    let mut sums = BTreeMap::<String, u64>::new();
    for text in &texts {
        let topics: Vec<(String, u64)> = serde_json::from_str(text).unwrap_or_default();
        for (topic, subscribers) in topics {
            *sums.entry(topic).or_default() += subscribers;
        }
    }
    let mut topics: Vec<_> = sums.into_iter().collect();
    topics.sort_by_key(|(_, subscribers)| std::cmp::Reverse(*subscribers));
    topics.truncate(limit);
    let topics: Vec<_> = topics
        .into_iter()
        .map(|(topic, subscribers)| json!({ "topic": topic, "subscribers": subscribers }))
        .collect();
    Ok(Json(json!({ "topics": topics })).into_response())
}

fn find(operator: &Operator, machine: &str) -> Result<Machine, Response> {
    operator.machine(machine).ok_or_else(|| {
        let message = format!("There is no machine {machine:?}. /admin/state names all machines.");
        refuse(StatusCode::NOT_FOUND, "unknown machine", &message)
    })
}

fn check_limit(limit: usize) -> Result<(), Response> {
    match (1..=ROWS_MAX).contains(&limit) {
        true => Ok(()),
        false => Err(bad_request(&format!("limit must be from 1 to {ROWS_MAX}, not {limit}"))),
    }
}

fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn bad_query(rejection: QueryRejection) -> Response {
    bad_request(&rejection.body_text())
}

fn bad_request(message: &str) -> Response {
    refuse(StatusCode::BAD_REQUEST, "bad request", message)
}

fn no_answer() -> Response {
    refuse(
        StatusCode::SERVICE_UNAVAILABLE,
        "no answer",
        "The process that knows this did not answer in time. Try again.",
    )
}

fn gone() -> Response {
    refuse(StatusCode::NOT_FOUND, "not found", "There is no such connection (any more).")
}
