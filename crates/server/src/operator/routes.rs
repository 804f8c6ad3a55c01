//! The operator's calls over HTTP: JSON under `/admin`, beside `/metrics`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::calls::{Call, Operator, calls_about};
use super::history::Step;
use super::machines::Machine;
use crate::admin::{Access, refuse};
use crate::app::{
    ConnectionId, ConnectionOrder, ConnectionQuery, ConnectionTransport, FoundConnections,
    NotAConnection,
};

/// The most connections or topics in an answer.
const ROWS_MAX: usize = 200;

impl Operator {
    /// The routes. With a token, each request must have it. Without one, they only read.
    pub fn routes(self: Arc<Self>, access: Arc<Access>) -> Router {
        Router::new()
            .route("/admin/state", get(state))
            .route("/admin/history", get(history))
            .route("/admin/events", get(events))
            .route("/admin/connections", get(connections))
            .route("/admin/connections/{id}", get(connection))
            .route("/admin/connections/{id}/disconnect", post(disconnect))
            .route("/admin/topics", get(topics))
            .route("/admin/log", put(set_log_level))
            .route_layer(middleware::from_fn_with_state(access, authorize))
            .with_state(self)
    }
}

async fn authorize(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    if access.has_token() {
        return match access.permits(request.headers()) {
            true => next.run(request).await,
            false => access.deny().await,
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

/// Why a call has no answer.
enum Problem {
    BadRequest(String),
    UnknownMachine(String),
    /// The process that knows it did not answer in time.
    NoAnswer,
    /// There is no such connection.
    Gone,
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Problem::BadRequest(rejection.body_text())
    }
}

impl From<NotAConnection> for Problem {
    fn from(_: NotAConnection) -> Self {
        Problem::Gone
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        match self {
            Problem::BadRequest(message) => {
                refuse(StatusCode::BAD_REQUEST, "bad request", &message)
            }
            Problem::UnknownMachine(machine) => {
                let message =
                    format!("There is no machine {machine:?}. /admin/state names all machines.");
                refuse(StatusCode::NOT_FOUND, "unknown machine", &message)
            }
            Problem::NoAnswer => refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "no answer",
                "The process that knows this did not answer in time. Try again.",
            ),
            Problem::Gone => refuse(
                StatusCode::NOT_FOUND,
                "not found",
                "There is no such connection (any more).",
            ),
        }
    }
}

type Answer = Result<Response, Problem>;

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
    let params = params?.0;
    recorded(&operator, &params.machine, Call::State).await
}

async fn history(
    State(operator): State<Arc<Operator>>,
    params: Result<Query<OfMachine>, QueryRejection>,
) -> Answer {
    let OfMachine { machine, step, after } = params?.0;
    recorded(&operator, &machine, Call::History { step, after }).await
}

async fn events(
    State(operator): State<Arc<Operator>>,
    params: Result<Query<OfMachine>, QueryRejection>,
) -> Answer {
    let OfMachine { machine, after, .. } = params?.0;
    recorded(&operator, &machine, Call::Events { after }).await
}

/// The answer of a machine's recorder.
async fn recorded(operator: &Operator, machine: &str, call: Call) -> Answer {
    let machine = find(operator, machine)?;
    operator.call(machine.recorder(), &call).await.map(json_text).ok_or(Problem::NoAnswer)
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
    let ConnectionParams { machine, sort, limit, transport, address, topic } = params?.0;
    check_limit(limit)?;
    let machine = find(&operator, &machine)?;
    let query = ConnectionQuery { sort, limit, transport, address, topic };
    let texts = operator.call_all(&machine, &Call::Connections(query)).await;
    if texts.is_empty() {
        return Err(Problem::NoAnswer);
    }
    let parts = texts.iter().filter_map(|text| serde_json::from_str(text).ok());
    Ok(Json(FoundConnections::merged(parts, limit)).into_response())
}

async fn connection(State(operator): State<Arc<Operator>>, Path(id): Path<String>) -> Answer {
    let (node, details, _) = calls_about(id.parse::<ConnectionId>()?);
    let text = operator.call(node, &details).await.ok_or(Problem::Gone)?;
    let found: FoundConnections = serde_json::from_str(&text).map_err(|_| Problem::Gone)?;
    let connection = found.connections.into_iter().next().ok_or(Problem::Gone)?;
    Ok(Json(connection).into_response())
}

async fn disconnect(State(operator): State<Arc<Operator>>, Path(id): Path<String>) -> Answer {
    let (node, _, end) = calls_about(id.parse::<ConnectionId>()?);
    let ended = operator.call(node, &end).await.ok_or(Problem::Gone)?;
    if ended != "1" {
        return Err(Problem::Gone);
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
    let TopicParams { machine, prefix, limit } = params?.0;
    check_limit(limit)?;
    let machine = find(&operator, &machine)?;
    // A topic may be large only in the sum of several processes, so each names more than are shown.
    let count = limit * 4;
    let texts = operator.call_all(&machine, &Call::Topics { prefix, count }).await;
    if texts.is_empty() {
        return Err(Problem::NoAnswer);
    }
    let mut sums = BTreeMap::<String, u64>::new();
    for text in &texts {
        let topics: Vec<(String, u64)> = serde_json::from_str(text).unwrap_or_default();
        for (topic, subscribers) in topics {
            *sums.entry(topic).or_default() += subscribers;
        }
    }
    let mut topics: Vec<_> = sums.into_iter().collect();
    topics.sort_by_key(|(_, subscribers)| Reverse(*subscribers));
    topics.truncate(limit);
    let topics: Vec<_> = topics
        .into_iter()
        .map(|(topic, subscribers)| json!({ "topic": topic, "subscribers": subscribers }))
        .collect();
    Ok(Json(json!({ "topics": topics })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogParams {
    #[serde(default)]
    machine: String,
    level: String,
}

/// Changes the level of the log in all processes of a machine.
async fn set_log_level(
    State(operator): State<Arc<Operator>>,
    params: Result<Query<LogParams>, QueryRejection>,
) -> Answer {
    let LogParams { machine, level } = params?.0;
    let machine = find(&operator, &machine)?;
    let texts = operator.call_all(&machine, &Call::SetLogLevel { level: level.clone() }).await;
    let answers = texts.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let mut changed = 0;
    for answer in answers {
        match answer["error"].as_str() {
            Some(error) => return Err(Problem::BadRequest(error.to_owned())),
            None => changed += 1,
        }
    }
    Ok(Json(json!({ "level": level, "processes": changed })).into_response())
}

fn find(operator: &Operator, machine: &str) -> Result<Machine, Problem> {
    operator.machine(machine).ok_or_else(|| Problem::UnknownMachine(machine.to_owned()))
}

fn check_limit(limit: usize) -> Result<(), Problem> {
    match (1..=ROWS_MAX).contains(&limit) {
        true => Ok(()),
        false => {
            Err(Problem::BadRequest(format!("limit must be from 1 to {ROWS_MAX}, not {limit}")))
        }
    }
}

fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
