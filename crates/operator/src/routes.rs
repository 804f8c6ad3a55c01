//! The operator's calls over HTTP: JSON under `/admin`, beside `/metrics`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use watchfire::internal::{
    ConnectionId, ConnectionOrder, ConnectionQuery, ConnectionTransport, FoundConnections,
    NotAConnection, WatchAnswer, refuse_call as refuse,
};
use watchfire_tracker::network_of;

use super::client_call::ClientCall;
use super::denied_addresses::TooManyDenied;
use super::machines::Machine;
use super::record::Step;
use super::view::{Call, OperatorView};

/// The most connections or topics in an answer.
const ROWS_MAX: usize = 200;
/// The longest text of an event of the operator's own.
const NOTE_BYTES_MAX: usize = 160;

impl OperatorView {
    /// The routes, without the check of the token.
    pub fn routes(self: Arc<Self>) -> Router {
        Router::new()
            .route("/admin/state", get(state))
            .route("/admin/history", get(history))
            .route("/admin/events", get(events).post(add_event))
            .route("/admin/connections", get(connections))
            .route("/admin/connections/{id}", get(connection))
            .route("/admin/connections/{id}/disconnect", post(disconnect))
            .route("/admin/connections/{id}/messages", get(messages))
            .route("/admin/connections/{id}/payloads", put(set_payloads))
            .route("/admin/addresses/denied", get(denied_addresses))
            .route("/admin/addresses/denied/{address}", put(deny_address).delete(allow_address))
            .route("/admin/topics", get(topics))
            .route("/admin/log", put(set_log_level))
            .with_state(self)
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
    /// Other connections are watched already.
    TooManyWatched,
    TooManyDenied(TooManyDenied),
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
            Problem::TooManyWatched => refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many watched",
                "Operators watch four other connections of this event loop. Stop watching one of them and wait 30 s.",
            ),
            Problem::TooManyDenied(error) => {
                refuse(StatusCode::CONFLICT, "too many denied", &error.to_string())
            }
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
    State(operator): State<Arc<OperatorView>>,
    params: Result<Query<OfMachine>, QueryRejection>,
) -> Answer {
    let params = params?.0;
    recorded(&operator, &params.machine, Call::State).await
}

async fn history(
    State(operator): State<Arc<OperatorView>>,
    params: Result<Query<OfMachine>, QueryRejection>,
) -> Answer {
    let OfMachine { machine, step, after } = params?.0;
    recorded(&operator, &machine, Call::History { step, after }).await
}

async fn events(
    State(operator): State<Arc<OperatorView>>,
    params: Result<Query<OfMachine>, QueryRejection>,
) -> Answer {
    let OfMachine { machine, after, .. } = params?.0;
    recorded(&operator, &machine, Call::Events { after }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoteParams {
    #[serde(default)]
    machine: String,
    text: String,
}

/// Adds an event of the operator's own, such as a deployment.
async fn add_event(
    State(operator): State<Arc<OperatorView>>,
    params: Result<Query<NoteParams>, QueryRejection>,
) -> Answer {
    let NoteParams { machine, text } = params?.0;
    if text.trim().is_empty() || text.len() > NOTE_BYTES_MAX {
        let message = format!("text must have 1 to {NOTE_BYTES_MAX} bytes, not {}", text.len());
        return Err(Problem::BadRequest(message));
    }
    tracing::info!(text, "the operator noted an event");
    recorded(&operator, &machine, Call::Note { kind: "note".to_owned(), text }).await
}

/// The answer of a machine's recorder.
async fn recorded(operator: &OperatorView, machine: &str, call: Call) -> Answer {
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
    State(operator): State<Arc<OperatorView>>,
    params: Result<Query<ConnectionParams>, QueryRejection>,
) -> Answer {
    let ConnectionParams { machine, sort, limit, transport, address, topic } = params?.0;
    check_limit(limit)?;
    let machine = find(&operator, &machine)?;
    let query = ConnectionQuery { sort, limit, transport, address, topic };
    let texts = operator.call_all(&machine, &Call::Clients(ClientCall::Connections(query))).await;
    if texts.is_empty() {
        return Err(Problem::NoAnswer);
    }
    let parts = texts.iter().filter_map(|text| serde_json::from_str(text).ok());
    Ok(Json(FoundConnections::merged(parts, limit)).into_response())
}

async fn connection(State(operator): State<Arc<OperatorView>>, Path(id): Path<String>) -> Answer {
    let id = id.parse::<ConnectionId>()?;
    let details = Call::Clients(ClientCall::details_of(id));
    let text = operator.call(id.node, &details).await.ok_or(Problem::Gone)?;
    let found: FoundConnections = serde_json::from_str(&text).map_err(|_| Problem::Gone)?;
    let connection = found.connections.into_iter().next().ok_or(Problem::Gone)?;
    Ok(Json(connection).into_response())
}

async fn disconnect(State(operator): State<Arc<OperatorView>>, Path(id): Path<String>) -> Answer {
    let parsed = id.parse::<ConnectionId>()?;
    let end = Call::Clients(ClientCall::end_of(parsed));
    let ended = operator.call(parsed.node, &end).await.ok_or(Problem::Gone)?;
    if ended != "1" {
        return Err(Problem::Gone);
    }
    tracing::info!(connection = id, "the operator closed a connection");
    Ok(Json(json!({ "disconnected": true })).into_response())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MessageParams {
    after: u64,
}

async fn messages(
    State(operator): State<Arc<OperatorView>>,
    Path(id): Path<String>,
    params: Result<Query<MessageParams>, QueryRejection>,
) -> Answer {
    watch(&operator, &id, params?.0.after, None).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PayloadParams {
    shown: bool,
}

/// Keeps the payloads of one connection's messages from now on, or no longer.
async fn set_payloads(
    State(operator): State<Arc<OperatorView>>,
    Path(id): Path<String>,
    params: Result<Query<PayloadParams>, QueryRejection>,
) -> Answer {
    let PayloadParams { shown } = params?.0;
    let answer = watch(&operator, &id, 0, Some(shown)).await?;
    match shown {
        true => tracing::warn!(connection = id, "the operator reads the payloads of a connection"),
        false => tracing::info!(connection = id, "the operator no longer reads payloads"),
    }
    Ok(answer)
}

/// The messages of a connection after a number. It is watched from its first call on.
async fn watch(operator: &OperatorView, id: &str, after: u64, payloads: Option<bool>) -> Answer {
    let ConnectionId { node, shard, client } = id.parse()?;
    let call = ClientCall::WatchConnection { shard: shard.0, client, after, payloads };
    let text = operator.call(node, &Call::Clients(call)).await.ok_or(Problem::Gone)?;
    match serde_json::from_str(&text).map_err(|_| Problem::Gone)? {
        WatchAnswer::Messages(messages) => Ok(Json(messages).into_response()),
        WatchAnswer::TooMany => Err(Problem::TooManyWatched),
        WatchAnswer::Gone => Err(Problem::Gone),
    }
}

async fn denied_addresses(State(operator): State<Arc<OperatorView>>) -> Answer {
    let entries = operator.denied_addresses.entries().into_iter();
    let entries =
        entries.map(|(address, until_ms)| json!({ "address": address, "until_ms": until_ms }));
    let entries: Vec<Value> = entries.collect();
    Ok(Json(json!({ "denied": entries })).into_response())
}

/// How long an address is denied when the operator names no time, and at most.
const DENIED_SECONDS: u64 = 3_600;
const DENIED_SECONDS_MAX: u64 = 30 * 86_400;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DenyParams {
    seconds: u64,
}

impl Default for DenyParams {
    fn default() -> Self {
        DenyParams { seconds: DENIED_SECONDS }
    }
}

/// Denies an address in all processes of all machines, and ends its connections.
async fn deny_address(
    State(operator): State<Arc<OperatorView>>,
    Path(address): Path<String>,
    params: Result<Query<DenyParams>, QueryRejection>,
) -> Answer {
    let DenyParams { seconds } = params?.0;
    if !(1..=DENIED_SECONDS_MAX).contains(&seconds) {
        let text = format!("seconds must be from 1 to {DENIED_SECONDS_MAX}, not {seconds}");
        return Err(Problem::BadRequest(text));
    }
    let address = network_of(parse_address(&address)?);
    let denied = &operator.denied_addresses;
    let until_ms =
        denied.deny(address, Duration::from_secs(seconds)).map_err(Problem::TooManyDenied)?;
    let text = format!("The operator denied {address} for {seconds} s");
    operator.note_for_machine("address_denied", text).await;
    let disconnected = operator.end_address(address).await;
    tracing::warn!(%address, seconds, disconnected, "the operator denied an address");
    let answer = json!({ "address": address, "until_ms": until_ms, "disconnected": disconnected });
    Ok(Json(answer).into_response())
}

async fn allow_address(
    State(operator): State<Arc<OperatorView>>,
    Path(address): Path<String>,
) -> Answer {
    let address = network_of(parse_address(&address)?);
    let was_denied = operator.denied_addresses.allow(address);
    if was_denied {
        let text = format!("The operator allowed {address} again");
        operator.note_for_machine("address_allowed", text).await;
        tracing::info!(%address, "the operator allowed an address again");
    }
    Ok(Json(json!({ "address": address, "was_denied": was_denied })).into_response())
}

/// An address, or that of a connection with its port.
fn parse_address(text: &str) -> Result<IpAddr, Problem> {
    let with_port = || text.parse().map(|address: SocketAddr| address.ip());
    text.parse()
        .or_else(|_| with_port())
        .map_err(|_| Problem::BadRequest(format!("{text:?} is not an IP address")))
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
    State(operator): State<Arc<OperatorView>>,
    params: Result<Query<TopicParams>, QueryRejection>,
) -> Answer {
    let TopicParams { machine, prefix, limit } = params?.0;
    check_limit(limit)?;
    let machine = find(&operator, &machine)?;
    // A topic may be large only in the sum of several processes, so each names more than are shown.
    let count = limit * 4;
    let texts =
        operator.call_all(&machine, &Call::Clients(ClientCall::Topics { prefix, count })).await;
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
    State(operator): State<Arc<OperatorView>>,
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

fn find(operator: &OperatorView, machine: &str) -> Result<Machine, Problem> {
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
